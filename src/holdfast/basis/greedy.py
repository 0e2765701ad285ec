"""Randomised greedy choice of basis rows by the error of the model they give."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.basis.base import (
    Pool,
    Selector,
    check_choice,
    check_positive,
    how_many,
    warn_short,
    whole_number,
)
from holdfast.basis.criteria import Criterion, GroupError, LeaveOneOutError, TrainingError
from holdfast.basis.growing import GrowingModel
from holdfast.exceptions import InvalidInputError


class Greedy(Selector):
    """Rows added one by one, each the best of a few random candidates for the model's error.

    Parameters
    ----------
    n : int or float
        How many rows, or which fraction of them.
    candidates : int
        How many random candidates compete for each place. With 60 the winner is, with
        probability 0.95, among the best twentieth of all rows (Pahikkala et al. 2012, §6.3.2).
    alpha : float
        Penalty of the models that the candidates are judged by.
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
    retrains for each candidate, O(c m j²) at step j; here a candidate is a rank-one update of the
    smoother, O(c m j), with the same result (`holdfast.basis.growing`). Memory: O(mn). Where the
    kernel's columns lie in few directions, as those of smooth kernels on few features do, the
    training error is computed in that many coordinates: O(c j²) a step. With 60 candidates few
    means at most 2n.

    Candidates that depend numerically on the rows already chosen are passed over; if all of a
    draw do, another is made from the independent rows alone; if there are none, the
    kernel's numerical rank is reached and fewer than n rows come back, with a warning.
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
        """Return how many directions the kernel's columns may lie in for coordinates to pay.

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
                'criterion="loo" needs at least two rows of positive weight; got one.'
            )

    def _criterion(self, pool: Pool, model: GrowingModel, n: int) -> Criterion:
        if self.criterion == "group":
            assert pool.groups is not None, "select() checks `needs`"
            return GroupError(model, pool.groups, n)
        return LeaveOneOutError(model) if self.criterion == "loo" else TrainingError()
