"""The identity r_H = (I − S_HH)⁻¹ e_H: the one place that solves it.

From a factor of all rows to held-out predictions of many experiments and all penalties at once, and
how large their rounding errors are. Pahikkala et al. 2012 (Corollary 2), Cawley and Talbot 2004
§2.6, Tanaka and Imai 2019 (16) and Pahikkala et al. 2006 (9)–(10): one formula. Single rows take
products alone; sets of one size are stacked, and solved directly or by conjugate gradients, all
penalties and sets of a piece at once.

Cost per penalty: Σ_H |H|² p + |H|³ by direct systems, about ten times Σ_H 4|H| p by conjugate
gradients; leave-one-out m p.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.core.accuracy import PROMISE
from holdfast.core.block import FeatureBlock, HeldOutBlock
from holdfast.core.experiments import Shape, Tasks
from holdfast.core.factor import Factor, KernelFactor
from holdfast.core.lapack import CACHED, CHUNK, N_PROBES, piece_threads, run_pieces, solve_each
from holdfast.data.indices import as_slice
from holdfast.progress import Counter

#: Conjugate gradients pay from this many held-out rows on, times the square of the targets: each
#: target takes steps of its own, and a direct solution hardly anything.
CG_ROWS = 12
#: From this many targets on, single rows are predicted by a product for each penalty.
MANY = 16
#: What is enough to know how much rounding errors grow.
ROUGH = 0.05
#: A residual this share of the solution counts as converged: a millionth of what may be lost.
TOLERANCE = 1e-12
#: Steps after which a system is given up, for each held-out row and in all: as many as cost what
#: the direct solution does.
STEPS_PER_ROW, LEAST_STEPS = 0.4, 20


class Residuals(NamedTuple):
    """Held-out residuals of stacked tasks.

    Attributes
    ----------
    r : ndarray of shape (a, b, h, v)
        √w (y − f) on the held-out rows.
    amplification : ndarray of shape (a, b, h)
        How much rounding errors have grown in them; infinite where a system is singular.
    """

    r: FloatArray
    amplification: FloatArray


def held_out(factor: Factor, tasks: Tasks, alphas: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return held-out predictions (a, k, v), and estimates of their errors (a, tasks).

    Errors are those of rounding, over the standard deviation of the targets.
    """
    v = factor.data.targets.count
    values = np.empty((alphas.size, tasks.test.values.size, v))
    error = np.zeros((alphas.size, len(tasks)))
    done = Counter(len(tasks), "held-out experiments")
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # the error is infinite
        sizes = factor.size_of_errors(alphas)
        parts = []
        for shape in tasks.shapes(padded=True):
            if shape.single_rows:
                _single_rows(factor, shape, alphas, sizes, values, error)
                done.add(len(shape.index))
            else:
                parts += shape.stacks(factor.size + 2 * alphas.size * v, CHUNK, alphas.size)

        def work(part: Shape) -> None:
            wide = len(part.index) == 1 and part.same_rows and v > factor.size
            solve = _many_targets if wide and isinstance(factor, KernelFactor) else _stack
            solve(factor, part, alphas, sizes, values, error)
            done.add(len(part.index))

        if factor.parallel and len(parts) >= 2 * piece_threads():
            run_pieces(work, parts)
        else:  # threads work inside the part
            for part in parts:
                work(part)
    error[np.isnan(error)] = np.inf
    return values, error


def _single_rows(
    factor: Factor,
    shape: Shape,
    alphas: FloatArray,
    sizes: FloatArray,
    values: FloatArray,
    error: FloatArray,
) -> None:
    """Predict single rows that are held out alone, or not at all: r_i = e_i / (1 − S_ii)."""
    held, v, a = bool(shape.H.size), factor.data.targets.count, alphas.size
    weights, Y = factor.data.weights, factor.data.targets.Y
    one_by_one = v >= MANY and not shape.E.shape[1]  # a product for each penalty
    together = max(1, 4 * CHUNK // (factor.size if one_by_one else a * factor.size))
    scale, each = factor.scale(alphas), -(-len(shape.index) // piece_threads())
    for first in range(0, v, together):
        columns = slice(first, min(first + together, v))
        own = factor if together >= v else factor.select(columns)
        scaled = None if one_by_one else own.scaled_z(alphas)
        width = (1 if one_by_one else a) * (columns.stop - first)
        step = max(16, min(each, CACHED // max(factor.size, width)))

        def work(
            part: slice,
            columns: slice = columns,
            own: Factor = own,
            scaled: FloatArray | None = scaled,
        ) -> None:
            rows, out = as_slice(shape.T[part, 0]), as_slice(shape.out[part, 0])
            index, root = as_slice(shape.index[part]), weights.root[rows]
            removed = shape.E[part, 0] if shape.E.shape[1] else None
            if held:
                limits = PROMISE * root.min() / sizes
                r, gap, amplification = own.single_rows(rows, removed, alphas, scaled, limits)
                if r is None:
                    V = own.V[rows]
                    for d, g, f in zip(scale, gap, values, strict=True):
                        r = own.errors_of(rows, V @ (d[:, None] * own.z))
                        r /= (g * root)[:, None]
                        f[out, columns] = np.subtract(Y[rows, columns], r, out=r)
                else:
                    r /= gap[..., None]
                    if not weights.uniform:
                        r /= root[:, None]
                    values[:, out, columns] = np.subtract(Y[rows, columns], r, out=r)
            else:  # rows without a weight
                places = shape.T[part, 0]
                V = own.outputs(places)
                f = V @ (own.D(alphas)[:, :, None] * own.z)
                values[:, out, columns] = f + own.data.level(places)
                amplification = own.amplification(V, alphas).T
            if not weights.uniform:
                amplification = amplification / root
            error[:, index] = amplification * sizes[:, None]

        pieces = [slice(i, i + step) for i in range(0, len(shape.index), step)]
        run_pieces(work, pieces, None if factor.parallel else 1)


def _stack(
    factor: Factor,
    part: Shape,
    alphas: FloatArray,
    sizes: FloatArray,
    values: FloatArray,
    error: FloatArray,
) -> None:
    """Predict stacked tasks."""
    block, data = factor.block(part, alphas), factor.data
    solution = residuals(block, limit_of(factor, part, sizes))
    error[:, part.index] = estimated(factor, part, alphas, sizes, solution.amplification)
    if part.same_rows:
        r = (
            solution.r
            if data.weights.uniform
            else solution.r / data.weights.root[part.H][..., None]
        )
        f = data.targets.Y[part.H] - r
    else:
        f = block.predict(solution.r, factor.outputs(part.T)) + data.level(part.T)
    if part.spare is None:
        values[:, part.out] = f
    else:
        values[:, part.out[~part.spare]] = f[:, ~part.spare]


def _many_targets(
    factor: Factor,
    part: Shape,
    alphas: FloatArray,
    sizes: FloatArray,
    values: FloatArray,
    error: FloatArray,
) -> None:
    """Predict a single task with many targets: each is one product, whatever their number.

    Dense models have r = (G_HH⁻¹ V_H R) z: systems are solved for coordinates, not for targets.
    """
    block, data = factor.block(part, alphas), factor.data
    gaps = block.gaps(slice(0, 1))
    maps = solve_each(gaps, block.V[:, None] * block.R[:, None])[0]  # (a, h, p)
    probes = solve_each(gaps, block.probes().swapaxes(0, 1))[0]
    error[:, part.index] = estimated(
        factor, part, alphas, sizes, np.abs(probes).max(axis=2)[:, None]
    )
    rows, out = part.H[0], as_slice(part.out[0])
    for own, f in zip(maps, values, strict=True):
        r = own @ block.z
        if not data.weights.uniform:
            r /= data.weights.root[rows, None]
        f[out] = np.subtract(data.targets.Y[rows], r, out=r)


def limit_of(factor: Factor, part: Shape, sizes: FloatArray) -> float:
    """Return how much rounding errors may grow at every penalty and keep the promise."""
    lightest = float(factor.data.weights.root[part.H].min(initial=np.inf))
    largest = float(sizes.max(initial=0.0))
    return PROMISE * lightest / largest if largest > 0.0 else np.inf


def estimated(
    factor: Factor, part: Shape, alphas: FloatArray, sizes: FloatArray, amplification: FloatArray
) -> FloatArray:
    """Return estimates of the errors of predictions of stacked tasks (a, b)."""
    amplified = (amplification / factor.data.weights.root[part.H]).max(axis=2, initial=0.0)
    if not part.same_rows:
        own = factor.amplification(factor.outputs(part.T), alphas)  # (b, t, a)
        amplified = amplified + own.max(axis=1, initial=0.0).T
    return np.asarray(amplified * sizes[:, None])


def residuals(block: HeldOutBlock, limit: float = np.inf) -> Residuals:
    """Return held-out residuals, by conjugate gradients where they pay.

    Sets where rounding errors grow by more than `limit` are solved directly, which shows how much
    they grow at each penalty.
    """
    a, b, h, v = block.shape
    errors = block.errors()
    if h == 0:
        return Residuals(errors, np.zeros((a, b, h)))
    if isinstance(block, FeatureBlock) and h >= CG_ROWS * v**2:
        return _iterated(block, errors, limit)
    return _solved(block, errors)


def _iterated(block: FeatureBlock, errors: FloatArray, limit: float) -> Residuals:
    """Return the residuals by conjugate gradients, and directly where these do not serve.

    Rounding errors grow most at the smallest penalty, so they are looked at there alone.
    """
    a = len(block.D)
    first = block.D[:, :1].argmax(axis=0)
    probes, known = solve_cg(block, first, block.probes(first), tolerance=ROUGH)
    r, converged = solve_cg(block, np.arange(a), errors)
    amplification = np.repeat(np.abs(probes).max(axis=3), a, axis=0)
    good = known.all(axis=0) & converged.all(axis=0) & (amplification[0].max(axis=1) <= limit)
    if not good.all():
        sets = np.flatnonzero(~good)
        r[:, sets], amplification[:, sets] = _solved(block.among(sets), errors[:, sets])
    return Residuals(r, amplification)


def _solved(block: HeldOutBlock, errors: FloatArray) -> Residuals:
    """Return the residuals by forming and factorising each |H| × |H| matrix.

    Per set and alpha 2 h² p flops to form the matrix, 2 h³/3 to factorise it.
    """
    a, b, h, v = errors.shape
    r, amplification = np.empty(errors.shape), np.empty((a, b, h))
    probes = block.probes()

    def work(piece: slice) -> None:
        sides = np.concatenate([errors[:, piece], probes[:, piece]], axis=3).swapaxes(0, 1)
        solved = solve_each(block.gaps(piece), sides)
        r[:, piece] = solved[..., :v].swapaxes(0, 1)
        amplification[:, piece] = np.abs(solved[..., v:]).max(axis=3).swapaxes(0, 1)

    run_pieces(work, block.pieces(h * max(block.size, a * (h + v + N_PROBES))))
    return Residuals(r, amplification)


# -- conjugate gradients ---------------------------------------------------------------------------


def solve_cg(
    block: FeatureBlock, alphas: IntArray, errors: FloatArray, tolerance: float = TOLERANCE
) -> tuple[FloatArray, BoolArray]:
    """Return the held-out residuals r (a, b, h, v) and which of them (a, b) have converged.

    Parameters
    ----------
    block : FeatureBlock
        b sets of h held-out rows.
    alphas : ndarray of int, shape (a,)
        Which of the penalties.
    errors : ndarray of shape (a, b, h, v)
        Residuals of the model on all rows at those; unchanged.
    tolerance : float
        ‖e − (I − S_HH) r‖ ≤ tolerance (‖e‖ + ‖r‖) counts as converged; the true residual is used.

    Returns
    -------
    r : ndarray of shape (a, b, h, v)
    converged : ndarray of bool, shape (a, b)
        False where the direct system has to answer; r is meaningless there.

    Notes
    -----
    Conjugate gradients on (Λ + α) − V_Hᵀ V_H preconditioned by its full-data part 1/(Λ + α) are the
    same iteration as plain conjugate gradients on I − V_H D V_Hᵀ, with vectors of length h instead
    of p. The eigenvalues lie between 1 − (largest leverage of a direction in H) and 1: 7 to 13
    steps for ordinary folds, growing like the square root of 1/(1 − leverage). Each step costs
    4 h p flops per right-hand side and penalty, in two products per set. One more step checks the
    result, and its residual is added as a last correction.
    """
    a, b, h, v = errors.shape
    p, steps = block.size, max(LEAST_STEPS, int(STEPS_PER_ROW * h))
    r, converged = np.zeros((a, b, h, v)), np.ones((a, b), dtype=bool)
    if not r.size:
        return r, converged
    D = block.D[alphas]

    def work(piece: slice) -> None:
        right = np.ascontiguousarray(errors[:, piece].transpose(1, 0, 3, 2))  # (g, a, v, h)
        room = np.empty((len(right), a * v, p))
        operator = _Operator(block.V[piece], D, block.removal(piece, alphas), room)
        X = _iterate(operator, right, tolerance, steps)
        converged[:, piece] = _verify(operator, right, X, tolerance).T
        r[:, piece] = X.transpose(1, 0, 3, 2)

    run_pieces(work, block.pieces(p * max(h, a * v)))
    return r, converged


@dataclass(frozen=True)
class _Operator:
    """I − S_HH of one piece, applied to vectors in rows: (g, a, v, h) → (g, a, v, h).

    Vectors are rows, so that both products are plain gemms on contiguous memory and D multiplies
    along the last axis.
    """

    V: FloatArray  # (g, h, p)
    D: FloatArray  # (a, p)
    J: FloatArray | None  # (g, a, e, h)
    room: FloatArray  # (g, a v, p): what is between the two products

    def __call__(self, P: FloatArray, out: FloatArray) -> FloatArray:
        """Return (I − S_HH) P in `out`."""
        g, a, v, h = P.shape
        np.matmul(P.reshape(g, a * v, h), self.V, out=self.room)
        self.room.reshape(g, a, v, -1)[...] *= self.D[:, None, :]
        np.matmul(self.room, self.V.swapaxes(1, 2), out=out.reshape(g, a * v, h))
        np.subtract(P, out, out=out)
        if self.J is not None:
            out += (P @ self.J.swapaxes(2, 3)) @ self.J
        return out


def _iterate(
    operator: _Operator, right: FloatArray, tolerance: float, max_steps: int
) -> FloatArray:
    """Return approximate solutions for right-hand sides (g, a, v, h)."""
    X, left, square = np.zeros_like(right), right.copy(), _dot(right, right)
    goal = tolerance**2 * square
    P, MP = left.copy(), np.empty_like(left)
    for _ in range(max_steps):
        operator(P, MP)
        curvature = _dot(P, MP)
        # A system whose curvature is not positive (a leverage of 1, or a right-hand side of zero)
        # stops where it is; the check decides.
        step = np.divide(square, curvature, out=np.zeros_like(square), where=curvature > 0.0)
        MP *= step[..., None]
        left -= MP
        X += np.multiply(P, step[..., None], out=MP)
        new = _dot(left, left)
        if not ((new > goal) & (step > 0.0)).any():
            break
        P *= np.divide(new, square, out=np.zeros_like(square), where=square > 0.0)[..., None]
        P += left
        square = new
    return X


def _verify(operator: _Operator, right: FloatArray, X: FloatArray, tolerance: float) -> BoolArray:
    """Return which (g, a) have a small true residual, and add that residual to X.

    Adding it is one step of the fixed-point iteration X ← X + (e − (I − S_HH) X), a contraction
    because the eigenvalues of I − S_HH lie in (0, 1].
    """
    residual = operator(X, np.empty_like(X))
    np.subtract(right, residual, out=residual)
    size, scale = np.sqrt(_dot(residual, residual)), np.sqrt(_dot(right, right))
    scale += np.sqrt(_dot(X, X))
    X += residual
    # Written so that a NaN counts as not converged.
    return np.asarray((size <= tolerance * scale).all(axis=2))


def _dot(A: FloatArray, B: FloatArray) -> FloatArray:
    """Return products of the vectors in rows, (g, a, v)."""
    return np.asarray(np.einsum("gavh,gavh->gav", A, B))
