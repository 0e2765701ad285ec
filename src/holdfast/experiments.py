"""What an experiment is: rows held out, rows tested, and what becomes of basis rows.

Paper 000 (6)–(7): a cross-validation estimate is a sequence of experiments. Each holds out
some rows, trains on the others and predicts the test rows, which are a part of the held-out rows.
Everything people call cross-validation is such a sequence (`as_experiments`). What happens to
basis rows among the held-out rows is a policy (`resolve`), which turns experiments into `Tasks`:
which rows leave the training set, which leave the basis, which are predicted.

Millions of experiments (leave-one-out) are common, so all of them live in a few flat arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import LeaveOneGroupOut, LeaveOneOut

from holdfast.exceptions import HoldOutError, NotSupportedError
from holdfast.splits import check_groups, held_and_tested, row_numbers

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
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
    def empty(cls, length: int) -> Ragged:
        """Return `length` empty items."""
        return cls(np.empty(0, dtype=np.int64), np.zeros(length + 1, dtype=np.int64))

    def __len__(self) -> int:
        return self.ptr.size - 1

    def __getitem__(self, j: int) -> IntArray:
        return self.values[self.ptr[j] : self.ptr[j + 1]]

    @property
    def sizes(self) -> IntArray:
        """Length of each item."""
        return np.diff(self.ptr)

    @property
    def owners(self) -> IntArray:
        """For each stored value, the item that it belongs to."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def filter(self, mask: BoolArray) -> Ragged:
        """Return the same items with only the values where `mask` (one flag per value) is true."""
        kept = np.concatenate([[0], np.cumsum(mask)]).astype(np.int64)
        return Ragged(self.values[mask], kept[self.ptr])

    def items(self, index: IntArray) -> Ragged:
        """Return the chosen items, in that order."""
        sizes = self.sizes[index]
        ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        shift = np.repeat(self.ptr[index] - ptr[:-1], sizes)
        return Ragged(self.values[np.arange(ptr[-1]) + shift], ptr)

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
                f"{held.size} held-out and {tested.size} test rows."
            )
        if not np.isin(tested, held).all():
            outside = tested[~np.isin(tested, held)][0]
            raise HoldOutError(
                f"test rows must be a part of the held-out rows; row {outside} is tested but not "
                "held out. Add it to held_out."
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
    """A sequence of `HoldOut` experiments in compressed form.

    Behaves as a read-only sequence: ``len(e)``, ``e[j]`` and iteration give `HoldOut` objects.
    """

    held_out: Ragged
    test: Ragged

    def __len__(self) -> int:
        return len(self.held_out)

    def __getitem__(self, j: int) -> HoldOut:
        if not -len(self) <= j < len(self):
            raise IndexError(f"experiment {j} of {len(self)}")
        j %= len(self)
        return HoldOut(self.held_out[j], self.test[j])

    def __iter__(self) -> Iterator[HoldOut]:
        return (self[j] for j in range(len(self)))

    def __repr__(self) -> str:
        sizes = self.held_out.sizes
        span = f"{sizes.min()}" if sizes.min() == sizes.max() else f"{sizes.min()}–{sizes.max()}"
        return f"<{len(self)} experiments, {span} rows held out in each>"

    def select(self, index: IntArray) -> Experiments:
        """Return the chosen experiments, in that order."""
        return Experiments(self.held_out.items(index), self.test.items(index))


def leave_one_out(n_rows: int) -> Experiments:
    """Return the experiments that hold out each row once."""
    if n_rows < 2:
        raise HoldOutError(
            f"leave-one-out needs at least two rows; got n_samples={n_rows}. Pass more rows."
        )
    singles = Ragged(np.arange(n_rows), np.arange(n_rows + 1))
    return Experiments(singles, singles)


def leave_group_out(groups: NDArray[Any]) -> Experiments:
    """Return the experiments that hold out each group once, in sorted order of the groups."""
    _, code, count = np.unique(groups, return_inverse=True, return_counts=True)
    ptr = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    blocks = Ragged(np.argsort(code, kind="stable").astype(np.int64), ptr)
    return Experiments(blocks, blocks)


def as_experiments(
    cv: Any,
    n_rows: int,
    *,
    X: Any = None,
    y: Any = None,
    groups: ArrayLike | None = None,
    classifier: bool = False,
) -> Experiments:
    """Return the experiments that `cv` stands for, checked against the number of rows.

    Parameters
    ----------
    cv : None, int, splitter, or iterable
        None: leave-one-out. int: that many folds (stratified for a classifier). Any scikit-learn
        splitter. An iterable of (train, test) index pairs, where all that is not in train is held
        out, or of `HoldOut` objects; or `Experiments`.
    n_rows : int
        Number of rows of the data.
    X, y : optional
        Handed to the splitter.
    groups : array-like of shape (n_rows,), optional
        Handed to the splitter.
    classifier : bool
        Whether an integer `cv` means stratified folds.

    Notes
    -----
    Leave-one-out and leave-one-group-out never go through scikit-learn's `split`, whose training
    indices would cost O(n_rows²).
    """
    labels = None if groups is None else check_groups(groups, n_rows)
    if isinstance(cv, Experiments):
        experiments = cv
    elif cv is None or isinstance(cv, LeaveOneOut):
        experiments = leave_one_out(n_rows)
    elif isinstance(cv, LeaveOneGroupOut) and labels is not None:
        experiments = leave_group_out(labels)
    else:
        held, tested = held_and_tested(cv, n_rows, X, y, labels, classifier)
        experiments = Experiments(Ragged.from_arrays(held), Ragged.from_arrays(tested))
    _check_rows(experiments, n_rows)
    return experiments


def _check_rows(experiments: Experiments, n_rows: int) -> None:
    values, sizes = experiments.held_out.values, experiments.held_out.sizes
    if values.size and values.max() >= n_rows:
        j = int(experiments.held_out.owners[np.argmax(values)])
        row_numbers(f"held_out of experiment {j} of cv", experiments.held_out[j], n_rows)
    if (sizes >= n_rows).any():
        j = int(np.argmax(sizes >= n_rows))
        raise HoldOutError(
            f"experiment {j} of cv holds out every row (n_samples={n_rows}); leave at least one "
            "row to train on."
        )


class Shape(NamedTuple):
    """Tasks of one shape, stacked: row numbers H (b, h), T (b, t), basis positions E (b, e)."""

    index: IntArray  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
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
        Rows that leave the training set; only rows that have weight.
    removed : Ragged
        Positions in the basis that leave the basis.
    test : Ragged
        Rows to predict.
    source : ndarray of int
        For each task, the experiment it came from (experiments without test rows have no task).
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
    weights: NDArray[np.float64],
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
        Row numbers of the basis; None for a dense model, where holding a row out and removing it
        from the basis are the same thing (representer theorem).
    policy : {"remove", "keep", "train", "skip", "reselect"}
        See paper 000 §6.2 and §6.4. "reselect" leaves the choice of basis rows to the caller.
    """
    n_rows = weights.size
    trained = weights > 0
    position = np.full(n_rows, -1)
    if basis is not None:
        position[basis] = np.arange(basis.size)
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
        inside = held.filter(position[held.values] >= 0)
        removed = Ragged(position[inside.values], inside.ptr)
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
