"""Inner products and squared distances of rows: the two matrices that most kernels start from.

Both are filled in blocks of rows: a block that fits the cache is multiplied, then finished
elementwise (exponential, power, …) before the next is begun, and only a block of float32 or
integer rows is ever held as float64. Sparse rows are multiplied as sparse matrices.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from holdfast.kernels.rows import FloatArray, Rows, numeric_pair

__all__ = [
    "distance_matrix",
    "fill_blocks",
    "float64_rows",
    "inner_products",
    "row_blocks",
    "row_norms_squared",
    "squared_distances",
]

# finish(block, rows, columns): turns one block of the result into its final values, in place.
Finish: TypeAlias = Callable[[FloatArray, slice, slice], None]

# Entries of the result per block (2 MB), but never so few rows that a matrix product starves.
_BLOCK_ENTRIES = 2**18
_BLOCK_ROWS = 128
# With so few features, direct differences cost no more than the product and its three passes.
_FEW_FEATURES = 4
# Below this share of |x|² + |z|² the sum |x|² + |z|² − 2 x·z has lost four digits of sixteen, and
# the distance is computed again from the differences.
_CANCELLED = 1e-4
# Entries of the rows gathered at once for that second computation.
_PAIR_ENTRIES = 2**18


def row_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices that cut the rows into blocks of about `_BLOCK_ENTRIES` entries."""
    step = max(_BLOCK_ROWS, _BLOCK_ENTRIES // max(1, n_columns))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def float64_rows(X: Rows, factors: FloatArray | None = None) -> Rows:
    """The rows as float64, columns times `factors` if given; not copied when nothing changes."""
    X = X.astype(np.float64, copy=False)
    if factors is None:
        return X
    return X @ sp.diags_array(factors, format="csr") if sp.issparse(X) else X * factors


def row_norms_squared(X: Rows) -> FloatArray:
    """Squared length of every row, shape (len(X),)."""
    if sp.issparse(X):
        data = X.data.astype(np.float64)
        squares = sp.csr_array((data * data, X.indices, X.indptr), shape=X.shape)
        return np.asarray(squares @ np.ones(X.shape[1]), dtype=np.float64)
    norms = np.empty(X.shape[0])
    for rows in row_blocks(*X.shape):
        block = float64_rows(X[rows])
        np.einsum("ij,ij->i", block, block, out=norms[rows])
    return norms


def fill_blocks(X: Rows, Z: Rows | None, evaluate: Finish) -> FloatArray:
    """Matrix of X with Z whose blocks `evaluate(block, rows, columns)` writes.

    Parameters
    ----------
    X, Z : rows
        Only their numbers count here. With Z=None, only the blocks on and above the
        diagonal are evaluated and then mirrored: half the work, and symmetric to the last bit.
    evaluate : callable(block, rows, columns)
        Fills a C-contiguous block for those slices of rows and columns.
    """
    m, n = X.shape[0], (X if Z is None else Z).shape[0]
    out = np.empty((m, n))
    for rows in row_blocks(m, n):
        if Z is not None:
            evaluate(out[rows], rows, slice(0, n))
            continue
        columns = slice(rows.start, n)
        size = rows.stop - rows.start
        block = np.empty((size, n - rows.start))
        evaluate(block, rows, columns)
        corner = block[:, :size]
        corner[...] = np.triu(corner) + np.triu(corner, 1).T
        out[rows, columns] = block
        out[rows.stop :, rows] = block[:, size:].T
    return out


def inner_products(X: Rows, Z: Rows | None = None, finish: Finish | None = None) -> FloatArray:
    """Matrix of x·z for every row x of X and z of Z (default: X), finished block by block.

    Notes
    -----
    2·m·n·d flops; half of that, and a result symmetric to the last bit, when Z is None.
    """
    Z_rows = float64_rows(X if Z is None else Z)

    def evaluate(block: FloatArray, rows: slice, columns: slice) -> None:
        _multiply(float64_rows(X[rows]), Z_rows[columns], block)
        if finish is not None:
            finish(block, rows, columns)

    return fill_blocks(X, Z, evaluate)


def squared_distances(X: Any, Z: Any = None) -> FloatArray:
    """Matrix of |x − z|² for every row x of X and z of Z (default: X).

    Parameters
    ----------
    X, Z : 2-D arrays or scipy.sparse matrices with the same number of features

    Returns
    -------
    D2 : ndarray of shape (len(X), len(Z))
        For `RBF.from_squared_distances` and `Matern.from_squared_distances`, so that several
        widths share one matrix.

    Notes
    -----
    |x|² + |z|² − 2 x·z by matrix products, 2·m·n·d flops, half of that when Z is None. Dense
    rows are centred on the mean of Z first. Where the sum still cancels (coincident or close
    rows), the distance is computed again from the differences, so every entry is good to about
    1e-12 relative, whatever the offset or the clusters of the data, and equal rows are at
    distance zero exactly.
    """
    return distance_matrix(*numeric_pair(X, Z))


def distance_matrix(
    X: Rows,
    Z: Rows | None = None,
    factors: FloatArray | None = None,
    finish: Finish | None = None,
) -> FloatArray:
    """Squared distances of checked numeric rows, finished block by block.

    Parameters
    ----------
    X, Z : numeric rows; Z=None stands for X
    factors : ndarray (features,), optional
        Columns are multiplied by these first.
    finish : callable(block, rows, columns), optional
        Changes each block in place while it is in the cache.
    """
    Z_rows = float64_rows(X if Z is None else Z, factors)
    dense = not sp.issparse(X) and not sp.issparse(Z_rows)
    direct = dense and X.shape[1] <= _FEW_FEATURES
    centre = None
    if dense and not direct and Z_rows.shape[0]:
        centre = Z_rows.mean(axis=0)
        Z_rows = Z_rows - centre
    norms = row_norms_squared(Z_rows)

    def evaluate(block: FloatArray, rows: slice, columns: slice) -> None:
        X_block = Z_rows[rows] if Z is None else float64_rows(X[rows], factors)
        if Z is not None and centre is not None:
            X_block = X_block - centre
        if direct:
            cdist(X_block, Z_rows[columns], "sqeuclidean", out=block)
        else:
            _multiply(-2.0 * X_block, Z_rows[columns], block)
            if Z is None:
                np.fill_diagonal(block, np.inf)  # known to be zero: not to be computed again
            _add_norms(block, X_block, Z_rows[columns], norms[columns])
            if Z is None:
                np.fill_diagonal(block, 0.0)
        if finish is not None:
            finish(block, rows, columns)

    return fill_blocks(X, Z, evaluate)


def _add_norms(block: FloatArray, X: Rows, Z: Rows, norms_Z: FloatArray) -> None:
    """Turn −2 x·z into |x − z|², in place, for one block."""
    norms_X = row_norms_squared(X)
    block += norms_X[:, np.newaxis]
    block += norms_Z
    # One cheap pass finds the rows where anything can have cancelled; the exact test is theirs.
    bound = _CANCELLED * (norms_X + norms_Z.max(initial=0.0))
    suspects = np.flatnonzero(block.min(axis=1, initial=np.inf) <= bound)
    if not suspects.size:
        return
    close = block[suspects] <= _CANCELLED * np.add.outer(norms_X[suspects], norms_Z)
    if not sp.issparse(X) and not sp.issparse(Z) and 8 * np.count_nonzero(close) > close.size:
        # Tight clusters far from the centre: so many pairs that whole rows are cheaper.
        block[suspects] = np.where(close, cdist(X[suspects], Z, "sqeuclidean"), block[suspects])
        return
    i, j = np.nonzero(close)
    i = suspects[i]
    entries = max(1, X.shape[1] if not sp.issparse(X) else X.nnz // X.shape[0])
    step = max(1, _PAIR_ENTRIES // entries)
    for start in range(0, i.size, step):
        part = slice(start, start + step)
        block[i[part], j[part]] = row_norms_squared(X[i[part]] - Z[j[part]])


def _multiply(X: Rows, Z: Rows, out: FloatArray) -> None:
    """Write X Zᵀ into `out`; whichever of the two is sparse stays sparse."""
    if sp.issparse(X) and sp.issparse(Z):
        (X @ Z.T).toarray(out=out)
    elif sp.issparse(X):
        out[...] = X @ Z.T
    elif sp.issparse(Z):
        out[...] = (Z @ X.T).T
    else:
        np.dot(X, Z.T, out=out)
