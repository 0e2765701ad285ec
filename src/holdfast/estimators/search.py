"""A search over kernels: evaluate each on the whole grid of penalties, keep the best.

All candidates share the experiments, the basis rows (unless their choice depends on the kernel)
and, for kernels of the Euclidean distance, the distances. Each finished candidate can be kept in a
checkpoint folder; Ctrl-C ends the search with what is finished.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from holdfast._typing import IntArray
from holdfast.basis import Selector
from holdfast.data.dask import is_dask
from holdfast.estimators.checkpoint import Checkpoint
from holdfast.estimators.engine import Engine
from holdfast.estimators.training import Training
from holdfast.exceptions import HoldfastWarning, warn
from holdfast.holdout.plan import Plan
from holdfast.kernels import Precomputed
from holdfast.kernels.grid import Candidate
from holdfast.kernels.matrix import KernelData, SharedDistances
from holdfast.progress import report
from holdfast.scores.choice import Choice, choose, cv_results, rank
from holdfast.scores.scoring import MAX_SPLITS, Scores, Scoring


class Model(NamedTuple):
    """A candidate on all rows.

    Attributes
    ----------
    engine : Engine
    plan : Plan
    selector : Selector or None
        What chose the basis rows, with what it learned.
    """

    engine: Engine
    plan: Plan
    selector: Selector | None


@dataclass(frozen=True, eq=False)
class Found:
    """The outcome of a search.

    Attributes
    ----------
    index : int
        The best candidate.
    model : Model
        It, on all rows.
    choice : Choice
        Its penalty.
    results : dict
        Columns over all finished candidates and penalties.
    """

    index: int
    model: Model
    choice: Choice
    results: dict[str, Any]


def search(
    training: Training,
    candidates: Sequence[Candidate],
    scoring: Scoring,
    *,
    pooled: bool,
    rule: str,
    per_target: bool,
    store: Checkpoint | None,
) -> Found:
    """Return the best candidate and penalty.

    Notes
    -----
    Distances are computed once for all RBF and Matérn candidates that share basis rows, if the
    m × n matrix fits in the memory limit beside the features.
    """
    provider = _DataProvider(training, candidates)
    finished: list[Scores] = []
    winner, best = 0, -np.inf
    kept: Model | None = None  # the winner, unless its scores came from the checkpoint
    for index, candidate in enumerate(candidates):
        try:
            report(index, len(candidates), "kernels")
            model = None
            scores = None if store is None else store.load(candidate)
            if scores is None:
                model = _model(provider, training, candidate)
                scores = _scores(training, model, scoring, per_target)
                if store is not None:
                    store.save(candidate, scores)
            value = _value(scores, training, pooled, per_target)
        except KeyboardInterrupt:
            if not finished:
                raise
            warn(
                f"interrupted after {index} of {len(candidates)} kernels: the result is the best "
                "of those.",
                HoldfastWarning,
            )
            break
        finished.append(scores)
        if value > best:
            winner, best, kept = index, value, model
    report(len(finished), len(candidates), "kernels")
    choice = choose(
        finished[winner], training.alphas, pooled=pooled, rule=rule, per_target=per_target
    )
    results = _merge(candidates[: len(finished)], finished, training, pooled)
    if kept is None:
        kept = _model(provider, training, candidates[winner])
    return Found(winner, kept, choice, results)


def _model(provider: _DataProvider, training: Training, candidate: Candidate) -> Model:
    data, basis, selector = provider(candidate)
    engine = training.engine(candidate.kernel, data, basis)
    tasks = training.tasks(basis, training.experiments)
    plan = training.plan(engine, tasks, training.alphas.size)
    if selector is not None:
        plan = replace(plan, facts={**plan.facts, "choice of basis": selector.explain(len(data))})
    return Model(engine, plan, selector)


def _scores(training: Training, model: Model, scoring: Scoring, per_target: bool) -> Scores:
    """Return the scores of one candidate, without splits that are too many to be reported."""
    engine = model.engine
    tasks = training.tasks(engine.basis, training.experiments)
    scores = training.scores(scoring, engine, tasks, model.plan, per_target)
    a, n = training.alphas.size, len(training.experiments)
    if n > MAX_SPLITS:
        return replace(scores, splits=np.empty((a, 0)))
    splits = np.full((a, n), np.nan)  # nan: experiments whose test rows were all skipped
    splits[:, tasks.source] = scores.splits
    return replace(scores, splits=splits)


def _value(scores: Scores, training: Training, pooled: bool, per_target: bool) -> float:
    """Return the best score of one candidate, averaged over targets that choose for themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the edge of the grid matters for the winner only
        choice = choose(scores, training.alphas, pooled=pooled, rule="best", per_target=per_target)
    return float(np.mean(choice.score))


def _merge(
    candidates: Sequence[Candidate], scores: Sequence[Scores], training: Training, pooled: bool
) -> dict[str, Any]:
    """Return one table for all candidates; with one candidate, that of its penalties alone."""
    parts = [cv_results(part, training.alphas, pooled) for part in scores]
    if len(parts) == 1:
        return parts[0]
    a = training.alphas.size
    merged: dict[str, Any] = {
        key: np.concatenate([part[key] for part in parts])
        for key in parts[0]
        if key not in ("params", "rank_test_score")
    }
    names = list(dict.fromkeys(name for candidate in candidates for name in candidate.params))
    for name in names:
        column = np.empty(len(parts) * a, dtype=object)
        for i, candidate in enumerate(candidates):
            for j in range(i * a, (i + 1) * a):
                column[j] = candidate.params.get(name)
        merged[f"param_{name}"] = column
    merged["params"] = [
        {**candidate.params, "alpha": float(alpha)}
        for candidate in candidates
        for alpha in training.alphas
    ]
    shown = merged["pooled_test_score" if pooled else "mean_test_score"]
    merged["rank_test_score"] = rank(shown)
    return merged


class _DataProvider:
    """Rows and basis rows for each candidate, sharing what can be shared."""

    def __init__(self, training: Training, candidates: Sequence[Candidate]) -> None:
        self.training, self.selector = training, training.selector()
        self._once: tuple[IntArray | None, Selector | None] | None = None
        self._distances: SharedDistances | None = None
        # A choice of basis rows that looks at the kernel is made anew for each candidate.
        self._same_basis = self.selector is None or not self.selector.data_dependent
        widths = [c for c in candidates if SharedDistances.serves(c.kernel)]
        self._share = len(widths) > 1 and self._same_basis and not is_dask(training.X)

    def __call__(self, candidate: Candidate) -> tuple[KernelData, IntArray | None, Selector | None]:
        data = self.training.data(candidate.kernel)
        if self._once is None:
            selector = None if self.selector is None else clone(self.selector)
            basis = self.training.choose_basis(selector, data)
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
        columns = np.arange(len(data)) if basis is None else basis
        if 24.0 * len(data) * columns.size > self.training.memory:
            return data
        if self._distances is None:
            self._distances = SharedDistances.of(self.training.X, columns)
        return self._distances.with_kernel(candidate.kernel)
