"""gamma="search": widths are compared on a part of the rows, then on all of them.

The coarse widths follow the median distance of the rows (`holdfast.kernels.typical`), a factor of 4
apart. If the best of them is the first or the last, the grid is extended there, one step at a time
and at most `MORE` steps; then the widths half and twice the best are compared as well. Where there
are rows enough, a part of them does this, with fewer basis rows, at a fraction of the cost of one
fit. More rows show finer structure: all of them compare the best width with narrower ones, each
half as wide, or with wider ones, while the score improves and at most `WALK` of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import clone

from holdfast._typing import IntArray
from holdfast.answers.fitted import Fitted, kernel_of, without_alpha
from holdfast.answers.model import Models
from holdfast.answers.training import Objective, TrainingData
from holdfast.basis.base import how_many
from holdfast.core.experiments import Experiments, Ragged
from holdfast.data.dask import is_dask
from holdfast.data.values import is_number
from holdfast.estimators.search import Trial, add_trials, fitted_to
from holdfast.exceptions import GridEdgeWarning, HoldfastWarning, warn
from holdfast.kernels.grid import Candidate
from holdfast.kernels.typical import MULTIPLES, STEP
from holdfast.scores.choice import TIE
from holdfast.scores.penalties import Penalties, kernel_parts

__all__ = ["search_widths"]

#: Steps beyond the coarse widths, on either side or on both.
MORE = 2
#: Rows of the part that begins a search: this share of all, but not fewer or more than so many; and
#: its rows for each basis row.
SHARE, FEWEST, MOST, EACH = 1 / 3, 150, 1000, 8
#: Scores on a part that differ by this share are alike. Widths that all rows compare, at most, a
#: factor HALF apart.
NEAR, WALK, HALF = 0.01, 3, STEP**0.5
#: Widths that differ by less are the same.
_SAME = 1.01


#: From kernels on some rows to the penalties of each.
ToPenalties = Callable[[TrainingData, list[Candidate]], list[Penalties]]
#: Kernels with their scores.
Tried = Sequence[tuple[Candidate, float]]


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
    part = None if training.constant else part_of(training)
    if part is None:
        return _on_these(training, objective, candidates, penalties, parameters)
    comparison = _Comparison(training, objective, candidates, penalties)
    kinds = dict.fromkeys(family(candidate) for candidate in candidates)
    for name in kinds:
        own = [candidate for candidate in candidates if family(candidate) == name]
        if len(own) == 1:
            comparison.add(own)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HoldfastWarning)
            first = _on_these(part, objective, own, penalties, parameters, finer=False)
        tried = best_scores(first.search.table, objective.pooled)
        most = max(score for _, score in tried)
        alike = [params for params, score in tried if score >= most - NEAR * abs(most)]
        start = max(alike, key=lambda params: params["gamma"])
        walked: dict[int, tuple[Candidate, float]] = {}
        place: int | None = 0
        while place is not None:
            params = {**start, "gamma": start["gamma"] * HALF**place}
            kernel = kernel_of(training, params, parameters)
            walked[place] = kernel, comparison.add([kernel])
            best = max(walked, key=lambda place: walked[place][1])
            beside = [one for one in (best + 1, best - 1) if one not in walked]
            place = beside[0] if beside and len(walked) < WALK else None
        before = [(kernel_of(training, params, parameters), score) for params, score in tried]
        warn_at_end(walked[best][0], [*before, *walked.values()])
    return comparison.result()


class _Comparison:
    """Kernels that are compared on all rows, each at penalties of one sequence."""

    def __init__(
        self,
        training: TrainingData,
        objective: Objective,
        candidates: list[Candidate],
        penalties: ToPenalties,
    ) -> None:
        self.training, self.objective, self.penalties = training, objective, penalties
        self.first, self.kinds = candidates[0], [family(candidate) for candidate in candidates]
        self.models, self.trials = Models(training, candidates), list[Trial]()
        self.models.warn()

    def add(self, found: list[Candidate]) -> float:
        """Compare more kernels; return the score of the last."""
        grids = self.penalties(self.training, [self.first, *found])[1:]
        add_trials(self.trials, self.models, self.objective, found, grids)
        return self.trials[-1].value

    @property
    def tried(self) -> list[tuple[Candidate, float]]:
        """The kernels compared, with their scores."""
        return [(trial.candidate, trial.value) for trial in self.trials]

    def result(self) -> Fitted:
        """Return the best of them; the table has them by their kind, then by their width."""

        def place(trial: Trial) -> tuple[int, float]:
            kind = self.kinds.index(family(trial.candidate))
            return kind, trial.candidate.params.get("gamma") or 0.0

        return fitted_to(sorted(self.trials, key=place), self.objective)


def _on_these(
    training: TrainingData,
    objective: Objective,
    candidates: list[Candidate],
    penalties: ToPenalties,
    parameters: Mapping[str, Any],
    *,
    finer: bool = True,
) -> Fitted:
    """Return the best of these kernels and of further widths, until there are none to try.

    `finer`: half and twice the best width are among them.
    """
    comparison = _Comparison(training, objective, candidates, penalties)
    found = candidates
    while found:
        comparison.add(found)
        found = []
        if not training.constant:
            found = [
                kernel_of(training, {**members[0][0].params, "gamma": gamma}, parameters)
                for members in _families(comparison.tried)
                for gamma in _next(members, finer=finer)
            ]
    result = comparison.result()
    if not training.constant:
        chosen = Candidate(result.model.kernel, result.model.params)
        warn_at_end(chosen, comparison.tried)
    return result


def family(candidate: Candidate) -> str:
    """Return what is the same for kernels that differ by their width alone."""
    return repr({name: value for name, value in candidate.params.items() if name != "gamma"})


def part_of(training: TrainingData) -> TrainingData | None:
    """Return the data of some rows, for the start of a search; None where rows are too few.

    Experiments lose the rows that are not there. Rows that were named as basis rows stay.
    """
    m, live = training.weights.size, np.flatnonzero(training.weights > 0)
    size = min(int(SHARE * live.size), MOST)
    if size < FEWEST or is_dask(training.X):
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
        X=training.X[rows],
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


def _next(members: list[tuple[Candidate, float]], *, finer: bool) -> list[float]:
    """Return the widths to try next for one kernel, from its own in increasing order."""
    if len(members) < 2 or _alike(members):
        return []
    widths = [candidate.params["gamma"] for candidate, _ in members]
    best = max(range(len(widths)), key=lambda i: members[i][1])
    if any(b / a < STEP / _SAME for a, b in pairwise(widths)):  # the last round
        return []
    added = len(widths) - len(MULTIPLES)
    if best == 0 and added < MORE:
        return [widths[0] / STEP]
    if best == len(widths) - 1 and added < MORE:
        return [widths[-1] * STEP]
    inside = (finer and best > 0, finer and best < len(widths) - 1)
    factors = zip((1.0 / HALF, HALF), inside, strict=True)
    return [widths[best] * factor for factor, there in factors if there]


def warn_at_end(chosen: Candidate, tried: Tried) -> None:
    """Warn if the width of the chosen kernel is the first or last of those that were tried."""
    for members in _families(tried):
        if family(members[0][0]) != family(chosen) or len(members) < 2 or _alike(members):
            continue
        widths = [candidate.params["gamma"] for candidate, _ in members]
        gamma = chosen.params["gamma"]
        if gamma in (widths[0], widths[-1]):
            end = "smallest" if gamma == widths[0] else "largest"
            warn(
                f"the best gamma is the {end} of those that were tried ({gamma:.3g}); a better one "
                "may lie beyond.",
                GridEdgeWarning,
                argument="gamma",
                advice="Pass a list of widths as gamma, or `holdfast.tune` the kernel.",
            )


def best_scores(results: Mapping[str, Any], pooled: bool) -> list[tuple[dict[str, Any], float]]:
    """Return (arguments, best score) of each kernel in `cv_results_`."""
    scores = results["pooled_test_score" if pooled else "mean_test_score"]
    parts = kernel_parts(results)
    own = [without_alpha(results["params"][part.start]) for part in parts]
    return [(params, float(scores[part].max())) for params, part in zip(own, parts, strict=True)]


def _families(tried: Tried) -> list[list[tuple[Candidate, float]]]:
    """Return kernels with a width, those of one kind together and in the order of their widths."""
    kinds: dict[str, list[tuple[Candidate, float]]] = {}
    for candidate, score in tried:
        if candidate.params.get("gamma") is not None:
            kinds.setdefault(family(candidate), []).append((candidate, score))
    return [sorted(members, key=lambda one: one[0].params["gamma"]) for members in kinds.values()]


def _alike(members: list[tuple[Candidate, float]]) -> bool:
    """Whether no width is better than another."""
    scores = [score for _, score in members]
    return max(scores) - min(scores) <= TIE * abs(max(scores))
