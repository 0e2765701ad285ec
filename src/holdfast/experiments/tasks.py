"""Experiments after the policy for held-out basis rows: what the hold-out algebra works on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

import numpy as np

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.exceptions import HoldOutError, NotSupportedError
from holdfast.experiments.experiment import Experiments
from holdfast.experiments.ragged import Ragged

Policy = Literal["remove", "keep", "train", "skip", "reselect"]
POLICIES: tuple[Policy, ...] = get_args(Policy)


#: Sets whose sizes differ by no more than these factors may be filled up to one size: held-out and
#: test rows, and removed basis rows, of which there are fewer.
ROW_STEP, BASIS_STEP = 1.25, 2.0
#: … if by themselves they make less than this share of a stack.
FILLED = 1.0 / 4


class Spare(NamedTuple):
    """Which entries of a stack only fill it up: they repeat the first number of their set."""

    H: BoolArray
    E: BoolArray
    T: BoolArray


class Shape(NamedTuple):
    """Tasks of one shape, stacked: row numbers H (b, h), T (b, t), basis positions E (b, e)."""

    index: IntArray  # type: ignore[assignment]  # hides tuple.index, which is not needed here
    H: IntArray
    E: IntArray
    T: IntArray
    out: IntArray  # (b, t): where the predictions of T go in the flat list of all test rows
    spare: Spare | None = None  # for sets of different sizes

    def cut(self, part: slice | BoolArray) -> Shape:
        """Return some of the tasks."""
        spare = None if self.spare is None else Spare(*(mask[part] for mask in self.spare))
        H, E, T, out = self.H[part], self.E[part], self.T[part], self.out[part]
        return Shape(self.index[part], H, E, T, out, spare)

    @property
    def counts(self) -> IntArray:
        """How many rows each task holds out."""
        if self.spare is None:
            return np.full(len(self.index), self.H.shape[1])
        return np.asarray((~self.spare.H).sum(axis=1))

    def put(self, target: FloatArray, values: FloatArray) -> None:
        """Write values (a, b, t, …) of the test rows where they belong in (a, all test rows, …)."""
        if self.spare is None:
            target[:, self.out] = values
        else:
            real = ~self.spare.T
            target[:, self.out[real]] = values[:, real]


@dataclass(frozen=True)
class Tasks:
    """Experiments after the policy: what the hold-out algebra works on.

    Attributes
    ----------
    held : Ragged
        Rows that leave the training set, all of positive weight.
    removed : Ragged
        Positions in the basis that leave the basis.
    test : Ragged
        Rows to predict.
    source : ndarray of int
        The experiment that each task came from; experiments without test rows have no task.
    """

    held: Ragged
    removed: Ragged
    test: Ragged
    source: IntArray

    @classmethod
    def one(cls, held: IntArray, removed: IntArray, test: IntArray) -> Tasks:
        """Return a single task."""
        parts = [Ragged.from_arrays([rows]) for rows in (held, removed, test)]
        return cls(parts[0], parts[1], parts[2], np.zeros(1, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.held)

    def select(self, index: IntArray) -> Tasks:
        """Return the chosen tasks, in that order."""
        return Tasks(
            self.held.items(index),
            self.removed.items(index),
            self.test.items(index),
            self.source[index],
        )

    def shapes(self, *, fill_below: float = 0.0) -> Iterator[Shape]:
        """Yield the tasks grouped by the sizes of their held, removed and test sets.

        Parameters
        ----------
        fill_below : float
            Sizes of fewer rows in all share a group with similar sizes, filled up to the largest.
        """
        sizes = self.held.sizes, self.removed.sizes, self.test.sizes
        h, e, t = sizes
        # One number for each combination of sizes: sorting numbers is much faster than triples.
        kinds = (h * (e.max() + 1) + e) * (t.max() + 1) + t
        _, first, code, count = np.unique(
            kinds, return_index=True, return_inverse=True, return_counts=True
        )
        if fill_below and first.size > 1:
            code = _alike(h[first], e[first], t[first], count, fill_below)[code]
        order = np.argsort(code, kind="stable")
        bounds = np.searchsorted(code[order], np.arange(code.max() + 2))
        for start, stop in pairwise(bounds):
            yield self._stacked(order[start:stop], *(size[order[start:stop]] for size in sizes))

    def _stacked(self, index: IntArray, h: IntArray, e: IntArray, t: IntArray) -> Shape:
        """Return some tasks as one stack, filled up where their sizes differ."""
        sets = (self.held, h), (self.removed, e), (self.test, t)
        most = [int(size.max()) for _, size in sets]
        out = self.test.ptr[index][:, None] + np.arange(most[2])
        if all((size == size[0]).all() for _, size in sets):
            H, E, T = (ragged.stack(index, k) for (ragged, _), k in zip(sets, most, strict=True))
            return Shape(index, H, E, T, out)
        spare = [np.arange(k) >= size[:, None] for (_, size), k in zip(sets, most, strict=True)]
        H, E, T = (
            ragged.values[ragged.ptr[index][:, None] + np.where(mask, 0, np.arange(mask.shape[1]))]
            for (ragged, _), mask in zip(sets, spare, strict=True)
        )
        return Shape(index, H, E, T, out, Spare(*spare))

    def stacks(
        self, per_row: int, most: int, *, per_removed: int = 0, fill: bool = False
    ) -> list[Shape]:
        """Return the groups of `shapes`, cut so that each holds no more than `most` numbers.

        A task counts `per_row` for each of its held and test rows, and `per_removed` for each pair
        of such a row and a removed basis row; a stack has at least one task. With `fill`, sizes
        that make only a small part of a stack are filled up to similar ones. The last answer is
        kept: paths ask again at every penalty.
        """
        asked = per_row, most, per_removed, fill
        found = self._last_stacks.get(asked)
        if found is None:
            found = self._cut_stacks(*asked)
            self._last_stacks.clear()
            self._last_stacks[asked] = found
        return found

    @cached_property
    def _last_stacks(self) -> dict[tuple[int, int, int, bool], list[Shape]]:
        """What `stacks` returned last, by what was asked."""
        return {}

    def _cut_stacks(self, per_row: int, most: int, per_removed: int, fill: bool) -> list[Shape]:
        parts = []
        for shape in self.shapes(fill_below=FILLED * most / per_row if fill else 0.0):
            rows = max(1, shape.H.shape[1] + shape.T.shape[1])
            step = max(1, most // (rows * (per_row + per_removed * shape.E.shape[1])))
            for start in range(0, len(shape.index), step):
                parts.append(shape.cut(slice(start, start + step)))
        return parts


def _alike(h: IntArray, e: IntArray, t: IntArray, count: IntArray, fill_below: float) -> IntArray:
    """Return a number for each combination of sizes: the same for those that share a stack.

    Sets of at most one row keep to themselves: they have formulas of their own. So do sets that
    lose no basis row, and sets that test other rows than they hold out.
    """
    keys = np.stack([_rung(h, ROW_STEP), _rung(e, BASIS_STEP), _rung(t, ROW_STEP), h == t])
    own = count * (h + t) >= fill_below
    keys = np.vstack([keys, np.where(own, 1 + np.arange(h.size), 0)])
    return np.asarray(np.unique(keys, axis=1, return_inverse=True)[1]).ravel()


def _rung(size: IntArray, step: float) -> IntArray:
    """Return on which rung of a geometric ladder each size lies; 0 and 1 have their own."""
    rungs = np.floor(np.log(np.maximum(size, 1)) / np.log(step) + 1e-9).astype(np.int64)
    return np.where(size <= 1, size - 2, rungs)


def affected(basis: IntArray | None, policy: Policy) -> IntArray:
    """Return the basis rows that fare differently when they are held out.

    Those of a dense model do not: it is expanded in every row, and holding a row out and removing
    it from the basis are the same thing (representer theorem).
    """
    nobody = np.empty(0, dtype=np.int64)
    if basis is not None:
        return nobody if policy in ("keep", "reselect") else basis
    if policy in ("train", "skip"):
        raise NotSupportedError(
            f'held_out_basis="{policy}" needs a set of basis rows; this model is dense '
            "(basis=None), so every row is a basis row. Pass basis=..., or use "
            'held_out_basis="remove".'
        )
    return nobody


def positions(basis: IntArray, n_rows: int) -> IntArray:
    """Return the position of each row in the basis, −1 for rows that are not in it."""
    position = np.full(n_rows, -1)
    inside = basis < n_rows  # numbers from there on are points, which are no rows
    position[basis[inside]] = np.flatnonzero(inside)
    return position


def resolve(
    experiments: Experiments,
    *,
    weights: FloatArray,
    basis: IntArray | None,
    policy: Policy,
) -> Tasks:
    """Return the tasks that `experiments` become under a policy for held-out basis rows.

    Parameters
    ----------
    experiments : Experiments
    weights : ndarray of shape (m,)
        Row weights; rows of weight zero are never trained on.
    basis : ndarray of int or None
        Row numbers of the basis, from m on for vectors that are no rows; None for a dense model.
    policy : {"remove", "keep", "train", "skip", "reselect"}
        See Pahikkala et al. (2012) §6.2 and §6.4. "reselect" leaves the choice of basis rows to the
        caller.
    """
    trained, concerned = weights > 0, affected(basis, policy)
    held, test = experiments.held_out, experiments.test
    removed = Ragged.empty(len(experiments))
    source = np.arange(len(experiments))
    if concerned.size:
        position = positions(concerned, weights.size)
        if policy == "remove":
            removed = _leaving(held, position, concerned.size)
        else:
            held = held.filter(position[held.values] < 0)
        if policy == "skip":
            test = test.filter(position[test.values] < 0)
            source = np.flatnonzero(test.sizes > 0)
            if not source.size:
                raise HoldOutError(
                    'held_out_basis="skip" leaves no test rows: every tested row is a basis row. '
                    "Use fewer basis rows or another policy."
                )
            held, test, removed = (ragged.items(source) for ragged in (held, test, removed))
    if not trained.all():
        held = held.filter(trained[held.values])
    left = int(trained.sum()) - held.sizes
    if (left < 1).any():
        j = int(source[np.argmax(left < 1)])
        raise HoldOutError(
            f"experiment {j} of cv leaves no row with positive weight to train on. Hold out fewer "
            "rows or give the remaining rows a weight."
        )
    return Tasks(held, removed, test, source)


def _leaving(held: Ragged, position: IntArray, n_basis: int) -> Ragged:
    """Return the positions in the basis that leave with held-out rows."""
    leaving = held.filter(position[held.values] >= 0)
    if (leaving.sizes >= n_basis).any():
        j = int(np.argmax(leaving.sizes >= n_basis))
        raise HoldOutError(
            f"experiment {j} of cv holds out every basis row (all {n_basis}), so nothing is left "
            'to expand in. Use more basis rows or held_out_basis="keep".'
        )
    return Ragged(position[leaving.values], leaving.ptr)
