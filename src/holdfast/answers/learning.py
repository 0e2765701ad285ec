"""How much more rows would help: error against the number of training rows, or groups.

For every size some rows are drawn to train on and the others are held out: an experiment like any
other, so that no model is fitted outside the hold-out machinery. Under experiments that hold out
more than they test (time, neighbourhoods), rows are drawn from what each of them trains on. The
curve is extended by the power law error(n) = a + b n⁻ᶜ (Cortes, Jackel, Solla, Vapnik & Denker
1994; Viering & Loog 2023), fitted to the means, and again to bootstrap samples of the draws: their
spread says how sure it is. Errors count in proportion to the mean error of their size, so a size
without errors says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import FloatArray, IntArray
from holdfast.answers.fitted import Fitted
from holdfast.answers.scored import refuse_density, scored
from holdfast.answers.units import Units, codes_of
from holdfast.data.frames import make_frame
from holdfast.data.numbers import check_level, whole_number
from holdfast.data.seeds import seed_of
from holdfast.exceptions import InvalidInputError
from holdfast.experiments import Experiments, Ragged
from holdfast.experiments.splits import check_groups

__all__ = [
    "Draws",
    "Extrapolation",
    "LearningCurve",
    "check_sizes",
    "learning_curve",
    "training_sets",
]

#: Powers c that are tried, and bootstrap samples of the draws.
POWERS, SAMPLES = np.linspace(0.1, 2.0, 39), 200

#: Experiments of a fit that one draw is made for, where each trains on rows of its own.
MOST_EXPERIMENTS = 50


@dataclass(frozen=True, eq=False, repr=False)
class Extrapolation:
    """The error expected of a larger training set.

    Attributes
    ----------
    sizes, error, low, high : ndarray of shape (n,)
        Sizes, expected errors and bounds at the level asked for; NaN where they are unknown.
    unknown : str
        Why they are unknown; empty if they are known.
    """

    sizes: FloatArray
    error: FloatArray
    low: FloatArray
    high: FloatArray
    unknown: str = ""

    def __repr__(self) -> str:
        if self.unknown:
            return f"<the error with more rows is unknown: {self.unknown}>"
        told = (
            f"{size:g}: {error:.4g} ({low:.4g} to {high:.4g})"
            for size, error, low, high in zip(
                self.sizes, self.error, self.low, self.high, strict=True
            )
        )
        return f"<expected error at {', '.join(told)}>"


@dataclass(frozen=True, eq=False, repr=False)
class LearningCurve:
    """Error against the size of the training set.

    Attributes
    ----------
    sizes : ndarray of int, shape (n,)
        Training rows, or groups.
    scores : ndarray of shape (n, n_repeats)
        Held-out score of every draw; greater is better.
    unit : {"rows", "groups"}
    scoring : str
    frames : str or None
        The library whose frames `to_frame` returns.
    """

    sizes: IntArray
    scores: FloatArray
    unit: str
    scoring: str
    frames: str | None = None

    def __repr__(self) -> str:
        first, last = self.mean[0], self.mean[-1]
        return (
            f"<learning curve, {self.scores.shape[1]} draws: {self.scoring} from {first:.4g} at "
            f"{self.sizes[0]} {self.unit} to {last:.4g} at {self.sizes[-1]}>"
        )

    @property
    def mean(self) -> FloatArray:
        """Mean score of each size."""
        return np.asarray(self.scores.mean(axis=1))

    @property
    def std(self) -> FloatArray:
        """Standard deviation of the scores of each size over the draws."""
        return np.asarray(self.scores.std(axis=1, ddof=1 if self.scores.shape[1] > 1 else 0))

    @property
    def errors(self) -> FloatArray:
        """What is to be small: minus the score, or one minus it for scores that end at one."""
        return -self.scores if self.scoring.startswith("neg_") else 1.0 - self.scores

    def extrapolate(
        self, sizes: ArrayLike, *, level: float = 0.9, random_state: Any = 0
    ) -> Extrapolation:
        """Return the error that the power law expects at other sizes, with bounds.

        NaN, with the reason in ``unknown``, where a draw has no score or a size has no error.

        Parameters
        ----------
        sizes : array-like of numbers
        level : float
            Share of the bootstrap samples between the bounds.
        random_state : int, RandomState or None, default 0
            Seed of the bootstrap.
        """
        if self.sizes.size < 4:
            raise InvalidInputError(
                "an extrapolation fits three numbers, so it needs at least four sizes; got "
                f"{self.sizes.size}. Ask learning_curve for more sizes.",
                argument="sizes",
            )
        level = check_level(level)
        at = np.atleast_1d(np.asarray(sizes, dtype=np.float64))
        n, errors = self.sizes.astype(float), self.errors
        mean = errors.mean(axis=1)
        unknown = self._unknown(mean)
        if unknown:
            nothing = np.full(at.size, np.nan)
            return Extrapolation(at, nothing, nothing, nothing, unknown)
        rng = np.random.default_rng(seed_of(random_state))
        pick = rng.integers(errors.shape[1], size=(SAMPLES, *errors.shape))
        samples = np.take_along_axis(errors[None], pick, axis=2).mean(axis=2)
        found = _power_laws(n, np.vstack([mean, samples]), at, mean)
        low, high = np.quantile(found[1:], [(1 - level) / 2, (1 + level) / 2], axis=0)
        return Extrapolation(at, found[0], low, high)

    def _unknown(self, mean: FloatArray) -> str:
        """Return why these mean errors say nothing about other sizes, or an empty text."""
        for size, error in zip(self.sizes.tolist(), mean.tolist(), strict=True):
            where = f"of the draws with {size} {self.unit}"
            if not np.isfinite(error):
                return f"some {where} have no score ({self.scoring})"
            if error <= 0.0:
                return f"the mean error {where} is {error:.4g}; a power law needs positive errors"
        return ""

    def to_frame(self, library: str | None = None) -> Any:
        """Return a table: size, repeat, score."""
        n, repeats = self.scores.shape
        columns = {
            "size": np.repeat(self.sizes, repeats),
            "repeat": np.tile(np.arange(repeats), n),
            "score": self.scores.ravel(),
        }
        return make_frame(columns, library or self.frames)


def learning_curve(
    fitted: Fitted,
    sizes: ArrayLike,
    n_repeats: int = 10,
    random_state: Any = None,
    groups: ArrayLike | None = None,
    scoring: Any = None,
) -> LearningCurve:
    """Return the held-out score against the number of training rows, or groups."""
    model, problem, scorer = fitted.model, fitted.problem, fitted.goal.scoring
    if scoring is not None:
        scorer = scorer.other(scoring)
    refuse_density(scorer, "learning_curve")
    drawn = training_sets(fitted, groups)
    chosen = check_sizes(sizes, drawn.most, drawn.unit, drawn.least)
    repeats = whole_number("n_repeats", n_repeats)
    experiments, starts = drawn.experiments_of(chosen, repeats, seed_of(random_state))
    tasks = model.tasks(experiments)
    values = model.at(tasks, fitted.alphas)[None]
    test = Ragged(tasks.test.values, tasks.test.ptr[np.searchsorted(tasks.source, starts)])
    found = scored(scorer, values, test, problem.labels, problem.weights, problem.groups)
    scores = found.splits[0].reshape(chosen.size, repeats)
    return LearningCurve(chosen, scores, drawn.unit, scorer.name, fitted.frames)


def training_sets(fitted: Fitted, groups: ArrayLike | None) -> Draws:
    """Return random training sets that leave out what the experiments of the fit do."""
    model, problem = fitted.model, fitted.problem
    units = fitted.held_out_together()
    if groups is not None:
        given = check_groups(groups, problem.weights.size)
        units = replace(units, code=codes_of(given), name="groups")
    always = np.empty(0, dtype=np.int64)
    if problem.policy in ("train", "skip") and model.basis is not None:
        always = model.basis
    return Draws(problem.experiments, units, problem.weights, always)


def _power_laws(n: FloatArray, errors: FloatArray, at: FloatArray, unit: FloatArray) -> FloatArray:
    """Return a + b·at⁻ᶜ (s, k) with the best a, b ≥ 0 for the best of the powers c.

    For each of some curves of errors (s, n), which count in units of `unit`, one for each size.
    """
    level, decay = 1.0 / unit, (n / n[0]) ** -POWERS[:, None] / unit  # (n,), (powers, n)
    target = (errors / unit)[:, None]  # (s, 1, n)
    apart = decay - (decay @ level)[:, None] / (level @ level) * level  # off the level

    def alone(column: FloatArray) -> FloatArray:
        return np.asarray(np.maximum((target * column).sum(axis=2) / (column**2).sum(axis=-1), 0.0))

    both = (target * apart).sum(axis=2) / (apart**2).sum(axis=1)  # (s, powers)
    rest = ((target - both[..., None] * decay) @ level) / (level @ level)
    # Least squares of two numbers without a sign: the best of both, or of one of them.
    inside = (rest >= 0) & (both >= 0)
    zero = np.zeros_like(both)
    tried_a = np.stack([np.where(inside, rest, np.nan), zero + alone(level), zero])
    tried_b = np.stack([both, zero, alone(decay)])
    left = target - tried_a[..., None] * level - tried_b[..., None] * decay
    square = (left**2).sum(axis=3).transpose(1, 2, 0).reshape(len(errors), -1)
    best = np.nanargmin(square, axis=1)
    power, way = np.divmod(best, 3)
    curve = np.arange(len(errors))
    a, b = (tried[way, curve, power][:, None] for tried in (tried_a, tried_b))
    return np.asarray(a + b * (at / n[0]) ** -POWERS[power][:, None])


def check_sizes(sizes: Any, most: int, unit: str, least: int = 2) -> IntArray:
    """Return sizes as increasing whole numbers that leave something to test; shares of all too."""
    values = np.atleast_1d(np.asarray(sizes, dtype=np.float64))
    if values.size and ((values > 0) & (values < 1)).all():
        values = np.unique(np.maximum(np.floor(values * most), least))
    whole = np.unique(values.astype(np.int64))
    if whole.size != values.size or (whole != np.sort(values)).any():
        raise InvalidInputError(
            f"sizes must be different whole numbers, or shares below 1; got {sizes!r}.",
            argument="sizes",
        )
    if not whole.size or whole[0] < least or whole[-1] >= most:
        why = "" if least <= 2 else ", and with the basis rows, which are always trained on"
        raise InvalidInputError(
            f"sizes must lie between {least} and {most - 1} {unit}, so that some are left to test"
            f"{why}; got {sizes!r}.",
            argument="sizes",
        )
    return whole


class Draws:
    """Random training sets that respect what the experiments of a fit hold out.

    Parameters
    ----------
    experiments : Experiments
        Those of the fit.
    units : Units
        What is drawn: rows, groups or blocks. Where they are exchangeable, everything that is not
        drawn is tested. Else each experiment of the fit keeps its test rows, and rows are drawn
        from those that it trains on.
    weights : ndarray of shape (m,)
    always : ndarray of int
        Rows that every model trains on: the basis rows under "train" and "skip".
    """

    def __init__(
        self, experiments: Experiments, units: Units, weights: FloatArray, always: IntArray
    ) -> None:
        self.used = weights > 0
        self.plain, self.always = units.exchangeable, always
        m = weights.size
        # Blocks are what is tested together; what is trained on are rows.
        self.code = np.arange(m) if units.name == "blocks" else units.code
        self.unit = "groups" if units.name == "groups" else "rows"
        first = np.unique(self.code[always[self.used[always]]])
        every = np.unique(self.code[self.used])
        self.first, self.others = first, np.setdiff1d(every, first)
        self.least = max(2, first.size)
        self.experiments = experiments
        self.total = self.most = every.size
        if not self.plain:
            trained = [np.unique(self.code[self._left(j)]).size for j in range(len(experiments))]
            self.most = min(trained) + 1

    def _left(self, j: int) -> IntArray:
        """Return the rows that an experiment of the fit trains on."""
        stays = self.used.copy()
        stays[self.experiments.held_out[j]] = False
        stays[self.always] = self.used[self.always]
        return np.flatnonzero(stays)

    def experiments_of(
        self, sizes: IntArray, n_repeats: int, seed: int
    ) -> tuple[Experiments, IntArray]:
        """Return experiments, and where those of each (size, repeat) start.

        Draws of one repeat are nested: a larger training set holds the smaller ones. Where each
        experiment of the fit is drawn for, a repeat takes at most `MOST_EXPERIMENTS` of them.
        """
        rng = np.random.default_rng(seed)
        orders = [np.append(self.first, rng.permutation(self.others)) for _ in range(n_repeats)]
        n = len(self.experiments)
        asked = [
            np.sort(rng.permutation(n)[:MOST_EXPERIMENTS]) if not self.plain else np.zeros(1, int)
            for _ in range(n_repeats)
        ]
        held: list[IntArray] = []
        test: list[IntArray] = []
        starts = [0]
        for size in sizes.tolist():
            for order, numbers in zip(orders, asked, strict=True):
                for j in numbers.tolist():
                    out, rows = self._one(order, size, j)
                    held.append(out)
                    test.append(rows)
                starts.append(len(held))
        found = Experiments(Ragged.from_arrays(held), Ragged.from_arrays(test))
        return found, np.array(starts)

    def _one(self, order: IntArray, size: int, j: int) -> tuple[IntArray, IntArray]:
        """Return what is held out and what is tested with so many units to train on."""
        if self.plain:
            rows = np.flatnonzero(np.isin(self.code, order[size:]) & self.used)
            return rows, rows
        left = self._left(j)
        order = order[np.isin(order, self.code[left])]
        train = left[np.isin(self.code[left], order[:size])]
        out = self.used.copy()
        out[train] = False
        test = self.experiments.test[j]
        return np.flatnonzero(out), test[self.used[test]]
