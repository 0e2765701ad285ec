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
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from holdfast.exceptions import KernelError
from holdfast.experiments import BoolArray, IntArray
from holdfast.features import Features
from holdfast.gram import KernelData
from holdfast.linalg import blas_threads, eigh, run_pieces
from holdfast.progress import Counter

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
    uniform : bool
        Whether every weight is 1.
    """

    root: FloatArray
    trained: BoolArray
    q: FloatArray
    norm: float
    uniform: bool

    @classmethod
    def of(cls, weights: FloatArray, norm: float | None = None) -> RowScale:
        """Return the scaling for these weights, with the norm over more rows if it is given."""
        root = np.sqrt(weights)
        norm = float(np.linalg.norm(root)) if norm is None else norm
        trained = weights > 0
        uniform = bool(np.all(weights == 1.0))
        return cls(np.where(trained, root, 1.0), trained, root / norm, norm, uniform)

    def take(self, rows: slice | IntArray) -> RowScale:
        """Return the scaling of some rows; the bias keeps its norm over all rows."""
        trained = self.trained[rows]
        return RowScale(self.root[rows], trained, self.q[rows], self.norm, self.uniform)

    def targets(self, Y: FloatArray) -> FloatArray:
        """Return √w · Y, zero where a row is not trained on."""
        return Y if self.uniform else Y * (self.root * self.trained)[:, None]


@dataclass(frozen=True)
class StreamedRows:
    """Rows of W that are computed whenever they are asked for, instead of kept.

    Indexed like an array: ``W[rows]`` is a fresh (k, p) block.
    """

    features: Features
    mean: FloatArray
    scale: RowScale
    bias: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Return (m, p)."""
        return len(self.features), self.mean.size

    def __getitem__(self, index: slice | IntArray) -> FloatArray:
        flat = index if isinstance(index, slice) else index.ravel()
        block = self.features.rows(flat)
        if self.bias:
            full = np.empty((block.shape[0], self.mean.size))
            np.subtract(block, self.mean[:-1], out=full[:, :-1])
            full[:, -1] = 1.0 / self.scale.norm
            block = full
        if not self.scale.uniform:
            block *= self.scale.root[flat, None]
        return block if isinstance(index, slice) else block.reshape(*index.shape, self.mean.size)


Rows = FloatArray | StreamedRows


@dataclass(frozen=True)
class PrimalSystem:
    """Weighted, centred feature rows, their Gram matrix and their products with the targets.

    Attributes
    ----------
    W : ndarray or StreamedRows of shape (m, p)
        Features times √w (untouched scale where w = 0); the last column is the bias if `bias`.
    gram : ndarray of shape (p, p), or (p,) when diagonal
        WᵀW over the trained rows. The bias column is orthogonal to the others and has norm 1.
    z : ndarray of shape (p, v)
        Wᵀ√w Y over the trained rows.
    N : ndarray of shape (n, p)
        Published coefficients from coordinates: a = N θ. Rows belong to basis rows (N = C⁻ᵀ) or
        to input features (linear kernel). Zero in the bias column.
    mean : ndarray of shape (p,)
        Weighted mean of the raw features, in the coordinates of W: intercept = ȳ-part − mean·θ.
    norms : ndarray of shape (m,)
        ‖W_i‖² without the bias, roughly: about the mean of a sample of the rows.
    scale : RowScale
    bias : bool
    """

    W: Rows
    gram: FloatArray
    z: FloatArray
    N: FloatArray
    mean: FloatArray
    norms: FloatArray
    scale: RowScale
    bias: bool

    @property
    def inner(self) -> slice:
        """The coordinates under the penalty: all but the bias."""
        return slice(0, self.z.shape[0] - self.bias)

    @property
    def penalised(self) -> FloatArray:
        """1 for every coordinate under the penalty, 0 for the bias."""
        mask = np.zeros(self.z.shape[0])
        mask[self.inner] = 1.0
        return mask

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


def row_blocks(n_rows: int, n_columns: int, start: int = 0) -> list[slice]:
    """Return slices that cut rows of n_columns doubles into blocks of BLOCK_BYTES."""
    step = max(64, BLOCK_BYTES // (8 * max(1, n_columns)))
    return [slice(i, min(i + step, n_rows)) for i in range(start, n_rows, step)]


def basis_jitter(data: KernelData, basis: IntArray, jitter: float) -> float:
    """Return the absolute shift ε: `jitter` times the mean diagonal of K_BB."""
    return jitter * float(np.mean(data.diag(basis)))


@dataclass(frozen=True)
class Moments:
    """Sums over some rows, from which a system is assembled; sums over parts add up.

    Attributes
    ----------
    gram : ndarray of shape (p, p)
        Σ w (φ − c)(φ − c)ᵀ for a fixed centre c.
    z : ndarray of shape (p, v)
        Σ w (φ − c) yᵀ.
    drift : ndarray of shape (p,)
        Σ w (φ − c).
    """

    gram: FloatArray
    z: FloatArray
    drift: FloatArray

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.gram + other.gram, self.z + other.z, self.drift + other.drift)


def moments(
    features: Features,
    centre: FloatArray,
    scale: RowScale,
    Ys: FloatArray,
    *,
    bias: bool,
    W: FloatArray | None = None,
) -> tuple[Moments, FloatArray]:
    """Return the moments of all rows of `features` and ‖√w(φ − c)‖² of each, in one pass.

    With `W`, the rows √w(φ − c) are also stored in its leading columns.
    """
    m, p = len(features), centre.size
    norms = np.empty(m)
    ones = scale.root * scale.trained
    ranges = _ranges(m, blas_threads() if features.parallel else 1)
    sums = [Moments(np.zeros((p, p)), np.zeros((p, Ys.shape[1])), np.zeros(p)) for _ in ranges]
    done = Counter(m, "feature rows")

    def work(number: int) -> None:
        mine = sums[number]
        for rows in row_blocks(ranges[number].stop, p, ranges[number].start):
            block = features.rows(rows)
            if bias:
                block -= centre
            if not scale.uniform:
                block *= scale.root[rows, None]
            live = scale.trained[rows]
            part = block if live.all() else block[live]
            mine.gram[...] += part.T @ part
            mine.z[...] += block.T @ Ys[rows]
            mine.drift[...] += ones[rows] @ block
            norms[rows] = np.einsum("ip,ip->i", block, block)
            if W is not None:
                W[rows, :p] = block
            done.add(rows.stop - rows.start)

    # One range of rows for each thread, so that the sums are the same every time.
    run_pieces(work, range(len(ranges)))
    return sum(sums[1:], start=sums[0]), norms


def _ranges(n_rows: int, n_parts: int) -> list[slice]:
    """Return slices that cut the rows into equal parts, one for each thread."""
    cuts = np.linspace(0, n_rows, max(1, min(n_parts, n_rows)) + 1).astype(int).tolist()
    return [slice(start, stop) for start, stop in pairwise(cuts)]


def primal_system(
    features: Features,
    weights: FloatArray,
    Y: FloatArray,
    *,
    bias: bool,
    keep: bool = True,
) -> PrimalSystem:
    """Return the system of a model in feature space, in one pass over blocks of rows.

    Parameters
    ----------
    features : Features
    weights : ndarray of shape (m,)
    Y : ndarray of shape (m, v)
    bias : bool
    keep : bool
        Whether to keep W (m p numbers), or to compute its rows again whenever they are needed.

    Notes
    -----
    Whitening before forming any Gram matrix is what keeps the digits: K_BᵀK_B squares the
    condition of K_BB, WᵀW does not. The exact mean is known only after the pass, so rows are
    first centred by the mean of a sample, and the small remainder is corrected: nothing cancels.
    Cost m n d for the kernel, m p² for whitening and m p² for the Gram matrix.
    """
    m, p = len(features), features.to_coefficients.shape[1]
    scale = RowScale.of(weights)
    centre = sample_mean(features, weights) if bias else np.zeros(p)
    W = np.empty((m, p + bias)) if keep else None
    Ys = scale.targets(Y)
    sums, norms = moments(features, centre, scale, Ys, bias=bias, W=W)
    system = assemble(features, sums, norms, centre, scale, Ys, bias=bias)
    if W is None:
        return system
    if bias:
        drift = system.mean[:-1] - centre

        def centred(rows: slice) -> None:
            W[rows, :p] -= drift if scale.uniform else scale.root[rows, None] * drift

        run_pieces(centred, row_blocks(m, p))
        W[:, p] = scale.root / scale.norm
    return replace(system, W=W)


def assemble(
    features: Features,
    sums: Moments,
    norms: FloatArray,
    centre: FloatArray,
    scale: RowScale,
    Ys: FloatArray,
    *,
    bias: bool,
) -> PrimalSystem:
    """Return the system, with streamed rows, from the moments of all rows about `centre`."""
    p = centre.size
    gram = (sums.gram + sums.gram.T) / 2.0
    N = features.to_coefficients
    if not bias:
        rows = StreamedRows(features, centre, scale, bias)
        return PrimalSystem(rows, gram, sums.z, N, centre, norms, scale, bias)
    total, ones = scale.norm**2, scale.root * scale.trained
    drift = sums.drift / total
    gram -= total * np.outer(drift, drift)
    z = sums.z - np.outer(drift, ones @ Ys)
    mean = np.append(centre + drift, 0.0)
    return PrimalSystem(
        StreamedRows(features, mean, scale, bias),
        np.block([[gram, np.zeros((p, 1))], [np.zeros((1, p)), np.ones((1, 1))]]),
        np.vstack([z, scale.q @ Ys]),
        np.hstack([N, np.zeros((N.shape[0], 1))]),
        mean,
        norms,
        scale,
        bias,
    )


def sample_mean(features: Features, weights: FloatArray) -> FloatArray:
    """Return the weighted mean of the features over an even sample of trained rows."""
    live = np.flatnonzero(weights > 0)
    sample = live[np.linspace(0, live.size - 1, min(live.size, 512)).astype(np.int64)]
    return np.asarray(np.average(features.rows(sample), axis=0, weights=weights[sample]))


def transform(system: PrimalSystem, T: FloatArray) -> PrimalSystem:
    """Return the system in the features W T, with T (p', p') on all coordinates but the bias.

    The Gram matrix is left for the caller to replace. `system` stays as it is.
    """
    inner = system.inner
    N, mean, z = system.N.copy(), system.mean.copy(), system.z.copy()
    N[:, inner] = system.N[:, inner] @ T
    mean[inner] = system.mean[inner] @ T
    z[inner] = T.T @ system.z[inner]
    W: Rows
    if isinstance(system.W, StreamedRows):
        W = StreamedRows(system.W.features.mapped(T), mean, system.scale, system.bias)
    else:
        old, new = system.W, np.empty_like(system.W)

        def work(rows: slice) -> None:
            np.matmul(old[rows, inner], T, out=new[rows, inner])

        run_pieces(work, row_blocks(*old.shape))
        if system.bias:
            new[:, -1] = old[:, -1]
        W = new
    return replace(system, W=W, N=N, mean=mean, z=z)


def rotate(system: PrimalSystem) -> PrimalSystem:
    """Return the same system in the eigenvectors of its Gram matrix.

    Notes
    -----
    WᵀW = V Λ Vᵀ and U = W V (paper 000 (15), (23)). A rotation changes no prediction and no norm,
    so the rotated system serves every path. Cost: one eigendecomposition of size p and 2 m p².
    """
    if system.gram.ndim == 1:
        return system
    values, V = eigh(system.gram[system.inner, system.inner])
    Lambda = np.ones(system.z.shape[0])
    Lambda[system.inner] = np.maximum(values, 0.0)
    return replace(transform(system, V), gram=Lambda)


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
