"""A comparison of kernels: score each at all its penalties, keep the best.

All kernels share the experiments, the basis rows (unless their choice depends on the kernel) and,
for kernels of the Euclidean distance, the distances. One kernel is one trial and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from holdfast._typing import FloatArray
from holdfast.answers.fitted import Fitted, SearchResult
from holdfast.answers.model import Model, Models, expanded_in
from holdfast.answers.training import Objective, TrainingData
from holdfast.core.accuracy import warn_of_rounding
from holdfast.core.experiments import Tasks
from holdfast.core.lapack import CHUNK, KEPT, SMALL, piece_threads, run_pieces
from holdfast.core.plan import Plan
from holdfast.kernels import Kernel
from holdfast.kernels.grid import Candidate
from holdfast.progress import report
from holdfast.scores.choice import Choice, Penalties, cv_results, extended, rank, warn_at_edge
from holdfast.scores.scoring import MAX_COLUMNS, Scores, combine

#: Doubles of held-out predictions that a fitted model keeps for `held_out`.
KEPT_DOUBLES = 2**21

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Trial:
    """A kernel on all rows that is compared with others, and its scores once it was.

    Attributes
    ----------
    candidate : Candidate
    grid : Penalties
        The penalties to begin with.
    model : Model or None
        None when another kernel was better.
    tasks, plan
        What it is scored by, and how held-out predictions are computed.
    alphas, scores
        The penalties that were compared, beyond an end of a default grid if need be.
    best : Choice or None
        The best of them; None where targets do not vary, and every penalty is as good.
    predictions : ndarray of shape (a, test rows, v) or None
        Held-out predictions at these penalties, if they are few enough to be kept.
    """

    candidate: Candidate
    grid: Penalties
    model: Model | None
    tasks: Tasks
    plan: Plan
    alphas: FloatArray
    scores: Scores | None = None
    best: Choice | None = None
    predictions: FloatArray | None = None

    @classmethod
    def of(cls, models: Models, candidate: Candidate, grid: Penalties) -> Trial:
        """Return a kernel to compare, with the plan for its experiments."""
        model = models(candidate)
        tasks = model.tasks(model.training.experiments)
        plan = model.plan(tasks, grid.alphas.size)
        if model.selector is not None:
            told = model.selector.explain(model.training.weights.size)
            plan = replace(plan, facts={**plan.facts, "choice of basis": told})
        return cls(candidate, grid, model, tasks, plan, grid.alphas)

    @property
    def value(self) -> float:
        """What kernels are compared by: the best score, averaged over targets."""
        return 0.0 if self.best is None else float(np.mean(self.best.score))


def search(
    training: TrainingData,
    objective: Objective,
    candidates: Sequence[Candidate],
    grids: Sequence[Penalties],
) -> Fitted:
    """Return the best kernel at its best penalty; `grids` are the penalties of each."""
    models = Models(training, candidates)
    if models.selector is not None:
        models.warn()
    trials: list[Trial] = []
    add_trials(trials, models, objective, candidates, grids)
    return fitted_to(trials, objective)


def add_trials(
    trials: list[Trial],
    models: Models,
    objective: Objective,
    candidates: Sequence[Candidate],
    grids: Sequence[Penalties],
) -> None:
    """Compare some kernels and add them to those compared; only the best keeps its model."""
    if len(candidates) == 1 and not trials:
        trials.append(compared(Trial.of(models, candidates[0], grids[0]), objective))
        return
    done, count = 0, 1
    while done < len(candidates):
        report(len(trials), len(trials) + len(candidates) - done, "kernels")
        some = range(done, min(done + count, len(candidates)))
        made = [Trial.of(models, candidates[i], grids[i]) for i in some]
        for trial in side_by_side(partial(compared, objective=objective), made):
            best = max(range(len(trials)), key=lambda i: trials[i].value, default=None)
            trials.append(trial)
            if best is not None:
                lost = best if trial.value > trials[best].value else len(trials) - 1
                trials[lost] = replace(trials[lost], model=None, predictions=None)
        done, count = done + len(some), at_once(made[0], objective)
    report(len(trials), len(trials), "kernels")


def side_by_side(work: Callable[[Trial], T], trials: Sequence[Trial]) -> list[T]:
    """Return what is computed of each trial, each on a thread; a single one has all threads."""
    if len(trials) == 1:
        return [work(trials[0])]
    return run_pieces(work, trials, len(trials))


def at_once(trial: Trial, objective: Objective) -> int:
    """Return how many kernels like this are compared at once.

    A large dense model on each thread: a factorisation gains little from a second one. Kernels and
    scorers of users, which may keep a state, run one after the other.
    """
    model, plan = trial.model, trial.plan
    assert model is not None
    users = isinstance(model.kernel, Kernel) and model.kernel.accepts_objects
    bytes_needed = [cost.bytes for cost in plan.costs if cost.path == plan.path]
    dense = model.smoother.form == "kernel" and model.smoother.order >= SMALL
    if users or objective.scoring.scorer is not None or not (dense and bytes_needed):
        return 1
    return max(1, min(piece_threads(), int(model.training.memory / bytes_needed[0])))


def compared(trial: Trial, objective: Objective) -> Trial:
    """Return a trial with its scores, beyond an end of a default grid if the best lies there."""
    assert trial.model is not None
    seen: list[tuple[FloatArray, FloatArray | None]] = []

    def score(alphas: FloatArray) -> Scores:
        scores, predictions = scored(trial, objective, alphas)
        seen.append((alphas, predictions))
        return scores

    alphas, best = trial.grid.alphas, None
    scores = score(alphas)
    if not trial.model.training.constant:
        best = objective.choose(scores, alphas, "best")
        if trial.grid.unit is not None:
            places = np.atleast_1d(best.indices)
            alphas, scores = extended(trial.grid, scores, places, score)
            if len(seen) > 1:
                best = objective.choose(scores, alphas, "best")
    parts = [values for _, values in seen if values is not None]
    predictions = parts[0] if len(parts) == len(seen) else None
    if predictions is not None and len(seen) > 1:
        order = np.argsort(np.concatenate([grid for grid, _ in seen]), kind="stable")
        predictions = np.concatenate(parts)[order]
    return replace(trial, alphas=alphas, scores=scores, best=best, predictions=predictions)


def scored(
    trial: Trial, objective: Objective, alphas: FloatArray
) -> tuple[Scores, FloatArray | None]:
    """Return the scores at some penalties, and the predictions if they are few.

    Very many targets are scored in chunks, and splits that are too many are not reported.
    """
    model, tasks = trial.model, trial.tasks
    assert model is not None
    training = model.training
    v, k, a = training.Y.shape[1], tasks.test.values.size, alphas.size
    room = KEPT if objective.scoring.row_value is None else 4 * CHUNK  # a scorer may mix targets
    room = min(room, int(training.memory / 40))
    step = v if training.labels.ndim == 1 else max(1, room // (a * k))
    n = len(training.experiments)
    parts, sizes, rounding = [], [], np.zeros(a)
    for start in range(0, v, step):
        stop = min(start + step, v)
        columns = slice(None) if step >= v else slice(start, stop)
        values, error = model.predict_with_error(tasks, alphas, trial.plan.path, columns)
        np.maximum(rounding, error.max(axis=1, initial=0.0), out=rounding)
        scores = objective.scores(
            training,
            values,
            tasks.test,
            columns=columns,
            splits=n <= MAX_COLUMNS or step < v,
            moments=partial(model.moments, tasks, alphas, values, columns),
        )
        parts.append(scores)
        sizes.append(stop - start)
        if step < v:
            report(stop, v, "targets")
    scores = parts[0] if len(parts) == 1 else combine(parts, sizes)
    splits = np.empty((a, 0))
    if n <= MAX_COLUMNS:
        splits = np.full((a, n), np.nan)  # nan: experiments whose test rows were all skipped
        splits[:, tasks.source] = scores.splits
    few = len(parts) == 1 and a * k * v <= KEPT_DOUBLES
    return replace(scores, splits=splits, rounding=rounding), values if few else None


def fitted_to(trials: Sequence[Trial], objective: Objective) -> Fitted:
    """Return the best of the kernels compared, with the penalty chosen by the rule."""
    best = next(trial for trial in trials if trial.model is not None)
    model, alphas, scores, plan = best.model, best.alphas, best.scores, best.plan
    assert model is not None
    assert scores is not None
    assert scores.rounding is not None
    model = replace(model, training=replace(model.training, alphas=alphas), made=model.smoother)
    choice = best.best
    if choice is None:
        choice = _any_penalty(scores, alphas, objective)
    else:
        if objective.rule == "1se":
            own = Fitted(model, objective, SearchResult(choice.alpha))
            choice = objective.choose(_with_row_errors(own, best, scores, choice), alphas)
        warn_at_edge(choice.best, alphas)
    used = np.unique(choice.indices)
    rounding = scores.rounding[used]
    warn_of_rounding(alphas[used], rounding)
    told = {"rounding": f"about {rounding.max():.0e} standard deviations of y"}
    if alphas.size > best.grid.alphas.size:
        first, last = best.grid.alphas[[0, -1]]
        ends = ((alphas < first, "below"), (alphas > last, "above"))
        added = " and ".join(f"{where.sum()} {side}" for where, side in ends if where.any())
        told["penalties added"] = f"{added}: the best lay at the end of the default grid"
    before = [trial.alphas.size for trial in trials[: trials.index(best)]]
    found = SearchResult(
        choice.alpha,
        choice.score,
        choice.indices + sum(before),
        _table(trials, objective.pooled),
        replace(plan, facts={**plan.facts, **told}),
        best.predictions,
        None if best.predictions is None else scores.rounding,
    )
    m, v = model.training.Y.shape
    fit, rows = model.smoother.fit(np.broadcast_to(np.asarray(choice.alpha, float), v)), None
    if fit.linear is None:
        rows = model.data.brought(expanded_in(model.basis, m))  # to predict without a cluster
    return Fitted(model, objective, found, fit=fit, basis_rows=rows)


def _any_penalty(scores: Scores, alphas: FloatArray, objective: Objective) -> Choice:
    """Return the largest penalty, for targets that do not vary: its score may be undefined."""
    last = alphas.size - 1
    score = float((scores.pooled if objective.pooled else scores.mean)[last])
    if not objective.per_target:
        return Choice(last, float(alphas[last]), score)
    v = 1 if scores.per_target is None else scores.per_target.shape[1]
    return Choice(np.full(v, last), np.full(v, alphas[last]), np.full(v, score))


def _with_row_errors(own: Fitted, trial: Trial, scores: Scores, best: Choice) -> Scores:
    """Return the scores with the standard error of the best penalty over units, if it has one."""
    v, rows = own.training.Y.shape[1], trial.tasks.test.values
    if trial.predictions is None:
        values = own.model.at(trial.tasks, np.asarray(best.alpha))
    else:
        values = trial.predictions[np.broadcast_to(best.indices, v), :, np.arange(v)].T
    return own.with_errors(scores, values, rows)


def _table(trials: Sequence[Trial], pooled: bool) -> dict[str, Any]:
    """Return one table for all kernels: their arguments, penalties and scores."""
    parts = [cv_results(t.scores, t.alphas, pooled) for t in trials if t.scores is not None]
    table = parts[0]
    if len(parts) > 1:
        table = {key: np.concatenate([part[key] for part in parts]) for key in table}
        shown = table["pooled_test_score" if pooled else "mean_test_score"]
        table["rank_test_score"] = rank(shown)
    sizes = [trial.alphas.size for trial in trials]
    own = argument_columns([trial.candidate.params for trial in trials], sizes, table["alpha"])
    return {**table, **own}


def argument_columns(
    arguments: Sequence[dict[str, Any]], sizes: Sequence[int], alphas: FloatArray
) -> dict[str, Any]:
    """Return the columns that say what was tried: of each kernel, at so many penalties."""
    params: list[dict[str, Any]] = []
    columns: dict[str, Any] = {}
    for own, size in zip(arguments, sizes, strict=True):
        for name, value in own.items():
            column = columns.setdefault(f"param_{name}", np.full(alphas.size, None))
            for i in range(len(params), len(params) + size):
                column[i] = value
        for alpha in alphas[len(params) : len(params) + size].tolist():
            params.append({**own, "alpha": alpha})
    return {**columns, "param_alpha": alphas.copy(), "params": params}
