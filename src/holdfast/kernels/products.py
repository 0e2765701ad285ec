"""Inner products and squared distances of rows: the two matrices that most kernels start from.

Both are filled in blocks of rows: a block that fits the cache is multiplied, then finished
elementwise (exponential, power, …) before the next is begun, and only a block of float32 or
integer rows is ever held as float64. Sparse rows are multiplied as sparse matrices.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from holdfast._typing import FloatArray, RowData
from holdfast.core.lapack import CACHED, CHUNK, SMALL, mirror, piece_threads, run_pieces

__all__ = [
    "distance_matrix",
    "fill_blocks",
    "float64_rows",
    "inner_products",
    "multiply",
    "row_blocks",
    "row_norms_squared",
]

# evaluate(block, rows, columns): writes one block of the result.
Evaluate: TypeAlias = Callable[[FloatArray, slice, slice], None]
# finish(block): turns the entries of a block into their final values, one by one, in place.
Finish: TypeAlias = Callable[[FloatArray], None]
# row numbers and column numbers of some entries of a block
Pairs: TypeAlias = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]

# Rows in a block of the result at least, so that matrix products are fast.
_BLOCK_ROWS = 128
# From this many blocks on they are shared out among threads: so many has a symmetric matrix whose
# factorisation has several threads.
_THREADED_BLOCKS = SMALL // _BLOCK_ROWS
# With at most this many features, direct differences cost no more than a product and three passes.
_FEW_FEATURES = 4
# Below this share of |x|² + |z|² the sum |x|² + |z|² − 2 x·z has lost four of sixteen digits, and
# the distance is computed again from the differences.
_CANCELLED = 1e-4


def row_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Return slices that cut the rows into blocks that stay in a cache, of some rows at least."""
    step = max(_BLOCK_ROWS, CACHED // max(1, n_columns))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def float64_rows(
    X: RowData, factors: FloatArray | None = None, centre: FloatArray | None = None
) -> RowData:
    """Return the rows as float64, less the centre, columns times factors (if given)."""
    X = X.astype(np.float64, copy=False)
    if centre is not None:
        X = X - centre
    if factors is None:
        return X
    if not sp.issparse(X):
        return X * factors
    scaled = X.copy()
    scaled.data *= factors[X.indices]
    return scaled


def row_norms_squared(X: RowData) -> FloatArray:
    """Return the squared length of every row, shape (len(X),)."""
    if sp.issparse(X):
        data = X.data.astype(np.float64)
        owner = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        norms = np.bincount(owner, weights=data * data, minlength=X.shape[0])
        return norms.astype(np.float64, copy=False)
    lengths = np.empty(X.shape[0])
    for rows in row_blocks(*X.shape):
        block = float64_rows(X[rows])
        np.einsum("ij,ij->i", block, block, out=lengths[rows])
    return lengths


def fill_blocks(X: RowData, Z: RowData | None, evaluate: Evaluate) -> FloatArray:
    """Return the matrix of X with Z whose C-contiguous blocks `evaluate` writes.

    With Z=None, only the blocks on and above the diagonal are evaluated and then mirrored: half the
    work, and symmetric to the last bit.
    """
    m, n = X.shape[0], (X if Z is None else Z).shape[0]
    out = np.empty((m, n))
    if Z is not None:

        def across(rows: slice) -> None:
            evaluate(out[rows], rows, slice(0, n))

        _each(across, [*row_blocks(m, n)], X)
        return out

    def upper(rows: slice) -> None:
        columns = slice(rows.start, n)
        block = out[rows] if rows.start == 0 else np.empty((rows.stop - rows.start, n - rows.start))
        evaluate(block, rows, columns)
        out[rows, columns] = block

    if m <= _BLOCK_ROWS:
        upper(slice(0, m))
    else:
        _each(upper, [slice(i, min(i + _BLOCK_ROWS, m)) for i in range(0, m, _BLOCK_ROWS)], X)
    mirror(out)
    return out


def _each(work: Callable[[slice], None], blocks: list[slice], X: RowData) -> None:
    """Do all blocks; those of a large matrix, or of long rows, on several threads.

    Each thread has one of BLAS.

    Threads of NumPy's BLAS would go on spinning beside the factorisation that follows.
    """
    if len(blocks) >= _THREADED_BLOCKS or np.prod(X.shape) >= CHUNK:
        run_pieces(work, blocks)
    else:
        for rows in blocks:
            work(rows)


def inner_products(
    X: RowData,
    Z: RowData | None = None,
    finish: Finish | None = None,
    prepare: Callable[[RowData], RowData] = float64_rows,
) -> FloatArray:
    """Return the matrix of x·z for every row x of X and z of Z (default: X), in 2·m·n·d flops.

    `finish` changes each block in place while it is in the cache; `prepare` makes float64 of all
    rows of Z, and of each block of rows of X, before they are multiplied.
    """
    Z_ready = prepare(X if Z is None else Z)
    threads = piece_threads()
    if Z is None and finish is None and not sp.issparse(Z_ready):
        m, d = Z_ready.shape
        if threads == 1 or d >= m:  # some columns to each thread; BLAS knows the symmetry
            ends = np.linspace(0, d, threads + 1).astype(int).tolist()
            columns = [slice(*pair) for pair in pairwise(ends)]
            first, *others = run_pieces(lambda j: Z_ready[:, j] @ Z_ready[:, j].T, columns)
            return np.asarray(sum(others, first))

    def evaluate(block: FloatArray, rows: slice, columns: slice) -> None:
        multiply(Z_ready[rows] if Z is None else prepare(X[rows]), Z_ready[columns], block)
        if finish is not None:
            finish(block)

    return fill_blocks(X, Z, evaluate)


def distance_matrix(
    X: RowData,
    Z: RowData | None = None,
    weights: FloatArray | None = None,
    finish: Finish | None = None,
) -> FloatArray:
    """Return Σ_j weights_j (x_j − z_j)² of checked numeric rows, finished block by block.

    |x|² + |z|² − 2 x·z by matrix products, 2·m·n·d flops, half of that when Z is None. Dense
    rows are centred on the mean of Z first. Where the sum still cancels (coincident or close
    rows), the distance is computed again from the differences, so every entry is good to about
    1e-12 relative, whatever the offset or the clusters of the data, and equal rows are at
    distance zero exactly.
    """
    symmetric, Z_raw = Z is None, X if Z is None else Z
    dense = not sp.issparse(X) and not sp.issparse(Z_raw)
    direct = dense and X.shape[1] <= _FEW_FEATURES
    roots = None if weights is None else np.sqrt(weights)
    centre = _centre(Z_raw) if dense and not direct else None
    Z_ready = Z_raw if direct else float64_rows(Z_raw, roots, centre)
    norms = np.empty(0) if direct else row_norms_squared(Z_ready)

    def evaluate(block: FloatArray, rows: slice, columns: slice) -> None:
        if direct:
            cdist(X[rows], Z_raw[columns], "sqeuclidean", out=block, w=weights)
        else:
            X_ready = Z_ready[rows] if symmetric else float64_rows(X[rows], roots, centre)
            multiply(-2.0 * X_ready, Z_ready[columns], block)
            if symmetric:
                np.fill_diagonal(block, np.inf)  # known to be zero: no need to compute it again
            norms_X = row_norms_squared(X_ready)
            block += norms_X[:, np.newaxis]
            block += norms[columns]
            close = _cancelled(block, norms_X, norms[columns])
            _from_differences(block, close, X[rows], Z_raw[columns], roots)
            if symmetric:
                np.fill_diagonal(block, 0.0)
        if finish is not None:
            finish(block)

    return fill_blocks(X, Z, evaluate)


def _centre(Z: RowData) -> FloatArray | None:
    """Return the mean row, or None when there is none."""
    return Z.mean(axis=0, dtype=np.float64) if Z.shape[0] else None


def _cancelled(block: FloatArray, norms_X: FloatArray, norms_Z: FloatArray) -> Pairs:
    """Return rows and columns of the entries of |x|² + |z|² − 2 x·z that have lost accuracy."""
    # A cheap pass finds the rows where something may have cancelled; only these are tested exactly.
    bound = _CANCELLED * (norms_X + norms_Z.max(initial=0.0))
    suspects = np.flatnonzero(block.min(axis=1, initial=np.inf) <= bound)
    close = block[suspects] <= _CANCELLED * np.add.outer(norms_X[suspects], norms_Z)
    i, j = np.nonzero(close)
    return suspects[i], j


def _from_differences(
    block: FloatArray, pairs: Pairs, X: RowData, Z: RowData, roots: FloatArray | None
) -> None:
    """Write Σ_j ((x_j − z_j) roots_j)² into those entries of the block."""
    i, j = pairs
    dense = not sp.issparse(X) and not sp.issparse(Z)
    if dense and 8 * i.size > block.size:
        # Tight clusters far from the centre: with so many pairs it is cheaper to compute all.
        weights = None if roots is None else roots * roots
        block[i, j] = cdist(X, Z, "sqeuclidean", w=weights)[i, j]
        return
    entries = X.shape[1] if dense else (X.nnz if sp.issparse(X) else Z.nnz) // X.shape[0]
    step = max(1, CACHED // max(1, entries))
    for start in range(0, i.size, step):
        part = slice(start, start + step)
        difference = float64_rows(X[i[part]]) - float64_rows(Z[j[part]])
        block[i[part], j[part]] = row_norms_squared(float64_rows(difference, roots))


def multiply(X: RowData, Z: RowData, out: FloatArray) -> None:
    """Write X Zᵀ into `out`; whichever of the two is sparse stays sparse."""
    if sp.issparse(X) and sp.issparse(Z):
        # X is one block of rows, so it is cheaper to transpose than Z.
        (Z @ X.T.tocsr()).T.toarray(out=out)
    elif sp.issparse(X):
        out[...] = X @ Z.T
    elif sp.issparse(Z):
        out[...] = (Z @ X.T).T
    elif min(len(X), len(Z)) == 1:
        # BLAS has another routine for vectors, which rounds otherwise: a row that is asked for
        # alone must have the values that it has among others.
        X, Z = (np.repeat(rows, 2, axis=0) if len(rows) == 1 else rows for rows in (X, Z))
        out[...] = np.dot(X, Z.T)[: out.shape[0], : out.shape[1]]
    else:
        np.dot(X, Z.T, out=out)
