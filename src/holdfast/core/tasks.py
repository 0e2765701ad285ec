"""Experiments after the policy for held-out basis rows: what the hold-out algebra works on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.core.experiments import Experiments, Ragged
from holdfast.exceptions import HoldOutError, NotSupportedError

Policy = Literal["remove", "keep", "train", "skip", "reselect"]
POLICIES: tuple[Policy, ...] = get_args(Policy)


class Shape(NamedTuple):
    """Tasks of one shape, stacked: row numbers H (b, h), T (b, t), basis positions E (b, e)."""

    index: IntArray  # type: ignore[assignment]  # hides tuple.index, which is not needed here
    H: IntArray
    E: IntArray
    T: IntArray
    out: IntArray  # (b, t): where the predictions of T go in the flat list of all test rows

    def cut(self, part: slice | BoolArray) -> Shape:
        """Return some of the tasks."""
        return Shape(*(array[part] for array in self))

    def stacks(self, per_row: int, most: int, per_removed: int = 0) -> list[Shape]:
        """Return the tasks in stacks that hold no more than `most` numbers, or one task.

        A task counts `per_row` for each of its held and test rows, and `per_removed` for each pair
        of such a row and a removed basis row.
        """
        rows = max(1, self.H.shape[1] + self.T.shape[1])
        step = max(1, most // (rows * (per_row + per_removed * self.E.shape[1])))
        return [self.cut(slice(i, i + step)) for i in range(0, len(self.index), step)]

    @property
    def same_rows(self) -> bool:
        """Whether the tasks test the rows that they hold out, in the same order."""
        return self.H.shape == self.T.shape and np.array_equal(self.H, self.T)

    @property
    def single_rows(self) -> bool:
        """Whether each task tests one row, and holds out that row alone or none."""
        h, e, t = self.H.shape[1], self.E.shape[1], self.T.shape[1]
        return t == 1 and (h == e == 0 or (h == 1 and e <= 1 and self.same_rows))


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

    def shapes(self) -> Iterator[Shape]:
        """Yield the tasks grouped by the sizes of their held, removed and test sets."""
        sets = self.held, self.removed, self.test
        h, e, t = (ragged.sizes for ragged in sets)
        # One number for each combination of sizes: sorting numbers is much faster than triples.
        kinds = (h * (e.max() + 1) + e) * (t.max() + 1) + t
        order = np.argsort(kinds, kind="stable")
        for index in np.split(order, np.flatnonzero(np.diff(kinds[order])) + 1):
            first = index[0]
            H, E, T = (ragged.stack(index, int(ragged.sizes[first])) for ragged in sets)
            out = self.test.ptr[index][:, None] + np.arange(t[first])
            yield Shape(index, H, E, T, out)


def affected(basis: IntArray | None, policy: Policy) -> IntArray:
    """Return the basis rows whose role changes when they are held out.

    Those of a dense model do not: it is expanded in every row, and holding a row out and removing
    it from the basis are the same thing (representer theorem).
    """
    none = np.empty(0, dtype=np.int64)
    if basis is not None:
        return none if policy in ("keep", "reselect") else basis
    if policy in ("train", "skip"):
        raise NotSupportedError(
            f'held_out_basis "{policy}" needs basis rows; this model is dense, so every row is '
            "one.",
            argument="held_out_basis",
            remedies=("basis",),
            advice='Pass basis=..., or use held_out_basis="remove".',
        )
    return none


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
                    "Use fewer basis rows or another policy.",
                    argument="held_out_basis",
                    remedies=("basis",),
                )
            held, test, removed = (ragged.items(source) for ragged in (held, test, removed))
    if not trained.all():
        held = held.filter(trained[held.values])
    left = int(trained.sum()) - held.sizes
    if (left < 1).any():
        j = int(source[np.argmax(left < 1)])
        raise HoldOutError(
            f"experiment {j} of cv leaves no row with positive weight to train on. Hold out fewer "
            "rows or give the remaining rows a weight.",
            argument="cv",
        )
    return Tasks(held, removed, test, source)


def _leaving(held: Ragged, position: IntArray, n_basis: int) -> Ragged:
    """Return the positions in the basis that leave with held-out rows."""
    leaving = held.filter(position[held.values] >= 0)
    if (leaving.sizes >= n_basis).any():
        j = int(np.argmax(leaving.sizes >= n_basis))
        raise HoldOutError(
            f"experiment {j} of cv holds out every basis row (all {n_basis}), so no basis is left.",
            argument="cv",
            remedies=("held_out_basis", "basis"),
            advice='Use more basis rows or held_out_basis="keep".',
        )
    return Ragged(position[leaving.values], leaving.ptr)
