"""Everything that is called cross-validation, as a sequence of experiments."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import LeaveOneGroupOut, LeaveOneOut

from holdfast._typing import AnyArray
from holdfast.exceptions import HoldOutError
from holdfast.experiments.experiment import Experiments
from holdfast.experiments.ragged import Ragged
from holdfast.experiments.splits import check_groups, held_and_tested
from holdfast.experiments.splitter import Splitter


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
        splitter, or one of `holdfast.splitters`. An iterable of (train, test) index pairs, where
        every row that is not in train is held out, or of `HoldOut` objects; or `Experiments`.
    n_rows : int
        Number of rows of the data.
    X, y : optional
        Passed to the splitter.
    groups : array-like of shape (n_rows,), optional
        Passed to the splitter.
    classifier : bool
        Whether an integer `cv` means stratified folds.

    Notes
    -----
    Leave-one-out, leave-one-group-out and the splitters of `holdfast.splitters` never go through
    scikit-learn's `split`, whose training indices would cost O(n_rows²).
    """
    labels = None if groups is None else check_groups(groups, n_rows)
    if isinstance(cv, Experiments):
        experiments = cv
    elif isinstance(cv, Splitter):
        experiments = cv.experiments(n_rows)
    elif cv is None or isinstance(cv, LeaveOneOut):
        experiments = leave_one_out(n_rows)
    elif isinstance(cv, LeaveOneGroupOut) and labels is not None:
        experiments = leave_group_out(labels)
    else:
        held, tested = held_and_tested(cv, n_rows, X, y, labels, classifier)
        experiments = Experiments(Ragged.from_arrays(held), Ragged.from_arrays(tested))
    experiments.check_rows(n_rows)
    return experiments
