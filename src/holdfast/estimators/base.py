"""The cross-validated estimator behind the regressor and the classifier."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import partial
from numbers import Real
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.answers.fitted import Fitted
from holdfast.answers.model import Model
from holdfast.answers.problem import Goal, Problem
from holdfast.answers.rows import expanded_in, rows_with_kernel
from holdfast.answers.trend import (
    column_errors,
    make_trend,
    parted,
    refuse_matrix,
    trend_of,
    trend_values,
)
from holdfast.cluster.rows import DaskRows, expand
from holdfast.data.dask import is_dask, local, on_rows
from holdfast.data.frames import library_of
from holdfast.data.memory import memory_bytes
from holdfast.data.seeds import seed_of
from holdfast.estimators.automatic import automatic_basis, told_basis
from holdfast.estimators.checkpoint import Checkpoint
from holdfast.estimators.inputs import (
    check_rows,
    check_weights,
    own_rows,
    refusals,
    refuse_standardize,
    takes_objects,
    unchanged_on_error,
    warn_of_groups,
)
from holdfast.estimators.policies import PolicyQuestions
from holdfast.estimators.questions import Questions
from holdfast.estimators.search import Found, Further, search
from holdfast.estimators.widths import WidthSearch
from holdfast.exceptions import NotSupportedError, warn
from holdfast.experiments import POLICIES, as_experiments
from holdfast.holdout import PATHS
from holdfast.kernels import Precomputed
from holdfast.kernels.grid import Candidate, kernel_grid
from holdfast.kernels.matrix import KernelData, KernelRows
from holdfast.kernels.parts import column_factors
from holdfast.kernels.typical import least_eigenvalue, total_eigenvalue, typical_widths
from holdfast.linalg import pieces_alone
from holdfast.scores.choice import check_alphas
from holdfast.scores.penalties import Penalties, default_penalties
from holdfast.scores.scoring import resolve_scoring
from holdfast.smoother.base import Fit
from holdfast.smoother.make import is_primal, primal_columns
from holdfast.smoother.rows import row_blocks
from holdfast.smoother.standardise import StandardisedColumns


class CrossValidatedKernelRidge(Questions, PolicyQuestions, BaseEstimator, ABC):  # type: ignore[misc]  # sklearn is untyped
    """Kernel least squares with exact held-out predictions over a grid of penalties."""

    # "no_validation": checked where it is used, with a clearer message.
    _parameter_constraints: ClassVar[dict[str, list[Any] | str]] = {
        "kernel": "no_validation",
        "gamma": [
            Interval(Real, 0, None, closed="neither"),
            StrOptions({"search", "auto"}),
            "array-like",
            None,
        ],
        "degree": [Interval(Real, 0, None, closed="neither"), "array-like"],
        "coef0": [Real, "array-like"],
        "kernel_params": [dict, None],
        "alphas": "no_validation",
        "basis": "no_validation",
        "cv": "no_validation",
        "held_out_basis": [StrOptions(set(POLICIES))],
        "fit_intercept": ["boolean"],
        "trend": "no_validation",
        "standardize": ["boolean"],
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
        trend: Any = None,
        standardize: bool = False,
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
        self.trend = trend
        self.standardize = standardize
        self.scoring = scoring
        self.pooled = pooled
        self.alpha_per_target = alpha_per_target
        self.rule = rule
        self.jitter = jitter
        self.path = path
        self.memory_limit = memory_limit
        self.checkpoint = checkpoint
        self.random_state = random_state

    #: What questions are put to; None before `fit`.
    _fitted: Fitted | None = None

    # -- what the two estimators differ in ------------------------------------------------------

    @property
    @abstractmethod
    def _classes(self) -> NDArray[Any] | None:
        """Class labels, or None for regression."""

    @property
    def _multilabel(self) -> bool:
        """Whether the targets are labels that a row may have, each by itself."""
        return False

    @abstractmethod
    def _targets(
        self, y: Any, n_rows: int, weights: FloatArray
    ) -> tuple[FloatArray, NDArray[Any], bool]:
        """Return (Y (m, v), labels to score with, whether y was one-dimensional)."""

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
            Weight of each row, in the fit and in the scores. A row of weight zero is predicted but
            never trained on.
        groups : array-like of shape (m,), optional
            Group of each row, for splitters, basis selectors and scores that use groups. Without a
            `cv` rows are left out one by one, with a warning: pass ``cv=LeaveOneGroupOut()``.

        Returns
        -------
        self

        Notes
        -----
        The estimator keeps its own copy of rows, targets and weights. Only rows in a file, and
        those that take more than a quarter of the memory limit, are not copied and must not be
        overwritten. What is set later by ``set_params`` takes effect at the next `fit`.
        """
        with unchanged_on_error(self):
            problem, candidates = self._prepare(X, y, sample_weight, groups)
            goal, store = self._goal(), None
            if self.checkpoint is not None:
                seeded = self.random_state is not None
                store = Checkpoint(self.checkpoint, problem, goal, seeded=seeded)
                problem = replace(problem, seed=store.seed)
            with pieces_alone(problem.weights.size):  # few rows gain nothing from BLAS threads
                grids = self._penalties(problem, candidates)
                further = self._further(problem, candidates)
                found = search(problem, goal, candidates, grids, store, further)
                self._publish(found, goal)
        return self

    def _goal(self) -> Goal:
        """Return what the model is judged by."""
        return Goal(
            resolve_scoring(self.scoring, classes=self._classes, multilabel=self._multilabel),
            self.pooled,
            self.rule,
            self.alpha_per_target,
            self.cv,
        )

    def _prepare(
        self, X: Any, y: Any, sample_weight: Any, groups: ArrayLike | None, names: Any = None
    ) -> tuple[Problem, list[Candidate]]:
        """Return the problem and the kernels to compare, after all checks.

        `names` are those of the columns of a frame that comes as an array.
        """
        with refusals():
            self._validate_params()
        if isinstance(self.gamma, str) and self.gamma == "auto":
            warn(
                'gamma="auto" is now called gamma="search", since "auto" means 1 / n_features in '
                "scikit-learn; the old word will be refused in a later version.",
                FutureWarning,
            )
        y, sample_weight, groups = local(y), local(sample_weight), local(groups)
        objects = any(takes_objects(candidate.kernel) for candidate in self._candidates())
        rows = check_rows(self, X, objects=objects, reset=True)
        if names is not None:
            self.feature_names_in_ = names
        memory = memory_bytes(self.memory_limit)
        rows = own_rows(X, rows, memory / 4.0)
        self._frames = library_of(X)
        m = rows.shape[0]
        weights = check_weights(sample_weight, m)
        candidates = self._candidates(rows, weights)
        Y, labels, flat = self._targets(y, m, weights)
        if self.alpha_per_target and self._classes is not None:
            raise NotSupportedError(
                "alpha_per_target=True is for regression; the classes of a classifier are one "
                "decision and share one alpha.",
                argument="alpha_per_target",
            )
        refuse_matrix(self.trend, (candidate.kernel for candidate in candidates))
        if self.standardize:
            refuse_standardize(self, rows, [candidate.kernel for candidate in candidates])
        names = getattr(self, "feature_names_in_", None)
        trend = make_trend(self.trend, rows, names, bias=self.fit_intercept)
        experiments = as_experiments(
            self.cv, m, X=rows, y=labels, groups=groups, classifier=self._classes is not None
        )
        problem = Problem(
            X=rows,
            Y=Y,
            labels=labels,
            weights=weights,
            groups=None if groups is None else np.asarray(groups),
            experiments=experiments,
            alphas=np.empty(0) if self.alphas is None else check_alphas(self.alphas),
            flat=flat,
            seed=self._seed(),
            basis=self._resolved_basis(candidates, rows),
            policy=self.held_out_basis,  # type: ignore[arg-type]  # checked by _validate_params
            bias=self.fit_intercept,
            jitter=self.jitter,
            path=self.path,
            memory=memory,
            trend=trend,
            standardize=self.standardize,
        )
        if self.cv is None:
            warn_of_groups(problem, self._goal().scoring)
        return problem, candidates

    def _resolved_basis(self, candidates: list[Candidate], X: Any) -> Any:
        if not (isinstance(self.basis, str) and self.basis == "auto"):
            return self.basis
        kernels = [candidate.kernel for candidate in candidates]
        return automatic_basis(kernels, X, memory_bytes(self.memory_limit))

    def _seed(self) -> int:
        state = self.random_state  # scikit-learn counts True as the seed 1
        return seed_of(int(state) if isinstance(state, bool | np.bool_) else state)

    def _candidates(self, X: Any = None, weights: FloatArray | None = None) -> list[Candidate]:
        """Return the kernels to compare on these rows; without rows, kernels of their kind."""
        n_features: int | None = 1
        widths = None
        if X is not None and weights is not None:
            n_features = X.shape[1] if X.ndim == 2 else None
            widths = partial(typical_widths, X=X, weights=weights)
        return kernel_grid(**self._arguments(), n_features=n_features, widths=widths)

    def _arguments(self) -> dict[str, Any]:
        """Return the parameters that kernels come from."""
        names = ("kernel", "gamma", "degree", "coef0", "kernel_params")
        return {name: getattr(self, name) for name in names}

    def _further(self, problem: Problem, candidates: list[Candidate]) -> Further | None:
        """Return what names further kernels while they are compared: widths, if one is searched."""
        if not isinstance(self.gamma, str):
            return None

        def penalties(found: list[Candidate]) -> list[Penalties]:
            # They belong to the sequence of the first kernel.
            return self._penalties(problem, [candidates[0], *found])[1:]

        return WidthSearch(self.kernel_params, problem.X, penalties)

    def _penalties(self, problem: Problem, candidates: list[Candidate]) -> list[Penalties]:
        """Return the penalties to compare with each kernel."""
        if problem.alphas.size:
            return [Penalties(problem.alphas)] * len(candidates)
        totals, least = np.empty(len(candidates)), np.full(len(candidates), np.inf)
        X = problem.X
        if problem.standardize:
            X = StandardisedColumns(X, problem.weights).rows(slice(None))
        for i, candidate in enumerate(candidates):
            data = rows_with_kernel(candidate.kernel, X, problem.basis)
            totals[i] = total_eigenvalue(data, problem.weights, centred=problem.bias)
            if is_primal(candidate.kernel, problem.X, problem.basis):
                rank = primal_columns(candidate.kernel, problem.X)
                least[i] = least_eigenvalue(data, problem.weights, rank, centred=problem.bias)
        return default_penalties(totals, least)

    def _publish(self, found: Found, goal: Goal, fit: Fit | None = None) -> None:
        """Set the fitted attributes; the model on all rows, unless it is known, is made here."""
        model, choice, problem = found.model, found.choice, found.model.problem
        self._problem, self._plan = problem, found.plan
        if isinstance(self.basis, str) and "basis" not in found.plan.facts:
            told = {"basis": told_basis(problem.basis, problem.weights.size)}
            self._plan = replace(found.plan, facts={**found.plan.facts, **told})
        self._kernel = self.kernel_ = model.kernel
        self.alpha_, self.best_score_ = choice.alpha, choice.score
        self.best_index_ = choice.indices + found.start
        self.cv_results_ = found.results
        self.best_params_ = {**found.params, "alpha": choice.alpha}
        self._fitted_with = self.get_params(deep=False)
        self._fitted = self._value(model, goal)
        fit = self._fitted.coefficients if fit is None else fit
        self.basis_selector_ = model.selector
        self.n_splits_ = len(problem.experiments)
        self.basis_indices_ = expanded_in(model.basis, problem.weights.size)
        self.jitter_ = model.epsilon
        self._basis_rows = None
        if isinstance(model.data, DaskRows) and fit.linear is None:
            self._basis_rows = model.data.gather(self.basis_indices_)  # predict without a cluster
        self._linear_coef, self._dual_coef = fit.linear, fit.dual
        self._intercept, self._trend_coef = parted(fit.unpenalised, problem.bias)
        self.dual_coef_ = fit.dual[:, 0] if problem.flat else fit.dual
        self.intercept_ = float(self._intercept[0]) if problem.flat else self._intercept

    def _value(self, model: Model, goal: Goal) -> Fitted:
        """Return the fitted model as a value, from the attributes of the fit."""
        params = {name: value for name, value in self.best_params_.items() if name != "alpha"}
        return Fitted(
            model,
            goal,
            self.alpha_,
            self.best_score_,
            self.cv_results_,
            params,
            self._arguments(),
            self._frames,
        )

    def _asked(self) -> Fitted:
        check_is_fitted(self)
        assert self._fitted is not None  # set by every fit
        return self._fitted

    # -- predictions ------------------------------------------------------------------------------

    @property
    def coef_(self) -> FloatArray:
        """Coefficients of the columns of X, for (sums of) linear kernels: (d,), or (v, d).

        ``X @ coef_.T + intercept_`` is what the model predicts, apart from a trend. Other kernels
        have none.
        """
        check_is_fitted(self)
        X = self._problem.X
        factors = column_factors(self._kernel, X.shape[1]) if X.ndim == 2 else None
        if factors is None:
            raise AttributeError(
                f"coef_ is there for a linear kernel only, and the kernel is {self._kernel!r}: no "
                "column of X has a coefficient. Use dual_coef_, the coefficients of the basis rows."
            )
        coef = self._linear_coef
        if coef is None:
            data, columns = self._basis_data()
            basis = data.take(columns)
            assert isinstance(basis, KernelRows)  # a linear kernel has rows of numbers
            coef = factors[:, None] * np.asarray(basis.X.T @ self._dual_coef)
        return coef[:, 0].copy() if self._problem.flat else np.ascontiguousarray(coef.T)

    @property
    def trend_names_(self) -> AnyArray:
        """Names of the columns of the trend, shape (s,)."""
        return np.array(trend_of(self).names, dtype=object)

    @property
    def trend_coef_(self) -> FloatArray:
        """Coefficients of the columns of the trend: (s,), or (v, s) of v targets."""
        trend_of(self)
        coef = self._trend_coef
        return coef[:, 0].copy() if self._problem.flat else np.ascontiguousarray(coef.T)

    @property
    def trend_coef_std_(self) -> FloatArray:
        """Standard errors of ``trend_coef_`` under the Gaussian view, with ``noise_variance_``.

        σ²(ZᵀC⁻¹Z)⁻¹ on the diagonal, C = K/α + W⁻¹: generalised least squares, in which the kernel
        part is a random function of covariance σ²K/α.
        """
        trend_of(self)
        smoother, alphas = self._fitted_model().smoother, np.atleast_1d(self.alpha_)
        std = column_errors(smoother, alphas, np.atleast_1d(self.noise_variance_))
        std = std[:, int(self._problem.bias) :]
        return std[0] if self._problem.flat else std

    def _decision(self, X: Any, *, checked: bool = False) -> FloatArray:
        """Return model values for new rows, shape (k, v); the model's own are checked already."""
        check_is_fitted(self)
        rows = X if checked else self._new_rows(X)
        values = self._without_trend(rows)
        if self._problem.trend is not None:
            values = values + trend_values(rows, (self._problem.trend, self._trend_coef))
        return values

    def _without_trend(self, rows: Any) -> FloatArray:
        """Return the kernel part and the intercept of new rows, shape (k, v)."""
        if is_dask(rows):
            lazy: FloatArray = self._lazy_decision(rows)
            return lazy
        if self._linear_coef is not None:
            return np.asarray(rows @ self._linear_coef + self._intercept)
        data, columns = self._basis_data()
        values = np.empty((rows.shape[0], self._dual_coef.shape[1]))
        for block in row_blocks(rows.shape[0], columns.size):
            values[block] = data.predict_block(rows[block], columns) @ self._dual_coef
        return np.asarray(values + self._intercept)

    def _new_rows(self, X: Any) -> Any:
        return check_rows(self, X, objects=takes_objects(self._kernel), reset=False)

    def _basis_data(self) -> tuple[KernelData, IntArray]:
        """Return rows with the kernel, and which of them are basis rows."""
        if self._basis_rows is not None:
            return self._basis_rows, np.arange(len(self._basis_rows))
        problem = self._problem
        return rows_with_kernel(self._kernel, problem.X, problem.basis), self.basis_indices_

    def _lazy_decision(self, rows: Any) -> Any:
        """Return model values of Dask rows, computed chunk by chunk when they are asked for."""
        if self._linear_coef is not None:
            return rows @ self._linear_coef + self._intercept
        data, columns = self._basis_data()
        model = (data.take(columns), self._dual_coef, self._intercept)
        return on_rows(expand, rows, model, columns=self._dual_coef.shape[1])

    # -- files and scikit-learn -------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a file that `holdfast.load` reads, whole or not at all.

        Parameters
        ----------
        path : path
            Where to write; ".holdfast" is the usual ending. The file holds the training rows.
        """
        from holdfast.files import save

        save(self, path)

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

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags."""
        tags = super().__sklearn_tags__()
        pairwise = isinstance(self.kernel, Precomputed) or (
            isinstance(self.kernel, str) and self.kernel == "precomputed"
        )
        tags.input_tags.sparse, tags.input_tags.pairwise = not pairwise, pairwise
        return tags
