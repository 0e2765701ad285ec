"""How far the score may be from that on new rows: intervals around a cross-validation score.

The errors of cross-validation are not independent: models share rows, so the standard error over
rows, or over folds, is too small. Three ways to a better one:

- **nested** (Bates, Hastie & Tibshirani 2024): many random partitions into K folds; within each,
  the K(K − 1)/2 models without two folds tell how far an inner cross-validation estimate lies from
  the error on the rows left out of it, which is what a standard error should say. The estimate is
  corrected for the smaller training sets (`holdfast.answers.partitions`).
- **asymptotic** (Bayle, Bayle, Janson & Mackey 2020): for stable models and many rows the plain
  standard error is right. Free.
- **corrected** (Nadeau & Bengio 2003): for repeated splits, the variance over experiments grows by
  the share of rows tested.

The penalty is that of the model throughout; what its choice does to the score is `nested`'s answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import norm, t

from holdfast._typing import FloatArray, IntArray
from holdfast.answers.asked import Asked
from holdfast.answers.partitions import Estimate, nested_estimate, partitions
from holdfast.answers.question import Judge, Subject
from holdfast.exceptions import InvalidInputError
from holdfast.experiments import Experiments, Ragged
from holdfast.scores.scoring import score_experiments

__all__ = [
    "METHODS",
    "Method",
    "ScoreInterval",
    "nadeau_bengio",
    "quantile",
    "score_interval",
    "splits_of",
]

Method = Literal["nested", "asymptotic", "corrected"]
METHODS: tuple[Method, ...] = ("nested", "asymptotic", "corrected")


@dataclass(frozen=True, eq=False, repr=False)
class ScoreInterval:
    """A score with an interval for that on new rows; arrays (v,) for a penalty per target.

    Attributes
    ----------
    score : float or ndarray
        The estimate, corrected for its bias where the method can.
    low, high : float or ndarray
        Ends of the interval, on the scale of the score.
    standard_error : float or ndarray
        On the scale of the score.
    level : float
        Confidence level.
    method : str
    scoring : str
        What the score is.
    units : str
        What counts as independent: "rows" or "groups".
    bias : float or ndarray
        What was taken off the nested estimate; 0 for the other methods.
    inflation : float or ndarray
        Standard error over the plain one; 1 for "asymptotic".
    """

    score: float | FloatArray
    low: float | FloatArray
    high: float | FloatArray
    standard_error: float | FloatArray
    level: float
    method: str
    scoring: str
    units: str
    bias: float | FloatArray = 0.0
    inflation: float | FloatArray = 1.0

    def __repr__(self) -> str:
        parts = (
            zip(*np.broadcast_arrays(self.score, self.low, self.high), strict=True)
            if np.ndim(self.score)
            else [(self.score, self.low, self.high)]
        )
        text = "; ".join(f"{s:.4g} [{a:.4g}, {b:.4g}]" for s, a, b in parts)
        return f"<{self.scoring}: {text}, {self.level:.0%} by {self.method}, {self.units}>"


def score_interval(
    subject: Subject,
    experiments: Experiments,
    judge: Judge,
    alpha: float | FloatArray,
    units: IntArray | None,
    *,
    level: float,
    method: Method,
    n_splits: int,
    n_partitions: int,
    seed: int,
) -> ScoreInterval:
    """Return the score with an interval.

    Parameters
    ----------
    subject : Subject
        The chosen kernel on all rows.
    experiments : Experiments
        Those of the fit.
    judge : Judge
    alpha : float or ndarray of shape (v,)
        The chosen penalty.
    units : ndarray of int, shape (m,), or None
        Groups that are held out as wholes; None: rows.
    level : float
    method : {"nested", "asymptotic", "corrected"}
    n_splits, n_partitions : int
        Folds of a random partition, and how many partitions.
    seed : int
    """
    asked = Asked(subject, judge, alpha, units)
    if method == "asymptotic":
        estimate = _asymptotic(asked, experiments)
    elif method == "nested":
        estimate = nested_estimate(asked, n_splits, n_partitions, seed)
    else:
        return _corrected(asked, experiments, n_splits, n_partitions, seed, level)
    score, mean, se = asked.score, estimate.mean, estimate.standard_error
    z = quantile(level, None if units is None else asked.n_units - 1)
    ends = np.sort([score.finish(mean - z * se), score.finish(mean + z * se)], axis=0)
    return _interval(
        asked,
        score.finish(mean),
        ends[0],
        ends[1],
        np.abs(score.slope(mean)) * se,
        level,
        method,
        # both of the mean; near enough on the scale of the score
        np.abs(score.slope(mean)) * estimate.bias,
        estimate.inflation,
    )


def quantile(level: float, freedom: int | None) -> float:
    """Return how many standard errors: of the normal law, or of Student's for few groups."""
    tail = 0.5 + level / 2.0
    return float(norm.ppf(tail) if freedom is None else t.ppf(tail, max(1, freedom)))


def _interval(
    asked: Asked,
    score: FloatArray,
    low: FloatArray,
    high: FloatArray,
    standard_error: FloatArray,
    level: float,
    method: str,
    bias: FloatArray,
    inflation: FloatArray,
) -> ScoreInterval:
    """Return the result: numbers, or arrays with one entry for each target."""

    def plain(x: FloatArray) -> float | FloatArray:
        return np.asarray(x) if asked.judge.per_target else float(np.ravel(x)[0])

    return ScoreInterval(
        plain(score),
        plain(low),
        plain(high),
        plain(standard_error),
        level,
        method,
        asked.judge.scoring.name,
        "groups" if asked.grouped else "rows",
        plain(bias),
        plain(inflation),
    )


def _asymptotic(asked: Asked, experiments: Experiments) -> Estimate:
    tested, _, values = asked.predict(experiments)
    mean, variance = asked.mean_and_variance(values, tested.test.values)
    if np.isnan(variance).any():
        raise InvalidInputError("an interval needs at least two rows, or groups, that are tested.")
    return Estimate(mean, np.sqrt(variance), np.zeros_like(mean), np.ones_like(mean))


def _corrected(
    asked: Asked, experiments: Experiments, K: int, n_partitions: int, seed: int, level: float
) -> ScoreInterval:
    """Return the mean score of repeated splits with the variance of Nadeau and Bengio (2003)."""
    judge = asked.judge
    if int(np.bincount(experiments.test.values).max()) < 2:  # every row once: splits of our own
        labels = judge.labels if judge.classes is not None else None
        folds = [
            rows
            for n in range(n_partitions)
            for rows in partitions(asked.unit, labels, judge.weights, K, [seed, n])
        ]
        made = Ragged.from_arrays(folds)
        experiments = Experiments(made, made)
    tested, _, values = asked.predict(experiments)
    columns = [[c] for c in range(values.shape[1])] if judge.per_target else [slice(None)]
    splits = np.array([splits_of(judge, tested, values, c) for c in columns])  # (c, J)
    J = splits.shape[1]
    if J < 2 or np.isnan(splits).any():
        raise InvalidInputError(
            'method="corrected" needs at least two experiments, each with a defined score. Use '
            "larger test sets or another scoring."
        )
    mean = splits.mean(axis=1)
    se, inflation = nadeau_bengio(splits, tested, judge.weights)
    wide = quantile(level, J - 1) * se
    none = np.zeros_like(se)
    return _interval(asked, mean, mean - wide, mean + wide, se, level, "corrected", none, inflation)


def nadeau_bengio(
    splits: FloatArray, tested: Experiments, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the standard error of the mean of splits (c, J), and its ratio to the plain one.

    Nadeau and Bengio (2003): experiments share training rows, so their scores are correlated; with
    a correlation of n_test / n the variance of the mean is (1/J + n_test/n_train) s².
    """
    J, live = splits.shape[1], weights > 0

    def count(rows: Ragged) -> FloatArray:
        return np.bincount(rows.owners, weights=live[rows.values], minlength=J).astype(float)

    ratio = float(np.mean(count(tested.test) / (live.sum() - count(tested.held_out))))
    se = np.sqrt((1.0 / J + ratio) * splits.var(axis=1, ddof=1))
    return se, np.full_like(se, np.sqrt(1.0 + J * ratio))


def splits_of(
    judge: Judge, tested: Experiments, values: FloatArray, columns: list[int] | slice
) -> FloatArray:
    """Return the score of each experiment for some of the targets."""
    labels = judge.labels if judge.classes is not None else judge.labels[:, columns]
    found = score_experiments(
        judge.scoring,
        values[None, :, columns],
        tested.test.values,
        tested.test.ptr,
        labels,
        judge.weights,
    )
    return np.asarray(found.splits[0])
