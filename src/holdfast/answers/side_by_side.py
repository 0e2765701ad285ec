"""Predictions of several models on the same rows, and the differences between their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.answers.certainty import nadeau_bengio, over_experiments, require_exchangeable
from holdfast.answers.given import aligned, of_predictions
from holdfast.answers.partitions import nested_estimate
from holdfast.answers.question import Fitted, fit_units
from holdfast.answers.row_scores import NoRowMean, jackknife, mean_and_variance
from holdfast.answers.scored import refuse_density
from holdfast.exceptions import InvalidInputError, NotSupportedError
from holdfast.experiments import Experiments, Ragged, as_experiments
from holdfast.experiments.splits import check_groups
from holdfast.scores.scoring import resolve_scoring

__all__ = ["Table"]


class Table:
    """Predictions of all models for the rows that all of them are tested on."""

    def __init__(
        self,
        first: Fitted,
        entries: Sequence[Any],
        known: Sequence[Fitted | None],
        scoring: Any,
        cv: Any,
        groups: Any,
    ) -> None:
        judge, self.known = first.judge, known
        scorer = judge.scoring
        if scoring is not None:
            scorer = resolve_scoring(scoring, classes=judge.classes)
        refuse_density(scorer, "compare")
        m = judge.weights.size
        given = None if groups is None else check_groups(groups, m)
        experiments, units = first.experiments, judge.units
        if cv is not None:
            experiments = as_experiments(
                cv,
                m,
                X=first.X,
                y=judge.labels,
                groups=judge.groups if given is None else given,
                classifier=judge.classes is not None,
            )
        if cv is not None or given is not None or scoring is not None:
            how = first.cv if cv is None else cv
            units = fit_units(experiments, judge.groups, judge.weights, scorer, how, given)
        self.labels = judge.groups if given is None else given
        # One score for all targets, whatever penalties they have.
        self.judge = judge = replace(judge, scoring=scorer, units=units, per_target=False)
        found = [
            self._of_model(i, entry, experiments)
            if entry is not None
            else of_predictions(i, entries[i], judge, experiments)
            for i, entry in enumerate(known)
        ]
        self.tested, self.predictions = aligned(found, experiments, m)
        self.rows = self.tested.test.values
        self.repeated = int(np.bincount(self.rows).max()) > 1
        self.used = np.flatnonzero(judge.weights[self.rows] > 0)
        self.unit = judge.units.code[self.rows[self.used]]
        whole = [judge.whole(p, self.tested.test) for p in self.predictions]
        self.scores = np.array([score[0] for score, _ in whole])
        self.splits = [splits for _, splits in whole]
        self._linear: tuple[list[FloatArray], FloatArray] | None = None

    def _of_model(
        self, i: int, model: Fitted, experiments: Experiments
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """Return (experiment, row, prediction) of everything that a model is tested on."""
        mine, judge = model.judge, self.judge
        same = mine.labels.shape == judge.labels.shape and np.array_equal(mine.labels, judge.labels)
        if not same or not np.array_equal(mine.weights, judge.weights):
            raise InvalidInputError(
                f"models must be fitted on the same rows, targets and weights, in the same order; "
                f"those of model {i} differ from the first.",
                argument="models",
            )
        tested, source, values = model.predict(experiments)
        return source[tested.test.owners], tested.test.values, values

    def linear(self) -> tuple[list[FloatArray], FloatArray]:
        """Return values of each model for each tested row (k,) with the score as mean; weights."""
        if self._linear is None:
            score, rows, found = self.judge.row_score(self.rows), self.rows[self.used], []
            weights = score.weights[rows]
            for predictions in self.predictions:
                values = score.values(predictions[self.used], rows)
                mean = weights @ values / weights.sum()
                found.append((score.finish(mean) + score.slope(mean) * (values - mean))[:, 0])
            self._linear = found, weights
        return self._linear

    def asymptotic(self, i: int, j: int) -> tuple[float, float, int | None]:
        """Return a difference with the standard error over units, and its degrees of freedom."""
        if not self.judge.pooled:
            se, freedom = over_experiments(self.splits[i] - self.splits[j], self.tested)
            return self.scores[i] - self.scores[j], float(se[0]), freedom
        try:
            linear, weights = self.linear()
        except NoRowMean:
            _, se = jackknife(partial(self._difference, i, j), self.unit)
            few = min(20, np.unique(self.unit).size) - 1
            return self.scores[i] - self.scores[j], float(se[0]), few
        values = (linear[i] - linear[j])[:, None]
        _, variance = mean_and_variance(values, weights, self.unit)
        freedom_of = self.judge.units.freedom(self.rows[self.used])
        return self.scores[i] - self.scores[j], float(np.sqrt(variance[0])), freedom_of

    def _difference(self, i: int, j: int, places: IntArray) -> FloatArray:
        """Return the difference of the scores of some of the tested rows."""
        at = self.used[places]
        test = Ragged(self.rows[at], np.array([0, at.size]))
        one, other = (self.judge.whole(self.predictions[k][at], test)[0] for k in (i, j))
        return one - other

    def corrected(self, i: int, j: int) -> tuple[float, float, int | None]:
        """Return a difference with the standard error of Nadeau and Bengio (2003)."""
        gap = self.splits[i] - self.splits[j]
        se, _ = nadeau_bengio(gap, self.tested, self.judge.weights)
        return self.scores[i] - self.scores[j], float(se[0]), gap.shape[1] - 1

    def nested(
        self, i: int, j: int, n_splits: int, n_partitions: int, seed: int
    ) -> tuple[float, float, int | None]:
        """Return a difference with the standard error of Bates et al. (2024)."""
        one, other, judge = self.known[i], self.known[j], self.judge
        if one is None or other is None:
            raise NotSupportedError(
                'method="nested" asks models for new held-out predictions; got predictions that '
                "are made already. Use another method.",
                argument="method",
            )
        require_exchangeable(judge, 'method="nested"')
        score = judge.row_score(self.rows)
        probe = np.array([-1.0, -4.0])
        if not judge.pooled or not np.array_equal(score.finish(probe), probe):
            raise NotSupportedError(
                f'method="nested" compares means over rows, which {score.name} is a function of '
                '(or pooled=False an average of). Use method="asymptotic".',
                argument="method",
            )

        def mean_of(predictions: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
            used = judge.weights[rows] > 0
            rows, (a, b) = rows[used], np.split(predictions[used], 2, axis=1)
            values = score.values(a, rows) - score.values(b, rows)
            return mean_and_variance(values, score.weights[rows], judge.units.code[rows])

        both = partial(_side_by_side, one, other)
        found = nested_estimate(judge, both, mean_of, n_splits, n_partitions, seed)
        freedom = judge.units.freedom(self.rows[self.used])
        return float(found.mean[0]), float(found.standard_error[0]), freedom

    @property
    def units(self) -> str:
        """What counts as independent."""
        return self.judge.units.name if self.judge.pooled else "experiments"

    def contributions(self, pairs: Sequence[tuple[int, int]]) -> tuple[AnyArray, FloatArray]:
        """Return the labels of the units, and what each adds to each difference."""
        if not self.judge.pooled:
            parts = [(self.splits[i] - self.splits[j])[0] for i, j in pairs]
            defined = np.isfinite(parts).all(axis=0)
            share = np.array(parts)[:, defined].T / max(1, int(defined.sum()))
            return np.flatnonzero(defined), share
        codes, code = np.unique(self.unit, return_inverse=True)
        labels: AnyArray = codes
        if self.units == "groups" and self.labels is not None:
            labels = np.unique(self.labels)[codes]
        try:
            linear, weights = self.linear()
        except NoRowMean:  # nobody to name
            return labels, np.full((codes.size, len(pairs)), np.nan)
        share = weights / weights.sum()
        parts = [
            np.bincount(code, weights=share * (linear[i] - linear[j]), minlength=codes.size)
            for i, j in pairs
        ]
        return labels, np.column_stack(parts)


def _side_by_side(
    one: Fitted, other: Fitted, experiments: Experiments
) -> tuple[Experiments, IntArray, FloatArray]:
    """Return what was tested, and predictions of both models side by side."""
    (tested, source, values), second = one.predict(experiments), other.predict(experiments)
    if not np.array_equal(tested.test.values, second[0].test.values):
        raise NotSupportedError(
            'method="nested" needs models that test the same rows; held_out_basis="skip" '
            "leaves out those of each model's own basis. Use another method.",
            argument="method",
        )
    return tested, source, np.hstack([values, second[2]])
