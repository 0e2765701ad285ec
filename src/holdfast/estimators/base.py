"""The cross-validated estimator behind the regressor and the classifier.

`fit` is four steps: check what was passed (`TrainingData`, and the kernels to compare), compare
kernels and penalties (`holdfast.estimators.search`), keep the `Fitted` model, show its attributes.
Its answers are functions of `holdfast.answers`, attached here as methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache, partial
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from holdfast import answers
from holdfast._typing import AnyArray, FloatArray
from holdfast.answers.decision import column_coefficients, decision
from holdfast.answers.fitted import Fitted
from holdfast.answers.model import expanded_in, rows_with_kernel
from holdfast.answers.training import Objective, TrainingData
from holdfast.answers.trend import make_trend, parted, trend_of
from holdfast.core.experiments import POLICIES
from holdfast.core.features import StandardisedColumns
from holdfast.core.lapack import shared_threads
from holdfast.core.predict import PATHS
from holdfast.data.dask import local
from holdfast.data.frames import library_of
from holdfast.data.memory import memory_bytes
from holdfast.data.values import seed_of
from holdfast.estimators.inputs import (
    automatic_basis,
    check_parameters,
    check_rows,
    check_weights,
    own_rows,
    refuse_standardize,
    told_basis,
    unchanged_on_error,
    warn_of_constant,
    warn_of_groups,
)
from holdfast.estimators.search import search
from holdfast.estimators.state import restored, state_of
from holdfast.estimators.widths import search_widths
from holdfast.exceptions import NotSupportedError
from holdfast.kernels import Precomputed
from holdfast.kernels.grid import Candidate, kernel_grid
from holdfast.kernels.smoothers import is_primal
from holdfast.kernels.typical import least_column, total_eigenvalue, typical_widths
from holdfast.progress import shows_progress
from holdfast.scores.choice import Penalties, check_alphas, default_penalties
from holdfast.scores.scorers import resolve_scoring
from holdfast.splitters.cv import as_experiments


class Answers(ABC):
    """An estimator with answers, each documented where it is computed."""

    explain = answers.checks.explain
    verify = answers.checks.verify
    held_out = answers.held_out.held_out
    predict_without = answers.without.predict_without
    coef_without = answers.without.coef_without
    predict_interval = answers.intervals.predict_interval
    influence = answers.influence.influence
    nested = answers.nested.nested
    permutation_test = answers.permutation.permutation_test
    score_interval = answers.certainty.score_interval

    #: What answers are given from; None before `fit`. Parameters that are set after `fit` take
    #: effect at the next `fit`.
    _fitted: Fitted | None = None

    @abstractmethod
    def _new_rows(self, X: Any) -> Any:
        """Return new rows, checked."""

    def _fitted_state(self) -> Fitted:
        """Return the fitted model as a value."""
        check_is_fitted(self)
        assert self._fitted is not None  # set by every fit
        return self._fitted

    @property
    def _training(self) -> TrainingData:
        """What the model was fitted to."""
        check_is_fitted(self)
        assert self._fitted is not None
        return self._fitted.training

    @property
    def alphas_(self) -> FloatArray:
        """The penalties compared with the chosen kernel, shape (a,)."""
        return self._training.alphas

    @property
    def noise_variance_(self) -> float | FloatArray:
        """σ̂² at ``alpha_`` that makes the held-out targets of `fit` most likely, per target.

        σ̂² = Σ_H r_Hᵀ(I − S_HH)r_H / Σ|H| over the experiments of `fit`, in units of √w y.
        """
        found = np.square(self._fitted_state().noise)
        return float(found[0]) if self._training.flat else found


@dataclass(eq=False, repr=False)
class CrossValidatedKernelRidge(
    Answers,
    BaseEstimator,  # type: ignore[misc]  # sklearn is untyped
    ABC,
):
    """Kernel least squares with exact held-out predictions over a grid of penalties."""

    _: KW_ONLY
    alphas: ArrayLike | None = None
    basis: Any = None
    cv: Any = None
    held_out_basis: str = "remove"
    fit_intercept: bool = True
    trend: Any = None
    scoring: Any = None
    pooled: bool = True
    alpha_per_target: bool = False
    rule: str = "best"
    jitter: float = 1e-10
    path: str = "auto"
    memory_limit: float | str | None = None
    random_state: Any = None
    verbose: int = 0

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        """Return the names of the parameters, which scikit-learn looks up each time."""
        names: list[str] = super()._get_param_names()
        return names

    # Parameters that are not here are checked where they are used, with a clearer message.
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "held_out_basis": [StrOptions(set(POLICIES))],
        "fit_intercept": ["boolean"],
        "pooled": ["boolean"],
        "alpha_per_target": ["boolean"],
        "rule": [StrOptions({"best", "1se"})],
        "jitter": [Interval(Real, 0, None, closed="left")],
        "path": [StrOptions({"auto", *PATHS})],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    # -- what the estimators differ in ------------------------------------------------------------

    #: Whether columns are in units of their standard deviation; a parameter of some estimators.
    standardize: ClassVar[bool] = False
    #: Whether X is the kernel matrix.
    _pairwise: ClassVar[bool] = False
    #: The parameter that holds the kernel, or several.
    _kernel_parameter: ClassVar[str] = "kernel"

    @property
    @abstractmethod
    def _classes(self) -> NDArray[Any] | None:
        """Class labels, or None for regression."""

    @abstractmethod
    def _targets(
        self, y: Any, weights: FloatArray
    ) -> tuple[FloatArray, NDArray[Any], FloatArray, bool]:
        """Return (Y (m, v), labels to score with, fit weights, whether y was one-dimensional)."""

    @abstractmethod
    def _candidates(self, X: Any, weights: FloatArray) -> list[Candidate]:
        """Return the kernels to compare on these rows."""

    def _coded(self, labels: AnyArray) -> FloatArray:
        """Return the targets (m, v) of the algebra, from those that scores are computed with."""
        return labels

    # -- fit --------------------------------------------------------------------------------------

    @shows_progress
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

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.model_selection import LeaveOneGroupOut
        >>> from holdfast import KernelRidgeCV
        >>> X, y = load_iris(return_X_y=True)
        >>> model = KernelRidgeCV(cv=LeaveOneGroupOut(), scoring="r2")
        >>> model.fit(X[:, 1:], X[:, 0], groups=y).n_splits_
        3
        """
        with unchanged_on_error(self):
            given = self._parameters()
            training, candidates = self._prepare(given, X, y, sample_weight, groups)
            m = training.weights.size
            with shared_threads(m, float(m) ** 2):  # few rows gain nothing from threads
                self._publish(self._search(training, candidates, given), given)
        return self

    def _prepare(
        self,
        parameters: Mapping[str, Any],
        X: Any,
        y: Any,
        sample_weight: Any,
        groups: ArrayLike | None,
    ) -> tuple[TrainingData, list[Candidate]]:
        """Return the training data and the kernels to compare, after all checks."""
        check_parameters(self, parameters)
        rows = check_rows(self, X, parameters[self._kernel_parameter], reset=True)
        memory = memory_bytes(self.memory_limit)
        rows = own_rows(X, rows, memory / 4.0)
        m = rows.shape[0]
        weights = np.ones(m) if sample_weight is None else check_weights(local(sample_weight), m)
        Y, labels, fit_weights, flat = self._targets(y, weights)
        candidates = self._candidates(rows, weights)
        if self.alpha_per_target and self._classes is not None:
            raise NotSupportedError(
                "alpha_per_target=True is for regression; the classes of a classifier are one "
                "decision and share one alpha.",
                argument="alpha_per_target",
            )
        kernels = [candidate.kernel for candidate in candidates]
        if self.standardize:
            refuse_standardize(self, rows, kernels)
        trend, names = None, getattr(self, "feature_names_in_", None)
        if self.trend is not None:
            trend = make_trend(self.trend, rows, kernels, names, bias=self.fit_intercept)
        basis, seed = self.basis, 0
        if basis is not None:
            if isinstance(basis, str) and basis == "auto":
                basis = automatic_basis(kernels, rows, memory)
            state = self.random_state  # scikit-learn counts True as the seed 1
            seed = seed_of(int(state) if isinstance(state, bool | np.bool_) else state)
        groups = None if groups is None else local(groups)
        experiments = as_experiments(
            self.cv, m, X=rows, y=labels, groups=groups, classifier=self._classes is not None
        )
        training = TrainingData(
            X=rows,
            Y=Y,
            labels=labels,
            weights=fit_weights,
            groups=None if groups is None else np.asarray(groups),
            experiments=experiments,
            alphas=np.empty(0) if self.alphas is None else check_alphas(self.alphas),
            flat=flat,
            seed=seed,
            basis=basis,
            policy=self.held_out_basis,  # type: ignore[arg-type]  # checked by check_parameters
            bias=self.fit_intercept,
            jitter=self.jitter,
            path=self.path,
            memory=memory,
            trend=trend,
            standardize=self.standardize,
            frames=None if type(X) is np.ndarray else library_of(X),
            sample_weight=None if fit_weights is weights else weights,
        )
        if training.constant and np.count_nonzero(weights) > 1:
            warn_of_constant(Y[weights > 0])
        if self.cv is None and groups is not None:
            warn_of_groups(training, self._objective(parameters).scoring)
        return training, candidates

    def _parameters(self) -> dict[str, Any]:
        """Return the parameters by name."""
        return {name: getattr(self, name) for name in self._get_param_names()}

    def _objective(self, given: Mapping[str, Any]) -> Objective:
        """Return what a model with these parameters is scored by."""
        return Objective(
            resolve_scoring(given["scoring"], classes=self._classes),
            given["pooled"],
            given["rule"],
            given["alpha_per_target"],
            given["cv"],
        )

    def _search(
        self, training: TrainingData, candidates: list[Candidate], parameters: Mapping[str, Any]
    ) -> Fitted:
        """Return the best kernel at its best penalty."""
        grids = self._penalties(training, candidates)
        return search(training, self._objective(parameters), candidates, grids)

    def _penalties(self, training: TrainingData, candidates: list[Candidate]) -> list[Penalties]:
        """Return the penalties to compare with each kernel."""
        if training.alphas.size:
            return [Penalties(training.alphas)] * len(candidates)
        totals, least = np.empty(len(candidates)), np.full(len(candidates), np.inf)
        X = training.X
        if training.standardize:
            X = StandardisedColumns(X, training.weights).rows(slice(None))
        for i, candidate in enumerate(candidates):
            data = rows_with_kernel(candidate.kernel, X, training.basis)
            totals[i] = total_eigenvalue(data, training.weights, centred=training.bias)
            if is_primal(candidate.kernel, training.X, training.basis):
                least[i] = least_column(data, X, training.weights, centred=training.bias)
        return default_penalties(totals, least)

    def _publish(self, fitted: Fitted, parameters: dict[str, Any]) -> None:
        """Keep the fitted model and set the public attributes."""
        found, plan = fitted.search, fitted.search.plan
        if plan is not None and isinstance(self.basis, str):  # "auto"
            told = told_basis(fitted.training.basis, fitted.training.weights.size)
            plan = replace(plan, facts={**plan.facts, "basis": told})
            found = replace(found, plan=plan)
        self._fitted = replace(fitted, search=found, parameters=parameters)
        self.__dict__.update(self._shown(self._fitted))

    def _shown(self, fitted: Fitted) -> dict[str, Any]:
        """Return the public attributes that are taken from the fitted model."""
        model, found, fit = fitted.model, fitted.search, fitted.fit
        assert fit is not None  # a search ends with it
        training = model.training
        intercept = fit.unpenalised[0] if training.bias else np.zeros(training.Y.shape[1])
        return {
            "basis_indices_": expanded_in(model.basis, training.weights.size),
            "kernel_": model.kernel,
            "basis_selector_": model.selector,
            "jitter_": model.epsilon,
            "alpha_": found.alpha,
            "best_score_": found.score,
            "best_index_": found.index,
            "cv_results_": found.table,
            "best_params_": {**model.params, "alpha": found.alpha},
            "n_splits_": len(training.experiments),
            "dual_coef_": fit.dual[:, 0] if training.flat else fit.dual,
            "intercept_": float(intercept[0]) if training.flat else intercept,
        }

    # -- the fitted model -------------------------------------------------------------------------

    @property
    def coef_(self) -> FloatArray:
        """Coefficients of the columns of X, for (sums of) linear kernels: (d,), or (v, d).

        ``X @ coef_.T + intercept_`` is what the model predicts, apart from a trend. Other kernels
        have none.
        """
        fitted = self._fitted_state()
        coef = column_coefficients(fitted)
        if coef is None:
            raise AttributeError(
                f"coef_ is there for a linear kernel only, and the kernel is {self.kernel_!r}: no "
                "column of X has a coefficient. Use dual_coef_, the coefficients of the basis rows."
            )
        return coef[:, 0].copy() if fitted.training.flat else np.ascontiguousarray(coef.T)

    @property
    def trend_coef_(self) -> FloatArray:
        """Coefficients of the columns of the trend: (s,), or (v, s) of v targets."""
        trend_of(self)
        _, coef = parted(self._fitted_state().coefficients.unpenalised, self._training.bias)
        return coef[:, 0].copy() if self._training.flat else np.ascontiguousarray(coef.T)

    def _decision(self, X: Any) -> FloatArray:
        """Return model values for new rows, shape (k, v)."""
        return decision(self._fitted_state(), self._new_rows(X))

    def _new_rows(self, X: Any) -> Any:
        check_is_fitted(self)
        assert self._fitted is not None
        return check_rows(self, X, self._fitted.model.kernel, reset=False)

    # -- pickle and scikit-learn ------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Return parameters, inputs and results; factors are computed again when needed."""
        state: dict[str, Any] = super().__getstate__()
        if self._fitted is None:
            return state
        shown = self._shown(self._fitted)
        kept = {name: value for name, value in state.items() if name not in shown}
        return {**kept, "_fitted": state_of(self._fitted)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what `__getstate__` returned."""
        fitted = state.get("_fitted")
        super().__setstate__({name: value for name, value in state.items() if name != "_fitted"})
        if fitted is not None:
            objective = self._objective(fitted["parameters"])
            self._fitted = restored(fitted, self._coded(fitted["training"]["labels"]), objective)
            self.__dict__.update(self._shown(self._fitted))

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
        tags.input_tags.sparse = True
        return tags


@dataclass(eq=False, repr=False)
class OneKernel(CrossValidatedKernelRidge):
    """An estimator with one kernel, or with a grid of kernels to choose from."""

    kernel: Any = "rbf"
    _: KW_ONLY
    gamma: Any = None
    degree: Any = 3
    coef0: Any = 1.0
    kernel_params: dict[str, Any] | None = None
    standardize: bool = False  # type: ignore[misc]  # a constant for other estimators

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CrossValidatedKernelRidge._parameter_constraints,
        "gamma": [
            Interval(Real, 0, None, closed="neither"),
            StrOptions({"search"}),
            "array-like",
            None,
        ],
        "degree": [Interval(Real, 0, None, closed="neither"), "array-like"],
        "coef0": [Real, "array-like"],
        "kernel_params": [dict, None],
        "standardize": ["boolean"],
    }

    @property
    def _pairwise(self) -> bool:  # type: ignore[override]  # a constant for other estimators
        return isinstance(self.kernel, Precomputed) or (
            isinstance(self.kernel, str) and self.kernel == "precomputed"
        )

    def _candidates(self, X: Any, weights: FloatArray) -> list[Candidate]:
        return kernel_grid(
            self.kernel,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            kernel_params=self.kernel_params,
            n_features=X.shape[1] if X.ndim == 2 else None,
            widths=partial(typical_widths, X=X, weights=weights),
        )

    def _search(
        self, training: TrainingData, candidates: list[Candidate], parameters: Mapping[str, Any]
    ) -> Fitted:
        if not isinstance(self.gamma, str):
            return super()._search(training, candidates, parameters)
        objective = self._objective(parameters)
        return search_widths(training, objective, candidates, self._penalties, parameters)

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse, tags.input_tags.pairwise = not self._pairwise, self._pairwise
        return tags
