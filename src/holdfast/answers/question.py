"""What the answers need to know of a fitted model: its choice of a penalty, and its smoothers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.answers.row_scores import NoRowMean, RowScore, mean_and_variance, row_score
from holdfast.answers.scored import scored, whole
from holdfast.answers.units import Units, codes_of, units_of
from holdfast.exceptions import HoldOutError
from holdfast.experiments import Experiments, Policy, Ragged, Splitter, Tasks
from holdfast.holdout.models import HeldOutModels
from holdfast.holdout.plan import Plan
from holdfast.holdout.spread import spread
from holdfast.scores.choice import Choice, choose
from holdfast.scores.scoring import Scores, Scoring
from holdfast.smoother import Smoother

__all__ = ["Fitted", "Judge", "Subject", "chosen_values", "column_blocks", "split_rows"]


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
        """Whether the basis is chosen again for each experiment."""

    def tasks(self, experiments: Experiments) -> Tasks:
        """Return what experiments become under the policy."""

    def plan(self, tasks: Tasks, n_alphas: int) -> Plan:
        """Return which path the tasks take."""

    def held_out(
        self, tasks: Tasks, alphas: FloatArray, path: str, columns: slice = slice(None)
    ) -> FloatArray:
        """Return held-out predictions (a, k, v)."""

    def held_models(self, tasks: Tasks, alphas: FloatArray) -> HeldOutModels:
        """Return the models of some tasks as coefficients."""


@dataclass(frozen=True, eq=False)
class Judge:
    """How a model scores held-out predictions and chooses its penalty.

    Attributes
    ----------
    labels : ndarray of shape (m, v), or (m,) class labels
    weights : ndarray of shape (m,)
    groups : ndarray of shape (m,) or None
        For scorers that see groups.
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
    units : Units
        What counts as one observation under the experiments of the fit.
    frames : str or None
        The library that frames come in.
    """

    labels: AnyArray
    weights: FloatArray
    groups: AnyArray | None
    alphas: FloatArray
    scoring: Scoring
    pooled: bool
    rule: str
    per_target: bool
    policy: Policy
    path: str
    units: Units
    frames: str | None = None

    @property
    def classes(self) -> AnyArray | None:
        """Class labels, or None for regression."""
        return self.scoring.classes

    def scores(
        self, values: FloatArray, tasks: Tasks, models: HeldOutModels | None = None
    ) -> Scores:
        """Return the scores of held-out predictions (a, k, v), with the errors of the rule."""
        rows = tasks.test.values
        found = scored(
            self.scoring,
            values,
            tasks.test,
            self.labels,
            self.weights,
            self.groups,
            each_target=self.per_target,
            moments=None
            if models is None
            else lambda: spread(models, self.alphas, self.labels[rows] - values),
            unit=1.0,
        )
        if self.rule == "best":
            return found
        best = np.atleast_1d(self.choose(found, "best").indices)
        v = values.shape[2]
        chosen = values[np.broadcast_to(best, v), :, np.arange(v)].T  # (k, v)
        return self.with_errors(found, chosen, rows)

    def with_errors(self, scores: Scores, chosen: FloatArray, rows: IntArray) -> Scores:
        """Return scores with the standard error over units, if they have one.

        Of predictions (k, v) at the best penalty. A mean over experiments keeps the standard error
        over experiments, and so does a score that is not a mean over rows.
        """
        each = self.per_target and scores.per_target is not None
        try:
            if not self.pooled:
                return scores
            score = self.row_score(rows, per_target=each, known=True)
        except NoRowMean:
            return scores
        mean, variance = self.mean_and_variance(score, chosen, rows)
        if np.isnan(variance).any():
            return scores
        se = np.abs(score.slope(mean)) * np.sqrt(variance)
        table = np.broadcast_to(se, (len(scores.pooled), se.size))
        return replace(scores, per_target_se=table) if each else replace(scores, se=table[:, 0])

    def row_score(
        self, rows: IntArray, *, per_target: bool | None = None, known: bool = False
    ) -> RowScore:
        """Return the score of tested rows as a mean over them."""
        each = self.per_target if per_target is None else per_target
        return row_score(
            self.scoring, self.labels, self.weights, rows, per_target=each, known=known
        )

    def mean_and_variance(
        self, score: RowScore, predictions: FloatArray, rows: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the mean over rows (c,) and its plain variance; rows of weight zero left out."""
        used = self.weights[rows] > 0
        if not used.all():
            predictions, rows = predictions[used], rows[used]
        if not rows.size:
            raise HoldOutError(
                "a fold of a random partition has no row to test. Use fewer n_splits.",
                argument="n_splits",
            )
        values = score.values(predictions, rows)
        return mean_and_variance(values, score.weights[rows], self.units.code[rows])

    def whole(self, values: FloatArray, test: Ragged) -> tuple[FloatArray, FloatArray]:
        """Return the score (c,) of predictions (k, v), and that of each experiment (c, J)."""
        columns = [[t] for t in range(values.shape[1])] if self.per_target else [slice(None)]
        found = []
        for c in columns:
            labels = self.labels if self.classes is not None else self.labels[:, c]
            found.append(
                scored(self.scoring, values[None, :, c], test, labels, self.weights, self.groups)
            )
        total = [whole(s, pooled=self.pooled, per_target=False)[0] for s in found]
        return np.array(total), np.array([s.splits[0] for s in found])

    def choose(self, scores: Scores, rule: str | None = None) -> Choice:
        """Return the chosen penalty, without a word about the ends of the grid."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return choose(
                scores,
                self.alphas,
                pooled=self.pooled,
                rule=rule or self.rule,
                per_target=self.per_target,
            )

    def of(self, subject: Subject) -> Judge:
        """Return the judge that compares the penalties of a kernel."""
        return replace(self, alphas=subject.alphas)

    def value(self, scores: Scores) -> float:
        """Return what kernels are compared by: the best score, averaged over targets."""
        return float(np.mean(self.choose(scores, "best").score))


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model at its penalty.

    Attributes
    ----------
    subject : Subject
        Its kernel on all rows.
    judge : Judge
    alpha : float or ndarray of shape (v,)
        Its penalty.
    experiments : Experiments
        Those of the fit.
    cv : as the model was given it
    X : rows, for splitters
    """

    subject: Subject
    judge: Judge
    alpha: float | FloatArray
    experiments: Experiments
    cv: Any = None
    X: Any = None

    def predict(self, experiments: Experiments) -> tuple[Experiments, IntArray, FloatArray]:
        """Return what was tested, of which experiment, and predictions (k, v)."""
        subject, v = self.subject, self.subject.smoother.targets.count
        tasks = subject.tasks(experiments)

        def at(alphas: FloatArray) -> FloatArray:
            return subject.held_out(tasks, alphas, subject.plan(tasks, alphas.size).path)

        values = chosen_values(at, self.alpha, v)
        tested = Experiments(experiments.held_out.items(tasks.source), tasks.test)
        return tested, tasks.source, values


def fit_units(
    experiments: Experiments,
    groups: AnyArray | None,
    weights: FloatArray,
    scoring: Scoring,
    cv: Any,
    given: AnyArray | None = None,
) -> Units:
    """Return what counts as one observation of a score under experiments that `cv` stands for.

    Groups that are `given` are the units, and so are the groups that a scorer sees.
    """
    placed, joint = isinstance(cv, Splitter), scoring.name == "log_density"
    units = units_of(experiments, groups, weights, placed=placed, joint=joint)
    seen = given if given is not None else groups if scoring.takes_groups else None
    return units if seen is None else replace(units, code=codes_of(seen), name="groups")


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
