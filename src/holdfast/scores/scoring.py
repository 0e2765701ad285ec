"""Scores of many held-out experiments for every alpha: pooled, of each experiment and target.

`holdfast.scores.scorers` decides what to score with, and its names can be imported from here too.
The common metrics are computed from sums (`holdfast.scores.metrics`), all others by calling the
scorer.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.exceptions import InvalidInputError
from holdfast.scores.metrics import METRICS, ScoredRows, moment_scores
from holdfast.scores.probabilities import Sigmoids, happened, shares, sigmoid_probabilities
from holdfast.scores.scorers import (
    NO_WEIGHT,
    Scoring,
    class_index,
    decision_to_label_index,
    decision_to_proba,
    resolve_scoring,
)
from holdfast.scores.standard_errors import (
    experiment_blocks,
    mean_and_std,
    mean_of_defined,
    of_replicates,
    over_splits,
)

__all__ = [
    "MAX_COLUMNS",
    "MAX_SPLITS",
    "Scores",
    "Scoring",
    "combine",
    "decision_to_label_index",
    "decision_to_proba",
    "resolve_scoring",
    "score_experiments",
    "summarise",
]


#: A scorer that has to be called once per experiment is not called for more experiments than this.
MAX_SPLITS = 1000
#: `cv_results_` has a column for each of at most so many experiments.
MAX_COLUMNS = 100


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
        Pooled scores without one block of experiments, if `se` had to be computed from them.
    per_target : (a, v) ndarray or None
        Pooled score of each target by itself; only for regression with v > 1.
    per_target_mean, per_target_se : (a, v) ndarray or None
        `mean` and `se` of each target by itself.
    rounding : (a,) ndarray or None
        Predicted rounding error of the held-out predictions, over the spread of the targets.
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
    rounding: FloatArray | None = None


def score_experiments(
    scoring: Scoring,
    predictions: FloatArray,
    rows: IntArray,
    ptr: IntArray,
    y: AnyArray,
    weights: FloatArray,
    *,
    groups: AnyArray | None = None,
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
    groups : (m,) ndarray, optional
        Groups of all rows, for a scorer that takes them.
    each_target : bool
        Also give `per_target_mean` and `per_target_se` if that takes a scorer call for each
        target and experiment. The fast metrics give them anyway.

    Raises
    ------
    InvalidInputError
        If every test row has weight zero, or the scorer refuses the pooled predictions.

    Notes
    -----
    The metrics of `holdfast.scores.metrics` cost O(a k v), whatever the number of experiments. Any
    other scorer is called for every alpha and, with at most `MAX_SPLITS` experiments, for
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
        raise InvalidInputError(NO_WEIGHT, argument="sample_weight")
    all_kept = bool(keep.all())
    ends = np.concatenate([[0], np.cumsum(keep)])[ptr]
    used = np.flatnonzero(np.diff(ends) > 0)  # experiments with a row of positive weight
    kept_rows = rows if all_kept else rows[keep]
    scored = ScoredRows(
        y[kept_rows],
        weights[kept_rows],
        np.append(ends[used], ends[-1]),
        None if groups is None or not scoring.takes_groups else groups[kept_rows],
    )

    share = shares(kept_rows, scored.weights)

    def predictions_of(alphas: int | slice) -> FloatArray:
        p: FloatArray = predictions[alphas]
        return p if all_kept else p[..., keep, :]

    if scoring.fast is not None:
        found = _fast_scores(scoring, scored, predictions_of, len(predictions), share)
    else:
        found = _called_scores(
            scoring, scored, predictions_of, len(predictions), share, each_target=each_target
        )
    if len(used) == len(ptr) - 1:
        return found
    splits = np.full((len(predictions), len(ptr) - 1), np.nan)
    splits[:, used] = found.splits
    return replace(found, splits=splits)


def _fast_scores(
    scoring: Scoring,
    scored: ScoredRows,
    predictions_of: Callable[[slice], FloatArray],
    n_alphas: int,
    share: FloatArray,
) -> Scores:
    """Return Scores of the experiments that have weight, from sums."""
    metric, values_of = METRICS[str(scoring.fast)], predictions_of
    if scoring.classes is not None:
        index = class_index(scored.y, scoring.classes)
        if metric.of == "probabilities":

            def values_of(alphas: slice) -> FloatArray:
                p = predictions_of(alphas)
                return sigmoid_probabilities(p, happened(index, p.shape[2]), share)

        scored = ScoredRows(index[:, None].astype(float), scored.weights, scored.ptr)
    found = moment_scores(metric, scored, values_of, n_alphas)
    return _of_targets(found, (n_alphas, len(scored.ptr) - 1))


def _of_targets(
    parts: Iterable[tuple[FloatArray, FloatArray, FloatArray | None]], shape: tuple[int, int]
) -> Scores:
    """Return Scores (a, n_experiments) from those of each target, a few alphas at a time.

    Scores of several targets are the uniform average over targets, as in scikit-learn.
    """
    splits, replicates, done = np.empty(shape), [], 0
    each: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    for pooled, own, without in parts:
        one = pooled.shape[1] == 1
        splits[done : (done := done + len(pooled))] = own[..., 0] if one else own.mean(axis=2)
        mean = se = pooled
        if not one:
            mean = mean_of_defined(own)
            se = over_splits(own) if without is None else of_replicates(without)
        each.append((pooled, mean, se))
        if without is not None:
            replicates.append(without.mean(axis=2))
    names = ("per_target", "per_target_mean", "per_target_se")
    by_target = {name: np.concatenate(own) for name, *own in zip(names, *each, strict=True)}
    pooled = by_target["per_target"]
    return _summarise(
        pooled.mean(axis=1),
        splits,
        np.concatenate(replicates) if replicates else None,
        by_target if pooled.shape[1] > 1 else {},
    )


def _called_scores(
    scoring: Scoring,
    scored: ScoredRows,
    predictions_of: Callable[[int], FloatArray],
    n_alphas: int,
    share: FloatArray,
    *,
    each_target: bool,
) -> Scores:
    """Return Scores of the experiments that have weight, by calling the scorer."""
    several = scoring.classes is None and scored.y.shape[1] > 1
    ptr, w = scored.ptr, scored.weights
    n_used = len(ptr) - 1
    passed = None if (w == w[0]).all() else w

    def predicted(i: int) -> tuple[FloatArray, Callable[[], Sigmoids]]:
        """Return the predictions at a penalty and what makes their sigmoids: of all rows."""
        p = predictions_of(i)
        return p, cache(partial(scoring.sigmoids, p, scored.y, share))

    def call(
        predictions: tuple[FloatArray, Callable[[], Sigmoids]],
        part: Any,
        *,
        undefined_is_nan: bool = True,
    ) -> float:
        p, sigmoids = predictions
        part_weights = None if passed is None else passed[part]
        part_groups = None if scored.groups is None else scored.groups[part]
        return scoring.call(
            scored.y[part], p[part], part_weights, undefined_is_nan, part_groups, sigmoids
        )

    pooled = np.empty(n_alphas)
    splits = np.full((n_alphas, n_used), np.nan)
    for i in range(n_alphas):
        p = predicted(i)
        pooled[i] = call(p, slice(None), undefined_is_nan=False)
        if n_used == 1:
            splits[i] = pooled[i]
        elif n_used <= MAX_SPLITS:
            splits[i] = [call(p, slice(ptr[j], ptr[j + 1])) for j in range(n_used)]

    replicates = None
    # A score of a single row (F1, explained variance) says nothing about the error of the score.
    telling = np.isfinite(splits[np.isfinite(pooled)]).all() and scored.counts.min() > 1
    if n_used > 1 and not telling:
        row_block = np.repeat(experiment_blocks(n_used), scored.counts)
        parts = [np.flatnonzero(row_block != b) for b in range(int(row_block.max()) + 1)]
        replicates = np.empty((n_alphas, len(parts)))
        for i in range(n_alphas):
            p = predicted(i)
            replicates[i] = [call(p, part) for part in parts]

    by_target: dict[str, FloatArray] = {}
    if several:
        by_target = _called_targets(scoring, scored, predictions_of, n_alphas, each_target)
    return _summarise(pooled, splits, replicates, by_target)


def _called_targets(
    scoring: Scoring,
    scored: ScoredRows,
    predictions_of: Callable[[int], FloatArray],
    n_alphas: int,
    each_target: bool,
) -> dict[str, FloatArray]:
    """Return the per-target fields of Scores, scored one target at a time."""
    # If the splits of each target are not needed, one experiment with all rows is enough.
    if not each_target:
        scored = ScoredRows(scored.y, scored.weights, scored.ptr[[0, -1]], scored.groups)

    def one(t: int) -> Scores:
        column = ScoredRows(scored.y[:, [t]], scored.weights, scored.ptr, scored.groups)
        return _called_scores(
            scoring,
            column,
            lambda i: predictions_of(i)[:, [t]],
            n_alphas,
            scored.weights,
            each_target=False,
        )

    one_by_one = [one(t) for t in range(scored.y.shape[1])]
    fields = {"per_target": np.array([s.pooled for s in one_by_one]).T}
    if each_target:
        fields["per_target_mean"] = np.array([s.mean for s in one_by_one]).T
        fields["per_target_se"] = np.array([s.se for s in one_by_one]).T
    return fields


def _summarise(
    pooled: FloatArray,
    splits: FloatArray,
    replicates: FloatArray | None,
    by_target: dict[str, FloatArray],
) -> Scores:
    """Return Scores with the mean, deviation and standard error of these splits."""
    # A few alphas at a time: with a million splits the temporaries of all would be large.
    few = max(1, (1 << 20) // max(1, splits.shape[1]))
    parts = [splits[i : i + few] for i in range(0, len(splits), few)]
    mean, std = np.concatenate([mean_and_std(part) for part in parts], axis=1)
    if replicates is None:
        se = np.concatenate([over_splits(part) for part in parts])
    else:
        se = of_replicates(replicates)
    return Scores(pooled, splits, mean, std, se, replicates, **by_target)


def summarise(by_target: FloatArray, splits: FloatArray) -> Scores:
    """Return Scores from those of each target, pooled (a, v) and of each experiment (a, n, v)."""
    used = ~np.isnan(splits).all(axis=(0, 2))
    own = splits[:, used]
    return replace(_of_targets([(by_target, own, None)], own.shape[:2]), splits=splits.mean(axis=2))


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
    regression metrics do, so the result is that of scoring all targets at once. A scorer written by
    a user that mixes targets in another way gets the average of its values on the chunks.
    The standard error is that of the average. Where some chunks have replicates and others do not,
    it is the average of the chunks' standard errors, which is never smaller.
    """
    share = np.asarray(sizes, dtype=np.float64) / sum(sizes)

    def average(arrays: Sequence[FloatArray]) -> FloatArray:
        return np.asarray(sum(part * array for part, array in zip(share, arrays, strict=True)))

    splits = average([s.splits for s in scores_list])
    # An experiment without weight is nan throughout and counts in no mean.
    used = np.zeros(splits.shape[1], dtype=bool)
    for s in scores_list:
        used |= ~np.isnan(s.splits).all(axis=0)
    known = [s.replicates for s in scores_list if s.replicates is not None]
    replicates = average(known) if len(known) == len(scores_list) else None
    whole = _summarise(average([s.pooled for s in scores_list]), splits[:, used], replicates, {})
    mixed = bool(known) and replicates is None

    def joined(name: str, single: str) -> FloatArray | None:
        parts = [
            getattr(s, name) if s.per_target is not None else getattr(s, single)[:, None]
            for s in scores_list
        ]
        return None if any(part is None for part in parts) else np.hstack(parts)

    return replace(
        whole,
        splits=splits,
        se=average([s.se for s in scores_list]) if mixed else whole.se,
        per_target=joined("per_target", "pooled"),
        per_target_mean=joined("per_target_mean", "mean"),
        per_target_se=joined("per_target_se", "se"),
    )
