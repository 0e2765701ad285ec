"""What a fitted model can be asked about rows that it never saw."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from holdfast._typing import FloatArray, IntArray
from holdfast.data.indices import row_numbers
from holdfast.estimators.engine import Engine
from holdfast.estimators.results import HeldOutPredictions, Verification
from holdfast.estimators.training import Training
from holdfast.exceptions import HoldOutError, InvalidInputError
from holdfast.experiments import Experiments, HoldOut, as_experiments
from holdfast.holdout.plan import Plan
from holdfast.kernels import Kernel, Precomputed
from holdfast.scores.choice import check_alphas


class HeldOutQuestions(ABC):
    """Held-out predictions of a fitted model, without retraining; set up by `fit`."""

    alpha_: float | FloatArray
    basis_indices_: IntArray
    _training: Training
    _kernel: Kernel | Precomputed
    _engine: Engine | None
    _plan: Plan
    _frames: str | None

    @property
    @abstractmethod
    def _classes(self) -> NDArray[Any] | None:
        """Class labels, or None for regression."""

    def _engine_again(self) -> Engine:
        """Return the engine, built again from the training rows after unpickling."""
        check_is_fitted(self)
        if self._engine is None:
            data = self._training.data(self._kernel)
            basis = None if self._training.basis is None else self.basis_indices_
            self._engine = self._training.engine(self._kernel, data, basis)
        return self._engine

    def held_out(
        self, cv: Any = None, groups: ArrayLike | None = None, alphas: ArrayLike | None = None
    ) -> HeldOutPredictions:
        """Return exact held-out predictions on the training rows for any way of holding out.

        Parameters
        ----------
        cv : optional
            As in the constructor; None: the experiments of `fit`.
        groups : array-like of shape (m,), optional
            For splitters that use groups; None: the groups of `fit`.
        alphas : array-like, optional
            Penalties; None: the grid of `fit`.

        Notes
        -----
        The factors of `fit` answer, nothing is retrained, with two exceptions:
        ``held_out_basis="reselect"``, by its meaning, and experiments that leave little of the
        data or of the basis, which are more accurate that way (`explain` counts the latter).
        """
        engine, training = self._engine_again(), self._training
        experiments = training.experiments
        if cv is not None:
            experiments = as_experiments(
                cv,
                training.weights.size,
                X=training.X,
                y=training.labels,
                groups=training.groups if groups is None else groups,
                classifier=self._classes is not None,
            )
        elif groups is not None:
            raise InvalidInputError(
                "groups must come with cv; got groups alone. Pass the cv that uses them as well."
            )
        grid = training.alphas if alphas is None else check_alphas(alphas)
        tasks = training.tasks(engine.basis, experiments)
        plan = training.plan(engine, tasks, grid.size)
        values = training.held_out(engine, tasks, grid, plan)
        tested = experiments
        if len(tasks) < len(experiments) or tasks.test is not experiments.test:
            tested = Experiments(experiments.held_out.items(tasks.source), tasks.test)
        return HeldOutPredictions(
            tested, grid, values, training.labels, training.weights, self._classes, self._frames
        )

    def holdout(
        self, rows: ArrayLike, test: ArrayLike | None = None, alpha: float | None = None
    ) -> FloatArray:
        """Return predictions for `test` by the model that never saw `rows`.

        Parameters
        ----------
        rows : array-like of int
            Training rows to hold out.
        test : array-like of int, optional
            Rows to predict, a part of `rows`; default: all of them.
        alpha : float or ndarray of shape (v,), optional
            Penalty, or one per target; default: the chosen ``alpha_``.

        Returns
        -------
        ndarray of shape (k,) or (k, v)
            One row per test row; decision values for a classifier.
        """
        check_is_fitted(self)
        m, v = self._training.Y.shape
        held = row_numbers("rows", rows, m)
        tested = held if test is None else row_numbers("test", test, m)
        wanted = np.asarray(self.alpha_ if alpha is None else alpha)
        if wanted.shape not in ((), (v,)):
            raise InvalidInputError(
                f"alpha must be one number, or one for each of the {v} targets; got shape "
                f"{wanted.shape}. For a grid use held_out([HoldOut(rows)], alphas=...)."
            )
        grid, index = np.unique(np.broadcast_to(wanted, v), return_inverse=True)
        found = self.held_out([HoldOut(held, tested)], alphas=grid)
        if found.rows.size < tested.size:
            raise HoldOutError(
                f"row {np.setdiff1d(tested, found.rows)[0]} is a basis row, which "
                'held_out_basis="skip" never tests. Leave basis rows out of `test`.'
            )
        result = found.values[index, :, np.arange(v)].T
        return result[:, 0] if self._training.flat else result

    def verify(self, n_experiments: int = 5, random_state: Any = 0) -> Verification:
        """Return how far the fast predictions lie from models that are really retrained.

        Parameters
        ----------
        n_experiments : int
            How many experiments of `fit` to retrain, drawn at random.
        random_state : int
            Seed of the draw.
        """
        engine = self._engine_again()
        return self._training.verify(engine, n_experiments, random_state)

    def explain(self) -> Plan:
        """Return the plan of `fit`: the path taken, the cost and memory of each, and why."""
        check_is_fitted(self)
        return self._plan
