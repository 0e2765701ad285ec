"""The fitted model as a value: what every answer is a function of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.answers.model import Model, Models
from holdfast.answers.training import Objective, TrainingData
from holdfast.core.experiments import Experiments, Ragged, Tasks
from holdfast.core.gaussian import second_moments
from holdfast.core.models import HeldOutModels
from holdfast.core.plan import Plan
from holdfast.core.smoother import Fit
from holdfast.data.values import refuse_masked
from holdfast.exceptions import (
    HoldOutError,
    InvalidInputError,
    NotSupportedError,
)
from holdfast.kernels.grid import Candidate, kernel_grid
from holdfast.kernels.matrix import KernelData
from holdfast.kernels.typical import fine_widths
from holdfast.scores.choice import check_alphas, kernel_parts
from holdfast.scores.errors import (
    Estimate,
    NoRowMean,
    RowMean,
    jackknife,
    mean_and_variance,
    row_mean,
)
from holdfast.scores.scoring import Scores
from holdfast.scores.units import Units, codes_of, units_of

__all__ = ["Estimator", "Fitted", "LeftOut", "SearchResult", "kernel_of", "without_alpha"]

#: Parameters of an estimator that kernels come from.
KERNEL_ARGUMENTS = ("kernel", "gamma", "degree", "coef0", "kernel_params")


class LeftOut(NamedTuple):
    """What the experiments of the fit say at the chosen penalty, whichever rows are new.

    Attributes
    ----------
    tasks : Tasks
    errors : ndarray of shape (k, v)
        Targets minus held-out predictions of the test rows, laid end to end.
    models : HeldOutModels
    """

    tasks: Tasks
    errors: FloatArray
    models: HeldOutModels


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What the comparison of kernels and penalties found.

    Attributes
    ----------
    alpha : float or ndarray of shape (v,)
        The chosen penalty.
    score : float or ndarray of shape (v,)
        Its held-out score.
    index : int or ndarray of shape (v,)
        Where it stands in `table`.
    table : dict
        Columns over all kernels and penalties that were compared: ``cv_results_``.
    plan : Plan or None
        How the held-out predictions of the fit were computed.
    predictions : ndarray of shape (a, test rows, v) or None
        Those of the chosen kernel at all its penalties, if they are few enough to be kept.
    rounding : ndarray of shape (a,) or None
        Their estimated rounding error at each penalty.
    """

    alpha: float | FloatArray
    score: float | FloatArray = np.nan
    index: int | IntArray = 0
    table: dict[str, Any] = field(default_factory=dict)
    plan: Plan | None = None
    predictions: FloatArray | None = None
    rounding: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model: a kernel on the training data, and what a search found. Nothing changes it.

    Attributes
    ----------
    model : Model
        The chosen kernel on all rows, with the training data that it was fitted to.
    objective : Objective
        What its score is.
    search : SearchResult
        The chosen penalty, and what it was compared with.
    parameters : dict
        The parameters of the estimator when it was fitted.
    fit : Fit or None
        The coefficients, if they are known.
    basis_rows : KernelData or None
        The basis rows alone, where the others are on a cluster.
    given_units : ndarray of shape (m,) or None
        Groups that count as one observation, if the user names them.
    """

    model: Model
    objective: Objective
    search: SearchResult
    parameters: dict[str, Any] = field(default_factory=dict)
    fit: Fit | None = None
    basis_rows: KernelData | None = None
    given_units: AnyArray | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # What was computed since is computed again when it is asked for; predictions with it.
        search = replace(self.search, predictions=None, rounding=None)
        rest = tuple(getattr(self, name) for name in self.__dataclass_fields__)[3:]
        return Fitted, (self.model, self.objective, search, *rest)

    # -- what was fitted ---------------------------------------------------------------------------

    @property
    def training(self) -> TrainingData:
        """The rows, targets, weights, groups, experiments and penalties."""
        return self.model.training

    @property
    def frames(self) -> str | None:
        """The library that tables come in."""
        return self.training.frames

    @property
    def alpha(self) -> float | FloatArray:
        """The chosen penalty, or one for each target."""
        return self.search.alpha

    @property
    def score(self) -> float | FloatArray:
        """The held-out score of the chosen penalty."""
        return self.search.score

    @property
    def alphas(self) -> FloatArray:
        """The penalty of each target, shape (v,)."""
        return np.broadcast_to(np.asarray(self.search.alpha, float), self.training.Y.shape[1])

    @cached_property
    def units(self) -> Units:
        """What counts as one observation of the score, under the experiments of the training."""
        scoring, seen = self.objective.scoring, self.given_units
        units = self.held_out_together(joint=scoring.name == "log_density")
        if seen is None and scoring.takes_groups:
            seen = self.training.groups
        return units if seen is None else replace(units, code=codes_of(seen), name="groups")

    def held_out_together(self, *, joint: bool = False) -> Units:
        """Return what the experiments hold out together: rows, groups, or blocks of rows."""
        training, cv = self.training, self.objective.cv
        rows = training.groups, training.Y, training.weights
        return units_of(training.experiments, cv, *rows, joint=joint)

    @cached_property
    def coefficients(self) -> Fit:
        """The coefficients of the model on all rows."""
        if self.fit is not None:
            return self.fit
        return self.model.smoother.fit(self.alphas)

    def left_out(self) -> LeftOut:
        """Return the held-out models of the fit at the chosen penalty.

        Kept once they are made, unless their coefficients would take more than a quarter of the
        memory limit.
        """
        tasks = len(self.training.experiments)
        doubles = self.training.Y.shape[1] * tasks * self.model.smoother.order
        small = 8.0 * doubles <= self.training.memory / 4.0
        return self._left_out if small else self._make_left_out()

    @cached_property
    def _left_out(self) -> LeftOut:
        return self._make_left_out()

    def _make_left_out(self) -> LeftOut:
        tasks = self.model.tasks(self.training.experiments)
        errors = self.training.Y[tasks.test.values] - self.model.at(tasks, self.alphas)
        return LeftOut(tasks, errors, self.model.held_models(tasks, self.alphas))

    @cached_property
    def noise(self) -> FloatArray:
        """σ̂ (v,) that makes the held-out targets of the fit most likely.

        σ̂² = Σ_H r_Hᵀ(I − S_HH)r_H / Σ|H|.
        """
        tasks = self.model.tasks(self.training.experiments)
        grid, index = np.unique(self.alphas, return_inverse=True)
        moments = self.model.moments(tasks, grid, self.model.held_out(tasks, grid))
        return np.sqrt(moments.noise[index, np.arange(index.size)])

    # -- the same, asked in another way ------------------------------------------------------------

    def changed(self, **fields: Any) -> Fitted:
        """Return the same model on training data with other values in some fields.

        Only fields that the smoother does not depend on: groups, experiments, penalties, labels to
        score by, or what happens to basis rows that are held out.
        """
        return self._with(self.model.on(replace(self.training, **fields)), self.fit)

    def _with(self, model: Model, fit: Fit | None) -> Fitted:
        """Return the same with another model, whose held-out predictions are not known."""
        search = replace(self.search, predictions=None, rounding=None)
        return replace(self, model=model, search=search, fit=fit)

    def experiments_of(self, cv: Any, groups: AnyArray | None) -> Experiments:
        """Return the experiments that `cv` stands for on these rows."""
        return self.training.experiments_of(cv, groups, self.objective.classes)

    def penalties(self, alpha: float | ArrayLike | None) -> FloatArray:
        """Return the penalty of each target (v,), as the user asks for it; None: as chosen."""
        v = self.training.Y.shape[1]
        refuse_masked("alpha", alpha)
        wanted = np.asarray(self.alpha if alpha is None else alpha)
        if wanted.shape not in ((), (v,)):
            raise InvalidInputError(
                f"alpha must be one number, or one for each of the {v} targets; got shape "
                f"{wanted.shape}. For a grid use held_out([HoldOut(rows)], alphas=...).",
                argument="alpha",
                remedies=("alphas",),
            )
        check_alphas(np.unique(wanted), "alpha")
        return np.broadcast_to(wanted.astype(np.float64), v)

    def kernels(self) -> Iterator[tuple[dict[str, Any], Fitted]]:
        """Yield every kernel that was compared, on all rows, with the penalties it had there."""
        training, table = self.training, self.search.table
        parts = list(kernel_parts(table))
        if len(parts) < 2:
            yield self.model.params, self
            return
        own = [without_alpha(table["params"][part.start]) for part in parts]
        candidates = [kernel_of(training, params, self.parameters) for params in own]
        models = Models(training, candidates)
        for candidate, part in zip(candidates, parts, strict=True):
            mine = candidate.params == self.model.params
            grid = replace(training, alphas=table["alpha"][part])
            model = (self.model if mine else models(candidate)).on(grid)
            yield candidate.params, self._with(model, self.fit if mine else None)

    @property
    def searched(self) -> bool:
        """Whether the width of the kernel was searched for."""
        return isinstance(self.parameters.get("gamma"), str)

    def kernels_without(self, held: IntArray) -> Iterator[tuple[dict[str, Any], Fitted]]:
        """Yield kernels with widths as fine as a search, from the rows that are not held."""
        training, weights = self.training, self.training.weights.copy()
        weights[held] = 0.0
        candidates = kernel_grid(
            **{name: self.parameters[name] for name in KERNEL_ARGUMENTS},
            n_features=training.n_features,
            widths=partial(fine_widths, X=training.X, weights=weights),
        )
        models = Models(training, candidates)
        for candidate in candidates:
            yield candidate.params, self._with(models(candidate), None)

    # -- predictions and their scores --------------------------------------------------------------

    def predict(
        self, experiments: Experiments, times: int = 1
    ) -> tuple[Experiments, IntArray, FloatArray]:
        """Return what was tested, of which experiment, and predictions (k, v).

        The plan expects to be asked this many `times` for such experiments.
        """
        tasks = self.model.tasks(experiments)
        values = self.model.at(tasks, self.alphas, times)
        tested = Experiments(experiments.held_out.items(tasks.source), tasks.test)
        return tested, tasks.source, values

    def scores(
        self, values: FloatArray, tasks: Tasks, models: HeldOutModels | None = None
    ) -> Scores:
        """Return the scores of predictions (a, k, v) of targets as they were given.

        With the standard errors that the rule asks for. Scores of a distribution need
        the held-out models.
        """
        training, objective, rows = self.training, self.objective, tasks.test.values
        moments = None
        if models is not None:
            errors = training.labels[rows] - values
            moments = partial(second_moments, models, training.alphas, errors)
        scores = objective.scores(training, values, tasks.test, moments=moments)
        if objective.rule == "best":
            return scores
        best = np.atleast_1d(objective.choose(scores, training.alphas, "best").indices)
        v = values.shape[2]
        chosen = values[np.broadcast_to(best, v), :, np.arange(v)].T  # (k, v)
        return self.with_errors(scores, chosen, rows)

    def with_errors(self, scores: Scores, chosen: FloatArray, rows: IntArray) -> Scores:
        """Return scores with the standard error over units of predictions (k, v) at the best one.

        A mean over experiments, and a density, keep the standard error over experiments.
        """
        objective = self.objective
        if not objective.pooled or objective.scoring.density:
            return scores
        each = objective.per_target and scores.per_target is not None
        found = self.estimate(chosen, rows, per_target=each)
        se = found.slope * found.standard_error
        if np.isnan(se).any():
            return scores
        table = np.broadcast_to(se, (len(scores.pooled), se.size))
        return replace(scores, per_target_se=table) if each else replace(scores, se=table[:, 0])

    def estimate(
        self, values: FloatArray, rows: IntArray, *, per_target: bool | None = None
    ) -> Estimate:
        """Return the score of predictions (k, v) of tested rows with its standard error over units.

        That of a mean over rows; any other score is jackknifed.
        """
        used = np.flatnonzero(self.training.score_weights[rows] > 0)

        def part(places: IntArray) -> FloatArray:
            at = used[places]
            return self.whole(values[at], Ragged(rows[at], np.array([0, at.size])))[0]

        try:
            score = self.row_mean(rows, per_target=per_target)
        except NoRowMean:
            return jackknife(part, self.units.code[rows[used]])
        mean, variance = self.mean_and_variance(score, values, rows)
        return Estimate(mean, np.sqrt(variance), self.freedom(rows), score)

    def freedom(self, rows: IntArray) -> int | None:
        """Return the degrees of freedom of a variance over the units of rows; None: very many."""
        return self.units.freedom(rows[self.training.weights[rows] > 0])

    def row_mean(self, rows: IntArray, *, per_target: bool | None = None) -> RowMean:
        """Return the score of tested rows as a mean over them."""
        each = self.objective.per_target if per_target is None else per_target
        return row_mean(
            self.objective.scoring,
            self.training.labels,
            self.training.score_weights,
            rows,
            per_target=each,
        )

    def mean_and_variance(
        self, score: RowMean, predictions: FloatArray, rows: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the mean over rows (c,) and its plain variance; rows of weight zero left out."""
        used = self.training.weights[rows] > 0
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
        objective, training, v = self.objective, self.training, values.shape[1]
        columns: list[Any] = [[t] for t in range(v)] if objective.per_target else [slice(None)]
        found = [objective.scores(training, values[None, :, c], test, columns=c) for c in columns]
        total = [s.first(pooled=objective.pooled, per_target=False)[0] for s in found]
        return np.array(total), np.array([s.splits[0] for s in found])

    def value(self, scores: Scores) -> float:
        """Return what kernels are compared by: the best score, averaged over targets."""
        return float(np.mean(self.objective.choose(scores, self.training.alphas, "best").score))

    # -- refusals ----------------------------------------------------------------------------------

    def refuse_classes(self, what: str) -> None:
        """Raise if the targets are classes, for an answer about numbers."""
        if self.objective.classes is not None:
            raise NotSupportedError(
                f"{what} is for regression: the targets of a classifier are classes. Use "
                "decision_function, predict_proba or held_out(...).labels()."
            )

    def flat(self, values: FloatArray) -> FloatArray:
        """Return values (k, v) as (k,) where y was one-dimensional."""
        return values[:, 0] if self.training.flat else values


class Estimator(Protocol):
    """A fitted estimator, as answers see it: they are its methods."""

    def _fitted_state(self) -> Fitted:
        """Return the fitted model as a value."""
        ...

    def _new_rows(self, X: Any) -> Any:
        """Return new rows, checked."""
        ...


def without_alpha(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a kernel in a line of ``cv_results_["params"]``."""
    return {name: value for name, value in params.items() if name != "alpha"}


def kernel_of(
    training: TrainingData, params: dict[str, Any], parameters: Mapping[str, Any]
) -> Candidate:
    """Return the kernel of these arguments, of an estimator with such parameters."""
    (found,) = kernel_grid(
        params["kernel"],
        gamma=params.get("gamma"),
        degree=params.get("degree", 3),
        coef0=params.get("coef0", 1.0),
        kernel_params=parameters.get("kernel_params"),
        n_features=training.n_features,
    )
    return Candidate(found.kernel, params)
