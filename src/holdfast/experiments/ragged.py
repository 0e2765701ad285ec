"""Many index arrays of different lengths in two flat arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from holdfast._typing import BoolArray, IntArray


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
