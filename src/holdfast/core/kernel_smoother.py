"""The smoother of a kernel matrix: dense models, f(x) = Σ a_i k(x, x_i), the penalty α aᵀKa.

Rows are scaled by √w. The unpenalised columns are deflated: everything happens on the orthogonal
complement of Q, so that their null vectors never mix with the null space of K.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from threading import RLock
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import lapack

from holdfast._typing import FloatArray, IntArray
from holdfast.core import refit
from holdfast.core.accuracy import to_refit, warn_of_rounding
from holdfast.core.data import NewColumns, WeightedData
from holdfast.core.experiments import Tasks
from holdfast.core.factor import Factor, KernelFactor
from holdfast.core.features import KernelBlocks
from holdfast.core.folds import Complement, FoldEquations, require_semidefinite
from holdfast.core.lapack import (
    EPS,
    eigh,
    inverse_of_triangle,
    run_pieces,
    submatrix,
    threads_for,
)
from holdfast.core.rows import row_chunks
from holdfast.core.smoother import Fit, Form, OtherBasis, Outputs, Sizes, Smoother, by_penalty
from holdfast.exceptions import NotSupportedError

#: Errors of spectra as a share of their bound eps ‖K̃‖, as measured on real data.
SHARE = 0.2


class KernelSmoother(Smoother):
    """The smoother of the kernel matrix of all rows.

    Parameters
    ----------
    rows : KernelBlocks or ndarray of shape (m, m)
        The rows with their kernel, or the kernel matrix itself, which is kept as it is.
    data : WeightedData
    memory : float
        Bytes that the smoother may use.
    """

    form: ClassVar[Form] = "kernel"

    def __init__(
        self, rows: KernelBlocks | FloatArray, data: WeightedData, memory: float = float("inf")
    ) -> None:
        super().__init__(data, memory)
        self.rows = rows
        self._K = rows if isinstance(rows, np.ndarray) else None
        self._spectrum: KernelFactor | None = None
        self._last: KernelFactor | None = None

    @property
    def K(self) -> FloatArray:
        """The kernel matrix (m, m)."""
        if self._K is None:  # threads that find it ready need no lock
            with self._lock:
                if self._K is None:
                    assert not isinstance(self.rows, np.ndarray)
                    every = slice(0, len(self.rows))
                    self._K = self.rows.block(every, every)
        return self._K

    # -- sizes -------------------------------------------------------------------------------------

    @property
    def order(self) -> int:
        """The number of rows."""
        return len(self.data)

    def sizes(self, tasks: Tasks) -> Sizes:
        """Return what a plan for these tasks needs to know."""
        m, known = len(self.data), self._spectrum is not None
        return Sizes(self.form, m, m, self.data.targets.count, None, self.memory, known)

    def refit_work(self, held: int) -> float:
        """Return what two LU factorisations and their solutions take."""
        n = float(len(self.data) - held)
        return 4.0 / 3.0 * n**3 + 8.0 * n**2 * self.data.targets.count

    def fit_work(self) -> float:
        """Return what an eigendecomposition takes."""
        n = float(len(self.data))
        return 9.0 * n**3 + 4.0 * n**2 * self.data.targets.count

    # -- factors -----------------------------------------------------------------------------------

    def factor(self, least: float) -> KernelFactor:
        """Return the spectrum of K, which holds for every penalty."""
        with self._lock:
            if self._spectrum is None:
                A, complement = self._deflated()
                Lambda, V = eigh(A)
                del A
                # Of √wK√w before the unpenalised columns were taken out.
                trace = float(self.data.weights.values @ np.abs(np.diag(self.K)))
                require_semidefinite(Lambda, trace)
                Lambda = np.maximum(Lambda, 0.0)
                rounding = SHARE * EPS * float(Lambda.max(initial=0.0))
                self._spectrum = self._factor(complement, V, Lambda, rounding, 0.0)
            return self._spectrum

    def factor_at(self, alpha: float) -> KernelFactor:
        """Return the Cholesky factor at one penalty.

        A kernel that its rounding errors make indefinite has none; its spectrum serves any penalty.
        """
        with self._lock:
            if self._last is None or self._last.least != alpha:
                A, complement = self._deflated()
                A[np.diag_indices(len(A))] += alpha
                lengths = np.sqrt(np.maximum(np.diag(A), 0.0))
                # The transpose of a C-ordered symmetric matrix is Fortran-ordered: no copy.
                with threads_for(len(A)):
                    L, info = lapack.dpotrf(A.T, lower=1, clean=1, overwrite_a=1)
                    if info:
                        return self.factor(alpha)
                    V = inverse_of_triangle(L)
                self._last = self._factor(complement, V, np.ones(len(V)), EPS, alpha, lengths)
            return self._last

    def factors_for(self, alphas: FloatArray) -> list[tuple[float, IntArray, Factor]]:
        """Return the spectrum if it is there, else a Cholesky factor for each penalty."""
        known = self._spectrum
        return [
            (alpha, columns, (self.factor_at(alpha) if known is None else known).select(columns))
            for alpha, columns in by_penalty(alphas)
        ]

    def _deflated(self) -> tuple[FloatArray, Complement]:
        """Return √wK√w over the trained rows, without the unpenalised directions; a fresh array."""
        weights = self.data.weights
        K, Q = self.K, self.data.unpenalised.Q
        if not weights.all_trained:
            K, Q = submatrix(K, weights.rows, weights.rows), Q[weights.rows]
        if not weights.uniform:
            root = weights.root[weights.rows]
            K = K * root[:, None] * root
        complement = Complement.of(Q)
        with threads_for(Q.shape[1]):  # idle threads would keep spinning beside what follows
            return complement.reduce(K), complement

    def _factor(
        self,
        complement: Complement,
        inner: FloatArray,
        Lambda: FloatArray,
        rounding: float,
        least: float,
        lengths: FloatArray | None = None,
    ) -> KernelFactor:
        """Return the factor of coordinates `inner` on the complement of the unpenalised columns.

        For the penalty `least` alone, if it is a Cholesky factor with rows of these lengths.
        """
        data, s = self.data, self.data.unpenalised.count
        rows, m = data.weights.rows, len(data)
        V = np.zeros((m, Lambda.size + s)) if rows.size < m or s else inner
        if V is not inner:
            lifted = complement.lift(inner)
            if rows.size == m:
                V[:, : Lambda.size], V[:, Lambda.size :] = lifted, data.unpenalised.Q
            else:
                V[rows, : Lambda.size], V[rows, Lambda.size :] = lifted, data.unpenalised.Q[rows]
            del lifted
        with threads_for(data.targets.count):
            z = V.T @ data.targets.Ys
        return KernelFactor(
            data=data,
            V=V,
            Lambda=np.append(Lambda, np.ones(s)),
            penalised=np.repeat([1.0, 0.0], [Lambda.size, s]),
            z=z,
            rounding=rounding,
            least=least,
            only=lengths is not None,
            new_outputs=self._outputs_of,
            complement=complement,
            lengths=lengths,
        )

    def _outputs_of(self, factor: Factor, rows: IntArray) -> FloatArray:
        """Return out (…, p) of rows of the data from their kernel values, trained on or not."""
        flat = rows.ravel()
        K, u = submatrix(self.K, flat, self.data.weights.rows), self.data.unpenalised.U[flat]
        return np.hstack([self._projected(factor, K, u), u]).reshape(*rows.shape, -1)

    def _projected(self, factor: Factor, K: FloatArray, u: FloatArray) -> FloatArray:
        """Return the penalised output coordinates of rows, from their k (k, n) and u (k, s)."""
        live, root = self.data.weights.rows, self.data.weights.root
        centred = (K - u @ self._along[1][live].T) * root[live]
        V = np.asarray(factor.V)
        V = V if live.size == len(V) else V[live]
        return np.asarray(centred @ V[:, : V.shape[1] - u.shape[1]])

    @cached_property
    def _along(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """√wQ (m, s), K√wQ (m, s) and Qᵀ√wK√wQ (s, s)."""
        weighted = self.data.unpenalised.Q * self.data.weights.root[:, None]
        with threads_for(weighted.shape[1]):
            to_level = self.K @ weighted
        return weighted, to_level, weighted.T @ to_level

    # -- the model on all rows ---------------------------------------------------------------------

    def model(self, alphas: FloatArray) -> tuple[KernelOutputs, FloatArray]:
        """Return kernel values as outputs, and coefficients (v, n + s) of the model on all rows."""
        live, v = self.data.weights.rows, alphas.size
        coefficients = np.empty((v, live.size + self.data.unpenalised.count))
        for alpha, columns, factor in self.factors_for(alphas):
            assert isinstance(factor, KernelFactor)
            at = np.array([alpha])
            amplified = np.abs(factor.equation_errors) / self.data.weights.root[live, None]
            error = factor.size_of_errors(at) * amplified.max()
            if to_refit(self, error, np.zeros(1, dtype=np.int64)).any():
                c, delta = self._refitted(self, at, columns)
                level = delta[0] + self.data.targets.level[:, columns]
                coefficients[columns] = np.vstack([c[0], level]).T
            else:
                warn_of_rounding(at, error)
                beta, nothing = factor.D(at) * factor.z.T, np.zeros((1, 0), dtype=np.int64)
                coefficients[columns] = self.coefficients(factor, beta[None], nothing)[0]
        return self.outputs(None), coefficients

    # -- models as coefficients --------------------------------------------------------------------

    def outputs(self, factor: Factor | None) -> KernelOutputs:
        """Return kernel values with the trained rows, and the unpenalised columns."""
        assert not isinstance(self.rows, np.ndarray), "rows with their kernel"
        return KernelOutputs(self.rows, self.data.weights.rows, self.data.unpenalised.elsewhere())

    def coefficients(self, factor: Factor, betas: FloatArray, held: IntArray) -> FloatArray:
        """Return dual coefficients, exactly zero on the held-out rows, and the unpenalised part.

        Kc has a part along Q of its own, Qᵀ√wKc, which the unpenalised columns take back.
        """
        assert isinstance(factor, KernelFactor)
        weights, s = self.data.weights, self.data.unpenalised.count
        duals = factor.duals(betas)
        if not weights.uniform:
            duals *= weights.root[weights.rows]
        if held.size:
            places = (np.cumsum(weights.trained) - 1)[held][:, None]
            places = np.broadcast_to(places, (*betas.shape[:2], held.shape[1]))
            np.put_along_axis(duals, places, 0.0, axis=2)
        if not s:
            return duals
        own = self._along[1][weights.rows]
        level = betas[..., -s:] - duals @ own + factor.data.targets.level.T
        return np.concatenate([duals, level], axis=-1)

    def published(self, outputs: Outputs, coefficients: FloatArray, alphas: FloatArray) -> Fit:
        """Return coefficients of all rows, zero for those not trained on, and the unpenalised."""
        live = self.data.weights.rows
        dual = np.zeros(self.data.targets.Ys.shape)
        dual[live], level = np.split(coefficients.T, [live.size])
        return Fit(dual, None, self.data.unpenalised.coefficients(level))

    def fitted_rows(self, factor: Factor, coefficients: FloatArray, rows: IntArray) -> FloatArray:
        """Return K c + uγ."""
        live = self.data.weights.rows
        c, level = np.split(coefficients.T, [live.size])
        return np.asarray(submatrix(self.K, rows, live) @ c + self.data.unpenalised.U[rows] @ level)

    def fitted_squares(self, factor: Factor, coefficients: FloatArray) -> FloatArray:
        """Return ‖√w(Kc + uγ)‖² over the trained rows."""
        live = self.data.weights.rows
        n, flat = live.size, coefficients.reshape(-1, coefficients.shape[-1])
        K = self.K if n == len(self.K) else submatrix(self.K, live, live)
        squares, U = np.empty(len(flat)), self.data.unpenalised.U[live]
        for part in row_chunks(len(flat), n):
            values = flat[part, :n] @ K + flat[part, n:] @ U.T
            squares[part] = np.square(values) @ self.data.weights.values[live]
        return squares.reshape(coefficients.shape[:-1])

    # -- the Gaussian view -------------------------------------------------------------------------

    def posterior(self, rows: IntArray, alphas: FloatArray) -> FloatArray:
        """Return (K − K√wG√wK)/α without the unpenalised columns, and what these add."""
        factor, s = self.factor(float(alphas.min())), self.data.unpenalised.count
        out, U = self._outputs_of(factor, rows), self.data.unpenalised.U[rows]
        p = out.shape[1] - s
        _, to_level, inner = self._along
        cross = U @ to_level[rows].T
        prior = submatrix(self.K, rows, rows) - cross - cross.T + U @ inner @ U.T
        explained = (out[:, :p] * factor.D(alphas)[:, None, :p]) @ out[:, :p].T
        return np.asarray((prior - explained) / alphas[:, None, None] + U @ U.T)

    def variances(self, X: Any, alphas: FloatArray) -> FloatArray:
        """Return the same on the diagonal, for new rows."""
        factor, live = self.factor(float(alphas.min())), self.data.weights.rows
        K_new, u = np.split(self.outputs(factor)(X), [live.size], axis=1)
        out = self._projected(factor, K_new, u)
        weighted, _, inner = self._along
        cross = 2.0 * (K_new @ weighted[live]) - u @ inner
        prior = self._diagonal(X) - (cross * u).sum(axis=1)
        left = prior[:, None] - np.square(out) @ factor.D(alphas)[:, : out.shape[1]].T
        return np.asarray(np.maximum(left, 0.0) / alphas + np.square(u).sum(axis=1)[:, None])

    def _diagonal(self, X: Any) -> FloatArray:
        kernel = getattr(self.rows, "kernel", None)
        if kernel is None:
            raise NotSupportedError(
                "the variance of a new row needs k(x, x), which a precomputed kernel matrix does "
                "not hold. Pass the rows with a kernel, or basis=...",
                argument="kernel",
                remedies=("basis",),
            )
        return np.asarray(kernel.diag(X))

    # -- models without some rows ------------------------------------------------------------------

    def per_fold(
        self, tasks: Tasks, alphas: FloatArray, columns: slice
    ) -> tuple[FloatArray, FloatArray]:
        """Return predictions of each task from the kernel matrix of its training rows."""
        data, K = self.data.select(columns), self.K
        targets, a = data.targets, alphas.size
        v = targets.count
        values = np.empty((a, tasks.test.values.size, v))
        error = np.empty((a, len(tasks)))

        def work(j: int) -> None:
            weights, test = data.weights.without(tasks.held[j]), tasks.test[j]
            train = np.flatnonzero(weights)
            unpenalised, root = data.unpenalised.under(weights), data.weights.root[train, None]
            Q, Ys, part = unpenalised.Q[train], targets.Ys[train], submatrix(K, train, train)
            if not data.weights.uniform:
                part *= root * root.T
            lengths, along = np.sqrt(np.maximum(np.diag(part), 0.0)), Q.T @ part
            models = FoldEquations(
                part, Ys, lengths, np.zeros(v), targets.std, Q, semidefinite=True
            ).solve(alphas)
            K_test, U = submatrix(K, test, train), unpenalised.U[test]

            def predict(theta: FloatArray, level: FloatArray) -> FloatArray:
                c = theta.transpose(1, 0, 2).reshape(train.size, -1)
                f = K_test @ (root * c) - U @ (along @ c)
                return f.reshape(test.size, *theta.shape[::2]).swapaxes(0, 1) + U @ level

            out, none = slice(tasks.test.ptr[j], tasks.test.ptr[j + 1]), np.zeros((len(Q.T), 1))
            values[:, out] = predict(models.theta, Q.T @ Ys) + data.level(test)
            error[:, j] = models.errors(lambda probes: predict(probes, none))

        run_pieces(work, range(len(tasks)))
        return values, error

    @staticmethod
    def _refitted(
        own: KernelSmoother, alphas: FloatArray, columns: Any
    ) -> tuple[FloatArray, FloatArray]:
        """Return c (a, n, v) and the part along the unpenalised columns (a, s, v) by LU."""
        train, data = own.data.weights.rows, own.data
        y = data.targets.Ys[train][:, columns] / data.weights.root[train, None]
        U, K = data.unpenalised.U[train], submatrix(own.K, train, train)
        return refit.dense_models(K, U, y, data.weights.values[train], alphas)

    def refit(
        self,
        held: IntArray,
        removed: IntArray,
        test: IntArray,
        alphas: FloatArray,
        columns: slice = slice(None),
        basis: OtherBasis | None = None,
    ) -> FloatArray:
        """Return predictions by the optimality conditions."""
        own = self.without(held, removed)
        c, delta = self._refitted(own, alphas, columns)
        K, U = submatrix(self.K, test, own.data.weights.rows), own.data.unpenalised.U[test]
        return np.asarray(K @ c + U @ delta + own.data.select(columns).level(test))

    def without(self, held: IntArray, removed: IntArray, basis: OtherBasis | None = None) -> Self:
        """Return the smoother without rows, on the same kernel matrix."""
        other = type(self)(self.rows, self.data.without(held), self.memory)
        other._K = self.K
        return other

    def on_remaining_rows(self, held: IntArray, removed: IntArray) -> Self:
        """Return the smoother of the rows that are left, on the kernel matrix that is there."""
        return self.without(held, removed)

    def with_targets(self, Y: FloatArray) -> Self:
        """Return the smoother with other targets: m² for each of them."""
        other = copy(self)
        other._lock, other.data = RLock(), self.data.with_targets(Y)
        other._K, other._last = self.K, None
        if self._spectrum is not None:
            z = np.asarray(self._spectrum.V).T @ other.data.targets.Ys
            other._spectrum = self._spectrum.with_targets(other.data, z)
        return other


@dataclass(frozen=True)
class KernelOutputs(Outputs):
    """Kernel values with the trained rows, then the unpenalised columns.

    Attributes
    ----------
    rows : KernelBlocks
        The rows with their kernel.
    trained : ndarray of int
    columns : NewColumns
        The unpenalised columns u(x).
    """

    rows: KernelBlocks
    trained: IntArray
    columns: NewColumns

    @property
    def size(self) -> int:
        """Trained rows and unpenalised columns."""
        return self.trained.size + self.columns.count

    def __call__(self, X: Any) -> FloatArray:
        """Return [k(x, ·), u]."""
        block, u = self.rows.predict_block(X, self.trained), self.columns(X)
        return np.hstack([block, np.broadcast_to(u, (len(block), u.shape[1]))])
