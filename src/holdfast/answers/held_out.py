"""Held-out predictions for any way of holding out, which can be scored and tabulated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast._typing import FloatArray, IntArray
from holdfast.answers.fitted import Estimator
from holdfast.core.experiments import Experiments
from holdfast.core.gaussian import SecondMoments
from holdfast.data.frames import make_frame
from holdfast.exceptions import HoldOutError, InvalidInputError, NotSupportedError
from holdfast.progress import shows_progress
from holdfast.scores.choice import check_alphas
from holdfast.scores.metric import Metric
from holdfast.scores.probabilities import decision_to_label_index
from holdfast.scores.scorers import resolve_scoring
from holdfast.scores.scoring import Scores, log_densities, score_experiments

__all__ = ["HeldOutPredictions"]  # what a user meets, and the API page shows


class Moments:
    """Second moments of held-out targets, computed when they are first asked for.

    Parameters
    ----------
    compute : callable
        A pickle holds this function instead of a model's factors, and computes nothing.
    """

    def __init__(self, compute: Callable[[], SecondMoments]) -> None:
        self._compute: Callable[[], SecondMoments] | None = compute
        self._found: SecondMoments | None = None

    @property
    def second_moments(self) -> SecondMoments:
        """The moments; the model is released once they are computed."""
        if self._found is None:
            assert self._compute is not None
            self._found, self._compute = self._compute(), None
        return self._found


class TestedRows:
    """Predictions of the test rows of experiments laid end to end, the last axis but one."""

    experiments: Experiments
    values: FloatArray
    classes: NDArray[Any] | None

    @property
    def rows(self) -> IntArray:
        """Test rows of all experiments laid end to end, shape (k,)."""
        return self.experiments.test.values

    @property
    def predictions(self) -> list[FloatArray]:
        """Predictions of each experiment, a list of arrays (..., rows, targets)."""
        ptr = self.experiments.test.ptr
        return [self.values[..., start:stop, :] for start, stop in pairwise(ptr)]

    def labels(self) -> NDArray[Any]:
        """Return predicted class labels of a classifier, shape (..., k)."""
        if self.classes is None:
            raise HoldOutError("labels() is for classifiers; these are predictions of a regressor.")
        return np.asarray(self.classes[decision_to_label_index(self.values)])


@dataclass(frozen=True, eq=False, repr=False)
class HeldOutPredictions(TestedRows):
    """Held-out predictions of every experiment for every penalty.

    Attributes
    ----------
    experiments : Experiments
        What was held out and tested.
    alphas : ndarray of shape (a,)
        Penalties.
    values : ndarray of shape (a, k, v)
        Predictions for the k test rows of all experiments laid end to end; decision values for
        a classifier.
    rounding : ndarray of shape (a,)
        Estimated rounding error of the predictions at each penalty, in standard deviations of y:
        at most 1e-6, unless refitting would have cost too much.
    y : ndarray of shape (m, v) or (m,)
        Targets, or class labels for a classifier.
    weights : ndarray of shape (m,)
        Row weights, used by `score`.
    classes : ndarray or None
        Class labels of a classifier.
    frames : str or None
        The library ("pandas" or "polars") that X was a frame of, whose frames `to_frame` returns.
    groups : ndarray of shape (m,) or None
        Group of each row, used by `score`.
    moments : Moments or None
        Those of the normal distribution of held-out targets, computed when needed; regression only.
    scoring : Metric or None
        What the model scores by.
    pooled : bool
        Whether the model scores all predictions together.
    """

    experiments: Experiments
    alphas: FloatArray
    values: FloatArray
    rounding: FloatArray
    y: NDArray[Any]
    weights: FloatArray
    classes: NDArray[Any] | None = None
    frames: str | None = None
    groups: NDArray[Any] | None = None
    moments: Moments | None = None
    scoring: Metric | None = None
    pooled: bool = True

    def __repr__(self) -> str:
        a, k, v = self.values.shape
        return (
            f"<held-out predictions: {len(self.experiments)} experiments, {k} test rows, "
            f"{a} alphas, {v} target{'s' if v > 1 else ''}>"
        )

    def matrix(self) -> FloatArray:
        """Return predictions as (alphas, m, targets) in row order, if each row is tested once."""
        m = self.y.shape[0]
        count = np.bincount(self.rows, minlength=m)
        if (count != 1).any():
            row = int(np.argmax(count != 1))
            raise HoldOutError(
                f"matrix() needs every row tested exactly once; row {row} is tested {count[row]} "
                "times. Use .predictions or .to_frame()."
            )
        matrix = np.empty_like(self.values)
        matrix[:, self.rows] = self.values
        return matrix

    def score(self, scoring: Any = None, *, pooled: bool | None = None) -> FloatArray:
        """Return the score at each alpha, shape (alphas,).

        Parameters
        ----------
        scoring : str, callable or None
            Any scikit-learn scorer, "pearson", "kendall_tau" or "concordance" (within groups) or
            "log_density"; None: as the model does.
        pooled : bool or None
            Score all held-out predictions together, or average the scores of the experiments; None:
            as the model does.
        """
        scores = self._scores(scoring)
        return scores.pooled if (self.pooled if pooled is None else pooled) else scores.mean

    def _scores(self, scoring: Any = None) -> Scores:
        metric = self.scoring
        if metric is None or scoring is not None:
            metric = resolve_scoring(scoring, classes=self.classes)
        return score_experiments(
            metric,
            self.values,
            self.rows,
            self.experiments.test.ptr,
            self.y,
            self.weights,
            self.groups,
            moments=lambda: self._known_moments().second_moments,
        )

    def _known_moments(self) -> Moments:
        if self.moments is None:
            raise NotSupportedError(
                "std and log_density are for regression: decision values of a classifier are not "
                "normally distributed. Use .labels() or .score()."
            )
        return self.moments

    @property
    def std(self) -> FloatArray:
        """Standard deviation of each tested row's target, shape (alphas, k, targets).

        √(σ̂² [(I − S_HH)⁻¹]_ii / w_i), σ̂² being that of these experiments at each alpha.
        """
        moments = self._known_moments().second_moments
        return np.sqrt(moments.variance[..., None] * moments.noise[:, None])

    def log_density(self) -> FloatArray:
        """Return the total log density of the tested targets at each alpha, shape (alphas,).

        Joint densities of the rows of an experiment; experiments and targets add up.
        """
        return np.asarray(log_densities(self._known_moments().second_moments).sum(axis=(1, 2)))

    def to_frame(self, library: str | None = None) -> Any:
        """Return a long table: experiment, row, target, alpha, y, prediction.

        Parameters
        ----------
        library : {"pandas", "polars"} or None
            Which library's frame; None: the one that X came in, else scikit-learn's
            ``set_config(transform_output=...)``, else pandas.
        """
        a, k, v = self.values.shape
        y = self.y if self.y.ndim == 2 else np.repeat(self.y[:, None], v, axis=1)
        truth = np.broadcast_to(y[self.rows], (a, k, v))
        columns = {
            "experiment": np.tile(np.repeat(self.experiments.test.owners, v), a),
            "row": np.tile(np.repeat(self.rows, v), a),
            "target": np.tile(np.arange(v), a * k),
            "alpha": np.repeat(self.alphas, k * v),
            "y": truth.ravel(),
            "prediction": self.values.ravel(),
        }
        return make_frame(columns, library or self.frames)


@shows_progress
def held_out(
    estimator: Estimator,
    cv: Any = None,
    groups: ArrayLike | None = None,
    alphas: ArrayLike | None = None,
) -> HeldOutPredictions:
    """Return exact held-out predictions of the training rows for any way of holding out.

    Parameters
    ----------
    cv : optional
        As in the constructor; None: the experiments of `fit`.
    groups : array-like of shape (m,), optional
        For splitters and scores that use groups; None: the groups of `fit`.
    alphas : array-like, optional
        Penalties; None: the grid of `fit`.

    Notes
    -----
    The held-out predictions of `fit` are kept if they are small (16 MB), and returned for its
    experiments and penalties. Otherwise its factors give the answer without refits, with two
    exceptions: ``held_out_basis="reselect"``, which means refitting, and experiments whose rounding
    errors would exceed the promise of 1e-6.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.model_selection import KFold
    >>> from holdfast import KernelRidgeCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelRidgeCV(gamma=10.0, alphas=[0.1, 1.0, 10.0], scoring="r2").fit(X, y)
    >>> found = model.held_out(cv=KFold(10, shuffle=True, random_state=0))
    >>> found.score().round(2)  # one for each penalty
    array([0.48, 0.51, 0.45])
    """
    fitted = estimator._fitted_state()
    model, training, objective = fitted.model, fitted.training, fitted.objective
    labels = training.groups if groups is None else np.asarray(groups)
    if cv is None and groups is not None:
        raise InvalidInputError(
            "groups must come with cv; got groups alone. Pass the cv that uses them as well.",
            argument="groups",
        )
    experiments = training.experiments if cv is None else fitted.experiments_of(cv, labels)
    grid = training.alphas if alphas is None else check_alphas(alphas)
    tasks = model.tasks(experiments)
    known = fitted.search
    if cv is None and alphas is None and known.predictions is not None:
        assert known.rounding is not None
        values, rounding = known.predictions.copy(), known.rounding.copy()
    else:
        path = model.plan(tasks, grid.size).path
        values, error = model.predict_with_error(tasks, grid, path)
        rounding = error.max(axis=1, initial=0.0)
    if alphas is not None:  # in the order that was asked for
        place = np.searchsorted(grid, np.atleast_1d(np.asarray(alphas, dtype=float)))
        if (np.diff(place) < 0).any():
            grid, values, rounding = grid[place], values[place], rounding[place]
    tested = experiments
    if len(tasks) < len(experiments) or tasks.test is not experiments.test:  # what "skip" leaves
        tested = Experiments(experiments.held_out.items(tasks.source), tasks.test)
    moments = None
    if objective.classes is None:
        moments = Moments(partial(model.moments, tasks, grid, values))
    return HeldOutPredictions(
        tested,
        grid,
        values,
        rounding,
        training.labels,
        training.score_weights,
        objective.classes,
        fitted.frames,
        labels,
        moments,
        objective.scoring,
        objective.pooled,
    )
