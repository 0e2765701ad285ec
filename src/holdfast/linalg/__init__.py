"""Dense linear algebra on float64 arrays: the numeric ground that the rest stands on.

| module | what it answers |
|---|---|
| `eigen` | eigendecomposition of a symmetric matrix |
| `whitening` | Cholesky factor of the basis kernel, and rows of K in its coordinates |
| `deflation` | a symmetric matrix without one direction (unpenalised bias) |
| `constraint` | a symmetric matrix without the span of a few rows (removed basis rows) |
| `shifts` | many systems (A + alpha I) x = z from one reduction of A |
| `products` | V D Vᵀ for many sets of rows and many D |
| `residual`, `direct`, `conjugate` | the held-out residuals of many held-out sets and alphas |
| `symmetric` | sums of Gram matrices, rank-one changes, inverses, in place |
| `threads` | independent pieces of work side by side |

Everything is a pure function or a frozen dataclass. Arguments stay unchanged unless an
`overwrite=True` or `out=` says otherwise. Nothing loops over rows in Python, and nothing is
repaired silently: a matrix that is numerically singular is an error with a remedy.
"""

from holdfast.linalg.conjugate import solve_cg
from holdfast.linalg.constraint import Complement, orthonormal_rows
from holdfast.linalg.deflation import Deflation
from holdfast.linalg.direct import solve_direct, solve_systems
from holdfast.linalg.eigen import eigh
from holdfast.linalg.products import weighted_products
from holdfast.linalg.residual import HeldOutRows
from holdfast.linalg.shifts import Spectrum, Tridiagonal
from holdfast.linalg.symmetric import (
    add_gram,
    mirror,
    not_definite,
    shifted_inverse,
    subtract_outer,
)
from holdfast.linalg.threads import blas_threads, one_blas_thread, run_pieces, threads_for
from holdfast.linalg.whitening import Whitening, cholesky_basis

__all__ = [
    "Complement",
    "Deflation",
    "HeldOutRows",
    "Spectrum",
    "Tridiagonal",
    "Whitening",
    "add_gram",
    "blas_threads",
    "cholesky_basis",
    "eigh",
    "mirror",
    "not_definite",
    "one_blas_thread",
    "orthonormal_rows",
    "run_pieces",
    "shifted_inverse",
    "solve_cg",
    "solve_direct",
    "solve_systems",
    "subtract_outer",
    "threads_for",
    "weighted_products",
]
