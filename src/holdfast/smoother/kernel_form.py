"""A kernel matrix, and what it says of the digits that models of it have."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.experiments import Ragged, Tasks
from holdfast.kernels import Linear
from holdfast.kernels.matrix import KernelData
from holdfast.linalg import submatrix, threads_for, triangle_of
from holdfast.smoother.base import Smoother
from holdfast.smoother.factor import Factor, InverseFactor, KernelFactor
from holdfast.smoother.measured import DenseProblem, Measured, look_at_some
from holdfast.smoother.refined import KernelProblem
from holdfast.smoother.scale import Unpenalised

__all__ = ["KernelForm"]

#: Rows with kernel values this many times those of most rows are far away from them.
UNLIKE = 100.0
#: A spectrum costs rows digits whose √w is smaller than that of others by more than this.
LIGHTER = 1e4
#: Factorisations beside which one more is at most a twentieth.
MANY = 20
#: Where the condition allows errors larger than this, or rounding the targets costs a hundredth of
#: it, some errors are measured, …
SUSPECT = 1e-10
#: … by a spectrum that is there, or is made in no time for this many rows.
SMALL = 64
#: A linear kernel is also trained by its rows, if the triangle of these takes this many operations.
QUICK = 1e8
#: Rows that are looked at first.
A_FEW = slice(0, 32)
#: Fetching an entry of the kernel matrix by itself takes as long as this many of a product, …
FETCHED = 64.0
#: … whose right-hand sides have this many numbers at most.
SHIFT_DOUBLES = 2**21


class KernelForm(Smoother):
    """A kernel matrix of all rows: how large errors may be, how large they are, whose they are.

    Parameters
    ----------
    data : KernelData or ndarray of shape (m, m)
        The rows with their kernel, or the kernel matrix itself, which is kept as it is.
    weights : ndarray of shape (m,)
    Y : ndarray of shape (m, v)
    unpenalised : Unpenalised
    memory : float
        Bytes that the smoother may use.
    definite : bool
        Whether the kernel declares itself positive semidefinite.
    trusted : bool
        Whether that declaration needs no check, as for the kernels of this package.

    Notes
    -----
    The only state is a cache: the kernel matrix, and its spectrum once it has been asked for.
    """

    def __init__(
        self,
        data: KernelData | FloatArray,
        weights: FloatArray,
        Y: FloatArray,
        unpenalised: Unpenalised,
        memory: float = float("inf"),
        *,
        definite: bool = True,
        trusted: bool = True,
    ) -> None:
        super().__init__(weights, Y, unpenalised)
        self.data, self.memory, self.definite = data, memory, definite
        self._unchecked = definite and not trusted
        self._K = data if isinstance(data, np.ndarray) else None
        self._spectrum: KernelFactor | None = None

    @property
    def K(self) -> FloatArray:
        """The kernel matrix (m, m)."""
        if self._K is None:  # threads that find it ready need no lock
            with self.lock:
                assert not isinstance(self.data, np.ndarray)
                every = slice(0, len(self.data))
                self._K = self.data.block(every, every)
        return self._K

    def _block(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Return kernel values for the naive twin, computed again where possible."""
        if isinstance(self.data, np.ndarray):
            return np.asarray(self.data[np.ix_(rows, columns)])
        return self.data.block(rows, columns)

    # -- digits ------------------------------------------------------------------------------------

    def promise(self, alphas: FloatArray) -> FloatArray:
        """Return eps times how unlike the rows are: one far-away row costs the others its digits.

        Deflation and decompositions mix all rows, and the largest leave their rounding errors in
        the smallest.
        """
        _, _, heaviest, light = self._row_sizes
        return 4 * np.finfo(np.float64).eps * (heaviest + alphas) / (light + alphas)

    @cached_property
    def _row_sizes(self) -> tuple[float, float, float, float]:
        """Largest and median |k(x, x)| of trained rows, and both with weights.

        The median with the smallest weight: a row without a single feature is small by nature, a
        row of small weight is not.
        """
        trained = self.scale.trained
        diagonal, weights = np.abs(np.diag(self.K)[trained]), self.weights[trained]
        usual = float(np.median(diagonal))
        heaviest = float((diagonal * weights).max())
        return float(diagonal.max()), usual, heaviest, usual * float(weights.min())

    @property
    def spectrum_serves(self) -> bool:
        """Whether weights are alike: eigenvectors mix all rows, and light ones pay for heavy ones.

        An inverse at one penalty does not mix them.
        """
        root = self.scale.root[self.scale.trained]
        return bool(root.max() <= LIGHTER * root.min())

    def unlike_rows(self, alphas: FloatArray) -> FloatArray:
        """Return what the condition of the kernel matrix may cost, if some rows make it."""
        largest, usual, _, _ = self._row_sizes
        if largest <= UNLIKE * usual:
            return np.zeros(alphas.size)
        return self.path_promise("spectral", alphas)

    def path_promise(self, path: str, alphas: FloatArray) -> FloatArray:
        """Return eps times the condition of √wK√w + αI: every path solves with that matrix.

        Without a spectrum the trace takes the place of the largest eigenvalue, 0 of the smallest.
        """
        if self._spectrum is None:
            largest, least = float(self.norms.sum()), alphas
        else:
            Lambda = self._spectrum.Lambda[self._spectrum.penalised > 0]
            largest = float(np.abs(Lambda).max(initial=0.0))
            least = np.abs(Lambda[:, None] + alphas).min(axis=0, initial=np.inf)
        bound = 4 * np.finfo(np.float64).eps * (largest + alphas) / least
        return np.asarray(np.maximum(bound, self.promise(alphas)))

    def measured(
        self,
        tasks: Tasks,
        alphas: FloatArray,
        values: FloatArray,
        columns: slice,
        factor: Factor | None = None,
    ) -> Measured | None:
        """Return how large errors are, measured on some tasks where they may be large."""
        n, known = int(self.scale.trained.sum()), factor is not None or self._spectrum is not None
        hard = self._suspect(tasks, alphas, values, columns)
        if not hard.any() or not (known or n <= SMALL):
            return None
        found = self.factor() if factor is None else factor
        assert isinstance(found, KernelFactor | InverseFactor)
        problem = DenseProblem.of(self.K, self.scale, self.unpenalised, self.targets.Ys[:, columns])
        seen = look_at_some(problem, found, tasks, alphas, values, hard)
        if self._triangle is None:
            return seen
        # The kernel matrix is a rounded product itself: what that costs others too, rows do not.
        return seen._replace(errors=seen.errors + seen.attainable)

    @cached_property
    def _triangle(self) -> FloatArray | None:
        """L (m, m) with LLᵀ = K to more digits than K has: the rows of a linear kernel, rotated.

        None for other kernels, and where it would take time. Columns in large units come first, so
        that they cost the others no digit.
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

    def _suspect(
        self, tasks: Tasks, alphas: FloatArray, values: FloatArray, columns: slice
    ) -> FloatArray:
        """Return the size (a, v) of predictions where they may have lost digits, 0 elsewhere."""
        root, trace = self.scale.root[self.scale.trained], float(self.norms.sum())
        wide = self.path_promise("spectral", alphas) * float(root.max() / root.min()) > SUSPECT
        # A spectrum leaves rounding errors of fitted targets, also beside tiny predictions.
        largest = np.abs(self.targets.Y[:, columns]).max(axis=0, initial=0.0)
        rounding = np.finfo(np.float64).eps * largest * (trace / (trace + alphas))[:, None]
        level = self.targets.level[:, columns]

        def look(which: IntArray, rows: slice) -> tuple[FloatArray, BoolArray]:
            """Return the size of these predictions, and at which penalties it is suspect."""
            added = self.unpenalised.level(tasks.test.values[rows], level)
            size = np.fmax.reduce(np.abs(values[which, rows] + added), axis=1, initial=0.0)
            return size, wide[which] | (rounding[which] > 0.01 * SUSPECT * size).any(axis=1)

        # A few rows with predictions of a good size are enough to see that all is well.
        which = np.flatnonzero(look(np.arange(alphas.size), A_FEW)[1])
        size = np.zeros((alphas.size, largest.size))
        if which.size:
            found, hard = look(which, slice(None))
            size[which[hard]] = np.maximum(found[hard], np.finfo(np.float64).tiny)
        return size

    @property
    def largest_value(self) -> float:
        """The largest diagonal entry of K."""
        return float(np.abs(np.diag(self.K)).max())

    def refines_cheaply(self, factorised: int) -> bool:
        """Whether the spectrum is known, or one more factorisation is a small part of many."""
        return self._spectrum is not None or factorised >= MANY

    def refined(
        self,
        held: IntArray,
        removed: IntArray,
        test: IntArray,
        alpha: float,
        columns: IntArray,
        size: float,
    ) -> FloatArray:
        """Return predictions that the kernel matrix agrees with."""
        problem = KernelProblem(
            self.K, self.targets.Ys[:, columns], alpha, self.scale, self.unpenalised, held
        )
        return problem.predictions(test, self._spectrum, size)

    def likely_leverages(self, alpha: float) -> FloatArray:
        """Return leverages if the spectrum is known, else the length of rows."""
        return self.norms if self._spectrum is None else self._spectrum.leverages(alpha)

    # -- how much of the data some rows carry ------------------------------------------------------

    @cached_property
    def _along(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """√wQ (m, s), K√wQ (m, s) and Qᵀ√wK√wQ (s, s)."""
        weighted = self.unpenalised.Q * self.scale.root[:, None]
        with threads_for(weighted.shape[1]):  # idle threads would keep spinning beside what follows
            to_level = self.K @ weighted
        return weighted, to_level, weighted.T @ to_level

    @cached_property
    def norms(self) -> FloatArray:
        """‖W_i‖² of every row: W = (I − QQᵀ)√wΦ, from the kernel matrix."""
        U, (_, to_level, inner) = self.unpenalised.U, self._along
        squares = np.diag(self.K) - 2.0 * np.einsum("is,is->i", U, to_level)
        squares += np.einsum("is,st,it->i", U, inner, U)
        return np.asarray(np.abs(squares) * self.scale.root**2)  # negative where K is indefinite

    def shift(self, held: IntArray) -> float:
        """Return ‖Q_HᵀW_H‖² from the kernel matrix."""
        weighted, to_level, inner = self._along
        Z = weighted[held][:, None]
        U, K = self.unpenalised.U[held], submatrix(self.K, held, held)
        return float(_shifts(Z, K, U, to_level[held], inner)[0])

    def shifts(self, held: Ragged) -> FloatArray:
        """Return the same for several sets: large ones by one product with the kernel matrix."""
        (weighted, to_level, inner), n = self._along, len(held)
        m, s = weighted.shape
        if not n or FETCHED * float(np.square(held.sizes).sum()) < float(n * m**2):
            return super().shifts(held)
        found, step = np.empty(n), max(1, SHIFT_DOUBLES // max(1, m * s))
        for start in range(0, n, step):
            some = held.items(np.arange(start, min(start + step, n)))
            Z = np.zeros((m, len(some), s))
            Z[some.values, some.owners] = weighted[some.values]
            found[start : start + step] = _shifts(Z, self.K, self.unpenalised.U, to_level, inner)
        return found


def _shifts(
    Z: FloatArray, K: FloatArray, U: FloatArray, to_level: FloatArray, inner: FloatArray
) -> FloatArray:
    """Return ‖Q_HᵀW_H‖² (n,) of n sets: Z (k, n, s) is √wQ on their rows and zero on others."""
    k, n, s = Z.shape
    flat = Z.reshape(k, n * s)
    with threads_for(n * s):  # idle threads would keep spinning beside what follows
        total, level = ((flat.T @ B).reshape(n, s, s) for B in (U, to_level))  # Q_HᵀQ_H, Q_Hᵀ√wK√wQ
        square = np.einsum("ij,ij->j", flat, K @ flat).reshape(n, s).sum(axis=1)
    square += ((total @ inner - 2.0 * level) * total).sum(axis=(1, 2))
    return np.asarray(np.abs(square))
