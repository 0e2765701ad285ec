"""All held-out models at one penalty, as coefficients: the primitive of everything in `answers`.

The model that never saw H is β₋H = M(z − V_Hᵀ r_H), a vector (theory.md, "the model without H,
anywhere"); a dense one is c₋H = c − G_{·H} r_H, zero on H. In the output coordinates of the
smoother f₋H(x) = v(x)·β₋H for any row x, so that all models of all experiments predict any rows by
one matrix product. Models are made a stack of experiments at a time.

Targets are in the smoother's unit everywhere (`Targets.unit`) but in what `predict`, `only` and
`published` give.

Experiments that a fast path would answer with too few digits (`holdfast.holdout.digits`) are
trained anew, each with coordinates of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.experiments import Shape, Tasks
from holdfast.holdout.digits import TOO_LITTLE, affordable, trained_anew, warn_of_digits
from holdfast.holdout.identity import STACK_DOUBLES, from_residuals, residuals
from holdfast.linalg import Definite
from holdfast.smoother import Factor, Fit, HeldCoordinates, OtherBasis, Outputs, Smoother
from holdfast.smoother.factor import FeatureFactor

__all__ = ["ChosenBasis", "HeldOutModels", "predict_with"]

#: From held-out rows to the basis rows of the model without them.
ChosenBasis = Callable[[IntArray], OtherBasis]
#: Doubles of coefficients, and of predictions, that are kept at once.
KEEP_DOUBLES, BLOCK_DOUBLES = 2**27, 2**22


class Stack(NamedTuple):
    """Some tasks of one shape.

    Attributes
    ----------
    index : ndarray of int, shape (b,)
        Which tasks.
    shape : Shape
    models : ndarray of shape (b, v, q)
        Coefficients.
    squares : ndarray of shape (b, v, 1)
        r_Hᵀ(I − S_HH)r_H.
    predictions : ndarray of shape (b, v, t)
        Of the test rows, if they were asked for.
    """

    index: IntArray  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    shape: Shape
    models: FloatArray
    squares: FloatArray
    predictions: FloatArray

    def only(self, chosen: BoolArray) -> Stack:
        """Return some of the tasks."""
        index, shape, *arrays = self
        return Stack(index[chosen], shape.cut(chosen), *(array[chosen] for array in arrays))


@dataclass(frozen=True, eq=False)
class HeldOutModels:
    """The models of some tasks, one penalty for each target.

    Attributes
    ----------
    smoother : Smoother
    tasks : Tasks
    alphas : ndarray of shape (v,)
    basis : callable or None
        Chooses the basis rows of each model anew (``held_out_basis="reselect"``).
    """

    smoother: Smoother
    tasks: Tasks
    alphas: FloatArray
    basis: ChosenBasis | None = None

    def __len__(self) -> int:
        return len(self.tasks)

    @cached_property
    def anew(self) -> BoolArray:
        """Which tasks are trained anew."""
        if self._anew_at_once.all() or not self._lost.any():
            return self._anew_at_once
        lost = self._lost & affordable(self.smoother, self._those_lost, 1)
        return np.asarray(self._anew_at_once | lost)

    @cached_property
    def _anew_at_once(self) -> BoolArray:
        """Which tasks are trained anew, whatever their systems turn out to be."""
        smoother, tasks = self.smoother, self.tasks
        everything = np.ones(len(self), dtype=bool)
        if self.basis is not None:
            return everything
        hard = smoother.promise(self.alphas) > TOO_LITTLE
        if hard.any() and affordable(smoother, tasks, self.alphas.size):
            return everything
        return trained_anew(smoother, tasks)

    @cached_property
    def _lost(self) -> BoolArray:
        """Which tasks hold out rows that the model nearly interpolates: digits are lost there.

        No pivot of I − S_HH is smaller than 1 − tr S_HH, so that ordinary sets need no look. Who
        goes through `stacks` first learns it there, where these systems are solved in any case.
        """
        lost = np.zeros(len(self), dtype=bool)
        held = self.tasks.held
        with self.smoother.lock:
            for alpha, _, factor in self._factors():
                if not isinstance(factor, FeatureFactor):
                    continue
                leverage = factor.leverages(alpha)[held.values]
                trace = np.bincount(held.owners, weights=leverage, minlength=len(self))
                doubtful = np.flatnonzero(trace >= 1.0 - factor.weak)
                part = self.tasks.select(doubtful)
                for shape in _stacks(part, factor) if doubtful.size else ():
                    system = factor.held(shape, np.array([alpha]))
                    for piece in system.pieces(shape.H.shape[1] * system.row_size):
                        failed = Definite(system.gaps(piece)[:, 0], factor.weak).failed
                        lost[doubtful[shape.index[piece]]] |= failed
        return lost

    @property
    def _those_lost(self) -> Tasks:
        return self.tasks.select(np.flatnonzero(self._lost))

    @cached_property
    def outputs(self) -> Outputs:
        """From new rows to the coordinates of the models that are not trained anew."""
        self.settle()
        return self.smoother.outputs()

    def settle(self) -> None:
        """Make the factors, which may change the coordinates, before these are used."""
        self._factors()

    def _factors(self) -> list[tuple[float, IntArray, Factor]]:
        """Return (penalty, its targets, the factor) for each penalty."""
        smoother, found = self.smoother, []
        every = smoother.form == "features" or smoother.sizes(self.tasks).factorised
        for alpha in np.unique(self.alphas).tolist():
            columns = np.flatnonzero(self.alphas == alpha)
            factor = smoother.factor(None if every else alpha)
            found.append((alpha, columns, factor.select(columns)))
        return found

    def blocks(self) -> Iterator[tuple[IntArray, FloatArray]]:
        """Yield (tasks, coefficients (b, v, q)) of the models that are not trained anew."""
        for stack in self.stacks():
            yield stack.index, stack.models

    def stacks(self, *, tested: bool = False) -> Iterator[Stack]:
        """Yield the same with what led there; `tested`: and predictions of the test rows.

        A system is solved once: sets whose digits turn out to be lost are left out, and `anew` then
        knows them. Where they are too many to train, they follow with the digits that are left.
        """
        known = "_lost" in self.__dict__
        lost = self._lost if known else np.zeros(len(self), dtype=bool)
        chosen = np.flatnonzero(~(self._anew_at_once | lost))
        factors: list[tuple[float, IntArray, Factor]] = []
        if not self._anew_at_once.all():
            with self.smoother.lock:
                factors = self._factors()
        for stack, failed in self._solved(chosen, factors, tested):
            lost[stack.index[failed]] = True
            if not failed.any():
                yield stack
            elif not failed.all():
                yield stack.only(~failed)
        if not known:
            self.__dict__["_lost"] = lost  # as the property would
        kept = np.flatnonzero(self._lost & ~self.anew)
        if kept.size:
            warn_of_digits(np.unique(self.alphas), kept.size)
            factors = [(alpha, columns, factor.relaxed()) for alpha, columns, factor in factors]
            for stack, _ in self._solved(kept, factors, tested):
                yield stack

    def _solved(
        self, chosen: IntArray, factors: list[tuple[float, IntArray, Factor]], tested: bool
    ) -> Iterator[tuple[Stack, BoolArray]]:
        """Yield the stacks of some tasks, and which of their sets have lost their digits."""
        part, v = self.tasks.select(chosen), self.alphas.size
        for shape in _stacks(part, factors[0][2]) if chosen.size else ():
            parts = [self._stack(shape, *factor, tested) for factor in factors]
            index, (columns, *whole, _) = chosen[shape.index], parts[0]
            out = self.tasks.test.ptr[index][:, None] + np.arange(shape.T.shape[1])
            own_shape = shape._replace(index=index, out=out)
            failed = np.any([failed for *_, failed in parts], axis=0)
            if columns.size < v:
                whole = [np.empty((*array.shape[:-2], v, array.shape[-1])) for array in whole]
                for columns, *arrays, _ in parts:
                    for array, own in zip(whole, arrays, strict=True):
                        array[..., columns, :] = own
            yield Stack(index, own_shape, *whole), failed

    def _stack(
        self, shape: Shape, alpha: float, columns: IntArray, factor: Factor, tested: bool
    ) -> tuple[IntArray, FloatArray, FloatArray, FloatArray, BoolArray]:
        """Return targets, then models, squares and predictions of stacked tasks at one penalty.

        And which of the sets have lost their digits: what is returned for those means nothing.
        """
        held = factor.held(shape, np.array([alpha]))
        errors = held.errors()
        r = residuals(held, errors, told=True)
        lost = np.zeros(len(r[0]), dtype=bool)
        if isinstance(factor, FeatureFactor):
            lost = np.isnan(r[0]).any(axis=(1, 2))
            r[:, lost] = 0.0
        models = self.smoother.held_models(factor, shape, held, r)
        scale = 1.0 if isinstance(held, HeldCoordinates) and held.kappa else alpha
        squares = scale * (r[0] * errors[0]).sum(axis=1)[..., None]
        values = np.empty((len(models), columns.size, 0))
        if tested:
            values = from_residuals(held, r)[0].swapaxes(1, 2)
            if self.smoother.unpenalised.count:
                level = self.smoother.unpenalised.level(shape.T, self.smoother.targets.level)
                values += (
                    level[..., columns, None]
                    if level.ndim == 1
                    else level[..., columns].swapaxes(1, 2)
                )
        return columns, self.smoother.with_level(models, columns), squares, values, lost

    def smoothers(self) -> Iterator[tuple[int, Smoother]]:
        """Yield (task, its own smoother) of those that are trained anew."""
        for j in np.flatnonzero(self.anew).tolist():
            held = self.tasks.held[j]
            basis = None if self.basis is None else self.basis(held)
            yield j, self.smoother.without(held, self.tasks.removed[j], basis)

    def retrained(self) -> Iterator[tuple[int, Smoother, FloatArray]]:
        """Yield (task, its own smoother, coefficients (v, q)) of those that are trained anew."""
        for j, own in self.smoothers():
            models = own.model(self.alphas)
            # Its targets lacked the level of the whole model: the same column in other units.
            s = own.unpenalised.count
            if s:
                units = self.smoother.unpenalised.anywhere() / own.unpenalised.anywhere()
                models[:, -s:] += self.smoother.targets.level.T * units
            yield j, own, models

    def only(self) -> tuple[Outputs, FloatArray]:
        """Return u and the coefficients (v, q) of the only model, targets being those given."""
        assert len(self) == 1
        unit = self.smoother.targets.unit
        for _, models in self.blocks():
            return self.outputs, models[0] * unit
        ((_, own, model),) = self.retrained()
        return own.outputs(), model * unit

    def published(self) -> Iterator[tuple[int, Fit]]:
        """Yield (task, its coefficients as a fit publishes them)."""
        unit = self.smoother.targets.unit
        for index, models in self.blocks():
            for j, model in zip(index.tolist(), models, strict=True):
                yield j, self.smoother.published(model, self.alphas).times(unit)
        level = self.smoother.unpenalised.coefficients(self.smoother.targets.level)
        for j, own in self.smoothers():
            fit = own.fit(self.alphas)
            yield j, fit._replace(unpenalised=fit.unpenalised + level).times(unit)

    # -- predictions -------------------------------------------------------------------------------

    def predict(self, X: Any) -> Iterator[tuple[slice, FloatArray]]:
        """Yield (rows, predictions (v, rows, tasks)) for new rows X, block by block.

        Notes
        -----
        One product 2 k J q per target for k rows and J models, beside the k rows' coordinates and
        the models themselves. Models are kept while they take no more than KEEP_DOUBLES and made
        again for every slab of rows otherwise; memory is O(J q + block · J), never k J.
        """
        v, J, kept, unit = self.alphas.size, len(self), self._kept(), self.smoother.targets.unit
        slab = KEEP_DOUBLES // (v * max(1, J if kept is None else int(self.anew.sum())))
        block = slab if kept is None else BLOCK_DOUBLES // (v * max(J, kept.shape[2]))
        for rows in _slices(0, X.shape[0], slab):
            others = self._others(X, rows)
            for part in _slices(rows.start, rows.stop, block):
                inside = slice(part.start - rows.start, part.stop - rows.start)
                values = self._block(X[part], kept, others[:, inside])
                if unit != 1.0:
                    values *= unit
                yield part, values

    def _kept(self) -> FloatArray | None:
        """Return the coefficients (v, tasks, q) of all models, unless they are too many."""
        maybe = ~self._anew_at_once
        if not maybe.any():
            return np.empty((self.alphas.size, 0, 0))
        shape = self.alphas.size, int(maybe.sum()), self.outputs.size
        if np.prod(shape) > KEEP_DOUBLES:
            return None
        kept, place = np.empty(shape), np.cumsum(maybe) - 1
        for index, models in self.blocks():
            kept[:, place[index]] = models.swapaxes(0, 1)
        known = ~self.anew[maybe]  # what the pass over all systems has told
        return kept if known.all() else kept[:, known]

    def _others(self, X: Any, rows: slice) -> FloatArray:
        """Return predictions (v, rows, tasks) of the models that are trained anew."""
        values = np.empty((self.alphas.size, rows.stop - rows.start, int(self.anew.sum())))
        for i, (_, own, models) in enumerate(self.retrained()):
            outputs = own.outputs()
            for part in _slices(rows.start, rows.stop, BLOCK_DOUBLES // max(1, outputs.size)):
                inside = slice(part.start - rows.start, part.stop - rows.start)
                values[:, inside, i] = models @ outputs(X[part]).T
        return values

    def _block(self, X: Any, kept: FloatArray | None, others: FloatArray) -> FloatArray:
        """Return predictions (v, rows, tasks) of a block of rows, all models together."""
        if self.anew.all():
            return others
        U = self.outputs(X)
        if kept is not None and not others.shape[2]:
            return np.asarray(U @ kept.swapaxes(1, 2))
        values = np.empty((*others.shape[:2], len(self)))
        values[:, :, self.anew] = others
        if kept is not None:
            values[:, :, ~self.anew] = U @ kept.swapaxes(1, 2)
            return values
        for index, models in self.blocks():
            values[:, :, index] = U @ models.transpose(1, 2, 0)
        return values


def _stacks(tasks: Tasks, factor: Factor) -> list[Shape]:
    """Return tasks in stacks, each of bounded size."""
    return tasks.stacks(factor.size, STACK_DOUBLES, fill=factor.fills)


def predict_with(X: Any, model: tuple[Outputs, FloatArray]) -> FloatArray:
    """Return predictions (k, v) of rows by one model, a block at a time."""
    outputs, coefficients = model
    values = np.empty((X.shape[0], len(coefficients)))
    for part in _slices(0, X.shape[0], BLOCK_DOUBLES // max(1, outputs.size)):
        values[part] = outputs(X[part]) @ coefficients.T
    return values


def _slices(start: int, stop: int, step: int) -> Iterator[slice]:
    step = max(1, step)
    return (slice(i, min(i + step, stop)) for i in range(start, stop, step))
