"""Is one model better than another: the difference of their scores, with an interval.

Two models are compared on the same experiments, row by row: what they have in common (hard rows,
noise) cancels in the difference. Rows that are tested several times, and rows of a group that is
held out whole, count as one observation.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.answers.certainty import (
    over_experiments,
    quantile,
    random_splits,
    require_exchangeable,
)
from holdfast.answers.fitted import Fitted
from holdfast.answers.nested import NestedPredictions
from holdfast.answers.partitions import nested_estimate
from holdfast.core.experiments import Experiments, Ragged
from holdfast.data.values import check_choice, check_level, seed_of, whole_number
from holdfast.exceptions import HoldfastError, InvalidInputError, NotSupportedError
from holdfast.scores.metrics import in_words
from holdfast.scores.row_means import NoRowMean
from holdfast.scores.standard_errors import MAX_BLOCKS, jackknife, mean_and_variance
from holdfast.splitters.cv import check_groups

__all__ = ["Comparison", "compare"]

CompareMethod = Literal["auto", "asymptotic", "nested"]
METHODS: tuple[CompareMethod, ...] = ("auto", "asymptotic", "nested")


@dataclass(frozen=True, repr=False)
class Comparison:
    """The difference of two scores; printed, a sentence.

    Attributes
    ----------
    difference : float
        Score of the first minus score of the second; greater scores are better.
    low, high : float
        Ends of the interval for it.
    method : {"asymptotic", "nested"}
    scores : tuple of float
        Of both, on the same experiments; by "nested", on the same random partitions.
    names : tuple of str
    scoring : str
        What the scores are.
    level : float
        Confidence level of the interval.
    units : str
        What counts as independent: "rows", "groups", "blocks" or "experiments".
    """

    difference: float
    low: float
    high: float
    method: str
    scores: tuple[float, float]
    names: tuple[str, str]
    scoring: str
    level: float
    units: str

    def __repr__(self) -> str:
        (first, second), (name, shown) = self.names, in_words(self.scoring)
        one, other = (float(shown(np.asarray(score))) for score in self.scores)
        if self.difference == 0.0 and self.low == self.high:
            return f"<{first} and {second} have the same {name}, {one:.4g}>"
        verb = "is better than" if self.difference >= 0 else "is worse than"
        chance = "could be" if self.low <= 0.0 <= self.high else "is more than"
        ends = sorted(float(shown(self.scores[1] + end)) - other for end in (self.low, self.high))
        return (
            f"<{first} {verb} {second}, which {chance} chance: {name} {one:.4g} against "
            f"{other:.4g}, a difference of {one - other:.3g}, between {ends[0]:.3g} and "
            f"{ends[1]:.3g} on new rows ({self.level:.0%}, {self.method}, {self.units})>"
        )


def compare(
    model_a: Any,
    model_b: Any,
    *,
    level: float = 0.9,
    method: CompareMethod = "auto",
    scoring: Any = None,
    cv: Any = None,
    groups: Any = None,
    names: Sequence[str] | None = None,
    n_splits: int = 10,
    n_partitions: int = 50,
    random_state: Any = 0,
) -> Comparison:
    """Return the difference between the scores of two models on the same experiments.

    Parameters
    ----------
    model_a, model_b : fitted model or predictions
        Models fitted on the same rows and targets, at the penalty that each has chosen; or
        held-out predictions of any other library on the same experiments: an array with one
        prediction per row (decision values or labels of a classifier), a list with one array per
        experiment, or what `nested` returned. At least one must be a model.
    level : float, default 0.9
        Confidence level.
    method : {"auto", "asymptotic", "nested"}, default "auto"
        "nested": Bates et al. (2024) for the difference, from random partitions; for two models
        whose rows or groups are exchangeable, and scores that are means over rows. "asymptotic":
        the standard error of the differences over rows, groups, blocks of rows that are held out
        together (time, neighbourhoods), or experiments (``pooled=False``); it needs no new
        predictions. "auto": "nested" where it is possible within about half a minute, with fewer
        folds of few groups.
    scoring : str, callable or None
        What to compare by; None: as the first model does.
    cv : optional
        Experiments to compare on; None: those of the first model.
    groups : array-like of shape (m,), optional
        Groups that count as the independent units; None: those of the first model, if the
        experiments hold out whole groups.
    names : sequence of two str, optional
        Names of the models.
    n_splits, n_partitions : int
        Folds of a random partition, and how many partitions, for "nested".
    random_state : int, RandomState or None, default 0
        Seed of the partitions.

    Returns
    -------
    Comparison
        ``.difference`` (score of a minus score of b), ``.low``, ``.high``, ``.method``; printed,
        it says which is better, by how much, and whether that could be chance.

    Notes
    -----
    With about 100 rows, intervals at level 0.9 hold the difference on new rows 91 to 93 % of the
    time by "nested", and 67 to 75 % by "asymptotic", which needs more rows. Scores by "nested" are
    means over its random partitions.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> from sklearn.model_selection import cross_val_predict
    >>> import holdfast
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = holdfast.KernelRidgeCV(gamma=10.0, cv=10).fit(X, y)
    >>> linear = cross_val_predict(LinearRegression(), X, y, cv=10)
    >>> found = holdfast.compare(model, linear, names=["kernel", "linear"])
    >>> bool(found.low < found.difference < found.high), found.method
    (True, 'asymptotic')
    """
    entries = [model_a, model_b]
    known = [
        entry._fitted_state() if hasattr(entry, "_fitted_state") else None for entry in entries
    ]
    if not any(known):
        raise InvalidInputError(
            "compare needs at least one fitted model of this package, which knows the experiments; "
            "got predictions only.",
            argument="models",
        )
    level = check_level(level)
    check_choice("method", method, METHODS)
    splits = whole_number("n_splits", n_splits, 2)
    count = whole_number("n_partitions", n_partitions)
    seed = seed_of(random_state)
    pair = Pair(entries, known, scoring, cv, groups)
    called = _names(known, names)
    found = None
    if method == "nested":
        found = pair.nested(splits, count, seed)
    elif method == "auto" and None not in known:
        models = [model for model in known if model is not None]
        with suppress(HoldfastError):  # no mean over rows, or a part without a score
            if fewer := random_splits(pair.by, models, splits, count):
                found = pair.nested(fewer, count, seed)
    (one, other), se, freedom = found or pair.asymptotic()
    wide = quantile(level, freedom) * se
    return Comparison(
        difference=one - other,
        low=one - other - wide,
        high=one - other + wide,
        method="nested" if found else "asymptotic",
        scores=(one, other),
        names=called,
        scoring=pair.by.objective.scoring.name,
        level=level,
        units=pair.by.units.name if pair.by.objective.pooled else "experiments",
    )


def _names(known: Sequence[Fitted | None], names: Sequence[str] | None) -> tuple[str, str]:
    if names is None:
        first, second = ("predictions" if found is None else "model" for found in known)
        return f"{first} a", f"{second} b"
    if len(names) != 2 or names[0] == names[1]:
        raise InvalidInputError(
            f"names must hold two different names, one for each model; got {names!r}.",
            argument="names",
        )
    return names[0], names[1]


#: Both scores, the standard error of their difference, and its degrees of freedom; None: many.
Difference = tuple[tuple[float, float], float, int | None]


class Pair:
    """Predictions of both models for the rows that both are tested on, in one unit.

    Parameters
    ----------
    entries : sequence
        Two models, or a model and predictions.
    known : sequence of Fitted or None
        The models among them. The first says on what and by which score to compare.
    scoring, cv, groups
        As in `compare`.
    """

    def __init__(
        self,
        entries: Sequence[Any],
        known: Sequence[Fitted | None],
        scoring: Any,
        cv: Any,
        groups: Any,
    ) -> None:
        first = next(found for found in known if found is not None)
        objective, training, m = first.objective, first.training, first.training.weights.size
        if scoring is not None:
            objective = replace(objective, scoring=objective.scoring.other(scoring))
        objective.scoring.refuse_density("compare")
        given = None if groups is None else check_groups(groups, m)
        labels = training.groups if given is None else given
        if cv is not None:
            first = first.changed(experiments=first.experiments_of(cv, labels))
            objective = replace(objective, cv=cv)
        # One score for all targets, whatever penalties they have.
        objective = replace(objective, per_target=False)
        self.by, self.known = replace(first, objective=objective, given_units=given), known
        found = [
            _of_predictions(self.by, i, entries[i]) if model is None else self._of_model(i, model)
            for i, model in enumerate(known)
        ]
        self.tested, self.predictions = _aligned(found, self.by.training.experiments, m)
        self.rows = self.tested.test.values
        self.used = np.flatnonzero(training.weights[self.rows] > 0)
        self.unit = self.by.units.code[self.rows[self.used]]
        whole = [self.by.whole(p, self.tested.test) for p in self.predictions]
        self.scores = [float(score[0]) for score, _ in whole]
        self.splits = [splits for _, splits in whole]

    # -- what is compared --------------------------------------------------------------------------

    def _of_model(self, i: int, model: Fitted) -> tuple[IntArray, IntArray, FloatArray]:
        """Return (experiment, row, prediction) of everything that a model is tested on."""
        mine, ours = model.training, self.by.training
        same = mine.labels.shape == ours.labels.shape and np.array_equal(mine.labels, ours.labels)
        if not same or not np.array_equal(mine.score_weights, ours.score_weights):
            raise InvalidInputError(
                f"models must be fitted on the same rows, targets and weights, in the same order; "
                f"those of model {i} differ from the first.",
                argument="models",
            )
        tested, source, values = self._predict(model, ours.experiments)
        return source[tested.test.owners], tested.test.values, values

    def _predict(
        self, model: Fitted, experiments: Experiments
    ) -> tuple[Experiments, IntArray, FloatArray]:
        """Return what `Fitted.predict` does, in the unit of the score that is compared."""
        return replace(model, objective=self.by.objective).predict(experiments)

    # -- differences -------------------------------------------------------------------------------

    def _linear(self) -> tuple[list[FloatArray], FloatArray]:
        """Values of each model for each tested row (k,) with the score as mean; weights."""
        score, rows, found = self.by.row_mean(self.rows), self.rows[self.used], []
        weights = score.weights[rows]
        for predictions in self.predictions:
            values = score.values(predictions[self.used], rows)
            mean = weights @ values / weights.sum()
            found.append((score.finish(mean) + score.slope(mean) * (values - mean))[:, 0])
        return found, weights

    def asymptotic(self) -> Difference:
        """Return the scores on the experiments, with the standard error over units."""
        scores = self.scores[0], self.scores[1]
        if not self.by.objective.pooled:
            se, freedom = over_experiments(self.splits[0] - self.splits[1], self.tested)
            return scores, float(se[0]), freedom
        try:
            linear, weights = self._linear()
        except NoRowMean:
            _, se = jackknife(self._difference, self.unit)
            few = min(MAX_BLOCKS, np.unique(self.unit).size) - 1
            return scores, float(se[0]), few
        values = (linear[0] - linear[1])[:, None]
        _, variance = mean_and_variance(values, weights, self.unit)
        freedom_of = self.by.units.freedom(self.rows[self.used])
        return scores, float(np.sqrt(variance[0])), freedom_of

    def _difference(self, places: IntArray) -> FloatArray:
        """Return the difference of the scores on some of the tested rows."""
        at = self.used[places]
        test = Ragged(self.rows[at], np.array([0, at.size]))
        one, other = (self.by.whole(self.predictions[k][at], test)[0] for k in (0, 1))
        return one - other

    def nested(self, n_splits: int, n_partitions: int, seed: int) -> Difference:
        """Return the means over random partitions, with the error of Bates et al. (2024)."""
        (one, other), by = self.known, self.by
        if one is None or other is None:
            raise NotSupportedError(
                'method="nested" asks models for new held-out predictions; got predictions that '
                "were made beforehand. Use another method.",
                argument="method",
            )
        require_exchangeable(by, 'method="nested"')
        score = by.row_mean(self.rows)
        if not by.objective.pooled or score.metric is not None:
            raise NotSupportedError(
                f'method="nested" compares means over rows; {score.name} is not one, or '
                'pooled=False averages over experiments. Use method="asymptotic".',
                argument="method",
            )

        def mean_of(predictions: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
            used = by.training.weights[rows] > 0
            rows, (a, b) = rows[used], np.split(predictions[used], 2, axis=1)
            one, other = score.values(a, rows), score.values(b, rows)
            values = np.hstack([one, other, one - other])
            return mean_and_variance(values, score.weights[rows], by.units.code[rows])

        both = partial(self._side_by_side, one, other)
        found = nested_estimate(by, both, mean_of, n_splits, n_partitions, seed)
        freedom = by.units.freedom(self.rows[self.used])
        first, second, _ = found.mean.tolist()
        return (first, second), float(found.standard_error[2]), freedom

    def _side_by_side(
        self, one: Fitted, other: Fitted, experiments: Experiments
    ) -> tuple[Experiments, IntArray, FloatArray]:
        """Return what was tested, and predictions of both models side by side."""
        tested, source, values = self._predict(one, experiments)
        second, _, others = self._predict(other, experiments)
        if not np.array_equal(tested.test.values, second.test.values):
            raise NotSupportedError(
                'method="nested" needs models that test the same rows; held_out_basis="skip" '
                "leaves out those of each model's own basis. Use another method.",
                argument="method",
            )
        return tested, source, np.hstack([values, others])


def _of_predictions(by: Fitted, i: int, given: Any) -> tuple[IntArray, IntArray, FloatArray]:
    """Return (experiment, row, prediction) from predictions of any origin."""
    training, experiments = by.training, by.training.experiments
    test = experiments.test
    if isinstance(given, NestedPredictions):
        if not np.array_equal(given.experiments.test.values, test.values):
            raise InvalidInputError(
                f"the nested predictions (entry {i}) have other test rows than the experiments. "
                "Pass cv=, the outer experiments of `nested`, to compare.",
                argument="cv",
            )
        return test.owners, test.values, given.values
    m, v = training.weights.size, 1 if training.labels.ndim == 1 else training.labels.shape[1]
    if isinstance(given, list | tuple) and len(given) == len(experiments) and np.ndim(given[0]) > 0:
        parts = [np.asarray(part) for part in given]
        if [len(part) for part in parts] != test.sizes.tolist():
            raise InvalidInputError(
                f"predictions (entry {i}) must hold one array per experiment, with one prediction "
                "for each of its test rows in their order.",
                argument="predictions",
            )
        return test.owners, test.values, _as_values(by, i, np.concatenate(parts))
    array = np.asarray(given)
    if array.ndim not in (1, 2) or len(array) != m:
        raise InvalidInputError(
            f"entry {i} must be a fitted model, an array with one prediction for each of the {m} "
            f"rows ({v} target{'s' if v > 1 else ''}), or a list with one array per experiment; "
            f"got {type(given).__name__} of shape {array.shape}.",
            argument="models",
        )
    if int(np.bincount(test.values).max()) > 1:
        raise InvalidInputError(
            f"rows are tested several times, so predictions (entry {i}) must be a list with one "
            "array per experiment.",
            argument="models",
        )
    return test.owners, test.values, _as_values(by, i, array[test.values])


def _as_values(by: Fitted, i: int, array: AnyArray) -> FloatArray:
    """Return predictions (k, v); labels of a classifier become decision values."""
    classes = by.objective.classes
    if classes is None:
        width = by.training.labels.shape[1]
    else:
        width = 1 if len(classes) == 2 else len(classes)
        if array.ndim == 1 and np.isin(array, classes).all():
            index = np.searchsorted(classes, array)
            if width == 1:
                return np.where(index == 1, 1.0, -1.0)[:, None]
            return 2.0 * np.eye(width)[index] - 1.0
    values = array[:, None] if array.ndim == 1 else array
    if values.shape[1] != width or values.dtype.kind not in "fiub":
        raise InvalidInputError(
            f"predictions (entry {i}) must be numbers in {width} column{'s' if width > 1 else ''}"
            f"{'' if classes is None else ', or class labels'}; got shape {array.shape} of "
            f"{array.dtype}.",
            argument="predictions",
        )
    return values.astype(float)


def _aligned(
    found: Sequence[tuple[IntArray, IntArray, FloatArray]], experiments: Experiments, m: int
) -> tuple[Experiments, list[FloatArray]]:
    """Return what all are tested on, with the predictions of each in one order."""
    keys = [owner * m + row for owner, row, _ in found]
    common = keys[0]
    for key in keys[1:]:
        common = common[np.isin(common, key)]
    predictions = []
    for key, (_, _, values) in zip(keys, found, strict=True):
        order = np.argsort(key, kind="stable")
        predictions.append(values[order[np.searchsorted(key[order], common)]])
    owner = common // m
    used, count = np.unique(owner, return_counts=True)
    ptr = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    return Experiments(experiments.held_out.items(used), Ragged(common % m, ptr)), predictions
