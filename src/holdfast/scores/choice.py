"""The choice of the penalty: from scores on a grid to one alpha, or one for each target."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.data.values import refuse_masked
from holdfast.exceptions import GridEdgeWarning, InvalidInputError, warn
from holdfast.scores.scoring import MAX_COLUMNS, Scores

__all__ = [
    "Choice",
    "check_alphas",
    "choose",
    "cv_results",
    "largest_within",
    "rank",
    "warn_at_edge",
]


#: Scores that differ by less than this, relatively, differ by rounding and count as equal.
TIE = 1e-12

#: The factor by which a warning about the end of a grid advises to extend it.
EXTEND = 100.0


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


def check_alphas(alphas: Any, name: str = "alphas") -> FloatArray:
    """Return the grid of penalties as a (a,) float64 array, positive and in increasing order.

    Parameters
    ----------
    alphas : float or one-dimensional array_like
        In any order. A number means a grid of one.
    name : str
        What the caller's argument is called.

    Raises
    ------
    InvalidInputError
        If a value is not a finite positive number, or is there twice.
    """
    refuse_masked(name, alphas)
    try:
        grid = np.asarray(alphas)
    except ValueError as error:  # ragged lists
        raise InvalidInputError(
            f"{name} must be a number or a one-dimensional list of numbers, got {alphas!r}",
            argument=name,
        ) from error
    fault = _fault(np.atleast_1d(grid), name)
    if fault:
        raise InvalidInputError(f"{name} must {fault}", argument=name)
    return np.sort(np.atleast_1d(grid).astype(np.float64))


def _fault(grid: AnyArray, name: str) -> str | None:
    """Return what a grid of penalties must be and is not."""
    if grid.dtype.kind not in "iuf" and grid.size:
        return f"be real numbers, got values of type {grid.dtype}"
    if grid.ndim > 1:
        return f"be a number or one-dimensional, got an array of shape {grid.shape}"
    if grid.size == 0:
        return "hold at least one value, got none: pass penalties, or None for a default"
    if not np.isfinite(grid).all():
        return f"be finite, got {grid[~np.isfinite(grid)][0]}: leave it out"
    if grid.min() <= 0:
        least = f"{grid.min():g}; for almost no penalty use a small value such as 1e-10"
        return f"be greater than 0, got {least}"
    ordered = np.sort(grid.astype(np.float64))
    twice = ordered[1:][np.diff(ordered) == 0]
    if twice.size:
        return f"not repeat a value, got {twice[0]:g} more than once: pass np.unique({name})"
    return None


def choose(
    scores: Scores, alphas: FloatArray, *, pooled: bool, rule: str, per_target: bool
) -> Choice:
    """Return the chosen penalty.

    Parameters
    ----------
    scores : Scores
        From `holdfast.scores.scoring.score_experiments`.
    alphas : (a,) ndarray
        The grid, increasing.
    pooled : bool
        Whether to compare pooled scores, or else means over experiments.
    rule : {"best", "1se"}
        The best score, or the largest alpha whose score is within one standard error of it.
    per_target : bool
        Whether to choose an alpha for each target. Scores of a single target give arrays of
        length one.

    Raises
    ------
    InvalidInputError
        If no alpha has a defined score, or `rule` is unknown or needs a missing standard error.

    Notes
    -----
    Among equal scores (to 12 significant figures) the largest alpha wins, the most regularised
    model; an alpha with an undefined (nan) score is never chosen. "1se" takes the standard error at
    the best alpha; with `per_target` each target has its own standard error.
    """
    if rule not in ("best", "1se"):
        raise InvalidInputError(f"rule must be 'best' or '1se', got {rule!r}", argument="rule")
    table, se = _compared(scores, pooled=pooled, per_target=per_target)  # (a, v or 1) both
    undefined = np.asarray(np.isnan(table).all(axis=0))
    if undefined.any():
        raise InvalidInputError(_nothing_defined(undefined, pooled=pooled), argument="scoring")
    largest = np.nanmax(table, axis=0)
    best = largest_within(table, TIE * np.abs(largest))
    # Where all penalties are alike, nothing lies beyond the ends.
    differ = largest - np.nanmin(table, axis=0) > TIE * np.abs(largest)
    indices = best
    if rule == "1se":
        indices = largest_within(table, _one_standard_error(se, best))
    score = np.take_along_axis(table, indices[None], axis=0)[0]
    if per_target:
        return Choice(indices, alphas[indices], score, best[differ])
    return Choice(int(indices[0]), float(alphas[indices[0]]), float(score[0]), best[differ])


def _compared(scores: Scores, *, pooled: bool, per_target: bool) -> tuple[FloatArray, FloatArray]:
    """Return the scores to compare and their standard errors: (a, v), v = 1 for a joint choice."""
    if not per_target or scores.per_target is None:
        return (scores.pooled if pooled else scores.mean)[:, None], scores.se[:, None]
    table = scores.per_target if pooled else scores.per_target_mean
    assert table is not None  # a choice for each target comes with its scores
    se = scores.per_target_se
    return table, np.full_like(table, np.nan) if se is None else se


def _one_standard_error(se: FloatArray, best: IntArray) -> FloatArray:
    """Return the standard error of the best score of each column."""
    width = np.asarray(np.take_along_axis(se, best[None], axis=0)[0])
    if np.isnan(width).any():
        raise InvalidInputError(
            "rule='1se' needs the standard error of the best score, which takes at least two "
            "experiments with a defined score: use more experiments or rule='best'",
            argument="rule",
        )
    return width


def largest_within(table: FloatArray, width: FloatArray | float) -> IntArray:
    """Return for each column the last index whose score is at least the best minus `width`."""
    within = table >= np.nanmax(table, axis=0) - width  # nan compares false
    return np.asarray(len(table) - 1 - within[::-1].argmax(axis=0), dtype=np.int64)


def _nothing_defined(undefined: npt.NDArray[np.bool_], *, pooled: bool) -> str:
    what = "the pooled score" if pooled else "the mean score over experiments"
    whose = f" of {undefined.sum()} of {len(undefined)} targets" if len(undefined) > 1 else ""
    remedy = (
        "choose another scoring, or check the held-out predictions for infinities"
        if pooled
        else "use pooled=True, larger test sets, or another scoring"
    )
    return f"{what}{whose} is undefined (nan) for every alpha: {remedy}"


def warn_at_edge(best: IntArray, alphas: FloatArray) -> None:
    """Warn once if some best alpha is the smallest or the largest of the grid."""
    if len(alphas) < 2:
        return
    parts, advice = [], []
    edges = [
        (0, "smallest", "below", alphas[0] / EXTEND),
        (len(alphas) - 1, "largest", "above", alphas[-1] * EXTEND),
    ]
    for index, edge, side, further in edges:
        count = int((best == index).sum())
        if count:
            whose = f" for {count} of {len(best)} targets" if len(best) > 1 else ""
            parts.append(f"the {edge} of the grid ({alphas[index]:g}){whose}")
            advice.append(f"{side} by a factor of {EXTEND:g} (to {further:g})")
    if parts:
        warn(
            f"the best alpha is {' and '.join(parts)}; better values may lie beyond.",
            GridEdgeWarning,
            argument="alphas",
            advice=f"Extend alphas {' and '.join(advice)}.",
        )


def cv_results(scores: Scores, alphas: FloatArray, pooled: bool) -> dict[str, Any]:
    """Return the scores as a dictionary of columns, one entry for each alpha.

    Parameters
    ----------
    scores : Scores
        From `holdfast.scores.scoring.score_experiments`.
    alphas : (a,) ndarray
        The grid.
    pooled : bool
        Whether alphas are ranked by the pooled score, or else by the mean over experiments.

    Notes
    -----
    The keys: ``alpha``, ``params``, ``mean_test_score``, ``std_test_score``, ``se_test_score``,
    ``pooled_test_score``, ``rank_test_score`` (1 is best, equal scores share the smaller number,
    undefined ones come last), ``rounding`` (the estimated rounding error of held-out predictions,
    in standard deviations of y), ``split{i}_test_score`` for at most 100 experiments, and
    ``target_test_score`` of shape (a, v) with more than one target (without it the dictionary is
    ready for ``pandas.DataFrame``).
    """
    results: dict[str, Any] = {
        "alpha": alphas.copy(),
        "params": [{"alpha": float(alpha)} for alpha in alphas],
    }
    if scores.splits.shape[1] <= MAX_COLUMNS:
        for i, split in enumerate(scores.splits.T):
            results[f"split{i}_test_score"] = split.copy()
    results["mean_test_score"] = scores.mean.copy()
    results["std_test_score"] = scores.std.copy()
    results["se_test_score"] = scores.se.copy()
    results["pooled_test_score"] = scores.pooled.copy()
    results["rank_test_score"] = rank(scores.pooled if pooled else scores.mean)
    if scores.rounding is not None:
        results["rounding"] = scores.rounding.copy()
    if scores.per_target is not None:
        results["target_test_score"] = scores.per_target.copy()
    return results


def rank(scores: FloatArray) -> npt.NDArray[np.int32]:
    """Return 1 + the number of scores that are better by more than rounding."""
    with np.errstate(invalid="ignore"):  # inf - inf
        threshold = scores - TIE * np.abs(scores)
    threshold = np.sort(threshold[~np.isnan(threshold)])  # nan beats nothing
    better = threshold.size - np.searchsorted(threshold, scores, side="right")
    better[np.isnan(scores)] = np.count_nonzero(~np.isnan(scores))
    return np.asarray(1 + better, dtype=np.int32)
