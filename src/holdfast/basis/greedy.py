"""Randomised greedy choice of basis rows by the error of the model they give.

Each criterion is a sum of squares over rows and outputs in weighted coordinates, so a row of
weight w counts w times. Residuals after adding a candidate are e - t · gain, and the smoother
gains t tᵀ / σ (`holdfast.basis.growing`); held-out residuals follow from
``r_H = (I - S_HH)⁻¹ e_H`` (`holdfast.core`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.basis.base import Pool, Selector, how_many, warn_short
from holdfast.basis.growing import Additions, GrowingModel
from holdfast.data.values import check_choice, check_positive, whole_number
from holdfast.exceptions import InvalidInputError


class Greedy(Selector):
    """Rows added one by one, each the best of a few random candidates for the model's error.

    Parameters
    ----------
    n : int or float
        How many rows, or which fraction of them.
    candidates : int
        How many random candidates compete for each place. With 60 the winner is, with probability
        0.95, among the best 5 % of all rows (Pahikkala et al. 2012, §6.3.2).
    alpha : float
        Penalty of the models by which candidates are compared.
    criterion : {"train", "loo", "group"}
        ``"train"``: squared training error, as in the paper. ``"loo"``: squared exact
        leave-one-out error. ``"group"``: squared exact error when whole groups are left out.
        The latter two hold rows out of training and keep the basis whole.
    fit_intercept : bool
        Whether those models have an unpenalised bias.
    jitter : float
        Shift of K_BB in those models, relative to the mean diagonal of the kernel.

    Attributes
    ----------
    errors_ : (n,) array
        The criterion after each step: weighted mean over rows, mean over outputs.

    Notes
    -----
    Pahikkala et al. (2012), Algorithm 1. At every step ``rng.choice`` draws the candidates from the
    remaining rows in ascending order; the lowest error wins, the first drawn at a tie. The paper
    refits for each candidate, O(c m j²) at step j; here a candidate is a rank-one update of the
    smoother, O(c m j), with the same result (`holdfast.basis.growing`). Memory: O(mn). Where the
    kernel's columns lie in few directions, as those of smooth kernels on few features do, the
    training error is computed in that many coordinates: O(c j²) a step. With 60 candidates few
    means at most 2n.

    Candidates that depend numerically on the rows already chosen are skipped. If that leaves no
    candidate, the draw is repeated among the independent rows alone. If there are none, the
    kernel's numerical rank is reached and fewer than n rows are returned, with a warning.
    """

    data_dependent: ClassVar[bool] = True
    nested: ClassVar[bool] = True

    def __init__(
        self,
        n: int | float = 0.1,
        candidates: int = 60,
        alpha: float = 1.0,
        criterion: str = "train",
        fit_intercept: bool = True,
        jitter: float = 1e-10,
    ) -> None:
        self.n = n
        self.candidates = candidates
        self.alpha = alpha
        self.criterion = criterion
        self.fit_intercept = fit_intercept
        self.jitter = jitter

    @property
    def needs(self) -> frozenset[str]:
        """The targets, and the groups if they are the criterion."""
        return frozenset({"y", "groups"} if self.criterion == "group" else {"y"})

    def _choose(self, pool: Pool) -> IntArray:
        n = how_many(self.n, len(pool))
        self._check(pool)
        alpha = check_positive("alpha", self.alpha)
        jitter = check_positive("jitter", self.jitter, zero=True)
        bias, directions = bool(self.fit_intercept), self._directions(n, len(pool))
        model = GrowingModel(pool, n, alpha, bias, jitter, directions)
        criterion = self._criterion(pool, model, n)
        chosen: list[int] = []
        errors: list[float] = []
        remaining = np.arange(len(pool))
        while len(chosen) < n:
            rows = self._draw(model, remaining, pool.rng)
            if not len(rows):
                why = "every other row is numerically dependent on these for this kernel"
                warn_short(self, len(chosen), n, why)
                break
            additions = model.try_rows(rows)
            scores = criterion.errors(model, additions)
            best = int(np.argmin(scores))  # the first at a tie
            model.add(additions, best)
            criterion.added(model)
            chosen.append(int(rows[best]))
            errors.append(float(scores[best]))
            remaining = remaining[remaining != rows[best]]
        self.errors_: FloatArray = np.array(errors) / (pool.weights.sum() * pool.targets().shape[1])
        return np.array(chosen, dtype=np.int64)

    def _directions(self, n: int, m: int) -> int:
        """Return how many directions the kernel's columns may span for coordinates to pay off.

        They cost about 8 m r² once and save 2 c m n² in n steps.
        """
        if self.criterion != "train":
            return 0
        return int(min(n * min(2.0, np.sqrt(self.candidates / 8)), m / 2))

    def _draw(self, model: GrowingModel, remaining: IntArray, rng: np.random.Generator) -> IntArray:
        """Return the independent ones of the candidates, in the order drawn."""
        size = min(int(self.candidates), len(remaining))
        rows = model.independent(rng.choice(remaining, size=size, replace=False))
        if len(rows):
            return rows
        # No candidate is independent: look at all rows, which costs no more than one candidate.
        usable = model.independent(remaining)
        return rng.choice(usable, size=min(size, len(usable)), replace=False)

    def _check(self, pool: Pool) -> None:
        whole_number("candidates", self.candidates)
        check_choice("criterion", self.criterion, ("train", "loo", "group"))
        if self.criterion == "loo" and len(pool) < 2:
            raise InvalidInputError(
                'criterion="loo" needs at least two rows of positive weight; got one.',
                argument="criterion",
            )

    def _criterion(self, pool: Pool, model: GrowingModel, n: int) -> Criterion:
        if self.criterion == "group":
            assert pool.groups is not None, "select() checks `needs`"
            return GroupError(model, pool.groups, n)
        return LeaveOneOutError(model) if self.criterion == "loo" else TrainingError()


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
    """Squared exact leave-one-out error, the basis kept whole; the model has no basis row yet."""

    def __init__(self, model: GrowingModel) -> None:
        self._leverage: FloatArray = np.square(model.unpenalised.Q).sum(axis=1)  # of S + QQᵀ

    def errors(self, model: GrowingModel, additions: Additions) -> FloatArray:
        """Return Σ_i (r_i / (1 - S_ii))² per candidate, in O(m c v)."""
        leverage = self._leverage[:, None] + additions.moves**2 / additions.sigma  # (m, c)
        total = np.zeros(len(additions.sigma))
        for target in range(model.Y.shape[1]):
            residuals = model.residuals[:, [target]] - additions.moves * additions.gain[:, target]
            total += np.square(residuals / (1.0 - leverage)).sum(axis=0)
        return total

    def added(self, model: GrowingModel) -> None:
        """Update the leverages."""
        self._leverage = self._leverage + model.V[:, -1] ** 2


class GroupError(Criterion):
    """Squared exact leave-cluster-out error, the basis kept whole; the model has no basis row yet.

    Notes
    -----
    Let Γ = I - S_HH - Q_H Q_Hᵀ for a group H. With a candidate it becomes Γ - t tᵀ/σ, and by
    Sherman-Morrison ``r_H = Γ⁻¹e' + Γ⁻¹t (tᵀΓ⁻¹e') / (σ - tᵀΓ⁻¹t)`` with e' = e_H - t · gain.
    Cost per step: O(c m min(|H|, n)) more than that of the training error, memory O(mn).
    """

    def __init__(self, model: GrowingModel, groups: IntArray, n: int) -> None:
        sizes = np.bincount(groups)
        if len(sizes) < 2:
            raise InvalidInputError(
                'criterion="group" leaves out one group at a time and needs at least two groups '
                "among the rows of positive weight; got one.",
                argument="criterion",
            )
        members = np.split(np.argsort(groups, kind="stable"), np.cumsum(sizes)[:-1])
        self.parts = [
            _Groups(model, np.stack([rows for rows in members if len(rows) == size]), n)
            for size in np.unique(sizes)
        ]

    def errors(self, model: GrowingModel, additions: Additions) -> FloatArray:
        """Return Σ_H |r_H|² per candidate."""
        c = len(additions.sigma)
        total = np.zeros(c)
        for part in self.parts:
            t, e = additions.moves[part.rows], model.residuals[part.rows]  # (groups, |H|, c or v)
            solved = part.solve(np.concatenate([t, e], axis=2))
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
            part.add(model.V[:, -1][part.rows])


class _Groups:
    """Groups of one size with the matrices that grow with the model: rows (groups, |H|).

    Groups of at most n rows keep Γ = I - FFᵀ, F = [Q_H, V_H]; larger ones keep F and I - FᵀF, and
    Γ⁻¹ = I + F (I - FᵀF)⁻¹ Fᵀ.
    """

    def __init__(self, model: GrowingModel, rows: IntArray, n: int) -> None:
        self.rows, F = rows, model.unpenalised.Q[rows]
        self._F: FloatArray | None = F if rows.shape[1] > n else None
        inner = F @ F.swapaxes(1, 2) if self._F is None else F.swapaxes(1, 2) @ F
        self._matrix: FloatArray = np.eye(inner.shape[1]) - inner

    def solve(self, right: FloatArray) -> FloatArray:
        """Return Γ⁻¹ right, (groups, |H|, k)."""
        if self._F is None:
            return np.asarray(np.linalg.solve(self._matrix, right), dtype=np.float64)
        inner = np.linalg.solve(self._matrix, self._F.swapaxes(1, 2) @ right)
        return np.asarray(right + self._F @ inner)

    def add(self, new: FloatArray) -> None:
        """Take in the new column of V, of these rows."""
        column = new[:, :, None]
        if self._F is None:
            self._matrix -= column * new[:, None]
            return
        border = -(self._F.swapaxes(1, 2) @ column)
        corner = 1.0 - new[:, None] @ column
        self._F = np.concatenate([self._F, column], axis=2)
        self._matrix = np.block([[self._matrix, border], [border.swapaxes(1, 2), corner]])
