"""Basis rows chosen at random: among all rows, or evenly from the groups or the folds."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from holdfast._typing import IntArray
from holdfast.basis.base import Pool, Selector, SizedSelector, how_many
from holdfast.data.values import whole_number
from holdfast.exceptions import InvalidInputError


class Random(SizedSelector):
    """Rows drawn uniformly without replacement.

    Parameters
    ----------
    n : int or float
        How many rows, or which fraction of them.
    per_model : bool, default=False
        Whether n counts the basis rows of each held-out model instead of those of the model on all
        rows. With f folds that hold out every row once, n f / (f - 1) rows are drawn, evenly from
        the folds, so that n are left when a fold is removed: exactly n where f - 1 divides n,
        otherwise n on average.

    Notes
    -----
    The choice does not depend on the data, so holding rows out afterwards (``"remove"``) leaves a
    random choice from the training rows: the estimate is unbiased (Pahikkala et al. 2012, §6.2).
    With ``per_model`` it is one of the error of an algorithm that draws n basis rows (their
    approach 1).

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import KernelRidgeCV
    >>> from holdfast.basis import Random
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(200, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> model = KernelRidgeCV(gamma=0.5, basis=Random(27, per_model=True), cv=10).fit(X, y)
    >>> len(model.basis_indices_)  # 3 in each fold: 27 are left when one is held out
    30
    """

    data_dependent: ClassVar[bool] = False
    nested: ClassVar[bool] = True

    def __init__(self, n: int | float = 0.1, per_model: bool = False) -> None:
        super().__init__(n)
        self.per_model = per_model

    @property
    def needs(self) -> frozenset[str]:
        """The experiments, if n counts the basis rows of held-out models."""
        return frozenset({"experiments"} if self.per_model else ())

    def _choose(self, pool: Pool) -> IntArray:
        m = len(pool)
        n = how_many(self.n, m)
        if not self.per_model:
            return pool.rng.choice(m, size=n, replace=False).astype(np.int64)
        assert pool.folds is not None, "select() checks `needs`"
        sizes = np.bincount(pool.folds)
        total = drawn_for(n, sizes)
        rows = draw_from_each(pool.folds, even_shares(total, sizes, pool.rng), pool.rng)
        return pool.rng.permutation(rows)  # the first k of them are a random choice too


class PerGroup(Selector):
    """The same number of random rows from every group.

    Parameters
    ----------
    k : int
        Rows per group. A group with fewer rows gives all it has.

    Notes
    -----
    Pahikkala et al. (2012), §6.4: one parse per sentence, which beat a wholly random choice. Groups
    need not be the folds: every row of positive weight belongs to a group and may be drawn. The
    rows come group by group, in the sorted order of the group labels.
    """

    data_dependent: ClassVar[bool] = False

    def __init__(self, k: int = 1) -> None:
        self.k = k

    @property
    def needs(self) -> frozenset[str]:
        """The groups."""
        return frozenset({"groups"})

    def _choose(self, pool: Pool) -> IntArray:
        k = whole_number("k", self.k)
        assert pool.groups is not None, "select() checks `needs`"
        return draw_from_each(pool.groups, np.full(pool.groups.max() + 1, k), pool.rng)


class BalancedOverFolds(SizedSelector):
    """Random rows, the same number in every fold.

    Parameters
    ----------
    n : int or float
        How many rows in all, or which fraction of them. If the number of folds does not divide
        n, some folds drawn at random get one row more; a fold that has too few rows gives
        all it has and the others make up for it.

    Notes
    -----
    Pahikkala et al. (2012), §6.2 approach 1. With ``held_out_basis="remove"`` and f folds every
    held-out model then has n (f - 1) / f basis rows; ``Random(n, per_model=True)`` draws as many
    as leave n. The experiments must hold out every row exactly once.
    """

    data_dependent: ClassVar[bool] = False

    @property
    def needs(self) -> frozenset[str]:
        """The experiments."""
        return frozenset({"experiments"})

    def _choose(self, pool: Pool) -> IntArray:
        assert pool.folds is not None, "select() checks `needs`"
        sizes = np.bincount(pool.folds)
        shares = even_shares(how_many(self.n, len(pool)), sizes, pool.rng)
        return draw_from_each(pool.folds, shares, pool.rng)


def drawn_for(n: int, sizes: IntArray) -> int:
    """Return how many rows to draw evenly from folds so that n are left without any one of them."""
    sizes = sizes[sizes > 0]
    left = int(sizes.sum() - sizes.max())
    if n > left:
        raise InvalidInputError(
            f"n must be at most the number of rows that a held-out model is trained on ({left}) "
            f"where per_model=True; got {n}. Use fewer rows, or per_model=False.",
            argument="n",
        )
    folds = len(sizes)
    return min(round(n * folds / (folds - 1)), int(sizes.sum()))


def even_shares(n: int, sizes: IntArray, rng: np.random.Generator) -> IntArray:
    """Return how many of n rows each part gives: as equal as the sizes of the parts allow.

    What cannot be divided goes to parts drawn at random, so no part is favoured by its place.
    """
    shares = np.zeros_like(sizes)
    while (rest := n - int(shares.sum())) > 0:
        open_parts = np.flatnonzero(shares < sizes)
        each = rest // len(open_parts)
        if each == 0:
            shares[rng.choice(open_parts, size=rest, replace=False)] += 1
        else:
            room = sizes[open_parts] - shares[open_parts]
            shares[open_parts] += np.minimum(room, each)
    return shares


def draw_from_each(parts: IntArray, shares: IntArray, rng: np.random.Generator) -> IntArray:
    """Return ``shares[p]`` rows drawn without replacement from each part p (all, if fewer)."""
    order = np.argsort(parts, kind="stable")  # rows sorted by part
    ends = np.cumsum(np.bincount(parts, minlength=len(shares)))
    members = np.split(order, ends[:-1])
    drawn = [
        rng.choice(rows, size=min(int(share), len(rows)), replace=False)
        for rows, share in zip(members, shares, strict=True)
    ]
    return np.concatenate(drawn).astype(np.int64)
