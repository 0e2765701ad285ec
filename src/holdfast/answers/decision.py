"""What a fitted model predicts for new rows: the kernel part, the bias and the trend."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.answers.fitted import Fitted
from holdfast.answers.model import expanded_in, rows_with_kernel
from holdfast.answers.trend import parted, trend_values
from holdfast.core.rows import row_chunks
from holdfast.data.dask import is_dask, on_rows
from holdfast.kernels.dask_rows import expand
from holdfast.kernels.matrix import KernelData, KernelRows

__all__ = ["column_coefficients", "decision"]


def decision(fitted: Fitted, rows: Any) -> FloatArray:
    """Return model values (k, v) of checked rows; lazy for a Dask array."""
    values, trend = _without_trend(fitted, rows), fitted.training.trend
    if trend is None:
        return values
    _, coefficients = parted(fitted.coefficients.unpenalised, fitted.training.bias)
    return values + trend_values(rows, (trend, coefficients))


def _without_trend(fitted: Fitted, rows: Any) -> FloatArray:
    """Return the kernel part and the intercept."""
    dual, linear, unpenalised = fitted.coefficients
    intercept, _ = parted(unpenalised, fitted.training.bias)
    if linear is not None:
        found: FloatArray = rows @ linear + intercept
        return found
    data, columns = _basis_data(fitted)
    if is_dask(rows):
        model = (data.take(columns), dual, intercept)
        lazy: FloatArray = on_rows(expand, rows, model, columns=dual.shape[1])
        return lazy
    values = np.empty((rows.shape[0], dual.shape[1]))
    for block in row_chunks(rows.shape[0], columns.size):
        values[block] = data.predict_block(rows[block], columns) @ dual
    return np.asarray(values + intercept)


def _basis_data(fitted: Fitted) -> tuple[KernelData, IntArray]:
    """Return rows with the kernel, and which of them are basis rows."""
    if fitted.basis_rows is not None:
        return fitted.basis_rows, np.arange(len(fitted.basis_rows))
    training = fitted.training
    data = rows_with_kernel(fitted.model.kernel, training.X, training.basis)
    return data, expanded_in(fitted.model.basis, training.weights.size)


def column_coefficients(fitted: Fitted) -> FloatArray | None:
    """Return the coefficients (d, v) of the columns of X; None unless kernels are linear."""
    X = fitted.training.X
    factors = fitted.model.kernel.column_factors(X.shape[1]) if X.ndim == 2 else None
    dual, linear, _ = fitted.coefficients
    if factors is None or linear is not None:
        return linear
    data, columns = _basis_data(fitted)
    basis = data.take(columns)
    assert isinstance(basis, KernelRows)  # a linear kernel has rows of numbers
    return np.asarray(factors[:, None] * (basis.X.T @ dual))
