"""Many systems (A + alpha I) x = z with one symmetric A: reduce once, then O(p) per alpha."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import lapack

from holdfast._typing import FloatArray
from holdfast.exceptions import KernelError
from holdfast.linalg._lapack import dormqr, dpttrf, dpttrs, symmetric_workspace
from holdfast.linalg._nogil import dsytrd
from holdfast.linalg.eigen import eigh
from holdfast.linalg.symmetric import not_definite

_DORMQR_BLOCK = 64  # columns of LAPACK's block reflectors: sizes the workspace
_INVERSE_STEPS = 4  # two are not enough from a start that is nearly orthogonal to the eigenvector
_GRADED = 10.0  # the order of the coordinates matters if the diagonal grows by more than this


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

    def smallest(self, alphas: FloatArray) -> FloatArray:
        """Return about the smallest eigenvalue of T + alpha I for each of increasing alphas.

        Inverse steps at the first alpha where it is positive tell all later ones; −inf before.
        """
        found = np.full(len(alphas), -np.inf)
        # SciPy's wrapper wants one number even where there is none.
        beside = self.offdiagonal if self.offdiagonal.size else np.zeros(1)
        start = np.random.default_rng(0).standard_normal((len(self.diagonal), 1))
        for a, alpha in enumerate(alphas):
            d, e, info = dpttrf(self.diagonal + alpha, beside)
            if info == 0 and d.min() > 0.0:
                x, smallest = start, 1.0 / float(np.linalg.norm(start))
                for _ in range(_INVERSE_STEPS):
                    x, _ = dpttrs(d, e, x * smallest)
                    smallest = 1.0 / float(np.linalg.norm(x))
                found[a:] = smallest + (alphas[a:] - alpha)
                break
        return found

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
        the digits of small entries (Skeel 1980). 6 p² v a flops.
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

    def coordinates(self, rows: FloatArray) -> FloatArray:
        """Return the rows (k, p) in the coordinates of T: products of rows stay what they are.

        With `reduced_solutions`, products of solutions with rows need no solution in the old
        coordinates: that saves 2 p² flops for each of them.
        """
        return self._apply(np.array(self._ordered(rows.T).T, order="C"), transposed=True)

    def reduced_solutions(self, Z: FloatArray, alphas: FloatArray) -> FloatArray:
        """Return what `solve` does in the coordinates of T, shape (v, a, p)."""
        rotated = self.coordinates(Z.T)
        solutions = np.empty((len(rotated), len(alphas), Z.shape[0]))
        solutions[:] = rotated[:, None]
        self._solve_shifted(alphas, solutions)
        return solutions

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
#: How far apart diagonal entries may be if a reduction, which mixes them, is to keep their digits.
ALIKE = 1e4
#: Relative error whose square is rounding error.
HALF_OF_THE_DIGITS = 1e-9
#: A direction need not show in a single pivot: it may be shrunk to this share of what a pivot may.
DIRECTION = 0.1


@dataclass(frozen=True)
class Accuracy:
    """How well a symmetric matrix A is known, and what a solution with it needs.

    Attributes
    ----------
    size : (p,) float64
        Size of the numbers that each diagonal entry of A was computed from.
    floor : float
        A pivot below this share of its size has lost too many digits.
    refine : bool
        Whether solutions by a reduction are refined once. For many right-hand sides, factorisations
        are then cheaper.
    definite : bool
        If False, the eigendecomposition of A is used.
    """

    size: FloatArray
    floor: float = 0.0
    refine: bool = False
    definite: bool = True

    def mixed(self, p: int) -> Accuracy:
        """Return the same for a matrix of order p whose coordinates were mixed."""
        return replace(self, size=np.full(p, self.size.max(initial=0.0)))


def solve_shifted(
    A: FloatArray, rhs: FloatArray, alphas: FloatArray, accuracy: Accuracy | None = None
) -> FloatArray:
    """Return x (a, p, v) with (A + alpha I) x = rhs, the cheapest way for this many shifts.

    Parameters
    ----------
    A : (p, p) float64
        Symmetric; positive semidefinite if `accuracy` says so. Unchanged.
    rhs : (p, v) float64
    alphas : (a,) float64
    accuracy : Accuracy or None
        None: A is exact and positive semidefinite.

    Returns
    -------
    x : (a, p, v)
        NaN at a shift where a pivot is below its floor.

    Raises
    ------
    KernelError
        If A + alpha I is singular, or not positive definite where it should be.
    """
    p, v = rhs.shape
    if not p:  # one row, which the bias fits exactly
        return np.zeros((alphas.size, p, v))
    how = Accuracy(np.zeros(p)) if accuracy is None else accuracy
    if not how.definite:
        return _by_spectrum(*eigh(A), rhs, alphas)
    try:
        return _by_factors(A, rhs, alphas, how)
    except KernelError:
        # An exact matrix without a factorisation: its rounding errors are larger than the penalty.
        Lambda, V = eigh(A)
        if not how.refine or Lambda[0] < -100.0 * p * np.finfo(np.float64).eps * Lambda[-1]:
            raise
        return _by_spectrum(np.maximum(Lambda, 0.0), V, rhs, alphas)


def _by_spectrum(
    Lambda: FloatArray, V: FloatArray, rhs: FloatArray, alphas: FloatArray
) -> FloatArray:
    """Return the solutions from the eigendecomposition of A."""
    D = reciprocal_shifts(Lambda, alphas, np.ones(len(Lambda)))
    return np.asarray(V @ (D[:, :, None] * (V.T @ rhs)))


def _by_factors(A: FloatArray, rhs: FloatArray, alphas: FloatArray, how: Accuracy) -> FloatArray:
    """Return the solutions by one reduction, or by a Cholesky factorisation for each shift."""
    p, v = rhs.shape
    many_sides = how.refine and v >= p / 12
    if alphas.size > CHOLESKY_UP_TO and not many_sides and _alike(A, how, alphas):
        return _by_reduction(A, rhs, alphas, how)
    solutions = np.empty((alphas.size, p, v))
    for a, alpha in enumerate(alphas):
        shifted = A.copy()
        shifted[np.diag_indices(p)] += alpha
        factor, solutions[a], info = lapack.dposv(shifted, rhs, lower=1, overwrite_a=1)
        pivots = np.square(np.diag(factor))
        if info != 0 and how.floor == 0.0:
            raise not_definite(float(alpha), info, p)
        size = how.size + alpha
        if info != 0 or (pivots < how.floor * size).any() or _weak(factor, size, how.floor):
            solutions[a] = np.nan
    return solutions


def _weak(L: FloatArray, size: FloatArray, floor: float) -> bool:
    """Whether LLᵀ shrinks some direction that shows in no pivot, in units of the sizes."""
    if not floor:
        return False
    left, info = lapack.dpocon(L / np.sqrt(size)[:, None], 1.0, uplo="L")
    assert info == 0, info
    return bool(left < DIRECTION * floor)


def _alike(A: FloatArray, how: Accuracy, alphas: FloatArray) -> bool:
    """Whether the coordinates may be mixed, or A is exact and will be refined."""
    size = how.size + alphas.min()
    return how.refine or float(size.max()) <= ALIKE * float(size.min())


def _by_reduction(A: FloatArray, rhs: FloatArray, alphas: FloatArray, how: Accuracy) -> FloatArray:
    """Return the solutions through one tridiagonal reduction."""
    reduced = Tridiagonal.reduce(A)
    if how.floor == 0.0:
        x = reduced.solve(rhs, alphas)
        return _refined(reduced, A, rhs, alphas, x) if how.refine else x
    good = reduced.smallest(alphas) >= how.floor * (float(how.size.max()) + alphas)
    x = np.full((alphas.size, *rhs.shape), np.nan)
    if good.any():
        x[good] = reduced.solve(rhs, alphas[good])
    return x


def _refined(
    reduced: Tridiagonal, A: FloatArray, rhs: FloatArray, alphas: FloatArray, x: FloatArray
) -> FloatArray:
    """Return solutions after one step of refinement, or two where the first one changed much.

    A step multiplies the relative error by about its size, so one is enough for half of the digits.
    """
    better = reduced.refine(A, rhs, alphas, x)
    change = np.abs(better - x).max(axis=(1, 2), initial=0.0)
    size = np.abs(better).max(axis=(1, 2), initial=0.0)
    again = ~(change <= HALF_OF_THE_DIGITS * size)
    if again.any():
        better[again] = reduced.refine(A, rhs, alphas[again], better[again])
    return better


def reciprocal_shifts(
    Lambda: FloatArray, alphas: FloatArray | float, mask: FloatArray
) -> FloatArray:
    """Return 1/(Lambda + alpha mask), shape (a, p), or (p,) for a single alpha.

    Raises
    ------
    KernelError
        If a penalty meets a negative eigenvalue: A + alpha I is singular there.
    """
    shifted = Lambda + np.multiply.outer(alphas, mask)
    if Lambda.min(initial=0.0) < 0:  # an indefinite kernel, declared as such
        nearest = np.abs(shifted).min(axis=-1)
        if (nearest < 1e-10 * np.abs(shifted).max()).any():
            alpha = np.ravel(alphas)[np.argmin(nearest)]
            raise KernelError(
                f"the kernel is indefinite and has an eigenvalue at −{alpha:.3g}, so the system at "
                "that alpha is singular. Use other alphas, or a positive semidefinite kernel."
            )
    return np.asarray(1.0 / shifted)
