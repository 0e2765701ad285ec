"""Everything that is called cross-validation, as a sequence of experiments.

From None, a number, a splitter or an iterable of splits to the rows that are held out and tested.
Row numbers and group labels are checked here, once, with messages that name the split.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import LeaveOneGroupOut, LeaveOneOut, check_cv

from holdfast._typing import IntArray
from holdfast.core.experiments import Experiments, Ragged, leave_group_out, leave_one_out
from holdfast.data.indices import row_numbers
from holdfast.data.values import check_labels
from holdfast.exceptions import HoldOutError, InvalidInputError
from holdfast.splitters.base import Splitter

__all__ = ["as_experiments", "check_groups", "held_and_tested"]


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
    Leave-one-out, leave-one-group-out, a number of folds and the splitters of `holdfast.splitters`
    never go through scikit-learn's `split`, whose training indices would cost O(n_rows²).
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
    elif isinstance(cv, int | np.integer) and not classifier and 2 <= cv <= n_rows:
        sizes = np.full(cv, n_rows // cv)  # as KFold
        sizes[: n_rows % cv] += 1
        experiments = leave_group_out(np.repeat(np.arange(cv), sizes))
    else:
        held, tested = held_and_tested(cv, n_rows, X, y, labels, classifier)
        experiments = Experiments(Ragged.from_arrays(held), Ragged.from_arrays(tested))
    experiments.check_rows(n_rows)
    return experiments


def check_groups(groups: ArrayLike, n_rows: int) -> NDArray[Any]:
    """Return group labels as an array with one comparable, known label per row."""
    return check_labels("groups", groups, n_rows)


def held_and_tested(
    cv: Any,
    n_rows: int,
    X: Any,
    y: Any,
    groups: NDArray[Any] | None,
    classifier: bool,
) -> tuple[list[IntArray], list[IntArray]]:
    """Return the held-out rows and the test rows of each experiment of `cv`.

    Parameters
    ----------
    cv : int, splitter or iterable
        An iterable yields (train, test) pairs, where every row that is not in train is held out,
        or objects with `held_out` and `test`.
    n_rows : int
    X, y, groups
        Passed to a splitter.
    classifier : bool
        Whether an integer means stratified folds.
    """
    splits: Iterable[Any] | None
    if isinstance(cv, str | bytes):
        splits = None
    elif hasattr(cv, "split") or isinstance(cv, int | np.integer):
        splits = _splits(cv, n_rows, X, y, groups, classifier)
    else:
        splits = cv if isinstance(cv, Iterable) else None
    if splits is None:
        raise InvalidInputError(
            "cv must be None (leave-one-out), a number of folds, a scikit-learn splitter, or an "
            f"iterable of (train, test) pairs or HoldOut objects; got {cv!r}.",
            argument="cv",
        )
    held: list[IntArray] = []
    tested: list[IntArray] = []
    for j, item in enumerate(splits):
        H, T = _experiment(j, item, n_rows)
        held.append(H)
        tested.append(T)
    if not held:
        raise HoldOutError(
            "cv must yield at least one experiment; got none (an iterator yields its splits only "
            "once: pass a list).",
            argument="cv",
        )
    return held, tested


def _splits(
    cv: Any, n_rows: int, X: Any, y: Any, groups: NDArray[Any] | None, classifier: bool
) -> Iterator[Any]:
    """Yield the (train, test) pairs of a splitter one at a time: all of them may take O(m²)."""
    if isinstance(cv, int | np.integer) and not 2 <= cv <= n_rows:
        raise HoldOutError(
            f"cv as a number of folds must lie between 2 and the number of rows ({n_rows}, "
            f"n_samples={n_rows}); got {cv}. Pass more rows or fewer folds.",
            argument="cv",
        )
    splitter = check_cv(cv, y, classifier=classifier)
    rows = np.zeros((n_rows, 1)) if X is None else X
    try:
        with warnings.catch_warnings():
            # Groups may be meant for the basis or for a later question; not every split uses them.
            warnings.filterwarnings("ignore", message="The groups parameter is ignored")
            yield from splitter.split(rows, y, groups)
    except (ValueError, TypeError) as error:
        advice = ""
        if groups is None and "groups" in str(error):
            advice = " Pass groups, one label per row."
        raise HoldOutError(
            f"cv={cv!r} cannot split these rows: {error}{advice}", argument="cv"
        ) from error


def _experiment(j: int, item: Any, n_rows: int) -> tuple[IntArray, IntArray]:
    """Return the held-out and the test rows of one item of cv."""
    if hasattr(item, "held_out") and hasattr(item, "test"):  # a HoldOut, checked when it was made
        return item.held_out, item.test
    try:
        train, test = item
    except (TypeError, ValueError):
        raise InvalidInputError(
            "cv must yield (train, test) pairs of row numbers or HoldOut objects; item "
            f"{j} is {type(item).__name__}.",
            argument="cv",
        ) from None
    train = row_numbers(f"train of experiment {j} of cv", train, n_rows)
    test = row_numbers(f"test of experiment {j} of cv", test, n_rows)
    if not test.size:
        raise HoldOutError(
            f"experiment {j} of cv must have at least one test row; got none. Leave it out.",
            argument="cv",
        )
    out = np.ones(n_rows, dtype=bool)
    out[train] = False
    if not out[test].all():
        raise HoldOutError(
            f"experiment {j} of cv trains on a row that it tests (row "
            f"{test[~out[test]][0]}); make train and test disjoint.",
            argument="cv",
        )
    return np.flatnonzero(out), test
