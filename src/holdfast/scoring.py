"""Scores of many held-out experiments for every alpha: pooled, of each experiment and target.

What to score with is the business of `holdfast._scorers`, whose names are offered here too; the
common metrics are computed from sums (`holdfast._moments`), all others by calling the scorer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast._moments import METRICS, TestRows, experiment_blocks, moment_scores
from holdfast._scorers import (
    NO_WEIGHT,
    Scoring,
    decision_to_label_index,
    decision_to_proba,
    resolve_scoring,
)
from holdfast.exceptions import InvalidInputError

__all__ = [
    "MAX_SPLITS",
    "Scores",
    "Scoring",
    "combine",
    "decision_to_label_index",
    "decision_to_proba",
    "resolve_scoring",
    "score_experiments",
]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Array = npt.NDArray[Any]

#: Scorers that must be called once per experiment are not called for more experiments than this.
MAX_SPLITS = 1000


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of a sequence of experiments for every alpha; greater is better.

    Attributes
    ----------
    pooled : (a,) ndarray
        Scores of the test rows of all experiments taken together.
    splits : (a, n_experiments) ndarray
        Score of each experiment; nan where undefined (no row of positive weight, R² of one row,
        AUC of one class) or not computed (see `score_experiments`).
    mean, std : (a,) ndarray
        Mean and standard deviation (ddof = 0, as in scikit-learn) of the defined splits.
    se : (a,) ndarray
        Standard error of the score; nan with fewer than two experiments.
    replicates : (a, n_blocks) ndarray or None
        Pooled scores without one block of experiments, if `se` had to be made of them.
    per_target : (a, v) ndarray or None
        Pooled score of each target by itself; only for regression with v > 1.
    per_target_mean, per_target_se : (a, v) ndarray or None
        `mean` and `se` of each target by itself.
    """

    pooled: FloatArray
    splits: FloatArray
    mean: FloatArray
    std: FloatArray
    se: FloatArray
    replicates: FloatArray | None = None
    per_target: FloatArray | None = None
    per_target_mean: FloatArray | None = None
    per_target_se: FloatArray | None = None


def score_experiments(
    scoring: Scoring,
    predictions: FloatArray,
    rows: IntArray,
    ptr: IntArray,
    y: Array,
    weights: FloatArray,
    *,
    each_target: bool = False,
) -> Scores:
    """Return the scores of held-out predictions: pooled, of each experiment, of each target.

    Parameters
    ----------
    scoring : Scoring
        From `resolve_scoring`.
    predictions : (a, k, v) ndarray
        ``predictions[:, ptr[j]:ptr[j + 1]]`` belong to experiment j.
    rows : (k,) ndarray
        Experiment j tests ``rows[ptr[j]:ptr[j + 1]]``; a row may be tested more than once.
    ptr : (n_experiments + 1,) ndarray
        Where each experiment starts and ends.
    y : (m, v) ndarray or (m,) labels
        Targets of all rows.
    weights : (m,) ndarray
        Weights of all rows. Rows of weight zero are left out, and so is an experiment whose test
        rows all have weight zero: its split is nan and counts in no mean.
    each_target : bool
        Also give `per_target_mean` and `per_target_se` if that takes a scorer call for each
        target and experiment. The fast metrics give them anyway.

    Raises
    ------
    InvalidInputError
        If every test row has weight zero, or the scorer refuses the pooled predictions.

    Notes
    -----
    The metrics of `holdfast._moments.METRICS` cost O(a k v), whatever the number of experiments.
    Any other scorer is called for every alpha and, with at most `MAX_SPLITS` experiments, for
    every alpha and experiment; beyond that number splits, mean and std are nan.

    `se` is ``std(splits, ddof=1) / sqrt(n)`` over the n experiments that have weight. It is a
    delete-a-block jackknife of the pooled score instead, over g ≤ 20 blocks of experiments,
    ``se² = (g - 1) / g Σ_b (θ_(b) - mean θ)²``, where a split is undefined or not computed, and
    where a scorer that must be called would be called with a single row. Either way experiments
    count as exchangeable and independent, which those with overlapping test rows are not.
    """
    predictions = np.asarray(predictions)
    keep = weights[rows] > 0  # (k,)
    if not keep.any():
        raise InvalidInputError(NO_WEIGHT)
    all_kept = bool(keep.all())
    ends = np.concatenate([[0], np.cumsum(keep)])[ptr]
    used = np.flatnonzero(np.diff(ends) > 0)  # experiments with a row of positive weight
    kept_rows = rows if all_kept else rows[keep]
    test = TestRows(y[kept_rows], weights[kept_rows], np.append(ends[used], ends[-1]))

    def predictions_of(alpha_index: int) -> FloatArray:
        p: FloatArray = predictions[alpha_index]
        return p if all_kept else p[keep]

    n_alphas, n_experiments = len(predictions), len(ptr) - 1
    if scoring.fast is not None:
        return _fast_scores(scoring, test, predictions_of, n_alphas, used, n_experiments)
    return _called_scores(
        scoring, test, predictions_of, n_alphas, used, n_experiments, each_target=each_target
    )


def _fast_scores(
    scoring: Scoring,
    test: TestRows,
    predictions_of: Callable[[int], FloatArray],
    n_alphas: int,
    used: IntArray,
    n_experiments: int,
) -> Scores:
    assert scoring.fast is not None
    if scoring.classes is not None:
        test = TestRows(_label_index(test.y, scoring.classes)[:, None], test.weights, test.ptr)
    found = moment_scores(METRICS[scoring.fast], test, predictions_of, n_alphas)
    # Scores of several targets are the uniform average over targets, as in scikit-learn.
    pooled = np.array([s.pooled.mean() for s in found])
    splits = np.array([s.splits.mean(axis=1) for s in found])
    replicates = [s.replicates for s in found if s.replicates is not None]
    averaged = np.array([r.mean(axis=1) for r in replicates]) if replicates else None
    by_target: dict[str, FloatArray] = {}
    if test.y.shape[1] > 1:
        by_target = {
            "per_target": np.array([s.pooled for s in found]),
            "per_target_mean": np.array([_moments_of(s.splits.T)[0] for s in found]),
            "per_target_se": np.array(
                [
                    standard_error(s.splits.T, None if s.replicates is None else s.replicates.T)
                    for s in found
                ]
            ),
        }
    return _summarise(pooled, splits, averaged, used, n_experiments, by_target)


def _label_index(labels: Array, classes: Array) -> FloatArray:
    """Return the index of each label among the classes, -1 for a label that is not one of them."""
    index = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    return np.where(classes[index] == labels, index, -1).astype(np.float64)


def _called_scores(
    scoring: Scoring,
    test: TestRows,
    predictions_of: Callable[[int], FloatArray],
    n_alphas: int,
    used: IntArray,
    n_experiments: int,
    *,
    each_target: bool,
) -> Scores:
    n_used, w = len(used), test.weights
    passed = None if (w == w[0]).all() else w

    def call(p: FloatArray, part: Any, *, undefined_is_nan: bool = True) -> float:
        part_weights = None if passed is None else passed[part]
        return scoring._call(test.y[part], p[part], part_weights, undefined_is_nan)

    pooled = np.empty(n_alphas)
    splits = np.full((n_alphas, n_used), np.nan)
    for i in range(n_alphas):
        p = predictions_of(i)
        pooled[i] = call(p, slice(None), undefined_is_nan=False)
        if n_used <= MAX_SPLITS:
            for j in range(n_used):
                splits[i, j] = call(p, slice(test.ptr[j], test.ptr[j + 1]))

    replicates = None
    # What a scorer makes of a single row (R², F1, explained variance) says nothing of its error.
    telling = np.isfinite(splits[np.isfinite(pooled)]).all() and test.counts.min() > 1
    if n_used > 1 and not telling:
        row_block = np.repeat(experiment_blocks(n_used), test.counts)
        parts = [np.flatnonzero(row_block != b) for b in range(int(row_block.max()) + 1)]
        replicates = np.array(
            [[call(predictions_of(i), part) for part in parts] for i in range(n_alphas)]
        )

    by_target: dict[str, FloatArray] = {}
    if scoring.classes is None and test.y.shape[1] > 1:
        by_target = _called_targets(scoring, test, predictions_of, n_alphas, each_target)
    return _summarise(pooled, splits, replicates, used, n_experiments, by_target)


def _called_targets(
    scoring: Scoring,
    test: TestRows,
    predictions_of: Callable[[int], FloatArray],
    n_alphas: int,
    each_target: bool,
) -> dict[str, FloatArray]:
    """Return the per-target fields of Scores, scored one target at a time."""
    n_used = len(test.ptr) - 1
    # Without the splits of each target one experiment that holds all rows is enough.
    ptr = test.ptr if each_target else test.ptr[[0, -1]]
    n_parts = n_used if each_target else 1
    one_by_one = [
        _called_scores(
            scoring,
            TestRows(test.y[:, [t]], test.weights, ptr),
            lambda i, t=t: predictions_of(i)[:, [t]],  # type: ignore[misc]  # default binds t now
            n_alphas,
            np.arange(n_parts),
            n_parts,
            each_target=False,
        )
        for t in range(test.y.shape[1])
    ]
    fields = {"per_target": np.array([s.pooled for s in one_by_one]).T}
    if each_target:
        fields["per_target_mean"] = np.array([s.mean for s in one_by_one]).T
        fields["per_target_se"] = np.array([s.se for s in one_by_one]).T
    return fields


def _moments_of(splits: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of the defined splits of each row; nan without any."""
    defined = np.isfinite(splits)
    n = defined.sum(axis=1)
    safe = np.maximum(n, 1)
    mean = np.where(defined, splits, 0.0).sum(axis=1) / safe
    deviation = np.where(defined, splits - mean[:, None], 0.0)
    std = np.sqrt((deviation * deviation).sum(axis=1) / safe)
    return np.where(n > 0, mean, np.nan), np.where(n > 0, std, np.nan)


def standard_error(splits: FloatArray, replicates: FloatArray | None) -> FloatArray:
    """Return the standard error of each row's score, of its splits or else of its replicates."""
    n = splits.shape[1]
    if replicates is None:
        if n < 2:
            return np.full(len(splits), np.nan)
        return np.asarray(splits.std(axis=1, ddof=1) / np.sqrt(n))
    g = np.isfinite(replicates).sum(axis=1)
    _, std = _moments_of(replicates)
    return np.where(g > 1, np.sqrt(np.maximum(g - 1, 0)) * std, np.nan)


def _summarise(
    pooled: FloatArray,
    used_splits: FloatArray,
    replicates: FloatArray | None,
    used: IntArray,
    n_experiments: int,
    by_target: dict[str, FloatArray],
) -> Scores:
    """Return Scores, with a nan split for every experiment that is not among those used."""
    splits = used_splits
    if len(used) < n_experiments:
        splits = np.full((len(pooled), n_experiments), np.nan)
        splits[:, used] = used_splits
    mean, std = _moments_of(used_splits)
    se = standard_error(used_splits, replicates)
    return Scores(pooled, splits, mean, std, se, replicates, **by_target)


def combine(scores_list: Sequence[Scores], sizes: Sequence[int]) -> Scores:
    """Return the scores of all targets from the scores of chunks of targets.

    Parameters
    ----------
    scores_list : sequence of Scores
        One for each chunk, of the same experiments, rows and weights. Regression only.
    sizes : sequence of int
        Number of targets in each chunk.

    Notes
    -----
    The score of all targets is the uniform average over targets. That is what the scikit-learn
    regression metrics do, so the result is that of scoring all targets at once; a scorer of the
    user's that mixes targets in another way gets the average of its values on the chunks.
    The standard error is that of the average. Where some chunks have replicates and others have
    not, it is the average of the chunks' standard errors, which is never less than that.
    """
    if len(scores_list) != len(sizes) or not sizes:
        raise InvalidInputError(
            f"combine needs one size for each chunk, got {len(scores_list)} chunks and "
            f"{len(sizes)} sizes"
        )
    if any(s.per_target is None and n != 1 for s, n in zip(scores_list, sizes, strict=True)):
        raise InvalidInputError("combine needs the score of every target: regression only")
    share = np.asarray(sizes, dtype=np.float64) / sum(sizes)

    def average(arrays: Sequence[FloatArray]) -> FloatArray:
        total = np.zeros_like(arrays[0])
        for part, array in zip(share, arrays, strict=True):
            total += part * array
        return total

    splits = average([s.splits for s in scores_list])
    # Experiments without weight are nan in every chunk; they are not part of any mean.
    used = ~np.isnan([s.splits for s in scores_list]).all(axis=(0, 1))
    mean, std = _moments_of(splits)
    known = [s.replicates for s in scores_list if s.replicates is not None]
    if not known:
        se = standard_error(splits[:, used], None)
    elif len(known) == len(scores_list):
        se = standard_error(splits, average(known))
    else:
        se = average([s.se for s in scores_list])

    def joined(name: str, single: str) -> FloatArray | None:
        parts = [
            getattr(s, name) if s.per_target is not None else getattr(s, single)[:, None]
            for s in scores_list
        ]
        return None if any(part is None for part in parts) else np.hstack(parts)

    return Scores(
        average([s.pooled for s in scores_list]),
        splits,
        mean,
        std,
        se,
        average(known) if known and len(known) == len(scores_list) else None,
        joined("per_target", "pooled"),
        joined("per_target_mean", "mean"),
        joined("per_target_se", "se"),
    )
