"""How well predictions follow the targets within groups: Pearson's r, Kendall's τ_b, concordance.

Each score is computed within groups and averaged over the groups that have at least two distinct
targets; without groups, all rows are one group. All groups are scored together, in O(k log k) for k
rows and without a loop over groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast._typing import AnyArray, BoolArray, FloatArray, IntArray

__all__ = ["RANKING", "GroupScorer"]

#: The scores by the names that `scoring` knows; greater is better.
RANKING = ("pearson", "kendall_tau", "concordance")

NO_ORDER = (
    "no group has two rows with different targets, so there is no order to predict. Score "
    "predictions of several rows of a group together (pooled=True)."
)


@dataclass(frozen=True)
class GroupScorer:
    """A scorer that sees groups: ``scorer(estimator, X, y, groups)``; `name` is one of `RANKING`.

    Returns the score of an estimator's predictions for X, averaged over targets. Estimators are
    regressors, or classifiers of two classes, the second of which is the greater.
    """

    name: str

    def __call__(
        self, estimator: Any, X: Any, y: AnyArray, groups: AnyArray | None = None
    ) -> float:
        """Return the score; by default all rows are one group."""
        if len(y) < 2:  # said at once: leave-one-out asks for every row separately
            raise ValueError(NO_ORDER)
        classes = getattr(estimator, "classes_", None)
        if classes is None:
            predictions, truth = estimator.predict(X), np.asarray(y, dtype=np.float64)
        elif len(classes) == 2:
            predictions = estimator.decision_function(X)
            truth = (np.asarray(y) == classes[1]).astype(np.float64)
        else:
            raise ValueError(
                f"{self.name} needs numbers or two classes, which can be put in order; got "
                f"{len(classes)} classes."
            )
        codes = np.zeros(len(truth), dtype=np.int64)
        if groups is not None:
            codes = np.unique(groups, return_inverse=True)[1].astype(np.int64)
        columns = np.asarray(predictions, dtype=np.float64).reshape(len(truth), -1).T
        targets = truth.reshape(len(truth), -1).T
        score = pearson if self.name == "pearson" else order
        each = [score(t, p, codes, self.name) for t, p in zip(targets, columns, strict=True)]
        return float(np.mean(each))


def pearson(y: FloatArray, predictions: FloatArray, groups: IntArray, _: str) -> float:
    """Return Pearson's r of each group, averaged; 0 for a group with equal predictions."""
    size = np.bincount(groups)
    t, p = (v - (np.bincount(groups, v) / size)[groups] for v in (y, predictions))
    tt, pp, tp = (np.bincount(groups, part) for part in (t * t, p * p, t * p))
    varies = _distinct(predictions, groups) & (tt * pp > 0)
    r = np.where(varies, tp / np.sqrt(np.where(varies, tt * pp, 1.0)), 0.0)
    return _average(r, _distinct(y, groups))


def order(y: FloatArray, predictions: FloatArray, groups: IntArray, name: str) -> float:
    """Return Kendall's τ_b, or the share of pairs in the right order, of each group, averaged.

    τ_b is 0 for a group with equal predictions. In the share, pairs with equal targets do not
    count, equal predictions count one half.

    Notes
    -----
    Rows are sorted by group, target and prediction; a discordant pair is then an inversion of the
    predictions. Knight's formula gives the concordant pairs from the ties.
    """
    places = np.lexsort((predictions, groups))
    g, p = groups[places], predictions[places]
    new_group = _changes(g)
    new_value = new_group | _changes(p)
    rank, dense = np.empty(g.size, dtype=np.int64), np.cumsum(new_value)
    rank[places] = dense - dense[_starts(new_group)]  # within the group, equal for equal values

    places = np.lexsort((rank, y, groups))  # the groups keep their places
    t, r = y[places], rank[places]
    new_target = new_group | _changes(t)
    size = np.bincount(g).astype(np.float64)
    pairs = size * (size - 1) / 2
    tied_y, tied_p, tied_both = (
        _pairs_in_runs(new, g) for new in (new_target, new_value, new_target | _changes(r))
    )
    discordant, different = _inversions(r, g), pairs - tied_y
    concordant = different - tied_p + tied_both - discordant
    if name == "kendall_tau":
        total = np.sqrt(different * (pairs - tied_p))
        value = (concordant - discordant) / np.where(total > 0, total, 1.0)
    else:
        undecided = different - concordant - discordant
        value = (concordant + undecided / 2) / np.where(different > 0, different, 1.0)
    return _average(value, different > 0)


def _average(values: FloatArray, counts: BoolArray) -> float:
    """Return the mean over the groups that count."""
    if not counts.any():
        raise ValueError(NO_ORDER)
    return float(values[counts].mean())


def _distinct(values: FloatArray, groups: IntArray) -> BoolArray:
    """Return which groups have two distinct values."""
    low, high = np.full((2, int(groups.max()) + 1), np.array([[np.inf], [-np.inf]]))
    np.minimum.at(low, groups, values)
    np.maximum.at(high, groups, values)
    return low < high


def _changes(values: AnyArray) -> BoolArray:
    """Return for each value whether it differs from the one before; the first does."""
    return np.concatenate([[True], values[1:] != values[:-1]])


def _starts(new: BoolArray) -> IntArray:
    """Return for each place where its run starts."""
    return np.maximum.accumulate(np.where(new, np.arange(new.size), 0))


def _pairs_in_runs(new: BoolArray, groups: IntArray) -> FloatArray:
    """Return the number of pairs within runs, summed over the runs of each group."""
    length = np.diff(np.append(np.flatnonzero(new), new.size)).astype(np.float64)
    return np.asarray(np.bincount(groups[new], length * (length - 1) / 2), dtype=np.float64)


def _inversions(rank: IntArray, groups: IntArray) -> FloatArray:
    """Return, for each group, how many pairs stand in descending order of rank.

    Notes
    -----
    A pair is inverted in the highest bit in which its ranks differ: among rows that agree in the
    bits above, an earlier row has the bit and a later one does not.
    """
    total = np.zeros(int(groups.max()) + 1)
    for bit in range(int(rank.max()).bit_length()):
        above = rank >> (bit + 1)
        places = np.lexsort((above, groups))  # keeps the order of rows that agree
        has, run = (rank[places] >> bit) & 1, _changes(groups) | _changes(above[places])
        before = np.cumsum(has) - has
        before -= before[_starts(run)]  # earlier rows of the run that have the bit
        total += np.bincount(groups, np.where(has == 0, before, 0))
    return total
