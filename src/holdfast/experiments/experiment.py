"""An experiment, rows held out and rows tested, and a sequence of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import IntArray
from holdfast.data.indices import row_numbers
from holdfast.exceptions import HoldOutError
from holdfast.experiments.ragged import Ragged


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
                "held out. Add it to held_out.",
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
    """A sequence of `HoldOut` experiments in compressed form.

    Behaves as a read-only sequence: ``len(e)``, ``e[j]`` and iteration give `HoldOut` objects, a
    slice gives `Experiments`.
    """

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
