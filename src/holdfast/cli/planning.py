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
from holdfast.estimators.automatic import told_basis
from holdfast.experiments import resolve
from holdfast.holdout.plan import make_plan
from holdfast.progress import duration
from holdfast.scores.penalties import COUNT
from holdfast.smoother import Sizes
from holdfast.smoother.make import is_primal, require_room

if TYPE_CHECKING:
    from holdfast.holdout.plan import Plan

__all__ = ["plan_of", "run_explain", "run_explain_columns"]

#: Seconds that every command takes, and of retraining an experiment per m n².
_START, _RETRAINING, _RETRAINED = 1.0, 4e-10, 5


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
    seconds = whole_seconds(model, data, taken.seconds)
    if options.json:
        costs = [{"path": c.path, "seconds": c.seconds, "bytes": c.bytes} for c in plan.costs]
        facts = {name: _json_value(value) for name, value in plan.facts.items()}
        found = {"path": plan.path, "asked": plan.asked, "costs": costs, "facts": facts}
        print(json.dumps({**found, "seconds": seconds, "remarks": remarks}, indent=2))
        return 0
    print(f"{data.label}, held out by {cv.words}\n")
    print(plan)
    told = f"about {duration(seconds)}" if seconds >= 1 else "about a second"
    print(f"{told} for holdfast cv on this machine: all widths, checks and findings of the report")
    for text in remarks:
        remark(f"note: {text}", options.quiet)
    return 0


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


def whole_seconds(model: Any, data: Data, held_out: float) -> float:
    """Return about how long `holdfast cv` would take.

    Parameters
    ----------
    model : unfitted estimator
    data : Data
    held_out : float
        Seconds of the held-out predictions of one width, by the plan.

    Notes
    -----
    Each width is fitted and held out, the report asks once or twice more, retrains a few
    experiments and makes intervals of single predictions, for which there are some ten seconds.
    """
    problem, candidates = model._prepare(data.X, data.y, data.weights, data.groups)
    m, selector = float(len(data.X)), as_selector(problem.basis, len(data.X))
    if selector is not None:
        n = float(_basis_size(selector, data))
        fit = BASIS_SECONDS * m * n * n
    else:
        n = m
        fit = DENSE_SECONDS * m**3
        if is_primal(candidates[0].kernel, problem.X):
            n = float(data.X.shape[1])
            fit = BASIS_SECONDS * m * n * n
    checks = _RETRAINED * _RETRAINING * m * n * n
    intervals = 0.0 if problem.labels.ndim == 1 else min(10.0, m * n * 2e-6)
    return _START + len(candidates) * (fit + held_out) + 2 * held_out + checks + intervals


def plan_of(model: Any, data: Data) -> tuple[Plan, list[str]]:
    """Return the plan that fitting would follow, and remarks on what was guessed.

    Parameters
    ----------
    model : unfitted estimator
    data : Data

    Notes
    -----
    Which basis rows a selector picks is not known before it runs, and running it may be the larger
    part of the work: for the plan, random rows stand in for them.
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
                "random rows stand in for them here."
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
