"""What the answers need to know of a fitted model: its choice of a penalty, and its smoothers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.answers.row_scores import row_score, standard_error
from holdfast.experiments import Experiments, Policy, Tasks
from holdfast.holdout.plan import Plan
from holdfast.scores.choice import Choice, choose
from holdfast.scores.scoring import Scores, Scoring, score_experiments
from holdfast.smoother import Smoother

__all__ = ["Judge", "Subject", "chosen_values"]


class Subject(Protocol):
    """A kernel on all rows: what held-out questions are put to."""

    @property
    def smoother(self) -> Smoother:
        """The smoother of all rows."""

    @property
    def basis(self) -> IntArray | None:
        """Basis rows; None for a dense or linear model."""

    @property
    def alphas(self) -> FloatArray:
        """The penalties to compare with this kernel, shape (a,)."""

    @property
    def reselects(self) -> bool:
        """Whether the basis is chosen anew for each experiment."""

    def tasks(self, experiments: Experiments) -> Tasks:
        """Return what experiments become under the policy."""

    def plan(self, tasks: Tasks, n_alphas: int) -> Plan:
        """Return which path the tasks take."""

    def held_out(
        self, tasks: Tasks, alphas: FloatArray, path: str, columns: slice = slice(None)
    ) -> FloatArray:
        """Return held-out predictions (a, k, v)."""


@dataclass(frozen=True, eq=False)
class Judge:
    """How a model scores held-out predictions and chooses its penalty.

    Attributes
    ----------
    labels : ndarray of shape (m, v), or (m,) class labels
    weights : ndarray of shape (m,)
    alphas : ndarray of shape (a,)
        The grid.
    scoring : Scoring
    pooled : bool
    rule : str
    per_target : bool
        Whether each target has a penalty of its own.
    policy : str
        What happens to basis rows that are held out.
    path : str
        The path that was asked for, or "auto".
    frames : str or None
        The library that frames come in.
    units : ndarray of int, shape (m,), or None
        Groups that are held out as wholes; None: rows are what is independent.
    """

    labels: AnyArray
    weights: FloatArray
    alphas: FloatArray
    scoring: Scoring
    pooled: bool
    rule: str
    per_target: bool
    policy: Policy
    path: str
    frames: str | None = None
    units: IntArray | None = None

    @property
    def classes(self) -> AnyArray | None:
        """Class labels, or None for regression."""
        return self.scoring.classes

    def scores(self, values: FloatArray, tasks: Tasks, labels: AnyArray | None = None) -> Scores:
        """Return the scores of held-out predictions (a, k, v); `labels` instead of one's own."""
        judge = self if labels is None else replace(self, labels=labels)
        scores = score_experiments(
            self.scoring,
            values,
            tasks.test.values,
            tasks.test.ptr,
            judge.labels,
            self.weights,
            each_target=self.per_target,
        )
        return judge.with_row_errors(scores, values, tasks.test.values)

    def with_row_errors(self, scores: Scores, values: FloatArray, rows: IntArray) -> Scores:
        """Return scores with the standard error that the rule asks for, at the best penalty."""
        if self.rule != "1se_rows":
            return scores
        best = np.atleast_1d(self.choose(scores, "best").indices)
        v = values.shape[2]
        chosen = values[np.broadcast_to(best, v), :, np.arange(v)].T  # (k, v)
        return self.with_errors(scores, chosen, rows)

    def with_errors(self, scores: Scores, chosen: FloatArray, rows: IntArray) -> Scores:
        """Return scores with the standard error of predictions (k, v) over rows, or groups."""
        each = self.per_target and scores.per_target is not None
        score = row_score(self.scoring, self.labels, self.weights, per_target=each)
        units = np.arange(self.weights.size) if self.units is None else self.units
        se = standard_error(score, chosen, rows, self.weights, units)
        table = np.broadcast_to(se, (self.alphas.size, se.size))
        return replace(scores, per_target_se=table) if each else replace(scores, se=table[:, 0])

    def choose(self, scores: Scores, rule: str | None = None) -> Choice:
        """Return the chosen penalty, without a word about the ends of the grid."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return choose(
                scores,
                self.alphas,
                pooled=self.pooled,
                rule=(rule or self.rule).removesuffix("_rows"),
                per_target=self.per_target,
            )

    def of(self, subject: Subject) -> Judge:
        """Return the judge that compares the penalties of a kernel."""
        return replace(self, alphas=subject.alphas)

    def value(self, scores: Scores) -> float:
        """Return what kernels are compared by: the best score, averaged over targets."""
        return float(np.mean(self.choose(scores, "best").score))


def chosen_values(
    predict: Callable[[FloatArray], FloatArray], alphas: FloatArray | float, v: int
) -> FloatArray:
    """Return predictions (k, v), each target at its own penalty, from a function of a grid."""
    grid, index = np.unique(np.broadcast_to(np.asarray(alphas), v), return_inverse=True)
    values = predict(grid)
    return np.ascontiguousarray(values[index.ravel(), :, np.arange(v)].T)


def column_blocks(count: int, most: int) -> Iterator[slice]:
    """Yield slices of nearly equal size, none longer than `most`."""
    step = -(-count // max(1, -(-count // max(1, most))))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def split_rows(rows: IntArray, n_rows: int) -> IntArray:
    """Return the rows that are not among these."""
    left = np.ones(n_rows, dtype=bool)
    left[rows] = False
    return np.flatnonzero(left)


Maker = Callable[[], Iterator[tuple[dict[str, Any], Subject]]]
