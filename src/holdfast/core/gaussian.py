"""How widely held-out targets scatter about their predictions: the Gaussian view of the identity.

With noise variance σ²/w and prior covariance (σ²/α)k, the distribution of the held-out targets
given all others is normal with mean f₋H and covariance σ²(I − S_HH)⁻¹ in units of √w y (Rasmussen &
Williams 2006, §5.4.2, for one row and a dense model; Ginsbourger & Schärer 2024 for groups),
removed basis rows included. Test rows that are a part of the held-out rows take their block of it.

A test row that is not held out (its weight is zero, or the policy keeps basis rows) is a new
observation to the model, with the noise of its own weight, one where that is zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.core.block import FeatureBlock, HeldOutBlock
from holdfast.core.experiments import Shape, Tasks
from holdfast.core.factor import Factor
from holdfast.core.lapack import CHUNK
from holdfast.core.models import HeldOutModels
from holdfast.core.smoother import Smoother


@dataclass(frozen=True, eq=False)
class SecondMoments:
    """Second moments of held-out targets, for every penalty; the noise variance is one.

    Attributes
    ----------
    variance : ndarray of shape (a, k)
        Of each tested row, in units of y.
    log_det : ndarray of shape (a, J)
        log det of the covariance of the test rows of each experiment, in units of y.
    square : ndarray of shape (a, J, v)
        rᵀ C⁻¹ r of the test rows of each experiment.
    count : ndarray of int, shape (J,)
        Test rows of positive weight; the others count in neither.
    """

    variance: FloatArray
    log_det: FloatArray
    square: FloatArray
    count: IntArray

    @property
    def noise(self) -> FloatArray:
        """σ̂² (a, v) = Σ_H r_HᵀC⁻¹r_H / Σ|H|: what maximises the held-out density."""
        return np.asarray(self.square.sum(axis=1) / max(1, int(self.count.sum())))


def second_moments(models: HeldOutModels, alphas: FloatArray, errors: FloatArray) -> SecondMoments:
    """Return the second moments of the test rows of all tasks.

    Parameters
    ----------
    models : HeldOutModels
        The tasks; its own penalties do not matter.
    alphas : ndarray of shape (a,)
    errors : ndarray of shape (a, k, v)
        y − f₋H on the test rows of all tasks laid end to end.

    Notes
    -----
    Per penalty h²p + h³ for each experiment, where p < h no more than 2(h + t)p² + p³; 2p for
    leave-one-out.
    """
    tasks, a, weights = models.tasks, alphas.size, models.smoother.data.weights
    trained = weights.trained[tasks.test.values]
    found = SecondMoments(
        np.empty((a, tasks.test.values.size)),
        np.empty((a, len(tasks))),
        np.empty((a, len(tasks), errors.shape[2])),
        np.bincount(tasks.test.owners, weights=trained, minlength=len(tasks)).astype(np.int64),
    )
    known = np.flatnonzero(~models.refitted)
    if known.size:
        _by_identity(found, models.smoother, tasks, known, alphas, errors)
    for j, own in models.smoothers():
        rows, out = tasks.test[j], slice(tasks.test.ptr[j], tasks.test.ptr[j + 1])
        root, outside = weights.root[rows], ~np.isin(rows, tasks.held[j])
        C = own.posterior(rows, alphas) * root[:, None] * root
        C[:, _not_joint(outside)] = 0.0
        C[:, np.arange(rows.size), np.arange(rows.size)] += 1.0
        place = np.array([j]), out
        _store(
            found, *place, C[None], errors[:, None, out], root[None], weights.trained[rows][None]
        )
    return found


def _not_joint(outside: BoolArray) -> BoolArray:
    """Return the pairs of test rows (t, t) whose covariance is not asked for.

    Rows that are not held out are new observations, each by itself.
    """
    either = outside[:, None] | outside
    np.fill_diagonal(either, False)
    return np.asarray(either)


def _by_identity(
    found: SecondMoments,
    smoother: Smoother,
    tasks: Tasks,
    known: IntArray,
    alphas: FloatArray,
    errors: FloatArray,
) -> None:
    """Put the moments of tasks that are not refitted in their places."""
    factor, weights = smoother.factor(float(alphas.min())), smoother.data.weights
    part = tasks.select(known)
    most = int(max(part.held.sizes.max(), part.test.sizes.max(), 1))
    per_row = factor.size + 3 * alphas.size * most
    for shape in (own for whole in part.shapes() for own in whole.stacks(per_row, CHUNK)):
        index = known[shape.index]
        out = tasks.test.ptr[index][:, None] + np.arange(shape.T.shape[1])
        block = factor.block(shape, alphas)
        root, trained = weights.root[shape.T], weights.trained[shape.T]
        if isinstance(block, FeatureBlock) and shape.H.shape[1] > block.size:
            try:
                _wide(found, factor, block, shape, index, out, errors, root, trained)
                continue
            except np.linalg.LinAlgError:
                pass  # sets that lost accuracy, too many to refit: as accurate as they are
        C = _covariance(smoother, factor, block, shape, alphas)
        _store(found, index, out, C, errors[:, out], root, trained)


def _wide(
    found: SecondMoments,
    factor: Factor,
    block: FeatureBlock,
    shape: Shape,
    index: IntArray,
    out: IntArray,
    errors: FloatArray,
    root: FloatArray,
    trained: BoolArray,
) -> None:
    """Put the moments of tasks that hold out more rows than there are coordinates in their places.

    With Ṽ = V M^½ and I − Ṽ_HᵀṼ_H = L Lᵀ the covariance of any test rows is I + FFᵀ, F = Ṽ_T L⁻ᵀ:
    per penalty 2(h + t)p² + p³, and nothing is larger than h × p.
    """
    inside, outputs = _places(shape)[1], factor.outputs(shape.T)
    for b, j in enumerate(index.tolist()):
        gram, rows = block.V[b].T @ block.V[b], outputs[b] * root[b][:, None]
        O = None if block.O is None else block.O[b]  # noqa: E741
        joint, alone = trained[b] & inside[b], trained[b] & ~inside[b]
        r = errors[:, out[b]] * root[b][:, None]  # (a, t, v)
        for a, d in enumerate(np.sqrt(block.D)):
            left = np.eye(d.size) - _projected(_projected(d[:, None] * gram * d, O, d).T, O, d)
            L = np.linalg.cholesky(left)
            F = solve_triangular(L, _projected((rows * d).T, O, d), lower=True)
            size = 1.0 + np.square(F).sum(axis=0)
            found.variance[a, out[b]] = size / np.square(root[b])
            # rᵀ(I + FFᵀ)⁻¹r is the smallest |r − Fx|² + |x|²: nothing is subtracted.
            F_j, r_j = F[:, joint], r[a, joint]
            whole = np.linalg.cholesky(np.eye(d.size) + F_j @ F_j.T)
            x = cho_solve((whole, True), F_j @ r_j)
            square = np.square(r_j - F_j.T @ x).sum(axis=0) + np.square(x).sum(axis=0)
            log_det = 2.0 * np.log(np.diag(whole)).sum() + np.log(size[alone]).sum()
            found.log_det[a, j] = log_det - 2.0 * np.log(root[b][trained[b]]).sum()
            found.square[a, j] = square + (np.square(r[a, alone]).T / size[alone]).sum(axis=1)


def _projected(columns: FloatArray, O: FloatArray | None, d: FloatArray) -> FloatArray:  # noqa: E741
    """Return columns without their part along diag(d) O: what removed basis rows leave of them."""
    if O is None or not O.shape[1]:
        return columns
    along = np.linalg.qr(d[:, None] * O)[0]
    return np.asarray(columns - along @ (along.T @ columns))


def _covariance(
    smoother: Smoother, factor: Factor, block: HeldOutBlock, shape: Shape, alphas: FloatArray
) -> FloatArray:
    """Return the covariance (b, a, t, t) of √w y on the test rows."""
    b, h = shape.H.shape
    A = block.gaps(slice(0, b))
    C: FloatArray = np.asarray(1.0 / A if h == 1 else np.linalg.inv(A), dtype=np.float64)
    if shape.same_rows:
        return C
    place, inside = _places(shape)
    t = shape.T.shape[1]
    C_T: FloatArray = np.zeros((b, alphas.size, t, t))
    if h:
        rows = np.arange(b)[:, None, None, None], np.arange(alphas.size)[None, :, None, None]
        C_T = C[*rows, place[:, None, :, None], place[:, None, None, :]]
    if not inside.all():
        _as_new(C_T, C, smoother, factor, block, shape, alphas, inside)
    return np.asarray(C_T)


def _places(shape: Shape) -> tuple[IntArray, BoolArray]:
    """Return where each test row is among the held-out rows of its task, and whether it is."""
    if not shape.H.shape[1]:
        return np.zeros_like(shape.T), np.zeros(shape.T.shape, dtype=bool)
    if shape.same_rows:
        return np.broadcast_to(np.arange(shape.T.shape[1]), shape.T.shape), shape.T >= 0
    same = shape.T[:, :, None] == shape.H[:, None, :]
    return same.argmax(axis=2), same.any(axis=2)


def _as_new(
    C_T: FloatArray,
    C: FloatArray,
    smoother: Smoother,
    factor: Factor,
    block: HeldOutBlock,
    shape: Shape,
    alphas: FloatArray,
    inside: BoolArray,
) -> None:
    """Make the test rows that are not held out new observations, each by itself, in place.

    var f₋H(x) = var f(x) + ℓ(I − S_HH)⁻¹ℓᵀ with ℓ = v(x) M V_Hᵀ, in units of the noise.
    """
    out = factor.outputs(shape.T)
    M_out = block.constrained(out)  # (b, a, t, p)
    if isinstance(block, FeatureBlock):
        base = np.einsum("btp,batp->bat", out, M_out)
    else:
        base = np.empty((len(shape.T), alphas.size, shape.T.shape[1]))
        for j, rows in enumerate(shape.T):
            base[j] = np.diagonal(smoother.posterior(rows, alphas), axis1=1, axis2=2)
    if shape.H.shape[1]:
        lift = M_out @ block.V[:, None].swapaxes(2, 3)  # (b, a, t, h)
        base = base + np.einsum("bath,bahg,batg->bat", lift, C, lift)
    weight = np.square(smoother.data.weights.root[shape.T])[:, None]
    for b, outside in enumerate(~inside):
        C_T[b, :, _not_joint(outside)] = 0.0
        t = np.flatnonzero(outside)
        C_T[b, :, t, t] = (1.0 + base * weight)[b, :, t].reshape(t.size, -1)


def _store(
    found: SecondMoments,
    index: IntArray,
    out: IntArray | slice,
    C: FloatArray,
    errors: FloatArray,
    root: FloatArray,
    trained: BoolArray,
) -> None:
    """Put the moments of stacked tasks where they belong; C (b, a, t, t) of √w y."""
    diagonal = np.diagonal(C, axis1=2, axis2=3) / np.square(root)[:, None]  # (b, a, t)
    found.variance[:, out] = diagonal.swapaxes(0, 1) if not isinstance(out, slice) else diagonal[0]
    if not trained.all():  # rows without weight: independent, and of no residual
        C, (i, t) = C.copy(), np.nonzero(~trained)
        C[i, :, t, :] = 0.0
        C[i, :, :, t] = 0.0
        C[i, :, t, t] = 1.0
    r = (errors * (root * trained)[None, :, :, None]).swapaxes(0, 1)  # (b, a, t, v)
    log_det: FloatArray
    if C.shape[2] == 1:
        log_det, half = np.log(C[..., 0, 0]), np.asarray(r / C)
    else:
        log_det, half = np.asarray(np.linalg.slogdet(C)[1]), np.asarray(np.linalg.solve(C, r))
    log_weight = 2.0 * np.where(trained, np.log(root), 0.0).sum(axis=1)
    found.log_det[:, index] = (log_det - log_weight[:, None]).T
    found.square[:, index] = (r * half).sum(axis=2).swapaxes(0, 1)
