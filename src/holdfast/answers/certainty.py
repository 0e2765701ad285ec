"""How far the score may be from that on new rows: intervals around a cross-validation score.

The errors of cross-validation are not independent: models share rows, so the standard error over
rows, or over folds, is too small. Three ways to a better one:

- **nested** (Bates, Hastie & Tibshirani 2024): many random partitions into K folds; within each,
  the K(K − 1)/2 models without two folds tell how far an inner cross-validation estimate lies from
  the error on the rows left out of it, which is what a standard error should say. The estimate is
  corrected for the smaller training sets. A model without two folds is a held-out model: sums of
  Gram matrices again.
- **asymptotic** (Bayle, Bayle, Janson & Mackey 2020): for stable models and many rows the plain
  standard error is right. Free.
- **corrected** (Nadeau & Bengio 2003): for repeated splits, the variance over experiments grows by
  the share of rows tested.

The penalty is that of the model throughout; what its choice does to the score is `nested`'s answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from scipy.stats import norm, t

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.answers.folds import UnionsOfFolds
from holdfast.answers.question import Judge, Subject, chosen_values
from holdfast.answers.row_scores import RowScore, mean_and_variance, row_score
from holdfast.exceptions import HoldOutError, InvalidInputError
from holdfast.experiments import Experiments, Ragged
from holdfast.progress import report
from holdfast.scores.scoring import score_experiments

__all__ = [
    "METHODS",
    "Asked",
    "Estimate",
    "Method",
    "ScoreInterval",
    "held_out_units",
    "nadeau_bengio",
    "nested_estimate",
    "partitions",
    "quantile",
    "score_interval",
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


def held_out_units(experiments: Experiments, groups: AnyArray | None, m: int) -> IntArray | None:
    """Return codes of the groups (m,) if every experiment holds out whole groups, else None."""
    if groups is None:
        return None
    code = np.unique(groups, return_inverse=True)[1].astype(np.int64)
    size = np.bincount(code)
    if (size == 1).all():
        return None
    held = experiments.held_out
    # One number for each (experiment, group): all rows of the group, or none, must be there.
    pairs, count = np.unique(held.owners * size.size + code[held.values], return_counts=True)
    return code if bool((count == size[pairs % size.size]).all()) else None


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
    return asked.interval(
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


@dataclass(frozen=True)
class Estimate:
    """A mean over rows (c,) with its standard error."""

    mean: FloatArray
    standard_error: FloatArray
    bias: FloatArray
    inflation: FloatArray


class Asked:
    """A model at its penalty, with what its rows are scored by."""

    def __init__(
        self, subject: Subject, judge: Judge, alpha: float | FloatArray, units: IntArray | None
    ) -> None:
        self.subject, self.judge, self.alpha = subject, judge, alpha
        self.m = judge.weights.size
        self.unit = np.arange(self.m) if units is None else units
        self.grouped = units is not None
        self._score: RowScore | None = None
        self._unions = UnionsOfFolds(subject.smoother)

    @property
    def score(self) -> RowScore:
        """The score as a mean over rows."""
        if self._score is None:
            judge = self.judge
            self._score = row_score(
                judge.scoring, judge.labels, judge.weights, per_target=judge.per_target
            )
        return self._score

    @property
    def n_units(self) -> int:
        """How many rows, or groups, have weight."""
        return int(np.unique(self.unit[self.judge.weights > 0]).size)

    def predict(self, experiments: Experiments) -> tuple[Experiments, IntArray, FloatArray]:
        """Return what was tested, of which experiment, and predictions (k, v)."""
        subject, v = self.subject, self.subject.smoother.targets.count
        tasks = subject.tasks(experiments)

        def at(alphas: FloatArray) -> FloatArray:
            path = subject.plan(tasks, alphas.size).path
            if alphas.size <= 2 and path != "retrain" and not subject.reselects:
                return self._unions.predict(tasks, alphas, path)
            return subject.held_out(tasks, alphas, path)

        values = chosen_values(at, self.alpha, v)
        tested = Experiments(experiments.held_out.items(tasks.source), tasks.test)
        return tested, tasks.source, values

    def mean_and_variance(
        self, predictions: FloatArray, rows: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the mean over rows (c,) and its plain variance; rows of weight zero left out."""
        w = self.judge.weights[rows]
        if not w.all():
            predictions, rows, w = predictions[w > 0], rows[w > 0], w[w > 0]
        if not rows.size:
            raise HoldOutError(
                "a fold of a random partition has no row to test. Use fewer n_splits."
            )
        return mean_and_variance(self.score.values(predictions, rows), w, self.unit[rows])

    def interval(
        self,
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
            return np.asarray(x) if self.judge.per_target else float(np.ravel(x)[0])

        return ScoreInterval(
            plain(score),
            plain(low),
            plain(high),
            plain(standard_error),
            level,
            method,
            self.judge.scoring.name,
            "groups" if self.grouped else "rows",
            plain(bias),
            plain(inflation),
        )


def _asymptotic(asked: Asked, experiments: Experiments) -> Estimate:
    tested, _, values = asked.predict(experiments)
    mean, variance = asked.mean_and_variance(values, tested.test.values)
    if np.isnan(variance).any():
        raise InvalidInputError("an interval needs at least two rows, or groups, that are tested.")
    return Estimate(mean, np.sqrt(variance), np.zeros_like(mean), np.ones_like(mean))


def partitions(
    unit: IntArray,
    labels: AnyArray | None,
    weights: FloatArray,
    n_splits: int,
    seed: int | Sequence[int],
) -> list[IntArray]:
    """Return the rows of each fold of a random partition of the rows that have weight.

    Parameters
    ----------
    unit : ndarray of int, shape (m,)
        Rows of one unit stay together.
    labels : ndarray of shape (m,) or None
        Classes that are spread evenly over the folds, if units are rows.
    weights : ndarray of shape (m,)
    n_splits : int
    seed : int or sequence of int
    """
    rng, live = np.random.default_rng(seed), np.flatnonzero(weights > 0)
    codes, first = np.unique(unit[live], return_index=True)
    if codes.size < n_splits:
        raise InvalidInputError(
            f"n_splits must be at most the number of rows, or groups, with weight ({codes.size}); "
            f"got {n_splits}."
        )
    order = rng.permutation(codes.size)
    if labels is not None and codes.size == live.size:
        order = order[np.argsort(labels[live[first]][order], kind="stable")]
    fold = np.empty(codes.size, dtype=np.int64)
    # Where the deal starts is random as well: no fold gets all the remainders.
    fold[order] = rng.permutation(n_splits)[np.arange(codes.size) % n_splits]
    of_row = fold[np.searchsorted(codes, unit[live])]
    return [live[of_row == k] for k in range(n_splits)]


def nested_estimate(asked: Asked, K: int, n_partitions: int, seed: int) -> Estimate:
    """Return the estimate of Bates, Hastie and Tibshirani (2024), Algorithm 1 and section 4.3."""
    if K < 3:
        raise InvalidInputError(
            f'method="nested" needs n_splits of at least 3, to leave two folds out; got {K}.'
        )
    labels = asked.judge.labels if asked.judge.classes is not None else None
    weights, pairs = asked.judge.weights, list(combinations(range(K), 2))
    inner: list[FloatArray] = []  # for each outer fold: the mean of the inner values,
    outer: list[FloatArray] = []  # the variance of the mean of its own, …
    squares: list[FloatArray] = []
    plain: list[FloatArray] = []
    whole: list[FloatArray] = []
    for n in range(n_partitions):  # one by one: its folds are what all its sets are made of
        folds = partitions(asked.unit, labels, weights, K, [seed, n])
        made = Ragged.from_arrays(_sets(folds, pairs))
        tested, source, values = asked.predict(Experiments(made, made))
        of = _by_model(tested, source, values, K, pairs, folds)
        rows, predictions = zip(*(of[k, k] for k in range(K)), strict=True)
        whole.append(asked.mean_and_variance(np.concatenate(predictions), np.concatenate(rows))[0])
        for k in range(K):
            others = [of[j, k] for j in range(K) if j != k]
            in_mean, in_variance = asked.mean_and_variance(
                np.concatenate([p for _, p in others]), np.concatenate([r for r, _ in others])
            )
            out_mean, out_variance = asked.mean_and_variance(of[k, k][1], of[k, k][0])
            inner.append(in_mean)
            outer.append(out_variance)
            squares.append(np.square(in_mean - out_mean))
            plain.append(in_variance)
        report(n + 1, n_partitions, "random partitions")
    if np.isnan(outer).any():
        raise InvalidInputError(
            "every fold needs at least two rows, or groups, to tell its own error. Use fewer "
            "n_splits."
        )
    ncv, cv = np.mean(inner, axis=0), np.mean(whole, axis=0)
    bias = (1.0 + (K - 2) / K) * (ncv - cv)
    base = np.mean(plain, axis=0)  # of (K − 1)/K of the rows
    excess = np.maximum(np.mean(squares, axis=0) - np.mean(outer, axis=0), 0.0)
    ratio = np.divide(excess, base, out=np.ones_like(base), where=base > 0)
    inflation = np.clip(np.sqrt(ratio), 1.0, np.sqrt(K))
    return Estimate(ncv - bias, np.sqrt(base * (K - 1) / K) * inflation, bias, inflation)


def _sets(folds: list[IntArray], pairs: list[tuple[int, int]]) -> list[IntArray]:
    """Return the folds, and the unions of two."""
    return [*folds, *(np.concatenate([folds[i], folds[j]]) for i, j in pairs)]


def _by_model(
    tested: Experiments,
    source: IntArray,
    values: FloatArray,
    K: int,
    pairs: list[tuple[int, int]],
    folds: list[IntArray],
) -> dict[tuple[int, int], tuple[IntArray, FloatArray]]:
    """Return (test rows, predictions) of fold i by the model without folds i and j."""
    fold_of = np.empty(max(int(rows.max()) for rows in folds) + 1, dtype=np.int64)
    for k, rows in enumerate(folds):
        fold_of[rows] = k
    place = {int(number): j for j, number in enumerate(source)}
    ptr, rows_of = tested.test.ptr, tested.test
    found = {}
    for number, (i, j) in enumerate([*((k, k) for k in range(K)), *pairs]):
        at = place.get(number)
        if at is None:  # held_out_basis="skip" left nothing to test
            raise HoldOutError(
                "a fold of a random partition has no row to test: all its rows are basis rows. "
                "Use fewer n_splits."
            )
        rows, part = rows_of[at], values[ptr[at] : ptr[at + 1]]
        mine = fold_of[rows] == i
        found[i, j] = rows[mine], part[mine]
        if i != j:
            found[j, i] = rows[~mine], part[~mine]
    return found


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
    return asked.interval(mean, mean - wide, mean + wide, se, level, "corrected", none, inflation)


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
