"""From what a user passes to what the algebra takes: checked arrays, or a clear sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_array, check_consistent_length, validate_data

from holdfast.exceptions import InvalidInputError
from holdfast.features import ColumnFeatures, Features
from holdfast.gram import KernelData, KernelRows, PrecomputedRows, as_rows
from holdfast.kernels import Kernel, Linear, Precomputed
from holdfast.systems import FloatArray

#: A sparse matrix with more columns than this is never turned into dense features.
MAX_SPARSE_FEATURES = 2000


def check_rows(estimator: Any, X: Any, *, objects: bool, reset: bool) -> Any:
    """Return X as a checked 2-D array or CSR matrix, or as rows of arbitrary objects.

    Parameters
    ----------
    estimator : estimator
        Learns or checks ``n_features_in_`` and ``feature_names_in_``.
    X : array-like, frame, sparse matrix, or sequence of objects
    objects : bool
        Whether the kernel is a function, which may take rows of any kind.
    reset : bool
        True in fit, False in predict.
    """
    if objects and not _is_table(X):
        rows = as_rows(X)
        if rows.shape[0] == 0:
            raise InvalidInputError("X must hold at least one row; got none.")
        return rows
    return validate_data(
        estimator, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=reset
    )


def _is_table(X: Any) -> bool:
    if sp.issparse(X) or hasattr(X, "columns"):
        return True
    return np.ndim(X) == 2 and np.asarray(X).dtype.kind in "biuf"


def check_targets(y: Any, n_rows: int, weights: FloatArray) -> tuple[FloatArray, bool]:
    """Return regression targets as (m, v) float64, and whether y was one-dimensional."""
    if y is None:
        raise InvalidInputError(
            "requires y to be passed, but the target y is None: pass one value per row."
        )
    Y = np.asarray(
        check_array(y, ensure_2d=False, dtype=np.float64, input_name="y", allow_nd=False)
    )
    check_consistent_length(np.empty((n_rows, 0)), Y)
    flat = Y.ndim == 1
    Y = Y.reshape(-1, 1) if flat else Y
    if Y.shape[1] == 0:
        raise InvalidInputError("y must hold at least one target; got 0 columns.")
    seen = Y[weights > 0]
    if seen.shape[0] > 1 and (seen == seen[0]).all():
        raise InvalidInputError(
            f"y must vary; every value is {seen[0, 0]:g}, so there is nothing to learn and no "
            "penalty is better than another."
        )
    return np.array(Y, dtype=np.float64, order="C"), flat


def check_weights(sample_weight: Any, n_rows: int) -> FloatArray:
    """Return row weights (m,), finite and not negative, not all zero."""
    if sample_weight is None:
        return np.ones(n_rows)
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"sample_weight must be numbers, one per row; got {type(sample_weight).__name__}."
        ) from None
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        raise InvalidInputError(
            f"sample_weight must hold one number per row, shape ({n_rows},); got shape "
            f"{weights.shape}. Sample weights must be 1D array or scalar."
        )
    if not np.isfinite(weights).all():
        raise InvalidInputError(
            "sample_weight must be finite; got "
            f"{int((~np.isfinite(weights)).sum())} values that are NaN or infinite."
        )
    if weights.min() < 0:
        raise InvalidInputError(
            f"sample_weight must not be negative; got {weights.min():g}. Use 0 for rows that must "
            "not be trained on."
        )
    if weights.max() == 0:
        raise InvalidInputError("sample_weight is zero for every row; give some row a weight.")
    return weights


def as_data(kernel: Kernel | Precomputed, X: Any, basis: Any) -> KernelData:
    """Return rows and kernel as one object; an m × n precomputed kernel needs its basis rows."""
    if not isinstance(kernel, Precomputed):
        return KernelRows(kernel, X)
    if X.shape[0] == X.shape[1]:
        return PrecomputedRows(X)
    columns = np.asarray(basis) if isinstance(basis, list | tuple | np.ndarray) else None
    if columns is None or columns.ndim != 1 or columns.dtype.kind not in "iu":
        raise InvalidInputError(
            "a precomputed kernel must be a square matrix of all rows; got shape "
            f"{X.shape}. For a kernel with the basis rows only, name them: basis=[row numbers]."
        )
    return PrecomputedRows(X, columns=columns)


def primal_features(kernel: Kernel | Precomputed, X: Any, dense: bool) -> Features | None:
    """Return the columns of X when a linear kernel is cheaper in primal form, else None."""
    if not (dense and isinstance(kernel, Linear)) or X.shape[1] >= X.shape[0]:
        return None
    if sp.issparse(X) and X.shape[1] > MAX_SPARSE_FEATURES:
        return None
    return ColumnFeatures(X)


def takes_objects(kernel: Kernel | Precomputed | Any) -> bool:
    """Whether rows may be arbitrary objects under this kernel."""
    return isinstance(kernel, Kernel) and kernel.accepts_objects
