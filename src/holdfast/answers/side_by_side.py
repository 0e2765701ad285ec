"""Predictions of several models on the same rows, and the differences between their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.answers.asked import Asked, held_out_units
from holdfast.answers.certainty import nadeau_bengio, splits_of
from holdfast.answers.evidence import Evidence, aligned, of_predictions
from holdfast.answers.partitions import nested_estimate
from holdfast.answers.question import Judge
from holdfast.answers.row_scores import RowScore, mean_and_variance, row_score
from holdfast.exceptions import InvalidInputError, NotSupportedError
from holdfast.experiments import Experiments, as_experiments
from holdfast.experiments.splits import check_groups
from holdfast.scores.scoring import resolve_scoring

__all__ = ["Table"]


class Table:
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
        found = nested_estimate(
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
