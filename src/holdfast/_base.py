"""The cross-validated estimator behind the regressor and the classifier."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from holdfast.basis import Fixed, Selector, as_selector, resolve_basis
from holdfast.engine import Engine
from holdfast.exceptions import InvalidInputError, NotSupportedError, SelectionBiasWarning
from holdfast.experiments import (
    POLICIES,
    Experiments,
    HoldOut,
    IntArray,
    Tasks,
    as_experiments,
    resolve,
)
from holdfast.gram import KernelData
from holdfast.holdout.retrain import retrain
from holdfast.inputs import as_data, check_rows, check_weights, primal_features, takes_objects
from holdfast.kernels import Kernel, Precomputed, resolve_kernel
from holdfast.memory import memory_bytes
from holdfast.plan import PATHS, Plan
from holdfast.results import HeldOutPredictions, Verification
from holdfast.scoring import Scores, combine, resolve_scoring, score_experiments
from holdfast.selection import check_alphas, choose, cv_results
from holdfast.systems import FloatArray, basis_jitter, row_blocks

#: Doubles of held-out predictions that are kept at once; wider targets are taken in chunks.
CHUNK_DOUBLES = 2**27


@dataclass(frozen=True, eq=False)
class Training:
    """What `fit` saw, after checks: enough to answer any later held-out question.

    Attributes
    ----------
    X : rows of the data
    Y : ndarray of shape (m, v)
        Targets that the algebra works on (±1 for a classifier).
    labels : ndarray of shape (m, v) or (m,)
        Targets that scores are computed with (class labels for a classifier).
    weights : ndarray of shape (m,)
    groups : ndarray or None
    experiments : Experiments
    alphas : ndarray of shape (a,)
    flat : bool
        Whether y was one-dimensional.
    seed : int
        Seed of everything random that `fit` did.
    """

    X: Any
    Y: FloatArray
    labels: NDArray[Any]
    weights: FloatArray
    groups: NDArray[Any] | None
    experiments: Experiments
    alphas: FloatArray
    flat: bool
    seed: int

    @property
    def offset(self) -> FloatArray:
        """Weighted mean of the targets, taken out before and put back after all algebra."""
        return np.asarray(self.weights @ self.Y / self.weights.sum())


class CrossValidatedKernelRidge(BaseEstimator, ABC):  # type: ignore[misc]  # sklearn is untyped
    """Kernel least squares with exact held-out predictions over a grid of penalties."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [str, callable, Kernel, Precomputed],
        "gamma": [Interval(Real, 0, None, closed="neither"), "array-like", None],
        "degree": [Interval(Real, 0, None, closed="neither")],
        "coef0": [Real],
        "kernel_params": [dict, None],
        "alphas": ["array-like", Real, None],
        "basis": [Integral, Real, "array-like", Selector, None],
        "cv": ["cv_object", None],
        "held_out_basis": [StrOptions(set(POLICIES))],
        "fit_intercept": ["boolean"],
        "scoring": [str, callable, None],
        "pooled": ["boolean"],
        "alpha_per_target": ["boolean"],
        "rule": [StrOptions({"best", "1se"})],
        "jitter": [Interval(Real, 0, None, closed="left")],
        "path": [StrOptions({"auto", *PATHS})],
        "memory_limit": [Real, str, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: Any = None,
        degree: float = 3,
        coef0: float = 1.0,
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
        self._validate_params()
        kernel = self._resolve_kernel(None)
        rows = check_rows(self, X, objects=takes_objects(kernel), reset=True)
        kernel = self._resolve_kernel(rows)
        m = rows.shape[0]
        weights = check_weights(sample_weight, m)
        Y, labels, flat = self._targets(y, m, weights)
        if self.alpha_per_target and self._classes is not None:
            raise NotSupportedError(
                "alpha_per_target=True is for regression; the classes of a classifier are one "
                "decision and share one alpha."
            )
        alphas = check_alphas(self.alphas)
        scorer = resolve_scoring(self.scoring, classes=self._classes)
        experiments = as_experiments(
            self.cv, m, X=rows, y=labels, groups=groups, classifier=self._classes is not None
        )
        group_labels = None if groups is None else np.asarray(groups)
        training = Training(
            rows, Y, labels, weights, group_labels, experiments, alphas, flat, self._seed()
        )
        engine = self._build(kernel, training)
        tasks = self._tasks(training, engine.basis, experiments)
        plan = engine.plan(tasks, Y.shape[1], alphas.size, self.path)
        scores = self._score(scorer, training, engine, tasks, plan)
        choice = choose(
            scores,
            alphas,
            pooled=self.pooled,
            rule=self.rule,
            per_target=self.alpha_per_target,
        )
        results = cv_results(scores, alphas, self.pooled)
        chosen = np.broadcast_to(np.asarray(choice.alpha, dtype=float), Y.shape[1])
        coef, intercept = engine.fit(chosen)
        self._kernel = kernel
        self._publish(training, engine, plan, coef, intercept, chosen)
        self.alpha_, self.best_score_, self.cv_results_ = choice.alpha, choice.score, results
        self.best_index_ = choice.indices
        self.n_splits_ = len(experiments)
        return self

    def _seed(self) -> int:
        if isinstance(self.random_state, np.random.RandomState):
            return int(self.random_state.randint(np.iinfo(np.int32).max))
        if self.random_state is None:
            return int(np.random.default_rng().integers(2**31))
        return int(self.random_state)

    def _resolve_kernel(self, rows: Any) -> Kernel | Precomputed:
        n_features = 1 if rows is None else rows.shape[1] if rows.ndim == 2 else None
        gamma = None if rows is None and np.ndim(self.gamma) else self.gamma
        return resolve_kernel(
            self.kernel,
            gamma=gamma,
            degree=self.degree,  # type: ignore[arg-type]  # checked by the kernel itself
            coef0=self.coef0,
            kernel_params=self.kernel_params,
            n_features=n_features,
        )

    def _build(
        self, kernel: Kernel | Precomputed, training: Training, basis: IntArray | None = None
    ) -> Engine:
        """Return the engine on all rows, choosing the basis rows unless they are given."""
        data = as_data(kernel, training.X, self.basis)
        if basis is None:
            basis = resolve_basis(
                self._selector(training),
                data,
                training.Y,
                training.weights,
                training.groups,
                training.experiments,
                np.random.default_rng(training.seed),
            )
        memory = memory_bytes(self.memory_limit)
        features = primal_features(kernel, training.X, basis is None)
        if basis is None and features is None and 16.0 * len(data) ** 2 > memory:
            raise InvalidInputError(
                f"a dense model of {len(data)} rows needs {16e-9 * len(data) ** 2:.3g} GB, more "
                f"than the {memory / 1e9:.3g} GB it may take. Pass basis=1000 (or another number "
                "of basis rows), or raise memory_limit."
            )
        return Engine(
            data,
            training.weights,
            training.Y - training.offset * self.fit_intercept,
            basis=basis,
            features=features,
            bias=self.fit_intercept,
            shift=0.0 if basis is None else basis_jitter(data, basis, self.jitter),
            definite=isinstance(kernel, Precomputed) or kernel.positive_semidefinite,
            trusted=not (isinstance(kernel, Precomputed) or kernel.accepts_objects),
            memory=memory,
        )

    def _selector(self, training: Training) -> Selector | None:
        selector = as_selector(self.basis, training.X.shape[0])
        if self.held_out_basis != "reselect" or selector is None:
            if selector is not None and selector.data_dependent:
                warnings.warn(
                    f"{type(selector).__name__} chose the basis rows by looking at rows that are "
                    "later held out, so the held-out scores may be optimistic: use "
                    'held_out_basis="reselect" for an estimate without that bias.',
                    SelectionBiasWarning,
                    stacklevel=4,
                )
            return selector
        if isinstance(selector, Fixed):
            raise NotSupportedError(
                'held_out_basis="reselect" chooses basis rows anew for each experiment, which rows '
                "given as basis=[...] do not allow. Pass a number of rows or a selector."
            )
        return selector

    def _tasks(self, training: Training, basis: IntArray | None, experiments: Experiments) -> Tasks:
        policy = self.held_out_basis
        return resolve(
            experiments,
            weights=training.weights,
            basis=basis,
            policy="remove" if policy == "reselect" and basis is None else policy,  # type: ignore[arg-type]  # checked in fit
        )

    def _predict_tasks(
        self,
        training: Training,
        engine: Engine,
        tasks: Tasks,
        alphas: FloatArray,
        plan: Plan,
        columns: slice = slice(None),
    ) -> FloatArray:
        """Return held-out predictions (a, k, v) for some targets, the offset put back."""
        offset = training.offset[columns] * self.fit_intercept
        if self.held_out_basis == "reselect" and engine.basis is not None:
            Y = engine.Y[:, columns]
            return self._reselected(training, engine.data, Y, tasks, alphas) + offset
        return engine.predict(tasks, alphas, plan.path, columns) + offset

    def _reselected(
        self,
        training: Training,
        data: KernelData,
        Y: FloatArray,
        tasks: Tasks,
        alphas: FloatArray,
    ) -> FloatArray:
        """Return predictions of models whose basis rows come from their own training rows."""
        seeds = np.random.SeedSequence(training.seed).generate_state(len(tasks))
        predictions = np.empty((alphas.size, tasks.test.values.size, Y.shape[1]))
        for j in range(len(tasks)):
            weights = training.weights.copy()
            weights[tasks.held[j]] = 0.0
            train = np.flatnonzero(weights > 0)
            chosen = resolve_basis(
                self.basis,
                data.take(train),
                Y[train],
                weights[train],
                None if training.groups is None else training.groups[train],
                None,
                np.random.default_rng(seeds[j]),
            )
            assert chosen is not None
            basis = train[chosen]
            predictions[:, tasks.test.ptr[j] : tasks.test.ptr[j + 1]] = retrain(
                data,
                basis,
                weights,
                Y,
                tasks.test[j],
                alphas,
                bias=self.fit_intercept,
                shift=basis_jitter(data, basis, self.jitter),
            )
        return predictions

    def _score(
        self, scorer: Any, training: Training, engine: Engine, tasks: Tasks, plan: Plan
    ) -> Scores:
        """Return the scores of all penalties; very many targets are taken in chunks."""
        v, k = training.Y.shape[1], tasks.test.values.size
        step = (
            v if training.labels.ndim == 1 else max(1, CHUNK_DOUBLES // (training.alphas.size * k))
        )
        parts, sizes = [], []
        for start in range(0, v, step):
            columns = slice(start, min(start + step, v))
            predictions = self._predict_tasks(
                training, engine, tasks, training.alphas, plan, columns
            )
            labels = training.labels if training.labels.ndim == 1 else training.labels[:, columns]
            parts.append(
                score_experiments(
                    scorer,
                    predictions,
                    tasks.test.values,
                    tasks.test.ptr,
                    labels,
                    training.weights,
                    each_target=self.alpha_per_target,
                )
            )
            sizes.append(columns.stop - columns.start)
        return parts[0] if len(parts) == 1 else combine(parts, sizes)

    def _publish(
        self,
        training: Training,
        engine: Engine,
        plan: Plan,
        coef: FloatArray,
        intercept: FloatArray,
        chosen: FloatArray,
    ) -> None:
        """Set the fitted attributes."""
        offset = training.offset * self.fit_intercept
        m = training.X.shape[0]
        self.basis_indices_ = np.arange(m) if engine.basis is None else engine.basis
        self.jitter_ = engine.shift
        self._training, self._engine, self._plan = training, engine, plan
        self._linear_coef = None
        if engine.basis is None and not engine.dual:
            self._linear_coef = coef
            residual = engine.Y - (training.X @ coef + intercept)
            coef = training.weights[:, None] * residual / chosen
        self._dual_coef, self._intercept = coef, intercept + offset
        self.dual_coef_ = coef[:, 0] if training.flat else coef
        self.intercept_ = float(self._intercept[0]) if training.flat else self._intercept

    # -- predictions ------------------------------------------------------------------------------

    def _decision(self, X: Any) -> FloatArray:
        """Return model values for new rows, shape (k, v)."""
        check_is_fitted(self)
        rows = check_rows(self, X, objects=takes_objects(self._kernel), reset=False)
        if self._linear_coef is not None:
            return np.asarray(rows @ self._linear_coef + self._intercept)
        data = as_data(self._kernel, self._training.X, self.basis)
        values = np.empty((rows.shape[0], self._dual_coef.shape[1]))
        for block in row_blocks(rows.shape[0], self.basis_indices_.size):
            K = data.predict_block(rows[block], self.basis_indices_)
            values[block] = K @ self._dual_coef
        return values + self._intercept

    # -- held-out questions -----------------------------------------------------------------------

    def _engine_again(self) -> Engine:
        """Return the engine, built again from the training rows after unpickling."""
        check_is_fitted(self)
        if self._engine is None:
            sparse = self.basis is not None
            self._engine = self._build(
                self._kernel, self._training, self.basis_indices_ if sparse else None
            )
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
        tasks = self._tasks(training, engine.basis, experiments)
        plan = engine.plan(tasks, training.Y.shape[1], grid.size, self.path)
        values = self._predict_tasks(training, engine, tasks, grid, plan)
        tested = experiments
        if len(tasks) < len(experiments) or tasks.test is not experiments.test:
            tested = Experiments(experiments.held_out.items(tasks.source), tasks.test)
        return HeldOutPredictions(
            tested, grid, values, training.labels, training.weights, self._classes
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
        alpha : float, optional
            Penalty; default: the chosen ``alpha_``.

        Returns
        -------
        ndarray of shape (k,) or (k, v)
            One row per test row; decision values for a classifier.
        """
        check_is_fitted(self)
        experiment = HoldOut(rows, test)
        v = self._training.Y.shape[1]
        wanted = np.broadcast_to(
            np.asarray(self.alpha_ if alpha is None else check_alphas(alpha), dtype=float), v
        )
        grid, index = np.unique(wanted, return_inverse=True)
        values = self.held_out([experiment], alphas=grid).values
        result = values[index, :, np.arange(v)].T
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
        engine, training = self._engine_again(), self._training
        if self.held_out_basis == "reselect" and engine.basis is not None:
            raise NotSupportedError(
                'held_out_basis="reselect" retrains every experiment already: there is no fast '
                "prediction to verify."
            )
        tasks = self._tasks(training, engine.basis, training.experiments)
        count = min(int(n_experiments), len(tasks))
        if count < 1:
            raise InvalidInputError(f"n_experiments must be at least 1; got {n_experiments}.")
        chosen = np.sort(np.random.default_rng(random_state).permutation(len(tasks))[:count])
        part = tasks.select(chosen)
        plan = engine.plan(tasks, training.Y.shape[1], training.alphas.size, self.path)
        fast = self._predict_tasks(training, engine, part, training.alphas, plan)
        offset = training.offset * self.fit_intercept
        errors = np.empty((count, training.alphas.size))
        for j in range(count):
            weights = training.weights.copy()
            weights[part.held[j]] = 0.0
            basis = engine.basis
            if basis is not None:
                basis = np.delete(basis, part.removed[j])
            slow = offset + retrain(
                engine.data,
                basis,
                weights,
                training.Y - offset,
                part.test[j],
                training.alphas,
                bias=self.fit_intercept,
                shift=self.jitter_,
            )
            gap = np.abs(fast[:, part.test.ptr[j] : part.test.ptr[j + 1]] - slow)
            size = np.abs(slow).max(axis=(1, 2))
            errors[j] = gap.max(axis=(1, 2)) / np.where(size > 0, size, 1.0)
        return Verification(float(errors.max()), errors, part.source, training.alphas)

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

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the factors, which are built again when they are needed."""
        state: dict[str, Any] = super().__getstate__().copy()
        if "_engine" in state:
            state["_engine"] = None
        return state

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return tags
