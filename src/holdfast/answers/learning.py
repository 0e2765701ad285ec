"""How much more rows would help: error against the number of training rows, or groups.

For every size some rows are drawn to train on and the others are held out: an experiment like any
other, so that no model is fitted outside the hold-out machinery. The curve is extended by the power
law error(n) = a + b n⁻ᶜ (Cortes, Jackel, Solla, Vapnik & Denker 1994; Viering & Loog 2023), fitted
to the means, and again to bootstrap samples of the draws: their spread says how sure it is. Errors
count in proportion to the mean error of their size, so a size without any error tells nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import nnls

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.data.frames import make_frame
from holdfast.exceptions import InvalidInputError
from holdfast.experiments import Experiments, Ragged

__all__ = ["Extrapolation", "LearningCurve", "check_sizes", "draws"]

#: Powers c that are tried, and bootstrap samples of the draws.
POWERS, SAMPLES = np.linspace(0.1, 2.0, 39), 200


@dataclass(frozen=True, eq=False, repr=False)
class Extrapolation:
    """The error expected of a larger training set.

    Attributes
    ----------
    sizes, error, low, high : ndarray of shape (n,)
        Sizes, expected errors and bounds at the level asked for; NaN where they cannot be told.
    unknown : str
        Why they cannot be told; empty where they can.
    """

    sizes: FloatArray
    error: FloatArray
    low: FloatArray
    high: FloatArray
    unknown: str = ""

    def __repr__(self) -> str:
        if self.unknown:
            return f"<the error of more rows cannot be told: {self.unknown}>"
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
        The library that `to_frame` gives back.
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
        random_state : int
            Seed of the bootstrap.
        """
        if self.sizes.size < 4:
            raise InvalidInputError(
                "an extrapolation fits three numbers, so it needs at least four sizes; got "
                f"{self.sizes.size}. Ask learning_curve for more sizes."
            )
        at = np.atleast_1d(np.asarray(sizes, dtype=np.float64))
        n, errors = self.sizes.astype(float), self.errors
        mean = errors.mean(axis=1)
        unknown = self._unknown(mean)
        if unknown:
            nothing = np.full(at.size, np.nan)
            return Extrapolation(at, nothing, nothing, nothing, unknown)
        rng = np.random.default_rng(random_state)
        samples = np.empty((SAMPLES, at.size))
        for i in range(SAMPLES):
            pick = rng.integers(errors.shape[1], size=errors.shape)
            sample = np.take_along_axis(errors, pick, axis=1).mean(axis=1)
            samples[i] = _power_law(n, sample, at, mean)
        low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return Extrapolation(at, _power_law(n, mean, at, mean), low, high)

    def _unknown(self, mean: FloatArray) -> str:
        """Return why these mean errors tell nothing about other sizes, or nothing."""
        for size, error in zip(self.sizes.tolist(), mean.tolist(), strict=True):
            where = f"of the draws with {size} {self.unit}"
            if not np.isfinite(error):
                return f"some {where} have no score ({self.scoring})"
            if error <= 0.0:
                return f"the mean error {where} is {error:.4g}, and a power law has none"
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


def _power_law(n: FloatArray, error: FloatArray, at: FloatArray, unit: FloatArray) -> FloatArray:
    """Return a + b·at⁻ᶜ with the best a, b ≥ 0 for the best of the powers c.

    Errors count in units of `unit`, one for each size.
    """
    best, found = np.inf, np.empty(at.size)
    for power in POWERS:
        columns = np.column_stack([np.ones_like(n), (n / n[0]) ** -power])
        coefficients, left = nnls(columns / unit[:, None], error / unit)
        if left < best:
            best = left
            found = coefficients[0] + coefficients[1] * (at / n[0]) ** -power
    return found


def check_sizes(sizes: Any, most: int, unit: str) -> IntArray:
    """Return sizes as increasing whole numbers that leave something to test; shares of all too."""
    values = np.atleast_1d(np.asarray(sizes, dtype=np.float64))
    if values.size and ((values > 0) & (values < 1)).all():
        values = np.floor(values * most)
    whole = np.unique(values.astype(np.int64))
    if whole.size != values.size or (whole != np.sort(values)).any():
        raise InvalidInputError(
            f"sizes must be different whole numbers, or shares below 1; got {sizes!r}."
        )
    if not whole.size or whole[0] < 2 or whole[-1] >= most:
        raise InvalidInputError(
            f"sizes must lie between 2 and {most - 1} {unit}, so that some are left to test; got "
            f"{sizes!r}."
        )
    return whole


def draws(
    sizes: IntArray, n_repeats: int, weights: FloatArray, groups: AnyArray | None, seed: Any
) -> Experiments:
    """Return experiments, sizes × repeats, that train on that many rows, or groups, at random.

    Draws of one repeat are nested: a larger training set holds the smaller ones.
    """
    rng = np.random.default_rng(seed)
    trained = np.flatnonzero(weights > 0)
    code = np.arange(weights.size)
    if groups is not None:
        code = np.unique(groups, return_inverse=True)[1]
    units = np.unique(code[trained])
    held: list[IntArray] = []
    orders = [rng.permutation(units) for _ in range(n_repeats)]
    for size in sizes.tolist():
        for order in orders:
            out = np.isin(code, order[size:])
            held.append(np.flatnonzero(out & (weights > 0)))
    ragged = Ragged.from_arrays(held)
    return Experiments(ragged, ragged)
