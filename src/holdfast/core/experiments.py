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
from typing import Literal, NamedTuple, get_args, overload

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import AnyArray, BoolArray, FloatArray, IntArray
from holdfast.data.indices import row_numbers
from holdfast.exceptions import HoldOutError, NotSupportedError

#: What happens to basis rows that are held out.
Policy = Literal["remove", "keep", "train", "skip", "reselect"]
POLICIES: tuple[Policy, ...] = get_args(Policy)


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

    def stack(self, index: IntArray) -> tuple[IntArray, BoolArray | None]:
        """Return the chosen items as one array (len(index), size), and where it is padded.

        Items that are shorter than the longest repeat their last value; none of them may be empty,
        unless all are. None: they are of one length.
        """
        sizes, places = self.sizes[index], np.arange(int(self.sizes[index].max()))
        if (sizes == places.size).all():
            return self.values[self.ptr[index][:, None] + places], None
        inside = np.minimum(places, sizes[:, None] - 1)
        return self.values[self.ptr[index][:, None] + inside], places >= sizes[:, None]


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


# -- experiments after the policy: what the hold-out algebra works on ------------------------------


class Shape(NamedTuple):
    """Tasks of one shape, stacked: row numbers H (b, h), T (b, t), basis positions E (b, e).

    Tasks of about one shape are padded: where `spare` (b, h) is true, a row stands there again and
    does not count, and likewise a removed basis row where `spare_removed` (b, e) is.
    """

    index: IntArray  # type: ignore[assignment]  # hides tuple.index, which is not needed here
    H: IntArray
    E: IntArray
    T: IntArray
    out: IntArray  # (b, t): where the predictions of T go in the flat list of all test rows
    spare: BoolArray | None = None
    spare_removed: BoolArray | None = None

    def cut(self, part: slice | BoolArray) -> Shape:
        """Return some of the tasks."""
        parts = (None if array is None else array[part] for array in self)
        return Shape(*parts)  # type: ignore[arg-type]  # only the last two may be None

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

    @cached_property
    def test_is_held(self) -> bool:
        """Whether every task tests the rows that it holds out, in the same order."""
        held, test = self.held, self.test
        same = held is test or held.values is test.values
        return same or (
            np.array_equal(held.ptr, test.ptr) and np.array_equal(held.values, test.values)
        )

    def shapes(self, *, padded: bool = False) -> Iterator[Shape]:
        """Yield the tasks grouped by the sizes of their held, removed and test sets.

        With `padded`, tasks that test what they hold out are grouped by about these sizes: many
        groups of rows, each of a size of its own, become a few stacks.
        """
        h, e, t = self.held.sizes, self.removed.sizes, self.test.sizes
        padded = padded and self.test_is_held
        if padded:
            h, e = _rounded_up(h, 1.06), _rounded_up(e, 2.0)
            t = h
        # One number for each combination of sizes: sorting numbers is much faster than triples.
        code = (h * (e.max() + 1) + e) * (t.max() + 1) + t
        order = np.argsort(code, kind="stable")
        for index in np.split(order, np.flatnonzero(np.diff(code[order])) + 1):
            H, spare = self.held.stack(index)
            E, spare_removed = self.removed.stack(index)
            T = H if padded else self.test.stack(index)[0]
            out = self.test.ptr[index][:, None] + np.arange(T.shape[1])
            yield Shape(index, H, E, T, out, spare, spare_removed)


def _rounded_up(sizes: IntArray, ratio: float) -> IntArray:
    """Return sizes rounded up to powers of a ratio; zero stays zero."""
    most = int(sizes.max(initial=0))
    powers = np.ceil(ratio ** np.arange(np.log(max(most, 1)) / np.log(ratio) + 2.0))
    ladder = np.unique(np.append(0, powers.astype(np.int64)))
    return ladder[np.searchsorted(ladder, sizes)]


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
    if basis is None and policy in ("train", "skip"):
        raise NotSupportedError(
            f'held_out_basis "{policy}" needs basis rows; this model is dense, so every row is '
            "one.",
            argument="held_out_basis",
            remedies=("basis",),
            advice='Pass basis=..., or use held_out_basis="remove".',
        )
    # A dense model is expanded in every row, and holding a row out and removing it from the basis
    # are the same thing (representer theorem).
    trained, concerned = weights > 0, None if policy in ("keep", "reselect") else basis
    held, test = experiments.held_out, experiments.test
    removed = Ragged.empty(len(experiments))
    source = np.arange(len(experiments))
    if concerned is not None and concerned.size:
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
