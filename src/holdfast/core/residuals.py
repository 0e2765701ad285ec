"""The identity r_H = (I − S_HH)⁻¹ e_H: the one place that solves it.

From a factor of all rows to held-out predictions of many experiments and all penalties at once, and
how large their rounding errors are. Pahikkala et al. 2012 (Corollary 2), Cawley and Talbot 2004
§2.6, Tanaka and Imai 2019 (16) and Pahikkala et al. 2006 (9)–(10): one formula. Single rows take
products alone; sets of one size are stacked, and solved directly or by conjugate gradients.

Cost per penalty: Σ_H |H|² p + |H|³ by direct systems, about ten times Σ_H 4|H| p by conjugate
gradients; leave-one-out m p.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from holdfast._typing import FloatArray
from holdfast.core.accuracy import PROMISE
from holdfast.core.block import WIDE, FeatureBlock, HeldOutBlock, KernelBlock
from holdfast.core.conjugate import solve_cg
from holdfast.core.experiments import Shape, Tasks
from holdfast.core.factor import Factor
from holdfast.core.lapack import CHUNK, N_PROBES, piece_threads, run_pieces, solve_each
from holdfast.data.indices import as_slice
from holdfast.progress import Counter

#: Conjugate gradients pay from this many held-out rows, and this many rows times penalties, on.
CG_ROWS, CG_SYSTEMS = 24, 300
#: What is enough to know how much rounding errors grow.
ROUGH = 0.05


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
            wide = len(part.index) == 1 and v >= WIDE and part.same_rows
            (_many_targets if wide else _stack)(factor, part, alphas, sizes, values, error)
            done.add(len(part.index))

        if factor.parallel and len(parts) >= 2 * piece_threads():
            run_pieces(work, parts)
        else:  # threads work inside the part
            for part in parts:
                work(part)
    return values, np.where(np.isfinite(error), error, np.inf)


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
    together = max(1, 4 * CHUNK // (a * factor.size))  # targets whose D z is there at once
    for first in range(0, v, together):
        columns = slice(first, min(first + together, v))
        own = factor if together >= v else factor.select(columns)
        scaled = own.scaled_z(alphas)
        step = max(16, CHUNK // 4 // max(factor.size, a * (columns.stop - first)))

        def work(
            part: slice,
            columns: slice = columns,
            own: Factor = own,
            scaled: FloatArray = scaled,
        ) -> None:
            rows, out = as_slice(shape.T[part, 0]), as_slice(shape.out[part, 0])
            index, root = as_slice(shape.index[part]), weights.root[rows]
            removed = shape.E[part, 0] if shape.E.shape[1] else None
            if held:
                single = own.single_rows(rows, removed, alphas, scaled)
                r = single.errors
                r /= single.gap[..., None]
                if not weights.uniform:
                    r /= root[:, None]
                values[:, out, columns] = Y[rows, columns] - r
                amplification = single.amplification
            else:  # rows without a weight
                places = shape.T[part, 0]
                V = own.outputs(places)
                f = V @ (own.D(alphas)[:, :, None] * own.z)
                values[:, out, columns] = f + own.data.level(places)
                amplification = own.reach(V, alphas).T
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
    found = residuals(block, limit_of(factor, part, sizes))
    error[:, part.index] = estimated(factor, part, alphas, sizes, found.amplification)
    if part.same_rows:
        r = found.r if data.weights.uniform else found.r / data.weights.root[part.H][..., None]
        f = data.targets.Y[part.H] - r
    else:
        f = block.predict(found.r, factor.outputs(part.T)) + data.level(part.T)
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
    if not isinstance(block, KernelBlock) or data.targets.count <= block.size:
        _stack(factor, part, alphas, sizes, values, error)
        return
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
    grown = (amplification / factor.data.weights.root[part.H]).max(axis=2, initial=0.0)
    if not part.same_rows:
        reach = factor.reach(factor.outputs(part.T), alphas)  # (b, t, a)
        grown = grown + reach.max(axis=1, initial=0.0).T
    return np.asarray(grown * sizes[:, None])


def residuals(block: HeldOutBlock, limit: float = np.inf) -> Residuals:
    """Return held-out residuals, by conjugate gradients where they pay.

    Sets where rounding errors grow by more than `limit` are solved directly, which shows how much
    they grow at each penalty.
    """
    a, b, h, _ = block.shape
    errors = block.errors()
    if h == 0:
        return Residuals(errors, np.zeros((a, b, h)))
    if isinstance(block, FeatureBlock) and h >= CG_ROWS and h * a >= CG_SYSTEMS:
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
