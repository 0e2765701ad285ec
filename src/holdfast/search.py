"""A search over kernels: evaluate each on the whole grid of penalties, keep the best.

All candidates share the experiments, the basis rows (unless their choice depends on the kernel)
and, for kernels of the Euclidean distance, the distances. Each finished candidate can be kept in a
checkpoint folder; Ctrl-C ends the search with what is finished.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from holdfast.basis import Selector
from holdfast.candidates import Candidate
from holdfast.engine import Engine
from holdfast.exceptions import HoldfastWarning
from holdfast.experiments import IntArray
from holdfast.files.atomic import atomic_write
from holdfast.gram import KernelData, SharedDistances
from holdfast.kernels import Precomputed
from holdfast.plan import Plan
from holdfast.progress import report
from holdfast.scoring import Scores, Scoring
from holdfast.selection import Choice, choose, cv_results
from holdfast.training import Training


@dataclass(frozen=True, eq=False)
class Found:
    """The outcome of a search.

    Attributes
    ----------
    index : int
        The best candidate.
    selector : Selector or None
        What chose the basis rows, with what it learned.
    engine : Engine
        Its engine on all rows.
    plan : Plan
        Its path.
    choice : Choice
        Its penalty.
    results : dict
        Columns over all finished candidates and penalties.
    """

    index: int
    selector: Selector | None
    engine: Engine
    plan: Plan
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
    checkpoint: str | PathLike[str] | None,
) -> Found:
    """Return the best candidate and penalty.

    Notes
    -----
    Distances are computed once for all RBF and Matérn candidates that share basis rows, if the
    m × n matrix fits in the memory limit beside the features.
    """
    selector = training.selector()
    provider = _DataProvider(training, candidates, selector)
    store = None if checkpoint is None else _Checkpoint(Path(checkpoint), training, scoring)
    finished: list[Scores] = []
    kept: tuple[int, Engine, Plan] | None = None
    best = -np.inf
    for index, candidate in enumerate(candidates):
        report(index, len(candidates), "kernels")
        try:
            scores = None if store is None else store.load(candidate)
            engine = plan = None
            if scores is None:
                engine, plan, scores = _evaluate(provider, training, candidate, scoring, per_target)
                if store is not None:
                    store.save(candidate, scores)
        except KeyboardInterrupt:
            if not finished:
                raise
            warnings.warn(
                f"interrupted after {index} of {len(candidates)} kernels: the result is the best "
                "of those.",
                HoldfastWarning,
                stacklevel=4,
            )
            break
        finished.append(scores)
        value = _value(scores, training, pooled, rule, per_target)
        if value > best:
            best = value
            kept = None if engine is None or plan is None else (index, engine, plan)
            winner = index
    report(len(finished), len(candidates), "kernels")
    if kept is None:  # its scores came from the checkpoint
        engine, plan, _ = _evaluate(provider, training, candidates[winner], None, per_target)
    else:
        _, engine, plan = kept
    choice = choose(
        finished[winner], training.alphas, pooled=pooled, rule=rule, per_target=per_target
    )
    results = _merge(candidates[: len(finished)], finished, training, pooled)
    return Found(winner, selector, engine, plan, choice, results)


def _evaluate(
    provider: _DataProvider,
    training: Training,
    candidate: Candidate,
    scoring: Scoring | None,
    per_target: bool,
) -> tuple[Engine, Plan, Scores]:
    data, basis = provider(candidate)
    engine = training.engine(candidate.kernel, data, basis)
    tasks = training.tasks(basis, training.experiments)
    plan = training.plan(engine, tasks, training.alphas.size)
    if scoring is None:
        return engine, plan, Scores(*(np.empty(0),) * 5)
    return engine, plan, training.scores(scoring, engine, tasks, plan, per_target)


def _value(scores: Scores, training: Training, pooled: bool, rule: str, per_target: bool) -> float:
    """Return the best score of one candidate, averaged over targets that choose for themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the edge of the grid matters for the winner only
        choice = choose(scores, training.alphas, pooled=pooled, rule=rule, per_target=per_target)
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
    order = np.where(np.isnan(shown), -np.inf, shown)
    merged["rank_test_score"] = (1 + (order[None, :] > order[:, None]).sum(axis=1)).astype(np.int32)
    return merged


class _DataProvider:
    """Rows and basis rows for each candidate, sharing what can be shared."""

    def __init__(
        self, training: Training, candidates: Sequence[Candidate], selector: Selector | None
    ) -> None:
        self.training, self.selector = training, selector
        self._once: tuple[IntArray | None] | None = None
        self._distances: SharedDistances | None = None
        widths = [c for c in candidates if SharedDistances.serves(c.kernel)]
        self._share = len(widths) > 1 and (selector is None or not selector.data_dependent)

    def __call__(self, candidate: Candidate) -> tuple[KernelData, IntArray | None]:
        data = self.training.data(candidate.kernel)
        if self._once is None:
            basis = self.training.choose_basis(self.selector, data)
            if self.selector is None or not self.selector.data_dependent:
                self._once = (basis,)
        else:
            (basis,) = self._once
        if not self._share or isinstance(candidate.kernel, Precomputed):
            return data, basis
        if not SharedDistances.serves(candidate.kernel):
            return data, basis
        columns = np.arange(len(data)) if basis is None else basis
        if 24.0 * len(data) * columns.size > self.training.memory:
            return data, basis
        if self._distances is None:
            self._distances = SharedDistances.of(self.training.X, columns)
        return self._distances.with_kernel(candidate.kernel), basis


class _Checkpoint:
    """Scores of finished candidates in a folder, one file each, named by all they depend on."""

    def __init__(self, folder: Path, training: Training, scoring: Scoring) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        digest = hashlib.sha256()
        for part in (training.Y, training.weights, training.alphas):
            digest.update(np.ascontiguousarray(part).tobytes())
        for ragged in (training.experiments.held_out, training.experiments.test):
            digest.update(ragged.values.tobytes() + ragged.ptr.tobytes())
        digest.update(_bytes_of(training.X))
        words = (training.basis, training.policy, training.bias, training.jitter, training.seed)
        digest.update(repr((*words, scoring.name, training.groups is None)).encode())
        self._prefix = digest

    def _file(self, candidate: Candidate) -> Path:
        digest = self._prefix.copy()
        digest.update(repr(candidate.kernel).encode())
        return self.folder / f"scores-{digest.hexdigest()[:32]}.npz"

    def load(self, candidate: Candidate) -> Scores | None:
        path = self._file(candidate)
        if not path.exists():
            return None
        with np.load(path, allow_pickle=False) as archive:
            return Scores(**{name: archive[name] for name in archive.files})

    def save(self, candidate: Candidate, scores: Scores) -> None:
        arrays = {f.name: getattr(scores, f.name) for f in fields(scores)}
        with atomic_write(self._file(candidate)) as file:
            np.savez(file, **{k: v for k, v in arrays.items() if v is not None})  # type: ignore[arg-type]  # numpy types **kwds as bool too


def _bytes_of(X: Any) -> bytes:
    if sp.issparse(X):
        return bytes(X.data.tobytes() + X.indices.tobytes() + X.indptr.tobytes())
    array = np.asarray(X)
    return repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
