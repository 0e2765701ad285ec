"""What a fit has to work with, after all checks: data and an objective, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.answers.trend import Trend
from holdfast.core.data import Unpenalised
from holdfast.core.experiments import Experiments, Policy, Ragged
from holdfast.core.gaussian import SecondMoments
from holdfast.data.dask import is_dask
from holdfast.scores.choice import Choice, choose
from holdfast.scores.metric import Metric
from holdfast.scores.scoring import Scores, score_experiments
from holdfast.splitters.cv import as_experiments

__all__ = ["Objective", "TrainingData"]


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Everything that later held-out questions need.

    Attributes
    ----------
    X : rows of the data
    Y : ndarray of shape (m, v)
        Targets that the algebra works on (±1 for a classifier).
    labels : ndarray of shape (m, v) or (m,)
        Targets that scores are computed with (class labels for a classifier).
    weights : ndarray of shape (m,)
        What rows weigh in the fit.
    groups : ndarray or None
    experiments : Experiments
    alphas : ndarray of shape (a,)
        The penalties compared; before the search, none stands for the default grid.
    flat : bool
        Whether y was one-dimensional.
    seed : int
        Seed of everything random that `fit` does.
    basis : None, number, rows or selector
        As the user gave it.
    policy : str
        What happens to basis rows that are held out.
    bias : bool
    jitter : float
        ε relative to the mean diagonal of K_BB.
    path : str
    memory : float
        Bytes that feature rows may take.
    trend : Trend or None
        The unpenalised columns, the bias among them; None: a bias alone, or nothing.
    standardize : bool
        Whether columns are in units of their standard deviation, in each experiment its own.
    frames : str or None
        The library that the rows came from, and that tables of answers come in.
    sample_weight : ndarray of shape (m,) or None
        What rows weigh in scores, if class weights make it another thing than in the fit.
    """

    X: Any
    Y: FloatArray
    labels: AnyArray
    weights: FloatArray
    groups: AnyArray | None
    experiments: Experiments
    alphas: FloatArray
    flat: bool
    seed: int
    basis: Any
    policy: Policy
    bias: bool
    jitter: float
    path: str
    memory: float
    trend: Trend | None = None
    standardize: bool = False
    frames: str | None = None
    sample_weight: FloatArray | None = None

    @property
    def score_weights(self) -> FloatArray:
        """What rows weigh in scores, shape (m,)."""
        return self.weights if self.sample_weight is None else self.sample_weight

    @property
    def unpenalised(self) -> Unpenalised:
        """The columns of the model that carry no penalty."""
        if self.trend is None:
            return Unpenalised.bias(self.weights, self.bias)
        Z = self.trend.of_rows(self.X)
        return Unpenalised.of(Z, self.weights, self.trend.all_names, self.trend)

    @property
    def n_features(self) -> int | None:
        """The number of columns of X; None where rows are objects."""
        return self.X.shape[1] if self.X.ndim == 2 else None

    @cached_property
    def coded(self) -> bool:
        """Whether every target is −1 or +1: classes, or labels."""
        return bool((np.abs(self.Y) == 1.0).all())

    @cached_property
    def constant(self) -> bool:
        """Whether the targets do not vary over the training rows and the bias is the model."""
        if not self.bias:
            return False
        seen = self.Y if self.weights.all() else self.Y[self.weights > 0]
        return bool((seen == seen[:1]).all())

    @property
    def reselects(self) -> bool:
        """Whether each experiment chooses basis rows of its own."""
        return self.basis is not None and self.policy == "reselect"

    def experiments_of(
        self,
        cv: Any,
        groups: AnyArray | None,
        classes: AnyArray | None,
        rows: IntArray | None = None,
    ) -> Experiments:
        """Return the experiments that `cv` stands for on all rows, or on some alone."""
        X, y = None if is_dask(self.X) else self.X, self.labels
        if rows is not None:
            X, y = None if X is None else X[rows], y[rows]
            groups = None if groups is None else groups[rows]
        classifier = classes is not None
        return as_experiments(cv, len(y), X=X, y=y, groups=groups, classifier=classifier)


@dataclass(frozen=True, eq=False)
class Objective:
    """What the score of a model is, and how its penalty is chosen.

    Attributes
    ----------
    scoring : Metric
    pooled : bool
        Whether all held-out predictions are scored together, or each experiment by itself.
    rule : {"best", "1se"}
    per_target : bool
        Whether each target has a penalty of its own.
    cv : None, int, splitter or iterable
        What the experiments come from, as it was given.
    """

    scoring: Metric
    pooled: bool = True
    rule: str = "best"
    per_target: bool = False
    cv: Any = None

    @property
    def classes(self) -> AnyArray | None:
        """Class labels, or None for regression."""
        return self.scoring.classes

    def scores(
        self,
        training: TrainingData,
        values: FloatArray,
        test: Ragged,
        *,
        columns: slice | list[int] = slice(None),
        splits: bool = True,
        moments: Callable[[], SecondMoments] | None = None,
    ) -> Scores:
        """Return the scores of predictions (a, k, v) of test rows, of some targets or all.

        Scores of a distribution need the moments of the test rows.
        """
        labels = training.labels
        return score_experiments(
            self.scoring,
            values,
            test.values,
            test.ptr,
            labels if labels.ndim == 1 else labels[:, columns],
            training.score_weights,
            training.groups,
            each_target=self.per_target,
            splits=splits,
            moments=moments,
        )

    def choose(self, scores: Scores, alphas: FloatArray, rule: str | None = None) -> Choice:
        """Return the chosen penalty, by the rule of the model unless another is named."""
        return choose(
            scores,
            alphas,
            pooled=self.pooled,
            rule=rule or self.rule,
            per_target=self.per_target,
        )
