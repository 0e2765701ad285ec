"""The trend of a model: columns without a penalty beside the kernel part and the bias.

Universal kriging, partially linear models and fixed effects are all of this form. The columns are a
function of the rows, made once by `fit`; held-out models have the same columns and coefficients of
their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from holdfast._typing import FloatArray
from holdfast.data.dask import gather, is_dask, local, on_rows
from holdfast.exceptions import InvalidInputError, NotSupportedError
from holdfast.kernels import Precomputed

__all__ = [
    "Trend",
    "make_trend",
    "parted",
    "trend_of",
    "trend_values",
]

#: Rows of a Dask array that show how many columns a function makes.
FEW_ROWS = 10


@dataclass(frozen=True)
class Trend:
    """From rows to the unpenalised columns Z, the bias first.

    Attributes
    ----------
    bias : bool
        Whether the first column is one of ones.
    columns : tuple of int or None
        Columns of X that are the trend; None where a function makes it.
    function : callable or None
    names : tuple of str
        Of the columns, without the bias.
    """

    bias: bool
    columns: tuple[int, ...] | None
    function: Any
    names: tuple[str, ...] = ()

    def __call__(self, X: Any) -> FloatArray:
        """Return Z (k, s) of these rows."""
        if self.columns is not None:
            part = X[:, list(self.columns)]
            Z = np.asarray(part.toarray() if sp.issparse(part) else part, dtype=np.float64)
        else:
            Z = _checked(self.function(X), X.shape[0], len(self.names))
        return np.hstack([np.ones((len(Z), 1)), Z]) if self.bias else Z

    def of_rows(self, X: Any) -> FloatArray:
        """Return Z of all rows of the data, which may be a Dask array."""
        count = len(self.names) + self.bias
        return np.asarray(local(on_rows(_columns, X, self, columns=count)))

    @property
    def all_names(self) -> tuple[str, ...]:
        """Names of all columns of Z, for errors."""
        named = tuple(f"trend column {name!r}" for name in self.names)
        return ("intercept", *named) if self.bias else named


def make_trend(
    trend: Any, X: Any, kernels: Iterable[Any], names: Iterable[str] | None, *, bias: bool
) -> Trend:
    """Return the trend that a user asks for.

    Parameters
    ----------
    trend : "linear", list of columns or callable
    X : rows, checked
    kernels : iterable of kernels
        A kernel matrix is refused: its columns are rows of the data.
    names : iterable of str or None
        Names of the columns of X, if they have any.
    bias : bool
    """
    if any(isinstance(kernel, Precomputed) for kernel in kernels):
        raise NotSupportedError(
            'trend needs rows to make its columns from; kernel="precomputed" has a kernel matrix '
            "only. Pass rows that hold the columns of the trend, with a kernel object or a "
            "function as the kernel.",
            argument="trend",
        )
    known = None if names is None else [str(name) for name in names]
    if not callable(trend):
        columns = _numbers(trend, X, known)
        chosen = [f"x{j}" if known is None else known[j] for j in columns]
        return Trend(bias, tuple(columns), None, tuple(chosen))
    sample = gather(X, slice(0, FEW_ROWS)) if is_dask(X) else X
    count = _checked(trend(sample), sample.shape[0], None).shape[1]
    return Trend(bias, None, trend, tuple(str(j) for j in range(count)))


def trend_values(X: Any, constants: tuple[Trend, FloatArray]) -> FloatArray:
    """Return the part (k, v) of predictions that is trend, from coefficients (s, v) without bias.

    For a Dask array X it is lazy.
    """
    _, coefficients = constants
    values: FloatArray = on_rows(_values, X, constants, columns=coefficients.shape[1])
    return values


def _values(X: Any, constants: tuple[Trend, FloatArray]) -> FloatArray:
    trend, coefficients = constants
    return np.asarray(trend(X)[:, int(trend.bias) :] @ coefficients)


def parted(unpenalised: FloatArray, bias: bool) -> tuple[FloatArray, FloatArray]:
    """Return the intercept (v,), zero if there is none, and coefficients (s, v) of the trend."""
    first = int(bias)
    return unpenalised[:first].sum(axis=0), unpenalised[first:]


def trend_of(estimator: Any) -> Trend:
    """Return the trend of a fitted estimator."""
    check_is_fitted(estimator)
    found = estimator._training.trend
    if found is None:
        raise AttributeError(
            "the model has no trend, and so no coefficients of one. Fit with trend=..., such as "
            'trend="linear".'
        )
    assert isinstance(found, Trend)
    return found


def _columns(X: Any, trend: Trend) -> FloatArray:
    return trend(X)


def _numbers(trend: Any, X: Any, names: list[str] | None) -> list[int]:
    """Return the numbers of the columns of X that are named."""
    if X.ndim != 2:
        raise InvalidInputError(
            f"trend={trend!r} takes columns of X, and the rows of X are objects without columns. "
            "Pass trend=function, which returns one row of numbers for each object.",
            argument="trend",
        )
    d = int(X.shape[1])
    if isinstance(trend, str):
        if trend == "linear":
            return list(range(d))
        raise InvalidInputError(
            'trend must be None, "linear", a list of columns of X or a function; '
            f"got {trend!r}. For one column pass a list: trend=[{trend!r}].",
            argument="trend",
        )
    if not isinstance(trend, list | tuple | np.ndarray) or not len(trend):
        raise InvalidInputError(
            f'trend must be None, "linear", a list of columns of X or a function; got {trend!r}.',
            argument="trend",
        )
    found = [_number(item, d, names) for item in trend]
    if len(set(found)) < len(found):
        raise InvalidInputError(
            f"trend names a column twice; got {list(trend)!r}. Name it once.", argument="trend"
        )
    return found


def _number(item: Any, d: int, names: list[str] | None) -> int:
    if isinstance(item, str):
        if names is None:
            raise InvalidInputError(
                f"trend names the column {item!r}, and X has no column names. Pass a frame, or "
                f"column numbers from 0 to {d - 1}.",
                argument="trend",
            )
        if item not in names:
            raise InvalidInputError(
                f"trend names the column {item!r}, which X does not have. Its columns: "
                f"{', '.join(names[:10])}{', …' if len(names) > 10 else ''}.",
                argument="trend",
            )
        return names.index(item)
    whole = isinstance(item, int | np.integer) and not isinstance(item, bool)
    if not whole or not -d <= item < d:
        raise InvalidInputError(
            f"trend must name columns of X, by name or by number from 0 to {d - 1}; got {item!r}.",
            argument="trend",
        )
    return int(item) % d


def _checked(Z: Any, n_rows: int, count: int | None) -> FloatArray:
    """Return what a function made as finite numbers (k, s)."""
    Z = Z.toarray() if sp.issparse(Z) else Z
    try:
        values = np.asarray(Z, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"trend must return numbers, one row for each row of X; got {type(Z).__name__} "
            f"({error}).",
            argument="trend",
        ) from None
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or len(values) != n_rows or not values.shape[1]:
        raise InvalidInputError(
            f"trend must return one row of at least one number for each of the {n_rows} rows; got "
            f"shape {np.shape(Z)}.",
            argument="trend",
        )
    if count is not None and values.shape[1] != count:
        raise InvalidInputError(
            f"trend returned {count} columns for the training rows and {values.shape[1]} for these "
            "rows. Return the same columns for any rows.",
            argument="trend",
        )
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
        raise InvalidInputError(
            f"trend must return finite numbers; got NaN or infinity in row {row}.", argument="trend"
        )
    return values
