"""From a fitted model to its summary."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import LeaveOneGroupOut, LeaveOneOut
from sklearn.utils.validation import check_is_fitted

from holdfast.basis import Points
from holdfast.displays.curve_data import CVCurve, cv_curve
from holdfast.exceptions import HoldOutError
from holdfast.files.archive import library_versions
from holdfast.report import words
from holdfast.report.checks import certificate, plan_table
from holdfast.report.classes import ask_classes
from holdfast.report.context import Context
from holdfast.report.growth import Growth, ask_basis_growth, ask_growth
from holdfast.report.linked import MOST_NUMBERS, Linked, ask_linked
from holdfast.report.moments import ask_time
from holdfast.report.policies import policy_curves
from holdfast.report.relevance import ask_relevance
from holdfast.report.rows import PartScore, RowResults, part_scores, row_results
from holdfast.report.spread import ask_coverage
from holdfast.report.summary import (
    Asked,
    Confusion,
    Contrast,
    HardRow,
    Headline,
    Leverage,
    Repeat,
    RowSample,
    Summary,
)
from holdfast.report.sure import Ask, ask_sureness

if TYPE_CHECKING:
    from holdfast.estimators.base import CrossValidatedKernelRidge

__all__ = ["summarise"]

MAX_POINTS = 1200
MAX_PARTS = 300
N_HARDEST = 12


def summarise(
    model: CrossValidatedKernelRidge,
    context: Context | None = None,
    *,
    contrast: bool = True,
    verify: int | None = None,
    target: int = 0,
    ask: Ask | None = None,
) -> Summary:
    """Return everything a report says of a fitted model.

    Parameters
    ----------
    model : fitted KernelRidgeCV or KernelRidgeClassifierCV
    context : Context, optional
        Names and provenance.
    contrast : bool, default True
        Whether to ask, when the model was fitted with groups, what other ways of holding out
        (leave-one-out, leave-one-group-out) would have said.
    verify : int, optional
        How many experiments to retrain for the certificate; 0 for none. None: five, or fewer where
        that would take long.
    target : int, default 0
        Which of several targets the rows, parts and errors are of.
    ask : Ask, optional
        How sure the score is: level of its interval, nested choice, permutations.
    """
    check_is_fitted(model)
    context, ask = context or Context(), ask or Ask()
    alpha = float(np.atleast_1d(model.alpha_)[min(target, np.size(model.alpha_) - 1)])
    held = model.held_out(alphas=[alpha])
    results = row_results(model, held, target)
    curve = cv_curve(model)
    groups = model._problem.groups
    asked = _asked(model, context)
    head = _headline(curve, results)
    told, shell = list(context.warnings), context.wording is not None
    contrasts = _contrasts(model, results, asked, target, told) if contrast else ()
    policies = {}
    if model._problem.on_basis and not model._problem.reselects:
        try:
            policies = policy_curves(model)
        except HoldOutError as error:
            told.append(f"No comparison of keeping and removing basis rows: {error}")
    leverage = model._leverages()
    sure = ask_sureness(model, curve, ask, told, target, shell)
    parts = _group_scores(results, groups)
    growth = {
        "growth": ask_growth(model, curve, told, ask, shell),
        "basis": ask_basis_growth(model, curve, told, ask, shell),
    }
    return Summary(
        title=context.title,
        asked=asked,
        answer=words.answer(asked, head, contrasts, sure),
        headline=head,
        curve=curve,
        policies=policies,
        contrasts=contrasts,
        rows=_sample(results, groups),
        folds=_folds(results, groups),
        groups=parts,
        confusion=_confusion(results),
        leverage=_leverage(leverage, model._problem.weights),
        hardest=_hardest(results, groups, leverage),
        plan=plan_table(model),
        certificate=certificate(model, verify, told, ask.patience),
        repeat=Repeat(
            command=context.command,
            versions=tuple(library_versions().items()),
            seed=model._problem.seed,
            data=context.data,
            checksum=context.checksum,
        ),
        columns=context.columns,
        notes=context.notes,
        inside=context.inside,
        sure=sure,
        linked=_linked(model, curve, results, parts, target, told, shell),
        coverage=ask_coverage(model, results, ask, target, told),
        classes=ask_classes(held),
        relevance=ask_relevance(
            model, held, asked.feature_names, context.sources, told, ask, target, shell
        ),
        growth={name: found for name, found in growth.items() if isinstance(found, Growth)},
        time=(
            ask_time(results, context.time, context.moments, held, target)
            if context.time is not None and context.moments is not None
            else None
        ),
        warnings=tuple(map(context.wording, told) if context.wording else told),
        shell=shell,
    )


def _linked(
    model: CrossValidatedKernelRidge,
    curve: CVCurve,
    results: RowResults,
    parts: tuple[PartScore, ...],
    target: int,
    told: list[str],
    shell: bool,
) -> Linked | None:
    count = float(results.rows.size) * curve.alphas.size * model._problem.Y.shape[1]
    if count > MOST_NUMBERS or model._problem.reselects:
        told.append(words.left_out("the slider over the penalties", shell))
        return None
    found = model.held_out(alphas=curve.alphas)
    groups = model._problem.groups
    return ask_linked(found, curve, results, _picked(results), parts, groups, target)


def _asked(model: CrossValidatedKernelRidge, context: Context) -> Asked:
    training = model._problem
    m, d = training.X.shape[0], int(getattr(model, "n_features_in_", 0))
    names = context.feature_names
    if names is None:
        known = getattr(model, "feature_names_in_", None)
        names = tuple(f"x{j}" for j in range(d)) if known is None else tuple(map(str, known))
    n_groups = 0 if training.groups is None else len(np.unique(training.groups))
    basis = "all rows (dense)"
    if model._problem.on_basis:
        basis = f"{len(model.basis_indices_):,} of {m:,} rows"
        selector = type(model._problem.basis).__name__
        if isinstance(model._problem.basis, Points):
            basis = f"{len(model.basis_indices_):,} points that are no rows"
        elif hasattr(model._problem.basis, "select"):
            basis += f", chosen by {selector}"
    classifier = model._classes is not None
    return Asked(
        task="classification" if classifier else "regression",
        rows=m,
        features=d,
        target=context.target,
        feature_names=names,
        group=context.group if n_groups else None,
        n_groups=n_groups,
        weighted=bool((training.weights != training.weights[0]).any()),
        kernel=words.shortened(repr(model._kernel)),
        basis=basis,
        cv=context.cv or describe_cv(model.cv, context.group),
        policy=model.held_out_basis if model._problem.on_basis else "remove (dense)",
        grid=(
            f"{len(training.alphas)} penalties from {words.number(float(training.alphas[0]), 2)} "
            f"to {words.number(float(training.alphas[-1]), 2)}"
        ),
        metric=cv_curve(model).scale.label,
        experiments=len(training.experiments),
        preparation=context.preparation,
    )


def describe_cv(cv: Any, group: str) -> str:
    """Return a way of holding out in words that follow "held out by"."""
    if cv is None or isinstance(cv, LeaveOneOut):
        return "leave-one-out"
    if isinstance(cv, LeaveOneGroupOut):
        return f"leave-one-{group}-out"
    if isinstance(cv, (int, np.integer)):
        return f"{cv}-fold cross-validation"
    if hasattr(cv, "split"):
        return repr(cv)
    return "experiments of your own"


def _headline(curve: CVCurve, results: RowResults) -> Headline:
    at = curve.chosen_index
    error, baseline = results.score(), results.baseline_score()
    power = 2 if results.classes is None else 1
    skill = 1 - (error / baseline) ** power if baseline > 0 else float("nan")
    return Headline(
        label=curve.scale.label,
        value=float(curve.values[at]),
        se=float(curve.se[at]),
        lower_is_better=curve.scale.lower_is_better,
        error_label=results.label,
        error=error,
        baseline=baseline,
        skill=skill,
        alpha=curve.chosen[0],
        balanced=results.balanced(),
    )


def _contrasts(
    model: CrossValidatedKernelRidge,
    results: RowResults,
    asked: Asked,
    target: int,
    told: list[str],
) -> tuple[Contrast, ...]:
    """Return the ways of holding out, the asked one first; () if there is nothing to compare."""
    if asked.n_groups < 2 or model.held_out_basis == "reselect":
        return ()
    alpha = float(np.atleast_1d(model.alpha_)[0])
    found = [Contrast(asked.cv, results.score(), alpha, asked=True)]
    by_group = isinstance(model.cv, LeaveOneGroupOut)
    by_row = model.cv is None or isinstance(model.cv, LeaveOneOut)
    ways: list[tuple[str, Any]] = []
    if not by_row:
        ways.append(("leave-one-out", LeaveOneOut()))
    if not by_group and asked.experiments != asked.n_groups:
        ways.append((f"leave-one-{asked.group}-out", LeaveOneGroupOut()))
    for name, cv in ways:
        try:
            held = model.held_out(cv)
        except HoldOutError as error:
            told.append(f"No comparison with {name}: {error}")
            continue
        best = int(np.nanargmax(held.score(model.scoring, pooled=True)))
        one = dataclasses.replace(held, alphas=held.alphas[[best]], values=held.values[[best]])
        error_there = row_results(model, one, target).score()
        found.append(Contrast(name, error_there, float(held.alphas[best]), asked=False))
    return tuple(found) if len(found) > 1 else ()


def _sample(results: RowResults, groups: NDArray[Any] | None) -> RowSample:
    k, pick = len(results.rows), _picked(results)
    rows = results.rows[pick]
    y, prediction = results.y[pick], results.prediction[pick]
    if results.classes is not None:
        y, prediction = y.astype(str), prediction.astype(str)
    labels = () if groups is None else tuple(map(str, groups[rows]))
    return RowSample(rows, y, prediction, labels, k)


def _picked(results: RowResults) -> NDArray[np.int64]:
    """Return which entries are drawn: a regular part, so that the same data give the same page."""
    k = len(results.rows)
    return np.arange(k) if k <= MAX_POINTS else np.linspace(0, k - 1, MAX_POINTS).astype(np.int64)


def _folds(results: RowResults, groups: NDArray[Any] | None) -> tuple[PartScore, ...]:
    numbers = np.unique(results.experiment)
    if len(numbers) > MAX_PARTS or len(numbers) == len(np.unique(results.rows)):
        return ()
    if groups is not None:
        # Experiments that are the groups are shown by the groups' names instead.
        pairs = set(zip(results.experiment.tolist(), groups[results.rows].tolist(), strict=True))
        if len(pairs) == len(numbers) == len({label for _, label in pairs}):
            return ()
    return part_scores(results, results.experiment, [f"fold {j + 1}" for j in numbers])


def _group_scores(results: RowResults, groups: NDArray[Any] | None) -> tuple[PartScore, ...]:
    if groups is None:
        return ()
    return part_scores(results, groups[results.rows])[:MAX_PARTS]


def _confusion(results: RowResults) -> Confusion | None:
    if results.classes is None:
        return None
    n = len(results.classes)
    cells = np.searchsorted(results.classes, results.y) * n
    cells = cells + np.searchsorted(results.classes, results.prediction)
    counts = np.bincount(cells, minlength=n * n).reshape(n, n)
    return Confusion(
        tuple(map(str, results.classes)), tuple(tuple(map(int, row)) for row in counts)
    )


def _leverage(values: NDArray[np.float64], weights: NDArray[np.float64]) -> Leverage:
    seen = values[weights > 0]
    top = float(seen.max())
    counts, edges = np.histogram(seen, bins=30, range=(0.0, top if top > 0 else 1.0))
    return Leverage(edges, counts.astype(np.int64), float(seen.sum()), top)


def _hardest(
    results: RowResults, groups: NDArray[Any] | None, leverage: NDArray[np.float64]
) -> tuple[HardRow, ...]:
    order = np.argsort(-results.badness, kind="stable")
    hardest: list[HardRow] = []
    seen: set[int] = set()
    for at in order:
        row = int(results.rows[at])
        # Repeated cross-validation tests a row often; its worst time counts.
        if row in seen or results.weights[at] == 0:
            continue
        seen.add(row)
        hardest.append(
            HardRow(
                row=row,
                group=None if groups is None else str(groups[row]),
                y=_item(results.y[at]),
                prediction=_item(results.prediction[at]),
                error=float(results.error[at] if results.classes is None else results.badness[at]),
                leverage=float(leverage[row]),
            )
        )
        if len(hardest) == N_HARDEST:
            break
    return tuple(hardest)


def _item(value: Any) -> float | str:
    return float(value) if isinstance(value, (float, np.floating)) else str(value)
