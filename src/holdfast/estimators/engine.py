"""One model on one data set, factorised once: held-out predictions and coefficients on demand."""

from __future__ import annotations

from threading import RLock

import numpy as np

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.exceptions import KernelError
from holdfast.experiments import Ragged, Tasks
from holdfast.holdout import fold_gram, inverse, spectral
from holdfast.holdout.digits import basis_shrinks, few_left
from holdfast.holdout.plan import Path, Plan, make_plan
from holdfast.holdout.retrain import retrain_dense, retrain_primal
from holdfast.kernels.matrix import KernelData
from holdfast.smoother.factors import Factor, single_primal, spectral_dual, spectral_primal
from holdfast.smoother.features import Features, WhitenedFeatures
from holdfast.smoother.moments import RowScale
from holdfast.smoother.systems import DualSystem, PrimalSystem, primal_system, rotate, solve_primal


class Engine:
    """The model on all rows and the factors it has been asked for so far.

    Parameters
    ----------
    data : KernelData
        Rows and kernel.
    weights : ndarray of shape (m,)
    Y : ndarray of shape (m, v)
        Targets.
    basis : ndarray of int or None
        Basis rows; None for a dense model.
    features : Features or None
        Columns of a linear kernel, where the primal form is taken; then `basis` is None.
    bias : bool
    shift : float
        ε of a sparse model.
    definite : bool
        Whether the kernel declares itself positive semidefinite.
    trusted : bool
        Whether that declaration needs no check (kernels of this package).
    memory : float
        Bytes that feature rows may take; where they would take more they are computed again
        whenever they are needed.

    Notes
    -----
    The only state besides the arguments is a cache: the weighted system, made when it is first
    needed, because the first experiments decide what its pass over the rows sums up besides; it
    turns into its rotated form when the spectral path is first asked for. And a dense model's
    spectrum. One thread at a time works with it.
    """

    def __init__(
        self,
        data: KernelData,
        weights: FloatArray,
        Y: FloatArray,
        *,
        basis: IntArray | None,
        features: Features | None,
        bias: bool,
        shift: float,
        definite: bool,
        trusted: bool,
        memory: float,
    ) -> None:
        self.data, self.weights, self.Y = data, weights, Y
        self.basis, self.bias, self.shift, self.memory = basis, bias, shift, memory
        self._lock = RLock()
        self._columns = features
        if basis is not None:
            features = WhitenedFeatures.of(data, basis, shift)
        self._features, self._definite = features, definite
        self._unchecked = definite and not trusted and self.dual
        self._system: PrimalSystem | DualSystem | None = None
        self._spectrum: Factor | None = None

    @property
    def dual(self) -> bool:
        """Whether the model is dense, with the kernel matrix of all rows."""
        return self._features is None

    @property
    def system(self) -> PrimalSystem | DualSystem:
        """The weighted system."""
        with self._lock:
            if self._system is None:
                self._system = self._make()
            return self._system

    def _make(self, held: Ragged | None = None) -> PrimalSystem | DualSystem:
        if self._features is None:
            every = slice(0, len(self.data))
            K = self.data.block(every, every)
            return DualSystem(K, RowScale.of(self.weights), self.bias, self._definite)
        keep = self._row_bytes <= self.memory
        return primal_system(
            self._features, self.weights, self.Y, bias=self.bias, keep=keep, held=held
        )

    @property
    def _row_bytes(self) -> float:
        return 8.0 * len(self.data) * self.n_features

    @property
    def n_features(self) -> int:
        """Size p of the system, the bias included; m for a dense model."""
        if self._features is None:
            return len(self.data)
        return int(self._features.to_coefficients.shape[1]) + self.bias

    def _sums_to_come(self, tasks: Tasks) -> bool:
        """Whether the pass that makes the system will give the Gram matrices of these tasks.

        That takes disjoint sets, and room: no more numbers than W has, and memory for both.
        """
        if self.dual or self._system is not None:
            return False
        p, n, held = self.n_features, len(tasks), tasks.held.values
        kept = self._row_bytes if self._row_bytes <= self.memory else 0.0
        roomy = n * p <= len(self.data) and kept + 8.0 * (n + 3) * p**2 <= self.memory
        return roomy and int(np.bincount(held, minlength=1).max()) <= 1

    def plan(self, tasks: Tasks, n_targets: int, n_alphas: int, path: str) -> Plan:
        """Return which path these tasks will take."""
        return make_plan(
            tasks,
            m=len(self.data),
            p=self.n_features,
            v=n_targets,
            n_alphas=n_alphas,
            dual=self.dual,
            asked=path,
            basis=None if self.basis is None else self.basis.size,
            memory=self.memory,
            rotated=self._has_spectrum(),
            summed=self._sums_to_come(tasks),
        )

    def _has_spectrum(self) -> bool:
        if isinstance(self._system, PrimalSystem):
            return self._system.gram.ndim == 1
        return self._spectrum is not None

    def spectrum(self) -> Factor:
        """Return the factor that holds for every penalty."""
        with self._lock:  # one thread makes it, the others find it
            system = self.system
            if isinstance(system, PrimalSystem):
                if isinstance(system.W, np.ndarray):
                    self._system = None  # rows are overwritten: if interrupted, made again
                self._system = rotate(system, overwrite=True)
                return spectral_primal(self._system)
            if self._spectrum is None:
                self._spectrum = spectral_dual(system)
            return self._spectrum

    def predict(self, tasks: Tasks, alphas: FloatArray, path: Path, columns: slice) -> FloatArray:
        """Return held-out predictions (alphas, test rows, targets) of some targets.

        Tasks that leave little to train on, or take much of the basis away, are trained on what
        they leave, whatever the path.
        """
        with self._lock:  # rows must not be rotated while others read them
            return self._all_tasks(tasks, alphas, path, columns)

    def _all_tasks(
        self, tasks: Tasks, alphas: FloatArray, path: Path, columns: slice
    ) -> FloatArray:
        none = np.zeros(len(tasks), dtype=bool)
        again = none if self.basis is None else basis_shrinks(tasks, self.basis.size)
        if path == "fold_gram" and self._sums_to_come(tasks) and not again.all():
            self._system = self._make(tasks.held.items(np.flatnonzero(~again)))
        few = none if path == "fold_gram" else few_left(self.system, tasks) & ~again
        if not (again | few).any():
            return self._predict(tasks, alphas, path, columns)
        ways: tuple[tuple[BoolArray, Path | None], ...] = (
            (again, None),
            (few, "fold_gram"),
            (~(again | few), path),
        )
        v = self.Y[:1, columns].shape[1]
        predictions = np.empty((alphas.size, tasks.test.values.size, v))
        for chosen, way in ways:
            if not chosen.any():
                continue
            part, where = tasks.select(np.flatnonzero(chosen)), chosen[tasks.test.owners]
            if way is None:
                predictions[:, where] = self._train_again(part, alphas, columns)
            else:
                predictions[:, where] = self._predict(part, alphas, way, columns)
        return predictions

    def _train_again(self, tasks: Tasks, alphas: FloatArray, columns: slice) -> FloatArray:
        """Return predictions of sparse models that are fitted from scratch, each on its basis."""
        assert self.basis is not None
        parts = []
        for j in range(len(tasks)):
            weights, basis = self.weights.copy(), np.delete(self.basis, tasks.removed[j])
            weights[tasks.held[j]] = 0.0
            parts.append(
                self.retrain(
                    basis, weights, tasks.test[j], alphas, shift=self.shift, columns=columns
                )
            )
        return np.concatenate(parts, axis=1)

    def _predict(self, tasks: Tasks, alphas: FloatArray, path: Path, columns: slice) -> FloatArray:
        Y = self.Y[:, columns]
        if path == "spectral":
            return spectral.predict(self.spectrum(), Y, tasks, alphas, columns)
        if self._unchecked and isinstance(self.system, DualSystem):
            check_semidefinite(self.system.K)
            self._unchecked = False
        if path == "fold_gram":
            if isinstance(self.system, PrimalSystem):
                return fold_gram.predict_primal(self.system, Y, tasks, alphas, columns)
            return fold_gram.predict_dual(self.system, self.weights, Y, tasks, alphas)
        return np.stack([self._single(Y, tasks, float(alpha), columns) for alpha in alphas])

    def _single(self, Y: FloatArray, tasks: Tasks, alpha: float, columns: slice) -> FloatArray:
        """Return held-out predictions (test rows, targets) at one penalty."""
        if isinstance(self.system, DualSystem) and self.system.definite:
            return inverse.predict(self.system, Y, tasks, alpha)
        if isinstance(self.system, PrimalSystem):
            factor = single_primal(self.system, alpha)
        else:  # no Cholesky factorisation; the spectrum serves any alpha
            factor = self.spectrum()
        return np.asarray(spectral.predict(factor, Y, tasks, np.array([alpha]), columns)[0])

    def retrain(
        self,
        basis: IntArray | None,
        weights: FloatArray,
        test: IntArray,
        alphas: FloatArray,
        *,
        shift: float,
        columns: slice = slice(None),
    ) -> FloatArray:
        """Return predictions (alphas, test rows, targets) of a model fitted from scratch.

        Parameters
        ----------
        basis : ndarray of int or None
            Basis rows of that model.
        weights : ndarray of shape (m,)
            Zero for every row that must not be trained on.
        test : ndarray of int
        alphas : ndarray of shape (a,)
        shift : float
            ε of that model.
        columns : slice
            Which targets.
        """
        features = self._columns
        if basis is not None:
            features = WhitenedFeatures.of(self.data, basis, shift)
        Y = self.Y[:, columns]
        if features is not None:
            return retrain_primal(features, weights, Y, test, alphas, bias=self.bias)
        return retrain_dense(self.data, weights, Y, test, alphas, bias=self.bias)

    def fit(self, alphas: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (coefficients, intercept) on all rows, one penalty per target.

        Coefficients have one row per basis row; per row of the data for a dense model; per
        input feature for a linear kernel in primal form.
        """
        v = self.Y.shape[1]
        coef, intercept = None, np.zeros(v)
        for alpha in np.unique(alphas):
            columns = np.flatnonzero(alphas == alpha)
            part, shift = self._fit_one(columns, float(alpha))
            if coef is None:
                coef = np.empty((part.shape[0], v))
            coef[:, columns], intercept[columns] = part, shift
        assert coef is not None
        return coef, intercept

    def _fit_one(self, columns: IntArray, alpha: float) -> tuple[FloatArray, FloatArray]:
        if isinstance(self.system, PrimalSystem):
            theta = solve_primal(self.system, self.system.z[:, columns], alpha)
            return self.system.coefficients(theta)
        Y, scale, live = self.Y[:, columns], self.system.scale, self.system.scale.trained
        c = np.zeros_like(Y)
        if self.system.definite and self._spectrum is None:
            part = self.system
            if not live.all():
                K = self.system.K[np.ix_(live, live)]
                part = DualSystem(K, RowScale.of(self.weights[live]), self.bias, definite=True)
            found, intercept = fold_gram.dual_coefficients(part, Y[live], np.array([alpha]))
            c[live] = found[0]
            return c, intercept[0]
        factor = self.spectrum()
        z = factor.project(scale.targets(Y), slice(None))
        D = factor.residual_D(factor.D(np.array([alpha])))[0]
        assert isinstance(factor.V, np.ndarray)
        c[live] = (factor.V[live] @ (D[:, None] * z)) * scale.root[live, None]
        if not self.bias:
            return c, np.zeros(Y.shape[1])
        q = (scale.q * scale.root * live) / scale.norm
        return c, q @ Y - (q @ self.system.K) @ c


def check_semidefinite(K: FloatArray) -> None:
    """Refuse a kernel matrix with a clearly negative eigenvalue, at the price of one Cholesky.

    The spectral path sees every eigenvalue and checks for itself; this serves the other paths.
    """
    shift = 1e3 * len(K) * np.finfo(float).eps * float(np.abs(np.diag(K)).max())
    try:
        np.linalg.cholesky(K + np.diag(np.full(len(K), shift)))
    except np.linalg.LinAlgError:
        raise KernelError(
            "the kernel matrix is not positive semidefinite, so kernel least squares has no "
            "minimum. Use a positive semidefinite kernel."
        ) from None
