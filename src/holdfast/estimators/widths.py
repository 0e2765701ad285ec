"""gamma="search": widths are compared on a part of the rows, then on all of them.

The coarse widths follow the median distance of the rows (`holdfast.kernels.typical`), a factor of 4
apart. If the best of them is the first or the last, the grid is extended there, one step at a time
and at most `MORE` steps. Where there are rows enough, a part of them does this, with fewer basis
rows, at a fraction of the cost of one fit. Then all rows compare the best width with those half and
twice as wide, narrower ones first, while the score improves.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from holdfast._typing import IntArray
from holdfast.answers.fitted import Fitted, kernel_of
from holdfast.answers.model import Models
from holdfast.answers.training import Objective, TrainingData
from holdfast.basis.base import how_many
from holdfast.core.experiments import Experiments, Ragged
from holdfast.data.dask import gather
from holdfast.data.values import is_number
from holdfast.estimators.search import Trial, add_trials, fitted_to
from holdfast.exceptions import GridEdgeWarning, HoldfastWarning, warn
from holdfast.kernels.grid import Candidate
from holdfast.kernels.typical import STEP
from holdfast.scores.choice import TIE, Penalties

__all__ = ["search_widths"]

#: Steps beyond the coarse widths.
MORE = 2
#: Rows of the part that begins a search: this share of all, but not fewer or more than so many; and
#: its rows for each basis row.
SHARE, FEWEST, MOST, EACH = 1 / 3, 150, 1000, 8
#: Scores on a part that differ by this share are alike: more rows want the narrowest of them.
NEAR = 0.01
#: Steps that all rows walk, and their size.
WALK, HALF = 2, STEP**0.5

#: From kernels on some rows to the penalties of each.
ToPenalties = Callable[[TrainingData, list[Candidate]], list[Penalties]]
#: Widths with their scores.
Tried = dict[float, float]


def search_widths(
    training: TrainingData,
    objective: Objective,
    candidates: list[Candidate],
    penalties: ToPenalties,
    parameters: Mapping[str, Any],
) -> Fitted:
    """Return the best kernel, with a width that was searched for, at its best penalty.

    Parameters
    ----------
    training, objective
    candidates : list of Candidate
        Each kernel with its coarse widths.
    penalties : callable
    parameters : mapping
        Those of the estimator.
    """
    every = _Comparison(training, objective, candidates, penalties, parameters)
    some = None if training.constant else part_of(training)
    for name in every.kinds:
        own = [candidate for candidate in candidates if _kind(candidate) == name]
        params = own[0].params
        coarse: list[Any] = [candidate.params.get("gamma") for candidate in own]
        if len(own) == 1 or training.constant:
            every.compare(params, coarse)
            continue
        if some is None:
            before: Tried = {}
            tried = every.with_ends(params, coarse)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", HoldfastWarning)
                part = _Comparison(some, objective, own, penalties, parameters)
                before = part.with_ends(params, coarse)
            good = max(before.values())
            narrowest = max(g for g, score in before.items() if score >= good - NEAR * abs(good))
            tried = every.compare(params, [narrowest])
        for _ in range(0 if _alike({**before, **tried}) else WALK):
            best = max(tried, key=lambda gamma: tried[gamma])
            beside = [gamma for gamma in (best * HALF, best / HALF) if gamma not in tried]
            tried |= every.compare(params, beside[:1])
        _warn_at_end(tried, {**before, **tried})
    return every.result()


class _Comparison:
    """Kernels that are compared on the same rows, at penalties of one sequence."""

    def __init__(
        self,
        training: TrainingData,
        objective: Objective,
        candidates: list[Candidate],
        penalties: ToPenalties,
        parameters: Mapping[str, Any],
    ) -> None:
        self._training, self._objective, self._parameters = training, objective, parameters
        self._first, self._penalties = candidates[0], penalties
        self._models, self._trials = Models(training, candidates), list[Trial]()
        self.kinds = list(dict.fromkeys(_kind(candidate) for candidate in candidates))
        self._models.warn()

    def compare(self, params: Mapping[str, Any], gammas: Sequence[float]) -> Tried:
        """Compare a kernel with some widths (None: it has none); return their scores."""
        found = []
        for gamma in gammas:
            own = {**params, "gamma": gamma} if gamma else dict(params)
            found.append(kernel_of(self._training, own, self._parameters))
        grids = self._penalties(self._training, [self._first, *found])[1:]
        add_trials(self._trials, self._models, self._objective, found, grids)
        new = self._trials[len(self._trials) - len(found) :]
        return {gamma: trial.value for gamma, trial in zip(gammas, new, strict=True)}

    def with_ends(self, params: Mapping[str, Any], gammas: Sequence[float]) -> Tried:
        """Compare widths, and further ones while the best lies at an end."""
        tried = self.compare(params, gammas)
        for _ in range(MORE):
            best, ends = max(tried, key=lambda gamma: tried[gamma]), (min(tried), max(tried))
            if best not in ends or _alike(tried):
                break
            tried |= self.compare(params, [best / STEP if best == ends[0] else best * STEP])
        return tried

    def result(self) -> Fitted:
        """Return the best of them; the table has them by their kind, then by their width."""

        def place(trial: Trial) -> tuple[int, float]:
            kind = self.kinds.index(_kind(trial.candidate))
            return kind, trial.candidate.params.get("gamma") or 0.0

        return fitted_to(sorted(self._trials, key=place), self._objective)


def _kind(candidate: Candidate) -> str:
    """Return what is the same for kernels that differ by their width alone."""
    return repr({name: value for name, value in candidate.params.items() if name != "gamma"})


def _alike(tried: Tried) -> bool:
    """Whether no width is better than another."""
    scores = tried.values()
    return len(tried) > 1 and max(scores) - min(scores) <= TIE * abs(max(scores))


def _warn_at_end(tried: Tried, every: Tried) -> None:
    """Warn if the best of the widths tried is the first or last of all."""
    gamma = max(tried, key=lambda gamma: tried[gamma])
    if gamma not in (min(every), max(every)) or _alike(every):
        return
    warn(
        f"the best gamma is the {'smallest' if gamma == min(every) else 'largest'} of those that "
        f"were tried ({gamma:.3g}); a better one may lie beyond.",
        GridEdgeWarning,
        argument="gamma",
        advice="Pass a list of widths as gamma, or `holdfast.tune` the kernel.",
    )


def part_of(training: TrainingData) -> TrainingData | None:
    """Return the data of some rows, for the start of a search; None where rows are too few.

    Experiments lose the rows that are not there. Rows that were named as basis rows stay.
    """
    m, live = training.weights.size, np.flatnonzero(training.weights > 0)
    size = min(int(SHARE * live.size), MOST)
    if size < FEWEST:
        return None
    rng = np.random.default_rng(0)  # as what is typical of rows, of no seed
    named, basis = _named_rows(training.basis, m), training.basis
    rows = np.union1d(rng.choice(live, size, replace=False), named).astype(np.int64)
    place = np.full(m, -1)
    place[rows] = np.arange(rows.size)
    if named.size:
        basis = place[named]
    elif (n := getattr(basis, "n", basis)) is not None and is_number(n):
        asked = how_many(n, live.size)
        few = min(asked, max(FEWEST // 2, rows.size // EACH))
        basis = few if basis is n else clone(basis).set_params(n=few)
    experiments = _among(training.experiments, place, rows.size)
    if not len(experiments):
        return None
    return replace(
        training,
        X=gather(training.X, rows),
        Y=training.Y[rows],
        labels=training.labels[rows],
        weights=training.weights[rows],
        groups=None if training.groups is None else training.groups[rows],
        experiments=experiments,
        basis=basis,
    )


def _named_rows(basis: Any, m: int) -> IntArray:
    """Return the rows that a user chose as basis rows, none if something else chooses."""
    if basis is None or not np.ndim(basis):
        return np.empty(0, dtype=np.int64)
    rows = np.asarray(basis)
    return np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64)


def _among(experiments: Experiments, place: IntArray, size: int) -> Experiments:
    """Return the experiments of some rows, `place` being −1 for the others."""

    def kept(rows: Ragged) -> Ragged:
        found = rows.filter(place[rows.values] >= 0)
        return Ragged(place[found.values], found.ptr)

    held, test = kept(experiments.held_out), kept(experiments.test)
    useful = np.flatnonzero((test.sizes > 0) & (held.sizes < size))
    return Experiments(held.items(useful), test.items(useful))
