"""A search over kernels: evaluate each on the whole grid of penalties, keep the best.

All candidates share the experiments, the basis rows (unless their choice depends on the kernel)
and, for kernels of the Euclidean distance, the distances.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from holdfast._typing import FloatArray
from holdfast.answers.fitted import Fitted
from holdfast.answers.model import Model, make_model
from holdfast.answers.rows import DataProvider, warn_of_selection
from holdfast.answers.training import Objective, TrainingData
from holdfast.core.accuracy import warn_of_rounding
from holdfast.core.experiments import Tasks
from holdfast.core.gaussian import second_moments
from holdfast.core.lapack import KEPT, SMALL, piece_threads, run_pieces
from holdfast.core.plan import Plan
from holdfast.estimators.inputs import takes_objects
from holdfast.estimators.widths import family, warn_at_end
from holdfast.kernels.grid import Candidate
from holdfast.progress import report
from holdfast.scores.choice import (
    Choice,
    Penalties,
    cv_results,
    extended,
    rank,
    warn_at_edge,
)
from holdfast.scores.scoring import MAX_COLUMNS, Scores, combine, score_experiments

#: Doubles of held-out predictions that a fitted model keeps for `held_out`.
KEPT_DOUBLES = 2**21


@dataclass(frozen=True, eq=False)
class Planned:
    """A candidate on all rows, with the tasks that judge it and the plan for them.

    `seen` collects its held-out predictions, with the penalties they are for, and `rounding` their
    estimated errors at each penalty.
    """

    fitted: Fitted
    tasks: Tasks
    plan: Plan
    seen: list[tuple[FloatArray, FloatArray]] = field(default_factory=list)
    rounding: dict[float, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls, provider: DataProvider, objective: Objective, candidate: Candidate, n: int
    ) -> Planned:
        """Return a candidate on all rows, with the plan for its experiments at n penalties."""
        data, basis, selector = provider(candidate)
        model = make_model(provider.training, candidate.kernel, data, basis, selector)
        tasks = model.tasks(provider.training.experiments)
        plan = model.plan(tasks, n)
        if selector is not None:
            told = {"choice of basis": selector.explain(len(data))}
            plan = replace(plan, facts={**plan.facts, **told})
        return cls(Fitted(model, objective, np.nan), tasks, plan)

    def at_once(self) -> int:
        """Return how many candidates like this are compared at once.

        A large dense model on each thread: a factorisation gains little from a second one. Kernels
        and scorers of users, which may keep a state, run one after the other.
        """
        model, plan = self.fitted.model, self.plan
        ours = self.fitted.objective.scoring.scorer is None and not takes_objects(model.kernel)
        bytes_needed = [cost.bytes for cost in plan.costs if cost.path == plan.path]
        dense = model.smoother.form == "kernel" and model.smoother.order >= SMALL
        if not (ours and dense and bytes_needed):
            return 1
        return max(1, min(piece_threads(), int(self.fitted.training.memory / bytes_needed[0])))

    def known(self, alphas: FloatArray) -> FloatArray | None:
        """Return the predictions at all of these penalties, or None where they were too many."""
        grids = [grid for grid, _ in self.seen]
        if not grids or sum(grid.size for grid in grids) != alphas.size:
            return None
        if len(grids) == 1:
            return self.seen[0][1]
        values = np.concatenate([values for _, values in self.seen])
        return np.asarray(values[np.argsort(np.concatenate(grids), kind="stable")])

    def scores(self, alphas: FloatArray) -> Scores:
        """Return the scores at some penalties, of the targets as they are.

        Very many targets are scored in chunks, and splits that are too many are not reported.
        """
        fitted, tasks = self.fitted, self.tasks
        training, model, objective = fitted.training, fitted.model, fitted.objective
        v, k, a = training.Y.shape[1], tasks.test.values.size, alphas.size
        room = min(KEPT, int(training.memory / 40))
        step = v if training.labels.ndim == 1 else max(1, room // (a * k))
        parts, sizes = [], []
        for start in range(0, v, step):
            columns = slice(start, min(start + step, v))
            values, error = model.predict_with_error(tasks, alphas, self.plan.path, columns)
            for alpha, largest in zip(alphas.tolist(), error.max(axis=1, initial=0.0), strict=True):
                self.rounding[alpha] = max(self.rounding.get(alpha, 0.0), float(largest))
            if a * k * v <= KEPT_DOUBLES:
                self.seen.append((alphas, values))
            labels = training.labels if training.labels.ndim == 1 else training.labels[:, columns]
            moments = partial(_moments, model, tasks, alphas, labels, values)
            found = score_experiments(
                objective.scoring,
                values,
                tasks.test.values,
                tasks.test.ptr,
                labels,
                training.score_weights,
                training.groups,
                each_target=objective.per_target,
                moments=moments,
            )
            parts.append(found)
            sizes.append(columns.stop - columns.start)
            report(columns.stop, v, "targets")
        scores = parts[0] if len(parts) == 1 else combine(parts, sizes)
        rounding = np.array([self.rounding.get(alpha, 0.0) for alpha in alphas.tolist()])
        scores = replace(scores, rounding=rounding)
        n = len(training.experiments)
        if n > MAX_COLUMNS:
            return replace(scores, splits=np.empty((a, 0)))
        splits = np.full((a, n), np.nan)  # nan: experiments whose test rows were all skipped
        splits[:, tasks.source] = scores.splits
        return replace(scores, splits=splits)


def _moments(
    model: Model, tasks: Tasks, alphas: FloatArray, labels: Any, values: FloatArray
) -> Any:
    """Return the second moments of the test rows of all tasks."""
    errors = labels[tasks.test.values] - values
    return second_moments(model.held_models(tasks, alphas[:1]), alphas, errors)


@dataclass(frozen=True, eq=False)
class _Trial:
    """A candidate that was compared: its penalties, their scores, and the best of these.

    `planned` is the candidate on all rows; None if another one was better.
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
    training: TrainingData,
    objective: Objective,
    candidates: Sequence[Candidate],
    grids: Sequence[Penalties],
    further: Further | None = None,
) -> Fitted:
    """Return the best candidate at its best penalty; `grids` are the penalties of each candidate.

    Notes
    -----
    If the best penalty of a default grid lies at an end, the grid is extended there with the same
    factors. When all candidates are compared, `further` may name more, until it names none.

    Distances are computed once for all RBF and Matérn candidates that share basis rows, if the
    m × n matrix fits in the memory limit beside the features.
    """
    provider = DataProvider(training, candidates)
    warn_of_selection(training, provider.selector)
    if training.constant:  # every width is as good
        further = None
    trials: list[_Trial] = []
    waiting, count = list(zip(candidates, grids, strict=True)), 1
    while waiting:
        some = waiting[:count]
        report(len(trials), len(trials) + len(waiting), "kernels")
        made = [Planned.of(provider, objective, c, grid.alphas.size) for c, grid in some]
        scores = together(made, [grid.alphas for _, grid in some])
        for parts in zip(some, made, scores, strict=True):
            _add(trials, _trial(*parts))
        count = made[0].at_once()
        del waiting[: len(some)]
        if not waiting and further is not None:
            waiting = further([(trial.candidate, trial.value) for trial in trials])
    report(len(trials), len(trials), "kernels")
    best = max(trials, key=lambda trial: trial.value)  # the first of equals
    if further is not None:
        kinds = list(dict.fromkeys(family(trial.candidate) for trial in trials))
        trials.sort(key=partial(_place, kinds))
        warn_at_end(best.candidate, [(trial.candidate, trial.value) for trial in trials])
    assert best.planned is not None  # `_add` keeps it
    return _found(trials, best, best.planned)


def together(made: Sequence[Planned], alphas: Sequence[FloatArray]) -> list[Scores]:
    """Return the scores of some candidates, each on a thread; a single one has all threads."""
    if len(made) == 1:
        return [made[0].scores(alphas[0])]
    found: dict[int, Scores] = {}

    def work(i: int) -> None:
        found[i] = made[i].scores(alphas[i])

    run_pieces(work, range(len(made)), len(made))
    return [found[i] for i in range(len(made))]


def _trial(asked: tuple[Candidate, Penalties], planned: Planned, scores: Scores) -> _Trial:
    """Return a candidate with its scores, beyond an end of a default grid if need be."""
    grid = asked[1]
    training, objective, known = (
        planned.fitted.training,
        planned.fitted.objective,
        (grid.alphas, scores),
    )
    if not training.constant:
        best = np.atleast_1d(objective.choose(scores, grid.alphas, "best").indices)
        known = extended(grid, scores, best, planned.scores)
    return _Trial(*asked, *known, _value(training, objective, *known), planned)


def _value(
    training: TrainingData, objective: Objective, alphas: FloatArray, scores: Scores
) -> float:
    """Return what kernels are compared by."""
    return (
        0.0 if training.constant else float(np.mean(objective.choose(scores, alphas, "best").score))
    )


def _add(trials: list[_Trial], trial: _Trial) -> None:
    """Add a candidate to those compared, of which only the best keeps its model."""
    best = max(range(len(trials)), key=lambda i: trials[i].value, default=None)
    trials.append(trial)
    if best is not None:
        lost = best if trial.value > trials[best].value else len(trials) - 1
        trials[lost] = replace(trials[lost], planned=None)


def _place(kinds: list[str], trial: _Trial) -> tuple[int, float]:
    """Return the place of a candidate in the results: by its kind, then by its width."""
    return kinds.index(family(trial.candidate)), trial.candidate.params.get("gamma") or 0.0


def _found(trials: Sequence[_Trial], best: _Trial, kept: Planned) -> Fitted:
    """Return the outcome, with the penalty chosen by the rule."""
    alphas, scores = best.alphas, best.scores
    rounding = scores.rounding
    assert rounding is not None
    values, fitted = kept.known(alphas), kept.fitted.changed(alphas=alphas)
    objective = fitted.objective
    if fitted.training.constant:
        choice = _any_penalty(scores, alphas, objective)
    else:
        if objective.rule == "1se":
            scores = _with_row_errors(fitted, kept, scores, values)
        choice = objective.choose(scores, alphas)
        warn_at_edge(choice.best, alphas)
    chosen_ones = np.unique(np.atleast_1d(choice.indices))
    warn_of_rounding(alphas[chosen_ones], rounding[chosen_ones])
    shown = [(trial.alphas, trial.scores) for trial in trials]
    start = sum(trial.alphas.size for trial in trials[: trials.index(best)])
    plan = _told(kept.plan, best.grid.alphas, alphas)
    worst = float(rounding[chosen_ones].max(initial=0.0))
    facts = {**plan.facts, "rounding": f"about {worst:.0e} standard deviations of y"}
    return replace(
        fitted,
        model=replace(fitted.model, known=values, rounding=None if values is None else rounding),
        alpha=choice.alpha,
        score=choice.score,
        results=_merge([trial.candidate for trial in trials], shown, objective.pooled),
        params=best.candidate.params,
        index=choice.indices + start,
        plan=replace(plan, facts=facts),
    )


def _told(plan: Plan, first: FloatArray, alphas: FloatArray) -> Plan:
    """Return the plan with a note on penalties that were added to the default grid."""
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


def _any_penalty(scores: Scores, alphas: FloatArray, objective: Objective) -> Choice:
    """Return the largest penalty, for targets that do not vary: its score may be undefined."""
    last = alphas.size - 1
    score = float((scores.pooled if objective.pooled else scores.mean)[last])
    if not objective.per_target:
        return Choice(last, float(alphas[last]), score)
    v = 1 if scores.per_target is None else scores.per_target.shape[1]
    return Choice(np.full(v, last), np.full(v, alphas[last]), np.full(v, score))


def _with_row_errors(
    fitted: Fitted, planned: Planned, scores: Scores, known: FloatArray | None
) -> Scores:
    """Return the scores with the standard error of the best penalty over units, if it has one."""
    best = fitted.objective.choose(scores, fitted.training.alphas, "best")
    v, tasks = fitted.training.Y.shape[1], planned.tasks
    if known is None or known.shape[2] != v:
        values = fitted.model.at(tasks, np.asarray(best.alpha))
    else:
        values = known[np.broadcast_to(best.indices, v), :, np.arange(v)].T
    return fitted.with_errors(scores, values, tasks.test.values)


def _merge(
    candidates: Sequence[Candidate], finished: Sequence[tuple[FloatArray, Scores]], pooled: bool
) -> dict[str, Any]:
    """Return one table for all candidates: their arguments, penalties and scores."""
    parts = [cv_results(scores, alphas, pooled) for alphas, scores in finished]
    merged: dict[str, Any] = {
        key: np.concatenate([part[key] for part in parts]) if len(parts) > 1 else column
        for key, column in parts[0].items()
        if key not in ("params", "rank_test_score")
    }
    sizes = [alphas.size for alphas, _ in finished]
    merged |= argument_columns([c.params for c in candidates], sizes, merged["alpha"])
    shown = merged["pooled_test_score" if pooled else "mean_test_score"]
    merged["rank_test_score"] = rank(shown)
    return merged


def argument_columns(
    arguments: Sequence[dict[str, Any]], sizes: Sequence[int], alphas: FloatArray
) -> dict[str, Any]:
    """Return the columns that say what was tried: of each kernel, at so many penalties."""
    tried = [own for own, size in zip(arguments, sizes, strict=True) for _ in range(size)]
    params = [{**own, "alpha": alpha} for own, alpha in zip(tried, alphas.tolist(), strict=True)]
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(name for own in arguments for name in own):
        column = np.empty(len(tried), dtype=object)
        for i, own in enumerate(tried):
            column[i] = own.get(name)
        columns[f"param_{name}"] = column
    return {**columns, "param_alpha": alphas.copy(), "params": params}
