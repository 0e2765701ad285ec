"""Is one model better than another: the difference of their scores, with an interval.

Models are compared on the same experiments, row by row: what two models have in common (hard rows,
noise) cancels in the difference. Rows that are tested several times, and rows of a group that is
held out whole, count as one observation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations
from typing import Any, Literal

import numpy as np
from scipy.stats import norm, t

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.answers.certainty import over_experiments, quantile, require_exchangeable
from holdfast.answers.fitted import Fitted
from holdfast.answers.nested import NestedPredictions
from holdfast.answers.partitions import nested_estimate
from holdfast.answers.row_scores import NoRowMean
from holdfast.answers.scored import refuse_density
from holdfast.data.frames import make_frame
from holdfast.data.numbers import check_choice, check_level, whole_number
from holdfast.data.seeds import seed_of
from holdfast.exceptions import InvalidInputError, NotSupportedError
from holdfast.experiments import Experiments, Ragged
from holdfast.experiments.splits import check_groups
from holdfast.scores.standard_errors import jackknife, mean_and_variance, nadeau_bengio

__all__ = ["Comparison", "compare", "holm"]

CompareMethod = Literal["auto", "asymptotic", "corrected", "nested"]
METHODS: tuple[CompareMethod, ...] = ("auto", "asymptotic", "corrected", "nested")


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Differences of scores; numbers for two models, arrays over `pairs` for more.

    Attributes
    ----------
    names : list of str
    scores : ndarray of shape (n,)
        Score of each model on the same experiments.
    pairs : list of (int, int)
        Which models each difference is of: the score of the first minus that of the second.
    difference, low, high, standard_error : float or ndarray
        With an interval at `level`, for each pair by itself.
    p_value, p_holm : float or ndarray
        Two-sided; and corrected for the number of pairs (Holm 1979).
    level : float
    method : str
    scoring : str
    units : str
        What counts as independent: "rows", "groups", "blocks" or "experiments".
    unit_labels : ndarray of shape (u,)
        Row numbers, labels of groups, or numbers of blocks or experiments.
    contributions : ndarray of shape (u, n pairs)
        What each unit adds to the difference of each pair; they sum to it.
    """

    names: list[str]
    scores: FloatArray
    pairs: list[tuple[int, int]]
    difference: float | FloatArray
    low: float | FloatArray
    high: float | FloatArray
    standard_error: float | FloatArray
    p_value: float | FloatArray
    p_holm: float | FloatArray
    level: float
    method: str
    scoring: str
    units: str
    unit_labels: AnyArray
    contributions: FloatArray
    frames: str | None = None

    def __repr__(self) -> str:
        lines = [f"<{self.scoring}, {self.level:.0%} by {self.method}, {self.units}"]
        table = (self.difference, self.low, self.high, self.p_holm)
        rows = zip(self.pairs, *(np.atleast_1d(column) for column in table), strict=True)
        for (i, j), d, low, high, p in rows:
            names = f"{self.names[i]} − {self.names[j]}"
            lines.append(f"  {names}: {d:.4g} [{low:.4g}, {high:.4g}], p = {p:.3g}")
        return "\n".join(lines) + ">"

    def to_frame(self, library: str | None = None) -> Any:
        """Return the table of pairs.

        Parameters
        ----------
        library : {"pandas", "polars"} or None
            Whose frame; None: the library that X came in, else pandas.
        """
        first, second = zip(*self.pairs, strict=True)
        names = np.array(self.names, dtype=object)
        columns = {"model": names[list(first)], "against": names[list(second)]}
        for name in ("difference", "low", "high", "standard_error", "p_value", "p_holm"):
            columns[name] = np.atleast_1d(getattr(self, name))
        return make_frame(columns, library or self.frames)

    def decisive(self, pair: int = 0, library: str | None = None) -> Any:
        """Return rows, or groups, in the order of what they add to the difference of a pair.

        Parameters
        ----------
        pair : int, default 0
            Which of `pairs`.
        library : {"pandas", "polars"} or None
            Whose frame.

        Returns
        -------
        frame
            ``row`` or ``group``, ``contribution`` to the difference, ``left``: the difference
            without this unit and all above it, in the same units.
        """
        order, left = self._order(pair)
        name = self.units.removesuffix("s")
        columns = {
            name: self.unit_labels[order],
            "contribution": self.contributions[order, pair],
            "left": left,
        }
        return make_frame(columns, library or self.frames)

    def n_decisive(self, pair: int = 0) -> int:
        """Return how many rows, or groups, must be left out for the other model to be better."""
        _, left = self._order(pair)
        sign = np.sign(np.atleast_1d(self.difference)[pair])
        turned = np.flatnonzero(sign * left <= 0)
        return int(turned[0]) + 1 if turned.size else len(left)

    def _order(self, pair: int) -> tuple[IntArray, FloatArray]:
        """Return units by contribution in favour of the better model, and what is left of it."""
        parts = self.contributions[:, pair]
        sign = 1.0 if np.atleast_1d(self.difference)[pair] >= 0 else -1.0
        order = np.argsort(-sign * parts, kind="stable")
        return order, parts.sum() - np.cumsum(parts[order])


def compare(
    model_a: Any,
    model_b: Any,
    *more: Any,
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
    """Return the differences between the scores of models on the same experiments.

    Parameters
    ----------
    model_a, model_b, *more : fitted models or predictions
        Models fitted on the same rows and targets, at the penalty that each has chosen; or
        held-out predictions of any other library on the same experiments: an array with one
        prediction per row (decision values or labels of a classifier), a list with one array per
        experiment, or what `nested` returned. At least one must be a model.
    level : float, default 0.9
        Confidence level.
    method : {"auto", "asymptotic", "corrected", "nested"}, default "auto"
        "asymptotic": the standard error of the differences over rows, groups, blocks of rows that
        are held out together (time, neighbourhoods), or experiments (``pooled=False``).
        "corrected": Nadeau and Bengio (2003) for rows that are tested repeatedly. "auto": the one
        of these two that suits the experiments. "nested": Bates et al. (2024) for the difference,
        from random partitions; for models only, whose rows or groups are exchangeable.
    scoring : str, callable or None
        What to compare by; None: as the first model does.
    cv : optional
        Experiments to compare on; None: those of the first model.
    groups : array-like of shape (m,), optional
        Groups that count as the independent units; None: those of the first model, if the
        experiments hold out whole groups.
    names : sequence of str, optional
        Names of the models.
    n_splits, n_partitions : int
        Folds of a random partition, and how many partitions, for ``method="nested"``.
    random_state : int, RandomState or None, default 0
        Seed of the partitions.

    Returns
    -------
    Comparison
        ``.difference`` (score of a minus score of b), ``.low``, ``.high``, ``.p_value``,
        ``.to_frame()``, ``.decisive()``: which rows or groups decide.

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
    entries = [model_a, model_b, *more]
    known: list[Fitted | None] = [
        entry._asked() if hasattr(entry, "_asked") else None for entry in entries
    ]
    if not any(known):
        raise InvalidInputError(
            "compare needs at least one fitted model of this package, which knows the experiments; "
            "got predictions only.",
            argument="models",
        )
    level = check_level(level)
    check_choice("method", method, METHODS)
    splits, count = (
        whole_number("n_splits", n_splits, 2),
        whole_number("n_partitions", n_partitions),
    )
    seed = seed_of(random_state)
    table = Table(entries, known, scoring, cv, groups)
    called = _names(entries, known, names)
    pairs = list(combinations(range(len(entries)), 2))
    if method == "auto":
        method = "corrected" if table.repeated else "asymptotic"
    if method == "nested":
        found = [table.nested(i, j, splits, count, seed) for i, j in pairs]
    else:
        found = [getattr(table, method)(i, j) for i, j in pairs]
    freedom = found[0][2]
    difference = np.array([d for d, _, _ in found])
    se = np.array([s for _, s, _ in found])
    wide = quantile(level, freedom) * se
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(se > 0, np.abs(difference) / se, np.where(difference == 0, 0.0, np.inf))
    p = 2.0 * (norm.sf(ratio) if freedom is None else t.sf(ratio, freedom))
    labels, contributions = table.contributions(pairs)

    told = table.by.told

    def plain(x: FloatArray) -> float | FloatArray:
        return float(x[0]) if len(pairs) == 1 else x

    return Comparison(
        names=called,
        scores=told(table.scores),
        pairs=pairs,
        difference=told(plain(difference)),
        low=told(plain(difference - wide)),
        high=told(plain(difference + wide)),
        standard_error=told(plain(se)),
        p_value=plain(p),
        p_holm=plain(holm(p)),
        level=level,
        method=method,
        scoring=table.by.goal.scoring.name,
        units=table.units,
        unit_labels=labels,
        contributions=told(contributions),
        frames=table.by.frames,
    )


def holm(p: FloatArray) -> FloatArray:
    """Return p-values corrected for their number by the step-down method of Holm (1979)."""
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def _names(
    entries: Sequence[Any], known: Sequence[Fitted | None], names: Sequence[str] | None
) -> list[str]:
    if names is not None:
        if len(names) != len(entries) or len(set(names)) != len(names):
            raise InvalidInputError(
                f"names must hold {len(entries)} different names, one for each model; got "
                f"{names!r}.",
                argument="names",
            )
        return list(names)
    return [
        f"{'model' if found is not None else 'predictions'} {chr(ord('a') + i)}"
        for i, found in enumerate(known)
    ]


#: A difference, its standard error, and the degrees of freedom of that; None: very many.
Difference = tuple[float, float, int | None]


class Table:
    """Predictions of all models for the rows that all of them are tested on, in one unit.

    Parameters
    ----------
    entries : sequence
        Models, or predictions.
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
        goal, problem, m = first.goal, first.problem, first.problem.weights.size
        if scoring is not None:
            goal = replace(goal, scoring=goal.scoring.other(scoring))
        refuse_density(goal.scoring, "compare")
        given = None if groups is None else check_groups(groups, m)
        self.labels = problem.groups if given is None else given
        if cv is not None:
            first = first.changed(experiments=first.experiments_of(cv, self.labels))
            goal = replace(goal, cv=cv)
        # One score for all targets, whatever penalties they have.
        goal = replace(goal, per_target=False)
        self.by, self.known = replace(first, goal=goal, given_units=given), known
        found = [
            _of_predictions(self.by, i, entries[i]) if model is None else self._of_model(i, model)
            for i, model in enumerate(known)
        ]
        self.tested, self.predictions = _aligned(found, self.by.problem.experiments, m)
        self.rows = self.tested.test.values
        self.repeated = int(np.bincount(self.rows).max()) > 1
        self.used = np.flatnonzero(problem.weights[self.rows] > 0)
        self.unit = self.by.units.code[self.rows[self.used]]
        whole = [self.by.whole(p, self.tested.test) for p in self.predictions]
        self.scores = np.array([score[0] for score, _ in whole])
        self.splits = [splits for _, splits in whole]

    # -- what is compared --------------------------------------------------------------------------

    def _of_model(self, i: int, model: Fitted) -> tuple[IntArray, IntArray, FloatArray]:
        """Return (experiment, row, prediction) of everything that a model is tested on."""
        mine, ours = model.problem, self.by.problem
        same = mine.labels.shape == ours.labels.shape and np.array_equal(mine.labels, ours.labels)
        if not same or not np.array_equal(mine.weights, ours.weights):
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
        return replace(model, goal=self.by.goal).predict(experiments)

    # -- differences -------------------------------------------------------------------------------

    @cached_property
    def linear(self) -> tuple[list[FloatArray], FloatArray]:
        """Values of each model for each tested row (k,) with the score as mean; weights."""
        score, rows, found = self.by.row_score(self.rows), self.rows[self.used], []
        weights = score.weights[rows]
        for predictions in self.predictions:
            values = score.values(predictions[self.used], rows)
            mean = weights @ values / weights.sum()
            found.append((score.finish(mean) + score.slope(mean) * (values - mean))[:, 0])
        return found, weights

    def asymptotic(self, i: int, j: int) -> Difference:
        """Return a difference with the standard error over units, and its degrees of freedom."""
        if not self.by.goal.pooled:
            se, freedom = over_experiments(self.splits[i] - self.splits[j], self.tested)
            return self.scores[i] - self.scores[j], float(se[0]), freedom
        try:
            linear, weights = self.linear
        except NoRowMean:
            _, se = jackknife(partial(self._difference, i, j), self.unit)
            few = min(20, np.unique(self.unit).size) - 1
            return self.scores[i] - self.scores[j], float(se[0]), few
        values = (linear[i] - linear[j])[:, None]
        _, variance = mean_and_variance(values, weights, self.unit)
        freedom_of = self.by.units.freedom(self.rows[self.used])
        return self.scores[i] - self.scores[j], float(np.sqrt(variance[0])), freedom_of

    def _difference(self, i: int, j: int, places: IntArray) -> FloatArray:
        """Return the difference of the scores of some of the tested rows."""
        at = self.used[places]
        test = Ragged(self.rows[at], np.array([0, at.size]))
        one, other = (self.by.whole(self.predictions[k][at], test)[0] for k in (i, j))
        return one - other

    def corrected(self, i: int, j: int) -> Difference:
        """Return a difference with the standard error of Nadeau and Bengio (2003)."""
        gap = self.splits[i] - self.splits[j]
        se, _ = nadeau_bengio(gap, self.tested, self.by.problem.weights)
        return self.scores[i] - self.scores[j], float(se[0]), gap.shape[1] - 1

    def nested(self, i: int, j: int, n_splits: int, n_partitions: int, seed: int) -> Difference:
        """Return a difference with the standard error of Bates et al. (2024)."""
        one, other, by = self.known[i], self.known[j], self.by
        if one is None or other is None:
            raise NotSupportedError(
                'method="nested" asks models for new held-out predictions; got predictions that '
                "were made beforehand. Use another method.",
                argument="method",
            )
        require_exchangeable(by, 'method="nested"')
        score = by.row_score(self.rows)
        probe = np.array([-1.0, -4.0])
        if not by.goal.pooled or not np.array_equal(score.finish(probe), probe):
            raise NotSupportedError(
                f'method="nested" compares means over rows; {score.name} is not one, or '
                'pooled=False averages over experiments. Use method="asymptotic".',
                argument="method",
            )

        def mean_of(predictions: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
            used = by.problem.weights[rows] > 0
            rows, (a, b) = rows[used], np.split(predictions[used], 2, axis=1)
            values = score.values(a, rows) - score.values(b, rows)
            return mean_and_variance(values, score.weights[rows], by.units.code[rows])

        both = partial(self._side_by_side, one, other)
        found = nested_estimate(by, both, mean_of, n_splits, n_partitions, seed)
        freedom = by.units.freedom(self.rows[self.used])
        return float(found.mean[0]), float(found.standard_error[0]), freedom

    @property
    def units(self) -> str:
        """What counts as independent."""
        return self.by.units.name if self.by.goal.pooled else "experiments"

    def contributions(self, pairs: Sequence[tuple[int, int]]) -> tuple[AnyArray, FloatArray]:
        """Return the labels of the units, and what each adds to each difference."""
        if not self.by.goal.pooled:
            parts = [(self.splits[i] - self.splits[j])[0] for i, j in pairs]
            defined = np.isfinite(parts).all(axis=0)
            share = np.array(parts)[:, defined].T / max(1, int(defined.sum()))
            return np.flatnonzero(defined), share
        codes, code = np.unique(self.unit, return_inverse=True)
        labels: AnyArray = codes
        if self.units == "groups" and self.labels is not None:
            labels = np.unique(self.labels)[codes]
        try:
            linear, weights = self.linear
        except NoRowMean:  # no metric to name
            return labels, np.full((codes.size, len(pairs)), np.nan)
        share = weights / weights.sum()
        parts = [
            np.bincount(code, weights=share * (linear[i] - linear[j]), minlength=codes.size)
            for i, j in pairs
        ]
        return labels, np.column_stack(parts)

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
    problem, experiments = by.problem, by.problem.experiments
    test = experiments.test
    if isinstance(given, NestedPredictions):
        if not np.array_equal(given.experiments.test.values, test.values):
            raise InvalidInputError(
                f"the nested predictions (entry {i}) have other test rows than the experiments. "
                "Pass cv=, the outer experiments of `nested`, to compare.",
                argument="cv",
            )
        return test.owners, test.values, given.values / by.unit
    m, v = problem.weights.size, 1 if problem.labels.ndim == 1 else problem.labels.shape[1]
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
    classes = by.goal.classes
    if classes is None:
        width = by.problem.labels.shape[1]
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
    return values.astype(float) / by.unit


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
