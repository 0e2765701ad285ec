"""Inner products and squared distances of rows: the two matrices that most kernels start from.

Both are filled in blocks of rows: a block that fits the cache is multiplied, then finished
elementwise (exponential, power, …) before the next is begun, and only a block of float32 or
integer rows is ever held as float64. Sparse rows are multiplied as sparse matrices.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from holdfast.exceptions import InvalidInputError
from holdfast.kernels.rows import FloatArray, Rows, numeric_rows

__all__ = ["inner_products", "row_norms_squared", "squared_distances"]

# finish(block, rows): turns one block of rows of the result into its final values, in place.
Finish: TypeAlias = Callable[[FloatArray, slice], None]

# Entries of the result per block: 4 MB, near the size of a core's share of the cache.
_BLOCK_ENTRIES = 2**19
# Below this share of |x|² + |z|² the difference |x|² + |z|² − 2 x·z has lost so many
# digits that the distance is computed again from the rows themselves.
_CANCELLED = 1e-4
# Entries of the rows gathered at once for that second computation.
_PAIR_ENTRIES = 2**18


def row_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices that cut the rows into blocks of about `_BLOCK_ENTRIES` entries."""
    step = max(1, min(n_rows, _BLOCK_ENTRIES // max(1, n_columns)))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def float64_rows(X: Rows) -> Rows:
    """The rows as float64 (the same object when they are already)."""
    return X.astype(np.float64, copy=False)


def row_norms_squared(X: Rows) -> FloatArray:
    """Squared length of every row, shape (len(X),)."""
    if sp.issparse(X):
        data = X.data.astype(np.float64)
        squares = sp.csr_matrix((data * data, X.indices, X.indptr), shape=X.shape)
        return np.asarray(squares @ np.ones(X.shape[1]), dtype=np.float64)
    norms = np.empty(X.shape[0])
    for rows in row_blocks(*X.shape):
        block = float64_rows(X[rows])
        np.einsum("ij,ij->i", block, block, out=norms[rows])
    return norms


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


def inner_products(X: Rows, Z: Rows | None = None, finish: Finish | None = None) -> FloatArray:
    """Matrix of x·z for every row x of X and z of Z (default: X), finished block by block.

    Notes
    -----
    2·m·n·d flops; half of that when Z is None and X dense, where the result is symmetric to
    the last bit.
    """
    same = Z is None
    Z = float64_rows(X if Z is None else Z)
    out = np.empty((X.shape[0], Z.shape[0]))
    if same and not sp.issparse(Z):
        np.dot(Z, Z.T, out=out)  # numpy sees one matrix twice: half the work, symmetric
    for rows in row_blocks(*out.shape):
        if not same or sp.issparse(Z):
            _multiply(float64_rows(X[rows]), Z, out[rows])
        if finish is not None:
            finish(out[rows], rows)
    return out


def squared_distances(X: Any, Z: Any = None, finish: Finish | None = None) -> FloatArray:
    """Matrix of |x − z|² for every row x of X and z of Z (default: X).

    Parameters
    ----------
    X, Z : 2-D arrays or scipy.sparse matrices with the same number of features
    finish : callable(block, rows), optional
        Changes each finished block of rows in place while it is in the cache.

    Notes
    -----
    |x|² + |z|² − 2 x·z by matrix products, 2·m·n·d flops. Dense rows are centred on the mean
    of Z first. Where the sum still cancels (coincident or close rows), the distance
    is computed again from the differences, so every entry is good to about 1e-12 relative,
    whatever the offset or the clusters of the data; equal rows are at distance zero exactly.
    """
    X = numeric_rows(X)
    same = Z is None or Z is X
    Z = float64_rows(X if same else numeric_rows(Z))
    if Z.shape[1] != X.shape[1]:
        raise InvalidInputError(
            f"X and Z must have the same number of features; got {X.shape[1]} and {Z.shape[1]}."
        )
    centre = None
    if not sp.issparse(X) and not sp.issparse(Z) and Z.shape[0]:
        centre = Z.mean(axis=0)
        Z = Z - centre
    norms_Z = row_norms_squared(Z)
    out = np.empty((X.shape[0], Z.shape[0]))
    if same and centre is not None:
        np.dot(Z, Z.T, out=out)
    for rows in row_blocks(*out.shape):
        block = out[rows]
        if same and centre is not None:
            X_block = Z[rows]
        else:
            X_block = float64_rows(X[rows])
            X_block = X_block if centre is None else X_block - centre
            _multiply(X_block, Z, block)
        _distances_from_products(block, X_block, Z, norms_Z)
        if same:
            diagonal = np.arange(rows.start, rows.stop)
            block[diagonal - rows.start, diagonal] = 0.0
        if finish is not None:
            finish(block, rows)
    return out


def _distances_from_products(products: FloatArray, X: Rows, Z: Rows, norms_Z: FloatArray) -> None:
    """Turn x·z into |x − z|², in place, for one block of rows."""
    # The sum first: a + b commutes, so the matrix of one set with itself stays symmetric.
    norms = np.add.outer(row_norms_squared(X), norms_Z)
    products *= -2.0
    products += norms
    norms *= _CANCELLED
    i, j = np.nonzero(products <= norms)
    step = max(1, _PAIR_ENTRIES // max(1, X.shape[1]))
    for start in range(0, i.size, step):
        part = slice(start, start + step)
        products[i[part], j[part]] = row_norms_squared(X[i[part]] - Z[j[part]])
