"""Which rows count as one observation, and whether they may be drawn at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast._typing import AnyArray, BoolArray, FloatArray, IntArray
from holdfast.core.experiments import Experiments, Ragged
from holdfast.splitters.base import Splitter

__all__ = [
    "Units",
    "codes_of",
    "held_out_units",
    "overlapping",
    "steps_of",
    "units_of",
]

#: Neighbouring targets are alike if they correlate this many times more than in a random order.
ALIKE = 4.0


@dataclass(frozen=True, eq=False)
class Units:
    """What counts as one observation under the experiments of a fit.

    Attributes
    ----------
    code : ndarray of int, shape (m,)
        The unit of each row.
    name : {"rows", "groups", "blocks"}
    exchangeable : bool
        Whether random partitions of the units ask the question that the experiments ask. They do
        not where more is held out than tested (time, neighbourhoods, purged folds), nor for
        splitters that depend on the position of the rows.
    """

    code: IntArray
    name: str
    exchangeable: bool

    def freedom(self, rows: IntArray) -> int | None:
        """Return the degrees of freedom of a variance over the units of rows; None: very many."""
        return None if self.name == "rows" else int(np.unique(self.code[rows]).size) - 1


def codes_of(groups: AnyArray) -> IntArray:
    """Return the number of each row's group among the sorted labels."""
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)


def units_of(
    experiments: Experiments,
    cv: Any,
    groups: AnyArray | None,
    Y: FloatArray,
    weights: FloatArray,
    *,
    joint: bool = False,
) -> Units:
    """Return what counts as one observation, and whether units may be drawn at random.

    Groups (m,) are the units if every experiment holds out whole groups. `joint` says whether the
    rows that an experiment tests have one score together.

    Notes
    -----
    Where experiments hold out more than they test, or rows have a place (`cv` is a splitter that
    knows it, or makes folds of rows in order), blocks are the units: the rows that are tested
    together, or, where rows are tested one by one, sets that were held out around some of them.
    Those are chosen without overlap, and other rows join the set next to them.
    """
    m, used, test = weights.size, weights > 0, experiments.test
    code = held_out_units(experiments, groups, m, used)
    placed = isinstance(cv, Splitter) or (code is None and _in_order(test, Y[used]))
    held, tested = (
        np.bincount(sets.owners, weights=used[sets.values], minlength=len(sets))
        for sets in (experiments.held_out, test)
    )
    plain = not placed and bool((held == tested).all())
    count = np.bincount(test.values, minlength=m)
    exchangeable = plain and (bool(count[used].all()) or int(count.max()) > 1)
    if code is not None:
        return Units(code, "groups", exchangeable)
    several = bool((test.sizes > 1).any())
    if plain and not (joint and several):
        return Units(np.arange(m), "rows", exchangeable)
    return Units(_blocks(test if several else experiments.held_out, m), "blocks", exchangeable)


def held_out_units(
    experiments: Experiments, groups: AnyArray | None, m: int, used: BoolArray | None = None
) -> IntArray | None:
    """Return codes of the groups (m,) if every experiment holds out whole groups, else None.

    Only rows that are `used` (m,) count, if that is given.
    """
    if groups is None:
        return None
    code = codes_of(groups)
    counts = np.ones(m, dtype=bool) if used is None else used
    size = np.bincount(code, weights=counts)
    if (size <= 1).all():
        return None
    held = experiments.held_out.filter(counts[experiments.held_out.values])
    # One number for each (experiment, group): all rows of the group, or none, must be there.
    pairs, count = np.unique(held.owners * size.size + code[held.values], return_counts=True)
    return code if bool((count == size[pairs % size.size]).all()) else None


def _in_order(test: Ragged, Y: FloatArray) -> bool:
    """Whether folds are stretches of consecutive rows, and the order of the rows matters.

    Unshuffled folds of a series in time, or of a sorted table, hold out what lies together; random
    rows would have their neighbours among the training rows. Where rows are in no order, such folds
    are as good as random ones: the targets of neighbouring rows then correlate by about 1/√m.
    """
    if len(test) < 2 or (test.sizes < 2).any() or not _consecutive(test):
        return False  # one fixed test set has its rows only
    Z = Y / max(np.abs(Y).max(initial=0.0), np.finfo(float).tiny)
    Z = Z - Z.mean(axis=0)
    alike = (Z[:-1] * Z[1:]).sum(axis=0) * np.sqrt(len(Z))
    return bool((alike > ALIKE * np.square(Z).sum(axis=0)).any())


def steps_of(experiments: Experiments, cv: Any, m: int) -> IntArray | None:
    """Return the place in time of each row (m,) under these experiments, if rows have one.

    A splitter of the package knows it; what others hold out and test must be consecutive rows.
    """
    if isinstance(cv, Splitter):
        return cv.steps(m)
    in_order = _consecutive(experiments.held_out) and _consecutive(experiments.test)
    return np.arange(m) if in_order else None


def overlapping(experiments: Experiments, cv: Any) -> bool:
    """Whether sets that a user made by hand overlap: only the user knows why."""
    if cv is None or isinstance(cv, int | np.integer) or hasattr(cv, "split"):
        return False
    return bool((np.bincount(experiments.held_out.values) > 1).any())


def _consecutive(sets: Ragged) -> bool:
    """Whether each set is a stretch of consecutive rows."""
    low, high = (f.reduceat(sets.values, sets.ptr[:-1]) for f in (np.minimum, np.maximum))
    return bool((high - low + 1 == sets.sizes).all())


def _blocks(sets: Ragged, m: int) -> IntArray:
    """Return the block of each row: sets that do not overlap, and the rows that meet them."""
    code = np.full(m, -1, dtype=np.int64)
    rest = []
    for j in range(len(sets)):
        rows = sets[j]
        if (code[rows] < 0).all():
            code[rows] = j
        else:
            rest.append(j)
    for j in rest:
        rows = sets[j]
        code[rows[code[rows] < 0]] = code[rows].max()
    alone = np.flatnonzero(code < 0)
    code[alone] = len(sets) + np.arange(alone.size)
    return code
