"""The weighted least-squares problem, in the space of coefficients or of rows.

Every model of holdfast is one of two systems, and both treat weights and bias the same way.

`PrimalSystem`: p features per row, W (m × p). Sparse models have the whitened features
W = K_{:B} C⁻ᵀ with K_BB + εI = C Cᵀ (paper 000 (14)–(15)); a linear kernel with fewer features than
rows has W = X. The model is f(x) = φ(x)·θ, the penalty α‖θ‖².

`DualSystem`: the m × m kernel matrix itself, f(x) = Σ a_i k(x, x_i), the penalty α aᵀKa.

Weights multiply rows by √w. The unpenalised bias is projected out: with q = √w/‖√w‖ the features
are centred by their weighted mean, which makes every column orthogonal to q, and q joins the
features as one more column, without penalty. Rows of weight zero keep their plain features: they
are predicted and never trained on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.linalg.blas import dsyrk

from holdfast.exceptions import KernelError
from holdfast.experiments import BoolArray, IntArray
from holdfast.gram import KernelData
from holdfast.linalg import Whitening, cholesky_basis, eigh

FloatArray = NDArray[np.float64]

#: Bytes of one block of rows: large enough for BLAS-3, small enough to stay near the cache.
BLOCK_BYTES = 32 * 2**20


@dataclass(frozen=True)
class RowScale:
    """Row weights in the form that the algebra uses.

    Attributes
    ----------
    root : ndarray of shape (m,)
        √w where the weight is positive, 1 where it is zero.
    trained : ndarray of bool, shape (m,)
        Whether the weight is positive.
    q : ndarray of shape (m,)
        √w/‖√w‖: the direction of the bias in scaled rows.
    norm : float
        ‖√w‖, so that the bias of the model is its q-coordinate divided by `norm`.
    """

    root: FloatArray
    trained: BoolArray
    q: FloatArray
    norm: float

    @classmethod
    def of(cls, weights: FloatArray) -> RowScale:
        """Return the scaling for these weights."""
        root = np.sqrt(weights)
        norm = float(np.linalg.norm(root))
        trained = weights > 0
        return cls(np.where(trained, root, 1.0), trained, root / norm, norm)

    def targets(self, Y: FloatArray) -> FloatArray:
        """Return √w · Y, zero where a row is not trained on."""
        return Y * (self.root * self.trained)[:, None]


@dataclass(frozen=True)
class PrimalSystem:
    """Weighted, centred feature rows and their Gram matrix.

    Attributes
    ----------
    W : ndarray of shape (m, p)
        Features times √w (untouched scale where w = 0); the last column is the bias if `bias`.
    gram : ndarray of shape (p, p), or (p,) when diagonal
        WᵀW over the trained rows. The bias column is orthogonal to the others and has norm 1.
    N : ndarray of shape (n, p)
        Published coefficients from coordinates: a = N θ. Rows belong to basis rows (N = C⁻ᵀ) or
        to input features (linear kernel). Zero in the bias column.
    mean : ndarray of shape (p,)
        Weighted mean of the raw features, in the coordinates of W: intercept = ȳ-part − mean·θ.
    scale : RowScale
    bias : bool
    """

    W: FloatArray
    gram: FloatArray
    N: FloatArray
    mean: FloatArray
    scale: RowScale
    bias: bool

    @property
    def penalised(self) -> FloatArray:
        """1 for every coordinate under the penalty, 0 for the bias."""
        mask = np.ones(self.W.shape[1])
        if self.bias:
            mask[-1] = 0.0
        return mask

    def project(self, Y: FloatArray) -> FloatArray:
        """Return Wᵀ√w Y, shape (p, v)."""
        return np.asarray(self.W.T @ self.scale.targets(Y))

    def coefficients(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (N θ, intercept) for coordinates θ of shape (p, v)."""
        if self.bias:
            return self.N @ theta, theta[-1] / self.scale.norm - self.mean @ theta
        return self.N @ theta, np.zeros(theta.shape[1])


@dataclass(frozen=True)
class DualSystem:
    """The kernel matrix of all rows with weights and bias, for a dense model.

    Attributes
    ----------
    K : ndarray of shape (m, m)
        Kernel matrix, unscaled.
    scale : RowScale
    bias : bool
    definite : bool
        Whether K must be positive semidefinite (kernels that declare it).
    """

    K: FloatArray
    scale: RowScale
    bias: bool
    definite: bool


def row_blocks(n_rows: int, n_columns: int) -> list[slice]:
    """Return slices that cut n_rows rows of n_columns doubles into blocks of BLOCK_BYTES."""
    step = max(64, BLOCK_BYTES // (8 * max(1, n_columns)))
    return [slice(i, min(i + step, n_rows)) for i in range(0, n_rows, step)]


def basis_jitter(data: KernelData, basis: IntArray, jitter: float) -> float:
    """Return the absolute shift ε: `jitter` times the mean diagonal of K_BB."""
    return jitter * float(np.mean(data.diag(basis)))


def sparse_system(
    data: KernelData, basis: IntArray, weights: FloatArray, *, bias: bool, shift: float
) -> PrimalSystem:
    """Return the whitened system of a sparse model on the given basis rows.

    Parameters
    ----------
    data : KernelData
        Rows and kernel.
    basis : ndarray of int, shape (n,)
        Basis rows B.
    weights : ndarray of shape (m,)
    bias : bool
    shift : float
        ε in K_BB + εI, part of the model.

    Notes
    -----
    Whitening before forming any Gram matrix is what keeps the digits: K_BᵀK_B squares the
    condition of K_BB, WᵀW does not. Cost m n d for the kernel, m n² for whitening and m n² for
    the Gram matrix; memory m n.
    """
    n, m = basis.size, len(data)
    C = cholesky_basis(data.block(basis, basis), shift)
    W = np.empty((m, n + bias))
    whitening = Whitening.prepare(C, m)
    for rows in row_blocks(m, n):
        block = data.block(rows, basis)
        W[rows, :n] = whitening.rows(block, out=block)
    inverse, _ = lapack.dtrtri(C, lower=1)
    return _finish(W, np.ascontiguousarray(inverse.T), weights, bias)


def linear_system(X: FloatArray, weights: FloatArray, *, bias: bool) -> PrimalSystem:
    """Return the primal system of a linear kernel: the features are the columns of X."""
    m, d = X.shape
    W = np.empty((m, d + bias))
    W[:, :d] = X
    return _finish(W, np.eye(d), weights, bias)


def _finish(W: FloatArray, N: FloatArray, weights: FloatArray, bias: bool) -> PrimalSystem:
    """Centre and scale raw features in place, add the bias column, form the Gram matrix."""
    m, p = W.shape
    scale = RowScale.of(weights)
    mean = np.zeros(p)
    if bias:
        mean[:-1] = (weights / weights.sum()) @ W[:, :-1]
        N = np.hstack([N, np.zeros((N.shape[0], 1))])
    gram = np.zeros((p, p), order="F")
    unweighted = bool(np.all(scale.root == 1.0))
    for rows in row_blocks(m, p):
        block = W[rows]
        if bias:
            block[:, :-1] -= mean[:-1]  # the last column holds nothing yet
            block[:, -1] = 1.0 / scale.norm
        if not unweighted:
            block *= scale.root[rows, None]
        live = scale.trained[rows]
        part = block if live.all() else block[live]
        gram = dsyrk(1.0, part.T, beta=1.0, c=gram, overwrite_c=True, lower=True)
    gram = np.tril(gram) + np.tril(gram, -1).T
    if bias:  # orthogonal by construction; do not let rounding say otherwise
        gram[-1, :], gram[:, -1], gram[-1, -1] = 0.0, 0.0, 1.0
    return PrimalSystem(W, gram, N, mean, scale, bias)


def rotate(system: PrimalSystem) -> PrimalSystem:
    """Return the same system in the eigenvectors of its Gram matrix; `system.W` is overwritten.

    Notes
    -----
    WᵀW = V Λ Vᵀ and U = W V (paper 000 (15), (23)). A rotation changes no prediction and no norm,
    so the rotated system serves every path. Cost: one eigendecomposition of size p and 2 m p².
    """
    if system.gram.ndim == 1:
        return system
    p = system.W.shape[1]
    inner = slice(0, p - system.bias)
    values, V = eigh(system.gram[inner, inner])
    Lambda = np.ones(p)
    Lambda[inner] = np.maximum(values, 0.0)
    for rows in row_blocks(*system.W.shape):
        system.W[rows, inner] = system.W[rows, inner] @ V
    N, mean = system.N.copy(), system.mean.copy()
    N[:, inner] = system.N[:, inner] @ V
    mean[inner] = system.mean[inner] @ V
    return replace(system, gram=Lambda, N=N, mean=mean)


def solve_primal(system: PrimalSystem, z: FloatArray, alpha: float) -> FloatArray:
    """Return θ that solves (gram + α·penalised) θ = z for all columns of z."""
    if system.gram.ndim == 1:
        return np.asarray(z / (system.gram + alpha * system.penalised)[:, None])
    A = system.gram + np.diag(alpha * system.penalised)
    factor, info = lapack.dpotrf(A, lower=1, overwrite_a=1)
    if info != 0:
        raise KernelError(
            f"the normal equations are singular at alpha={alpha:.3g} (pivot {info} of {len(A)}); "
            "use a larger alpha or a larger jitter."
        )
    theta, _ = lapack.dpotrs(factor, z, lower=1)
    return np.asarray(theta)
