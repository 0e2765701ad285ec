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
from scipy.linalg import lapack

from holdfast._typing import FloatArray, IntArray
from holdfast.data.indices import as_slice
from holdfast.exceptions import KernelError
from holdfast.experiments import Ragged
from holdfast.kernels.matrix import KernelData
from holdfast.linalg import eigh, run_pieces, subtract_outer
from holdfast.smoother.features import Features
from holdfast.smoother.moments import Moments, RowScale, even_blocks, moments, sample_mean


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


FeatureRows = FloatArray | StreamedRows


@dataclass(frozen=True)
class HeldSums:
    """WᵀW and Wᵀ√wY over each of several disjoint sets of rows.

    Attributes
    ----------
    rows : Ragged
        The sets.
    gram, z : list of ndarray
        Of shapes (p, p) and (p, v), one of each for every set.
    owner : ndarray of int, shape (m,)
        Which set a row belongs to; meaningless for rows that belong to none.
    """

    rows: Ragged
    gram: list[FloatArray]
    z: list[FloatArray]
    owner: IntArray

    def find(self, held: IntArray) -> tuple[FloatArray, FloatArray] | None:
        """Return (gram, z) of exactly these rows, in their order, if they are one of the sets."""
        if not held.size:
            return None
        number = int(self.owner[held[0]])
        return (
            (self.gram[number], self.z[number]) if np.array_equal(self.rows[number], held) else None
        )


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
    held : HeldSums or None
        Gram matrices of held-out sets, if they were asked for and while W is as it was made.
    """

    W: FeatureRows
    gram: FloatArray
    z: FloatArray
    N: FloatArray
    mean: FloatArray
    norms: FloatArray
    scale: RowScale
    bias: bool
    held: HeldSums | None = None

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


def basis_jitter(data: KernelData, basis: IntArray, jitter: float) -> float:
    """Return the absolute shift ε: `jitter` times the mean diagonal of K_BB."""
    return jitter * float(np.mean(data.diag(basis)))


def primal_system(
    features: Features,
    weights: FloatArray,
    Y: FloatArray,
    *,
    bias: bool,
    keep: bool = True,
    held: Ragged | None = None,
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
    held : Ragged or None
        Disjoint sets of trained rows whose own sums are wanted as well: their Gram matrices then
        cost nothing but p² numbers of memory each, for the sum of all is the sum of the parts.

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
    sets = [] if held is None else [as_slice(held[j]) for j in range(len(held))]
    sums, parts, norms = moments(features, centre, scale, Ys, bias=bias, W=W, sets=sets)
    system = assemble(features, sums, norms, centre, scale, Ys, bias=bias)
    if held is not None:
        system = replace(system, held=_held_sums(system, held, parts, centre, Ys))
    if W is None:
        return system
    if bias:
        drift = system.mean[:-1] - centre

        def centred(rows: slice) -> None:
            W[rows, :p] -= drift if scale.uniform else scale.root[rows, None] * drift

        run_pieces(centred, even_blocks(m, p))
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
    N = features.to_coefficients
    if not bias:
        rows = StreamedRows(features, centre, scale, bias)
        return PrimalSystem(rows, sums.gram, sums.z, N, centre, norms, scale, bias)
    drift, ones = sums.drift / scale.norm**2, scale.root * scale.trained
    gram = sums.gram.copy()
    subtract_outer(gram[:-1, :-1], drift, sums.drift)
    gram[-1, -1] = 1.0
    mean = np.append(centre + drift, 0.0)
    return PrimalSystem(
        StreamedRows(features, mean, scale, bias),
        gram,
        np.vstack([sums.z - np.outer(drift, ones @ Ys), scale.q @ Ys]),
        np.hstack([N, np.zeros((N.shape[0], 1))]),
        mean,
        norms,
        scale,
        bias,
    )


def _held_sums(
    system: PrimalSystem,
    held: Ragged,
    parts: list[Moments],
    centre: FloatArray,
    Ys: FloatArray,
) -> HeldSums:
    """Return the sums of each set in the coordinates of W, from its moments about `centre`.

    The moments are used up.
    """
    owner = np.zeros(len(system.norms), dtype=np.int64)
    owner[held.values] = held.owners
    if not system.bias:
        return HeldSums(held, [part.gram for part in parts], [part.z for part in parts], owner)
    scale, d = system.scale, system.mean[:-1] - centre
    grams, zs = [], []
    for rows, part in zip((held[j] for j in range(len(held))), parts, strict=True):
        q, Y = scale.q[rows], Ys[rows]
        total = scale.norm**2 * float(q @ q)  # Σ w
        moved = part.drift - total * d  # Σ w (φ − mean)
        gram = part.gram
        subtract_outer(gram[:-1, :-1], part.drift, d)
        subtract_outer(gram[:-1, :-1], d, moved)
        gram[:-1, -1] = gram[-1, :-1] = moved / scale.norm
        gram[-1, -1] = q @ q
        grams.append(gram)
        zs.append(np.vstack([part.z - np.outer(d, scale.norm * (q @ Y)), q @ Y]))
    return HeldSums(held, grams, zs, owner)


def transform(system: PrimalSystem, T: FloatArray, *, overwrite: bool = False) -> PrimalSystem:
    """Return the system in the features W T, with T (p', p') on all coordinates but the bias.

    The Gram matrix is left for the caller to replace. With `overwrite` the new rows take the memory
    of the old ones, and `system` is of no use any more; otherwise it stays as it is.
    """
    inner = system.inner
    N, mean, z = np.zeros_like(system.N), system.mean.copy(), system.z.copy()
    np.matmul(system.N[:, inner], T, out=N[:, inner])
    mean[inner] = system.mean[inner] @ T
    z[inner] = T.T @ system.z[inner]
    W: FeatureRows
    if isinstance(system.W, StreamedRows):
        W = StreamedRows(system.W.features.mapped(T), mean, system.scale, system.bias)
    else:
        old = system.W
        new = old if overwrite else np.empty_like(old)

        def work(rows: slice) -> None:
            new[rows, inner] = old[rows, inner] @ T

        run_pieces(work, even_blocks(*old.shape))
        if system.bias and not overwrite:
            new[:, -1] = old[:, -1]
        W = new
    return replace(system, W=W, N=N, mean=mean, z=z, held=None)


def rotate(system: PrimalSystem, *, overwrite: bool = False) -> PrimalSystem:
    """Return the same system in the eigenvectors of its Gram matrix.

    Parameters
    ----------
    system : PrimalSystem
    overwrite : bool
        Let the rows of `system` be destroyed: a fresh array of that size takes time to get.

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
    return replace(transform(system, V, overwrite=overwrite), gram=Lambda)


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
