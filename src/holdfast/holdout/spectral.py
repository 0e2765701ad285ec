"""Held-out predictions through |H| × |H| systems, from one factor of the whole data.

Papers 000 (Proposition 1, Corollary 2), 003 (16), 004 (9)–(10), in the form of `holdfast.factors`.

Removing basis rows E: a model on B∖E is the same problem under the constraint N_E θ = 0, where
row j of N gives the coefficient of basis row j. With Q an orthonormal basis of the span of the
rows N_E,

    M = D − D Q (QᵀDQ)⁻¹ QᵀD

takes the place of D everywhere. This replaces the printed Proposition 1, whose extra terms M
annihilates.

Cost per α: Σ_H |H|² p + |H|³ (+ |H| p |E| with removal); leave-one-out m p for each α.
"""

from __future__ import annotations

import numpy as np

from holdfast.exceptions import HoldOutError
from holdfast.experiments import Shape, Tasks
from holdfast.factors import Factor
from holdfast.linalg import orthonormal_rows
from holdfast.systems import FloatArray

#: Doubles that one stack of experiments may hold in each of its temporaries.
STACK_DOUBLES = 2**22


def predict(
    factor: Factor,
    Y: FloatArray,
    tasks: Tasks,
    alphas: FloatArray,
    columns: slice = slice(None),  # a slice is a constant
) -> FloatArray:
    """Return held-out predictions of all tasks, shape (alphas, test rows, targets).

    Parameters
    ----------
    factor : Factor
        A smoother of the whole data, valid for every α given.
    Y : ndarray of shape (m, v)
        The targets `columns` of those that the factor was made with.
    tasks : Tasks
    alphas : ndarray of shape (a,)
    columns : slice
    """
    Ys = factor.scale.targets(Y)
    z = factor.project(Ys, columns)
    predictions = np.empty((alphas.size, tasks.test.values.size, Y.shape[1]))
    for shape in tasks.shapes():
        h, e, t = shape.H.shape[1], shape.E.shape[1], shape.T.shape[1]
        alone = (h <= 1 and t == 1 and e <= 1) and (h == 0 or np.array_equal(shape.H, shape.T))
        step = max(1, STACK_DOUBLES // (max(h + t, 1) * (factor.Lambda.size + Y.shape[1])))
        for start in range(0, len(shape.index), step):
            part = Shape(*(array[start : start + step] for array in shape))
            solve = _one_row if alone else _rows
            predictions[:, part.out] = solve(factor, z, Ys, part, alphas)
    return predictions


def _constraint(factor: Factor, shape: Shape) -> FloatArray:
    """Return Q for each task, shape (b, p, e)."""
    assert factor.N is not None
    p, e = factor.N.shape[1], shape.E.shape[1]
    if e == 1:  # one row each: normalise all at once
        N = factor.N[shape.E[:, 0]]
        return np.asarray((N / np.linalg.norm(N, axis=1, keepdims=True))[:, :, None])
    Q = np.empty((len(shape.E), p, e))
    for b, positions in enumerate(shape.E):
        Q[b] = orthonormal_rows(factor.N[positions])
    return Q


def _rows(
    factor: Factor, z: FloatArray, Ys: FloatArray, shape: Shape, alphas: FloatArray
) -> FloatArray:
    """Return predictions (a, b, t, v) for stacked tasks of any size."""
    V, Y = factor.V[shape.H], Ys[shape.H]
    same = shape.H.shape == shape.T.shape and np.array_equal(shape.H, shape.T)
    out = factor.outputs(shape.T, V if same else factor.V[shape.T])
    h = shape.H.shape[1]
    Q = _constraint(factor, shape) if shape.E.shape[1] else None
    D_all = factor.D(alphas)
    D_res = factor.residual_D(D_all)
    predictions = np.empty((alphas.size, *shape.T.shape, Y.shape[2]))
    for a, (D, R) in enumerate(zip(D_all, D_res, strict=True)):
        VR = V * R  # (b, h, p)
        M = VR @ V.swapaxes(1, 2)
        e = VR @ z  # fitted values (primal), dual coefficients (dual)
        X = None
        if Q is not None:
            DQ = D[:, None] * Q
            X = np.linalg.solve(Q.swapaxes(1, 2) @ DQ, DQ.swapaxes(1, 2))  # (QᵀDQ)⁻¹QᵀD
            VDQ = V @ DQ
            M -= VDQ @ (X @ V.swapaxes(1, 2))
            e = e - VDQ @ (X @ z)
        if not factor.dual:
            M = np.eye(h) - M
            e = Y - e
        r = _solve(M, e, alphas[a])
        beta = z - V.swapaxes(1, 2) @ r  # (b, p, v)
        if Q is not None:
            beta = beta - Q @ (X @ beta)
        predictions[a] = out @ (D[:, None] * beta)
    return predictions


def _one_row(
    factor: Factor, z: FloatArray, Ys: FloatArray, shape: Shape, alphas: FloatArray
) -> FloatArray:
    """Return predictions (a, b, 1, v) for tasks that hold out and test the same single row.

    All α at once: leverages are one product of squared coordinates with D (paper 004 (10)).
    """
    rows = shape.T[:, 0]
    held = shape.H.shape[1] == 1
    D = factor.D(alphas)  # (a, p)
    V = factor.V[rows]
    out = factor.outputs(rows, V)
    scale = factor.scale.root[rows][:, None]
    predictions = np.empty((alphas.size, rows.size, 1, Ys.shape[1]))
    Dz = D[:, :, None] * z  # (a, p, v)
    fitted = out @ Dz  # (a, b, v), unscaled
    lift = (V * out) @ D.T  # (b, a): out_i · D V_i
    if shape.E.shape[1]:
        o = _constraint(factor, shape)[:, :, 0]
        oDo, VDo = (o * o) @ D.T, (V * o) @ D.T
        outDo = VDo / scale  # removal is primal: out = V / scale
        oDz = o @ Dz  # (a, b, v)
        fitted = fitted - (outDo / oDo).T[:, :, None] * oDz
        lift = lift - outDo * VDo / oDo
    if not held:
        predictions[:, :, 0] = fitted
        return predictions
    if factor.dual:
        R = factor.residual_D(D)
        r = (V @ (R[:, :, None] * z)) / ((V * V) @ R.T).T[:, :, None]
    else:
        leverage = lift * scale  # (b, a)
        r = (Ys[rows] - fitted * scale) / _gap(1.0 - leverage, alphas).T[:, :, None]
    predictions[:, :, 0] = fitted - lift.T[:, :, None] * r
    return predictions


def _gap(gap: FloatArray, alphas: FloatArray) -> FloatArray:
    """Return 1 − leverage after checking that a digit of it is left."""
    if gap.min() <= np.finfo(float).eps:
        alpha = alphas[np.unravel_index(np.argmin(gap), gap.shape)[1]]
        raise _no_digits(alpha)
    return gap


def _solve(M: FloatArray, e: FloatArray, alpha: float) -> FloatArray:
    try:
        return np.linalg.solve(M, e)
    except np.linalg.LinAlgError:
        raise _no_digits(alpha) from None


def _no_digits(alpha: float) -> HoldOutError:
    return HoldOutError(
        f"at alpha={alpha:.3g} the model interpolates its training rows to the last digit, so what "
        "it would predict without them cannot be told in double precision. Use larger alphas."
    )
