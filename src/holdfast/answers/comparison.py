"""Is one model better than another: the difference of their scores, with an interval.

Models are compared on the same experiments, row by row: what two models have in common (hard rows,
noise) cancels in the difference. Rows that are tested several times, and rows of a group that is
held out as a whole, count as one observation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
from scipy.stats import norm, t

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.answers.certainty import (
    Asked,
    Estimate,
    held_out_units,
    nadeau_bengio,
    nested_estimate,
    quantile,
    splits_of,
)
from holdfast.answers.evidence import Evidence, aligned, evidence_of, of_predictions
from holdfast.answers.question import Judge
from holdfast.answers.row_scores import RowScore, mean_and_variance, row_score
from holdfast.data.frames import make_frame
from holdfast.exceptions import InvalidInputError, NotSupportedError
from holdfast.experiments import Experiments, as_experiments
from holdfast.experiments.splits import check_groups
from holdfast.scores.scoring import resolve_scoring

__all__ = ["Comparison", "compare", "holm"]

CompareMethod = Literal["auto", "asymptotic", "corrected", "nested"]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Differences of scores; numbers for two models, arrays over `pairs` for more.

    Attributes
    ----------
    names : list of str
    scores : ndarray of shape (n,)
        Score of each model on the same experiments.
    pairs : list of (int, int)
        Which models each difference is of: the score of the first less that of the second.
    difference, low, high, standard_error : float or ndarray
        With an interval at `level`, for each pair by itself.
    p_value, p_holm : float or ndarray
        Two-sided; and corrected for the number of pairs (Holm 1979).
    level : float
    method : str
    scoring : str
    units : str
        What counts as independent: "rows" or "groups".
    unit_labels : ndarray of shape (u,)
        Row numbers, or labels of groups.
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
        name = "group" if self.units == "groups" else "row"
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
    random_state: int = 0,
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
        "asymptotic": the standard error of the differences over rows, or groups. "corrected":
        Nadeau and Bengio (2003) for rows that are tested repeatedly. "auto": the one of these two
        that suits the experiments. "nested": Bates et al. (2024) for the difference, from random
        partitions; for models only.
    scoring : str, callable or None
        What to compare by; None: as the first model does.
    cv : optional
        Experiments to compare on; None: those of the first model.
    groups : array-like of shape (m,), optional
        Groups that count as the independent units; None: those of the first model, if the
        experiments hold out whole groups.
    names : sequence of str, optional
        What the models are called.
    n_splits, n_partitions, random_state : int
        For ``method="nested"``.

    Returns
    -------
    Comparison
        ``.difference`` (score of a less score of b), ``.low``, ``.high``, ``.p_value``,
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
    known = [evidence_of(entry) for entry in entries]
    first = next((found for found in known if found is not None), None)
    if first is None:
        raise InvalidInputError(
            "compare needs at least one fitted model of this package, which knows the experiments; "
            "got predictions only."
        )
    if not 0.0 < level < 1.0:
        raise InvalidInputError(f"level must lie between 0 and 1, such as 0.9; got {level!r}.")
    table = _Table(first, entries, known, scoring, cv, groups)
    called = _names(entries, known, names)
    pairs = list(combinations(range(len(entries)), 2))
    if method == "auto":
        method = "corrected" if table.repeated else "asymptotic"
    if method == "asymptotic":
        found = [table.asymptotic(i, j) for i, j in pairs]
        freedom = table.n_units - 1 if table.grouped else None
    elif method == "corrected":
        found = [table.corrected(i, j) for i, j in pairs]
        freedom = len(table.tested) - 1
    elif method == "nested":
        found = [table.nested(i, j, n_splits, n_partitions, random_state) for i, j in pairs]
        freedom = table.n_units - 1 if table.grouped else None
    else:
        raise InvalidInputError(
            f"method must be 'auto', 'asymptotic', 'corrected' or 'nested'; got {method!r}."
        )
    difference = np.array([d for d, _ in found])
    se = np.array([s for _, s in found])
    wide = quantile(level, freedom) * se
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(se > 0, np.abs(difference) / se, np.where(difference == 0, 0.0, np.inf))
    p = 2.0 * (norm.sf(ratio) if freedom is None else t.sf(ratio, freedom))
    labels, contributions = table.contributions(pairs)

    def plain(x: FloatArray) -> float | FloatArray:
        return float(x[0]) if len(pairs) == 1 else x

    return Comparison(
        names=called,
        scores=table.scores(),
        pairs=pairs,
        difference=plain(difference),
        low=plain(difference - wide),
        high=plain(difference + wide),
        standard_error=plain(se),
        p_value=plain(p),
        p_holm=plain(holm(p)),
        level=float(level),
        method=method,
        scoring=table.judge.scoring.name,
        units="groups" if table.grouped else "rows",
        unit_labels=labels,
        contributions=contributions,
        frames=first.judge.frames,
    )


def holm(p: FloatArray) -> FloatArray:
    """Return p-values corrected for their number by the step-down method of Holm (1979)."""
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def _names(
    entries: Sequence[Any], known: Sequence[Evidence | None], names: Sequence[str] | None
) -> list[str]:
    if names is not None:
        if len(names) != len(entries) or len(set(names)) != len(names):
            raise InvalidInputError(
                f"names must hold {len(entries)} different names, one for each model; got "
                f"{names!r}."
            )
        return list(names)
    return [
        f"{'model' if found is not None else 'predictions'} {chr(ord('a') + i)}"
        for i, found in enumerate(known)
    ]


class _Table:
    """Predictions of all models for the rows that all of them are tested on."""

    def __init__(
        self,
        first: Evidence,
        entries: Sequence[Any],
        known: Sequence[Evidence | None],
        scoring: Any,
        cv: Any,
        groups: Any,
    ) -> None:
        judge = first.judge
        if scoring is not None:
            judge = _scored_by(judge, scoring)
        self.judge, self.known = _together(judge), known
        m = judge.weights.size
        labels = first.groups if groups is None else check_groups(groups, m)
        experiments = first.experiments
        if cv is not None:
            experiments = as_experiments(
                cv,
                m,
                X=first.X,
                y=judge.labels,
                groups=labels,
                classifier=judge.classes is not None,
            )
        units = held_out_units(experiments, labels, m)
        if groups is not None and labels is not None:
            units = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        self.units, self.grouped, self.labels = units, units is not None, labels
        unit = np.arange(m) if units is None else units
        found = [
            self._of_model(i, entry, judge, experiments)
            if entry is not None
            else of_predictions(i, entries[i], judge, experiments)
            for i, entry in enumerate(known)
        ]
        self.tested, self.predictions = aligned(found, experiments, m)
        self.rows = self.tested.test.values
        self.repeated = int(np.bincount(self.rows).max()) > 1
        self.used = judge.weights[self.rows] > 0
        self.weights, self.unit = judge.weights[self.rows][self.used], unit[self.rows][self.used]
        self._score: RowScore | None = None
        self._linear: list[FloatArray] | None = None

    def _of_model(
        self, i: int, model: Evidence, judge: Judge, experiments: Experiments
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """Return (experiment, row, prediction) of everything that a model is tested on."""
        mine = model.judge
        same = mine.labels.shape == judge.labels.shape and np.array_equal(mine.labels, judge.labels)
        if not same or not np.array_equal(mine.weights, judge.weights):
            raise InvalidInputError(
                f"models must be fitted on the same rows, targets and weights, in the same order; "
                f"those of model {i} differ from the first."
            )
        tested, source, values = Asked(model.subject, mine, model.alpha, None).predict(experiments)
        return source[tested.test.owners], tested.test.values, values

    @property
    def n_units(self) -> int:
        """How many rows, or groups, are compared."""
        return int(np.unique(self.unit).size)

    @property
    def score(self) -> RowScore:
        """The score as a mean over rows."""
        if self._score is None:
            judge = self.judge
            self._score = row_score(judge.scoring, judge.labels, judge.weights, per_target=False)
        return self._score

    @property
    def linear(self) -> list[FloatArray]:
        """Values of each model for each tested row (k,), whose weighted mean is its score."""
        if self._linear is None:
            score, rows, found = self.score, self.rows[self.used], []
            for predictions in self.predictions:
                values = score.values(predictions[self.used], rows)
                mean = self.weights @ values / self.weights.sum()
                found.append((score.finish(mean) + score.slope(mean) * (values - mean))[:, 0])
            self._linear = found
        return self._linear

    def scores(self) -> FloatArray:
        """Return the score of each model, on the pooled rows."""
        return np.array(
            [
                self.judge.scoring.score(
                    self.judge.labels[self.rows], p, self.judge.weights[self.rows]
                )
                for p in self.predictions
            ]
        )

    def asymptotic(self, i: int, j: int) -> tuple[float, float]:
        """Return a difference with the standard error over units."""
        values = (self.linear[i] - self.linear[j])[:, None]
        mean, variance = mean_and_variance(values, self.weights, self.unit)
        return float(mean[0]), float(np.sqrt(variance[0]))

    def corrected(self, i: int, j: int) -> tuple[float, float]:
        """Return a difference with the standard error of Nadeau and Bengio (2003)."""
        splits = [
            splits_of(self.judge, self.tested, self.predictions[k], slice(None)) for k in (i, j)
        ]
        gap = (splits[0] - splits[1])[None]
        if gap.size < 2 or np.isnan(gap).any():
            raise InvalidInputError(
                'method="corrected" needs at least two experiments, each with a defined score. '
                "Use larger test sets or another scoring."
            )
        se, _ = nadeau_bengio(gap, self.tested, self.judge.weights)
        return float(gap.mean()), float(se[0])

    def nested(
        self, i: int, j: int, n_splits: int, n_partitions: int, seed: int
    ) -> tuple[float, float]:
        """Return a difference with the standard error of Bates et al. (2024)."""
        one, other = self.known[i], self.known[j]
        if one is None or other is None:
            raise NotSupportedError(
                'method="nested" asks models for new held-out predictions; got predictions that '
                "are made already. Use another method."
            )
        found: Estimate = nested_estimate(
            _Pair(one, other, self.judge, self.units), n_splits, n_partitions, seed
        )
        return float(found.mean[0]), float(found.standard_error[0])

    def contributions(self, pairs: Sequence[tuple[int, int]]) -> tuple[AnyArray, FloatArray]:
        """Return the labels of the units, and what each adds to each difference."""
        codes, code = np.unique(self.unit, return_inverse=True)
        labels: AnyArray = codes
        if self.grouped and self.labels is not None:
            labels = np.unique(self.labels)[codes]
        try:
            linear = self.linear
        except (InvalidInputError, NotSupportedError):  # no mean over rows: nobody to name
            return labels, np.full((codes.size, len(pairs)), np.nan)
        share = self.weights / self.weights.sum()
        parts = [
            np.bincount(code, weights=share * (linear[i] - linear[j]), minlength=codes.size)
            for i, j in pairs
        ]
        return labels, np.column_stack(parts)


class _Pair(Asked):
    """Two models, with the difference of their scores for each row."""

    def __init__(
        self, one: Evidence, other: Evidence, judge: Judge, units: IntArray | None
    ) -> None:
        super().__init__(one.subject, judge, one.alpha, units)
        self._models = [Asked(e.subject, e.judge, e.alpha, units) for e in (one, other)]

    @property
    def score(self) -> RowScore:
        """The difference of the scores, of predictions side by side."""
        inner = super().score
        probe = np.array([-1.0, -4.0])
        if not np.array_equal(inner.finish(probe), probe):
            raise NotSupportedError(
                f'method="nested" compares means over rows, which {inner.name} is a function of. '
                'Use scoring="neg_mean_squared_error".'
            )

        def values(predictions: FloatArray, rows: IntArray) -> FloatArray:
            one, other = np.split(predictions, 2, axis=1)
            return inner.values(one, rows) - inner.values(other, rows)

        return RowScore(inner.name, values, inner.finish)

    def predict(self, experiments: Experiments) -> tuple[Experiments, IntArray, FloatArray]:
        """Return what was tested, and predictions of both models side by side."""
        found = [model.predict(experiments) for model in self._models]
        if not np.array_equal(found[0][0].test.values, found[1][0].test.values):
            raise NotSupportedError(
                'method="nested" needs models that test the same rows; held_out_basis="skip" '
                "leaves out those of each model's own basis. Use another method."
            )
        tested, source, values = found[0]
        return tested, source, np.hstack([values, found[1][2]])


def _scored_by(judge: Judge, scoring: Any) -> Judge:
    return replace(judge, scoring=resolve_scoring(scoring, classes=judge.classes))


def _together(judge: Judge) -> Judge:
    """Return a judge of all targets together."""
    return replace(judge, per_target=False)
