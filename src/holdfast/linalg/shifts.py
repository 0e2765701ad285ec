"""Many systems (A + alpha I) x = z with one symmetric A: reduce once, then O(p) per alpha.

Two reductions with one interface, `reduce` and `solve`. `Tridiagonal` costs a third to a fifth of
`Spectrum` and is the choice when only solutions are wanted; `Spectrum` also gives the eigenvalues.
"""

from dataclasses import dataclass

import numpy as np

from holdfast._typing import FloatArray
from holdfast.exceptions import KernelError
from holdfast.linalg._lapack import dormqr, symmetric_workspace
from holdfast.linalg._nogil import dpttrf, dpttrs, dsytrd
from holdfast.linalg.eigen import eigh

_DORMQR_BLOCK = 64  # columns of LAPACK's block reflectors: sizes the workspace
_GRADED = 10.0  # growth along the diagonal from which on the order of the coordinates matters


def _not_positive(alpha: float, pivot: float, p: int) -> KernelError:
    return KernelError(
        f"the {p} x {p} system is not positive definite at alpha = {alpha:.3g} (a pivot of "
        f"{pivot:.3g}): no digit of its solution can be trusted. Use a larger alpha, a larger "
        "`jitter`, or a positive semidefinite kernel"
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
    On a graded matrix (the Gram matrix in the coordinates of its own eigenvectors) the reduction
    keeps small entries to full relative accuracy if the large ones come first, and loses them if
    they come last: errors of 1e-14 against 1e-8 at a condition of 1e12. So a matrix whose
    diagonal grows is reduced in reverse order.
    """

    reflectors: FloatArray
    scales: FloatArray
    diagonal: FloatArray
    offdiagonal: FloatArray
    flipped: bool = False

    @classmethod
    def reduce(cls, A: FloatArray, overwrite: bool = False) -> "Tridiagonal":
        """Return the reduction of the symmetric `A` (p, p), destroying `A` if `overwrite`.

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
        The reduction mixes large and small entries of A, a residual with A itself does not: after
        one step the solution is as good as that of a Cholesky factorisation (Skeel 1980), which
        keeps the digits of small entries. 6 p² v a flops.
        """
        a, p, v = x.shape
        residual = Z - A @ x - alphas[:, None, None] * x
        rows = np.array(self._ordered(residual).transpose(2, 0, 1), order="C")  # (v, a, p)
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
        flat_d, flat_e = d.reshape(-1), e.reshape(-1)[:-1]
        info = dpttrf(flat_d, flat_e)
        if info != 0 or not flat_d.min() > 0.0:
            index = (info - 1 if info > 0 else int(flat_d.argmin())) // p
            raise _not_positive(float(alphas[index]), float(d[index].min()), p)
        dpttrs(flat_d, flat_e, x.reshape(v, a * p).T)

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


@dataclass(frozen=True)
class Spectrum:
    """A = V Λ Vᵀ, with the interface of `Tridiagonal`.

    Attributes
    ----------
    Lambda : (p,) float64
        Eigenvalues, ascending.
    V : (p, p) float64, Fortran order
        Eigenvectors in columns.
    """

    Lambda: FloatArray
    V: FloatArray

    @classmethod
    def reduce(cls, A: FloatArray, overwrite: bool = False) -> "Spectrum":
        """Return the eigendecomposition of the symmetric `A`, destroying `A` if `overwrite`."""
        return cls(*eigh(A, overwrite=overwrite))

    def solve(self, Z: FloatArray, alphas: FloatArray) -> FloatArray:
        """Return x (a, p, v) with (A + alpha I) x = Z (p, v) for each of `alphas` (a,).

        Raises
        ------
        KernelError
            If an eigenvalue of A + alpha I is not positive.

        Notes
        -----
        2 p² v (1 + a) flops. The result is a view of an (a, v, p) array.
        """
        p, v = Z.shape
        shifted = self.Lambda + np.asarray(alphas)[:, None]  # (a, p)
        if shifted.size and not shifted.min() > 0.0:
            index = int(shifted.min(axis=1).argmin())
            raise _not_positive(float(alphas[index]), float(shifted.min()), p)
        scaled = (Z.T @ self.V)[None] / shifted[:, None, :]  # (a, v, p)
        solutions = scaled.reshape(len(alphas) * v, p) @ self.V.T
        return solutions.reshape(len(alphas), v, p).swapaxes(1, 2)
