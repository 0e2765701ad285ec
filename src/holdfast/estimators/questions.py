"""What a fitted model can be asked about rows that it never saw."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from holdfast._typing import FloatArray, IntArray
from holdfast.basis import Fixed, Points
from holdfast.basis.base import whole_number
from holdfast.basis.resolve import as_selector
from holdfast.estimators.fitted import snapshot
from holdfast.estimators.model import Model, make_model, redrawn, rows_with_kernel
from holdfast.estimators.problem import Problem
from holdfast.estimators.results import HeldOutPredictions, Law
from holdfast.exceptions import InvalidInputError, NotSupportedError
from holdfast.experiments import Experiments, Ragged, Tasks, as_experiments
from holdfast.holdout.models import HeldOutModels
from holdfast.holdout.plan import Plan
from holdfast.holdout.verify import Verification, verify
from holdfast.kernels import Kernel, Precomputed
from holdfast.scores.choice import check_alphas


class HeldOutQuestions(ABC):
    """Held-out predictions of a fitted model, without retraining; set up by `fit`."""

    alpha_: float | FloatArray
    basis_indices_: IntArray
    scoring: Any
    pooled: bool
    _problem: Problem
    _kernel: Kernel | Precomputed
    _model: Model | None
    _plan: Plan
    _frames: str | None

    @property
    @abstractmethod
    def _classes(self) -> NDArray[Any] | None:
        """Class labels, or None for regression."""

    @property
    def alphas_(self) -> FloatArray:
        """The penalties compared with the chosen kernel, shape (a,)."""
        return self._problem.alphas

    def _fitted_model(self) -> Model:
        """Return the model, built again from the training rows after unpickling."""
        check_is_fitted(self)
        problem = self._problem
        if self._model is None or self._model.problem is not problem:
            data = rows_with_kernel(self._kernel, problem.X, problem.basis)
            basis = self.basis_indices_ if problem.on_basis else None
            chosen = np.broadcast_to(np.asarray(self.alpha_, dtype=float), problem.Y.shape[1])
            made = make_model(problem, self._kernel, data, basis)
            self._model = replace(made, chosen=chosen)
        return self._model

    def held_out(
        self,
        cv: Any = None,
        groups: ArrayLike | None = None,
        alphas: ArrayLike | None = None,
        *,
        basis_draws: int = 1,
    ) -> HeldOutPredictions:
        """Return exact held-out predictions on the training rows for any way of holding out.

        Parameters
        ----------
        cv : optional
            As in the constructor; None: the experiments of `fit`.
        groups : array-like of shape (m,), optional
            For splitters and scores that use groups; None: the groups of `fit`.
        alphas : array-like, optional
            Penalties; None: the grid of `fit`.
        basis_draws : int, default=1
            How often the basis rows are drawn. An experiment is a held-out set, its test rows and
            the chance that the model was trained with (Pahikkala et al. 2012 (6)): with d draws all
            experiments are listed d times, one draw after another, the first being that of `fit`,
            and scores average over the draws as well. Under ``held_out_basis="reselect"`` every
            experiment has draws of its own; under other policies each draw is one more fit. A
            selector that leaves nothing to chance chooses the same rows every time.

        Notes
        -----
        What `fit` computed is kept where it is small (16 MB), and returned for its own experiments
        and penalties. Otherwise its factors give the answer and nothing is retrained, with two
        exceptions: ``held_out_basis="reselect"``, which means retraining, and experiments that
        leave little of the data or of the basis, for which retraining is more accurate (`explain`
        counts those that lose much of the basis).
        """
        model, problem = self._fitted_model(), self._problem
        experiments = problem.experiments
        labels = problem.groups if groups is None else np.asarray(groups)
        if cv is not None:
            experiments = as_experiments(
                cv,
                problem.weights.size,
                X=problem.X,
                y=problem.labels,
                groups=labels,
                classifier=self._classes is not None,
            )
        elif groups is not None:
            raise InvalidInputError(
                "groups must come with cv; got groups alone. Pass the cv that uses them as well.",
                argument="groups",
            )
        grid = problem.alphas if alphas is None else check_alphas(alphas)
        parts = []
        for draw in range(self._draws(basis_draws)):
            drawn = redrawn(model, self._kernel, draw)
            tasks = drawn.tasks(experiments)
            known = drawn.known_for(problem) if cv is None and alphas is None else None
            if known is not None:
                parts.append((tasks, known))
                continue
            path = drawn.plan(tasks, grid.size).path
            parts.append((tasks, drawn.held_out(tasks, grid, path)))
        tested, values = _listed(experiments, parts)
        law = decorrelated = None
        if self._classes is None and len(parts) == 1:
            errors, fitted = problem.Y[tasks.test.values] - values, snapshot(self)
            law = Law(partial(fitted._models_of, experiments, grid[:1]), grid, errors)
            decorrelated = partial(fitted._decorrelated, grid)
        return HeldOutPredictions(
            tested,
            grid,
            values,
            problem.labels,
            problem.weights,
            self._classes,
            self._frames,
            labels,
            law,
            self.scoring,
            self.pooled,
            decorrelated,
        )

    def _models_of(self, experiments: Experiments, alphas: FloatArray) -> HeldOutModels:
        """Return the held-out models of some experiments."""
        model = self._fitted_model()
        return model.held_models(model.tasks(experiments), alphas)

    def _decorrelated(self, alphas: FloatArray) -> FloatArray:
        """Return (I − S)^½ √w y over the σ that it implies, shape (a, m, v)."""
        smoother = self._fitted_model().smoother
        free = int(smoother.scale.trained.sum()) - smoother.unpenalised.count
        values = np.stack([smoother.half_residuals(float(alpha)) for alpha in alphas])
        return np.asarray(values / np.sqrt(np.square(values).sum(axis=1, keepdims=True) / free))

    def _draws(self, basis_draws: int) -> int:
        """Return how often the basis rows are drawn, if they are."""
        draws = whole_number("basis_draws", basis_draws)
        selector = as_selector(self._problem.basis, self._problem.weights.size)
        if draws > 1 and (selector is None or isinstance(selector, Fixed | Points)):
            raise NotSupportedError(
                "basis_draws is for basis rows that are drawn; these are all rows or the user's "
                "own. Pass basis=100 (or another number of rows) or a selector, and fit again.",
                argument="basis_draws",
                remedies=("basis",),
            )
        return draws

    def verify(self, n_experiments: int = 5, random_state: Any = 0) -> Verification:
        """Return how far the fast predictions lie from models that are really retrained.

        Parameters
        ----------
        n_experiments : int
            How many experiments of `fit` to retrain, drawn at random.
        random_state : int, numpy generator or None
            Seed of the draw.
        """
        model, problem = self._fitted_model(), self._problem
        if model.reselects:
            raise NotSupportedError(
                'held_out_basis="reselect" retrains every experiment already: there is no fast '
                "prediction to verify.",
                argument="held_out_basis",
            )
        count = whole_number("n_experiments", n_experiments)
        tasks = model.tasks(problem.experiments)
        path = model.plan(tasks, problem.alphas.size).path
        chosen = np.flatnonzero(np.isin(problem.alphas, self.alpha_))
        return verify(model.smoother, tasks, problem.alphas, path, count, random_state, chosen)

    def _leverages(self, alpha: float | None = None) -> FloatArray:
        """Return S_ii of every training row: the derivative of its fitted value by its own target.

        Between 0 and 1; 0 for rows of weight zero. Their sum is the model's effective number of
        parameters, the intercept included. By default at the model's penalty (the first, if it
        has one per target).
        """
        chosen = float(np.atleast_1d(self.alpha_)[0]) if alpha is None else float(alpha)
        return self._fitted_model().smoother.leverages(chosen)

    def explain(self) -> Plan:
        """Return the plan of `fit`: the path taken; cost and memory of each, and why."""
        check_is_fitted(self)
        return self._plan


def _listed(
    experiments: Experiments, parts: list[tuple[Tasks, FloatArray]]
) -> tuple[Experiments, FloatArray]:
    """Return what is tested after the policy, and predictions, one draw after another."""
    listed = []
    for tasks, _ in parts:
        tested = experiments
        if len(tasks) < len(experiments) or tasks.test is not experiments.test:
            tested = Experiments(experiments.held_out.items(tasks.source), tasks.test)
        listed.append(tested)
    if len(parts) == 1:
        return listed[0], parts[0][1]
    held = Ragged.joined([tested.held_out for tested in listed])
    test = Ragged.joined([tested.test for tested in listed])
    return Experiments(held, test), np.concatenate([values for _, values in parts], axis=1)
