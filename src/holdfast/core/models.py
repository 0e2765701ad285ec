"""All held-out models at one penalty, as coefficients: the primitive of everything in `answers`.

The model that never saw H is β₋H = M(z − V_Hᵀ r_H), a vector; a dense one is c₋H = c − G_{·H} r_H,
zero on H. In the output coordinates of the smoother f₋H(x) = v(x)·β₋H for any row x, so that all
models of all experiments predict any rows by one matrix product. Models are made a stack of
experiments at a time. Experiments whose error would exceed the promise are refitted, each with
coordinates of its own, by the rule of `holdfast.core.accuracy`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.core.accuracy import to_refit
from holdfast.core.experiments import Shape, Tasks
from holdfast.core.factor import Factor
from holdfast.core.lapack import CHUNK, KEPT
from holdfast.core.residuals import estimated, limit_of, residuals
from holdfast.core.smoother import Fit, OtherBasis, Outputs, Smoother

#: From held-out rows to the basis rows of the model without them.
ChosenBasis = Callable[[IntArray], OtherBasis]


class Stack(NamedTuple):
    """Some tasks of one shape.

    Attributes
    ----------
    index : ndarray of int, shape (b,)
        Which tasks.
    shape : Shape
    models : ndarray of shape (b, v, q)
        Coefficients.
    residuals : ndarray of shape (b, h, v)
        √w (y − f) on the held-out rows.
    squares : ndarray of shape (b, v)
        r_Hᵀ(I − S_HH)r_H.
    """

    index: IntArray  # type: ignore[assignment]  # hides tuple.index, which is not needed
    shape: Shape
    models: FloatArray
    residuals: FloatArray
    squares: FloatArray


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

    # -- which models are refitted -----------------------------------------------------------------

    @cached_property
    def refitted(self) -> BoolArray:
        """Which tasks are refitted: those beyond the promise, if that is affordable."""
        if self.basis is not None or self.smoother.learned:
            return np.ones(len(self), dtype=bool)
        return to_refit(self.smoother, self.error, self.tasks.held.sizes)

    @cached_property
    def error(self) -> FloatArray:
        """Estimated rounding errors of the predictions of each task, shape (tasks,)."""
        error = np.zeros(len(self))
        for shape in self._shapes:
            for alpha, _, factor in self.factors:
                _, own = self._solved(shape, alpha, factor)
                error[shape.index] = np.maximum(error[shape.index], own)
        return error

    @cached_property
    def factors(self) -> list[tuple[float, IntArray, Factor]]:
        """(penalty, its targets, the factor) for each penalty."""
        self.smoother.data.unpenalised.require_determined(self.tasks.held)
        return self.smoother.factors_for(self.alphas)

    @cached_property
    def _shapes(self) -> list[Shape]:
        size = self.factors[0][2].size
        return [part for shape in self.tasks.shapes() for part in shape.stacks(size, CHUNK)]

    def _solved(
        self, shape: Shape, alpha: float, factor: Factor
    ) -> tuple[tuple[Any, FloatArray], FloatArray]:
        """Return the block and residuals of stacked tasks at one penalty, and errors (b,)."""
        at = np.array([alpha])
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            sizes, block = factor.size_of_errors(at), factor.block(shape, at)
            found = residuals(block, limit_of(factor, shape, sizes))
            error = estimated(factor, shape, at, sizes, found.amplification)[0]
        return (block, found.r), np.where(np.isfinite(error), error, np.inf)

    # -- models that are not refitted --------------------------------------------------------------

    @property
    def factor(self) -> Factor:
        """The factor whose coordinates the models have."""
        return self.factors[0][2]

    @cached_property
    def outputs(self) -> Outputs:
        """From new rows to the coordinates of the models that are not refitted."""
        return self.smoother.outputs(self.factor)

    def stacks(self) -> Iterator[Stack]:
        """Yield the models that are not refitted, with what led there."""
        if self.refitted.all():
            return
        v = self.alphas.size
        for shape in self._shapes:
            keep = ~self.refitted[shape.index]
            if not keep.any():
                continue
            shape = shape if keep.all() else shape.cut(keep)
            b, h = shape.H.shape
            models, r_all, squares = None, np.empty((b, h, v)), np.empty((b, v))
            for alpha, columns, factor in self.factors:
                (block, r), _ = self._solved(shape, alpha, factor)
                betas = block.betas(r, slice(None))[:, 0]
                own = self.smoother.coefficients(factor, betas, shape.H)
                if models is None:
                    models = np.empty((b, v, own.shape[2]))
                models[:, columns], r_all[..., columns] = own, r[0]
                squares[:, columns] = (r[0] * block.errors()[0]).sum(axis=1)
            assert models is not None, "there is at least one target"
            yield Stack(shape.index, shape, models, r_all, squares)

    # -- models that are ---------------------------------------------------------------------------

    def smoothers(self) -> Iterator[tuple[int, Smoother]]:
        """Yield (task, its own smoother) of those that are refitted."""
        for j in np.flatnonzero(self.refitted).tolist():
            held = self.tasks.held[j]
            basis = None if self.basis is None else self.basis(held)
            yield j, self.smoother.without(held, self.tasks.removed[j], basis)

    def only(self) -> tuple[Outputs, FloatArray]:
        """Return u and the coefficients (v, q) of the only model."""
        assert len(self) == 1
        for stack in self.stacks():
            return self.outputs, stack.models[0]
        ((_, own),) = self.smoothers()
        return own.model(self.alphas)

    def published(self) -> Iterator[tuple[int, Fit]]:
        """Yield (task, its coefficients as a fit publishes them)."""
        for stack in self.stacks():
            for j, model in zip(stack.index.tolist(), stack.models, strict=True):
                yield j, self.smoother.published(self.outputs, model, self.alphas)
        for j, own in self.smoothers():
            yield j, own.fit(self.alphas)

    # -- predictions -------------------------------------------------------------------------------

    def predict(self, X: Any) -> Iterator[tuple[slice, FloatArray]]:
        """Yield (rows, predictions (v, rows, tasks)) for new rows X, block by block.

        Notes
        -----
        One product 2 k J q per target for k rows and J models, beside the k rows' coordinates and
        the models themselves. Models are kept while they take no more than KEPT and made
        again for every block of rows otherwise; memory is O(J q + block · J), never k J.
        """
        v, J, kept = self.alphas.size, len(self), self._kept
        own = [own.model(self.alphas) for _, own in self.smoothers()]
        widest = max(v * J, X.shape[1] if len(X.shape) > 1 else 1)
        if kept is not None:
            widest = max(widest, v * kept.shape[2])
        step = max(1, 4 * CHUNK // max(1, widest))
        for start in range(0, X.shape[0], step):
            rows = slice(start, min(start + step, X.shape[0]))
            values = np.empty((v, rows.stop - start, J))
            self._predict_kept(X[rows], kept, values)
            for j, model in zip(np.flatnonzero(self.refitted).tolist(), own, strict=True):
                values[:, :, j] = predict_with(X[rows], model).T
            yield rows, values

    def _predict_kept(self, X: Any, kept: FloatArray | None, values: FloatArray) -> None:
        """Put predictions of some rows by the models that are not refitted in their places."""
        if self.refitted.all():
            return
        U = self.outputs(X)
        if kept is not None and not self.refitted.any():
            np.matmul(U, kept.swapaxes(1, 2), out=values)
        elif kept is not None:
            values[:, :, ~self.refitted] = U @ kept.swapaxes(1, 2)
        else:
            for stack in self.stacks():
                values[:, :, stack.index] = U @ stack.models.transpose(1, 2, 0)

    @cached_property
    def _kept(self) -> FloatArray | None:
        """The coefficients (v, tasks, q) of all models, unless they are too many."""
        left = ~self.refitted
        if not left.any():
            return np.empty((self.alphas.size, 0, 0))
        shape = self.alphas.size, int(left.sum()), self.outputs.size
        if np.prod(shape) > KEPT:
            return None
        kept, place = np.empty(shape), np.cumsum(left) - 1
        for stack in self.stacks():
            kept[:, place[stack.index]] = stack.models.swapaxes(0, 1)
        return kept


def predict_with(X: Any, model: tuple[Outputs, FloatArray]) -> FloatArray:
    """Return predictions (k, v) of rows by one model, a block at a time."""
    outputs, coefficients = model
    values = np.empty((X.shape[0], len(coefficients)))
    step = max(1, 4 * CHUNK // max(1, outputs.size, *X.shape[1:]))
    for start in range(0, X.shape[0], step):
        values[start : start + step] = outputs(X[start : start + step]) @ coefficients.T
    return values
