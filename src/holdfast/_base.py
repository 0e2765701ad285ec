"""The cross-validated estimator behind the regressor and the classifier."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from numbers import Real
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from holdfast.candidates import Candidate, kernel_grid
from holdfast.checkpoint import Checkpoint
from holdfast.daskrows import is_dask, local
from holdfast.engine import Engine
from holdfast.exceptions import HoldOutError, InvalidInputError, NotSupportedError
from holdfast.experiments import POLICIES, Experiments, HoldOut, as_experiments
from holdfast.frames import library_of
from holdfast.inputs import as_data, check_rows, check_weights, refusals, takes_objects
from holdfast.kernels import Precomputed
from holdfast.memory import memory_bytes
from holdfast.plan import PATHS, Plan
from holdfast.results import HeldOutPredictions, Verification
from holdfast.scoring import resolve_scoring
from holdfast.search import Found, search
from holdfast.selection import check_alphas
from holdfast.splits import row_numbers
from holdfast.systems import FloatArray, row_blocks
from holdfast.training import Training


class CrossValidatedKernelRidge(BaseEstimator, ABC):  # type: ignore[misc]  # sklearn is untyped
    """Kernel least squares with exact held-out predictions over a grid of penalties."""

    # "no_validation": checked where it is used, with a better sentence.
    _parameter_constraints: ClassVar[dict[str, list[Any] | str]] = {
        "kernel": "no_validation",
        "gamma": [Interval(Real, 0, None, closed="neither"), "array-like", None],
        "degree": [Interval(Real, 0, None, closed="neither"), "array-like"],
        "coef0": [Real, "array-like"],
        "kernel_params": [dict, None],
        "alphas": "no_validation",
        "basis": "no_validation",
        "cv": ["cv_object", None],
        "held_out_basis": [StrOptions(set(POLICIES))],
        "fit_intercept": ["boolean"],
        "scoring": "no_validation",
        "pooled": ["boolean"],
        "alpha_per_target": ["boolean"],
        "rule": [StrOptions({"best", "1se"})],
        "jitter": [Interval(Real, 0, None, closed="left")],
        "path": [StrOptions({"auto", *PATHS})],
        "memory_limit": "no_validation",
        "checkpoint": [str, PathLike, None],
        "random_state": ["random_state"],
    }

    _engine: Engine | None

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: Any = None,
        degree: Any = 3,
        coef0: Any = 1.0,
        kernel_params: dict[str, Any] | None = None,
        alphas: ArrayLike | None = None,
        basis: Any = None,
        cv: Any = None,
        held_out_basis: str = "remove",
        fit_intercept: bool = True,
        scoring: Any = None,
        pooled: bool = True,
        alpha_per_target: bool = False,
        rule: str = "best",
        jitter: float = 1e-10,
        path: str = "auto",
        memory_limit: float | str | None = None,
        checkpoint: str | PathLike[str] | None = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.alphas = alphas
        self.basis = basis
        self.cv = cv
        self.held_out_basis = held_out_basis
        self.fit_intercept = fit_intercept
        self.scoring = scoring
        self.pooled = pooled
        self.alpha_per_target = alpha_per_target
        self.rule = rule
        self.jitter = jitter
        self.path = path
        self.memory_limit = memory_limit
        self.checkpoint = checkpoint
        self.random_state = random_state

    # -- what the two estimators differ in ------------------------------------------------------

    @abstractmethod
    def _targets(
        self, y: Any, n_rows: int, weights: FloatArray
    ) -> tuple[FloatArray, NDArray[Any], bool]:
        """Return (Y (m, v), labels to score with, whether y was one-dimensional)."""

    @property
    @abstractmethod
    def _classes(self) -> NDArray[Any] | None:
        """Class labels, or None for regression."""

    # -- fit --------------------------------------------------------------------------------------

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: ArrayLike | None = None
    ) -> Self:
        """Choose the penalty by exact cross-validation and fit on all rows.

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (m, d), or m objects
            Rows; the kernel matrix itself with ``kernel="precomputed"``.
        y : array-like of shape (m,) or (m, v)
            Targets.
        sample_weight : array-like of shape (m,), optional
            Weight of each row, in the fit and in the scores. A row of weight zero is predicted
            and never trained on.
        groups : array-like of shape (m,), optional
            Group of each row, for splitters and basis selectors that use groups.

        Returns
        -------
        self
        """
        before = self.__dict__.copy()
        try:
            return self._fit(X, y, sample_weight, groups)
        except BaseException:  # bad input changes nothing
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: ArrayLike | None) -> Self:
        with refusals():
            self._validate_params()
        y, sample_weight, groups = local(y), local(sample_weight), local(groups)
        objects = any(takes_objects(candidate.kernel) for candidate in self._candidates(1))
        rows = check_rows(self, X, objects=objects, reset=True)
        self._frames = library_of(X)
        candidates = self._candidates(rows.shape[1] if rows.ndim == 2 else None)
        m = rows.shape[0]
        weights = check_weights(sample_weight, m)
        Y, labels, flat = self._targets(y, m, weights)
        if self.alpha_per_target and self._classes is not None:
            raise NotSupportedError(
                "alpha_per_target=True is for regression; the classes of a classifier are one "
                "decision and share one alpha."
            )
        experiments = as_experiments(
            self.cv, m, X=rows, y=labels, groups=groups, classifier=self._classes is not None
        )
        training = Training(
            X=rows,
            Y=Y,
            labels=labels,
            weights=weights,
            groups=None if groups is None else np.asarray(groups),
            experiments=experiments,
            alphas=check_alphas(self.alphas),
            flat=flat,
            seed=self._seed(),
            basis=self.basis,
            policy=self.held_out_basis,  # type: ignore[arg-type]  # checked by _validate_params
            bias=self.fit_intercept,
            jitter=self.jitter,
            path=self.path,
            memory=memory_bytes(self.memory_limit),
        )
        scoring = resolve_scoring(self.scoring, classes=self._classes)
        store = None
        if self.checkpoint is not None:
            store = Checkpoint(
                self.checkpoint,
                training,
                scoring,
                per_target=self.alpha_per_target,
                seeded=self.random_state is not None,
            )
            training = replace(training, seed=store.seed)
        found = search(
            training,
            candidates,
            scoring,
            pooled=self.pooled,
            rule=self.rule,
            per_target=self.alpha_per_target,
            store=store,
        )
        self._publish(training, candidates[found.index], found)
        return self

    def _seed(self) -> int:
        if isinstance(self.random_state, np.random.RandomState):
            return int(self.random_state.randint(np.iinfo(np.int32).max))
        if self.random_state is None:
            return int(np.random.default_rng().integers(2**31))
        return int(self.random_state)

    def _candidates(self, n_features: int | None) -> list[Candidate]:
        return kernel_grid(
            self.kernel,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            kernel_params=self.kernel_params,
            n_features=n_features,
        )

    def _publish(self, training: Training, candidate: Candidate, found: Found) -> None:
        """Fit on all rows with the penalty found and set the fitted attributes."""
        (engine, plan, selector), choice = found.model, found.choice
        chosen = np.broadcast_to(np.asarray(choice.alpha, dtype=float), training.Y.shape[1])
        coef, intercept = engine.fit(chosen)
        self._training, self._engine, self._plan = training, engine, plan
        self._kernel, self.kernel_ = candidate.kernel, candidate.kernel
        self.alpha_, self.best_score_ = choice.alpha, choice.score
        self.best_index_ = choice.indices + found.index * training.alphas.size
        self.cv_results_ = found.results
        self.best_params_ = candidate.params
        self.basis_selector_ = selector
        self.n_splits_ = len(training.experiments)
        m = training.X.shape[0]
        self.basis_indices_ = np.arange(m) if engine.basis is None else engine.basis
        self.jitter_ = engine.shift
        self._linear_coef = None
        if engine.basis is None and not engine.dual:
            self._linear_coef = coef
            residual = engine.Y - (local(training.X @ coef) + intercept)
            coef = training.weights[:, None] * residual / chosen
        self._dual_coef, self._intercept = coef, intercept + training.offset
        self.dual_coef_ = coef[:, 0] if training.flat else coef
        self.intercept_ = float(self._intercept[0]) if training.flat else self._intercept

    # -- predictions ------------------------------------------------------------------------------

    def _decision(self, X: Any) -> FloatArray:
        """Return model values for new rows, shape (k, v)."""
        check_is_fitted(self)
        rows = check_rows(self, X, objects=takes_objects(self._kernel), reset=False)
        if is_dask(rows):
            return self._lazy_decision(rows)
        if self._linear_coef is not None:
            return np.asarray(rows @ self._linear_coef + self._intercept)
        data = as_data(self._kernel, self._training.X, self.basis)
        values = np.empty((rows.shape[0], self._dual_coef.shape[1]))
        for block in row_blocks(rows.shape[0], self.basis_indices_.size):
            K = data.predict_block(rows[block], self.basis_indices_)
            values[block] = K @ self._dual_coef
        return values + self._intercept

    def _lazy_decision(self, rows: Any) -> Any:
        """Return model values of Dask rows, computed chunk by chunk when they are asked for."""
        if self._linear_coef is not None:
            return rows @ self._linear_coef + self._intercept
        basis = as_data(self._kernel, self._training.X, self.basis).take(self.basis_indices_)
        coef, intercept = self._dual_coef, self._intercept

        def values(block: FloatArray) -> FloatArray:
            return np.asarray(basis.predict_block(block, slice(None)) @ coef + intercept)

        return rows.map_blocks(values, chunks=(rows.chunks[0], (coef.shape[1],)), dtype=float)

    # -- held-out questions -----------------------------------------------------------------------

    def _engine_again(self) -> Engine:
        """Return the engine, built again from the training rows after unpickling."""
        check_is_fitted(self)
        if self._engine is None:
            data = self._training.data(self._kernel)
            basis = None if self.basis is None else self.basis_indices_
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
        Nothing is retrained: the factors of `fit` answer (``held_out_basis="reselect"`` is the
        exception, by its meaning).
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
            raise InvalidInputError("groups was given without cv: pass both, or neither.")
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

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a file that `holdfast.load` reads, whole or not at all.

        Parameters
        ----------
        path : path
            Where to write; ".holdfast" is the usual ending. The file holds the training rows.
        """
        from holdfast.files import save

        save(self, path)

    # -- scikit-learn -----------------------------------------------------------------------------

    def _repr_html_inner(self) -> str:
        return self._with_curve(super()._repr_html_inner())

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] = self._with_curve(bundle["text/html"])
        return bundle

    def _with_curve(self, html: str) -> str:
        """Return scikit-learn's picture of the estimator with its cross-validation curve below."""
        if not hasattr(self, "cv_results_"):
            return html
        from holdfast.displays.notebook import curve_html

        return html + curve_html(self)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the factors, which are built again when they are needed."""
        state: dict[str, Any] = super().__getstate__().copy()
        if "_engine" in state:
            state["_engine"] = None
        return state

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags."""
        tags = super().__sklearn_tags__()
        pairwise = isinstance(self.kernel, Precomputed) or (
            isinstance(self.kernel, str) and self.kernel == "precomputed"
        )
        tags.input_tags.sparse, tags.input_tags.pairwise = not pairwise, pairwise
        return tags
