"""The identity r_H = (I − S_HH)⁻¹ e_H: the one place that knows it.

From the smoother on held-out rows (`holdfast.smoother.held`) to held-out residuals, for stacks of
experiments of one shape and all penalties at once; and from there to predictions of any rows, and
how large their rounding errors are (`holdfast.holdout.accuracy`). Pahikkala et al. 2012
(Corollary 2), Cawley and Talbot 2004 §2.6, Tanaka and Imai 2019 (16) and Pahikkala et al. 2006
(9)–(10): one formula.

Cost per penalty: Σ_H |H|² p + |H|³ by direct systems, about ten times Σ_H 4|H| p by conjugate
gradients; leave-one-out m p.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.experiments import Shape, Tasks
from holdfast.holdout.accuracy import LOST
from holdfast.holdout.conjugate import solve_cg
from holdfast.linalg import SMALL, Definite, piece_threads, run_pieces
from holdfast.progress import Counter
from holdfast.smoother import Factor, Held, HeldCoordinates, same_rows
from holdfast.smoother.factor import Coordinates
from holdfast.smoother.held import PIECE_DOUBLES

__all__ = [
    "Residuals",
    "held_out",
    "most_growth",
    "predictions",
    "residuals",
    "rows_without_themselves",
]

#: Doubles that each temporary of one stack of experiments may hold.
STACK_DOUBLES = 2**20

#: Targets come in parts of this many for each coordinate and penalty, and for each held-out row.
TARGETS_PER_ROW = 4

#: Products for fewer targets than this are slow.
TARGETS_AT_LEAST = 256

#: What is enough to know how much rounding errors grow.
ROUGH = 0.05
#: Conjugate gradients pay from this many held-out rows, and this many rows times penalties, on.
CG_ROWS, CG_SYSTEMS = 24, 300


def held_out(factor: Factor, tasks: Tasks, alphas: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return held-out predictions (alphas, test rows, targets) and errors (alphas, tasks).

    Errors are those of the algebra over the yardstick of the targets; infinite where a system is
    singular to working precision.

    Parameters
    ----------
    factor : Factor
        The smoother of all rows, valid for every α given.
    tasks : Tasks
    alphas : ndarray of shape (a,)
    """
    values = np.empty((alphas.size, tasks.test.values.size, factor.n_targets))
    return values, _fill(values, factor, tasks, alphas)


def _fill(values: FloatArray, factor: Factor, tasks: Tasks, alphas: FloatArray) -> FloatArray:
    """Return the errors; predictions fill `values`."""
    error, v = np.zeros((alphas.size, len(tasks))), factor.n_targets
    step = _targets_at_once(factor, tasks, alphas.size)
    by_rows = _solves_for_rows(factor, tasks)
    if v > 2 * step and not by_rows:
        columns = [slice(start, min(start + step, v)) for start in range(0, v, step)]
        errors = np.empty((len(columns), *error.shape))

        def some(k: int) -> None:
            own = columns[k]
            errors[k] = _fill(values[..., own], factor.select(own), tasks, alphas)

        run_pieces(some, range(len(columns)), None if factor.parallel else 1)
        return np.asarray(errors.max(axis=0))
    done = Counter(len(tasks), "held-out experiments")

    def work(part: Shape) -> None:
        room = _room(values, part)
        if by_rows:
            assert isinstance(factor, Coordinates)
            assert room is not None, "the test rows of a task lie side by side"
            error[:, part.index] = _many_targets(factor, part, alphas, room)
        else:
            found, error[:, part.index] = _predicted(factor, part, alphas, room)
            if found is not room:
                values[:, part.out] = found
        done.add(len(part.index))

    per_row = factor.row_size(tasks) + alphas.size * v
    most = 1 if by_rows else STACK_DOUBLES
    if factor.size >= SMALL and tasks.held.sizes.max(initial=0) <= 1:
        # Plain products, so that BLAS might take its own threads: parts for all threads instead.
        most = min(most, len(tasks) * per_row // piece_threads())
    parts = tasks.stacks(per_row, most, per_removed=alphas.size)
    if factor.parallel and len(parts) >= 2 * piece_threads() and not by_rows:
        run_pieces(work, parts)
    else:  # threads work inside the part
        for part in parts:
            work(part)
    return error


def _solves_for_rows(factor: Factor, tasks: Tasks) -> bool:
    """Whether a dense model has so many targets that systems are solved for its rows instead."""
    if not isinstance(factor, Coordinates) or factor.kappa:
        return False
    if factor.n_targets <= factor.size or tasks.held.sizes.min(initial=2) < 2:
        return False
    return all(same_rows(shape) for shape in tasks.shapes())


def _many_targets(
    factor: Coordinates, part: Shape, alphas: FloatArray, room: FloatArray
) -> FloatArray:
    """Return errors (a, 1) of a single task; its predictions fill `room` (a, 1, h, v).

    r = (G_HH⁻¹ V_H R) z: systems have as many right-hand sides as there are coordinates, whatever
    the number of targets, and each target is one product.
    """
    held = factor.held(part, alphas)
    rows, grown = _solved(held, held.V * held.R[:, None, None])
    a, _, h, v = held.shape
    step = max(TARGETS_AT_LEAST, PIECE_DOUBLES // (a * h))
    columns = [slice(start, min(start + step, v)) for start in range(0, v, step)]
    errors = np.empty((len(columns), a, 1))

    def some(k: int) -> None:
        own = replace(held, z=held.z[:, columns[k]], length=held.length[:, columns[k]])
        r = rows @ own.z
        size = held.unit[:, None, None] * (own.length[:, None] + own.moved(r, r))
        targets = factor.select(columns[k])
        errors[k] = _held_rows(targets, part, Residuals(r, grown, size), room[..., columns[k]])

    run_pieces(some, range(len(columns)), None if factor.parallel else 1)
    return np.asarray(errors.max(axis=0))


def _targets_at_once(factor: Factor, tasks: Tasks, n_alphas: int) -> int:
    """Return how many targets share a stack.

    So many that what depends on the rows alone (the coordinates, the matrices I − S_HH) is a small
    part of the work, and no more: stacks of a few rows with many targets would scale z by D again
    for every few rows.
    """
    largest = int(tasks.held.sizes.max(initial=1))
    return int(TARGETS_PER_ROW * max(factor.size / n_alphas, largest)) + 1


def _room(values: FloatArray, part: Shape) -> FloatArray | None:
    """Return where the predictions of a single task go, (a, 1, t, v), if they lie side by side."""
    if len(part.index) != 1 or not (np.diff(part.out[0]) == 1).all():
        return None
    first = int(part.out[0, 0])
    return values[:, None, first : first + part.out.shape[1]]


def _predicted(
    factor: Factor, part: Shape, alphas: FloatArray, room: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return predictions (a, b, t, v) of stacked tasks, in `room` if it can, and errors (a, b).

    Targets may be many, and memory that was never touched costs as much as the arithmetic.
    """
    if _alone(part) and isinstance(factor, Coordinates):
        return _rows_alone(factor, part, alphas)
    held = factor.held(part, alphas)
    if room is None or held.needs_errors or not same_rows(part):
        return predictions(factor, held, part, residuals(held, most_growth(factor, held, part)))
    found = residuals(held, most_growth(factor, held, part), room)
    return room, _held_rows(factor, part, found, room)


def _alone(shape: Shape) -> bool:
    """Whether these tasks test one row each, and hold out that row or none."""
    h, e, t = shape.H.shape[1], shape.E.shape[1], shape.T.shape[1]
    return t == 1 and (h == e == 0 or (h == 1 and e <= 1 and same_rows(shape)))


def rows_without_themselves(errors: FloatArray, leverage: FloatArray) -> FloatArray:
    """Return e_i / (1 − S_ii) for many models at once; errors (m, k), leverages (m,) or (m, k)."""
    gap = 1.0 - leverage
    return np.asarray(errors / (gap[:, None] if gap.ndim == 1 else gap))


class Residuals(NamedTuple):
    """Held-out residuals of stacked tasks.

    Attributes
    ----------
    r : ndarray of shape (a, b, h, v)
        Zero where a system is singular to working precision.
    grown : ndarray of shape (a, b, h)
        How much rounding errors have grown in them; infinite there.
    size : ndarray of shape (a, b, v)
        How large these errors are before they grow.
    """

    r: FloatArray
    grown: FloatArray
    size: FloatArray


def most_growth(factor: Factor, held: Held, part: Shape) -> float:
    """Return how much rounding errors may grow and keep the promise, at every penalty."""
    largest = float((held.unit[:, None] * held.length / factor.targets.spread).max(initial=0.0))
    lightest = float(factor.scale.root[part.H].min(initial=np.inf))
    return LOST * lightest / largest if largest > 0.0 else np.inf


def residuals(held: Held, most: float, room: FloatArray | None = None) -> Residuals:
    """Return held-out residuals, by conjugate gradients where they pay.

    Parameters
    ----------
    held : Held
    most : float
        Sets where rounding errors grow more than this are solved directly, which shows how much
        they grow at each penalty.
    room : ndarray of shape (a, b, h, v), optional
        Memory for the residuals of dense models.
    """
    a, b, h, _ = held.shape
    errors = held.errors(room)
    length = np.broadcast_to(held.length[:, None], (a, b, held.length.shape[1]))
    if h == 0:
        return Residuals(errors, np.zeros((a, b, h)), held.unit[:, None, None] * length)
    if isinstance(held, HeldCoordinates) and held.kappa and h >= CG_ROWS and h * a >= CG_SYSTEMS:
        r, grown = _iterated(held, errors, most)
    else:
        r, grown = _solved(held, errors)
    return Residuals(r, grown, held.unit[:, None, None] * (length + held.moved(r, errors)))


def _iterated(
    held: HeldCoordinates, errors: FloatArray, most: float
) -> tuple[FloatArray, FloatArray]:
    """Return the residuals by conjugate gradients, and directly where these do not serve.

    Rounding errors grow most at the smallest penalty, so they are looked at there alone. Sets where
    they grow too much, or the iteration does not converge, are solved directly.
    """
    a = len(held.D)
    first = held.D[:, :1].argmax(axis=0)
    looks, known = solve_cg(held, first, held.at(first).looks(), tolerance=ROUGH)
    r, converged = solve_cg(held, np.arange(a), errors)
    grown = np.repeat(np.abs(looks).max(axis=3), a, axis=0)
    lost = ~(known.all(axis=0) & converged.all(axis=0) & (grown[0].max(axis=1) <= most))
    if lost.any():
        sets = np.flatnonzero(lost)
        r[:, sets], grown[:, sets] = _solved(held.among(sets), errors[:, sets])
    return r, grown


def _solved(held: Held, errors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the residuals by forming and factorising each |H| × |H| matrix, and how errors grow.

    Notes
    -----
    Per set and alpha h² p flops to form the matrix, h³/3 to factorise it.
    """
    a, b, h, _ = held.shape
    # Dense models need the errors no more (`Held.moved`), and targets may be many.
    r, grown = errors.copy() if held.needs_errors else errors, np.empty((a, b, h))
    looks = held.looks()

    def work(piece: slice) -> None:
        M = held.gaps(piece)
        x, y = r[:, piece].swapaxes(0, 1), looks[:, piece].swapaxes(0, 1)
        if held.definite:
            system = Definite(M)
            system.solve_in_place(x)
            system.solve_in_place(y)
            failed = system.failed
        else:  # no Cholesky factorisation
            x[:], y[:] = np.linalg.solve(M, x), np.linalg.solve(M, y)
            failed = np.zeros(M.shape[:2], dtype=bool)
        growth = np.abs(y).max(axis=3)
        growth[failed] = np.inf
        grown[:, piece] = growth.swapaxes(0, 1)

    if r.size or grown.size:
        run_pieces(work, held.pieces(h * max(held.row_size, h * a)))
    return r, grown


def _rows_alone(
    factor: Coordinates, part: Shape, alphas: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return predictions (a, b, 1, v) of single rows without themselves: r_i = e_i / (1 − S_ii)."""
    alone = factor.alone(part, alphas)
    rows, targets = part.T[:, 0], factor.targets
    values = r = alone.errors
    if part.H.size:
        with np.errstate(divide="ignore", invalid="ignore"):
            r /= alone.gap.T[:, :, None]
        own = r if factor.scale.uniform else r / factor.scale.root[rows][:, None]
        values = targets.Y[rows] - own
    # Errors fall with the penalty: those of the smallest count up to the middle one, and those of
    # the middle one from there on. Where that is too much, each penalty is looked at by itself.
    some, owner = looked_at(alphas)

    def errors_at(some: IntArray) -> FloatArray:
        at = alphas[some]
        unit, length = factor.unit(at)[:, None], factor.length(factor.D(at))[:, None]
        with np.errstate(invalid="ignore"):
            if part.H.size:
                length = length + alone.moved.T[some, :, None] * np.abs(r[some])
            grown = (unit * alone.reach.T[some])[..., None]
            error = (grown * length / targets.yardstick(values[some])).max(axis=2)
        return np.where(np.isfinite(error), error, np.inf)

    error = errors_at(some)
    every = errors_at(np.arange(alphas.size)) if (error > LOST).any() else error[owner]
    return values[:, :, None], every


def looked_at(alphas: FloatArray) -> tuple[IntArray, IntArray]:
    """Return which penalties are examined, and which of these represents each penalty."""
    order = np.argsort(alphas, kind="stable")
    if alphas.size <= 2:
        return order, np.argsort(order, kind="stable")
    half = alphas.size // 2
    owner = np.empty(alphas.size, dtype=np.int64)
    owner[order] = np.arange(alphas.size) >= half
    return order[[0, half]], owner


def predictions(
    factor: Factor, held: Held, part: Shape, found: Residuals
) -> tuple[FloatArray, FloatArray]:
    """Return predictions (a, b, t, v), y − r for the held-out rows, and errors (a, b)."""
    if same_rows(part) and part.H.size:
        values = np.empty(found.r.shape)
        return values, _held_rows(factor, part, found, values)
    values, targets = held.predict(found.r), factor.targets
    grown = found.grown / factor.scale.root[part.H]
    error = grown.max(axis=2, initial=0.0) + held.reach().max(axis=2, initial=0.0)
    return values, error * (found.size / targets.spread).max(axis=2)


def _held_rows(factor: Factor, part: Shape, found: Residuals, values: FloatArray) -> FloatArray:
    """Return errors (a, b); `values`, which may be the residuals, becomes y − r."""
    targets, root = factor.targets, factor.scale.root[part.H]
    Y, grown = targets.Y[part.H], found.grown / root
    with np.errstate(invalid="ignore"):
        error = grown.max(axis=2) * (found.size / targets.spread).max(axis=2)
        for a, own in enumerate(error):  # one penalty at a time: targets may be many
            r = found.r[a] if factor.scale.uniform else found.r[a] / root[..., None]
            np.subtract(Y, r, out=values[a])
            if not (own <= LOST).all():  # judged row by row
                ratio = found.size[a, :, None] / targets.yardstick(values[a])
                own[:] = (grown[a][..., None] * ratio).max(axis=(1, 2))
    return np.where(np.isfinite(error), error, np.inf)
