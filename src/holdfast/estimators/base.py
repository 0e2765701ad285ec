"""The cross-validated estimator behind the regressor and the classifier."""

from __future__ import annotations

import warnings
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

from holdfast._typing import AnyArray, FloatArray
from holdfast.answers.decision import column_coefficients, decision
from holdfast.answers.fitted import KERNEL_ARGUMENTS, Fitted
from holdfast.answers.rows import expanded_in, rows_with_kernel
from holdfast.answers.training import Objective, TrainingData
from holdfast.answers.trend import (
    make_trend,
    parted,
    refuse_matrix,
    trend_of,
)
from holdfast.core.features import StandardisedColumns
from holdfast.core.lapack import pieces_alone
from holdfast.core.predict import PATHS
from holdfast.core.tasks import POLICIES
from holdfast.data.dask import local
from holdfast.data.frames import library_of
from holdfast.data.memory import memory_bytes
from holdfast.data.values import seed_of
from holdfast.estimators.answers import Answers
from holdfast.estimators.automatic import automatic_basis, told_basis
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
from holdfast.estimators.search import Further, search
from holdfast.estimators.state import restored, state_of
from holdfast.estimators.widths import (
    FITTED_WIDTHS,
    best_penalties,
    family,
    not_coarser,
    part_of,
    warn_at_end,
    width_search,
)
from holdfast.exceptions import HoldfastWarning, NotSupportedError
from holdfast.kernels import Precomputed
from holdfast.kernels.dask_rows import DaskRows
from holdfast.kernels.grid import Candidate, kernel_grid
from holdfast.kernels.smoothers import is_primal
from holdfast.kernels.typical import least_column, total_eigenvalue, typical_widths
from holdfast.progress import shows_progress
from holdfast.scores.choice import check_alphas
from holdfast.scores.penalties import Penalties, default_penalties
from holdfast.scores.scorers import resolve_scoring
from holdfast.splitters.cv import as_experiments


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

    @property
    @abstractmethod
    def _classes(self) -> NDArray[Any] | None:
        """Class labels, or None for regression."""

    @abstractmethod
    def _targets(
        self, y: Any, n_rows: int, weights: FloatArray
    ) -> tuple[FloatArray, NDArray[Any], bool]:
        """Return (Y (m, v), labels to score with, whether y was one-dimensional)."""

    @abstractmethod
    def _candidates(self, X: Any = None, weights: FloatArray | None = None) -> list[Candidate]:
        """Return the kernels to compare on these rows; without rows, kernels of their kind."""

    def _coded(self, labels: AnyArray) -> FloatArray:
        """Return the targets (m, v) of the algebra, from those that scores are computed with."""
        return labels

    def _fit_weights(self, labels: AnyArray, weights: FloatArray) -> FloatArray:
        """Return what rows weigh in the fit, from what they weigh in scores."""
        return weights

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
            training, candidates = self._prepare(X, y, sample_weight, groups)
            with pieces_alone(training.weights.size):  # few rows gain nothing from BLAS threads
                candidates, further = self._begin(training, candidates)
                grids = self._penalties(training, candidates)
                self._publish(search(training, self._objective(), candidates, grids, further))
        return self

    def _objective(self, given: Mapping[str, Any] | None = None) -> Objective:
        """Return what the model is judged by, with these parameters or its own."""
        given = self.get_params(deep=False) if given is None else given
        return Objective(
            resolve_scoring(given["scoring"], classes=self._classes),
            given["pooled"],
            given["rule"],
            given["alpha_per_target"],
            given["cv"],
        )

    def _prepare(
        self, X: Any, y: Any, sample_weight: Any, groups: ArrayLike | None
    ) -> tuple[TrainingData, list[Candidate]]:
        """Return the training data and the kernels to compare, after all checks."""
        with refusals():
            self._validate_params()
        y, sample_weight, groups = local(y), local(sample_weight), local(groups)
        objects = any(takes_objects(candidate.kernel) for candidate in self._candidates())
        rows = check_rows(self, X, objects=objects, reset=True)
        memory = memory_bytes(self.memory_limit)
        rows = own_rows(X, rows, memory / 4.0)
        m = rows.shape[0]
        weights = check_weights(sample_weight, m)
        candidates = self._candidates(rows, weights)
        Y, labels, flat = self._targets(y, m, weights)
        fit_weights = self._fit_weights(labels, weights)
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
        training = TrainingData(
            X=rows,
            Y=Y,
            labels=labels,
            weights=fit_weights,
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
            frames=library_of(X),
            sample_weight=None if fit_weights is weights else weights,
        )
        if self.cv is None and groups is not None:
            warn_of_groups(training, self._objective().scoring)
        return training, candidates

    def _resolved_basis(self, candidates: list[Candidate], X: Any) -> Any:
        if not (isinstance(self.basis, str) and self.basis == "auto"):
            return self.basis
        kernels = [candidate.kernel for candidate in candidates]
        return automatic_basis(kernels, X, memory_bytes(self.memory_limit))

    def _seed(self) -> int:
        state = self.random_state  # scikit-learn counts True as the seed 1
        return seed_of(int(state) if isinstance(state, bool | np.bool_) else state)

    def _begin(
        self, training: TrainingData, candidates: list[Candidate]
    ) -> tuple[list[Candidate], Further | None]:
        """Return the kernels to compare first, and what names further ones meanwhile, or None."""
        return candidates, None

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
                least[i] = least_column(X, training.weights, centred=training.bias)
        return default_penalties(totals, least)

    def _publish(self, fitted: Fitted) -> None:
        """Keep the fitted model and set the public attributes."""
        model, training, plan = fitted.model, fitted.training, fitted.plan
        if plan is not None and isinstance(self.basis, str) and "basis" not in plan.facts:
            told = {"basis": told_basis(training.basis, training.weights.size)}
            plan = replace(plan, facts={**plan.facts, **told})
        fit, basis_rows = fitted.coefficients, None
        if isinstance(model.data, DaskRows) and fit.linear is None:
            rows = expanded_in(model.basis, training.weights.size)
            basis_rows = model.data.gather(rows)  # predict without a cluster
        given = self.get_params(deep=False)
        self._fitted = replace(fitted, plan=plan, parameters=given, fit=fit, basis_rows=basis_rows)
        self.__dict__.update(self._shown(self._fitted))

    def _shown(self, fitted: Fitted) -> dict[str, Any]:
        """Return the public attributes that are taken from the fitted model."""
        model, training, fit = fitted.model, fitted.training, fitted.coefficients
        intercept, _ = parted(fit.unpenalised, training.bias)
        return {
            "basis_indices_": expanded_in(model.basis, training.weights.size),
            "kernel_": model.kernel,
            "basis_selector_": model.selector,
            "jitter_": model.epsilon,
            "alpha_": fitted.alpha,
            "best_score_": fitted.score,
            "best_index_": fitted.index,
            "cv_results_": fitted.results,
            "best_params_": {**fitted.params, "alpha": fitted.alpha},
            "n_splits_": len(training.experiments),
            "dual_coef_": fitted.flat(fit.dual),
            "intercept_": float(intercept[0]) if training.flat else intercept,
        }

    # -- predictions ------------------------------------------------------------------------------

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
        return check_rows(self, X, objects=takes_objects(self._fitted.model.kernel), reset=False)

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

    def _candidates(self, X: Any = None, weights: FloatArray | None = None) -> list[Candidate]:
        """Return the kernels to compare on these rows; without rows, kernels of their kind."""
        n_features: int | None = 1
        widths = None
        if X is not None and weights is not None:
            n_features = X.shape[1] if X.ndim == 2 else None
            widths = partial(typical_widths, X=X, weights=weights)
        return kernel_grid(
            **{name: getattr(self, name) for name in KERNEL_ARGUMENTS},
            n_features=n_features,
            widths=widths,
        )

    def _begin(
        self, training: TrainingData, candidates: list[Candidate]
    ) -> tuple[list[Candidate], Further | None]:
        """Return the kernels to compare first: for a search, those that part of the rows chose."""
        if not isinstance(self.gamma, str):
            return candidates, None
        part = None if training.constant else part_of(training)
        if part is None:
            return candidates, self._further(training, candidates)
        best: list[Candidate] = []
        for name in dict.fromkeys(family(candidate) for candidate in candidates):
            own = [candidate for candidate in candidates if family(candidate) == name]
            best += own if len(own) == 1 else self._best_widths(part, training, own)
        return best, None

    def _best_widths(
        self, part: TrainingData, training: TrainingData, candidates: list[Candidate]
    ) -> list[Candidate]:
        """Return the best widths of one kernel: compared on some rows, then on all of them."""
        objective = self._objective()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HoldfastWarning)
            further = self._further(part, candidates)
            first = search(part, objective, candidates, self._penalties(part, candidates), further)
            tried = not_coarser(best_penalties(first.results, objective.pooled))
            kernels = [self._with_params(training, params) for params, _, _ in tried]
            share = part.weights.size / training.weights.size  # more rows want smaller penalties
            grids = [Penalties(np.array([share * alpha])) for _, alpha, _ in tried]
            found = search(training, objective, kernels, grids)
        scores = [(kernel, score) for kernel, (_, _, score) in zip(kernels, tried, strict=True)]
        order = best_penalties(found.results, objective.pooled)
        warn_at_end(self._with_params(training, order[0][0]), scores)
        return [self._with_params(training, params) for params, _, _ in order[:FITTED_WIDTHS]]

    def _with_params(self, training: TrainingData, params: dict[str, Any]) -> Candidate:
        """Return the kernel of these arguments."""
        (found,) = kernel_grid(
            params["kernel"],
            gamma=params.get("gamma"),
            degree=params.get("degree", 3),
            coef0=params.get("coef0", 1.0),
            kernel_params=self.kernel_params,
            n_features=training.X.shape[1] if training.X.ndim == 2 else None,
        )
        return Candidate(found.kernel, params)

    def _further(self, training: TrainingData, candidates: list[Candidate]) -> Further:
        """Return what names further widths while kernels are compared."""

        def penalties(found: list[Candidate]) -> list[Penalties]:
            # They belong to the sequence of the first kernel.
            return self._penalties(training, [candidates[0], *found])[1:]

        return width_search(self.kernel_params, training.X, penalties)

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags."""
        tags = super().__sklearn_tags__()
        pairwise = isinstance(self.kernel, Precomputed) or (
            isinstance(self.kernel, str) and self.kernel == "precomputed"
        )
        tags.input_tags.sparse, tags.input_tags.pairwise = not pairwise, pairwise
        return tags
