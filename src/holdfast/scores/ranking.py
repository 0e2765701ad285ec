"""How well predictions follow the targets within groups: Pearson's r, Kendall's τ_b, concordance.

Each score is computed within groups and averaged over the groups that have at least two distinct
targets; without groups, all rows are one group. All groups are scored together, in O(k log k) for k
rows and without a loop over groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from holdfast._typing import AnyArray, BoolArray, FloatArray, IntArray

__all__ = ["RANKING", "GroupScorer", "concordance", "kendall_tau", "pearson"]

NO_ORDER = (
    "no group has two rows with different targets, so there is no order to predict. Score "
    "predictions of several rows of a group together (pooled=True)."
)


class PairCounts(NamedTuple):
    """Pairs of rows of one group, counted group by group; arrays of shape (n_groups,)."""

    different: FloatArray  # with different targets: those that count
    distinguished: FloatArray  # with different predictions
    concordant: FloatArray  # that the predictions put in the right order
    discordant: FloatArray  # … and in the wrong order


def count_pairs(y: FloatArray, predictions: FloatArray, groups: IntArray) -> PairCounts:
    """Return the pairs within each group.

    Parameters
    ----------
    y, predictions : (k,) ndarray
    groups : (k,) ndarray of int
        From 0 to n_groups - 1.

    Notes
    -----
    Rows are sorted by group, target and prediction; a discordant pair is then an inversion of the
    predictions. Knight's formula gives the concordant pairs from the ties.
    """
    n = int(groups.max()) + 1
    order = np.lexsort((predictions, groups))
    g, p = groups[order], predictions[order]
    new_group = _changes(g)
    new_value = new_group | _changes(p)
    rank = np.empty(g.size, dtype=np.int64)
    dense = np.cumsum(new_value)
    rank[order] = dense - dense[_starts(new_group)]  # within the group, equal for equal values
    tied_p = _pairs_in_runs(new_value, g, n)

    order = np.lexsort((rank, y, groups))  # the groups keep their places
    t, r = y[order], rank[order]
    new_target = new_group | _changes(t)
    tied_y = _pairs_in_runs(new_target, g, n)
    tied_both = _pairs_in_runs(new_target | _changes(r), g, n)
    size = np.bincount(g, minlength=n).astype(np.float64)
    pairs = size * (size - 1) / 2
    discordant = _inversions(r, g, n)
    concordant = pairs - tied_y - tied_p + tied_both - discordant
    return PairCounts(pairs - tied_y, pairs - tied_p, concordant, discordant)


def kendall_tau(y: FloatArray, predictions: FloatArray, groups: IntArray) -> float:
    """Return Kendall's τ_b of each group, averaged; 0 for a group with equal predictions."""
    c = count_pairs(y, predictions, groups)
    total = np.sqrt(c.different * c.distinguished)
    tau = (c.concordant - c.discordant) / np.where(total > 0, total, 1.0)
    return _average(tau, c.different > 0)


def concordance(y: FloatArray, predictions: FloatArray, groups: IntArray) -> float:
    """Return the share of pairs in the right order in each group, averaged.

    Pairs with equal targets do not count, equal predictions count one half.
    """
    c = count_pairs(y, predictions, groups)
    undecided = c.different - c.concordant - c.discordant
    share = (c.concordant + undecided / 2) / np.where(c.different > 0, c.different, 1.0)
    return _average(share, c.different > 0)


def pearson(y: FloatArray, predictions: FloatArray, groups: IntArray) -> float:
    """Return Pearson's r of each group, averaged; 0 for a group with equal predictions."""
    c, size = count_pairs(y, predictions, groups), np.maximum(np.bincount(groups), 1)
    t, p = (v - (np.bincount(groups, v) / size)[groups] for v in (y, predictions))
    tt, pp, tp = (np.bincount(groups, part) for part in (t * t, p * p, t * p))
    varies = (c.distinguished > 0) & (tt * pp > 0)
    return _average(
        np.where(varies, tp / np.sqrt(np.where(varies, tt * pp, 1.0)), 0.0), c.different > 0
    )


#: The scores by the names that `scoring` knows; greater is better.
RANKING: dict[str, Callable[[FloatArray, FloatArray, IntArray], float]] = {
    "pearson": pearson,
    "kendall_tau": kendall_tau,
    "concordance": concordance,
}


@dataclass(frozen=True)
class GroupScorer:
    """A scorer that sees groups: ``scorer(estimator, X, y, groups)``.

    Attributes
    ----------
    name : str
        Of `RANKING`.
    """

    name: str

    def __call__(
        self, estimator: Any, X: Any, y: AnyArray, groups: AnyArray | None = None
    ) -> float:
        """Return the score of an estimator's predictions for X, averaged over targets.

        Parameters
        ----------
        estimator : regressor, or classifier of two classes
        X : array-like
            Rows.
        y : (k,) or (k, v) ndarray
            Targets, or labels of two classes, the second of which is the greater.
        groups : (k,) ndarray, optional
            Group of each row; by default all rows are one.
        """
        if len(y) < 2:  # said at once: leave-one-out asks for every row separately
            raise ValueError(NO_ORDER)
        classes = getattr(estimator, "classes_", None)
        if classes is None:
            predictions = np.asarray(estimator.predict(X), dtype=np.float64)
            truth = np.asarray(y, dtype=np.float64)
        elif len(classes) == 2:
            predictions = np.asarray(estimator.decision_function(X), dtype=np.float64)
            truth = (np.asarray(y) == classes[1]).astype(np.float64)
        else:
            raise ValueError(
                f"{self.name} needs numbers or two classes, which can be put in order; got "
                f"{len(classes)} classes."
            )
        codes = np.zeros(len(truth), dtype=np.int64)
        if groups is not None:
            codes = np.unique(groups, return_inverse=True)[1].astype(np.int64)
        score, columns = RANKING[self.name], predictions.reshape(len(truth), -1)
        targets = truth.reshape(len(truth), -1)
        values = [score(t, p, codes) for t, p in zip(targets.T, columns.T, strict=True)]
        return float(np.mean(values))


def _average(values: FloatArray, counts: BoolArray) -> float:
    """Return the mean over the groups that count."""
    if not counts.any():
        raise ValueError(NO_ORDER)
    return float(values[counts].mean())


def _changes(values: AnyArray) -> BoolArray:
    """Return for each value whether it differs from the one before; the first does."""
    return np.concatenate([[True], values[1:] != values[:-1]])


def _starts(new: BoolArray) -> IntArray:
    """Return for each place where its run starts."""
    return np.maximum.accumulate(np.where(new, np.arange(new.size), 0))


def _pairs_in_runs(new: BoolArray, groups: IntArray, n: int) -> FloatArray:
    """Return the number of pairs within runs, summed over the runs of each group."""
    length = np.diff(np.append(np.flatnonzero(new), new.size)).astype(np.float64)
    return _sums(groups[new], length * (length - 1) / 2, n)


def _sums(groups: IntArray, values: AnyArray, n: int) -> FloatArray:
    """Return the sum of the values of each group."""
    return np.bincount(groups, values, minlength=n).astype(np.float64, copy=False)


def _inversions(rank: IntArray, groups: IntArray, n: int) -> FloatArray:
    """Return, for each group, how many pairs stand in descending order of rank.

    Notes
    -----
    A pair is inverted in the highest bit in which its ranks differ: among rows that agree in the
    bits above, an earlier row has the bit and a later one does not.
    """
    total = np.zeros(n)
    for bit in range(int(rank.max()).bit_length()):
        above = rank >> (bit + 1)
        order = np.lexsort((above, groups))  # keeps the order of rows that agree
        has, run = (rank[order] >> bit) & 1, _changes(groups) | _changes(above[order])
        before = np.cumsum(has) - has
        before -= before[_starts(run)]  # earlier rows of the run that have the bit
        total += _sums(groups, np.where(has == 0, before, 0), n)
    return total
