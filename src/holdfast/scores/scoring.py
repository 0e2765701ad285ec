"""Scores of many held-out experiments for every alpha: pooled, of each experiment and target.

The common metrics are computed from sums over rows (`holdfast.scores.metrics`), all others by
calling the scorer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.core.gaussian import SecondMoments
from holdfast.exceptions import InvalidInputError
from holdfast.scores.densities import density_splits
from holdfast.scores.metrics import Metric, segment_sums, spreads
from holdfast.scores.probabilities import Sigmoids, happened, shares, sigmoid_probabilities
from holdfast.scores.scorers import NO_WEIGHT, Scoring, class_index
from holdfast.scores.standard_errors import mean_and_std, mean_of_defined, of_sums, over_splits

__all__ = ["MAX_COLUMNS", "MAX_SPLITS", "Scores", "combine", "score_experiments"]


#: A scorer that has to be called once per experiment is not called for more experiments than this.
MAX_SPLITS = 1000
#: `cv_results_` has a column for each of at most so many experiments.
MAX_COLUMNS = 100

_BATCH = 1 << 16  # values in a cache


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
        Standard error over experiments; nan with fewer than two, and where it would take scores
        that are undefined or were not computed.
    per_target : (a, v) ndarray or None
        Pooled score of each target by itself; only for regression with v > 1.
    per_target_mean, per_target_se : (a, v) ndarray or None
        `mean` and `se` of each target by itself.
    rounding : (a,) ndarray or None
        Estimated rounding error of the held-out predictions, over the standard deviation of y.
    """

    pooled: FloatArray
    splits: FloatArray
    mean: FloatArray
    std: FloatArray
    se: FloatArray
    per_target: FloatArray | None = None
    per_target_mean: FloatArray | None = None
    per_target_se: FloatArray | None = None
    rounding: FloatArray | None = None

    @classmethod
    def of_targets(
        cls, pooled: FloatArray, own: FloatArray, terms: FloatArray | None = None
    ) -> Scores:
        """Return scores from those of each target, pooled (a, v) and by experiment (a, n, v).

        Scores of several targets are the uniform average over targets, as in scikit-learn. `terms`
        add up to the error of the pooled score, where experiments have no scores of their own.
        """
        error, made_of = (over_splits, own) if terms is None else (of_sums, terms)
        if pooled.shape[1] == 1:
            splits, se = own[..., 0], error(made_of[..., 0])
            return cls(pooled[:, 0], splits, *mean_and_std(splits), se)
        splits, se = own.mean(axis=2), error(made_of.mean(axis=2))
        each = pooled, mean_of_defined(own), error(made_of)
        return cls(pooled.mean(axis=1), splits, *mean_and_std(splits), se, *each)

    @classmethod
    def joined(cls, parts: Sequence[Scores]) -> Scores:
        """Return the scores at several grids of alphas as those at one."""
        if len(parts) == 1:
            return parts[0]
        known = [f.name for f in fields(cls) if getattr(parts[0], f.name) is not None]
        return cls(**{name: np.concatenate([getattr(s, name) for s in parts]) for name in known})

    def first(self, *, pooled: bool, per_target: bool) -> FloatArray:
        """Return the score at the first alpha as (1,), or (v,) with one for each target."""
        each = self.per_target if pooled else self.per_target_mean
        if per_target and each is not None:
            return np.asarray(each[0])
        return (self.pooled if pooled else self.mean)[:1]


@dataclass(frozen=True, eq=False)
class _Tested:
    """Test rows of positive weight, one experiment after the other.

    Attributes
    ----------
    y : (k, v) ndarray
        Targets, or labels of shape (k,) of a classifier.
    weights, share : (k,) ndarray
        Row weights, all positive, and those where rows that are tested n times count 1/n.
    ptr : (n_used + 1,) ndarray
        Experiment j has the rows ``ptr[j]:ptr[j + 1]``, at least one.
    groups : (k,) ndarray or None
        Group of each row, for a scorer that takes groups.
    """

    y: AnyArray
    weights: FloatArray
    share: FloatArray
    ptr: IntArray
    groups: AnyArray | None


def score_experiments(
    scoring: Scoring,
    predictions: FloatArray,
    rows: IntArray,
    ptr: IntArray,
    y: AnyArray,
    weights: FloatArray,
    groups: AnyArray | None = None,
    *,
    each_target: bool = False,
    moments: Callable[[], SecondMoments] | None = None,
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
    moments : callable, optional
        Makes the second moments of the test rows, for scores of their distribution.

    Raises
    ------
    InvalidInputError
        If every test row has weight zero, or the scorer refuses the pooled predictions.

    Notes
    -----
    Metrics cost O(a k v), whatever the number of experiments. Any other scorer is called for every
    alpha and, with at most `MAX_SPLITS` experiments, for every alpha and experiment; beyond that
    number splits, mean, std and se are nan.

    `se` is ``std(splits, ddof=1) / sqrt(n)`` over the n experiments that have weight. Where R² of
    a single row is undefined, it is that of the pooled score, a function of a mean over rows.
    Experiments count as exchangeable and independent, which those with overlapping test rows are
    not.
    """
    if scoring.density:
        if moments is not None:
            return _densities(moments())
        scoring.refuse_density("this answer")
    predictions = np.asarray(predictions)
    keep = weights[rows] > 0  # (k,)
    if not keep.any():
        raise InvalidInputError(NO_WEIGHT, argument="sample_weight")
    all_kept = bool(keep.all())
    ends = np.concatenate([[0], np.cumsum(keep)])[ptr]
    used = np.flatnonzero(np.diff(ends) > 0)  # experiments with a row of positive weight
    rows = rows if all_kept else rows[keep]
    tested = _Tested(
        y[rows],
        weights[rows],
        shares(rows, weights[rows]),
        np.append(ends[used], ends[-1]),
        None if groups is None or not scoring.takes_groups else groups[rows],
    )

    def predicted(alphas: int | slice) -> FloatArray:
        p: FloatArray = predictions[alphas]
        return p if all_kept else p[..., keep, :]

    if scoring.metric is not None:
        found = _from_sums(scoring.metric, scoring.classes, tested, predicted, len(predictions))
    else:
        found = _called(scoring, tested, predicted, len(predictions), each_target=each_target)
    if len(used) == len(ptr) - 1:
        return found
    splits = np.full((len(predictions), len(ptr) - 1), np.nan)
    splits[:, used] = found.splits
    return replace(found, splits=splits)


def _from_sums(
    metric: Metric,
    classes: AnyArray | None,
    tested: _Tested,
    predicted: Callable[[slice], FloatArray],
    n_alphas: int,
) -> Scores:
    """Return the scores of a metric, a few alphas at a time: as many as fit into a cache."""
    y, ptr, w = tested.y, tested.ptr, tested.weights[:, None]
    if classes is not None:
        index = class_index(y, classes)
        y = index[:, None].astype(float)
    total, starts = w.sum(), ptr[:-1]
    split_weight, weighted = segment_sums(w, starts), bool((w != 1.0).any())
    whole_spread = split_spread = np.zeros(1)  # for a metric that does not use it
    if metric.uses_spread:
        split_spread = spreads(y, tested.weights, ptr)
        whole_spread = spreads(y, tested.weights, ptr[[0, -1]])[0]
    undefined = metric.uses_spread and bool((np.diff(ptr) < 2).any())
    parts, batch = [], max(1, _BATCH // max(1, y.size))
    for i in range(0, n_alphas, batch):
        p = predicted(slice(i, i + batch))
        if metric.of == "probabilities":
            p = sigmoid_probabilities(p, happened(index, p.shape[2]), tested.share)
        with np.errstate(all="ignore"):  # non-finite predictions give a nan score, not a warning
            values = metric.row_value(p, y)
            if weighted:
                values *= w
            sums = segment_sums(values, starts)  # (b, n_used, v)
            mean = sums.sum(axis=1) / total
            pooled = _finite(metric.finish(mean, whole_spread))
            own = _finite(metric.finish(sums / split_weight, split_spread))
            terms = None
            if undefined:
                slope = metric.slope(mean, whole_spread)[:, None]
                terms = slope * (sums - split_weight * mean[:, None]) / total
            parts.append(Scores.of_targets(pooled, own, terms))
    return Scores.joined(parts)


def _finite(scores: FloatArray) -> FloatArray:
    """Return scores with nan for every value that is not finite."""
    if np.isfinite(scores.sum()):
        return np.ascontiguousarray(scores)  # sums of these depend on the order in memory
    return np.where(np.isfinite(scores), scores, np.nan)


def _densities(moments: SecondMoments) -> Scores:
    """Return the scores "log_density" of the distribution of held-out targets."""
    pooled, own = density_splits(moments)
    used = ~np.isnan(own).all(axis=(0, 2))
    found = Scores.of_targets(pooled, own[:, used])
    return replace(found, splits=own.mean(axis=2))


def _called(
    scoring: Scoring,
    tested: _Tested,
    predicted: Callable[[int], FloatArray],
    n_alphas: int,
    *,
    each_target: bool,
) -> Scores:
    """Return the scores of the experiments that have weight, by calling the scorer."""
    ptr, w = tested.ptr, tested.weights
    n_used, every = len(ptr) - 1, slice(None)
    passed = None if (w == w[0]).all() else w
    pooled, splits = np.empty(n_alphas), np.full((n_alphas, n_used), np.nan)
    for i in range(n_alphas):
        p = predicted(i)
        sigmoids: Callable[[], Sigmoids] = cache(
            partial(scoring.sigmoids, p, tested.y, tested.share)
        )

        def call(part: slice, p: FloatArray = p, sigmoids: Any = sigmoids) -> float:
            part_weights = None if passed is None else passed[part]
            part_groups = None if tested.groups is None else tested.groups[part]
            return scoring.call(
                tested.y[part], p[part], part_weights, part != every, part_groups, sigmoids
            )

        pooled[i] = call(every)
        if n_used == 1:
            splits[i] = pooled[i]
        elif n_used <= MAX_SPLITS:
            splits[i] = [call(slice(*ends)) for ends in pairwise(ptr)]
    # A score of a single row (F1, explained variance) says nothing about the error of the score.
    telling = np.diff(ptr).min() > 1
    se = over_splits(splits) if telling else np.full(n_alphas, np.nan)
    found = Scores(pooled, splits, *mean_and_std(splits), se)
    if scoring.classes is not None or tested.y.shape[1] == 1:
        return found
    # If the splits of each target are not needed, one experiment with all rows is enough.
    rows = tested if each_target else replace(tested, ptr=ptr[[0, -1]])
    each = [
        _called(
            scoring,
            replace(rows, y=tested.y[:, [t]]),
            lambda i, t=t: predicted(i)[:, [t]],  # type: ignore[misc]
            n_alphas,
            each_target=False,
        )
        for t in range(tested.y.shape[1])
    ]

    def columns(name: str) -> FloatArray:
        return np.array([getattr(one, name) for one in each]).T

    found = replace(found, per_target=columns("pooled"))
    if not each_target:
        return found
    return replace(found, per_target_mean=columns("mean"), per_target_se=columns("se"))


def combine(scores_list: Sequence[Scores], sizes: Sequence[int]) -> Scores:
    """Return the scores of all targets from the scores of blocks of targets.

    Parameters
    ----------
    scores_list : sequence of Scores
        One for each block, of the same experiments, rows and weights. Regression only.
    sizes : sequence of int
        Number of targets in each block.

    Notes
    -----
    The score of all targets is the uniform average over targets. That is what the scikit-learn
    regression metrics do, so the result is that of scoring all targets at once. A scorer written by
    a user that mixes targets in another way gets the average of its values on the blocks. Where
    the standard error takes more than the splits, it is the average of those of the blocks, which
    is never smaller.
    """
    share = np.asarray(sizes, dtype=np.float64) / sum(sizes)

    def average(name: str) -> FloatArray:
        return np.asarray(
            sum(w * getattr(s, name) for w, s in zip(share, scores_list, strict=True))
        )

    splits = average("splits")
    # An experiment without weight is nan throughout and counts in no mean.
    used = ~np.all([np.isnan(s.splits).all(axis=0) for s in scores_list], axis=0)
    own = splits[:, used]
    se = average("se")
    if own.size and np.isfinite(own).all() and np.isfinite(se).all():
        se = over_splits(own)

    def joined(name: str, single: str) -> FloatArray | None:
        parts = [
            getattr(s, name) if s.per_target is not None else getattr(s, single)[:, None]
            for s in scores_list
        ]
        return None if any(part is None for part in parts) else np.hstack(parts)

    return Scores(
        average("pooled"),
        splits,
        *mean_and_std(own),
        se,
        joined("per_target", "pooled"),
        joined("per_target_mean", "mean"),
        joined("per_target_se", "se"),
    )
