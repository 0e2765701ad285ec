"""A search over kernels: evaluate each on the whole grid of penalties, keep the best.

All candidates share the experiments, the basis rows (unless their choice depends on the kernel)
and, for kernels of the Euclidean distance, the distances. The scores of finished candidates can be
kept in a checkpoint folder. Ctrl-C ends the search with the best candidate finished by then.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from holdfast._typing import AnyArray, FloatArray
from holdfast.answers.question import Fitted, Judge, fit_units
from holdfast.answers.scored import scored, unit_of
from holdfast.estimators.checkpoint import Checkpoint
from holdfast.estimators.model import Model, make_model
from holdfast.estimators.problem import Problem
from holdfast.estimators.provider import DataProvider, Planned, planned_candidate
from holdfast.estimators.widths import family, warn_at_end
from holdfast.exceptions import HoldfastWarning, SelectionBiasWarning, warn
from holdfast.experiments import Tasks
from holdfast.holdout.accuracy import warn_of_rounding
from holdfast.holdout.costs import COPIES_OF_SETS, MOST_PREDICTIONS
from holdfast.holdout.plan import Plan
from holdfast.holdout.spread import Spread, spread
from holdfast.kernels.grid import Candidate
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
class Found:
    """The outcome of a search.

    Attributes
    ----------
    candidate : Candidate
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

    candidate: Candidate
    model: Model
    plan: Plan
    choice: Choice
    alphas: FloatArray
    results: dict[str, Any]
    start: int
    known: FloatArray | None


@dataclass(frozen=True, eq=False)
class _Trial:
    """A candidate that was compared: its penalties, their scores, and the best of these.

    `planned` is the candidate on all rows; None if its scores came from a checkpoint, or if another
    one was better.
    """

    candidate: Candidate
    grid: Penalties
    alphas: FloatArray
    scores: Scores
    value: float
    planned: Planned | None


#: From the kernels compared and their scores to further kernels with their penalties.
Further = Callable[[Sequence[tuple[Candidate, float]]], list[tuple[Candidate, Penalties]]]


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
    further: Further | None = None,
) -> Found:
    """Return the best candidate and penalty; `grids` are the penalties of each candidate.

    Notes
    -----
    A default grid loses the penalties that double precision cannot resolve. Where its best penalty
    lies at an end, it is extended there, with the factors that are there already. When all
    candidates are compared, `further` may name more, again and again until it names none.

    Distances are computed once for all RBF and Matérn candidates that share basis rows, if the
    m × n matrix fits in the memory limit beside the features.
    """
    provider = DataProvider(problem, candidates)
    compare = partial(_compare, problem, provider, scoring, pooled, per_target, store)
    if problem.constant:  # every width is as good
        further = None
    trials = _trials(list(zip(candidates, grids, strict=True)), compare, further)
    best = max(trials, key=lambda trial: trial.value)  # the first of equals
    if further is not None:
        kinds = list(dict.fromkeys(family(trial.candidate) for trial in trials))
        trials.sort(key=partial(_place, kinds))
        warn_at_end(best.candidate, [(trial.candidate, trial.value) for trial in trials])
    kept = best.planned
    if kept is None:
        kept = planned_candidate(provider, problem, best.candidate, best.grid.alphas.size)
    alphas, scores = best.alphas, best.scores
    problem = replace(problem, alphas=alphas)
    if rule == "1se" and not problem.constant:
        scores = _with_row_errors(problem, kept, scoring, scores, pooled, per_target, cv)
    if problem.constant:
        choice = _any_penalty(scores, alphas, pooled, per_target)
    else:
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
    shown = [(trial.alphas, in_units(trial.scores, scoring, unit)) for trial in trials]
    results = _merge([trial.candidate for trial in trials], shown, pooled)
    start = sum(trial.alphas.size for trial in trials[: trials.index(best)])
    plan = _told(kept.plan, best.grid.alphas, alphas)
    worst = float(scores.rounding[chosen_ones].max(initial=0.0))
    facts = {**plan.facts, "rounding": f"{worst:.0e} of the spread of y at the chosen penalty"}
    plan = replace(plan, facts=facts)
    return Found(best.candidate, kept.model, plan, choice, alphas, results, start, values)


def _place(kinds: list[str], trial: _Trial) -> tuple[int, float]:
    """Return where a candidate stands in the results: by its kind, then by its width."""
    return kinds.index(family(trial.candidate)), trial.candidate.params.get("gamma") or 0.0


def _trials(
    waiting: list[tuple[Candidate, Penalties]],
    compare: Callable[[Candidate, Penalties], _Trial],
    further: Further | None,
) -> list[_Trial]:
    """Return all candidates compared, of which only the best keeps its model."""
    trials: list[_Trial] = []
    best = -1
    while waiting:
        total = len(trials) + len(waiting)
        for candidate, grid in waiting:
            try:
                report(len(trials), total, "kernels")
                trial = compare(candidate, grid)
            except KeyboardInterrupt:
                if not trials:
                    raise
                warn(
                    f"interrupted after {len(trials)} of {total} kernels: the result is the best "
                    "of those.",
                    HoldfastWarning,
                )
                return trials
            trials.append(trial)
            lost = len(trials) - 1
            if best < 0 or trial.value > trials[best].value:
                best, lost = lost, best
            if lost >= 0:
                trials[lost] = replace(trials[lost], planned=None)
        waiting = []
        if further is not None:
            waiting = further([(trial.candidate, trial.value) for trial in trials])
    report(len(trials), len(trials), "kernels")
    return trials


def _compare(
    problem: Problem,
    provider: DataProvider,
    scoring: Scoring,
    pooled: bool,
    per_target: bool,
    store: Checkpoint | None,
    candidate: Candidate,
    grid: Penalties,
) -> _Trial:
    """Return the scores of one candidate, from the checkpoint if they are there."""
    planned = chosen = None
    first = grid
    known = None if store is None else store.load(candidate)
    if known is None:
        planned = planned_candidate(provider, problem, candidate, grid.alphas.size)
        grid = planned.resolved(grid)
        scores = _scores(problem, planned, scoring, per_target, grid.alphas)
        known = grid.alphas, scores
        if not problem.constant:
            chosen = _best(scores, grid.alphas, pooled, per_target)
            more = partial(_scores, problem, planned, scoring, per_target)
            known = extended(grid, scores, np.atleast_1d(chosen.indices), more, planned.floor)
        if store is not None:
            store.save(candidate, *known)
    if problem.constant:
        return _Trial(candidate, first, *known, 0.0, planned)
    if chosen is None or known[0] is not grid.alphas:  # loaded, or extended
        chosen = _best(known[1], known[0], pooled, per_target)
    return _Trial(candidate, first, *known, float(np.mean(chosen.score)), planned)


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
        provider = DataProvider(problem, candidates)
    for candidate in candidates:
        data, basis, selector = provider(candidate)
        yield candidate, partial(make_model, problem, candidate.kernel, data, basis, selector)


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


def _any_penalty(scores: Scores, alphas: FloatArray, pooled: bool, per_target: bool) -> Choice:
    """Return the largest penalty, for targets that do not vary: its score may be undefined."""
    last = alphas.size - 1
    score = float((scores.pooled if pooled else scores.mean)[last])
    if not per_target:
        return Choice(last, float(alphas[last]), score)
    v = 1 if scores.per_target is None else scores.per_target.shape[1]
    return Choice(np.full(v, last), np.full(v, alphas[last]), np.full(v, score))


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
    """Return one table for all candidates: their arguments, penalties and scores."""
    parts = [cv_results(scores, alphas, pooled) for alphas, scores in finished]
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
    merged["param_alpha"] = merged["alpha"].copy()
    merged["params"] = params
    shown = merged["pooled_test_score" if pooled else "mean_test_score"]
    merged["rank_test_score"] = rank(shown)
    return merged
