"""Many systems (A + alpha I) x = z with one symmetric A: reduce once, then O(p) per alpha."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack, solve_banded

from holdfast._typing import FloatArray, IntArray
from holdfast.exceptions import KernelError
from holdfast.linalg._lapack import dormqr, dpttrf, dpttrs, symmetric_workspace
from holdfast.linalg._nogil import dsytrd
from holdfast.linalg.eigen import eigh
from holdfast.linalg.symmetric import not_definite

_DORMQR_BLOCK = 64  # columns of LAPACK's block reflectors: sizes the workspace
_GRADED = 10.0  # the order of the coordinates matters if the diagonal grows by more than this


def _not_positive(alpha: float, pivot: float, p: int) -> KernelError:
    return KernelError(
        f"the {p} x {p} system is not positive definite at alpha = {alpha:.3g} (a pivot of "
        f"{pivot:.3g}): its solution would be rounding error. Use a larger alpha, a larger "
        "`jitter`, or a positive semidefinite kernel",
        remedies=("alphas",),
    )


def _grows(diagonal: FloatArray) -> bool:
    quarter = -(-len(diagonal) // 4)
    first, last = np.abs(diagonal[:quarter]).sum(), np.abs(diagonal[-quarter:]).sum()
    return bool(last > _GRADED * first)


@dataclass(frozen=True)
class Tridiagonal:
    """A = Q T Qᵀ with tridiagonal T, ready to solve (A + alpha I) x = z for many alphas.

    Attributes
    ----------
    reflectors : (p, p) float64, Fortran order
        Householder vectors of Q below the subdiagonal, as `dsytrd` leaves them.
    scales : (p − 1,) float64
        Their factors tau.
    diagonal, offdiagonal : (p,) and (p − 1,) float64
        T.
    flipped : bool
        Whether the coordinates were taken in reverse order.

    Notes
    -----
    In a graded matrix (such as the Gram matrix in the coordinates of its own eigenvectors) the
    reduction keeps small entries to full relative accuracy if the large ones come first, and loses
    them if they come last: errors of 1e-14 against 1e-8 at a condition of 1e12. So a matrix whose
    diagonal grows is reduced in reverse order.
    """

    reflectors: FloatArray
    scales: FloatArray
    diagonal: FloatArray
    offdiagonal: FloatArray
    flipped: bool = False

    @classmethod
    def reduce(cls, A: FloatArray, overwrite: bool = False) -> Tridiagonal:
        """Return the reduction of the symmetric `A` (p, p), in its own memory if `overwrite`.

        Notes
        -----
        `dsytrd`, 4/3 p³ flops, half of them matrix-vector products: 4 to 5 times the time of a
        Cholesky factorisation while A fits into the cache, a third of an eigendecomposition.
        """
        p = A.shape[0]
        if p < 2:
            return cls(np.zeros((p, p)), np.zeros(0), np.array(np.diag(A)), np.zeros(0))
        workspace = symmetric_workspace(A, overwrite)
        flipped = _grows(np.diag(workspace))
        if flipped:
            flat = workspace.T.reshape(-1)  # reversed memory is the matrix in reverse order
            flat[:] = flat[::-1].copy()
        d, e, tau = dsytrd(workspace)
        return cls(workspace, tau, d, e, flipped)

    def solve(self, Z: FloatArray, alphas: FloatArray) -> FloatArray:
        """Return x (a, p, v) with (A + alpha I) x = Z (p, v) for each of `alphas` (a,).

        Raises
        ------
        KernelError
            If A + alpha I is not positive definite to working precision for one of the alphas.

        Notes
        -----
        Qᵀ Z once, an L D Lᵀ factorisation of T + alpha I per alpha (O(p v)), and Q times all
        solutions at once: 2 p² v (1 + a) flops. The errors are those of a Cholesky
        factorisation, ≈ eps (‖A‖ + alpha) / (lambda_min + alpha). The result is a view of a
        (v, a, p) array.
        """
        p, v = Z.shape
        rotated = self._apply(np.array(self._ordered(Z).T, order="C"), transposed=True)
        solutions = np.empty((v, len(alphas), p))
        solutions[:] = rotated[:, None]
        self._solve_shifted(alphas, solutions)
        self._apply(solutions.reshape(v * len(alphas), p), transposed=False)
        return self._ordered(solutions.transpose(1, 2, 0))

    def definite_from(self, alphas: FloatArray) -> int:
        """Return how many of the increasing `alphas` (a,) leave A + alpha I indefinite."""
        offdiagonal = np.append(self.offdiagonal, 0.0)[: max(len(self.diagonal) - 1, 1)]

        def definite(a: int) -> bool:
            d, _, info = dpttrf(self.diagonal + alphas[a], offdiagonal)
            return not info and bool(d.min() > 0.0)

        return bisect_left(range(len(alphas)), True, key=definite)

    def random_solutions(self, n: FloatArray, alpha: float) -> FloatArray:
        """Return L⁻ᵀn (p, k) with LLᵀ = A + alpha I: normal vectors of covariance (A + alpha I)⁻¹.

        Raises
        ------
        KernelError
            If A + alpha I is not positive definite to working precision.
        """
        p = len(self.diagonal)
        d, e, info = dpttrf(
            self.diagonal + alpha, np.append(self.offdiagonal, 0.0)[: max(p - 1, 1)]
        )
        if info or not d.min() > 0.0:
            raise _not_positive(alpha, float(d.min()), p)
        bands = np.ones((2, p))
        bands[0, 1:] = e[: p - 1]
        x = solve_banded((0, 1), bands, n / np.sqrt(d)[:, None], check_finite=False)
        rows = self._apply(np.array(x.T, order="C"), transposed=False)
        return self._ordered(rows.T)

    def refine(self, A: FloatArray, Z: FloatArray, alphas: FloatArray, x: FloatArray) -> FloatArray:
        """Return `x` (a, p, v) after one step of iterative refinement.

        Parameters
        ----------
        A : (p, p) float64
            The matrix that was reduced.
        Z : (p, v) float64
        alphas : (a,) float64
        x : (a, p, v) float64
            Solutions of (A + alpha I) x = Z as `solve` returns them.

        Notes
        -----
        The reduction mixes large and small entries of A; a residual computed with A itself does
        not. After one step the solution is as good as that of a Cholesky factorisation, which keeps
        the accuracy of small entries (Skeel 1980). 6 p² v a flops.
        """
        a, p, v = x.shape
        solutions = np.ascontiguousarray(x.transpose(2, 0, 1)).reshape(v * a, p)
        # One product for all shifts; A is symmetric.
        residual = (solutions @ A).reshape(v, a, p)
        residual += alphas[:, None] * solutions.reshape(v, a, p)
        np.subtract(Z.T[:, None], residual, out=residual)
        rows = np.ascontiguousarray(residual[..., ::-1]) if self.flipped else residual
        self._apply(rows.reshape(v * a, p), transposed=True)
        self._solve_shifted(alphas, rows)
        self._apply(rows.reshape(v * a, p), transposed=False)
        return np.asarray(x + self._ordered(rows.transpose(1, 2, 0)))

    def _ordered(self, x: FloatArray) -> FloatArray:
        """Return `x` (…, p, v) with its coordinates in the order of the reduction, or back."""
        return x[..., ::-1, :] if self.flipped else x

    def _solve_shifted(self, alphas: FloatArray, x: FloatArray) -> None:
        """Overwrite the rows of `x` (v, a, p) by the solutions of (T + alpha I) x = row.

        The systems of all alphas are one tridiagonal system with zeros between them.
        """
        v, a, p = x.shape
        if x.size == 0:
            return
        d, e = self.diagonal + np.asarray(alphas)[:, None], np.zeros((a, p))
        e[:, :-1] = self.offdiagonal
        flat_d, flat_e = d.reshape(-1), e.reshape(-1)[: max(a * p - 1, 1)]
        flat_d, flat_e, info = dpttrf(flat_d, flat_e, overwrite_d=1, overwrite_e=1)
        if info != 0 or not flat_d.min() > 0.0:
            index = (info - 1 if info > 0 else int(flat_d.argmin())) // p
            raise _not_positive(float(alphas[index]), float(d[index].min()), p)
        columns = x.reshape(v, a * p).T
        solved, _ = dpttrs(flat_d, flat_e, columns, overwrite_b=1)
        assert np.shares_memory(solved, x), "LAPACK works in place on Fortran-ordered columns"

    def _apply(self, rows: FloatArray, transposed: bool) -> FloatArray:
        """Overwrite each row r of the C-ordered `rows` (k, p) by Q r, or by Qᵀ r."""
        p = self.diagonal.shape[0]
        if p < 2 or len(rows) == 0:
            return rows
        # The reflectors act on coordinates 1 … p − 1 and sit in reflectors[1:, :-1]. Seen from
        # the second element on, the same memory is a contiguous (p, p − 1) array whose leading
        # p − 1 rows are that block: dormqr takes it without a copy.
        block = self.reflectors.T.ravel()[1 : 1 + p * (p - 1)].reshape(p, p - 1, order="F")
        tail = np.ascontiguousarray(rows[:, 1:])
        trans = "T" if transposed else "N"
        lwork = max(1, len(rows)) * _DORMQR_BLOCK
        result, _, info = dormqr("L", trans, block, self.scales, tail.T, lwork, overwrite_c=1)
        assert info == 0, info
        rows[:, 1:] = result.T
        return rows


#: For at most this many shifts, a Cholesky factorisation of each beats one tridiagonal reduction.
CHOLESKY_UP_TO = 4
#: How far apart diagonal entries may be if a reduction, which mixes them, is to be accurate.
ALIKE = 1e8


def solve_shifted(A: FloatArray, rhs: FloatArray, alphas: FloatArray) -> FloatArray:
    """Return x (a, p, v) with (A + alpha I) x = rhs, the cheapest way for this many shifts."""
    return solve_with_looks(A, rhs, rhs[:, :0], alphas)[0]


def solve_with_looks(
    A: FloatArray, rhs: FloatArray, looks: FloatArray, alphas: FloatArray
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return x (a, p, v) with (A + alpha I) x = rhs, and rough solutions for other sides.

    Parameters
    ----------
    A : (p, p) float64
        Symmetric and positive semidefinite. Unchanged.
    rhs : (p, v) float64
    looks : (p, l) float64
        Right-hand sides whose solutions need not be accurate, nor be there at every shift.
    alphas : (a,) float64
        Increasing where there are looks.

    Returns
    -------
    x : (a, p, v)
    y : (k, p, l)
        Solutions for the looks at k of the shifts.
    owner : (a,) int
        Which of these stands for each shift: the nearest below.

    Raises
    ------
    KernelError
        If A + alpha I is not positive definite.

    Notes
    -----
    Solutions by a reduction are refined once: the reduction mixes large and small entries of A, a
    residual computed with A itself does not. Refinement costs 6 p² for each right-hand side and
    shift; where there are many, factorisations are cheaper.
    """
    p, v = rhs.shape
    each, both = np.arange(alphas.size), np.hstack([rhs, looks])
    if not p:  # one row, which the bias fits exactly
        return np.zeros((alphas.size, p, v)), np.zeros((alphas.size, p, looks.shape[1])), each
    diagonal = np.abs(np.diag(A)) + float(np.min(alphas))
    alike = float(diagonal.max()) <= ALIKE * float(diagonal.min())
    try:
        if alphas.size > CHOLESKY_UP_TO and v < p / 12 and alike:
            reduced = Tridiagonal.reduce(A)
            x = reduced.refine(A, rhs, alphas, reduced.solve(rhs, alphas))
            some = np.array([0, alphas.size // 2])
            return x, reduced.solve(looks, alphas[some]), (each >= some[1]).astype(np.int64)
        x = cholesky_solutions(A, both, alphas)
    except KernelError:
        # An exact matrix without a factorisation: its rounding errors are larger than the penalty.
        Lambda, V = eigh(A)
        if Lambda[0] < -100.0 * p * np.finfo(np.float64).eps * Lambda[-1]:
            raise
        x = _by_spectrum(np.maximum(Lambda, 0.0), V, both, alphas)
    return x[..., :v], x[..., v:], each


def _by_spectrum(
    Lambda: FloatArray, V: FloatArray, rhs: FloatArray, alphas: FloatArray
) -> FloatArray:
    """Return the solutions from the eigendecomposition of A."""
    D = reciprocal_shifts(Lambda, alphas, np.ones(len(Lambda)))
    return np.asarray(V @ (D[:, :, None] * (V.T @ rhs)))


def cholesky_solutions(A: FloatArray, rhs: FloatArray, alphas: FloatArray) -> FloatArray:
    """Return x (a, p, v) by a Cholesky factorisation for each shift, whatever the units of A.

    Raises
    ------
    KernelError
        If A + alpha I is not positive definite to working precision.
    """
    p, v = rhs.shape
    solutions = np.empty((alphas.size, p, v))
    for a, alpha in enumerate(alphas):
        shifted = A.copy()
        shifted[np.diag_indices(p)] += alpha
        # The transpose of a C-ordered symmetric matrix is Fortran-ordered: no copy.
        _, solutions[a], info = lapack.dposv(shifted.T, rhs, lower=1, overwrite_a=1)
        if info != 0:
            raise not_definite(float(alpha), info, p)
    return solutions


def reciprocal_shifts(
    Lambda: FloatArray, alphas: FloatArray | float, mask: FloatArray
) -> FloatArray:
    """Return 1/(Lambda + alpha mask), shape (a, p), or (p,) for a single alpha."""
    return np.asarray(1.0 / (Lambda + np.multiply.outer(alphas, mask)))
