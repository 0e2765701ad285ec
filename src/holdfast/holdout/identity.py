"""The identity r_H = (I − S_HH)⁻¹ e_H: the one place that knows it.

From the smoother on held-out rows (`holdfast.smoother.held`) to held-out residuals, for stacks of
experiments of one shape and all penalties at once; and from there to predictions of any rows.
Pahikkala et al. 2012 (Corollary 2), Cawley and Talbot 2004 §2.6, Tanaka and Imai 2019 (16) and
Pahikkala et al. 2006 (9)–(10): one formula.

Cost per penalty: Σ_H |H|² p + |H|³ by direct systems, about ten times Σ_H 4|H| p by conjugate
gradients; leave-one-out m p.
"""

from __future__ import annotations

import numpy as np

from holdfast._typing import BoolArray, FloatArray
from holdfast.exceptions import HoldOutError
from holdfast.experiments import Shape, Tasks
from holdfast.holdout.conjugate import solve_cg
from holdfast.holdout.lost import (
    CLOSE,
    LOOKS,
    VANISHING,
    cancelled,
    faint,
    reach_of,
    shortest,
    shrunk,
    signs,
)
from holdfast.holdout.overlapping import overlapping_predictions
from holdfast.holdout.starts import KnownStarts
from holdfast.linalg import SMALL, Definite, piece_threads, run_pieces
from holdfast.progress import Counter
from holdfast.smoother import Alone, Factor, Held, HeldCoordinates, same_rows, shared
from holdfast.smoother.held import fitted_size
from holdfast.smoother.shared import Shared

__all__ = [
    "HeldSystem",
    "from_residuals",
    "held_out_predictions",
    "residuals",
    "rows_without_themselves",
]

#: Doubles that each temporary of one stack of experiments may hold.
STACK_DOUBLES = 2**20

#: Targets come in parts of this many for each coordinate and penalty, and for each held-out row.
TARGETS_PER_ROW = 4

#: Sets that overlap share their products at this many penalties at most. Beyond it, conjugate
#: gradients for all penalties at once are as fast.
SHARED_ALPHAS = 12

EPS = float(np.finfo(np.float64).eps)

#: Predictions smaller than this share of the targets are not computed as y − r.
CANCELLING = 0.1

#: Conjugate gradients pay from this many held-out rows, and this many rows times penalties, on …
CG_ROWS, CG_SYSTEMS = 24, 300
#: … if no held-out row has more leverage than this: beyond it they need too many steps.
CG_LEVERAGE = 0.95
#: Sets with such a row leave their stack if it has at least this many times as many sets.
CG_APART = 4


def held_out_predictions(
    factor: Factor, tasks: Tasks, alphas: FloatArray, *, apart: bool = False
) -> FloatArray:
    """Return held-out predictions of all tasks, shape (alphas, test rows, targets).

    Parameters
    ----------
    factor : Factor
        The smoother of all rows, valid for every α given.
    tasks : Tasks
    alphas : ndarray of shape (a,)
    apart : bool
        Whether to take each set by itself, however many rows it shares with others.
    """
    if not apart and alphas.size <= SHARED_ALPHAS:
        together = _together(factor, tasks, alphas)
        if together is not None:
            return together
    v = factor.n_targets
    predictions = np.empty((alphas.size, tasks.test.values.size, v))
    step = _targets_at_once(factor, tasks, alphas.size)
    if v > 2 * step:  # what one part would save, copying its predictions costs

        def some(columns: slice) -> None:
            part = held_out_predictions(factor.select(columns), tasks, alphas, apart=True)
            predictions[..., columns] = part

        columns = [slice(start, min(start + step, v)) for start in range(0, v, step)]
        run_pieces(some, columns, None if factor.parallel else 1)
        return predictions
    done, known = Counter(len(tasks), "held-out experiments"), KnownStarts()

    def work(part: Shape) -> None:
        part.put(predictions, _predictions(factor, part, alphas, known))
        done.add(len(part.index))

    per_row = factor.size + alphas.size * factor.n_targets
    most = STACK_DOUBLES
    if factor.size >= SMALL and tasks.held.sizes.max(initial=0) <= 1:
        # Plain products, so that BLAS might take its own threads: parts for all threads instead.
        most = min(most, len(tasks) * per_row // piece_threads())
    parts = tasks.stacks(per_row, most, per_removed=alphas.size, fill=factor.fills)
    if factor.parallel and len(parts) >= 2 * piece_threads():
        run_pieces(work, parts)
    else:  # threads work inside the part
        for part in parts:
            work(part)
    return predictions


def _targets_at_once(factor: Factor, tasks: Tasks, n_alphas: int) -> int:
    """Return how many targets share a stack.

    So many that what depends on the rows alone (the coordinates, the matrices I − S_HH) is a small
    part of the work, and no more: stacks of a few rows with many targets would scale z by D anew
    for every few rows.
    """
    largest = int(tasks.held.sizes.max(initial=1))
    return int(TARGETS_PER_ROW * max(factor.size / n_alphas, largest)) + 1


def _together(factor: Factor, tasks: Tasks, alphas: FloatArray) -> FloatArray | None:
    """Return the same where sets share most of their rows, one S for many of them; else None.

    A set whose digits that would cost is asked again by itself.
    """
    together = shared(factor, tasks)
    if together is None:
        return None
    weak = together.factor.weak
    least, largest = max(CLOSE, weak), 1.0 / shortest(weak) if weak else np.inf
    predictions = np.empty((alphas.size, tasks.test.values.size, factor.n_targets))
    for a, alpha in enumerate(alphas.tolist()):
        values, smallest = overlapping_predictions(together, tasks, alpha, least, largest)
        predictions[a] = values
        lost = np.isnan(values).any(axis=1)
        if weak:
            lost |= _faint_rows(together, tasks, alpha, values, smallest)
        if lost.any():
            again = np.bincount(tasks.test.owners, weights=lost, minlength=len(tasks)) > 0
            where = again[tasks.test.owners]
            part = tasks.select(np.flatnonzero(again))
            predictions[a, where] = held_out_predictions(
                factor, part, alphas[a : a + 1], apart=True
            )[0]
    return predictions


def _faint_rows(
    together: Shared, tasks: Tasks, alpha: float, values: FloatArray, smallest: FloatArray
) -> BoolArray:
    """Return which test rows have a faint prediction of some target."""
    factor, rows = together.factor, tasks.test.values
    D = factor.d(alpha)
    reach = np.sqrt(factor.squares(D)[rows]) / factor.scale.root[rows]
    size = fitted_size(D[None], factor.z)[0]
    largest = np.fmax.reduce(np.abs(values), axis=0, initial=0.0)  # (v,)
    pivots = smallest[tasks.test.owners]
    return np.asarray(faint(pivots[:, None], largest, reach[:, None] * size).any(axis=1))


def _predictions(factor: Factor, part: Shape, alphas: FloatArray, known: KnownStarts) -> FloatArray:
    """Return predictions (a, b, t, v) of stacked tasks."""
    if _alone(part):
        alone = factor.alone(part, alphas)
        if alone is not None:
            values = _alone_predictions(alone) if part.H.size else alone.fitted
            return _known(values[:, :, None], part, alone.weak)
    held = factor.held(part, alphas)
    return _known(from_residuals(held, residuals(held, known=known)), part, held.weak)


def from_residuals(held: Held, r: FloatArray) -> FloatArray:
    """Return predictions (a, b, t, v): y − r for the held-out rows where no digits cancel in it."""
    if not (isinstance(held, HeldCoordinates) and held.kappa and held.tests_itself):
        return held.predict(r)
    predictions = np.asarray(held.Y - r)
    largest = np.abs(predictions).max(axis=2, initial=0.0)  # (a, b, v)
    small = largest < CANCELLING * np.abs(held.Y).max(axis=1, initial=0.0)
    again = np.flatnonzero(small.any(axis=(1, 2)))
    if again.size:
        predictions[again] = held.at(again).predict(r[again])
    return predictions


def _known(values: FloatArray, part: Shape, weak: float) -> FloatArray:
    """Return the predictions, NaN where nothing is held out and the factor itself lacks digits."""
    return values if part.H.size or weak < 1.0 else np.full_like(values, np.nan)


def _alone(shape: Shape) -> bool:
    """Whether these tasks test one row each, and hold out that row or none."""
    h, e, t = shape.H.shape[1], shape.E.shape[1], shape.T.shape[1]
    return (h <= 1 and t == 1 and e <= 1) and (h == 0 or same_rows(shape))


def _alone_predictions(alone: Alone) -> FloatArray:
    """Return predictions (a, b, v) of single rows without themselves: r_i = e_i / (1 − S_ii).

    NaN for rows of leverage so close to 1 that their digits are lost.
    """
    gap = alone.gap.T[:, :, None]  # (a, b, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        r = alone.errors / gap
    taken = alone.lift.T[:, :, None] * r
    values = alone.fitted - taken
    good = gap > alone.weak
    if alone.weak > 0.0:  # beside what was taken away, all predictions may be rounding errors
        largest = np.abs(values).max(axis=1, initial=0.0, keepdims=True)
        weaker = np.maximum(1.0, CLOSE / np.maximum(gap, alone.weak))
        good = good & ~(largest < VANISHING * weaker * np.abs(taken))
        reach = alone.lift / np.sqrt(np.maximum(1.0 - alone.gap, EPS))  # √(vᵀDv), without √w
        all_fitted = alone.size[:, None] * reach.T[:, :, None]
        good = good & ~faint(gap, largest, all_fitted)
    if alone.weak > 0.0 and gap.min(initial=1.0) <= CLOSE:
        with np.errstate(divide="ignore", invalid="ignore"):
            weighted = values * ((1.0 - gap) / alone.lift.T[:, :, None])  # as residuals are
        good = good & ((gap > CLOSE) | ~(np.abs(weighted) < VANISHING * np.abs(r)))
    return np.asarray(np.where(good, values, np.nan))


def rows_without_themselves(errors: FloatArray, leverage: FloatArray) -> FloatArray:
    """Return e_i / (1 − S_ii) for many models at once; errors (m, k), leverages (m,) or (m, k)."""
    gap = 1.0 - leverage
    return np.asarray(errors / (gap[:, None] if gap.ndim == 1 else gap))


def residuals(
    held: Held,
    errors: FloatArray | None = None,
    *,
    told: bool = False,
    known: KnownStarts | None = None,
) -> FloatArray:
    """Return held-out residuals (a, b, h, v), by conjugate gradients where they pay.

    With `told`, every set that has lost its digits is NaN: only a factorisation can tell. `known`
    is shared by all sets of one smoother.
    """
    a, b, h, _ = held.shape
    Y = held.targets if errors is None else None
    errors = held.errors() if errors is None else errors
    if h == 0:
        return errors
    if isinstance(held, HeldCoordinates) and held.kappa and h >= CG_ROWS and h * a >= CG_SYSTEMS:
        # No pivot of I − S_HH is smaller than 1 − tr S_HH.
        leverages = held.leverages(slice(None)).reshape(b, h, a) if told else np.zeros((b, h, a))
        if (leverages.sum(axis=1) < 1.0 - held.weak).all():
            return _iterated(held, errors, known)
    return solve_direct(held, errors, Y)


def _iterated(held: HeldCoordinates, errors: FloatArray, known: KnownStarts | None) -> FloatArray:
    """Return the residuals by conjugate gradients, and directly where these do not converge.

    Sets with a row of much leverage, if they are few, are solved by themselves.
    """
    a, b, h, _ = held.shape
    # The smallest α has the largest D everywhere: its leverages bound all others.
    largest = held.leverages(held.R[:, :1].argmax(axis=0)).reshape(b, h).max(axis=1)
    apart = largest >= CG_LEVERAGE
    if 0 < CG_APART * np.count_nonzero(apart) <= b:
        r = np.empty_like(errors)
        for sets in (np.flatnonzero(apart), np.flatnonzero(~apart)):
            r[:, sets] = _iterated(held.among(sets), errors[:, sets], known)
        return r
    easy = np.arange(a)
    if apart.any():
        easy = np.flatnonzero(held.leverages(slice(None)).max(axis=0) < CG_LEVERAGE)
    hard = np.setdiff1d(np.arange(a), easy)
    r = np.empty_like(errors)
    if easy.size:
        r[easy], converged = solve_cg(held, easy, errors[easy], known=known)
        hard = np.append(hard, easy[~converged.all(axis=1)])
    if hard.size:
        r[hard] = solve_direct(held.at(hard), errors[hard])
    return r


def solve_direct(held: Held, errors: FloatArray, Y: FloatArray | None = None) -> FloatArray:
    """Return the residuals by forming and factorising each |H| × |H| matrix.

    NaN for a set and penalty whose matrix has lost its digits: leverages are too close to 1. With
    the targets Y (b, h, v) also where little is left of them in the predictions Y − r.

    Notes
    -----
    Per set and alpha h² p flops to form the matrix, h³/3 to factorise it.
    """
    a, _, h, _ = held.shape
    r = np.empty(errors.shape)

    def work(piece: slice) -> None:
        M, e = held.gaps(piece), errors[:, piece].swapaxes(0, 1)
        if not held.definite:  # no Cholesky factorisation
            x = np.linalg.solve(M, e)
        elif not held.weak:
            x = Definite(M).solve(e)
        else:
            root = None if held.row_root is None else held.row_root[piece, None, :, None]
            reach = None if root is None else reach_of(M, root)
            system = Definite(M, held.weak)
            x = _solve_weak(system, e, held.weak)
            if Y is not None:
                if reach is None:
                    reach = np.sqrt(np.maximum(1.0 - system.smallest, 0.0))
                left = np.abs(Y[piece, None] - x)  # (g, a, h, v)
                values = (left if root is None else left / root).max(axis=2, initial=0.0)
                largest, fitted = np.fmax.reduce(values, axis=0), reach[..., None] * held.size
                lost = faint(system.smallest[..., None], largest, fitted).any(axis=2)
                x[lost | cancelled(system.smallest, x, left)] = np.nan
        r[:, piece] = x.swapaxes(0, 1)

    if r.size:
        run_pieces(work, held.pieces(h * max(held.row_size, h * a)))
    return r


def _solve_weak(system: Definite, errors: FloatArray, weak: float) -> FloatArray:
    """Return the solutions (g, a, h, v), NaN where some direction has lost its digits."""
    h = errors.shape[2]
    if h == 1:
        return system.solve(errors)
    looks = np.broadcast_to(signs(h), (*errors.shape[:3], LOOKS))
    both = system.solve(np.concatenate([errors, looks], axis=3))
    x = both[..., :-LOOKS]
    x[shrunk(both[..., -LOOKS:], weak)] = np.nan
    return np.asarray(x)


class HeldSystem:
    """I − S_HH of stacked tasks at one penalty, factorised once for several right-hand sides.

    Where more rows are held out than there are coordinates, the smaller system is solved instead:
    (I − V Vᵀ)⁻¹ = I + V (I − VᵀV)⁻¹ Vᵀ with V = V_H M_E.

    Parameters
    ----------
    held : Held
        With one penalty; coordinates in which D = 1.

    Attributes
    ----------
    weak : ndarray of bool, shape (b,)
        Which sets should be trained from scratch instead: leverages are so close to 1 that digits
        are lost.
    """

    def __init__(self, held: Held) -> None:
        a, b, h, _ = held.shape
        assert a == 1
        self._b, self._h = b, h
        self._V: FloatArray | None = None
        if isinstance(held, HeldCoordinates) and held.kappa and h > held.row_size:
            self._V = held.constrained_rows()
            M = self._V.swapaxes(1, 2) @ self._V
            np.negative(M, out=M)
            M[:, np.arange(held.row_size), np.arange(held.row_size)] += 1.0
        else:
            M = held.gaps(slice(0, b))[:, 0]
        self._system = Definite(M)
        if self._system.failed.any():
            raise _no_digits(h, int(np.argmax(self._system.failed)))
        self.weak = self._system.smallest <= held.weak
        if held.weak and h > 1:  # a weak direction need not show in a single pivot
            looks = np.broadcast_to(signs(h), (b, h, LOOKS))
            self.weak |= shrunk(self.solve(looks), held.weak)

    def solve(self, right: FloatArray) -> FloatArray:
        """Return (I − S_HH)⁻¹ right for (b, h, v): for errors, the held-out residuals."""
        if self._V is None:
            return self._system.solve(right)
        inner = self._system.solve(self._V.swapaxes(1, 2) @ right)
        return np.asarray(right + self._V @ inner)

    @property
    def log_det(self) -> FloatArray:
        """Logarithm of det(I − S_HH), shape (b,): also that of the smaller system."""
        return self._system.log_det

    def inverse_diagonal(self) -> FloatArray:
        """Return the diagonal of (I − S_HH)⁻¹, shape (b, h)."""
        if self._V is not None:
            inner = self._system.solve(self._V.swapaxes(1, 2))
            return np.asarray(1.0 + np.einsum("bhp,bph->bh", self._V, inner))
        ones = np.broadcast_to(np.eye(self._h), (self._b, self._h, self._h))
        return np.array(np.einsum("bhh->bh", self._system.solve(ones)))


def _no_digits(h: int, index: int) -> HoldOutError:
    return HoldOutError(
        f"the model interpolates the {h} rows of held-out set {index} to the last digit, so what "
        "it would predict without them cannot be told in double precision. Use larger alphas."
    )
