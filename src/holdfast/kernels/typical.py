"""What is typical of rows and of a kernel on them, from a sample of rows: distances, and size.

The sample is the same in every run, so that widths and penalties that follow the data do not
depend on a seed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from holdfast._typing import FloatArray, IntArray
from holdfast.data.dask import gather
from holdfast.kernels.base import Kernel
from holdfast.kernels.grid import NAMED
from holdfast.kernels.matrix import KernelData

__all__ = [
    "fine_widths",
    "least_column",
    "sample_rows",
    "total_eigenvalue",
    "typical_width",
    "typical_widths",
]

#: Rows whose distances are looked at, and rows whose kernel values are.
DISTANCE_ROWS, KERNEL_ROWS = 400, 100
#: Widths that a search starts with, as multiples of one over the median squared distance, a factor
#: STEP apart. Kernels are often best a few times wider than the median distance.
STEP = 4.0
MULTIPLES = (1 / 64, 1 / 16, 1 / 4, 1.0, 4.0)


def sample_rows(weights: FloatArray, most: int) -> IntArray:
    """Return rows of positive weight: all of them, or `most` drawn with a fixed seed."""
    rows = np.flatnonzero(weights > 0)
    if rows.size <= most:
        return rows
    return np.sort(np.random.default_rng(0).choice(rows, most, replace=False))


def typical_width(kind: type[Kernel], X: Any, weights: FloatArray) -> float | None:
    """Return one over the median of what gamma multiplies; None if rows tell nothing.

    Squared distances (RBF, Matérn), sums of absolute differences (Laplacian), squared lengths of
    rows (polynomial). Pairs of equal rows and rows of weight zero do not count.
    """
    chosen = sample_rows(weights, DISTANCE_ROWS)
    rows = gather(X, chosen)
    values = kind.scaled_by_gamma(rows.astype(np.float64)) if rows.ndim == 2 else None
    if values is None or not (values > 0).any():
        return None
    return 1.0 / float(np.median(values[values > 0]))


def typical_widths(kernel: str, X: Any, weights: FloatArray) -> list[float] | None:
    """Return widths to begin a search with, for a kernel of that name; None if rows tell nothing.

    X is an array, a sparse matrix or a Dask array. Multiples of `typical_width`.
    """
    middle = typical_width(NAMED[kernel].make, X, weights)
    return None if middle is None else [multiple * middle for multiple in MULTIPLES]


def fine_widths(kernel: str, X: Any, weights: FloatArray) -> list[float] | None:
    """Return those widths and the ones halfway between: as fine as a search, and without scores."""
    found = typical_widths(kernel, X, weights)
    if found is None:
        return None
    return sorted(found + [width * STEP**0.5 for width in found[:-1]])


def total_eigenvalue(data: KernelData, weights: FloatArray, *, centred: bool) -> float:
    """Return about the trace of the weighted kernel matrix of all rows.

    `centred`: the model has a bias, which takes the weighted mean out of the kernel.
    Σ w_i k_ii − (Σ w_i w_j k_ij)/Σ w_i, over a sample of at most 100 rows and scaled to all: never
    an m × m product. Exact for fewer rows.
    """
    known = np.where(data.has_column(), weights, 0.0)
    if not (known > 0).any():  # basis rows without weight
        known = data.has_column().astype(float)
    rows = sample_rows(known, KERNEL_ROWS)
    K, w = data.block(rows, rows), known[rows] / known[rows].sum()
    total = float(w @ np.diag(K))
    if centred:
        inner = total - float(w @ K @ w)
        # Nothing but rounding is left of a constant kernel.
        total = inner if inner > 1e-12 * abs(total) else total
    size = abs(total) * float(weights.sum())
    return size if np.isfinite(size) and size > 0 else 1.0


def least_column(data: KernelData, X: Any, weights: FloatArray, *, centred: bool) -> float:
    """Return about the smallest trace that a column of a linear kernel has, of a sample of rows.

    Columns that do not vary count for nothing; inf where no column does.
    """
    rows = sample_rows(weights, KERNEL_ROWS)
    known = data.brought(rows)  # those that the whole trace was taken from
    own = gather(X, rows) if known is None else known.X
    values = np.asarray(own.toarray() if sp.issparse(own) else own, dtype=np.float64)
    w = weights[rows] / weights[rows].sum()
    moved = values - w @ values if centred else values
    traces = w @ np.square(moved)
    varied = traces[traces > 1e-24 * (w @ np.square(values))]
    return float(varied.min(initial=np.inf) * weights.sum())
