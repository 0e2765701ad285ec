"""All held-out models at one penalty, as coefficients: the primitive of everything in `answers`.

The model that never saw H is β₋H = M(z − V_Hᵀ r_H), a vector (theory.md, "the model without H,
anywhere"); a dense one is c₋H = c − G_{·H} r_H, zero on H. In the output coordinates of the
smoother f₋H(x) = v(x)·β₋H for any row x, so that all models of all experiments predict any rows by
one matrix product. Models are made a stack of experiments at a time.

Targets are in the smoother's unit everywhere (`Targets.unit`) but in what `predict`, `only` and
`published` give.

Experiments whose error would pass the promise (`holdfast.holdout.accuracy`) are trained again, each
with coordinates of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.experiments import Shape, Tasks
from holdfast.holdout.accuracy import LOST, affordable
from holdfast.holdout.identity import (
    STACK_DOUBLES,
    Residuals,
    most_growth,
    predictions,
    residuals,
)
from holdfast.smoother import Factor, Fit, HeldCoordinates, OtherBasis, Outputs, Smoother

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
        Of the test rows.
    """

    index: IntArray  # type: ignore[assignment]  # hides tuple.index, which is not needed
    shape: Shape
    models: FloatArray
    squares: FloatArray
    predictions: FloatArray


class _Part(NamedTuple):
    """Stacked tasks at one penalty, solved: the residuals of the targets that have it."""

    alpha: float
    columns: IntArray
    factor: Factor
    found: Residuals


@dataclass(frozen=True, eq=False)
class HeldOutModels:
    """The models of some tasks, one penalty for each target.

    Attributes
    ----------
    smoother : Smoother
    tasks : Tasks
    alphas : ndarray of shape (v,)
    basis : callable or None
        Chooses the basis rows of each model separately (``held_out_basis="reselect"``).
    """

    smoother: Smoother
    tasks: Tasks
    alphas: FloatArray
    basis: ChosenBasis | None = None

    def __len__(self) -> int:
        return len(self.tasks)

    @cached_property
    def again(self) -> BoolArray:
        """Which tasks are trained again: those past the promise, if that is affordable."""
        if self.basis is not None or self.smoother.learned:
            return np.ones(len(self), dtype=bool)
        lost = ~(self.error <= LOST)
        sizes = self.tasks.held.sizes[lost]
        work = sum(self.smoother.training_work(int(h)) for h in sizes)
        return lost if affordable(self.smoother, work) else np.zeros_like(lost)

    @cached_property
    def error(self) -> FloatArray:
        """What the algebra adds to predictions of each task at most, shape (tasks,)."""
        error = np.zeros(len(self))
        for shape, parts in self._solved:
            for alpha, _, factor, found in parts:
                held = factor.held(shape, np.array([alpha]))
                _, own = predictions(factor, held, shape, found)
                error[shape.index] = np.maximum(error[shape.index], own[0])
        return error

    @cached_property
    def _factors(self) -> list[tuple[float, IntArray, Factor]]:
        """(penalty, its targets, the factor) for each penalty."""
        return self.smoother.factor_for(self.alphas)

    @cached_property
    def _solved(self) -> list[tuple[Shape, list[_Part]]]:
        """The residuals of all tasks, stack by stack, for each penalty."""
        self.smoother.unpenalised.require_determined(self.tasks.held)
        solved = []
        for shape in self._shapes():
            parts = []
            for alpha, columns, factor in self._factors:
                held = factor.held(shape, np.array([alpha]))
                found = residuals(held, most_growth(factor, held, shape))
                parts.append(_Part(alpha, columns, factor, found))
            solved.append((shape, parts))
        return solved

    def _shapes(self) -> list[Shape]:
        return self.tasks.stacks(self._factors[0][2].size, STACK_DOUBLES)

    @property
    def factor(self) -> Factor:
        """The factor whose coordinates the models have."""
        return self._factors[0][2]

    @cached_property
    def outputs(self) -> Outputs:
        """From new rows to the coordinates of the models that are not trained again."""
        return self.smoother.outputs(self.factor)

    def blocks(self) -> Iterator[tuple[IntArray, FloatArray]]:
        """Yield (tasks, coefficients (b, v, q)) of the models that are not trained again."""
        for stack in self.stacks():
            yield stack.index, stack.models

    def stacks(self) -> Iterator[Stack]:
        """Yield the same with what led there, and predictions of the test rows."""
        if self.again.all():
            return
        for shape, parts in self._solved:
            stack = self._stack(shape, parts)
            left = ~self.again[stack.index]
            if left.all():
                yield stack
            elif left.any():
                index, whole, *arrays = stack
                yield Stack(index[left], whole.cut(left), *(array[left] for array in arrays))

    def _stack(self, shape: Shape, parts: list[_Part]) -> Stack:
        """Return models, squares and predictions of stacked tasks, the targets in their order."""
        v, found = self.alphas.size, []
        for part in parts:
            found.append((part.columns, *self._of_targets(shape, part)))
        columns, *whole = found[0]
        if columns.size < v:
            whole = [np.empty((*array.shape[:-2], v, array.shape[-1])) for array in whole]
            for columns, *arrays in found:
                for array, own in zip(whole, arrays, strict=True):
                    array[..., columns, :] = own
        return Stack(shape.index, shape, *whole)

    def _of_targets(self, shape: Shape, part: _Part) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return models, squares and predictions of the targets that have one penalty."""
        alpha, columns, factor, (r, *_) = part
        smoother, held = self.smoother, factor.held(shape, np.array([alpha]))
        models = smoother.with_level(smoother.held_models(factor, shape, held, r), columns)
        scale = 1.0 if isinstance(held, HeldCoordinates) and held.kappa else alpha
        squares = scale * (r[0] * held.errors()[0]).sum(axis=1)[..., None]
        values = predictions(factor, held, shape, part.found)[0][0].swapaxes(1, 2)
        if smoother.unpenalised.count:
            level = smoother.unpenalised.level(shape.T, smoother.targets.level)[..., columns]
            values = values + (level[:, None] if level.ndim == 1 else level.swapaxes(1, 2))
        return models, squares, values

    def smoothers(self) -> Iterator[tuple[int, Smoother]]:
        """Yield (task, its own smoother) of those that are trained again."""
        for j in np.flatnonzero(self.again).tolist():
            held = self.tasks.held[j]
            basis = None if self.basis is None else self.basis(held)
            yield j, self.smoother.without(held, self.tasks.removed[j], basis)

    def retrained(self) -> Iterator[tuple[int, Smoother, Factor | None, FloatArray]]:
        """Yield (task, its own smoother and factor, coefficients (v, q)) of those trained again."""
        for j, own in self.smoothers():
            factor = own.coordinates(self.alphas)
            models = own.model(factor, self.alphas)
            # Its targets lacked the level of the whole model: the same columns in other units.
            s = own.unpenalised.count
            if s:
                level = self.smoother.unpenalised.coefficients(self.smoother.targets.level)
                models[:, -s:] += (own.unpenalised.R @ level).T
            yield j, own, factor, models

    def only(self) -> tuple[Outputs, FloatArray]:
        """Return u and the coefficients (v, q) of the only model, targets being those given."""
        assert len(self) == 1
        unit = self.smoother.targets.unit
        for _, models in self.blocks():
            return self.outputs, models[0] * unit
        ((_, own, factor, model),) = self.retrained()
        return own.outputs(factor), model * unit

    def published(self) -> Iterator[tuple[int, Fit]]:
        """Yield (task, its coefficients as a fit publishes them)."""
        unit, factor = self.smoother.targets.unit, None if self.again.all() else self.factor
        for index, models in self.blocks():
            for j, model in zip(index.tolist(), models, strict=True):
                yield j, self.smoother.published(factor, model, self.alphas).times(unit)
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
        v, J, kept, unit = self.alphas.size, len(self), self._kept, self.smoother.targets.unit
        slab = KEEP_DOUBLES // (v * max(1, J if kept is None else int(self.again.sum())))
        widest = max(v * J, X.shape[1] if len(X.shape) > 1 else 1)
        if kept is not None:
            widest = max(widest, v * kept.shape[2])
        block = min(slab, BLOCK_DOUBLES // max(1, widest))
        for rows in _slices(0, X.shape[0], slab):
            others = self._others(X, rows)
            for part in _slices(rows.start, rows.stop, block):
                inside = slice(part.start - rows.start, part.stop - rows.start)
                values = self._block(X[part], kept, others[:, inside])
                if unit != 1.0:
                    values *= unit
                yield part, values

    @cached_property
    def _kept(self) -> FloatArray | None:
        """The coefficients (v, tasks, q) of all models, unless they are too many."""
        left = ~self.again
        if not left.any():
            return np.empty((self.alphas.size, 0, 0))
        shape = self.alphas.size, int(left.sum()), self.outputs.size
        if np.prod(shape) > KEEP_DOUBLES:
            return None
        kept, place = np.empty(shape), np.cumsum(left) - 1
        for index, models in self.blocks():
            kept[:, place[index]] = models.swapaxes(0, 1)
        return kept

    def _others(self, X: Any, rows: slice) -> FloatArray:
        """Return predictions (v, rows, tasks) of the models that are trained again."""
        values = np.empty((self.alphas.size, rows.stop - rows.start, int(self.again.sum())))
        for i, (_, own, factor, models) in enumerate(self.retrained()):
            outputs = own.outputs(factor)
            for part in _slices(rows.start, rows.stop, _rows_at_once(X, outputs)):
                inside = slice(part.start - rows.start, part.stop - rows.start)
                values[:, inside, i] = models @ outputs(X[part]).T
        return values

    def _block(self, X: Any, kept: FloatArray | None, others: FloatArray) -> FloatArray:
        """Return predictions (v, rows, tasks) of a block of rows, all models together."""
        if self.again.all():
            return others
        U = self.outputs(X)
        if kept is not None and not others.shape[2]:
            return np.asarray(U @ kept.swapaxes(1, 2))
        values = np.empty((*others.shape[:2], len(self)))
        values[:, :, self.again] = others
        if kept is not None:
            values[:, :, ~self.again] = U @ kept.swapaxes(1, 2)
            return values
        for index, models in self.blocks():
            values[:, :, index] = U @ models.transpose(1, 2, 0)
        return values


def predict_with(X: Any, model: tuple[Outputs, FloatArray]) -> FloatArray:
    """Return predictions (k, v) of rows by one model, a block at a time."""
    outputs, coefficients = model
    values = np.empty((X.shape[0], len(coefficients)))
    for part in _slices(0, X.shape[0], _rows_at_once(X, outputs)):
        values[part] = outputs(X[part]) @ coefficients.T
    return values


def _rows_at_once(X: Any, outputs: Outputs) -> int:
    """Return how many rows to take: neither they nor their coordinates are many numbers."""
    return int(BLOCK_DOUBLES // max(1, outputs.size, *X.shape[1:]))


def _slices(start: int, stop: int, step: int) -> Iterator[slice]:
    step = max(1, step)
    return (slice(i, min(i + step, stop)) for i in range(start, stop, step))
