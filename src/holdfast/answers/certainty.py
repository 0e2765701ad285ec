"""How far the score may be from that on new rows: intervals around a cross-validation score.

The errors of cross-validation are not independent: models share rows, so the standard error over
rows, or over folds, is too small. Two ways to a better one:

- **nested** (Bates, Hastie & Tibshirani 2024): many random partitions into K folds; within each,
  the K(K − 1)/2 models without two folds show how far an inner cross-validation estimate lies from
  the error on the rows left out of it, which is what a standard error should say. The estimate is
  corrected for the smaller training sets (`holdfast.answers.partitions`).
- **asymptotic** (Bayle, Bayle, Janson & Mackey 2020): for stable models and many rows the plain
  standard error is right. Free. It takes the experiments of the fit as they are: rows, groups or
  blocks are the units, and scores that are not means over rows are jackknifed over them.

Random partitions ask the question of the fit only where its rows, or groups, are exchangeable; for
time, neighbourhoods and purged folds they raise an error. The penalty is that of the model
throughout; `nested` says what choosing it does to the score.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import FloatArray
from holdfast.answers.fitted import Estimator, Fitted
from holdfast.answers.model import at_own_penalty
from holdfast.answers.partitions import nested_estimate, planned_seconds
from holdfast.core.experiments import Experiments
from holdfast.core.gaussian import second_moments
from holdfast.data.values import check_choice, check_level, seed_of, whole_number
from holdfast.exceptions import HoldfastError, InvalidInputError, NotSupportedError
from holdfast.progress import shows_progress
from holdfast.scores.errors import Estimate, mean_and_variance
from holdfast.scores.metric import printed
from holdfast.scores.scoring import density_rows, summary
from holdfast.splitters.cv import check_groups

__all__ = [
    "METHODS",
    "Method",
    "ScoreInterval",
    "over_experiments",
    "random_splits",
    "require_exchangeable",
    "score_interval",
]

Method = Literal["auto", "nested", "asymptotic"]
METHODS: tuple[Method, ...] = ("auto", "nested", "asymptotic")


#: Folds of a random partition: models leave two of them out.
FEWEST_SPLITS = 3
#: Planned seconds that "auto" gives to random partitions.
PATIENCE = 10.0


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
        What counts as independent: "rows", "groups", "blocks" or "experiments".
    bias : float or ndarray
        What was subtracted from the nested estimate; 0 for the other methods.
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
        shown = printed(self.scoring)
        ends = shown.of([self.score, self.low, self.high]).T
        text = "; ".join(
            f"{score:.4g}, between {min(ends):.4g} and {max(ends):.4g}"
            for score, *ends in np.atleast_2d(ends)
        )
        return f"<{shown.label} {text} on new rows ({self.level:.0%}, {self.method}, {self.units})>"


@shows_progress
def score_interval(
    estimator: Estimator,
    level: float = 0.9,
    method: Method = "auto",
    n_splits: int = 10,
    n_partitions: int = 50,
    random_state: Any = None,
    *,
    groups: ArrayLike | None = None,
) -> ScoreInterval:
    """Return the score with an interval for the score on new rows.

    Parameters
    ----------
    level : float, default 0.9
        Confidence level.
    method : {"auto", "nested", "asymptotic"}, default "auto"
        "nested": Bates, Hastie and Tibshirani (2024), from `n_partitions` random partitions
        into `n_splits` folds; corrected for the bias of smaller training sets. "asymptotic":
        Bayle et al. (2020), the experiments of `fit` with the plain standard error over rows,
        groups, or blocks of rows that are held out together (time, neighbourhoods, purged
        folds); over experiments with ``pooled=False``. "auto": "nested" where random partitions
        hold out as `cv` does (rows or groups are exchangeable) and the score is a mean over
        rows, with fewer folds where there are fewer than twice as many groups; else
        "asymptotic", and so where partitions would take longer than about half a minute (dense
        models of more than a thousand rows).
    n_splits, n_partitions : int
        Folds of a random partition, and how many partitions.
    random_state : int, RandomState or None
        Seed of the partitions.
    groups : array-like of shape (m,), optional
        Groups that are held out whole and count as the independent units; None: the groups of
        `fit`, if its experiments hold out whole groups.

    Returns
    -------
    ScoreInterval
        ``.score``, ``.low``, ``.high``, ``.standard_error`` on the scale of the score, and the
        ``.method`` that was used. "nested" is for means over rows (squared and absolute error,
        R², accuracy, AUC, log loss, …); "asymptotic" takes any scorer.

    Notes
    -----
    With about 100 rows, intervals at level 0.9 hold the error on new rows 85 to 89 % of the time by
    "nested", and 72 to 80 % by "asymptotic", which needs more rows. The penalty stays `alpha_`; how
    much choosing it flattered the score is the optimism of `nested`. The nested standard error is
    kept between the plain one and √K times that. R² is taken relative to the variance of the tested
    targets, as `best_score_` is. Scores that are not means over rows are jackknifed: at most 20
    parts of the units are left out in turn.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from holdfast import KernelRidgeCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelRidgeCV(gamma=10.0, scoring="r2", cv=10).fit(X, y)
    >>> found = model.score_interval(n_partitions=5, random_state=0)
    >>> bool(found.low < found.score < found.high)
    True
    """
    fitted = estimator._fitted_state()
    check_choice("method", method, METHODS)
    if groups is not None:
        given = check_groups(groups, fitted.training.weights.size)
        fitted = replace(fitted, given_units=given)
    level = check_level(level)
    splits = whole_number("n_splits", n_splits, FEWEST_SPLITS)
    count = whole_number("n_partitions", n_partitions)
    seed = seed_of(random_state)
    if method == "nested":
        return _nested(fitted, splits, count, seed, level)
    if method == "auto" and (fewer := random_splits(fitted, [fitted], splits, count)):
        with suppress(HoldfastError):  # no mean over rows, or a part without a score
            return _nested(fitted, fewer, count, seed, level)
    return _asymptotic(fitted, level)


def random_splits(by: Fitted, models: Sequence[Fitted], n_splits: int, n_partitions: int) -> int:
    """Return how many folds random partitions have, at most `n_splits`; 0 for none.

    None where units are not exchangeable or too few, or where it would take too long.
    """
    if not (by.units.exchangeable and by.objective.pooled):
        return 0
    units = np.unique(by.units.code[by.training.weights > 0]).size
    splits = min(n_splits, units // 2)  # each fold has an error of its own
    if splits < FEWEST_SPLITS or planned_seconds(by, models, splits, n_partitions) > PATIENCE:
        return 0
    return splits


def require_exchangeable(fitted: Fitted, answer: str) -> None:
    """Raise if random partitions would ask another question than the experiments of the fit."""
    if not fitted.units.exchangeable:
        raise NotSupportedError(
            f"{answer} draws random rows or groups, but the experiments of this model (time, "
            "neighbourhoods, purged folds, folds of rows in order, or rows that are never tested) "
            "hold rows out in another way. "
            'Use method="asymptotic", which uses them as they are.',
            argument="method",
        )


def _nested(fitted: Fitted, K: int, n_partitions: int, seed: int, level: float) -> ScoreInterval:
    require_exchangeable(fitted, 'method="nested"')
    if not fitted.objective.pooled:
        raise NotSupportedError(
            'method="nested" estimates a mean over rows; this model has pooled=False, a mean over '
            'experiments. Use method="asymptotic".',
            argument="method",
        )
    rows = fitted.model.tasks(fitted.training.experiments).test.values
    score = fitted.row_mean(rows)
    mean_of = partial(fitted.mean_and_variance, score)
    predict = partial(fitted.predict, times=n_partitions)
    found = nested_estimate(fitted, predict, mean_of, K, n_partitions, seed)
    found = replace(found, score=score, freedom=fitted.freedom(rows))
    return _interval(fitted, found, level, "nested")


def _asymptotic(fitted: Fitted, level: float) -> ScoreInterval:
    """Return the score of the experiments of the fit with its standard error over units."""
    if fitted.objective.scoring.density:
        return _interval(fitted, _of_density(fitted), level, "asymptotic")
    tested, _, values = fitted.predict(fitted.training.experiments)
    if fitted.objective.pooled:
        return _interval(fitted, fitted.estimate(values, tested.test.values), level, "asymptotic")
    found = over_experiments(*fitted.whole(values, tested.test), tested)
    return _interval(fitted, found, level, "asymptotic", "experiments")


def _of_density(fitted: Fitted) -> Estimate:
    """Return the score of the distribution of held-out targets, with its error over units."""
    model, training, objective = fitted.model, fitted.training, fitted.objective
    if not objective.pooled:
        objective.scoring.refuse_density("score_interval of a model with pooled=False")
    tasks = model.tasks(training.experiments)
    rows = tasks.test.values

    def at(alphas: FloatArray) -> FloatArray:
        errors = training.labels[rows] - model.held_out(tasks, alphas)
        moments = second_moments(model.held_models(tasks, alphas[:1]), alphas, errors)
        return density_rows(moments, tasks.test.sizes)

    values = at_own_penalty(at, fitted.alpha, training.Y.shape[1])
    used = training.weights[rows] > 0
    if not objective.per_target:
        values = values.mean(axis=1, keepdims=True)
    unit = fitted.units.code[rows[used]]
    score, variance = mean_and_variance(values[used], np.ones(unit.size), unit)
    return Estimate(score, np.sqrt(variance), fitted.freedom(rows))


def over_experiments(score: FloatArray, splits: FloatArray, tested: Experiments) -> Estimate:
    """Return a score (c,), the mean of splits (c, J), with its standard error over experiments."""
    if int(np.bincount(tested.test.values).max()) > 1:
        raise NotSupportedError(
            "a mean over experiments (pooled=False) has a standard error where experiments test "
            "different rows; here rows are tested several times. Fit with pooled=True.",
            argument="pooled",
        )
    defined = splits[:, np.isfinite(splits).all(axis=0)]
    return Estimate(score, summary(defined)[2], max(1, defined.shape[1] - 1))


def _interval(
    fitted: Fitted, found: Estimate, level: float, method: str, units: str | None = None
) -> ScoreInterval:
    """Return the result: numbers, or arrays with one per target."""
    if np.isnan(found.standard_error).any():
        raise InvalidInputError(
            "an interval needs at least two rows, groups, blocks or experiments that are tested, "
            "each part with a defined score. Fit with more experiments, or with another scoring.",
            argument="cv",
            remedies=("scoring",),
        )

    def plain(x: FloatArray | float) -> float | FloatArray:
        if fitted.objective.per_target:
            return np.broadcast_to(x, found.mean.shape).copy()
        return float(np.ravel(x)[0])

    low, high = found.ends(level)
    return ScoreInterval(
        plain(found.finish(found.mean)),
        plain(low),
        plain(high),
        plain(found.slope * found.standard_error),
        level,
        method,
        fitted.objective.scoring.name,
        units or fitted.units.name,
        plain(found.slope * found.bias),
        plain(found.inflation),
    )
