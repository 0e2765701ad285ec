"""Held-out predictions through |H| × |H| systems, from one factor of the whole data.

Papers 000 (Proposition 1, Corollary 2), 003 (16), 004 (9)–(10), in the form of
`holdfast.smoother.factors`.

Removing basis rows E: a model on B∖E is the same problem under the constraint N_E θ = 0, where
row j of N gives the coefficient of basis row j. With Q an orthonormal basis of the span of the
rows N_E,

    M = D − D Q (QᵀDQ)⁻¹ QᵀD

takes the place of D everywhere. This replaces the printed Proposition 1, whose extra terms M
annihilates.

Cost per α: Σ_H |H|² p + |H|³ by direct systems, about ten times Σ_H 4|H| p by conjugate gradients;
leave-one-out m p for each α.
"""

from __future__ import annotations

import numpy as np

from holdfast._typing import FloatArray
from holdfast.exceptions import HoldOutError
from holdfast.experiments import Shape, Tasks
from holdfast.linalg import (
    HeldOutRows,
    blas_threads,
    orthonormal_rows,
    run_pieces,
    solve_cg,
    solve_direct,
    weighted_products,
)
from holdfast.progress import Counter
from holdfast.smoother.factors import Factor

#: Doubles that one stack of experiments may hold in each of its temporaries.
STACK_DOUBLES = 2**20

#: Conjugate gradients pay from this many held-out rows on, with this many systems of them …
CG_ROWS, CG_SYSTEMS = 24, 300
#: … and if no held-out row has more leverage than this; beyond, too many steps are needed.
CG_LEVERAGE = 0.95


def predict(
    factor: Factor,
    Y: FloatArray,
    tasks: Tasks,
    alphas: FloatArray,
    columns: slice = slice(None),
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
    done = Counter(len(tasks), "held-out experiments")

    def work(part: Shape) -> None:
        solve = _one_row if _alone(part) else _rows
        predictions[:, part.out] = solve(factor, z, Ys, part, alphas)
        done.add(len(part.index))

    parts = tasks.stacks(factor.Lambda.size + alphas.size * Y.shape[1], STACK_DOUBLES)
    if factor.parallel and len(parts) >= 2 * blas_threads():
        run_pieces(work, parts)
    else:  # threads work inside the part
        for part in parts:
            work(part)
    return predictions


def _alone(shape: Shape) -> bool:
    """Whether these tasks test one row each, and hold out that row or none."""
    h, e, t = shape.H.shape[1], shape.E.shape[1], shape.T.shape[1]
    return (h <= 1 and t == 1 and e <= 1) and (h == 0 or np.array_equal(shape.H, shape.T))


def _constraint(factor: Factor, shape: Shape) -> FloatArray | None:
    """Return Q for each task, shape (b, p, e), or None if nothing is removed."""
    p, e = factor.Lambda.size, shape.E.shape[1]
    if e == 0:
        return None
    assert factor.N is not None
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
    """Return predictions (a, b, t, v) for stacked tasks of any size.

    x = z − V_Hᵀ r in rows (a v, p), β = M x, f = out β: two products per task for all α.
    """
    V = factor.V[shape.H]  # (b, h, p)
    same = shape.H.shape == shape.T.shape and np.array_equal(shape.H, shape.T)
    out = factor.outputs(shape.T, V if same else factor.V[shape.T])
    D, Q = factor.D(alphas), _constraint(factor, shape)
    held = HeldOutRows(V, None, Q, factor.dual)
    r = _residuals(factor, held, D, _full_residuals(factor, held, D, z, Ys[shape.H]))
    a, v = alphas.size, z.shape[1]
    predictions = np.empty((a, *shape.T.shape, v))

    def work(piece: slice) -> None:
        g = piece.stop - piece.start
        R = r[:, piece].transpose(1, 0, 3, 2).reshape(g, a * v, -1)  # (g, a v, h)
        beta = (z.T - (R @ V[piece]).reshape(g, a, v, -1)) * D[:, None]
        if Q is not None:
            beta -= _removed(Q[piece], D, beta)
        f = beta.reshape(g, a * v, -1) @ out[piece].swapaxes(1, 2)
        predictions[:, piece] = f.reshape(g, a, v, -1).transpose(1, 0, 3, 2)

    run_pieces(work, held.pieces(z.shape[0] * (shape.H.shape[1] + 2 * a * v)))
    return predictions


def _removed(Q: FloatArray, D: FloatArray, beta: FloatArray) -> FloatArray:
    """Return D Q (QᵀDQ)⁻¹ Qᵀ β for β (g or 1, a, v, p): what the constraint takes away."""
    g, (_, a, v, p) = len(Q), beta.shape
    Qt = np.ascontiguousarray(Q.swapaxes(1, 2))
    inner = weighted_products(Qt, D)  # (g, a, e, e)
    along = (beta.reshape(-1, a * v, p) @ Q).reshape(g, a, v, -1)
    weight = np.linalg.solve(inner, along.swapaxes(2, 3)).swapaxes(2, 3)  # (g, a, v, e)
    taken: FloatArray = weight.reshape(g, a * v, -1) @ Qt
    taken = taken.reshape(g, a, v, p)
    taken *= D[:, None]
    return taken


def _full_residuals(
    factor: Factor, held: HeldOutRows, D: FloatArray, z: FloatArray, Y: FloatArray
) -> FloatArray:
    """Return (y − ŷ)_H of the full model (a, b, h, v); in the dual form its dual coefficients."""
    b, h, p = held.shape
    a, v = D.shape[0], z.shape[1]
    R = factor.residual_D(D)
    beta = (R[:, None] * z.T).reshape(a * v, p)
    if held.O is not None:
        fitted = np.empty((b, h, a * v))
        whole, O = beta.reshape(1, a, v, p), held.O  # noqa: E741

        def work(piece: slice) -> None:
            g = piece.stop - piece.start
            left = whole - _removed(O[piece], D, whole)
            np.matmul(held.V[piece], left.reshape(g, a * v, p).swapaxes(1, 2), out=fitted[piece])

        run_pieces(work, held.pieces(a * v * p))
    else:
        fitted = held.V.reshape(b * h, p) @ beta.T
    fitted = fitted.reshape(b, h, a, v).transpose(2, 0, 1, 3)
    return np.ascontiguousarray(fitted if factor.dual else Y - fitted)


def _residuals(factor: Factor, held: HeldOutRows, D: FloatArray, E: FloatArray) -> FloatArray:
    """Return held-out residuals (a, b, h, v), by conjugate gradients where they pay."""
    b, h, p = held.shape
    if h == 0:
        return E
    R = factor.residual_D(D)
    if R.min() < 0:  # an indefinite kernel: neither Cholesky nor conjugate gradients apply
        M = (held.V * R[:, None, None]) @ held.V.swapaxes(1, 2)
        return np.asarray(np.linalg.solve(M, E))
    if factor.dual or h < CG_ROWS or h * D.shape[0] < CG_SYSTEMS:
        return solve_direct(held, R, E)
    easy = np.arange(D.shape[0])
    # The smallest α has the largest D everywhere: its leverages bound all others.
    if np.einsum("bhp,bhp->bh", held.V * R[R[:, 0].argmax()], held.V).max() >= CG_LEVERAGE:
        leverage = (held.V * held.V).reshape(b * h, p) @ R.T  # (b h, a)
        easy = np.flatnonzero(leverage.max(axis=0) < CG_LEVERAGE)
    hard = np.setdiff1d(np.arange(D.shape[0]), easy)
    r = np.empty_like(E)
    if easy.size:
        r[easy], converged = solve_cg(held, R[easy], E[easy])
        hard = np.append(hard, easy[~converged.all(axis=1)])
    if hard.size:
        r[hard] = solve_direct(held, R[hard], E[hard])
    return r


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
    fitted = _times(out, D, z)  # (a, b, v), unscaled
    lift = (V * out) @ D.T  # (b, a): out_i · D V_i
    Q = _constraint(factor, shape)
    if Q is not None:
        o = Q[:, :, 0]
        oDo, VDo = (o * o) @ D.T, (V * o) @ D.T
        outDo = VDo / scale  # removal is primal: out = V / scale
        fitted -= (outDo / oDo).T[:, :, None] * _times(o, D, z)
        lift -= outDo * VDo / oDo
    if not held:
        return fitted[:, :, None]
    if factor.dual:
        R = factor.residual_D(D)
        r = _times(V, R, z) / ((V * V) @ R.T).T[:, :, None]
    else:
        leverage = lift * scale  # (b, a)
        r = (Ys[rows] - fitted * scale) / _gap(1.0 - leverage, alphas).T[:, :, None]
    return np.asarray(fitted - lift.T[:, :, None] * r)[:, :, None]


def _times(rows: FloatArray, D: FloatArray, z: FloatArray) -> FloatArray:
    """Return rows · D z for every α, shape (a, b, v), as one product."""
    a, p = D.shape
    scaled = (D[:, None] * z.T).reshape(-1, p)  # (a v, p)
    return np.ascontiguousarray((rows @ scaled.T).reshape(-1, a, z.shape[1]).swapaxes(0, 1))


def _gap(gap: FloatArray, alphas: FloatArray) -> FloatArray:
    """Return 1 − leverage after checking that a digit of it is left."""
    if gap.min() <= np.finfo(float).eps:
        alpha = alphas[np.unravel_index(np.argmin(gap), gap.shape)[1]]
        raise HoldOutError(
            f"at alpha={alpha:.3g} the model interpolates a row to the last digit, so what it "
            "would predict without it cannot be told in double precision. Use larger alphas."
        )
    return gap
