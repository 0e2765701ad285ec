"""From a fitted model to its summary."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import LeaveOneGroupOut, LeaveOneOut
from sklearn.utils.validation import check_is_fitted

from holdfast.displays.curve_data import CVCurve, cv_curve, policy_curves
from holdfast.displays.row_data import PartScore, RowResults, part_scores, row_results
from holdfast.exceptions import HoldOutError, NotSupportedError
from holdfast.files.archive import library_versions
from holdfast.report import words
from holdfast.report.summary import (
    Asked,
    Certificate,
    Confusion,
    Contrast,
    HardRow,
    Headline,
    Leverage,
    PathCost,
    PlanTable,
    Repeat,
    RowSample,
    Summary,
)

if TYPE_CHECKING:
    from holdfast.estimators.base import CrossValidatedKernelRidge
    from holdfast.tables.account import ColumnAccount
    from holdfast.tables.inside import InsideOut

__all__ = ["Context", "summarise"]

MAX_POINTS = 4000
MAX_PARTS = 300
N_HARDEST = 12
VERIFY_SEED = 0


@dataclass(frozen=True)
class Context:
    """What the model itself does not know: names, and where the data came from.

    Attributes
    ----------
    title : str
        Heading of the report.
    target : str
        Name of the target.
    feature_names : tuple of str, optional
        Names of the features; by default those the model was fitted with, else x0, x1, …
    group : str
        Name of the grouping.
    cv : str, optional
        The way of holding out, in words that follow "held out by".
    preparation : tuple of str
        What was done to the columns before, one sentence each.
    command, data, checksum : str, optional
        How to repeat it.
    warnings : tuple of str
        What fitting warned of.
    columns : tuple of ColumnAccount
        How each column of a data file was read (`holdfast.tables.account`).
    doubts : tuple of str
        What may be wrong with the data or the question (`holdfast.tables.doubts`).
    inside : InsideOut, optional
        What the preparation costs (`holdfast.tables.inside`).
    """

    title: str = "Held-out report"
    target: str = "y"
    feature_names: tuple[str, ...] | None = None
    group: str = "group"
    cv: str | None = None
    preparation: tuple[str, ...] = ()
    command: str | None = None
    data: str | None = None
    checksum: str | None = None
    warnings: tuple[str, ...] = ()
    columns: tuple[ColumnAccount, ...] = ()
    doubts: tuple[str, ...] = ()
    inside: InsideOut | None = None


def summarise(
    model: CrossValidatedKernelRidge,
    context: Context | None = None,
    *,
    contrast: bool = True,
    verify: int = 5,
    target: int = 0,
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
    verify : int, default 5
        How many experiments to retrain for the certificate; 0 for none.
    target : int, default 0
        Which of several targets the rows, parts and errors are of.
    """
    check_is_fitted(model)
    context = context or Context()
    results = row_results(model, target=target)
    curve = cv_curve(model)
    groups = model._problem.groups
    asked = _asked(model, context)
    head = _headline(curve, results)
    notes = list(context.warnings)
    contrasts = _contrasts(model, results, asked, target, notes) if contrast else ()
    policies = {}
    if model._problem.basis is not None and model.held_out_basis != "reselect":
        try:
            policies = policy_curves(model)
        except HoldOutError as error:
            notes.append(f"No comparison of keeping and removing basis rows: {error}")
    leverage = model._leverages()
    return Summary(
        title=context.title,
        asked=asked,
        answer=words.answer(asked, head, contrasts),
        headline=head,
        curve=curve,
        policies=policies,
        contrasts=contrasts,
        rows=_sample(results, groups),
        folds=_folds(results, groups),
        groups=_group_scores(results, groups),
        confusion=_confusion(results),
        leverage=_leverage(leverage, model._problem.weights),
        hardest=_hardest(results, groups, leverage),
        plan=_plan(model),
        certificate=_certificate(model, verify, notes),
        repeat=Repeat(
            command=context.command,
            versions=tuple(library_versions().items()),
            seed=model._problem.seed,
            data=context.data,
            checksum=context.checksum,
        ),
        warnings=tuple(notes),
        columns=context.columns,
        doubts=context.doubts,
        inside=context.inside,
    )


def _asked(model: CrossValidatedKernelRidge, context: Context) -> Asked:
    training = model._problem
    m, d = training.X.shape[0], int(getattr(model, "n_features_in_", 0))
    names = context.feature_names
    if names is None:
        known = getattr(model, "feature_names_in_", None)
        names = tuple(f"x{j}" for j in range(d)) if known is None else tuple(map(str, known))
    n_groups = 0 if training.groups is None else len(np.unique(training.groups))
    basis = "all rows (dense)"
    if model._problem.basis is not None:
        basis = f"{len(model.basis_indices_):,} of {m:,} rows"
        selector = type(model._problem.basis).__name__
        if hasattr(model._problem.basis, "select"):
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
        policy=model.held_out_basis if model._problem.basis is not None else "remove (dense)",
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
    )


def _contrasts(
    model: CrossValidatedKernelRidge,
    results: RowResults,
    asked: Asked,
    target: int,
    notes: list[str],
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
            notes.append(f"No comparison with {name}: {error}")
            continue
        best = int(np.nanargmax(held.score(model.scoring, pooled=True)))
        one = dataclasses.replace(held, alphas=held.alphas[[best]], values=held.values[[best]])
        error_there = row_results(model, one, target).score()
        found.append(Contrast(name, error_there, float(held.alphas[best]), asked=False))
    return tuple(found) if len(found) > 1 else ()


def _sample(results: RowResults, groups: NDArray[Any] | None) -> RowSample:
    k = len(results.rows)
    # A regular part, not a random one: the same data give the same page.
    pick = np.arange(k) if k <= MAX_POINTS else np.linspace(0, k - 1, MAX_POINTS).astype(int)
    rows = results.rows[pick]
    y, prediction = results.y[pick], results.prediction[pick]
    if results.classes is not None:
        y, prediction = y.astype(str), prediction.astype(str)
    labels = () if groups is None else tuple(map(str, groups[rows]))
    return RowSample(rows, y, prediction, labels, k)


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


def _plan(model: CrossValidatedKernelRidge) -> PlanTable:
    plan = model.explain()
    cheapest = min(cost.seconds for cost in plan.costs)
    why = (
        "the cheapest that fits" if plan.asked == "auto" else f"asked for with path={plan.asked!r}"
    )
    return PlanTable(
        facts=tuple((name, _fact(value)) for name, value in plan.facts.items()),
        costs=tuple(
            PathCost(
                cost.path,
                cost.seconds,
                cost.seconds / cheapest if cheapest > 0 else 1.0,
                cost.bytes / 1e6,
                cost.path == plan.path,
            )
            for cost in plan.costs
        ),
        why=f"{plan.path}: {why}",
    )


def _fact(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _certificate(
    model: CrossValidatedKernelRidge, n_experiments: int, notes: list[str]
) -> Certificate | None:
    if n_experiments < 1:
        return None
    try:
        found = model.verify(n_experiments, random_state=VERIFY_SEED)
    except NotSupportedError as error:
        notes.append(str(error))
        return None
    return Certificate(
        int(found.experiments.size),
        int(found.alphas.size),
        float(found.max_relative_error),
        VERIFY_SEED,
    )
