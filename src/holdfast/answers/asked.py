"""A model at its penalty, asked for scores of rows; which rows count as one observation."""

from __future__ import annotations

import numpy as np

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.answers.question import Judge, Subject, chosen_values
from holdfast.answers.row_scores import RowScore, mean_and_variance, row_score
from holdfast.exceptions import HoldOutError
from holdfast.experiments import Experiments

__all__ = ["Asked", "held_out_units"]


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
            return subject.held_out(tasks, alphas, subject.plan(tasks, alphas.size).path)

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
