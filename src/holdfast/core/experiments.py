"""What an experiment is: rows held out, and rows tested; many of them in a few flat arrays.

Pahikkala et al. (2012) (6)–(7): a cross-validation estimate is a sequence of experiments. Each
holds out some rows, trains on the others and predicts the test rows, which are a part of the
held-out rows. Everything people call cross-validation is such a sequence. Millions of experiments
(leave-one-out) are common, so all of them are stored in a few flat arrays (`Ragged`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import AnyArray, BoolArray, IntArray
from holdfast.data.indices import row_numbers
from holdfast.exceptions import HoldOutError

__all__ = ["Experiments", "HoldOut", "Ragged", "leave_group_out", "leave_one_out"]


@dataclass(frozen=True)
class Ragged:
    """Many index arrays of different lengths, stored as one: item j is values[ptr[j]:ptr[j+1]]."""

    values: IntArray
    ptr: IntArray

    @classmethod
    def from_arrays(cls, arrays: Iterable[IntArray]) -> Ragged:
        """Return the arrays laid end to end."""
        parts = list(arrays)
        ptr = np.zeros(len(parts) + 1, dtype=np.int64)
        np.cumsum([part.size for part in parts], out=ptr[1:])
        values = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
        return cls(values.astype(np.int64, copy=False), ptr)

    @classmethod
    def ranges(cls, start: IntArray, stop: IntArray) -> Ragged:
        """Return the consecutive numbers from start_j up to and without stop_j, for each j."""
        ptr = np.concatenate([[0], np.cumsum(stop - start)]).astype(np.int64)
        return cls(np.arange(ptr[-1]) + np.repeat(start - ptr[:-1], stop - start), ptr)

    @classmethod
    def joined(cls, parts: Sequence[Ragged]) -> Ragged:
        """Return the items of several, one after another."""
        sizes = np.concatenate([part.sizes for part in parts])
        ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return cls(np.concatenate([part.values for part in parts]), ptr)

    @classmethod
    def empty(cls, length: int) -> Ragged:
        """Return `length` empty items."""
        return cls(np.empty(0, dtype=np.int64), np.zeros(length + 1, dtype=np.int64))

    def __len__(self) -> int:
        return self.ptr.size - 1

    def __getitem__(self, j: int) -> IntArray:
        return self.values[self.ptr[j] : self.ptr[j + 1]]

    @cached_property
    def sizes(self) -> IntArray:
        """Length of each item."""
        return np.diff(self.ptr)

    @cached_property
    def owners(self) -> IntArray:
        """For each stored value, the item that it belongs to."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @cached_property
    def atoms(self) -> Ragged:
        """The pieces that the items are unions of, each in sorted order.

        Values belong to one atom if the same items hold them, each at most once.

        Notes
        -----
        Each item gets a random 64-bit number, a value the sum of those of its items: O(all values),
        and two atoms meet by chance once in 2⁶⁴ pairs.
        """
        marks = np.random.default_rng(0).integers(1, 2**63, size=len(self), dtype=np.uint64)
        total = np.zeros(self.values.max(initial=-1) + 1, dtype=np.uint64)
        inside = np.zeros(total.size, dtype=bool)
        np.add.at(total, self.values, marks[self.owners])
        inside[self.values] = True
        values = np.flatnonzero(inside)
        _, code, count = np.unique(total[values], return_inverse=True, return_counts=True)
        ptr = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
        return Ragged(values[np.argsort(code, kind="stable")].astype(np.int64), ptr)

    def filter(self, mask: BoolArray) -> Ragged:
        """Return the same items with only the values where `mask` (one flag per value) is true."""
        kept = np.concatenate([[0], np.cumsum(mask)]).astype(np.int64)
        return Ragged(self.values[mask], kept[self.ptr])

    def items(self, index: IntArray) -> Ragged:
        """Return the chosen items, in that order."""
        where = self.where(index)
        return Ragged(self.values[where.values], where.ptr)

    def copy(self) -> Ragged:
        """Return the same items, whose values may be changed."""
        return Ragged(self.values.copy(), self.ptr)

    def where(self, index: IntArray) -> Ragged:
        """Return where the values of the chosen items stand among all values."""
        return Ragged.ranges(self.ptr[index], self.ptr[index + 1])

    def stack(self, index: IntArray, size: int) -> IntArray:
        """Return the chosen items, all of length `size`, as one array (len(index), size)."""
        return np.asarray(self.values[self.ptr[index][:, None] + np.arange(size)])


@dataclass(frozen=True, eq=False)
class HoldOut:
    """One experiment: rows that the model never sees, and those of them that it predicts.

    Parameters
    ----------
    held_out : array-like of int
        Rows that are left out of training.
    test : array-like of int, optional
        Rows to predict, a part of `held_out`. Default: all of them.

    Examples
    --------
    Hold out a neighbourhood and test its centre only:

    >>> from holdfast import HoldOut
    >>> HoldOut([3, 4, 5], test=[4])
    HoldOut(held_out=[3, 4, 5], test=[4])
    """

    held_out: IntArray
    test: IntArray

    def __init__(self, held_out: ArrayLike, test: ArrayLike | None = None) -> None:
        held = row_numbers("held_out", held_out)
        tested = held if test is None else row_numbers("test", test)
        if not held.size or not tested.size:
            raise HoldOutError(
                "an experiment needs at least one held-out row and one test row; got "
                f"{held.size} held-out and {tested.size} test rows.",
                argument="test" if held.size else "held_out",
            )
        outside = tested[~np.isin(tested, held)]
        if outside.size:
            raise HoldOutError(
                f"test rows must be a part of the held-out rows; row {outside[0]} is tested but "
                "not held out. Add it to held_out.",
                argument="test",
            )
        object.__setattr__(self, "held_out", held)
        object.__setattr__(self, "test", tested)

    def __repr__(self) -> str:
        def short(rows: IntArray) -> str:
            shown = ", ".join(map(str, rows[:6]))
            return f"[{shown}]" if rows.size <= 6 else f"[{shown}, … {rows.size} rows]"

        return f"HoldOut(held_out={short(self.held_out)}, test={short(self.test)})"


@dataclass(frozen=True, eq=False)
class Experiments:
    """A read-only sequence of `HoldOut` experiments, compressed; slices are sequences too."""

    held_out: Ragged
    test: Ragged

    def __len__(self) -> int:
        return len(self.held_out)

    @overload
    def __getitem__(self, j: int) -> HoldOut: ...

    @overload
    def __getitem__(self, j: slice) -> Experiments: ...

    def __getitem__(self, j: int | slice) -> HoldOut | Experiments:
        if isinstance(j, slice):
            return self.select(np.arange(len(self))[j])
        if not -len(self) <= j < len(self):
            raise IndexError(f"experiment {j} of {len(self)}")
        j %= len(self)
        return HoldOut(self.held_out[j], self.test[j])

    def __iter__(self) -> Iterator[HoldOut]:
        return (self[j] for j in range(len(self)))

    def __repr__(self) -> str:
        sizes = self.held_out.sizes
        if not sizes.size:
            return "<no experiments>"
        span = f"{sizes.min()}" if sizes.min() == sizes.max() else f"{sizes.min()}–{sizes.max()}"
        return f"<{len(self)} experiments, {span} rows held out in each>"

    def select(self, index: IntArray) -> Experiments:
        """Return the chosen experiments, in that order."""
        return Experiments(self.held_out.items(index), self.test.items(index))

    def check_rows(self, n_rows: int) -> None:
        """Raise unless all rows are among `n_rows` and every experiment leaves one to train on."""
        values, sizes = self.held_out.values, self.held_out.sizes
        outside = (values < 0) | (values >= n_rows)
        if outside.any():
            j = int(self.held_out.owners[np.argmax(outside)])
            row_numbers(f"held_out of experiment {j} of cv", self.held_out[j], n_rows)
        if (sizes >= n_rows).any():
            j = int(np.argmax(sizes >= n_rows))
            raise HoldOutError(
                f"experiment {j} of cv holds out every row (n_samples={n_rows}); leave at least "
                "one row to train on.",
                argument="cv",
            )


def leave_one_out(n_rows: int) -> Experiments:
    """Return the experiments that hold out each row once."""
    if n_rows < 2:
        raise HoldOutError(
            f"leave-one-out needs at least two rows; got n_samples={n_rows}. Pass more rows.",
            argument="cv",
        )
    singles = Ragged(np.arange(n_rows), np.arange(n_rows + 1))
    return Experiments(singles, singles)


def leave_group_out(groups: AnyArray) -> Experiments:
    """Return the experiments that hold out each group once, in sorted order of the groups."""
    _, code, count = np.unique(groups, return_inverse=True, return_counts=True)
    ptr = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    blocks = Ragged(np.argsort(code, kind="stable").astype(np.int64), ptr)
    return Experiments(blocks, blocks)
