"""Basis rows by where they lie: at the centres of clusters, or far from each other."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from sklearn import cluster
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances

from holdfast._typing import IntArray
from holdfast.basis.base import Pool, Selector, SizedSelector, how_many, warn_short
from holdfast.basis.pivoted_cholesky import pivot
from holdfast.data.numbers import check_choice
from holdfast.exceptions import InvalidInputError
from holdfast.kernels.matrix import KernelRows


class KMeans(Selector):
    """The row nearest to the centre of each of n clusters.

    Parameters
    ----------
    n : int or float
        How many rows, or which fraction of them.
    space : {"auto", "input", "kernel"}
        Where to look for clusters. ``"input"``: among the rows of X as they are, dense or
        sparse. ``"kernel"``: in the kernel's feature space, through 2n columns of a randomly
        pivoted Cholesky factorisation; this is the only way for precomputed kernels and for
        kernels on other objects than vectors. ``"auto"``: input if the rows are vectors.

    Notes
    -----
    Lloyd's algorithm with k-means++ starts (scikit-learn), with row weights as weights. Each centre
    is replaced by the nearest row of its own cluster, so the rows are distinct. In input space the
    widths of the kernel play no part: scale the features, or use ``"kernel"``, when they differ.
    Cost: O(mnd) per iteration; in kernel space O(mn²) and O(mn) memory. The rows come in the order
    of the clusters. y is not used.

    If there are fewer than n distinct rows, fewer are returned, with a warning.
    """

    data_dependent: ClassVar[bool] = True

    def __init__(self, n: int | float = 0.1, space: str = "auto") -> None:
        self.n = n
        self.space = space

    def _choose(self, pool: Pool) -> IntArray:
        n = how_many(self.n, len(pool))
        check_choice("space", self.space, ("auto", "input", "kernel"))
        vectors = _vectors(pool)
        if self.space == "input" and vectors is None:
            raise InvalidInputError(
                'space="input" needs rows that are vectors, and these are a precomputed kernel '
                'or other objects. Use space="kernel".',
                argument="space",
            )
        if vectors is None or self.space == "kernel":
            vectors = pivot(pool, min(2 * n, len(pool)))[1].F
        seed = int(pool.rng.integers(2**31 - 1))
        model = cluster.KMeans(n_clusters=n, n_init=1, random_state=seed)
        with warnings.catch_warnings():
            # Fewer distinct rows than clusters: the warning below says so.
            warnings.simplefilter("ignore", ConvergenceWarning)
            labels = model.fit(vectors, sample_weight=pool.weights).labels_
        rows = _snap(vectors, labels, model.cluster_centers_)
        warn_short(self, len(rows), n, "there are no more distinct rows")
        return rows


def _vectors(pool: Pool) -> Any:
    """Return the rows as a numeric matrix (dense or CSR), or None if they are not vectors."""
    X = pool.data.X if isinstance(pool.data, KernelRows) else None
    if X is None or X.ndim != 2 or X.dtype.kind not in "biuf":
        return None
    return X if X.dtype.kind == "f" else X.astype(np.float64)


def _snap(vectors: Any, labels: IntArray, centres: Any) -> IntArray:
    """Return, for each cluster that has rows, the one nearest to its centre."""
    order = np.argsort(labels, kind="stable")
    ends = np.cumsum(np.bincount(labels, minlength=len(centres)))
    rows = []
    for members, centre in zip(np.split(order, ends[:-1]), centres, strict=True):
        if len(members):
            distance = euclidean_distances(vectors[members], centre[None], squared=True)
            rows.append(members[int(np.argmin(distance[:, 0]))])
    return np.array(rows, dtype=np.int64)


class FarthestPoint(SizedSelector):
    """Rows added one by one, each the farthest from those already chosen.

    Parameters
    ----------
    n : int or float
        How many rows, or which fraction of them.

    Notes
    -----
    The distance is that of the kernel's feature space, |φ(x) - φ(z)|² = k(x, x) + k(z, z) - 2 k(x,
    z). The first row is drawn at random; the first in row order wins a tie. The largest distance of
    any row from the chosen ones is at most twice the smallest possible (Gonzalez 1985). Outliers
    are chosen early: with noisy inputs prefer another selector. Cost: n columns of the kernel
    matrix, O(m) memory. y and the size of the weights are not used.

    If every row coincides with a chosen one before n rows are found, fewer are returned, with a
    warning.
    """

    data_dependent: ClassVar[bool] = True
    nested: ClassVar[bool] = True

    def _choose(self, pool: Pool) -> IntArray:
        m = len(pool)
        n = how_many(self.n, m)
        diagonal = pool.data.diag()
        # Rounding of k_ii + k_hh - 2 k_ih; rows closer than this are the same row.
        floor = 64 * np.finfo(np.float64).eps * np.abs(diagonal).max()
        nearest = np.full(m, np.inf)  # squared distance of each row from the chosen ones
        chosen = [int(pool.rng.integers(m))]
        while len(chosen) < n:
            h = chosen[-1]
            column = pool.data.block(slice(None), np.array([h]))[:, 0]
            np.minimum(nearest, diagonal + diagonal[h] - 2.0 * column, out=nearest)
            nearest[h] = -np.inf
            farthest = int(np.argmax(nearest))
            if nearest[farthest] <= floor:
                warn_short(self, len(chosen), n, "every other row coincides with one of these")
                break
            chosen.append(farthest)
        return np.array(chosen, dtype=np.int64)
