"""Scores of many held-out experiments for every alpha: pooled, of each experiment and target.

Functions of a mean over rows are computed from sums over rows, whatever the number of experiments;
for all others each experiment is scored by itself, most of them by calling the scorer.
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
from holdfast.core.lapack import CACHED, run_pieces
from holdfast.exceptions import InvalidInputError
from holdfast.scores.metric import Metric, placements
from holdfast.scores.probabilities import Sigmoids, happened, shares, sigmoids
from holdfast.scores.scorers import call_scorer

__all__ = [
    "MAX_COLUMNS",
    "MAX_SPLITS",
    "Scores",
    "combine",
    "density_rows",
    "log_densities",
    "row_values",
    "score_experiments",
    "summary",
    "variances",
]

NO_WEIGHT = (
    "sample_weight is zero for every test row: there is nothing to score; "
    "give at least one test row a positive weight"
)

#: A scorer that has to be called once per experiment is not called for more experiments than this.
MAX_SPLITS = 1000
#: `cv_results_` has a column for each of at most so many experiments.
MAX_COLUMNS = 100

_OF_TARGETS = ("", "_mean", "_se")


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of a sequence of experiments for every alpha; greater is better.

    Attributes
    ----------
    pooled : (a,) ndarray
        Scores of the test rows of all experiments taken together.
    splits : (a, n_experiments) ndarray
        Score of each experiment; nan where undefined (no row of positive weight, R² of one row,
        AUC of one class) or not computed (see `score_experiments`); (a, 0) where nobody asked.
    mean, std : (a,) ndarray
        Mean and standard deviation (ddof = 0, as in scikit-learn) of the defined splits.
    se : (a,) ndarray
        Standard error over experiments; nan with fewer than two, and where it would take scores
        that are undefined or were not computed.
    per_target : (a, v) ndarray or None
        Pooled score of each target by itself; only for regression with v > 1.
    per_target_mean, per_target_se : (a, v) ndarray or None
        `mean` and `se` of each target by itself, if they are asked for.
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
        cls,
        pooled: FloatArray,
        own: FloatArray,
        terms: FloatArray | None = None,
        *,
        each_target: bool = False,
    ) -> Scores:
        """Return scores from those of each target, pooled (a, v) and by experiment (a, n, v).

        Scores of several targets are the uniform average over targets, as in scikit-learn. `terms`
        add up to the error of the pooled score, where experiments have no scores of their own.
        """
        if pooled.shape[1] == 1:
            sum_of = None if terms is None else terms[..., 0]
            return cls(pooled[:, 0], own[..., 0], *summary(own[..., 0], sum_of))
        splits, sum_of = own.mean(axis=2), None if terms is None else terms.mean(axis=2)
        mean, _, se = summary(own, terms) if each_target else (None, None, None)
        return cls(pooled.mean(axis=1), splits, *summary(splits, sum_of), pooled, mean, se)

    @classmethod
    def joined(cls, parts: Sequence[Scores]) -> Scores:
        """Return the scores at several grids of alphas as those at one."""
        known = [f.name for f in fields(cls) if getattr(parts[0], f.name) is not None]
        return cls(**{name: np.concatenate([getattr(s, name) for s in parts]) for name in known})

    def first(self, *, pooled: bool, per_target: bool) -> FloatArray:
        """Return the score at the first alpha as (1,), or (v,) with one for each target."""
        each = self.per_target if pooled else self.per_target_mean
        if per_target and each is not None:
            return np.asarray(each[0])
        return (self.pooled if pooled else self.mean)[:1]


def summary(
    splits: FloatArray, terms: FloatArray | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mean and standard deviation of the defined splits (a, n, …), and the standard error.

    The standard error is nan with fewer than two splits, or where one is undefined. It is that of
    the sum of `terms` (a, n, …) about zero, se² = n/(n − 1) Σ t², if these are given.
    """
    n, total = splits.shape[1], splits.sum(axis=1)
    count: Any = n
    if n and np.isfinite(total).all():
        mean = total / n
        deviation = splits - mean[:, None]
    else:
        defined = np.isfinite(splits)
        count = defined.sum(axis=1)
        mean = np.where(defined, splits, 0.0).sum(axis=1) / np.maximum(count, 1)
        deviation = np.where(defined, splits - mean[:, None], 0.0)
        mean = np.where(count > 0, mean, np.nan)
    square = np.square(deviation, out=deviation).sum(axis=1)
    std = np.sqrt(np.where(count, square / np.maximum(count, 1), np.nan))
    if n < 2:
        return mean, std, np.full(mean.shape, np.nan)
    if terms is not None:
        return mean, std, np.sqrt(np.square(terms).sum(axis=1) * (n / (n - 1)))
    return mean, std, np.sqrt(np.where(count == n, square / (n - 1) / n, np.nan))


def score_experiments(
    metric: Metric,
    predictions: FloatArray,
    rows: IntArray,
    ptr: IntArray,
    y: AnyArray,
    weights: FloatArray,
    groups: AnyArray | None = None,
    *,
    each_target: bool = False,
    splits: bool = True,
    moments: Callable[[], SecondMoments] | None = None,
) -> Scores:
    """Return the scores of held-out predictions: pooled, of each experiment, of each target.

    Parameters
    ----------
    metric : Metric
    predictions : (a, k, v) ndarray
        ``predictions[:, ptr[j]:ptr[j + 1]]`` belong to experiment j.
    rows : (k,) ndarray
        Experiment j tests ``rows[ptr[j]:ptr[j + 1]]``; a row may be tested more than once.
    ptr : (n_experiments + 1,) ndarray
    y, weights, groups : ndarray
        Targets (m, v) or labels (m,), weights (m,), and groups (m,) of all rows. Rows of weight
        zero are left out, and so is an experiment without others: its split is nan and counts in
        no mean.
    each_target : bool
        Also give `per_target_mean` and `per_target_se`.
    splits : bool
        Whether the score of each experiment is asked for, besides their mean.
    moments : callable, optional
        Makes the second moments of the test rows, for scores of their distribution.

    Notes
    -----
    Sums over rows cost O(a k v), whatever the number of experiments. A scorer is called for every
    alpha and, with at most `MAX_SPLITS` experiments, for every alpha and experiment; beyond that
    number splits, mean, std and se are nan.

    `se` is ``std(splits, ddof=1) / sqrt(n)`` over the n experiments that have weight: they count as
    independent, which those with overlapping test rows are not. Where R² of a single row is
    undefined, it is that of the pooled score, a function of a mean over rows.
    """
    if metric.of == "densities":
        if moments is None:
            metric.refuse_density("this answer")
        else:
            predictions = density_rows(moments(), np.diff(ptr))
    w, n = weights[rows], len(ptr) - 1
    live = w > 0
    if not live.all():
        keep = np.flatnonzero(live)
        rows, w, predictions = rows[keep], w[keep], predictions[:, keep]
        ptr = np.searchsorted(keep, ptr)
    if not rows.size:
        raise InvalidInputError(NO_WEIGHT, argument="sample_weight")
    used = np.flatnonzero(np.diff(ptr))
    tested = _Tested(
        metric,
        y[rows],
        np.ones(w.size) if metric.of == "densities" else w,
        w if metric.classes is None else shares(rows, w),
        np.append(ptr[used], ptr[-1]),
        None if groups is None or not metric.takes_groups else groups[rows],
    )
    if metric.row_value is not None:
        found = _from_sums(tested, predictions, each_target=each_target, splits=splits)
    else:
        found = _called(tested, predictions, each_target=each_target)
    if used.size == n or not splits:
        return found
    all_splits = np.full((len(predictions), n), np.nan)
    all_splits[:, used] = found.splits
    return replace(found, splits=all_splits)


@dataclass(frozen=True, eq=False)
class _Tested:
    """Test rows of positive weight, one experiment after the other, and how they are scored.

    Targets (k, v) or labels (k,); what rows weigh in the score, and in sigmoids, where those tested
    n times count 1/n; where each experiment, of one row at least, starts; and groups (k,) for a
    scorer that takes them.
    """

    metric: Metric
    y: AnyArray
    weights: FloatArray
    share: FloatArray
    ptr: IntArray
    groups: AnyArray | None


def _from_sums(
    tested: _Tested, predictions: FloatArray, *, each_target: bool, splits: bool
) -> Scores:
    """Return scores from sums over rows, of as many alphas at a time as fit into a cache."""
    metric, ptr, w = tested.metric, tested.ptr, tested.weights[:, None]
    y, starts = metric.targets(tested.y), ptr[:-1]
    total, size, weighted = w.sum(), _sums(w, starts), bool((w != 1.0).any())
    of_all, of_each, single = np.zeros(1), np.zeros((1, 1)), False
    if metric.form == "relative":
        of_all, of_each = variances(y, w, ptr[[0, -1]])[0], variances(y, w, ptr)
        single = bool((np.diff(ptr) < 2).any())

    def work(some: slice) -> Scores:
        with np.errstate(all="ignore"):  # non-finite predictions give a nan score, not a warning
            values = row_values(metric, predictions[some], y, tested.share)
            if weighted:
                values *= w
            sums = _sums(values, starts)  # (b, n, v)
            mean = sums.sum(axis=1) / total
            pooled = _finite(metric.finish(mean, of_all))
            terms = None
            if single:
                slope = metric.slope(mean, of_all)[:, None]
                terms = slope * (sums - size * mean[:, None]) / total
            own = _finite(metric.finish(np.divide(sums, size, out=sums), of_each))
            found = Scores.of_targets(pooled, own, terms, each_target=each_target)
            return found if splits else replace(found, splits=found.splits[:, :0])

    batch = max(1, CACHED // max(1, predictions[0].size))
    if batch >= len(predictions):
        return work(slice(None))
    pieces = [slice(i, i + batch) for i in range(0, len(predictions), batch)]
    return Scores.joined(run_pieces(work, pieces))


def row_values(metric: Metric, p: FloatArray, y: FloatArray, share: FloatArray) -> FloatArray:
    """Return the values (b, k, v) of rows whose weighted mean makes the score.

    Of predictions (b, k, v), and y from `Metric.targets`; `share` (k,) is what rows weigh in the
    sigmoids that make probabilities of decision values.
    """
    assert metric.row_value is not None
    if metric.of == "probabilities":
        p = sigmoids(p, happened(y, p.shape[2]), share).of(p)
    return metric.row_value(p, y)


def _sums(values: FloatArray, starts: IntArray) -> FloatArray:
    """Return the sums of the rows (…, k, v) from each start to the next: (…, n, v)."""
    if len(starts) == values.shape[-2]:  # one row in every experiment
        return values
    if len(starts) == 1:
        return np.asarray(values.sum(axis=-2, keepdims=True))
    return np.asarray(np.add.reduceat(values, starts, axis=-2))


def variances(y: FloatArray, w: FloatArray, ptr: IntArray) -> FloatArray:
    """Return the weighted variances (n, v) of y in each experiment; 0 if constant, nan of a row.

    Weights are of shape (k, 1).
    """
    starts, counts = ptr[:-1], np.diff(ptr)
    total = _sums(w, starts)
    mean = _sums(w * y, starts) / total
    centred = y - np.repeat(mean, counts, axis=0)
    variance = _sums(w * centred * centred, starts) / total
    # Rounding of the mean would make a constant target seem to vary.
    variance[np.maximum.reduceat(y, starts) == np.minimum.reduceat(y, starts)] = 0.0
    variance[counts < 2] = np.nan
    return variance


def _finite(scores: FloatArray) -> FloatArray:
    """Return scores with nan for every value that is not finite."""
    if np.isfinite(scores.sum()):
        return np.ascontiguousarray(scores)  # sums of these depend on the order in memory
    return np.where(np.isfinite(scores), scores, np.nan)


def log_densities(moments: SecondMoments) -> FloatArray:
    """Return the joint log density (a, J, v) of the test rows of each experiment.

    Notes
    -----
    With noise variance σ²/w and prior covariance (σ²/α)k the held-out targets are normal about
    their predictions, with the covariances of `holdfast.core.gaussian`. The log density is

        −½(|H| log 2πσ² + log det C + rᵀC⁻¹r/σ²),      C = (I − S_HH)⁻¹

    (Rasmussen & Williams 2006, §5.4.2; for groups Ginsbourger & Schärer 2024), and
    σ̂² = Σ rᵀC⁻¹r / Σ|H| makes their sum largest.
    """
    noise = moments.noise[:, None]
    n = moments.count[None, :, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        level = np.log(2.0 * np.pi * noise)
        return np.asarray(-0.5 * (n * level + moments.log_det[..., None] + moments.square / noise))


def density_rows(moments: SecondMoments, sizes: IntArray) -> FloatArray:
    """Return values (a, k, v) of the test rows whose mean is the score "log_density".

    Rows that are tested together share their joint log density equally.
    """
    share = log_densities(moments) / np.maximum(1, moments.count)[:, None]
    return np.repeat(share, sizes, axis=1)


def _called(tested: _Tested, predictions: FloatArray, *, each_target: bool) -> Scores:
    """Return the scores of predictions (a, k, v), of experiments and of all rows by themselves."""
    metric, y, ptr, w = tested.metric, tested.y, tested.ptr, tested.weights
    a, n, equal = len(predictions), len(ptr) - 1, bool((w == w[0]).all())
    pooled, splits = np.empty(a), np.full((a, n), np.nan)
    for i, p in enumerate(predictions):
        made = cache(partial(_sigmoids, tested, p))

        def call(part: slice, whole: bool = False, p: FloatArray = p, made: Any = made) -> float:
            if metric.form == "area":
                values = placements(p[part, 0], metric.positive(y[part]), w[part])
                return float(w[part] @ values / w[part].sum())
            weights = None if equal else w[part]
            groups = None if tested.groups is None else tested.groups[part]
            return call_scorer(metric, y[part], p[part], weights, groups, made, strict=whole)

        pooled[i] = call(slice(None), True)
        if n == 1:
            splits[i] = pooled[i]
        elif n <= MAX_SPLITS:
            splits[i] = [call(slice(*ends)) for ends in pairwise(ptr)]
    mean, std, se = summary(splits)
    if np.diff(ptr).min() < 2:  # the score of a single row (F1) says nothing about the error
        se = np.full(a, np.nan)
    found = Scores(pooled, splits, mean, std, se)
    if metric.classes is not None or y.shape[1] == 1:
        return found
    # If the splits of each target are not needed, one experiment with all rows is enough.
    rows = tested if each_target else replace(tested, ptr=ptr[[0, -1]])
    each = [
        _called(replace(rows, y=y[:, [t]]), predictions[:, :, [t]], each_target=False)
        for t in range(y.shape[1])
    ]
    pooled, mean, se = (
        np.array([getattr(one, name) for one in each]).T for name in ("pooled", "mean", "se")
    )
    if not each_target:
        return replace(found, per_target=pooled)
    return replace(found, per_target=pooled, per_target_mean=mean, per_target_se=se)


def _sigmoids(tested: _Tested, decision: FloatArray) -> Sigmoids:
    """Return what turns decision values (k, v) of the tested rows into probabilities."""
    happen = happened(tested.metric.targets(tested.y), decision.shape[1])
    return sigmoids(decision[None], happen, tested.share)


def combine(parts: Sequence[Scores], sizes: Sequence[int]) -> Scores:
    """Return the scores of all targets from those of blocks of so many targets (regression only).

    The average over targets: what scikit-learn's regression metrics are. A scorer written by a user
    that mixes targets in another way gets the average of its values on the blocks. Where the
    standard error takes more than the splits, it is the average of those of the blocks, which is
    never smaller.
    """
    share = np.asarray(sizes, dtype=np.float64) / sum(sizes)

    def average(name: str) -> FloatArray:
        return np.asarray(sum(w * getattr(s, name) for w, s in zip(share, parts, strict=True)))

    def joined(name: str, single: str) -> FloatArray | None:
        each = [
            getattr(s, name) if s.per_target is not None else getattr(s, single)[:, None]
            for s in parts
        ]
        return None if any(one is None for one in each) else np.hstack(each)

    splits, se = average("splits"), average("se")
    # An experiment without weight is nan throughout and counts in no mean.
    own = splits[:, ~np.all([np.isnan(s.splits).all(axis=0) for s in parts], axis=0)]
    mean, std, over_splits = summary(own)
    if own.size and np.isfinite(own).all() and np.isfinite(se).all():
        se = over_splits
    each = {f"per_target{of}": joined(f"per_target{of}", of[1:] or "pooled") for of in _OF_TARGETS}
    return Scores(average("pooled"), splits, mean, std, se, **each)
