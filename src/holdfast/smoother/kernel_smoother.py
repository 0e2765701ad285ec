"""The smoother of a kernel matrix: dense models, f(x) = Σ a_i k(x, x_i), the penalty α aᵀKa.

Rows are scaled by √w. The unpenalised columns are deflated: everything happens on the orthogonal
complement of Q, so that their null vectors never mix with the null space of K.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import cached_property
from threading import RLock
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from holdfast._typing import FloatArray, IntArray
from holdfast.exceptions import KernelError, NotSupportedError
from holdfast.experiments import Shape, Tasks
from holdfast.kernels import Linear
from holdfast.kernels.matrix import KernelData, KernelRows, PrecomputedRows
from holdfast.linalg import (
    Complement,
    eigh,
    run_pieces,
    shifted_inverse,
    solve_shifted,
    solve_with_looks,
    submatrix,
    threads_for,
    triangle_of,
)
from holdfast.smoother.base import Fit, Form, OtherBasis, Sizes, Smoother
from holdfast.smoother.bordered import Bordered
from holdfast.smoother.factor import EPS, INVERSE_SHARE, SPECTRUM_SHARE, Factor, KernelFactor
from holdfast.smoother.feature_smoother import FeatureSmoother, by_penalty
from holdfast.smoother.features import ColumnFeatures
from holdfast.smoother.held import LOOKS, Held, HeldCoordinates, noise, scaled_products
from holdfast.smoother.inverse import SIDES, HeldInverse, InverseFactor
from holdfast.smoother.kernel_equations import KernelEquations, deflated_kernel
from holdfast.smoother.outputs import KernelOutputs
from holdfast.smoother.rows import row_blocks
from holdfast.smoother.scale import Targets, Unpenalised

__all__ = ["KernelSmoother"]

#: A linear kernel is trained from scratch by its rows if their triangle takes fewer operations.
QUICK = 1e8
#: Steps of the power iteration for the norm of the kernel matrix, which falls short by little.
POWER_STEPS = 4


class KernelSmoother(Smoother):
    """The smoother of the kernel matrix of all rows.

    Parameters
    ----------
    data : KernelData or ndarray of shape (m, m)
        The rows with their kernel, or the kernel matrix itself, which is kept as it is.
    weights : ndarray of shape (m,)
    Y : ndarray of shape (m, v)
    unpenalised : Unpenalised
    memory : float
        Bytes that the smoother may use.
    trusted : bool
        Whether the kernel is known to be positive semidefinite, as those of this package are.
    """

    form: ClassVar[Form] = "kernel"
    # Eigenvectors mix all rows, and light rows pay for heavy ones; an inverse does not mix them.
    repairs: ClassVar[tuple[str, ...]] = ("single", "retrain")

    def __init__(
        self,
        data: KernelData | FloatArray,
        weights: FloatArray,
        Y: FloatArray,
        unpenalised: Unpenalised,
        memory: float = float("inf"),
        *,
        trusted: bool = True,
    ) -> None:
        super().__init__(weights, Y, unpenalised, memory)
        self.data, self._trusted = data, trusted
        self._K = data if isinstance(data, np.ndarray) else None
        self._spectrum: KernelFactor | None = None
        self._last_inverse: InverseFactor | None = None

    @property
    def K(self) -> FloatArray:
        """The kernel matrix (m, m)."""
        if self._K is None:  # threads that find it ready need no lock
            with self._lock:
                if self._K is None:
                    assert not isinstance(self.data, np.ndarray)
                    every = slice(0, len(self.data))
                    self._K = self.data.block(every, every)
        return self._K

    @property
    def n_basis(self) -> None:
        """None: every row is a basis row."""
        return None

    def sizes(self, tasks: Tasks) -> Sizes:
        """Return what a plan for these tasks needs to know."""
        m, known = self.weights.size, self._spectrum is not None
        return Sizes(self.form, m, m, self.targets.count, None, self.memory, known)

    def training_work(self, held: int) -> float:
        """Return n³ for a factorisation, its refinement in extended precision, and the kernel.

        Or 10 n³ for a linear kernel that is trained by QR.
        """
        n = float(self.weights.size - held)
        X: Any = getattr(self.data, "X", ())
        if self._triangle is not None:
            return 10.0 * n**3
        numbers = X.nnz if sp.issparse(X) else np.size(X)
        return n**3 + 200.0 * n**2 + 2.0 * n * numbers

    def single_work(self) -> float:
        """Return what an inverse takes."""
        return 2.0 * float(self.weights.size) ** 3

    def fit_work(self) -> float:
        """Return what an eigendecomposition takes."""
        return 9.0 * float(self.weights.size) ** 3

    # -- factors -----------------------------------------------------------------------------------

    def factor(self, least: float) -> KernelFactor:
        """Return the spectrum of K, which holds for every penalty."""
        with self._lock:
            if self._spectrum is None:
                A, complement = self._deflated()
                Lambda, V = eigh(A, overwrite=True)
                self._spectrum = self._kernel_factor(Lambda, V, complement)
            return self._spectrum

    def single(self, alpha: float) -> Factor:
        """Return the inverse at one penalty.

        A kernel that its rounding errors make indefinite has no Cholesky factorisation; its
        spectrum serves any penalty.
        """
        with self._lock:
            if self._last_inverse is not None and self._last_inverse.alpha == alpha:
                return self._last_inverse
            self.require_semidefinite()
            with suppress(KernelError):  # rounding errors may be larger than the penalty
                self._last_inverse = self._inverse(alpha)
                return self._last_inverse
            return self.factor(alpha)

    def factor_for(self, alphas: FloatArray) -> list[tuple[float, IntArray, Factor]]:
        """Return the spectrum if it is there, else an inverse for each penalty."""
        if self._spectrum is not None:
            return [
                (a, columns, self._spectrum.select(columns)) for a, columns in by_penalty(alphas)
            ]
        return [(a, columns, self.single(a).select(columns)) for a, columns in by_penalty(alphas)]

    def _deflated(self) -> tuple[FloatArray, Complement | None]:
        return deflated_kernel(self.K, self.weights, self.unpenalised)

    def _kernel_factor(
        self, Lambda: FloatArray, V: FloatArray, complement: Complement | None
    ) -> KernelFactor:
        """Return the factor for every penalty, from one eigendecomposition.

        Tanaka and Imai 2019 (16) and Pahikkala et al. 2006 (4). Memory: two m × m matrices.
        """
        live, root, s = self.scale.trained, self.scale.root, self.unpenalised.count
        # Rounding is relative to the kernel before the unpenalised columns were taken out.
        _check_definite(Lambda, float(root**2 @ np.abs(np.diag(self.K))))
        Lambda = np.maximum(Lambda, 0.0)
        Ys = self.targets.Ys
        with threads_for(max(s, Ys.shape[1])):  # idle threads would keep spinning beside the pieces
            if complement is not None:
                V = np.hstack([complement.lift(V), self.unpenalised.Q[live]])
            z = V.T @ Ys[live]
        factor = KernelFactor(
            V=V,
            Lambda=np.append(Lambda, np.ones(s)),
            penalised=np.repeat([1.0, 0.0], [Lambda.size, s]),
            z=z,
            targets=self.targets,
            scale=self.scale,
            unpenalised=self.unpenalised,
            rounding=SPECTRUM_SHARE * float(np.abs(Lambda).max(initial=0.0)) + self._forming,
        )
        if self.scale.everything:
            return factor
        rows = np.empty((live.size, V.shape[1]))
        rows[live], rows[~live] = V, self._output_rows(V, np.flatnonzero(~live))
        return replace(factor, V=rows)

    def _output_rows(self, V: FloatArray, rows: IntArray) -> FloatArray:
        """Return output coordinates of rows that are not trained on.

        The dual coefficients are c = V D z, so f(x) = k(x, ·)√w V D z + u(x)·δ, and δ follows from
        the optimality conditions multiplied by Q: its coordinates are −Qᵀ√wK√w V.
        """
        live, s = self.scale.trained, self.unpenalised.count
        root, Q = self.scale.root[live], self.unpenalised.Q[live]
        K_new = self.K[np.ix_(rows, live)] * root
        if not s:
            return np.asarray(K_new @ V)
        inner, U = V[:, :-s], self.unpenalised.U[rows]
        centre = ((Q * root[:, None]).T @ self.K[np.ix_(live, live)] * root) @ inner
        return np.hstack([K_new @ inner - U @ centre, U])

    def _inverse(self, alpha: float) -> InverseFactor:
        """Return G over the trained rows: I − S = αG."""
        A, complement = self._deflated()
        G = shifted_inverse(A, alpha)
        if complement is not None:
            G = complement.lift_symmetric(G)
        live, Q = self.scale.trained, self.unpenalised.Q * self.scale.root[:, None]
        centre = (Q.T @ self.K)[:, live]
        c, rounding = G @ self.targets.Ys[live], INVERSE_SHARE * self._largest
        random = G @ noise(len(G), SIDES)
        values = self.targets, self.scale, self.unpenalised
        return InverseFactor(G, random, alpha, self.K, c, centre, rounding, *values)

    @cached_property
    def _forming(self) -> float:
        """Rounding errors of forming √wK√w without the unpenalised columns, in units of eps.

        The length of its longest row: independent errors of eps times each value. One heavy row
        makes it as large as the norm.
        """
        weights, longest = self.weights, 0.0
        for part in row_blocks(len(self.K), len(self.K)):
            lengths = weights[part] * (np.square(self.K[part]) @ weights)
            longest = max(longest, float(lengths.max(initial=0.0)))
        return float(np.sqrt(longest))

    @cached_property
    def _largest(self) -> float:
        """About ‖√wK√w‖: a few steps of the power iteration."""
        root = self.scale.root * self.scale.trained
        x = root * (1.0 + 0.1 * noise(root.size)[:, 0])
        for _ in range(POWER_STEPS):
            x = root * (self.K @ (root * x))
            size = float(np.linalg.norm(x))
            if not size > 0.0:
                return 0.0
            x /= size
        return size

    def require_semidefinite(self) -> None:
        """Refuse a kernel matrix with a clearly negative eigenvalue, at the price of one Cholesky.

        The spectrum has every eigenvalue and is checked when it is made; this check is for the ways
        that do without the spectrum, and for kernels that were not checked before.
        """
        if not self._trusted and not self._semidefinite:
            raise KernelError(
                "the kernel matrix is not positive semidefinite, so kernel least squares has no "
                "minimum. Use a positive semidefinite kernel.",
                argument="kernel",
            )

    @cached_property
    def _semidefinite(self) -> bool:
        """Whether K has a Cholesky factor after a shift by its rounding errors."""
        K, m = self.K, len(self.K)
        margin = 1e3 * m * EPS * float(np.abs(np.diag(K)).max())
        try:
            np.linalg.cholesky(K + np.diag(np.full(m, margin)))
        except np.linalg.LinAlgError:
            return False
        return True

    # -- models as coefficients --------------------------------------------------------------------

    def coordinates(self, alphas: FloatArray) -> None:
        """Return None: coefficients are those of rows."""
        return None

    def fit(self, alphas: FloatArray) -> Fit:
        """Return coefficients of all rows, zero where the weight is, and the unpenalised ones."""
        live, s = self.scale.trained, self.unpenalised.count
        coef = np.zeros(self.targets.Ys.shape)
        models = self._models(alphas)
        n = len(models) - s
        coef[live] = models[:n]
        return Fit(coef, None, self.unpenalised.coefficients(models[n:] + self.targets.level))

    def _models(self, alphas: FloatArray) -> FloatArray:
        """Return coefficients (n + s, v) of trained rows and unpenalised columns."""
        live = np.flatnonzero(self.scale.trained)
        found = np.empty((live.size + self.unpenalised.count, alphas.size))
        for alpha, owners in by_penalty(alphas):
            columns = slice(None) if owners.size == alphas.size else owners  # no copies
            if self._spectrum is None:
                equations = self._equations(live, self.targets.Ys[live][:, columns])
                x = solve_shifted(equations.A, equations.rhs, np.array([alpha]))
                found[:, columns] = equations.complete(x)[0]
                continue
            factor, n = self.factor(alpha), live.size
            R = factor.R(factor.d(alpha))
            (c,) = scaled_products(factor.trained_rows, R[None], factor.z[:, columns])
            if not self.scale.uniform:
                c *= self.scale.root[live, None]
            found[:n, columns] = c
            if self.unpenalised.count:
                along, Q = self._along[1].T, self.unpenalised.Q[live]  # Qᵀ√wK
                level = Q.T @ self.targets.Ys[live][:, columns] - along[:, live] @ c
                found[n:, columns] = level
        return found

    def outputs(self, factor: Factor | None = None) -> KernelOutputs:
        """Return kernel values with the trained rows, and the unpenalised columns."""
        data = PrecomputedRows(self.data) if isinstance(self.data, np.ndarray) else self.data
        live = np.flatnonzero(self.scale.trained)
        return KernelOutputs(data, live, self.unpenalised.elsewhere())

    def model(self, factor: Factor | None, alphas: FloatArray) -> FloatArray:
        """Return coefficients (v, q) of the trained rows, then along the unpenalised columns."""
        return self.with_level(self._models(alphas).T)

    def held_models(self, factor: Factor, shape: Shape, held: Held, r: FloatArray) -> FloatArray:
        """Return c' (b, v, q): zero on the held-out rows."""
        if isinstance(held, HeldInverse):
            weights = held.coefficients(r)
            weights *= held.root[:, None]
            parts = [weights, held.levels(weights)] if self.unpenalised.count else [weights]
            return np.ascontiguousarray(np.concatenate(parts, axis=1).swapaxes(1, 2))
        assert isinstance(held, HeldCoordinates)
        assert isinstance(factor, KernelFactor)
        live, p = self.scale.trained, factor.size - self.unpenalised.count
        beta = held.betas(r, slice(None))[:, 0]
        weights = beta[:, :, :p] @ factor.eigenvectors.T  # (b, v, n)
        rows = np.broadcast_to(
            (np.cumsum(live) - 1)[shape.H][:, None], (*beta.shape[:2], r.shape[2])
        )
        np.put_along_axis(weights, rows, 0.0, axis=2)
        weights *= self.scale.root[live]
        # Kc has a part along Q of its own, Qᵀ√wKc, which the unpenalised columns take back.
        return np.concatenate([weights, beta[:, :, p:] - weights @ self._along[1][live]], axis=2)

    def published(self, factor: Factor | None, coefficients: FloatArray, alphas: FloatArray) -> Fit:
        """Return coefficients of all rows, zero for those not trained on, and the unpenalised."""
        live = self.scale.trained
        n = int(live.sum())
        dual = np.zeros(self.targets.Ys.shape)
        dual[live] = coefficients.T[:n]
        return Fit(dual, None, self.unpenalised.coefficients(coefficients.T[n:]))

    def fitted_rows(
        self, factor: Factor | None, coefficients: FloatArray, rows: IntArray
    ) -> FloatArray:
        """Return K c + uγ."""
        live = np.flatnonzero(self.scale.trained)
        K, c, level = submatrix(self.K, rows, live), coefficients.T[: live.size], coefficients.T
        return np.asarray(K @ c + self.unpenalised.U[rows] @ level[live.size :])

    def fitted_squares(self, factor: Factor | None, coefficients: FloatArray) -> FloatArray:
        """Return ‖√w(Kc + uγ)‖² over the trained rows."""
        live = np.flatnonzero(self.scale.trained)
        n, flat = live.size, coefficients.reshape(-1, coefficients.shape[-1])
        K = self.K if n == len(self.K) else submatrix(self.K, live, live)
        found = np.empty(len(flat))
        for part in row_blocks(len(flat), n):
            values = flat[part, :n] @ K + flat[part, n:] @ self.unpenalised.U[live].T
            found[part] = np.square(values) @ self.weights[live]
        return found.reshape(coefficients.shape[:-1])

    # -- the Gaussian view -------------------------------------------------------------------------

    @cached_property
    def _along(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """√wQ (m, s), K√wQ (m, s) and Qᵀ√wK√wQ (s, s)."""
        weighted = self.unpenalised.Q * self.scale.root[:, None]
        with threads_for(weighted.shape[1]):  # idle threads would keep spinning beside what follows
            to_level = self.K @ weighted
        return weighted, to_level, weighted.T @ to_level

    def leverages(self, alpha: float) -> FloatArray:
        """Return S_ii by the spectrum if it is known, else by one inverse."""
        factor = self.single(alpha) if self._spectrum is None else self._spectrum
        return factor.leverages(alpha)

    def posterior(self, rows: IntArray, alphas: FloatArray) -> FloatArray:
        """Return (K − K√wG√wK)/α without the unpenalised columns, and what these add."""
        factor, U = self.factor(float(alphas.min())), self.unpenalised.U[rows]
        p = factor.size - self.unpenalised.count
        out, D = factor.outputs(rows, factor.V[rows])[:, :p], factor.D(alphas)[:, :p]
        _, to_level, inner = self._along
        cross = U @ to_level[rows].T
        prior = submatrix(self.K, rows, rows) - cross - cross.T + U @ inner @ U.T
        return np.asarray((prior - (out * D[:, None]) @ out.T) / alphas[:, None, None] + U @ U.T)

    def variances(self, X: Any, alphas: FloatArray) -> FloatArray:
        """Return the same on the diagonal, for new rows."""
        K_new, u, out, factor = self._new_rows(X, float(alphas.min()))
        weighted, _, inner = self._along
        cross = 2.0 * (K_new @ weighted[self.scale.trained]) - u @ inner
        prior = self._diagonal(X) - (cross * u).sum(axis=1)
        left = prior[:, None] - np.square(out) @ factor.D(alphas)[:, : out.shape[1]].T
        return np.asarray(np.maximum(left, 0.0) / alphas + np.square(u).sum(axis=1)[:, None])

    def _new_rows(
        self, X: Any, least: float
    ) -> tuple[FloatArray, FloatArray, FloatArray, KernelFactor]:
        """Return k (k, n) and u (k, s) of new rows, their output coordinates, and the factor."""
        factor, live = self.factor(least), self.scale.trained
        K_new, u = np.split(self.outputs()(X), [int(live.sum())], axis=1)
        centred = (K_new - u @ self._along[1][live].T) * self.scale.root[live]
        return K_new, u, centred @ factor.eigenvectors, factor

    def _diagonal(self, X: Any) -> FloatArray:
        kernel = getattr(self.data, "kernel", None)
        if kernel is None:
            raise NotSupportedError(
                "the variance of a new row needs k(x, x), which a precomputed kernel matrix does "
                "not hold. Pass the rows with a kernel, or basis=...",
                argument="kernel",
                remedies=("basis",),
            )
        return KernelRows(kernel, X).diag()

    def distances(self, tasks: Tasks) -> FloatArray:
        """Return k(x, x) less twice its mean with all rows."""
        return np.asarray(np.diag(self.K) - 2.0 * self.K.mean(axis=1))

    def floor(self, rows: IntArray, alphas: FloatArray) -> FloatArray:
        """Return the data floor of predictions of some rows, each by the model without it.

        eps √(Σ_j k_xj² c_j² + Σ_i u_i² Σ_j k_ij² c_j²) over the spread of y, with the coefficients
        c of the model without the row and u = (K + α)⁻¹k_x, both over the rows that are left.
        """
        live = np.flatnonzero(self.scale.trained)
        H = np.searchsorted(live, rows[self.scale.trained[rows]])
        some = self.targets.some()
        if not H.size:
            return np.zeros(alphas.size)
        G_H, c = self._inverse_rows(H, alphas, some)
        n, root, each = live.size, self.scale.root[live], np.arange(H.size)
        U = G_H / G_H[:, each, H, None]  # (a, h, n): −u beside the row itself
        models = c[:, None] - U[..., None] * c[:, H, None]  # (a, h, n, v)
        models[:, each, H], U[:, each, H] = 0.0, 0.0
        flat = np.square(models * root[:, None]).transpose(2, 0, 1, 3).reshape(n, -1)
        sizes = np.empty(flat.shape)
        for part in row_blocks(n, n):
            K = self.K[live[part]]
            sizes[part] = np.square(K if n == len(K.T) else K[:, live]) @ flat
        each_row = (sizes * np.square(root[:, None])).reshape(n, *models.shape[:2], some.size)
        square = each_row[H, :, each] + np.einsum("akn,nakv->kav", np.square(U), each_row)
        lengths = np.sqrt(square) / (root[H, None, None] * self.targets.spread[some])
        return np.asarray(EPS * lengths.max(axis=(0, 2)))

    def _inverse_rows(
        self, H: IntArray, alphas: FloatArray, columns: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return rows of G (a, h, n) and coefficients G √w y (a, n, v), over the trained rows."""
        live = self.scale.trained
        if self._spectrum is not None:
            factor = self.factor(float(alphas.min()))
            V, R = factor.trained_rows, factor.R(factor.D(alphas))
            c = scaled_products(V, R, factor.z[:, columns])
            return (V[H] * R[:, None]) @ V.T, c
        equations = self._equations(np.flatnonzero(live), self.targets.Ys[live][:, columns])
        ones = np.zeros((int(live.sum()), H.size))
        ones[H, np.arange(H.size)] = 1.0
        lift, v = equations.complement, columns.size
        sides = np.hstack([equations.rhs, ones if lift is None else lift.project(ones)])
        x = solve_shifted(equations.A, sides, alphas)
        x = x if lift is None else lift.lift(x)
        return x[..., v:].swapaxes(1, 2), x[..., :v]

    # -- models without some rows ------------------------------------------------------------------

    def by_fold(
        self, solve: Callable[..., Any], tasks: Tasks, alphas: FloatArray, columns: slice
    ) -> tuple[FloatArray, FloatArray]:
        """Return predictions of each task from the kernel matrix of its training rows.

        Random targets show how much the residual of the equations grows.
        """
        targets, K = self.targets.select(columns), self.K
        self.require_semidefinite()
        values = np.empty((alphas.size, tasks.test.values.size, targets.count))
        error = np.empty((alphas.size, len(tasks)))

        def work(j: int) -> None:
            keep = self.scale.trained.copy()
            keep[tasks.held[j]] = False
            train, test = np.flatnonzero(keep), tasks.test[j]
            equations = self._equations(train, targets.Ys[train])
            looks = noise(len(equations.A))
            x, y, owner = solve_with_looks(equations.A, equations.rhs, looks, alphas)
            models, random = equations.complete(x), equations.centred(y)
            both = np.concatenate([_flat(models), _flat(random)], axis=1)
            f = submatrix(K, test, train) @ both[: train.size]
            f += equations.unpenalised.U[test] @ both[train.size :]
            count = alphas.size * targets.count
            grown = np.abs(f[:, count:]).reshape(-1, len(y), LOOKS).max(axis=(0, 2), initial=0.0)
            looked = np.searchsorted(owner, np.arange(len(y)))
            left = equations.left(x[looked], alphas[looked], targets)
            error[:, j] = (grown * left)[owner]
            where = slice(tasks.test.ptr[j], tasks.test.ptr[j + 1])
            values[:, where] = (
                f[:, :count].reshape(-1, *error.shape[:1], targets.count).swapaxes(0, 1)
            )

        run_pieces(work, range(len(tasks)))
        return values, error

    def _equations(self, train: IntArray, Ys: FloatArray) -> KernelEquations:
        return KernelEquations.of(self.K, self.scale, self.unpenalised, train, Ys)

    def retrain(
        self,
        held: IntArray,
        removed: IntArray,
        test: IntArray,
        alphas: FloatArray,
        columns: slice,
        basis: OtherBasis | None = None,
    ) -> FloatArray:
        """Return predictions by the optimality conditions, as a check on the other ways.

        A linear kernel is trained by QR of its rows, which does not square them.
        """
        if self._triangle is not None:
            rows = ColumnFeatures(self._triangle)
            own = FeatureSmoother(rows, self.weights, self.targets.Y, self.unpenalised)
            return own.restore(own.retrain(held, removed, test, alphas, columns), test, columns)
        keep = self.scale.trained.copy()
        keep[held] = False
        train, U = np.flatnonzero(keep), self.unpenalised.U
        problem = Bordered(
            self._block(train, train),
            U[train],
            self.targets.Y[train][:, columns],
            self.weights[train],
        )
        return problem.predictions(self._block(test, train), U[test], alphas)

    def _block(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Return kernel values for the naive twin, computed again where possible."""
        if isinstance(self.data, np.ndarray):
            return np.asarray(self.data[np.ix_(rows, columns)])
        return self.data.block(rows, columns)

    @cached_property
    def _triangle(self) -> FloatArray | None:
        """L (m, m) with LLᵀ = K, more accurate than K: the rows of a linear kernel, rotated.

        None for other kernels, and where it would take time. Columns in large units come first, so
        that they cost the others nothing.
        """
        X = getattr(self.data, "X", None)
        linear = isinstance(getattr(self.data, "kernel", None), Linear)
        if X is None or not linear or sp.issparse(X):
            return None
        if X.shape[0] ** 2 * X.shape[1] > QUICK:
            return None
        X = np.asarray(X, dtype=np.float64)
        longest = np.argsort(-np.abs(X).max(axis=0), kind="stable")
        return triangle_of(X[:, longest].T).T

    def without(
        self, held: IntArray, removed: IntArray, basis: OtherBasis | None = None
    ) -> KernelSmoother:
        """Return the smoother without rows, on the same kernel matrix."""
        part = self._with(held, self.targets.Y)
        part.data = self.data
        return part

    def remaining(self, held: IntArray, removed: IntArray) -> KernelSmoother:
        """Return the smoother of the rows that are left, on the kernel matrix that is there."""
        return self._with(held, self.original_targets())

    def _with(self, held: IntArray, Y: FloatArray) -> KernelSmoother:
        weights, unpenalised = self._retrained(held)
        return KernelSmoother(self.K, weights, Y, unpenalised, self.memory, trusted=self._trusted)

    def retargeted(self, Y: FloatArray) -> KernelSmoother:
        """Return the smoother with other targets: m² for each of them."""
        other, live = copy(self), self.scale.trained
        other._lock, other.targets = RLock(), Targets.of(Y, self.scale, self.unpenalised)
        other._K, other._last_inverse = self.K, None
        if self._spectrum is not None:
            Ys, V = other.targets.Ys, np.asarray(self._spectrum.V)
            z = V[live].T @ Ys[live]
            other._spectrum = replace(self._spectrum, z=z, targets=other.targets)
        return other


def _check_definite(Lambda: FloatArray, trace: float) -> None:
    """Refuse an indefinite kernel matrix: the penalised problem has no minimum there."""
    low, high = float(Lambda.min(initial=0.0)), float(np.abs(Lambda).max(initial=0.0))
    if low < -100.0 * np.finfo(float).eps * max(Lambda.size * high, trace):
        raise KernelError(
            "the kernel matrix is not positive semidefinite: its smallest eigenvalue is "
            f"{low:.3g} against a largest of {high:.3g}, so kernel least squares has no minimum. "
            "Use a positive semidefinite kernel, computed in float64.",
            argument="kernel",
        )


def _flat(models: FloatArray) -> FloatArray:
    """Return models (a, p, v) side by side, (p, a v)."""
    return np.ascontiguousarray(models.transpose(1, 0, 2)).reshape(models.shape[1], -1)
