"""gamma="search": widths are compared on a part of the rows, then on all at one penalty each.

The coarse widths follow the median distance of the rows (`holdfast.kernels.typical`), a factor of 4
apart. If the best of them is the first or the last, the grid is extended there, one step at a time
and at most `MORE` steps; then the widths half and twice the best are compared as well. Where there
are rows enough, a part of them does this over all penalties, at a fraction of the cost of one fit.
More rows show finer structure, so all of them compare the best width with narrower ones again, each
near the penalty that was best for it, which takes a Cholesky factor instead of a spectrum. The two
best are fitted with all penalties.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from holdfast._typing import IntArray
from holdfast.answers.fitted import Fitted, kernel_of, without_alpha
from holdfast.answers.model import Models
from holdfast.answers.training import Objective, TrainingData
from holdfast.core.experiments import Experiments, Ragged
from holdfast.data.dask import is_dask
from holdfast.estimators.search import Trial, add_trials, fitted_to, search
from holdfast.exceptions import GridEdgeWarning, HoldfastWarning, warn
from holdfast.kernels.grid import Candidate
from holdfast.kernels.typical import MULTIPLES, STEP
from holdfast.scores.choice import TIE
from holdfast.scores.penalties import Penalties, kernel_parts

__all__ = ["search_widths"]

#: Steps beyond the coarse widths, on either side or on both.
MORE = 2
#: Rows of the part that begins a search: this share of all, but not fewer or more than so many. The
#: whole search on a third of the rows costs a third of a fit.
SHARE, FEWEST, MOST = 1 / 3, 150, 1000
#: Widths that are fitted with all penalties in the end.
FITTED_WIDTHS = 2
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
        return _walk(training, objective, candidates, penalties, parameters)
    best: list[Candidate] = []
    for name in dict.fromkeys(family(candidate) for candidate in candidates):
        own = [candidate for candidate in candidates if family(candidate) == name]
        if len(own) > 1:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", HoldfastWarning)
                first = _walk(part, objective, own, penalties, parameters)
            own = _on_all_rows(training, objective, first, parameters)
        best += own
    return search(training, objective, best, penalties(training, best))


def _walk(
    training: TrainingData,
    objective: Objective,
    candidates: list[Candidate],
    penalties: ToPenalties,
    parameters: Mapping[str, Any],
) -> Fitted:
    """Return the best of these kernels and of further widths, until there are none to try."""
    models, trials = Models(training, candidates), list[Trial]()
    models.warn()
    kinds = [family(candidate) for candidate in candidates]
    found = candidates
    while found:
        # Their penalties belong to the sequence of the first kernel.
        grids = penalties(training, candidates[:1] + found)[1:]
        add_trials(trials, models, objective, found, grids)
        tried = [(trial.candidate, trial.value) for trial in trials]
        found = [] if training.constant else _further(training, tried, parameters)

    def place(trial: Trial) -> tuple[int, float]:
        return kinds.index(family(trial.candidate)), trial.candidate.params.get("gamma") or 0.0

    trials.sort(key=place)
    result = fitted_to(trials, objective)
    if not training.constant:
        warn_at_end(Candidate(result.model.kernel, result.model.params), tried)
    return result


def _on_all_rows(
    training: TrainingData, objective: Objective, first: Fitted, parameters: Mapping[str, Any]
) -> list[Candidate]:
    """Return the best widths on all rows, near the penalties that were best on some of them."""
    tried = not_coarser(best_penalties(first.search.table, objective.pooled))
    kernels = [kernel_of(training, params, parameters) for params, _, _ in tried]
    share = first.training.weights.size / training.weights.size  # more rows: smaller penalties
    grids = [Penalties(np.array([share * alpha])) for _, alpha, _ in tried]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HoldfastWarning)
        found = search(training, objective, kernels, grids)
    order = best_penalties(found.search.table, objective.pooled)
    scores = [(kernel, score) for kernel, (_, _, score) in zip(kernels, tried, strict=True)]
    warn_at_end(kernel_of(training, order[0][0], parameters), scores)
    return [kernel_of(training, params, parameters) for params, _, _ in order[:FITTED_WIDTHS]]


def family(candidate: Candidate) -> str:
    """Return what is the same for kernels that differ by their width alone."""
    return repr({name: value for name, value in candidate.params.items() if name != "gamma"})


def part_of(training: TrainingData) -> TrainingData | None:
    """Return the data of some rows, for the start of a search; None where rows are too few.

    Experiments lose the rows that are not there. Rows that were named as basis rows stay.
    """
    m, live = training.weights.size, np.flatnonzero(training.weights > 0)
    size = min(int(SHARE * live.size), MOST)
    asked = getattr(training.basis, "n", training.basis)  # how many basis rows, if that is a number
    if size < max(FEWEST, asked if isinstance(asked, int | np.integer) else 0) or is_dask(
        training.X
    ):
        return None
    rng = np.random.default_rng(0)  # as what is typical of rows, of no seed
    named = _named_rows(training.basis, m)
    rows = np.union1d(rng.choice(live, size, replace=False), named).astype(np.int64)
    place = np.full(m, -1)
    place[rows] = np.arange(rows.size)
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
        basis=place[named] if named.size else training.basis,
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


def _further(
    training: TrainingData, tried: Tried, parameters: Mapping[str, Any]
) -> list[Candidate]:
    """Return further kernels, none at the end, from those tried and their scores."""
    return [
        kernel_of(training, {**members[0][0].params, "gamma": gamma}, parameters)
        for members in _families(tried)
        for gamma in _next(members)
    ]


def _next(members: list[tuple[Candidate, float]]) -> list[float]:
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
    half = STEP**0.5
    inside = (best > 0, best < len(widths) - 1)
    factors = zip((1.0 / half, half), inside, strict=True)
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


def best_penalties(
    results: Mapping[str, Any], pooled: bool
) -> list[tuple[dict[str, Any], float, float]]:
    """Return (arguments, best penalty, its score) of each kernel in `cv_results_`, best first."""
    scores, best = results["pooled_test_score" if pooled else "mean_test_score"], []
    for part in kernel_parts(results):
        place = part.start + int(np.argmax(scores[part]))
        params = without_alpha(results["params"][place])
        best.append((params, float(results["alpha"][place]), float(scores[place])))
    return sorted(best, key=lambda one: -one[2])


def not_coarser(
    tried: list[tuple[dict[str, Any], float, float]],
) -> list[tuple[dict[str, Any], float, float]]:
    """Return what was tried without the widths that are clearly coarser than the best."""
    least = tried[0][0]["gamma"] / (_SAME * STEP)
    return [one for one in tried if one[0]["gamma"] >= least]


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
