"""The penalties that a fit compares, and the choice among them: one, or one for each target.

A penalty λ acts against the eigenvalues of the weighted, centred kernel matrix. Its trace T bounds
the largest: at λ = T every direction of the data is shrunk to half or less, and at T/10⁹ next to
nothing is. The default grid therefore runs from T/10⁹ to T, so that neither the unit of the columns
nor the number of rows decides at which end of it the best penalty lies. If the best still lies at
an end, the grid is extended there, once. Columns of a linear kernel in different units have traces
many decades apart; the grid then begins below the smallest of them, as far down as double precision
allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.data.values import refuse_masked
from holdfast.exceptions import GridEdgeWarning, InvalidInputError, warn
from holdfast.scores.scoring import MAX_COLUMNS, Scores

__all__ = [
    "TIE",
    "Choice",
    "Penalties",
    "check_alphas",
    "choose",
    "cv_results",
    "default_penalties",
    "extended",
    "kernel_parts",
    "largest_within",
    "rank",
    "warn_at_edge",
]

#: Scores that differ by less than this, relatively, differ by rounding and count as equal.
TIE = 1e-12
#: The factor by which a warning about the end of a grid advises to extend it.
EXTEND = 100.0
#: Penalties of the default grid, and the decades that they span.
COUNT, DECADES = 30, 9.0
#: Penalties that are added beyond an end: two decades down, or four up.
BELOW, ABOVE = 7, 14
#: A grid begins this far under the smallest column, but not below this share of T.
UNDER, LOWEST = 1e-6, 1e-16
_STEP = DECADES / (COUNT - 1)


# --- penalties ------------------------------------------------------------------------------------


def check_alphas(alphas: Any, name: str = "alphas") -> FloatArray:
    """Return a number, or numbers in any order, as a grid of penalties (a,), increasing.

    Raises an InvalidInputError if a value is not a finite positive number, or is there twice;
    `name` is what the caller's argument is called.
    """
    refuse_masked(name, alphas)
    try:
        grid = np.atleast_1d(np.asarray(alphas))
    except ValueError:  # ragged lists
        raise InvalidInputError(
            f"{name} must be a number or a one-dimensional list of numbers, got {alphas!r}",
            argument=name,
        ) from None
    if fault := _fault(grid, name):
        raise InvalidInputError(f"{name} must {fault}", argument=name)
    return np.sort(grid.astype(np.float64))


def _fault(grid: AnyArray, name: str) -> str | None:
    """Return what a grid of penalties must be and is not."""
    if grid.ndim > 1:
        return f"be a number or one-dimensional, got an array of shape {grid.shape}"
    if grid.size == 0:
        return "hold at least one value, got none: pass penalties, or None for a default"
    if grid.dtype.kind not in "iuf":
        return f"be real numbers, got values of type {grid.dtype}"
    if not np.isfinite(grid).all():
        return f"be finite, got {grid[~np.isfinite(grid)][0]}: leave it out"
    if grid.min() <= 0:
        least = f"{grid.min():g}; for almost no penalty use a small value such as 1e-10"
        return f"be greater than 0, got {least}"
    values, count = np.unique(grid.astype(np.float64), return_counts=True)
    if values.size < grid.size:
        twice = values[count > 1][0]
        return f"not repeat a value, got {twice:g} more than once: pass np.unique({name})"
    return None


@dataclass(frozen=True, eq=False)
class Penalties:
    """The penalties (a,) to compare for one kernel, increasing.

    Those of a default grid are steps from a unit, beginning at the `first`. No unit: the user's own
    grid, which is never extended.
    """

    alphas: FloatArray
    unit: float | None = None
    first: int = 0


def default_penalties(totals: FloatArray, least: FloatArray | None = None) -> list[Penalties]:
    """Return the default grid of each kernel.

    Parameters
    ----------
    totals : ndarray of shape (kernels,)
        T of each kernel: the trace of its weighted, centred matrix.
    least : ndarray of shape (kernels,), optional
        The smallest part of T that a column has, for linear kernels; inf for others.

    Notes
    -----
    All grids are parts of one sequence of equal ratios, which ends at the T of the first kernel:
    scores of several kernels can be compared at the same penalties.
    """
    unit = float(totals[0])
    last = np.rint((np.log10(totals) - np.log10(unit)) / _STEP).astype(int)
    down = np.full(len(totals), 10.0**-DECADES)
    if least is not None:
        down = np.clip(least * UNDER / totals, LOWEST, down)
    first = last - np.ceil(-np.log10(down) / _STEP - 1e-9).astype(int)
    grids = []
    for start, stop in zip(first.tolist(), last.tolist(), strict=True):
        grids.append(Penalties(_steps(unit, start, stop + 1 - start), unit, start))
    return grids


def _steps(unit: float, first: int, count: int) -> FloatArray:
    """Return penalties so many steps from the unit: neither zero nor infinite, however extreme."""
    with np.errstate(over="ignore", under="ignore"):
        found = unit * 10.0 ** (_STEP * np.arange(first, first + count))
    return np.asarray(found[(found > 0) & np.isfinite(found)])


def extended(
    penalties: Penalties,
    scores: Scores,
    best: IntArray,
    score: Callable[[FloatArray], Scores],
) -> tuple[FloatArray, Scores]:
    """Return the penalties compared and their scores, beyond an end of a default grid if need be.

    From the scores of the penalties, the places of the best of them, one for each choice to be
    made, and a function from further penalties to their scores.
    """
    alphas, unit, first = penalties.alphas, penalties.unit, penalties.first
    a, known = alphas.size, scores.pooled[~np.isnan(scores.pooled)]
    alike = known.size > 0 and np.ptp(known) <= TIE * np.abs(known).max()
    if unit is None or alike:
        return alphas, scores
    if (best == 0).any() and (below := _steps(unit, first - BELOW, BELOW)).size:
        alphas, scores = np.concatenate([below, alphas]), Scores.joined([score(below), scores])
    if (best == a - 1).any() and (above := _steps(unit, first + a, ABOVE)).size:
        alphas, scores = np.concatenate([alphas, above]), Scores.joined([scores, score(above)])
    return alphas, scores


# --- the choice -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Choice:
    """The chosen penalty, or one for each target.

    Attributes
    ----------
    indices : int or (v,) ndarray
        Its place in the grid.
    alpha : float or (v,) ndarray
        The penalty itself.
    score : float or (v,) ndarray
        Its score.
    best : ndarray of int
        Places of the best scores, before any rule, of targets whose scores differ at all: where
        they lie at an end of the grid, better ones may lie beyond (`warn_at_edge`).
    """

    indices: int | IntArray
    alpha: float | FloatArray
    score: float | FloatArray
    best: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))


def choose(
    scores: Scores, alphas: FloatArray, *, pooled: bool, rule: str, per_target: bool
) -> Choice:
    """Return the chosen penalty, of a grid (a,) that increases.

    By pooled scores, or else by means over experiments; one for all targets or, `per_target`, one
    for each, and then single targets give arrays of length one, too. The rule "best" takes the best
    score, "1se" the largest alpha whose score is within one standard error, at the best alpha, of
    it. Among equal scores (to 12 significant figures) the largest alpha wins, the most regularised
    model; an alpha with an undefined (nan) score is never chosen. If all are undefined, or the rule
    needs a missing standard error, it is an InvalidInputError.
    """
    table, se = scores.per_target if pooled else scores.per_target_mean, scores.per_target_se
    if not per_target or table is None:  # (a, v) with v = 1
        table, se = (scores.pooled if pooled else scores.mean)[:, None], scores.se[:, None]
    if undefined := int(np.isnan(table).all(axis=0).sum()):
        what = "the pooled score" if pooled else "the mean score over experiments"
        whose = f" of {undefined} of {table.shape[1]} targets" if table.shape[1] > 1 else ""
        remedy = "check the held-out predictions for infinities"
        if not pooled:
            remedy = "use pooled=True or larger test sets"
        raise InvalidInputError(
            f"{what}{whose} is undefined (nan) for every alpha: choose another scoring, or "
            f"{remedy}",
            argument="scoring",
        )
    largest = np.nanmax(table, axis=0)
    tie = TIE * np.abs(largest)
    best = indices = largest_within(table, largest - tie)
    # Where all penalties are alike, nothing lies beyond the ends.
    differ = largest - np.nanmin(table, axis=0) > tie
    columns = np.arange(table.shape[1])
    if rule == "1se":
        width = np.full(columns.size, np.nan) if se is None else se[best, columns]
        if np.isnan(width).any():
            raise InvalidInputError(
                "rule='1se' needs the standard error of the best score, which takes at least two "
                "experiments with a defined score: use more experiments or rule='best'",
                argument="rule",
            )
        indices = largest_within(table, largest - width)
    score = table[indices, columns]
    if per_target:
        return Choice(indices, alphas[indices], score, best[differ])
    return Choice(int(indices[0]), float(alphas[indices[0]]), float(score[0]), best[differ])


def largest_within(table: FloatArray, bound: FloatArray | float) -> IntArray:
    """Return for each column the last index whose score is at least its bound."""
    return np.asarray(len(table) - 1 - (table >= bound)[::-1].argmax(axis=0), dtype=np.int64)


def warn_at_edge(best: IntArray, alphas: FloatArray) -> None:
    """Warn once if some best alpha is the smallest or the largest of the grid."""
    ends = (
        (0, "smallest", "below", 1.0 / EXTEND),
        (len(alphas) - 1, "largest", "above", EXTEND),
    )
    parts, advice = [], []
    for index, end, side, factor in ends if len(alphas) > 1 else ():
        if count := int((best == index).sum()):
            whose = f" for {count} of {len(best)} targets" if len(best) > 1 else ""
            parts.append(f"the {end} of the grid ({alphas[index]:g}){whose}")
            advice.append(f"{side} by a factor of {EXTEND:g} (to {alphas[index] * factor:g})")
    if parts:
        warn(
            f"the best alpha is {' and '.join(parts)}; better values may lie beyond.",
            GridEdgeWarning,
            argument="alphas",
            advice=f"Extend alphas {' and '.join(advice)}.",
        )


# --- the table of scores --------------------------------------------------------------------------


def cv_results(scores: Scores, alphas: FloatArray, pooled: bool) -> dict[str, Any]:
    """Return the scores as a dictionary of columns, one entry for each alpha.

    Ranks are those of pooled scores, or else of means over experiments.

    Notes
    -----
    The keys: ``alpha``, ``mean_test_score``, ``std_test_score``, ``se_test_score``,
    ``pooled_test_score``, ``rank_test_score`` (1 is best, equal scores share the smaller number,
    undefined ones come last), ``rounding`` (the estimated rounding error of held-out predictions,
    in standard deviations of y), ``split{i}_test_score`` for at most 100 experiments, and
    ``target_test_score`` of shape (a, v) with more than one target (without it the dictionary is
    ready for ``pandas.DataFrame``).
    """
    columns: dict[str, Any] = {"alpha": alphas.copy()}
    if scores.splits.shape[1] <= MAX_COLUMNS:
        for i, split in enumerate(scores.splits.T):
            columns[f"split{i}_test_score"] = split.copy()
    columns["mean_test_score"], columns["std_test_score"] = scores.mean, scores.std
    columns["se_test_score"], columns["pooled_test_score"] = scores.se, scores.pooled
    columns["rank_test_score"] = rank(scores.pooled if pooled else scores.mean)
    if scores.rounding is not None:
        columns["rounding"] = scores.rounding
    if scores.per_target is not None:
        columns["target_test_score"] = scores.per_target
    return columns


def rank(scores: FloatArray) -> IntArray:
    """Return 1 + the number of scores that are better by more than rounding; nan beats nothing."""
    with np.errstate(invalid="ignore"):  # inf - inf
        threshold = scores - TIE * np.abs(scores)
    threshold = np.sort(threshold[~np.isnan(threshold)])
    better = threshold.size - np.searchsorted(threshold, scores, side="right")
    better[np.isnan(scores)] = threshold.size
    return np.asarray(1 + better, dtype=np.int32)


def kernel_parts(results: Mapping[str, Any]) -> list[slice]:
    """Return where in the columns of `cv_results_` the penalties of each kernel are."""
    alphas = np.asarray(results["alpha"])
    kernels = [repr({k: v for k, v in p.items() if k != "alpha"}) for p in results["params"]]
    starts = [
        i
        for i in range(alphas.size)
        if i == 0 or kernels[i] != kernels[i - 1] or alphas[i] <= alphas[i - 1]
    ]
    return [slice(*ends) for ends in zip(starts, [*starts[1:], alphas.size], strict=True)]
