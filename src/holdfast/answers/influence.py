"""Which rows, or whole groups, move the model most.

Cook's distance of a row or a group H compares the model with the one that never saw H (Cook 1977;
for groups Banerjee & Frees 1997),

    cook = Σ_j w_j (f − f₋H)(x_j)² / (tr S · s²),      s² = Σ_j w_j e_j² / (m − tr S)

and DFFITS is the signed root of its part on H itself. In coordinates where the Gram matrix is
diagonal the sum over all rows is Σ_k Λ_k (β − β₋H)_k²: no row is looked at. `residual` is the
held-out residual over its standard deviation s√(1 − S_HH)⁻¹; of a group, the root mean square of
its decorrelated residuals with the sign of their sum. For an unpenalised linear model these are the
textbook's internally studentised residuals and Cook's distances.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from holdfast._typing import AnyArray, FloatArray
from holdfast.data.frames import make_frame
from holdfast.holdout.models import HeldOutModels
from holdfast.holdout.spread import Spread

__all__ = ["Influence", "influence"]


@dataclass(frozen=True, eq=False, repr=False)
class Influence:
    """How much each row, or group, moves the model.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        Row numbers, or groups in sorted order.
    leverage : ndarray of shape (n,)
        tr S_HH: how much of the model's freedom the rows take for themselves.
    residual : ndarray of shape (n,) or (n, v)
        Held-out residual over its standard deviation.
    cook : ndarray of shape (n,) or (n, v)
        Cook's distance.
    dffits : ndarray of shape (n,) or (n, v)
        Change of the fitted values on the rows themselves, signed.
    grouped : bool
        Whether these are groups.
    frames : str or None
        The library that `to_frame` gives back.
    """

    labels: AnyArray
    leverage: FloatArray
    residual: FloatArray
    cook: FloatArray
    dffits: FloatArray
    grouped: bool
    frames: str | None = None
    _change: Callable[[int], Any] | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        what = "groups" if self.grouped else "rows"
        size = self.cook if self.cook.ndim == 1 else self.cook.max(axis=1)
        top = int(np.nanargmax(size))
        return (
            f"<influence of {len(self.labels)} {what}: {self.labels[top]!s} moves the model most, "
            f"Cook's distance {size[top]:.3g}>"
        )

    def change(self, label: Any) -> Any:
        """Return how every coefficient of the model moves when a row or group leaves.

        The coefficients of the model on all rows minus those without, as in ``coef_without``.

        Parameters
        ----------
        label : row number or group
        """
        assert self._change is not None, "an influence without its model has no coefficients"
        where = np.flatnonzero(self.labels == label)
        if not where.size:
            raise KeyError(label)
        return self._change(int(where[0]))

    def to_frame(self, library: str | None = None) -> Any:
        """Return a table with one line per row or group, and target where there are several."""
        name = "group" if self.grouped else "row"
        if self.cook.ndim == 1:
            columns = {name: self.labels, "leverage": self.leverage}
            columns |= {k: getattr(self, k) for k in ("residual", "cook", "dffits")}
        else:
            v = self.cook.shape[1]
            columns = {
                name: np.repeat(self.labels, v),
                "target": np.tile(np.arange(v), len(self.labels)),
                "leverage": np.repeat(self.leverage, v),
            }
            columns |= {k: getattr(self, k).ravel() for k in ("residual", "cook", "dffits")}
        return make_frame(columns, library or self.frames)


def influence(
    models: HeldOutModels, spread: Spread, errors: FloatArray, fitted: FloatArray
) -> dict[str, FloatArray]:
    """Return leverage, residual, cook and dffits of every task, whose test rows are those held.

    Parameters
    ----------
    models : HeldOutModels
        One penalty for all targets.
    spread : Spread
        Of its tasks at that penalty.
    errors : ndarray of shape (k, v)
        y − f₋H on the test rows laid end to end.
    fitted : ndarray of shape (m, v)
        y − f of all rows.
    """
    smoother, tasks, alpha = models.smoother, models.tasks, float(models.alphas[0])
    leverages = smoother.leverages(alpha)
    freedom = float(leverages.sum())
    m = int(smoother.scale.trained.sum())
    s2 = smoother.weights @ np.square(fitted) / (m - freedom)  # (v,)
    rows, owners, n = tasks.test.values, tasks.test.owners, len(tasks)

    def sums(values: FloatArray) -> FloatArray:
        total = np.zeros((n, *values.shape[1:]))
        np.add.at(total, owners, values)
        return total

    moved = errors - fitted[rows]  # (f − f₋H) on the rows themselves
    weights = smoother.weights[rows][:, None]
    own = np.sqrt(sums(weights * np.square(moved)))
    root = smoother.scale.root[rows][:, None]
    size = np.sqrt(spread.square[0] / np.maximum(1, spread.count)[:, None])
    alone = spread.count == 0  # nothing there was trained on: plain standardised residuals
    if alone.any():
        z = np.square(errors) / spread.variance[0][:, None]
        size[alone] = np.sqrt(sums(z) / tasks.test.sizes[:, None])[alone]
    return {
        "leverage": np.bincount(owners, weights=leverages[rows], minlength=n),
        "residual": np.copysign(size, sums(root * errors)) / np.sqrt(s2),
        "cook": _squares(models) / (freedom * s2),
        "dffits": np.copysign(own, sums(weights * moved)) / np.sqrt(freedom * s2),
    }


def _squares(models: HeldOutModels) -> FloatArray:
    """Return Σ_j w_j (f − f₋H)(x_j)² (n, v) of every task."""
    smoother = models.smoother
    found = np.empty((len(models), models.alphas.size))
    if not models.anew.all():
        models.outputs  # noqa: B018  # settles the coordinates
        whole = smoother.model(models.alphas)
        for index, coefficients in models.blocks():
            found[index] = smoother.fitted_squares(whole - coefficients)
    if models.anew.any():
        rows = np.flatnonzero(smoother.scale.trained)
        full = smoother.fitted_rows(smoother.model(models.alphas), rows)
        for j, own, coefficients in models.retrained():
            moved = full - own.fitted_rows(coefficients, rows)
            found[j] = smoother.weights[rows] @ np.square(moved)
    return found
