"""The smoother of a kernel matrix: dense models, f(x) = Σ a_i k(x, x_i), the penalty α aᵀKa.

Rows are scaled by √w. The unpenalised columns are deflated: everything happens on the orthogonal
complement of Q, so that their null vectors never mix with the null space of K.
"""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from dataclasses import replace
from math import inf
from threading import RLock
from typing import Any, ClassVar

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.exceptions import KernelError, NotSupportedError
from holdfast.experiments import Shape, Tasks
from holdfast.kernels.matrix import KernelRows, PrecomputedRows
from holdfast.linalg import (
    Accuracy,
    Complement,
    eigh,
    shifted_inverse,
    solve_shifted,
    submatrix,
    threads_for,
)
from holdfast.smoother.base import Fit, Form, OtherBasis, Sizes
from holdfast.smoother.blocks import row_blocks
from holdfast.smoother.bordered import Bordered
from holdfast.smoother.equations import KernelEquations
from holdfast.smoother.factor import Factor, InverseFactor, KernelFactor
from holdfast.smoother.feature_smoother import FeatureSmoother
from holdfast.smoother.features import ColumnFeatures
from holdfast.smoother.held import Held, HeldCoordinates, HeldInverse
from holdfast.smoother.kernel_form import KernelForm
from holdfast.smoother.outputs import KernelOutputs
from holdfast.smoother.scale import Targets, Unpenalised

__all__ = ["KernelSmoother"]


class KernelSmoother(KernelForm):
    """The smoother of the kernel matrix of all rows; its parameters are those of `KernelForm`."""

    form: ClassVar[Form] = "kernel"
    # More than for features: cond(K + αI) takes the place of that of the training rows.
    least_share: ClassVar[float] = 0.75
    # What the spectrum loses it loses again; an inverse, which mixes fewer rows, often does not.
    repairs: ClassVar[tuple[str, ...]] = ("single", "retrain")

    @property
    def n_basis(self) -> None:
        """None: every row is a basis row."""
        return None

    def sizes(self, tasks: Tasks) -> Sizes:
        """Return what a plan for these tasks needs to know."""
        m = self.weights.size
        known = self._spectrum is not None
        serves = self.spectrum_serves
        return Sizes(self.form, m, m, self.targets.count, None, self.memory, known, spectrum=serves)

    # -- the model on all rows ---------------------------------------------------------------------

    def factor(self, alpha: float | None = None, least: float = inf) -> Factor:
        """Return the spectrum of K, or its inverse at one penalty.

        A kernel that is indefinite, if only by its rounding errors, has no Cholesky factorisation;
        its spectrum serves any penalty.
        """
        with self.lock:
            if alpha is not None and self.definite:
                self.require_semidefinite()
                with suppress(KernelError):  # rounding errors may be larger than the penalty
                    return self._inverse(alpha)
            if self._spectrum is None:
                A, complement = self._deflated()
                Lambda, V = eigh(A, overwrite=True)
                self._spectrum = self._kernel_factor(Lambda, V, complement)
            return self._spectrum

    def _deflated(self) -> tuple[FloatArray, Complement | None]:
        return deflated_kernel(self.K, self.weights, self.unpenalised)

    def _kernel_factor(
        self, Lambda: FloatArray, V: FloatArray, complement: Complement | None
    ) -> KernelFactor:
        """Return the factor for every penalty, from one eigendecomposition.

        Tanaka and Imai 2019 (16) and Pahikkala et al. 2006 (4). Memory: two m × m matrices.
        """
        live, root, s = self.scale.trained, self.scale.root, self.unpenalised.count
        if self.definite:
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
            Ys=Ys,
            scale=self.scale,
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
        Ys = self.targets.Ys[live]
        centre = (Q.T @ self.K)[:, live]
        return InverseFactor(G, alpha, self.K, Ys, G @ Ys, centre, self.scale, self.unpenalised)

    def require_semidefinite(self) -> None:
        """Refuse a kernel matrix with a clearly negative eigenvalue, at the price of one Cholesky.

        The spectrum has every eigenvalue and is checked when it is made; this check is for the ways
        that do without the spectrum.
        """
        if not self._unchecked:
            return
        K, m = self.K, len(self.K)
        margin = 1e3 * m * np.finfo(float).eps * float(np.abs(np.diag(K)).max())
        try:
            np.linalg.cholesky(K + np.diag(np.full(m, margin)))
        except np.linalg.LinAlgError:
            raise KernelError(
                "the kernel matrix is not positive semidefinite, so kernel least squares has no "
                "minimum. Use a positive semidefinite kernel."
            ) from None
        self._unchecked = False

    def fit(self, alphas: FloatArray) -> Fit:
        """Return coefficients of all rows, zero where the weight is, and the unpenalised ones."""
        live, s = self.scale.trained, self.unpenalised.count
        coef = np.zeros(self.targets.Ys.shape)
        level = self.targets.level.copy()
        for alpha in np.unique(alphas):
            columns = np.flatnonzero(alphas == alpha)
            models = self._models(columns, np.array([float(alpha)]))
            coef[np.ix_(live, columns)] = models[: len(models) - s]
            level[:, columns] += models[len(models) - s :]
        return Fit(coef, None, self.unpenalised.coefficients(level))

    def _models(self, columns: IntArray, alpha: FloatArray) -> FloatArray:
        """Return coefficients of trained rows and unpenalised columns, by the spectrum if known."""
        live = np.flatnonzero(self.scale.trained)
        if self._spectrum is None and self.definite:
            equations = self._equations_of(live, columns)
            x = solve_shifted(equations.A, equations.rhs, alpha, equations.accuracy)
            return np.asarray(equations.complete(x)[0])
        factor = self.factor()
        assert isinstance(factor, KernelFactor)
        R, Q = factor.R(factor.D(alpha))[0], self.unpenalised.Q[live]
        c = factor.V[live] @ (R[:, None] * factor.z[:, columns])
        c *= self.scale.root[live, None]
        along = self._along[1].T  # Qᵀ√wK
        return np.vstack([c, Q.T @ self.targets.Ys[live][:, columns] - along[:, live] @ c])

    # -- models as coefficients --------------------------------------------------------------------

    def outputs(self) -> KernelOutputs:
        """Return kernel values with the trained rows, and the unpenalised columns."""
        data = PrecomputedRows(self.data) if isinstance(self.data, np.ndarray) else self.data
        live = np.flatnonzero(self.scale.trained)
        return KernelOutputs(data, live, self.unpenalised.anywhere())

    def model(self, alphas: FloatArray) -> FloatArray:
        """Return coefficients (v, q) of the trained rows, then along the unpenalised columns."""
        live, s = int(self.scale.trained.sum()), self.unpenalised.count
        found = np.empty((live + s, alphas.size))
        for alpha in np.unique(alphas):
            columns = np.flatnonzero(alphas == alpha)
            found[:, columns] = self._models(columns, np.array([float(alpha)]))
        return self.with_level(found.T)

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

    def published(self, coefficients: FloatArray, alphas: FloatArray) -> Fit:
        """Return coefficients of all rows, zero for those not trained on, and the unpenalised."""
        live = self.scale.trained
        n = int(live.sum())
        dual = np.zeros(self.targets.Ys.shape)
        dual[live] = coefficients.T[:n]
        return Fit(dual, None, self.unpenalised.coefficients(coefficients.T[n:]))

    def without(
        self, held: IntArray, removed: IntArray, basis: OtherBasis | None = None
    ) -> KernelSmoother:
        """Return the smoother without rows, on the same kernel matrix."""
        weights, unpenalised = self._retrained(held)
        part = KernelSmoother(
            self.data, weights, self.targets.Y, unpenalised, self.memory, definite=self.definite
        )
        part._K = self.K
        return part

    def fitted_rows(self, coefficients: FloatArray, rows: IntArray) -> FloatArray:
        """Return K c + uγ."""
        live = np.flatnonzero(self.scale.trained)
        K, c, level = submatrix(self.K, rows, live), coefficients.T[: live.size], coefficients.T
        return np.asarray(K @ c + self.unpenalised.U[rows] @ level[live.size :])

    def fitted_squares(self, coefficients: FloatArray) -> FloatArray:
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

    def _spectral(self) -> KernelFactor:
        factor = self.factor()
        assert isinstance(factor, KernelFactor)
        return factor

    def posterior(self, rows: IntArray, alphas: FloatArray) -> FloatArray:
        """Return (K − K√wG√wK)/α without the unpenalised columns, and what these add."""
        factor, U = self._spectral(), self.unpenalised.U[rows]
        p = factor.size - self.unpenalised.count
        out, D = factor.outputs(rows, factor.V[rows])[:, :p], factor.D(alphas)[:, :p]
        _, to_level, inner = self._along
        cross = U @ to_level[rows].T
        prior = submatrix(self.K, rows, rows) - cross - cross.T + U @ inner @ U.T
        return np.asarray((prior - (out * D[:, None]) @ out.T) / alphas[:, None, None] + U @ U.T)

    def variances(self, X: Any, alphas: FloatArray) -> FloatArray:
        """Return the same on the diagonal, for new rows."""
        factor, u, live = self._spectral(), self.unpenalised.anywhere(), self.scale.trained
        n, p = int(live.sum()), factor.size - u.size
        weighted, to_level, inner = self._along
        K_new = self.outputs()(X)[:, :n]
        out = ((K_new - u @ to_level[live].T) * self.scale.root[live]) @ factor.eigenvectors
        prior = self._diagonal(X) - 2.0 * K_new @ (weighted[live] @ u) + u @ inner @ u
        left = prior[:, None] - np.square(out) @ factor.D(alphas)[:, :p].T
        return np.asarray(np.maximum(left, 0.0) / alphas + u @ u)

    def _diagonal(self, X: Any) -> FloatArray:
        kernel = getattr(self.data, "kernel", None)
        if kernel is None:
            raise NotSupportedError(
                "the variance of a new row needs k(x, x), which a precomputed kernel matrix does "
                "not hold. Pass the rows with a kernel, or basis=..."
            )
        return KernelRows(kernel, X).diag()

    def half_residuals(self, alpha: float) -> FloatArray:
        """Return V √(α/(Λ + α)) Vᵀ√w y."""
        factor, live = self._spectral(), self.scale.trained
        V = factor.eigenvectors
        R = np.sqrt(alpha * factor.d(alpha)[: V.shape[1]])
        values = np.zeros(self.targets.Ys.shape)
        values[live] = V @ (R[:, None] * factor.z[: V.shape[1]])
        return values

    def leverages(self, alpha: float) -> FloatArray:
        """Return S_ii by the spectrum if it is known, else by one inverse."""
        return self.factor(None if self._spectrum is not None else alpha).leverages(alpha)

    # -- models without some rows ------------------------------------------------------------------

    def _ready_for_folds(self) -> bool:
        assert self.K is not None
        self.require_semidefinite()
        return True

    def equations(
        self, held: IntArray, removed: IntArray, columns: slice, afresh: bool
    ) -> KernelEquations:
        """Return the equations of the training rows, from their own kernel."""
        keep = self.scale.trained.copy()
        keep[held] = False
        return self._equations_of(np.flatnonzero(keep), columns)

    def _equations_of(self, train: IntArray, columns: slice | IntArray) -> KernelEquations:
        weights = np.zeros_like(self.weights)
        weights[train] = self.weights[train]
        unpenalised = self.unpenalised
        if train.size < int(self.scale.trained.sum()):
            unpenalised = unpenalised.retrained(weights)
        K = self.K if train.size == len(self.K) else submatrix(self.K, train, train)
        part = unpenalised.take(train)
        A, complement = deflated_kernel(K, self.weights[train], part)
        Ys = self.targets.Ys[train][:, columns]
        return KernelEquations(
            A=A,
            rhs=Ys if complement is None else complement.project(Ys),
            N_E=np.empty((0, len(A))),
            # A smooth kernel's small eigenvalues need every digit.
            accuracy=Accuracy(np.zeros(len(A)), refine=True, definite=self.definite),
            train=train,
            K=K,
            root=self.scale.root[train],
            Ys=Ys,
            unpenalised=unpenalised,
            complement=complement,
        )

    def fitted(self, equations: KernelEquations, models: FloatArray, test: IntArray) -> FloatArray:
        """Return K c + u·δ of the test rows."""
        n = equations.train.size
        values = submatrix(self.K, test, equations.train) @ models[:, :n]
        if models.shape[1] > n:
            values += equations.unpenalised.U[test] @ models[:, n:]
        return np.asarray(values)

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
            return self._by_rows(self._triangle).retrain(held, removed, test, alphas, columns)
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

    def _by_rows(self, L: FloatArray) -> FeatureSmoother:
        """Return the smoother of the same model with rows L as features."""
        more = (self.weights, self.targets.Y, self.unpenalised, self.memory)
        return FeatureSmoother(ColumnFeatures(L), *more)

    def remaining(self, held: IntArray, removed: IntArray, anew: bool) -> KernelSmoother:
        """Return the smoother of the rows that are left, on the kernel matrix that is there."""
        weights, unpenalised = self._retrained(held)
        return KernelSmoother(
            self.K,
            weights,
            self.original_targets(),
            unpenalised,
            self.memory,
            definite=self.definite,
            trusted=not self._unchecked,
        )

    def retargeted(self, Y: FloatArray) -> KernelSmoother:
        """Return the smoother with other targets: m² for each of them."""
        other, live = copy(self), self.scale.trained
        other.lock, other.targets = RLock(), Targets.of(Y, self.scale, self.unpenalised)
        other._K = self.K
        if self._spectrum is not None:
            Ys, V = other.targets.Ys, np.asarray(self._spectrum.V)
            other._spectrum = replace(self._spectrum, z=V[live].T @ Ys[live], Ys=Ys)
        return other


def deflated_kernel(
    K: FloatArray, weights: FloatArray, unpenalised: Unpenalised
) -> tuple[FloatArray, Complement | None]:
    """Return √w K √w over the trained rows, without the unpenalised directions; a fresh array."""
    live, root = weights > 0, np.sqrt(weights)
    A = K if live.all() else K[np.ix_(live, live)]
    if not np.all(root[live] == 1.0):
        A = A * root[live, None] * root[live]
    if not unpenalised.count:
        return (A.copy() if A is K else A), None
    complement = Complement(unpenalised.Q[live].T)
    with threads_for(unpenalised.count):  # idle threads would keep spinning beside what follows
        return complement.reduce(A), complement


def _check_definite(Lambda: FloatArray, trace: float) -> None:
    """Refuse an indefinite kernel matrix: the penalised problem has no minimum there."""
    low, high = float(Lambda.min(initial=0.0)), float(np.abs(Lambda).max(initial=0.0))
    if low < -100.0 * np.finfo(float).eps * max(Lambda.size * high, trace):
        raise KernelError(
            "the kernel matrix is not positive semidefinite: its smallest eigenvalue is "
            f"{low:.3g} against a largest of {high:.3g}, so kernel least squares has no minimum. "
            "Use a positive semidefinite kernel, computed in float64."
        )
