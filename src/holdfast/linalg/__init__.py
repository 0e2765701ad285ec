"""Dense linear algebra on float64 arrays: the numeric ground that the rest stands on.

| module | what it answers |
|---|---|
| `eigen` | eigendecomposition of a symmetric matrix |
| `whitening` | Cholesky factor of the basis kernel, and rows of K in its coordinates |
| `constraint` | a symmetric matrix on the orthogonal complement of a few rows |
| `shifts` | many systems (A + alpha I) x = z from one reduction of A |
| `graded` | triangular factors that do not square, and coordinates from them |
| `definite` | stacks of small positive definite systems |
| `products` | V D Vᵀ and its like for many sets of rows and many D |
| `symmetric` | sums of Gram matrices, rank-one changes and inverses, in place |
| `threads` | independent pieces of work side by side |

Nothing here knows what a hold-out is. Everything is a pure function or a small object made once.
Arguments stay unchanged unless `overwrite=True` or `out=` says otherwise. Nothing loops over rows
in Python, and nothing is repaired silently: a numerically singular matrix is an error that says
what to do, or is reported as singular.
"""

from holdfast.linalg.constraint import Complement, orthonormal_rows, orthonormal_stacks
from holdfast.linalg.definite import Definite
from holdfast.linalg.eigen import eigh
from holdfast.linalg.graded import Graded, coordinates, scaled_cholesky, stacked_qr, triangle_of
from holdfast.linalg.products import weighted_products, whitened_products
from holdfast.linalg.shifts import (
    CHOLESKY_UP_TO,
    Tridiagonal,
    cholesky_solutions,
    reciprocal_shifts,
    solve_shifted,
    solve_with_looks,
)
from holdfast.linalg.symmetric import (
    add_gram,
    mirror,
    not_definite,
    shifted_inverse,
    solve_small,
    submatrix,
    subtract_outer,
)
from holdfast.linalg.threads import (
    SMALL,
    blas_threads,
    one_blas_thread,
    piece_threads,
    pieces_alone,
    run_pieces,
    threads_for,
)
from holdfast.linalg.whitening import Whitening, cholesky_basis

__all__ = [
    "CHOLESKY_UP_TO",
    "SMALL",
    "Complement",
    "Definite",
    "Graded",
    "Tridiagonal",
    "Whitening",
    "add_gram",
    "blas_threads",
    "cholesky_basis",
    "cholesky_solutions",
    "coordinates",
    "eigh",
    "mirror",
    "not_definite",
    "one_blas_thread",
    "orthonormal_rows",
    "orthonormal_stacks",
    "piece_threads",
    "pieces_alone",
    "reciprocal_shifts",
    "run_pieces",
    "scaled_cholesky",
    "shifted_inverse",
    "solve_shifted",
    "solve_small",
    "solve_with_looks",
    "stacked_qr",
    "submatrix",
    "subtract_outer",
    "threads_for",
    "triangle_of",
    "weighted_products",
    "whitened_products",
]
