"""The command explain: the plan of cv and its cost, without the fit."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.answers.model import make_model
from holdfast.answers.rows import rows_with_kernel
from holdfast.basis import Random
from holdfast.basis.base import how_many
from holdfast.basis.resolve import as_selector
from holdfast.cli.console import collected_warnings, remark, say, showing_progress
from holdfast.cli.fitting import (
    BASIS_SECONDS,
    DENSE_SECONDS,
    Data,
    cv_of,
    explain_columns,
    read_data,
    timely_model,
)
from holdfast.cli.fitting import (
    make_model as unfitted,
)
from holdfast.cli.tuning import TUNED
from holdfast.estimators.automatic import told_basis
from holdfast.experiments import resolve
from holdfast.holdout.plan import make_plan
from holdfast.progress import duration
from holdfast.scores.penalties import COUNT
from holdfast.smoother import Sizes
from holdfast.smoother.make import is_primal, require_room

if TYPE_CHECKING:
    from holdfast.holdout.plan import Plan

__all__ = ["plan_of", "run_explain", "run_explain_columns", "tune_seconds", "whole_seconds"]

#: Seconds that every command takes, and of retraining an experiment per m n².
_START, _RETRAINING, _RETRAINED = 1.0, 4e-10, 5
#: What tune evaluates; seconds of one evaluation per m³ of a dense model, m n² of n basis rows, and
#: m n d for the slopes of d widths. On problems of 200 to 2,000 rows right within a factor of 2.
_EVALUATIONS, _DENSE_SLOPE, _BASIS_SLOPE, _WIDTHS = 110, 2e-10, 8e-10, 5e-9


def run_explain(options: argparse.Namespace) -> int:
    """Say how cv would be computed and what it would cost."""
    if options.explain_columns:
        return run_explain_columns(options)
    cv = cv_of(options)
    unfitted(options, cv)
    with showing_progress(options.quiet):
        data = read_data(options)
        cv = cv_of(options, data)
        model, timely = timely_model(options, data, cv)
        plan, remarks = plan_of(model, data)
        remarks = [*timely, *remarks]
    taken = next(cost for cost in plan.costs if cost.path == plan.path)
    seconds = whole_seconds(model, data, taken.seconds, options.seconds / 60)
    tuned = options.kernel in TUNED and not options.band
    tuning = tune_seconds(unfitted(options, cv, data.preparation), data) if tuned else None
    if options.json:
        costs = [{"path": c.path, "seconds": c.seconds, "bytes": c.bytes} for c in plan.costs]
        facts = {name: _json_value(value) for name, value in plan.facts.items()}
        found = {"path": plan.path, "asked": plan.asked, "costs": costs, "facts": facts}
        times = {"seconds": seconds, "tune_seconds": tuning}
        print(json.dumps({**found, **times, "remarks": remarks}, indent=2))
        return 0
    lines = [f"{data.label}, held out by {cv.words}\n", str(plan), _about(seconds, "cv")]
    say(*lines, *([] if tuning is None else [_about(tuning, "tune")]))
    for text in remarks:
        remark(f"note: {text}", options.quiet)
    return 0


def _about(seconds: float, command: str) -> str:
    told = f"about {duration(seconds)}" if seconds >= 1 else "about a second"
    what = {
        "cv": "all widths, checks and findings of the report",
        "tune": "a width for each feature, and what each feature is worth",
    }
    return f"{told} for holdfast {command} on this machine: {what[command]}"


def run_explain_columns(options: argparse.Namespace) -> int:
    """Say how each column is read, without a fit."""
    from holdfast.report.sections import columns_table

    with showing_progress(options.quiet), collected_warnings() as messages:
        columns, source, n_rows = explain_columns(options)
    if options.json:
        rows = [dataclasses.asdict(column) for column in columns]
        found = {"data": source.label, "rows": n_rows, "notes": source.notes, "columns": rows}
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return 0
    say(
        f"{source.label}: {n_rows:,} rows, {len(source.names):,} columns",
        *(f"  {note}" for note in source.notes),
        *columns_table(columns),
    )
    for text in messages:
        remark(f"note: {text}", options.quiet)
    return 0


def _json_value(value: object) -> object:
    return value if isinstance(value, int | float | str | bool | None) else str(value)


def whole_seconds(model: Any, data: Data, held_out: float, patience: float = 1.0) -> float:
    """Return about how long `holdfast cv` would take.

    Parameters
    ----------
    model : unfitted estimator
    data : Data
    held_out : float
        Seconds of the held-out predictions of one width, by the plan.
    patience : float
        How much longer than by default findings may take.

    Notes
    -----
    Each width is fitted and held out, the report asks once or twice more, retrains a few
    experiments and makes intervals of single predictions.
    """
    from holdfast.report.bounds import meetings
    from holdfast.report.spread import SECONDS

    problem, candidates = model._prepare(data.X, data.y, data.weights, data.groups)
    m, n, dense = _sizes(problem, data)
    if is_primal(candidates[0].kernel, problem.X) and dense:
        n, dense = float(data.X.shape[1]), False
    fit = (DENSE_SECONDS if dense else BASIS_SECONDS) * m * n * n
    checks = _RETRAINED * _RETRAINING * m * n * n
    intervals = 0.0
    if problem.labels.ndim > 1:
        intervals = meetings(problem.experiments, int(n), SECONDS * patience)[1]
    return _START + len(candidates) * (fit + held_out) + 2 * held_out + checks + intervals


def tune_seconds(model: Any, data: Data) -> float:
    """Return about how long `holdfast tune` would take (see `whole_seconds`)."""
    problem, _ = model._prepare(data.X, data.y, data.weights, data.groups)
    m, n, dense = _sizes(problem, data)
    slope = _DENSE_SLOPE if dense else _BASIS_SLOPE
    each = slope * m * n * n + _WIDTHS * m * n * float(data.X.shape[1])
    return _START + _EVALUATIONS * each


def _sizes(problem: Any, data: Data) -> tuple[float, float, bool]:
    """Return the number of rows, of rows that the model expands in, and whether that is all."""
    m, selector = len(data.X), as_selector(problem.basis, len(data.X))
    return float(m), float(m if selector is None else _basis_size(selector, data)), selector is None


def plan_of(model: Any, data: Data) -> tuple[Plan, list[str]]:
    """Return the plan that fitting would follow, and remarks on what was guessed.

    Parameters
    ----------
    model : unfitted estimator
    data : Data

    Notes
    -----
    Which basis rows a selector picks is not known before it runs, and running it may be the larger
    part of the work: the plan uses random rows instead.
    """
    problem, candidates = model._prepare(data.X, data.y, data.weights, data.groups)
    m, kernel = problem.weights.size, candidates[0].kernel
    remarks = []
    selector, basis = as_selector(problem.basis, m), None
    if model.basis == "auto" and selector is not None:
        remarks.append(f"Basis rows: {told_basis(problem.basis, m)} (--basis says how many).")
    if selector is not None:
        size = _basis_size(selector, data)
        basis = np.sort(np.random.default_rng(problem.seed).permutation(m)[:size])
        if not isinstance(selector, Random):
            remarks.append(
                f"The cost of choosing the basis rows ({type(selector).__name__}) is not counted; "
                "random rows are used here instead."
            )
    if problem.policy == "reselect" and basis is not None:
        remarks.append('"reselect" retrains every experiment: expect the naive cost.')
    if len(candidates) > 1:
        remarks.append(
            f"The table is for one kernel width; {len(candidates)} are compared, and the time is "
            "for all of them."
        )
    weights, policy = problem.weights, problem.policy
    tasks = resolve(problem.experiments, weights=weights, basis=basis, policy=policy)
    n_alphas = problem.alphas.size or COUNT
    if basis is not None or is_primal(kernel, problem.X):
        data_ = rows_with_kernel(kernel, problem.X, None)
        sizes = make_model(problem, kernel, data_, basis).smoother.sizes(tasks)
    else:
        require_room(m, problem.memory)
        sizes = Sizes("kernel", m, m, problem.Y.shape[1], None, problem.memory)
    return make_plan(tasks, sizes, n_alphas, problem.path), remarks


def _basis_size(selector: Any, data: Data) -> int:
    m = len(data.X)
    if hasattr(selector, "k") and data.groups is not None:
        return min(m, int(selector.k) * len(np.unique(data.groups)))
    size = getattr(selector, "n", getattr(selector, "max_size", None))
    return how_many(size if size is not None else min(m, 500), m)
