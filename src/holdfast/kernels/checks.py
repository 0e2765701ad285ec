"""Checks of kernel parameters and of the matrices that kernels return."""

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from holdfast._typing import FloatArray
from holdfast.data.numbers import check_positive, is_number
from holdfast.data.values import refuse_masked
from holdfast.exceptions import InvalidInputError, KernelError

__all__ = ["finite_number", "kernel_matrix", "positive_width", "require_finite"]


def finite_number(name: str, value: Any) -> float:
    """Return the value as a float, if it is a finite real number."""
    if not is_number(value) or not math.isfinite(value):
        raise InvalidInputError(
            f"{name} must be a finite number; got {value!r}: give one number, such as {name}=1.0.",
            argument=name,
        )
    return float(value)


def positive_width(name: str, value: Any) -> float | tuple[float, ...]:
    """Return a positive float, or a tuple of positive floats (one per feature)."""
    if np.ndim(value) == 0:
        return check_positive(name, value.item() if isinstance(value, np.ndarray) else value)
    array = np.asarray(value)
    valid = array.ndim == 1 and array.size > 0 and array.dtype.kind in "iuf"
    if valid and np.isfinite(array).all() and (array > 0).all():
        return tuple(float(entry) for entry in array)
    raise InvalidInputError(
        f"{name} must be a finite number > 0 or a 1-D array of such numbers, one per feature; got "
        f"{value!r}: give positive widths only (leave a feature out by dropping its column).",
        argument=name,
    )


def kernel_matrix(values: Any, shape: tuple[int, ...], name: str, *, copy: bool) -> FloatArray:
    """Return the values as a C-contiguous float64 array of exactly that shape, all finite.

    Raises
    ------
    KernelError
        If shape, type or values are wrong; the message names the kernel.
    """
    if sp.issparse(values):
        values = values.toarray()
    refuse_masked(f"the values of kernel {name}", values, KernelError)
    array = np.asarray(values)
    if array.shape != shape:
        raise KernelError(
            f"kernel {name} must return shape {shape} (rows of X, rows of Z); got "
            f"{array.shape}: return one value for every pair of rows.",
            argument="kernel",
        )
    if array.dtype.kind not in "biuf" and array.dtype.kind != "O":
        raise KernelError(
            f"kernel {name} must return real numbers; got dtype {array.dtype}: return float64.",
            argument="kernel",
        )
    try:
        result = np.array(array, dtype=np.float64, order="C", copy=True if copy else None)
    except (TypeError, ValueError) as error:
        raise KernelError(
            f"kernel {name} must return real numbers; got dtype {array.dtype} ({error}): return "
            "float64.",
            argument="kernel",
        ) from error
    require_finite(result, name)
    return result


def require_finite(values: FloatArray, name: str) -> None:
    """Raise KernelError when a value is NaN or infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum()
    # A finite sum proves finite entries without a boolean array of the matrix's size.
    if np.isfinite(total):
        return
    nans = int(np.count_nonzero(np.isnan(values)))
    infinite = int(np.count_nonzero(np.isinf(values)))
    if nans or infinite:
        raise KernelError(
            f"kernel {name} must return finite values; got {nans} NaN and {infinite} infinite of "
            f"{values.size}: look for missing or huge values in X, or scale X.",
            argument="kernel",
        )
