"""Permutations of targets that do not change their distribution if X says nothing about y."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from holdfast._typing import AnyArray, BoolArray, IntArray
from holdfast.exceptions import InvalidInputError

__all__ = ["Shuffle"]


@dataclass(frozen=True, eq=False)
class Shuffle:
    """Units that change places, each with others of its own kind.

    Attributes
    ----------
    rows : ndarray of int, shape (k,)
        Rows that take part, unit by unit.
    start, size : ndarray of int, shape (u,)
        Where the rows of a unit start, and how many there are.
    kind : ndarray of int, shape (u,)
        Units of one kind change places.
    whole : bool
        Whether a unit hands over its rows in their order; else its first row stands for all.
    n_rows : int
        Rows of the data; those that take no part keep their targets.
    seed : int
    """

    rows: IntArray
    start: IntArray
    size: IntArray
    kind: IntArray
    whole: bool
    n_rows: int
    seed: int

    @classmethod
    def of(
        cls,
        Y: AnyArray,
        trained: BoolArray,
        within: AnyArray | None,
        groups: AnyArray | None,
        seed: int,
    ) -> Shuffle:
        """Return the permutations of rows, or of whole groups, inside the strata `within`.

        Parameters
        ----------
        Y : ndarray of shape (m, v)
            Targets: where they are constant in every group, groups of any size change places.
        trained : ndarray of bool, shape (m,)
            Rows that take part.
        within, groups : ndarray of shape (m,), or None
        seed : int
        """
        m, rows = len(trained), np.flatnonzero(trained)
        stratum = np.zeros(m, dtype=np.int64)
        if within is not None:
            stratum = np.unique(within, return_inverse=True)[1].astype(np.int64)
        if groups is None:
            one = np.ones(rows.size, dtype=np.int64)
            made = cls(rows, np.arange(rows.size), one, stratum[rows], True, m, seed)
        else:
            made = cls._of_groups(Y, rows, stratum, groups, m, seed)
        if np.bincount(made.kind).max(initial=0) < 2:
            units = "rows" if groups is None else "groups of one size"
            raise InvalidInputError(
                f"nothing can be permuted: no two {units} with positive weight share a label of "
                "`within`. Use coarser labels.",
                argument="within",
            )
        return made

    @classmethod
    def _of_groups(
        cls, Y: AnyArray, rows: IntArray, stratum: IntArray, groups: AnyArray, m: int, seed: int
    ) -> Shuffle:
        code = np.unique(groups[rows], return_inverse=True)[1]
        order = np.argsort(code, kind="stable")
        rows, size = rows[order], np.bincount(code)
        start = np.concatenate([[0], np.cumsum(size)[:-1]]).astype(np.int64)
        first = np.repeat(rows[start], size)
        mixed = stratum[rows] != stratum[first]
        if mixed.any():
            raise InvalidInputError(
                "whole groups change places within a label of `within`, so each group must have "
                f"one such label; the group of row {int(first[mixed][0])} "
                "has several. Leave `within` or `groups` out.",
                argument="within",
            )
        constant = bool((Y[rows] == Y[first]).all())
        kinds = np.column_stack([stratum[rows[start]], np.zeros_like(size) if constant else size])
        kind = np.unique(kinds, axis=0, return_inverse=True)[1].ravel().astype(np.int64)
        return cls(rows, start, size, kind, not constant, m, seed)

    @cached_property
    def _by_kind(self) -> IntArray:
        return np.argsort(self.kind, kind="stable")

    def order(self, number: int) -> IntArray:
        """Return which row's target each row gets in one of the permutations, shape (m,)."""
        rng = np.random.default_rng([self.seed, number])
        taken = np.empty_like(self.kind)
        taken[self._by_kind] = np.argsort(self.kind + rng.random(self.kind.size))
        order = np.arange(self.n_rows)
        if self.whole:
            inside = np.arange(self.rows.size) - np.repeat(self.start, self.size)
            order[self.rows] = self.rows[np.repeat(self.start[taken], self.size) + inside]
        else:
            order[self.rows] = self.rows[np.repeat(self.start[taken], self.size)]
        return order
