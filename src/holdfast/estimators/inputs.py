"""From what a user passes to checked arrays, or to an error in a clear sentence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from mmap import mmap
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.gaussian_process import kernels as gp
from sklearn.utils._param_validation import validate_parameter_constraints
from sklearn.utils.validation import check_array, validate_data

from holdfast._typing import FloatArray
from holdfast.answers.training import TrainingData
from holdfast.basis.resolve import as_selector
from holdfast.data.dask import as_dask_rows, is_dask, local
from holdfast.data.rows import as_rows
from holdfast.data.values import (
    LARGEST,
    SMALLEST,
    refuse_large,
    require_numbers,
    warn_of_small,
)
from holdfast.exceptions import (
    HoldfastError,
    HoldfastWarning,
    InputTypeError,
    InvalidInputError,
    NotSupportedError,
    warn,
)
from holdfast.kernels import Kernel, Linear, Precomputed
from holdfast.kernels.smoothers import is_primal
from holdfast.scores.metric import Metric

#: Types of numbers that are used as they are.
FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
#: The largest size of a target.
LARGEST_TARGET = 1e75
#: The largest ratio of two positive weights: beyond it the lighter row is lost to rounding.
WIDEST_WEIGHTS = 1e12


@contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Leave an estimator as it was if the block raises, so that bad input changes nothing."""
    before = estimator.__dict__.copy()
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise


@contextmanager
def refusals(name: str | None = None) -> Iterator[None]:
    """Raise scikit-learn's refusals as `InvalidInputError`, with the name of the argument.

    A TypeError stays one, as `InputTypeError`: scikit-learn's checks ask for it.
    """
    try:
        yield
    except HoldfastError:
        raise
    except ValueError as error:
        text = " ".join(str(error).split())
        if name is not None:
            text = _clearer(name, text)
        elif found := re.match(r"The '(\w+)' parameter of ", text):  # of _validate_params
            name = found[1]
        raise InvalidInputError(text, argument=name) from error
    except TypeError as error:
        text = " ".join(str(error).split())
        raise InputTypeError(
            f"{name or 'an argument'} cannot be used: {text}. Pass an array or a list of numbers.",
            argument=name,
        ) from error


def check_parameters(estimator: Any, parameters: Mapping[str, Any]) -> None:
    """Refuse parameters without a meaning, by the table of the class; defaults need no check."""
    constraints, defaults = estimator._parameter_constraints, _defaults(estimator.__class__)
    passed = {
        name: value
        for name, value in parameters.items()
        if name in constraints and value is not defaults.get(name, constraints)
    }
    if passed:
        with refusals():
            validate_parameter_constraints(constraints, passed, type(estimator).__name__)


@cache
def _defaults(kind: Any) -> dict[str, Any]:
    """Return the parameters of a class of estimators with their defaults."""
    return {one.name: one.default for one in fields(kind)}


def _clearer(name: str, text: str) -> str:
    """Return scikit-learn's sentence with the argument's name and without the data themselves."""
    if "could not convert" in text:
        return f"{name} must hold numbers; {text}. Encode text as numbers first."
    if text.startswith("Complex data not supported"):
        return (
            f"{name} must be real; got complex numbers. Complex data not supported: pass real and "
            "imaginary parts by themselves."
        )
    if text.startswith("Expected 2D array, got 1D array"):
        return (
            f"{name} must be two-dimensional, rows by features; got one dimension. Reshape your "
            f"data: {name}.reshape(-1, 1) for one feature, {name}.reshape(1, -1) for one row."
        )
    return text if name in text.split() else f"{name} cannot be used: {text}"


def check_rows(estimator: Any, X: Any, kernel: Any, *, reset: bool) -> Any:
    """Return X as a checked 2-D array or CSR matrix, or as rows of arbitrary objects.

    Parameters
    ----------
    estimator : estimator
        Learns or checks ``n_features_in_`` and ``feature_names_in_``.
    X : array-like, frame, sparse matrix, or sequence of objects
    kernel : kernel, or several, as passed
        A function may take rows of any kind.
    reset : bool
        True in fit, False in predict.
    """
    if type(X) is np.ndarray and X.ndim == 2 and X.dtype in FLOATS and X.size:
        # The usual case, in which scikit-learn's checks would find nothing else.
        named = hasattr(estimator, "feature_names_in_")
        if reset or (X.shape[1] == estimator.n_features_in_ and not named):
            size = require_finite("X", X)
            if reset:
                if 0.0 < size < SMALLEST and not estimator._pairwise:
                    warn_of_small("X", size)
                estimator.n_features_in_ = X.shape[1]
                if named:
                    del estimator.feature_names_in_
            return X
    if is_dask(X):
        return _check_dask(estimator, X, reset=reset)
    if takes_objects(kernel) and not (sp.issparse(X) or hasattr(X, "columns")):
        rows = as_rows(X)
        if rows.ndim == 1 or rows.dtype.kind not in "biuf":
            return _objects(estimator, rows, reset)
    _require_unique_names(X)
    X = require_numbers("X", X)
    with refusals("X"):
        rows = check_array(
            X,
            accept_sparse="csr",
            dtype=(np.float64, np.float32),
            ensure_all_finite=False,
            estimator=estimator,
            input_name="X",
        )
        size = require_finite("X", rows)
        if reset and 0.0 < size < SMALLEST and not estimator._pairwise:
            warn_of_small("X", size)
        validate_data(estimator, X, reset=reset, skip_check_array=True)  # width and names
    return rows


def _require_unique_names(X: Any) -> None:
    counts = Counter(str(name) for name in getattr(X, "columns", ()))
    twice = next((name for name, count in counts.items() if count > 1), None)
    if twice is not None:
        raise InvalidInputError(
            f"X must have unique column names; got {twice!r} more than once. Rename or drop one.",
            argument="X",
        )


def _check_dask(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Return Dask rows after the same checks of width and names as for other input."""
    names = np.asarray(getattr(X, "columns", ()), dtype=object)
    with refusals("X"):
        rows = as_dask_rows(X, check=reset)
    sample: Any = np.zeros((1, rows.shape[1]))
    if names.size:
        import pandas as pd  # a Dask frame cannot exist without pandas

        sample = pd.DataFrame(sample, columns=names)
    with refusals("X"):
        validate_data(estimator, sample, reset=reset)
    return rows


def _objects(estimator: Any, rows: Any, reset: bool) -> Any:
    if rows.shape[0] == 0:
        raise InvalidInputError(
            "X must hold at least one row; got none. Pass the training rows.", argument="X"
        )
    if reset:  # what an earlier fit on a table left behind
        for name in ("n_features_in_", "feature_names_in_"):
            vars(estimator).pop(name, None)
    return rows


def require_finite(name: str, X: Any) -> float:
    """Return the largest size of a value.

    NaN and infinite values, and those that square to such, are refused.
    """
    values: NDArray[Any] = X if isinstance(X, np.ndarray) else X.data
    if not values.size:
        return 0.0
    low, high = float(values.min()), float(values.max())  # needs no boolean array of X's size
    size = max(-low, high)
    if size <= LARGEST:  # nan compares false
        return size
    if np.isfinite(low) and np.isfinite(high):
        refuse_large(name, low, high)
    bad = ~np.isfinite(values)
    count = int(bad.sum())
    first = int(np.argmax(bad.ravel()))
    if sp.issparse(X):
        row = int(np.searchsorted(X.indptr, first, side="right")) - 1
    else:
        row = first // (values.size // values.shape[0])
    nans = int(np.isnan(values).sum())
    raise InvalidInputError(
        f"{name} must be finite; got {nans} NaN and {count - nans} infinite values, the first in "
        f"row {row}. Fill them in or leave those rows out.",
        argument=name,
    )


def check_targets(y: Any, n_rows: int) -> tuple[FloatArray, bool]:
    """Return regression targets as (m, v) float64, and whether y was one-dimensional."""
    if type(y) is not np.ndarray or y.dtype not in FLOATS or y.ndim not in (1, 2):
        y = _numeric_targets(y)
    if y.shape[:1] != (n_rows,):
        check_length("y", y, n_rows)
    flat = y.ndim == 1
    if not flat and y.shape[1] == 0:
        raise InvalidInputError("y must hold at least one target; got 0 columns.", argument="y")
    size = require_finite("y", y)
    if not (size == 0.0 or 1.0 / LARGEST_TARGET <= size <= LARGEST_TARGET):
        raise InvalidInputError(
            f"y must reach between {1.0 / LARGEST_TARGET:g} and {LARGEST_TARGET:g} in size; got "
            f"{size:.3g}. Divide y by {size:.0e}.",
            argument="y",
        )
    return np.array(y[:, None] if flat else y, dtype=np.float64, order="C"), flat


def _numeric_targets(y: Any) -> FloatArray:
    """Return targets in whatever form as numbers."""
    y = local(y)
    if y is None:
        raise InvalidInputError(
            "requires y to be passed, but the target y is None: pass one value per row.",
            argument="y",
        )
    y = require_numbers("y", y)
    with refusals("y"):
        found = check_array(
            y,
            ensure_2d=False,
            dtype=np.float64,
            input_name="y",
            ensure_all_finite=False,
            ensure_min_samples=0,
        )
    return np.asarray(found)


def warn_of_constant(Y: FloatArray) -> None:
    """Warn that targets do not vary."""
    values = f"every value is {Y[0, 0]:g}" if Y.shape[1] == 1 else "every row is the same"
    warn(
        f"y does not vary over the rows: {values}, so there is nothing to learn and no penalty "
        "is better than another. The model is that constant.",
        HoldfastWarning,
        argument="y",
    )


def check_length(name: str, values: NDArray[Any], n_rows: int) -> None:
    """Refuse values that are not one for each row of X."""
    if values.ndim == 0 or values.shape[0] != n_rows:
        got = values.shape[0] if values.ndim else "a single value"
        raise InvalidInputError(
            f"{name} must hold one value for each of the {n_rows} rows of X; got {got}. Pass X "
            f"and {name} with the rows in the same order.",
            argument=name,
        )


def check_weights(sample_weight: Any, n_rows: int) -> FloatArray:
    """Return row weights (m,), finite and not negative, not all zero."""
    sample_weight = require_numbers("sample_weight", sample_weight)
    try:
        weights = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"sample_weight must hold numbers, one per row; got {type(sample_weight).__name__} "
            f"({error}). Pass one number for each row of X.",
            argument="sample_weight",
        ) from None
    fault = _fault(weights, n_rows)
    if fault is not None:
        raise InvalidInputError(fault, argument="sample_weight")
    return np.full(n_rows, float(weights)) if weights.ndim == 0 else weights


def _fault(weights: FloatArray, n_rows: int) -> str | None:
    """Return what is wrong with row weights."""
    if weights.shape not in ((), (n_rows,)):
        return (
            f"sample_weight must hold one number per row, shape ({n_rows},); got shape "
            f"{weights.shape}. Sample weights must be 1D array or scalar."
        )
    if not np.isfinite(weights).all():
        return (
            f"sample_weight must be finite; got {int((~np.isfinite(weights)).sum())} values that "
            "are NaN or infinite. Use 0 for rows that must not be trained on."
        )
    if weights.min() < 0:
        return (
            f"sample_weight must not be negative; got {weights.min():g}. Use 0 for rows that must "
            "not be trained on."
        )
    most = float(weights.max())
    refuse_large("sample_weight", 0.0, most)
    if most == 0:
        return (
            "sample_weight must be positive for some rows; got zero for every row. Give the rows "
            "to train on a weight."
        )
    least = float(weights[weights > 0].min())
    if most > WIDEST_WEIGHTS * least:
        return (
            "sample_weight must lie within 12 decades where it is positive; got weights from "
            f"{least:.3g} to {most:.3g}. Give rows that should hardly count the weight 0."
        )
    return None


def own_rows(X: Any, rows: Any, room: float) -> Any:
    """Return rows that no one else can overwrite: a copy, if they are the user's own array.

    Parameters
    ----------
    X : what the user passed
    rows : array or CSR matrix
        The same, checked.
    room : float
        Bytes that a copy may take. Rows that take more, and rows on disk, are kept as they are.
    """
    if sp.issparse(rows):
        if rows.data.nbytes + rows.indices.nbytes > room or not sp.issparse(X):
            return rows
        shared = np.shares_memory(rows.data, getattr(X, "data", None))
        return rows.copy() if shared else rows
    if not isinstance(rows, np.ndarray) or rows.nbytes > room:
        return rows
    if rows is X and rows.base is None:
        return rows.copy()
    if is_mapped(rows):
        return rows
    source = X if isinstance(X, np.ndarray) else None
    if source is None and hasattr(X, "__array__"):
        source = np.asarray(X)  # a frame of one type is a view of its numbers
    shared = source is not None and np.may_share_memory(rows, source)
    return rows.copy() if shared else rows


def warn_of_groups(training: TrainingData, scoring: Metric) -> None:
    """Warn if rows of one group are on both sides of leave-one-out, and groups do nothing."""
    groups, m = training.groups, training.weights.size
    if groups is None or np.unique(groups).size == m or scoring.takes_groups:
        return
    selector = as_selector(training.basis, m)
    if selector is not None and "groups" in selector.needs:
        return
    warn(
        "groups were given without cv, so rows are left out one by one while the others of their "
        "group are trained on: the score is optimistic if rows of a group are alike.",
        HoldfastWarning,
        argument="groups",
        remedies=("cv",),
        advice="Pass cv=LeaveOneGroupOut(), or cv=LeaveOneOut() if you mean that.",
    )


#: A dense model of more rows than this takes minutes.
DENSE_ROWS = 5000
#: Numbers of basis rows to choose from. Steps this coarse give the same number on a machine whose
#: free memory is a little different today.
NUMBERS = (2000, 1000, 500, 200, 100)


def automatic_basis(kernels: Iterable[Kernel | Precomputed], X: Any, memory: float) -> int | None:
    """Return the number of basis rows, or None if the model of all rows is small enough.

    Parameters
    ----------
    kernels : iterable of kernels
        That are compared.
    X : rows
    memory : float
        Bytes that the model may take.

    Notes
    -----
    A linear kernel in fewer columns than rows needs no basis, and a precomputed kernel is in memory
    already. Two m × n matrices of the basis rows fit into memory.
    """
    m = int(X.shape[0])
    if is_dask(X):
        return min(m, _number(m, memory))
    if all(isinstance(kernel, Precomputed) or is_primal(kernel, X) for kernel in kernels):
        return None
    if m <= DENSE_ROWS and 16.0 * m**2 <= memory:
        return None
    return min(m, _number(m, memory))


def _number(m: int, memory: float) -> int:
    return next((n for n in NUMBERS if 16.0 * m * n <= memory), NUMBERS[-1])


def told_basis(basis: int | None, m: int) -> str:
    """Return in words what was chosen."""
    if basis is None:
        return "none: all rows are few enough"
    return (
        f"{basis:,} of {m:,} rows, drawn at random: a dense model would take {16e-9 * m**2:.3g} GB"
    )


#: A table with at least as many columns as rows is standardised up to so many columns.
MOST_COLUMNS = 2000


def refuse_standardize(estimator: Any, X: Any, kernels: Sequence[Any]) -> None:
    """Refuse in-fold standardising of what is not a linear model in the columns of X."""
    other = next((kernel for kernel in kernels if not isinstance(kernel, Linear)), None)
    path, (m, d) = estimator.path, X.shape if X.ndim == 2 else (X.shape[0], 0)
    refused, remedy = "", ""
    if other is not None:
        remedy = "kernel"
        refused = (
            f'is for kernel="linear"; got kernel {other!r}: scaling columns inside every '
            "experiment would change every kernel value. Scale X once before."
        )
    elif estimator.basis is not None:
        remedy = "basis"
        refused = f"works in the columns of X; got basis={estimator.basis!r}. Leave basis out."
    elif path in ("spectral", "cholesky"):
        remedy = "path"
        refused = (
            f"gives every experiment equations of its own; got path={path!r}, which shares one "
            'factor. Use path="auto" or "per_fold".'
        )
    elif is_dask(X):
        refused = (
            "needs rows in memory; got a Dask collection. Scale the columns once before, or pass "
            "X.compute()."
        )
    elif d >= m and d > MOST_COLUMNS:
        refused = (
            f"solves a system of all columns in every experiment; got {d} columns and {m} rows. "
            f"Scale X once before, or choose at most {MOST_COLUMNS} columns."
        )
    if refused:
        remedies = (remedy,) if remedy else ()
        message = f"standardize=True {refused}"
        raise NotSupportedError(message, argument="standardize", remedies=remedies)


def is_mapped(rows: Any) -> bool:
    """Whether an array, or what it is a view of, lies in a file."""
    while rows is not None:
        if isinstance(rows, np.memmap | mmap):
            return True
        rows = getattr(rows, "base", None)
    return False


def takes_objects(kernel: Any) -> bool:
    """Whether rows may be arbitrary objects under a kernel, or one of some, as it is passed."""
    if isinstance(kernel, str):
        return False
    if isinstance(kernel, Kernel):
        return kernel.accepts_objects
    if isinstance(kernel, gp.Kernel):
        return not kernel.requires_vector_input
    if isinstance(kernel, list | tuple | Mapping):
        return any(map(takes_objects, kernel.values() if isinstance(kernel, Mapping) else kernel))
    return callable(kernel) and not isinstance(kernel, type)
