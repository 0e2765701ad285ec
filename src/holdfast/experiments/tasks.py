"""Experiments after the policy for held-out basis rows: what the hold-out algebra works on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.exceptions import HoldOutError, NotSupportedError
from holdfast.experiments.experiment import Experiments
from holdfast.experiments.ragged import Ragged

Policy = Literal["remove", "keep", "train", "skip", "reselect"]
POLICIES: tuple[Policy, ...] = get_args(Policy)


class Shape(NamedTuple):
    """Tasks of one shape, stacked: row numbers H (b, h), T (b, t), basis positions E (b, e)."""

    index: IntArray  # type: ignore[assignment]  # hides tuple.index, which is not needed here
    H: IntArray
    E: IntArray
    T: IntArray
    out: IntArray  # (b, t): where the predictions of T go in the flat list of all test rows


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
        h, e, t = self.held.sizes, self.removed.sizes, self.test.sizes
        # One number for each combination of sizes: sorting numbers is much faster than triples.
        kinds = (h * (e.max() + 1) + e) * (t.max() + 1) + t
        _, first, code = np.unique(kinds, return_index=True, return_inverse=True)
        order = np.argsort(code, kind="stable")
        bounds = np.searchsorted(code[order], np.arange(first.size + 1))
        for kind, example in enumerate(first):
            index = order[bounds[kind] : bounds[kind + 1]]
            yield Shape(
                index,
                self.held.stack(index, h[example]),
                self.removed.stack(index, e[example]),
                self.test.stack(index, t[example]),
                self.test.ptr[index][:, None] + np.arange(t[example]),
            )

    def stacks(self, per_row: int, most: int) -> list[Shape]:
        """Return the groups of `shapes`, cut so that each holds no more than `most` numbers.

        A task counts `per_row` for each of its held and test rows; a stack has at least one task.
        """
        parts = []
        for shape in self.shapes():
            rows = max(1, shape.H.shape[1] + shape.T.shape[1])
            step = max(1, most // (rows * per_row))
            for start in range(0, len(shape.index), step):
                parts.append(Shape(*(array[start : start + step] for array in shape)))
        return parts


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
        Row numbers of the basis, from m on for vectors that are no rows; None for a dense model,
        where holding a row out and removing it from the basis are the same thing (representer
        theorem).
    policy : {"remove", "keep", "train", "skip", "reselect"}
        See Pahikkala et al. (2012) §6.2 and §6.4. "reselect" leaves the choice of basis rows to the
        caller.
    """
    n_rows = weights.size
    trained = weights > 0
    position = np.full(n_rows, -1)
    if basis is not None:
        inside = basis < n_rows  # numbers from there on are points, which are no rows
        position[basis[inside]] = np.flatnonzero(inside)
    elif policy in ("train", "skip"):
        raise NotSupportedError(
            f'held_out_basis="{policy}" needs a set of basis rows; this model is dense '
            "(basis=None), so every row is a basis row. Pass basis=..., or use "
            'held_out_basis="remove".'
        )
    held, test = experiments.held_out, experiments.test
    removed = Ragged.empty(len(experiments))
    source = np.arange(len(experiments))
    if policy == "remove" and basis is not None:
        leaving = held.filter(position[held.values] >= 0)
        removed = Ragged(position[leaving.values], leaving.ptr)
        if (removed.sizes >= basis.size).any():
            j = int(np.argmax(removed.sizes >= basis.size))
            raise HoldOutError(
                f"experiment {j} of cv holds out every basis row (all {basis.size}), so nothing "
                'is left to expand in. Use more basis rows or held_out_basis="keep".'
            )
    if policy in ("train", "skip"):
        held = held.filter(position[held.values] < 0)
    if policy == "skip":
        test = test.filter(position[test.values] < 0)
        source = np.flatnonzero(test.sizes > 0)
        if not source.size:
            raise HoldOutError(
                'held_out_basis="skip" leaves no test rows: every tested row is a basis row. Use '
                "fewer basis rows or another policy."
            )
        if source.size < len(experiments):
            held, test, removed = (ragged.items(source) for ragged in (held, test, removed))
    held = held.filter(trained[held.values])
    left = int(trained.sum()) - held.sizes
    if (left < 1).any():
        j = int(source[np.argmax(left < 1)])
        raise HoldOutError(
            f"experiment {j} of cv leaves no row with positive weight to train on. Hold out fewer "
            "rows or give the remaining rows a weight."
        )
    return Tasks(held, removed, test, source)
