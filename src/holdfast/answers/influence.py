"""Which rows, or whole groups, move the model most.

Cook's distance of a row or a group H compares the model with the one that never saw H (Cook 1977;
for groups Banerjee & Frees 1997),

    cook = Σ_j w_j (f − f₋H)(x_j)² / (tr S · s²),      s² = Σ_j w_j e_j² / (m − tr S)

In coordinates where the Gram matrix is diagonal the sum over all rows is Σ_k Λ_k (β − β₋H)_k²: no
row is looked at. `residual` is the held-out residual over its standard deviation s√(1 − S_HH)⁻¹; of
a group, the root mean square of its decorrelated residuals with the sign of their sum. For an
unpenalised linear model these are the textbook's internally studentised residuals and Cook's
distances. No row moves the model of a target that does not vary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import AnyArray, BoolArray, FloatArray
from holdfast.answers.fitted import Estimator, Fitted
from holdfast.core.experiments import leave_group_out, leave_one_out
from holdfast.core.gaussian import second_moments
from holdfast.core.models import HeldOutModels
from holdfast.core.smoother import by_penalty
from holdfast.data.frames import make_frame
from holdfast.splitters.cv import check_groups

__all__ = ["Influence", "influence", "measures"]


@dataclass(frozen=True, eq=False, repr=False)
class Influence:
    """How much each row, or group, moves the model.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        Row numbers, or groups in sorted order.
    leverage : ndarray of shape (n,), or (n, v) where targets have penalties of their own
        tr S_HH: how many of the model's degrees of freedom the rows use.
    residual : ndarray of shape (n,) or (n, v)
        Held-out residual over its standard deviation.
    cook : ndarray of shape (n,) or (n, v)
        Cook's distance.
    grouped : bool
        Whether these are groups.
    frames : str or None
        The library whose frames `to_frame` returns.
    """

    labels: AnyArray
    leverage: FloatArray
    residual: FloatArray
    cook: FloatArray
    grouped: bool
    frames: str | None = None

    def __repr__(self) -> str:
        what = "groups" if self.grouped else "rows"
        size = self.cook if self.cook.ndim == 1 else self.cook.max(axis=1)
        top = int(np.argmax(size))
        if not size[top] > 0:
            return f"<influence of {len(self.labels)} {what}: none of them moves the model>"
        return (
            f"<influence of {len(self.labels)} {what}: {self.labels[top]!s} moves the model most, "
            f"Cook's distance {size[top]:.3g}>"
        )

    def to_frame(self, library: str | None = None) -> Any:
        """Return a table with one line per row or group, and target where there are several."""
        name = "group" if self.grouped else "row"
        if self.cook.ndim == 1:
            columns = {name: self.labels, "leverage": self.leverage}
            columns |= {k: getattr(self, k) for k in ("residual", "cook")}
        else:
            v = self.cook.shape[1]
            columns = {
                name: np.repeat(self.labels, v),
                "target": np.tile(np.arange(v), len(self.labels)),
                "leverage": np.broadcast_to(self.leverage.T, (v, len(self.labels))).T.ravel(),
            }
            columns |= {k: getattr(self, k).ravel() for k in ("residual", "cook")}
        return make_frame(columns, library or self.frames)


def influence(estimator: Estimator, groups: ArrayLike | None = None) -> Influence:
    """Return how much each row, or each group, moves the model.

    Parameters
    ----------
    groups : array-like of shape (m,), optional
        "Which subject moves the model most?"; None: row by row.

    Returns
    -------
    Influence
        ``leverage``, ``residual``, ``cook``, ``to_frame()``; groups in sorted order.

    Notes
    -----
    At ``alpha_``, or at each target's own penalty if there are several. Cook's distance of H is
    Σ_j w_j (f − f₋H)(x_j)² / (tr S · s²), s² = Σ w e²/(m − tr S); see `holdfast.answers`.
    ``leverage`` is of shape (n, v) where the penalties of the targets differ.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from holdfast import KernelRidgeCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> y[7] += 1000.0  # a slip of the pen
    >>> model = KernelRidgeCV(gamma=10.0, alphas=[1.0]).fit(X, y)
    >>> int(np.argmax(model.influence().cook))
    7
    """
    fitted = estimator._fitted_state()
    m = fitted.training.weights.size
    labels = np.arange(m) if groups is None else check_groups(groups, m)
    experiments = leave_one_out(m) if groups is None else leave_group_out(labels)
    tasks = fitted.model.tasks(experiments, all_tested=True)
    found = measures(fitted.model.held_models(tasks, fitted.alphas))
    still = _constant(fitted)  # their residuals are rounding errors, and so is s²
    found["residual"][:, still] = found["cook"][:, still] = 0.0
    shaped = {k: v if k == "leverage" else fitted.flat(v) for k, v in found.items()}
    names = labels if groups is None else np.unique(labels)
    return Influence(names, **shaped, grouped=groups is not None, frames=fitted.frames)


def _constant(fitted: Fitted) -> BoolArray:
    """Return which targets (v,) are fitted exactly, being constant (or zero) on training rows."""
    training = fitted.training
    seen = training.Y[training.weights > 0]
    return np.asarray((seen == (seen[:1] if training.bias else 0.0)).all(axis=0))


def measures(models: HeldOutModels) -> dict[str, FloatArray]:
    """Return leverage, residual and cook of every task, whose test rows are those held.

    One pass over the held-out models. Each target has its own penalty, and so its own freedom;
    leverages are (n,) where all penalties are the same, else (n, v).
    """
    smoother, tasks = models.smoother, models.tasks
    grid, index = np.unique(models.alphas, return_inverse=True)
    leverages = np.stack(
        [smoother.factors_for(alpha[None])[0][2].leverages(float(alpha)) for alpha in grid], axis=1
    )[:, index]
    freedom, m = leverages.sum(axis=0), smoother.data.weights.rows.size
    Y, weights = smoother.data.targets.Y, smoother.data.weights
    whole = _on_all_rows(models)
    fitted = Y - smoother.fitted_rows(models.factor, whole, np.arange(len(Y)))
    s2 = weights.values @ np.square(fitted) / (m - freedom)  # (v,)
    errors, squares, cook = _one_pass(models, whole)
    rows = tasks.test.values

    def sums(values: FloatArray) -> FloatArray:
        return np.asarray(np.add.reduceat(values, tasks.test.ptr[:-1], axis=0))

    signed = np.copysign(np.sqrt(squares), sums(weights.root[rows][:, None] * errors))
    with np.errstate(divide="ignore", invalid="ignore"):  # s² of constant targets may be zero
        return {
            "leverage": sums(leverages[rows, 0] if grid.size == 1 else leverages[rows]),
            "residual": signed / np.sqrt(s2),
            "cook": cook / (freedom * s2),
        }


def _on_all_rows(models: HeldOutModels) -> FloatArray:
    """Return the coefficients (v, q) of the model on all rows."""
    nothing = np.zeros((1, 0), dtype=np.int64)
    parts: dict[int, FloatArray] = {}
    for alpha, columns, factor in models.factors:
        beta = factor.D(np.array([alpha])) * factor.z.T
        own = models.smoother.coefficients(factor, beta[None], nothing)[0]
        parts |= dict(zip(columns.tolist(), own, strict=True))
    return np.stack([parts[t] for t in range(len(parts))])


def _one_pass(
    models: HeldOutModels, whole: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return y − f₋H (k, v) on the test rows, and two numbers (n, v) of every task.

    The mean square of the decorrelated residuals, and Σ_j w_j (f − f₋H)(x_j)².
    """
    smoother, tasks, v = models.smoother, models.tasks, models.alphas.size
    data, every = smoother.data, np.arange(len(smoother.data))
    errors = np.zeros((tasks.test.values.size, v))
    squares, cook = (np.empty((len(models), v)) for _ in range(2))
    for stack in models.stacks():
        if stack.shape.same_rows:
            root = data.weights.root[stack.shape.H][..., None]
            errors[stack.shape.out] = stack.residuals / root
        else:
            for shape_out, T, own in zip(stack.shape.out, stack.shape.T, stack.models, strict=True):
                f = smoother.fitted_rows(models.factor, own, T)
                errors[shape_out] = data.targets.Y[T] - f
        squares[stack.index] = stack.squares / max(1, stack.shape.H.shape[1])
        cook[stack.index] = smoother.fitted_squares(models.factor, whole - stack.models)
    full = smoother.fitted_rows(models.factor, whole, every) if models.refitted.any() else None
    for j, own in models.smoothers():
        assert full is not None
        nothing = np.arange(0)
        f = np.empty((every.size, v))
        for alpha, columns in by_penalty(models.alphas):
            f[:, columns] = own.refit(nothing, nothing, every, np.array([alpha]))[0][:, columns]
        rows = tasks.test[j]
        errors[tasks.test.ptr[j] : tasks.test.ptr[j + 1]] = data.targets.Y[rows] - f[rows]
        cook[j] = data.weights.values @ np.square(full - f)
    # Rows that are tested and not held out, and refitted models: by their whole distribution.
    other = np.flatnonzero(models.refitted | (tasks.held.sizes < tasks.test.sizes))
    if other.size:
        part = replace(models, tasks=tasks.select(other))
        mine = np.isin(tasks.test.owners, other)
        grid, index = np.unique(models.alphas, return_inverse=True)
        repeated = np.repeat(errors[None, mine], grid.size, axis=0)
        moments = second_moments(replace(part, alphas=grid[:1]), grid, repeated)
        square = moments.square[index, :, np.arange(index.size)].T
        squares[other] = square / np.maximum(1, moments.count)[:, None]
        alone = np.flatnonzero(moments.count == 0)  # nothing there was trained on
        z = np.square(errors[mine]) / moments.variance[index].T
        for i in alone.tolist():
            tested = slice(part.tasks.test.ptr[i], part.tasks.test.ptr[i + 1])
            squares[other[i]] = z[tested].mean(axis=0)
    return errors, squares, cook
