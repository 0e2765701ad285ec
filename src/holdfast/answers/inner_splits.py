"""The experiments of a model's own `cv` on the rows that an outer experiment leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from holdfast._typing import AnyArray, IntArray
from holdfast.answers.question import split_rows
from holdfast.exceptions import HoldOutError
from holdfast.experiments import Experiments, Ragged, Splitter, as_experiments

__all__ = ["split_again"]


def split_again(
    cv: Any,
    experiments: Experiments,
    *,
    X: Any,
    labels: AnyArray,
    groups: AnyArray | None,
    classifier: bool,
) -> Callable[[IntArray], Experiments]:
    """Return a function from held-out rows to the experiments on the rows that are left.

    Parameters
    ----------
    cv : None, int, splitter or iterable
        As the model was given it. A splitter splits what is left; the experiments of anything else
        lose the held-out rows. So do those of most of `holdfast.splitters` (`Splitter.among`),
        which know the place of every row: what lies near a row, in space, time or a graph, does so
        whoever else has left.
    experiments : Experiments
        Those that `cv` stands for on all rows.
    X, labels, groups
        Of all rows; X may be None.
    classifier : bool
        Whether an integer means stratified folds.
    """
    m = labels.shape[0]
    splits = cv is None or isinstance(cv, int | np.integer) or hasattr(cv, "split")
    splits = splits and not isinstance(cv, Splitter)

    def again(held: IntArray) -> Experiments:
        left = split_rows(held, m)
        anew = cv.among(left) if isinstance(cv, Splitter) else cv if splits else None
        if splits or anew is not None:
            found = as_experiments(
                anew,
                left.size,
                X=None if X is None else X[left],
                y=labels[left],
                groups=None if groups is None else groups[left],
                classifier=classifier,
            )
            return Experiments(_numbered(found.held_out, left), _numbered(found.test, left))
        stays = np.zeros(m, dtype=bool)
        stays[left] = True
        out = experiments.held_out.filter(stays[experiments.held_out.values])
        test = experiments.test.filter(stays[experiments.test.values])
        some = np.flatnonzero(test.sizes > 0)
        if not some.size:
            raise HoldOutError(
                "an outer experiment of nested holds out every test row of cv, so nothing is left "
                "to choose a penalty by. Hold out fewer rows, or give the model a splitter as cv.",
                argument="cv",
            )
        return Experiments(out.items(some), test.items(some))

    return again


def _numbered(rows: Ragged, names: IntArray) -> Ragged:
    return Ragged(names[rows.values], rows.ptr)
