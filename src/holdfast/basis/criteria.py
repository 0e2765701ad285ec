"""Exact errors of the models that candidate rows would give: training, leave-one-out, by group.

Each criterion is a sum of squares over rows and outputs in weighted coordinates, so a row of
weight w counts w times. Residuals after adding a candidate are R - t · gain, and the smoother
gains t tᵀ / σ (`holdfast.basis.growing`); held-out residuals follow from
``r_H = (I - S_HH)⁻¹ R_H`` (DESIGN §1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import scipy.linalg

from holdfast.basis.base import Floats, Rows
from holdfast.basis.growing import Additions, GrowingModel
from holdfast.exceptions import InvalidInputError


class Criterion(ABC):
    """An error of every candidate model, kept up to date while the model grows."""

    @abstractmethod
    def errors(self, model: GrowingModel, additions: Additions) -> Floats:
        """Return the error (c,) of the model with each candidate added."""

    def added(self, model: GrowingModel) -> None:  # noqa: B027  # most have nothing to keep
        """Take note that the model has grown by one row."""


class TrainingError(Criterion):
    """Squared error on the rows the model was trained on (paper 000, Algorithm 1)."""

    def errors(self, model: GrowingModel, additions: Additions) -> Floats:
        """Return |R - t · gain|² per candidate, expanded: O(m c v) in two products."""
        T, gain = additions.T, additions.gain
        now = np.square(model.residuals).sum()
        along = T.T @ model.residuals  # tᵀR (c, v)
        lengths = np.square(T).sum(axis=0)[:, None]  # tᵀt
        return np.asarray(now - (gain * (2.0 * along - gain * lengths)).sum(axis=1))


class LeaveOneOutError(Criterion):
    """Squared exact leave-one-out error, the basis kept whole."""

    def errors(self, model: GrowingModel, additions: Additions) -> Floats:
        """Return Σ_i (r_i / (1 - S_ii))² per candidate, in O(m c v)."""
        left = 1.0 - model.leverage[:, None] - additions.T**2 / additions.sigma  # (m, c)
        total = np.zeros(len(additions.sigma))
        for target in range(model.Y.shape[1]):
            held_out = model.residuals[:, [target]] - additions.T * additions.gain[:, target]
            held_out /= left
            total += np.square(held_out).sum(axis=0)
        return total


class GroupError(Criterion):
    """Squared exact leave-cluster-out error, the basis kept whole.

    Parameters
    ----------
    groups : (m,)
        Group of each row, 0 … n_groups-1.
    n : int
        How many basis rows there will be at most.

    Notes
    -----
    With G = I - S_HH - q_H q_Hᵀ for a group H, the candidate has G - t tᵀ/σ, and by
    Sherman-Morrison ``r_H = G⁻¹R' + G⁻¹t (tᵀG⁻¹R') / (σ - tᵀG⁻¹t)`` with R' = R_H - t · gain.
    A group of at most n rows keeps G itself, |H|²; a larger one keeps I - FᵀF with
    F = [Q q]_H, (n + 1)², and G⁻¹ = I + F (I - FᵀF)⁻¹ Fᵀ. So memory is O(mn) either way.
    Cost per step: O(c m min(|H|, n)) beyond what training error costs.
    """

    def __init__(self, groups: Rows, n: int) -> None:
        order = np.argsort(groups, kind="stable")
        self.members = np.split(order, np.cumsum(np.bincount(groups))[:-1])
        if len(self.members) < 2:
            raise InvalidInputError(
                'criterion="group" leaves out one group at a time and needs at least two groups '
                "among the rows of positive weight; got one."
            )
        self.small = [len(rows) <= n for rows in self.members]
        self._gram: list[Floats] = []

    def errors(self, model: GrowingModel, additions: Additions) -> Floats:
        """Return Σ_H |r_H|² per candidate."""
        if not self._gram:
            self._start(model)
        total = np.zeros(len(additions.sigma))
        for rows, small, gram in zip(self.members, self.small, self._gram, strict=True):
            T, R = additions.T[rows], model.residuals[rows]
            both = np.column_stack([T, R])  # (|H|, c + v)
            solved = self._solve(model, rows, small, gram, both)
            GT, GR = solved[:, : T.shape[1]], solved[:, T.shape[1] :]
            tGt = (T * GT).sum(axis=0)  # (c,)
            # tᵀG⁻¹R' for R' = R - t · gain, divided by σ - tᵀG⁻¹t (c, v)
            pull = (T.T @ GR - tGt[:, None] * additions.gain) / (additions.sigma - tGt)[:, None]
            # r_H = G⁻¹R + G⁻¹t (pull - gain): its square, expanded per candidate and output
            step = pull - additions.gain
            total += np.square(GR).sum() + (2.0 * step * (GT.T @ GR)).sum(axis=1)
            total += (np.square(step).sum(axis=1)) * np.square(GT).sum(axis=0)
        return total

    def added(self, model: GrowingModel) -> None:
        """Bring every group's small matrix up to date: rank one, O(m min(|H|, n))."""
        new = model.Q[:, -1]
        for g, (rows, small) in enumerate(zip(self.members, self.small, strict=True)):
            u = new[rows]
            if small:
                self._gram[g] = self._gram[g] - np.outer(u, u)
            else:
                border = -np.concatenate([[model.q[rows] @ u], model.Q[rows, :-1].T @ u])
                corner = np.array([[1.0 - u @ u]])
                self._gram[g] = np.block([[self._gram[g], border[:, None]], [border, corner]])

    def _start(self, model: GrowingModel) -> None:
        for rows, small in zip(self.members, self.small, strict=True):
            q = model.q[rows]
            start = np.eye(len(rows)) - np.outer(q, q) if small else np.array([[1.0 - q @ q]])
            self._gram.append(start)

    @staticmethod
    def _solve(model: GrowingModel, rows: Rows, small: bool, gram: Floats, B: Floats) -> Floats:
        """Return G⁻¹ B for one group."""
        factor = scipy.linalg.cho_factor(gram, lower=True, check_finite=False)
        if small:
            return np.asarray(scipy.linalg.cho_solve(factor, B, check_finite=False))
        F = np.column_stack([model.q[rows], model.Q[rows]])  # (|H|, size + 1)
        return np.asarray(B + F @ scipy.linalg.cho_solve(factor, F.T @ B, check_finite=False))
