"""basis="auto": a dense model where it is quick and fits into memory, else random basis rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.data.dask import is_dask
from holdfast.kernels import Kernel, Precomputed
from holdfast.kernels.smoothers import is_primal

__all__ = ["automatic_basis", "told_basis"]

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
