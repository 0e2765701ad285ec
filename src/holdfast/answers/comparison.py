"""Is one model better than another: the difference of their scores, with an interval.

Two models are compared on the same experiments, row by row: what they have in common (hard rows,
noise) cancels in the difference. Rows that are tested several times, and rows of a group that is
held out whole, count as one observation.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.answers.certainty import over_experiments, random_splits, require_exchangeable
from holdfast.answers.fitted import Fitted
from holdfast.answers.nested import NestedPredictions
from holdfast.answers.partitions import nested_estimate
from holdfast.core.experiments import Experiments, Ragged
from holdfast.data.values import check_choice, check_level, seed_of, whole_number
from holdfast.exceptions import HoldfastError, InvalidInputError, NotSupportedError
from holdfast.scores.errors import Estimate, NoRowMean, jackknife, mean_and_variance
from holdfast.scores.metric import printed
from holdfast.scores.scorers import resolve_scoring
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
        (first, second), shown = self.names, printed(self.scoring)
        one, other = shown.of(self.scores).tolist()
        if self.difference == 0.0 and self.low == self.high:
            return f"<{first} and {second} have the same {shown.label}, {one:.4g}>"
        verb = "is better than" if self.difference >= 0 else "is worse than"
        chance = "could be" if self.low <= 0.0 <= self.high else "is more than"
        ends = np.sort(shown.of([self.scores[1] + self.low, self.scores[1] + self.high]) - other)
        return (
            f"<{first} {verb} {second}, which {chance} chance: {shown.label} {one:.4g} against "
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
    models = [model for model in known if model is not None]
    if not models:
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
    by = _compared_by(models[0], scoring, cv, groups)
    found = [
        _of_predictions(by, i, entry) if model is None else _of_model(by, i, model)
        for i, (entry, model) in enumerate(zip(entries, known, strict=True))
    ]
    tested, predictions = _aligned(found, by.training.experiments, by.training.weights.size)
    called = _names(known, names)
    made = None
    if method == "nested":
        made = _nested(by, models, tested.test.values, splits, count, seed)
    elif method == "auto" and len(models) == 2:
        with suppress(HoldfastError):  # no mean over rows, or a part without a score
            if fewer := random_splits(by, models, splits, count):
                made = _nested(by, models, tested.test.values, fewer, count, seed)
    scores, gap = made or _asymptotic(by, tested, predictions)
    low, high = gap.ends(level)
    return Comparison(
        difference=scores[0] - scores[1],
        low=float(low[0]),
        high=float(high[0]),
        method="nested" if made else "asymptotic",
        scores=scores,
        names=called,
        scoring=by.objective.scoring.name,
        level=level,
        units=by.units.name if by.objective.pooled else "experiments",
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


def _compared_by(first: Fitted, scoring: Any, cv: Any, groups: Any) -> Fitted:
    """Return the first model, with the experiments and the score to compare by."""
    objective, training = first.objective, first.training
    if scoring is not None:
        metric = resolve_scoring(scoring, classes=objective.classes)
        objective = replace(objective, scoring=metric)
    objective.scoring.refuse_density("compare")
    given = None if groups is None else check_groups(groups, training.weights.size)
    if cv is not None:
        labels = training.groups if given is None else given
        first = first.changed(experiments=first.experiments_of(cv, labels))
        objective = replace(objective, cv=cv)
    # One score for all targets, whatever penalties they have.
    return replace(first, objective=replace(objective, per_target=False), given_units=given)


# --- differences ----------------------------------------------------------------------------------

#: Both scores, and the first minus the second.
Difference = tuple[tuple[float, float], Estimate]


def _asymptotic(by: Fitted, tested: Experiments, predictions: Sequence[FloatArray]) -> Difference:
    """Return the scores on the experiments, with the standard error over units."""

    def scores(test: Ragged, at: IntArray | slice) -> tuple[FloatArray, FloatArray]:
        whole = [by.whole(p[at], test) for p in predictions]
        return np.array([score[0] for score, _ in whole]), np.array([own for _, own in whole])

    (one, other), splits = scores(tested.test, slice(None))
    both, rows = (float(one), float(other)), tested.test.values
    if not by.objective.pooled:
        return both, over_experiments(np.array([one - other]), splits[0] - splits[1], tested)
    used = np.flatnonzero(by.training.weights[rows] > 0)
    unit = by.units.code[rows[used]]

    def difference(places: IntArray) -> FloatArray:
        at = used[places]
        return -np.diff(scores(Ragged(rows[at], np.array([0, at.size])), at)[0])

    try:
        score = by.row_mean(rows)
    except NoRowMean:
        return both, jackknife(difference, unit)
    weights, values = score.weights[rows[used]], np.zeros((used.size, 1))
    for p, sign in zip(predictions, (1.0, -1.0), strict=True):
        own = score.values(p[used], rows[used])
        mean = weights @ own / weights.sum()
        values += sign * (score.finish(mean) + score.slope(mean) * (own - mean))
    _, variance = mean_and_variance(values, weights, unit)
    return both, Estimate(np.array([one - other]), np.sqrt(variance), by.freedom(rows))


def _nested(
    by: Fitted, models: Sequence[Fitted], rows: IntArray, n_splits: int, count: int, seed: int
) -> Difference:
    """Return the means over random partitions, with the error of Bates et al. (2024)."""
    if len(models) < 2:
        raise NotSupportedError(
            'method="nested" asks models for new held-out predictions; got predictions that '
            "were made beforehand. Use another method.",
            argument="method",
        )
    require_exchangeable(by, 'method="nested"')
    score, training = by.row_mean(rows), by.training
    if not by.objective.pooled or score.root:
        raise NotSupportedError(
            f'method="nested" compares means over rows; {score.metric.name} is not one, or '
            'pooled=False averages over experiments. Use method="asymptotic".',
            argument="method",
        )

    def mean_of(predictions: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        used = training.weights[rows] > 0
        rows = rows[used]
        one, other = (score.values(p, rows) for p in np.split(predictions[used], 2, axis=1))
        values = np.hstack([one, other, one - other])
        return mean_and_variance(values, score.weights[rows], by.units.code[rows])

    def side_by_side(experiments: Experiments) -> tuple[Experiments, IntArray, FloatArray]:
        (tested, source, values), (second, _, others) = (m.predict(experiments) for m in models)
        if not np.array_equal(tested.test.values, second.test.values):
            raise NotSupportedError(
                'method="nested" needs models that test the same rows; held_out_basis="skip" '
                "leaves out those of each model's own basis. Use another method.",
                argument="method",
            )
        return tested, source, np.hstack([values, others])

    found = nested_estimate(by, side_by_side, mean_of, n_splits, count, seed)
    one, other, _ = found.mean.tolist()
    gap = Estimate(np.array([one - other]), found.standard_error[2:], by.freedom(rows))
    return (one, other), gap


# --- what is compared -----------------------------------------------------------------------------


def _of_model(by: Fitted, i: int, model: Fitted) -> tuple[IntArray, IntArray, FloatArray]:
    """Return (experiment, row, prediction) of everything that a model is tested on."""
    mine, ours = model.training, by.training
    same = mine.labels.shape == ours.labels.shape and np.array_equal(mine.labels, ours.labels)
    if not same or not np.array_equal(mine.score_weights, ours.score_weights):
        raise InvalidInputError(
            f"models must be fitted on the same rows, targets and weights, in the same order; "
            f"those of model {i} differ from the first.",
            argument="models",
        )
    tested, source, values = model.predict(ours.experiments)
    return source[tested.test.owners], tested.test.values, values


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
