"""Exact errors of the models that candidate rows would give: training, leave-one-out, by group.

Each criterion is a sum of squares over rows and outputs in weighted coordinates, so a row of
weight w counts w times. Residuals after adding a candidate are e - t · gain, and the smoother
gains t tᵀ / σ (`holdfast.basis.growing`); held-out residuals follow from
``r_H = (I - S_HH)⁻¹ e_H`` (`holdfast.holdout`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import scipy.linalg

from holdfast._typing import FloatArray, IntArray
from holdfast.basis.growing import Additions, GrowingModel
from holdfast.exceptions import InvalidInputError
from holdfast.holdout.identity import rows_without_themselves


class Criterion(ABC):
    """An error of every candidate model, kept up to date while the model grows."""

    @abstractmethod
    def errors(self, model: GrowingModel, additions: Additions) -> FloatArray:
        """Return the error (c,) of the model with each candidate added."""

    def added(self, model: GrowingModel) -> None:  # noqa: B027  # most have nothing to keep
        """Update what is kept, after the model has grown by one row."""


class TrainingError(Criterion):
    """Squared error on the rows the model was trained on (Pahikkala et al. 2012, Algorithm 1)."""

    def errors(self, model: GrowingModel, additions: Additions) -> FloatArray:
        """Return |e - t · gain|² per candidate, expanded: O(m c v) in two products."""
        moves, gain = additions.moves, additions.gain
        now = np.square(model.residuals).sum() + model.outside
        along = moves.T @ model.residuals  # tᵀe (c, v)
        lengths = np.square(moves).sum(axis=0)[:, None]  # tᵀt
        return np.asarray(now - (gain * (2.0 * along - gain * lengths)).sum(axis=1))


class LeaveOneOutError(Criterion):
    """Squared exact leave-one-out error, the basis kept whole.

    Parameters
    ----------
    model : GrowingModel
        The model before it has any basis row.
    """

    def __init__(self, model: GrowingModel) -> None:
        self._leverage: FloatArray = np.square(model.unpenalised.Q).sum(axis=1)  # of S + QQᵀ

    def errors(self, model: GrowingModel, additions: Additions) -> FloatArray:
        """Return Σ_i (r_i / (1 - S_ii))² per candidate, in O(m c v)."""
        leverage = self._leverage[:, None] + additions.moves**2 / additions.sigma  # (m, c)
        total = np.zeros(len(additions.sigma))
        for target in range(model.Y.shape[1]):
            residuals = model.residuals[:, [target]] - additions.moves * additions.gain[:, target]
            total += np.square(rows_without_themselves(residuals, leverage)).sum(axis=0)
        return total

    def added(self, model: GrowingModel) -> None:
        """Update the leverages."""
        self._leverage = self._leverage + model.V[:, -1] ** 2


class GroupError(Criterion):
    """Squared exact leave-cluster-out error, the basis kept whole.

    Parameters
    ----------
    model : GrowingModel
        The model before it has any basis row.
    groups : (m,)
        Group of each row, 0 … n_groups-1.
    n : int
        The largest number of basis rows.

    Notes
    -----
    Let Γ = I - S_HH - Q_H Q_Hᵀ for a group H. With a candidate it becomes Γ - t tᵀ/σ, and by
    Sherman-Morrison ``r_H = Γ⁻¹e' + Γ⁻¹t (tᵀΓ⁻¹e') / (σ - tᵀΓ⁻¹t)`` with e' = e_H - t · gain. For
    groups of at most n rows Γ itself is kept, |H|² numbers, all groups of one size together. For a
    larger group I - FᵀF is kept, (n + s)² numbers, where F = [Q_H, V_H], and
    Γ⁻¹ = I + F (I - FᵀF)⁻¹ Fᵀ. So memory is O(mn) either way. Cost per step: O(c m min(|H|, n))
    more than that of the training error.
    """

    def __init__(self, model: GrowingModel, groups: IntArray, n: int) -> None:
        order = np.argsort(groups, kind="stable")
        members = np.split(order, np.cumsum(np.bincount(groups))[:-1])
        if len(members) < 2:
            raise InvalidInputError(
                'criterion="group" leaves out one group at a time and needs at least two groups '
                "among the rows of positive weight; got one."
            )
        by_size: dict[int, list[IntArray]] = {}
        for rows in members:
            by_size.setdefault(len(rows), []).append(rows)
        self.parts: list[_SmallGroups | _LargeGroup] = []
        for size, same in by_size.items():
            if size <= n:
                self.parts.append(_SmallGroups(model, np.stack(same)))
            else:
                self.parts += [_LargeGroup(model, rows) for rows in same]

    def errors(self, model: GrowingModel, additions: Additions) -> FloatArray:
        """Return Σ_H |r_H|² per candidate."""
        c = len(additions.sigma)
        total = np.zeros(c)
        for part in self.parts:
            t, e = additions.moves[part.rows], model.residuals[part.rows]  # (groups, |H|, c or v)
            solved = part.solve(model, np.concatenate([t, e], axis=2))
            t_solved, e_solved = solved[:, :, :c], solved[:, :, c:]
            form = np.einsum("ghc,ghc->gc", t, t_solved)[:, :, None]  # tᵀΓ⁻¹t
            # tᵀΓ⁻¹e' for e' = e - t · gain, divided by σ - tᵀΓ⁻¹t (groups, c, v)
            pull = t.transpose(0, 2, 1) @ e_solved - form * additions.gain
            pull /= additions.sigma[:, None] - form
            # r_H = Γ⁻¹e + Γ⁻¹t (pull - gain): its square, expanded per candidate and output
            step = pull - additions.gain
            total += np.square(e_solved).sum()
            total += (2.0 * step * (t_solved.transpose(0, 2, 1) @ e_solved)).sum(axis=(0, 2))
            lengths = np.einsum("ghc,ghc->gc", t_solved, t_solved)
            total += (np.square(step).sum(axis=2) * lengths).sum(axis=0)
        return total

    def added(self, model: GrowingModel) -> None:
        """Update the matrices of all groups: rank one, O(m min(|H|, n))."""
        for part in self.parts:
            part.added(model)


class _SmallGroups:
    """Groups of one size, each with its Γ = I - S_HH - Q_H Q_Hᵀ."""

    def __init__(self, model: GrowingModel, rows: IntArray) -> None:
        self.rows = rows  # (groups, |H|)
        Q = model.unpenalised.Q[rows]
        self._gap: FloatArray = np.eye(rows.shape[1]) - Q @ Q.swapaxes(1, 2)

    def solve(self, model: GrowingModel, right: FloatArray) -> FloatArray:
        """Return Γ⁻¹ right, (groups, |H|, k)."""
        return np.asarray(np.linalg.solve(self._gap, right), dtype=np.float64)

    def added(self, model: GrowingModel) -> None:
        new = model.V[:, -1][self.rows]
        self._gap -= new[:, :, None] * new[:, None, :]


class _LargeGroup:
    """One group with more rows than there are basis rows, and its I - FᵀF."""

    def __init__(self, model: GrowingModel, rows: IntArray) -> None:
        self.rows = rows[None]  # (1, |H|)
        Q = model.unpenalised.Q[rows]
        self._gram: FloatArray = np.eye(Q.shape[1]) - Q.T @ Q

    def solve(self, model: GrowingModel, right: FloatArray) -> FloatArray:
        """Return Γ⁻¹ right, (1, |H|, k)."""
        F = self._features(model)
        if not F.shape[1]:
            return right
        factor = scipy.linalg.cho_factor(self._gram, lower=True, check_finite=False)
        inner = scipy.linalg.cho_solve(factor, F.T @ right[0], check_finite=False)
        return np.asarray(right + F @ inner)

    def added(self, model: GrowingModel) -> None:
        F = self._features(model)
        border = -(F[:, :-1].T @ F[:, -1])
        corner = np.array([[1.0 - F[:, -1] @ F[:, -1]]])
        self._gram = np.block([[self._gram, border[:, None]], [border, corner]])

    def _features(self, model: GrowingModel) -> FloatArray:
        rows = self.rows[0]
        return np.hstack([model.unpenalised.Q[rows], model.V[rows]])  # (|H|, s + size)
