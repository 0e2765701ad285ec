"""A search over kernels: evaluate each on the whole grid of penalties, keep the best.

All candidates share the experiments, the basis rows (unless their choice depends on the kernel)
and, for kernels of the Euclidean distance, the distances. The scores of finished candidates can be
kept in a checkpoint folder. Ctrl-C ends the search with the best candidate finished by then.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.answers.question import Fitted, Judge, fit_units
from holdfast.answers.scored import scored, unit_of
from holdfast.basis import Points, Selector
from holdfast.data.dask import is_dask
from holdfast.estimators.checkpoint import Checkpoint
from holdfast.estimators.model import (
    Model,
    choose_basis,
    expanded_in,
    make_model,
    rows_with_kernel,
    selector_of,
)
from holdfast.estimators.problem import Problem
from holdfast.exceptions import HoldfastWarning, SelectionBiasWarning, warn
from holdfast.experiments import Tasks
from holdfast.holdout.accuracy import WORTH_A_WARNING, data_floor, warn_of_rounding
from holdfast.holdout.costs import COPIES_OF_SETS, MOST_PREDICTIONS
from holdfast.holdout.plan import Plan
from holdfast.holdout.spread import Spread, spread
from holdfast.kernels import Precomputed
from holdfast.kernels.grid import Candidate
from holdfast.kernels.matrix import KernelData, SharedDistances
from holdfast.progress import report
from holdfast.scores.choice import Choice, choose, cv_results, rank
from holdfast.scores.metrics import METRICS
from holdfast.scores.penalties import Penalties, extended
from holdfast.scores.scoring import (
    MAX_SPLITS,
    Scores,
    Scoring,
    combine,
    in_units,
)

#: Doubles of held-out predictions that a fitted model keeps for `held_out`.
KEPT_DOUBLES = 2**21


@dataclass(frozen=True, eq=False)
class Planned:
    """A candidate on all rows, with the tasks that judge it and the plan for them.

    `seen` collects its held-out predictions, with the penalties they are for, and `added` what the
    algebra adds to them at each penalty.
    """

    model: Model
    tasks: Tasks
    plan: Plan
    seen: list[tuple[FloatArray, FloatArray]] = field(default_factory=list)
    added: dict[float, float] = field(default_factory=dict)

    def floor(self, alphas: FloatArray) -> FloatArray:
        """Return what double precision cannot represent at each penalty."""
        return data_floor(self.model.smoother, self.tasks, alphas)

    def rounding(self, alphas: FloatArray) -> FloatArray:
        """Return the predicted rounding error of held-out predictions at each penalty."""
        added = np.array([self.added.get(alpha, 0.0) for alpha in alphas.tolist()])
        return np.asarray(np.maximum(self.floor(alphas), added))

    def resolved(self, grid: Penalties) -> Penalties:
        """Return a default grid without the penalties that double precision cannot resolve."""
        if grid.unit is None:
            return grid
        floor = self.floor(grid.alphas)
        return grid.without_lowest(np.isfinite(floor) & (floor > WORTH_A_WARNING))

    def known(self, alphas: FloatArray) -> FloatArray | None:
        """Return the predictions at all of these penalties, or None where they were too many."""
        grids = [grid for grid, _ in self.seen]
        if not grids or sum(grid.size for grid in grids) != alphas.size:
            return None
        if len(grids) == 1:
            return self.seen[0][1]
        values = np.concatenate([values for _, values in self.seen])
        return np.asarray(values[np.argsort(np.concatenate(grids), kind="stable")])


@dataclass(frozen=True, eq=False)
class Found:
    """The outcome of a search.

    Attributes
    ----------
    index : int
        The best candidate.
    model : Model
        The best candidate, on all rows.
    plan : Plan
        How its held-out predictions were computed.
    choice : Choice
        Its penalty.
    alphas : ndarray of shape (a,)
        The penalties it was compared at.
    results : dict
        Columns over all finished candidates and penalties.
    start : int
        Where its penalties start in these columns.
    known : ndarray of shape (a, test rows, v) or None
        Its held-out predictions, if they are few enough to be kept.
    """

    index: int
    model: Model
    plan: Plan
    choice: Choice
    alphas: FloatArray
    results: dict[str, Any]
    start: int
    known: FloatArray | None


def search(
    problem: Problem,
    candidates: Sequence[Candidate],
    grids: Sequence[Penalties],
    scoring: Scoring,
    *,
    pooled: bool,
    rule: str,
    per_target: bool,
    store: Checkpoint | None,
    cv: Any = None,
) -> Found:
    """Return the best candidate and penalty; `grids` are the penalties of each candidate.

    Notes
    -----
    A default grid loses the penalties that double precision cannot resolve. Where its best penalty
    lies at an end, it is extended there, with the factors that are there already.

    Distances are computed once for all RBF and Matérn candidates that share basis rows, if the
    m × n matrix fits in the memory limit beside the features.
    """
    provider = _DataProvider(problem, candidates)
    finished: list[tuple[FloatArray, Scores]] = []
    winner, best = 0, -np.inf
    kept: Planned | None = None  # the winner, unless its scores came from the checkpoint
    for index, (candidate, grid) in enumerate(zip(candidates, grids, strict=True)):
        try:
            report(index, len(candidates), "kernels")
            planned = chosen = None
            known = None if store is None else store.load(candidate)
            if known is None:
                planned = _planned(provider, problem, candidate, grid.alphas.size)
                grid = planned.resolved(grid)
                scores = _scores(problem, planned, scoring, per_target, grid.alphas)
                chosen = _best(scores, grid.alphas, pooled, per_target)
                more = partial(_scores, problem, planned, scoring, per_target)
                places = np.atleast_1d(chosen.indices)
                known = extended(grid, scores, places, more, planned.floor)
                if store is not None:
                    store.save(candidate, *known)
            if chosen is None or known[0] is not grid.alphas:  # loaded, or extended
                chosen = _best(known[1], known[0], pooled, per_target)
            value = float(np.mean(chosen.score))
        except KeyboardInterrupt:
            if not finished:
                raise
            warn(
                f"interrupted after {index} of {len(candidates)} kernels: the result is the best "
                "of those.",
                HoldfastWarning,
            )
            break
        finished.append(known)
        if value > best:
            winner, best, kept = index, value, planned
    report(len(finished), len(candidates), "kernels")
    if kept is None:
        kept = _planned(provider, problem, candidates[winner], grids[winner].alphas.size)
    alphas, scores = finished[winner]
    problem = replace(problem, alphas=alphas)
    if rule == "1se":
        scores = _with_row_errors(problem, kept, scoring, scores, pooled, per_target, cv)
    choice = choose(scores, alphas, pooled=pooled, rule=rule, per_target=per_target)
    values = kept.known(alphas)
    chosen_ones = np.unique(np.atleast_1d(choice.indices))
    assert scores.rounding is not None
    warn_of_rounding(alphas[chosen_ones], scores.rounding[chosen_ones])
    # Penalties are compared in a unit in which scores neither over- nor underflow.
    unit = unit_of(scoring, problem.labels)
    power = 0 if scoring.fast is None else METRICS[scoring.fast].power
    with np.errstate(over="ignore", under="ignore"):
        choice = replace(choice, score=choice.score * np.float64(unit) ** power)
    shown = [(grid, in_units(scores, scoring, unit)) for grid, scores in finished]
    results = _merge(candidates[: len(finished)], shown, pooled)
    start = sum(grid.size for grid, _ in finished[:winner])
    plan = _told(kept.plan, grids[winner].alphas, alphas)
    worst = float(scores.rounding[chosen_ones].max(initial=0.0))
    facts = {**plan.facts, "rounding": f"{worst:.0e} of the spread of y at the chosen penalty"}
    plan = replace(plan, facts=facts)
    return Found(winner, kept.model, plan, choice, alphas, results, start, values)


def _told(plan: Plan, first: FloatArray, alphas: FloatArray) -> Plan:
    """Return the plan with a word on penalties that were added to the default grid."""
    parts = [
        f"{count} {side}"
        for count, side in (
            (int((alphas < first[0]).sum()), "below"),
            (int((alphas > first[-1]).sum()), "above"),
        )
        if count
    ]
    if not parts:
        return plan
    told = f"{' and '.join(parts)}: the best lay at the end of the default grid"
    return replace(plan, facts={**plan.facts, "penalties added": told})


def models(
    problem: Problem, candidates: Sequence[Candidate]
) -> Iterator[tuple[Candidate, Callable[[], Model]]]:
    """Yield each candidate with a function that makes it on all rows, as `search` does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionBiasWarning)  # said by `fit` already
        provider = _DataProvider(problem, candidates)
    for candidate in candidates:
        data, basis, selector = provider(candidate)
        yield candidate, partial(make_model, problem, candidate.kernel, data, basis, selector)


def _planned(
    provider: _DataProvider, problem: Problem, candidate: Candidate, n_alphas: int
) -> Planned:
    data, basis, selector = provider(candidate)
    model = make_model(problem, candidate.kernel, data, basis, selector)
    tasks = model.tasks(problem.experiments)
    plan = model.plan(tasks, n_alphas)
    if selector is not None:
        plan = replace(plan, facts={**plan.facts, "choice of basis": selector.explain(len(data))})
    return Planned(model, tasks, plan)


def _scores(
    problem: Problem, planned: Planned, scoring: Scoring, per_target: bool, alphas: FloatArray
) -> Scores:
    """Return the scores of one candidate, leaving out splits that are too many to be reported.

    If there are very many targets, they are scored in chunks.
    """
    model, tasks, plan = planned.model, planned.tasks, planned.plan
    unit = unit_of(scoring, problem.labels)
    v, k, a = problem.Y.shape[1], tasks.test.values.size, alphas.size
    room = min(MOST_PREDICTIONS, int(problem.memory / (8 * COPIES_OF_SETS)))
    step = v if problem.labels.ndim == 1 else max(1, room // (a * k))
    parts, sizes = [], []
    for start in range(0, v, step):
        columns = slice(start, min(start + step, v))
        values, error = model.judged(tasks, alphas, plan.path, columns)
        for alpha, largest in zip(alphas.tolist(), error.max(axis=1, initial=0.0), strict=True):
            planned.added[alpha] = max(planned.added.get(alpha, 0.0), float(largest))
        if a * k * v <= KEPT_DOUBLES:
            planned.seen.append((alphas, values))
        labels = problem.labels if problem.labels.ndim == 1 else problem.labels[:, columns]
        parts.append(
            scored(
                scoring,
                values,
                tasks.test,
                labels,
                problem.weights,
                problem.groups,
                each_target=per_target,
                moments=partial(_moments, model, tasks, alphas, labels, values),
                unit=unit,
            )
        )
        sizes.append(columns.stop - columns.start)
        report(columns.stop, v, "targets")
    scores = parts[0] if len(parts) == 1 else combine(parts, sizes)
    scores = replace(scores, rounding=planned.rounding(alphas))
    n = len(problem.experiments)
    if n > MAX_SPLITS:
        return replace(scores, splits=np.empty((a, 0)))
    splits = np.full((a, n), np.nan)  # nan: experiments whose test rows were all skipped
    splits[:, tasks.source] = scores.splits
    return replace(scores, splits=splits)


def _moments(
    model: Model, tasks: Tasks, alphas: FloatArray, labels: AnyArray, values: FloatArray
) -> Spread:
    """Return the second moments of the test rows of all tasks."""
    errors = labels[tasks.test.values] - values
    return spread(model.held_models(tasks, alphas[:1]), alphas, errors)


def _best(scores: Scores, alphas: FloatArray, pooled: bool, per_target: bool) -> Choice:
    """Return the best penalty of one candidate, without a word about the ends of the grid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they matter for the winner only
        return choose(scores, alphas, pooled=pooled, rule="best", per_target=per_target)


def _with_row_errors(
    problem: Problem,
    planned: Planned,
    scoring: Scoring,
    scores: Scores,
    pooled: bool,
    per_target: bool,
    cv: Any,
) -> Scores:
    """Return the scores with the standard error of the best penalty over units, if it has one."""
    units = fit_units(problem.experiments, problem.groups, problem.weights, scoring, cv)
    unit = unit_of(scoring, problem.labels)
    labels = problem.labels if unit == 1.0 else problem.labels / unit
    judge = Judge(
        labels=labels,
        weights=problem.weights,
        groups=problem.groups,
        alphas=problem.alphas,
        scoring=scoring,
        pooled=pooled,
        rule="best",
        per_target=per_target,
        policy=problem.policy,
        path=problem.path,
        units=units,
    )
    best, rows = judge.choose(scores), planned.tasks.test.values
    known, v = planned.known(problem.alphas), problem.Y.shape[1]
    if known is None or known.shape[2] != v:
        fitted = Fitted(planned.model, judge, best.alpha, problem.experiments)
        values = fitted.predict(problem.experiments)[2]
    else:
        values = known[np.broadcast_to(best.indices, v), :, np.arange(v)].T
    return judge.with_errors(scores, values if unit == 1.0 else values / unit, rows)


def _merge(
    candidates: Sequence[Candidate], finished: Sequence[tuple[FloatArray, Scores]], pooled: bool
) -> dict[str, Any]:
    """Return one table for all candidates; with one candidate, that of its penalties alone."""
    parts = [cv_results(scores, alphas, pooled) for alphas, scores in finished]
    if len(parts) == 1:
        return parts[0]
    merged: dict[str, Any] = {
        key: np.concatenate([part[key] for part in parts])
        for key in parts[0]
        if key not in ("params", "rank_test_score")
    }
    params = [
        {**candidate.params, "alpha": float(alpha)}
        for candidate, (alphas, _) in zip(candidates, finished, strict=True)
        for alpha in alphas
    ]
    for name in dict.fromkeys(name for candidate in candidates for name in candidate.params):
        column = np.empty(len(params), dtype=object)
        for i, entry in enumerate(params):
            column[i] = entry.get(name)
        merged[f"param_{name}"] = column
    merged["params"] = params
    shown = merged["pooled_test_score" if pooled else "mean_test_score"]
    merged["rank_test_score"] = rank(shown)
    return merged


class _DataProvider:
    """Rows and basis rows for each candidate, sharing what can be shared."""

    def __init__(self, problem: Problem, candidates: Sequence[Candidate]) -> None:
        self.problem, self.selector = problem, selector_of(problem)
        self._once: tuple[IntArray | None, Selector | None] | None = None
        self._distances: SharedDistances | None = None
        # A choice of basis rows that looks at the kernel is made anew for each candidate.
        self._same_basis = self.selector is None or not self.selector.data_dependent
        widths = [c for c in candidates if SharedDistances.serves(c.kernel)]
        rows = not (is_dask(problem.X) or isinstance(self.selector, Points))
        self._share = len(widths) > 1 and self._same_basis and rows

    def __call__(self, candidate: Candidate) -> tuple[KernelData, IntArray | None, Selector | None]:
        data = rows_with_kernel(candidate.kernel, self.problem.X, self.problem.basis)
        if self._once is None:
            selector = None if self.selector is None else clone(self.selector)
            basis = choose_basis(self.problem, selector, data)
            if self._same_basis:
                self._once = (basis, selector)
        else:
            basis, selector = self._once
        return self._shared(candidate, data, basis), basis, selector

    def _shared(self, candidate: Candidate, data: KernelData, basis: IntArray | None) -> KernelData:
        """Return the data of a candidate, through shared distances if it can use them."""
        if not self._share or isinstance(candidate.kernel, Precomputed):
            return data
        if not SharedDistances.serves(candidate.kernel):
            return data
        columns = expanded_in(basis, len(data))
        if 24.0 * len(data) * columns.size > self.problem.memory:
            return data
        if self._distances is None:
            self._distances = SharedDistances.of(self.problem.X, columns)
        return self._distances.with_kernel(candidate.kernel)
