"""`from_sklearn`: a model of scikit-learn as a fitted model of holdfast, with every answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import (
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
)
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight

from holdfast.estimators.base import CrossValidatedKernelRidge
from holdfast.estimators.classification import KernelRidgeClassifierCV
from holdfast.estimators.regression import KernelRidgeCV
from holdfast.exceptions import InvalidInputError, NotSupportedError
from holdfast.model_selection.recognise import RECIPES, Refit, recipe_of

__all__ = ["from_sklearn"]

#: How far predictions of a fitted estimator may lie from those of the model, over the spread of y.
SAME = 1e-5


def from_sklearn(
    estimator: Any, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
) -> Any:
    """Return a fitted model with the predictions of an estimator of scikit-learn.

    It has the same kernel, penalty and bias (or none); nothing is chosen. Every answer is then
    available: held-out predictions for any groups, intervals, influence, permutation tests.

    Parameters
    ----------
    estimator : estimator
        `Ridge`, `RidgeClassifier`, `LinearRegression`, `KernelRidge` or `GaussianProcessRegressor`;
        `RidgeCV`, `RidgeClassifierCV`, `GridSearchCV` and `RandomizedSearchCV`, with the penalty
        that they chose, or choose now if they are not fitted; or a `Pipeline` that ends in one of
        these.
    X, y : rows and targets
        What the estimator was, or is to be, fitted to.
    sample_weight : array-like of shape (m,), optional
    groups : array-like of shape (m,), optional
        With groups the model's own hold-out is leave-one-group-out, else leave-one-out.

    Returns
    -------
    model : KernelRidgeCV, KernelRidgeClassifierCV, or a Pipeline
        A pipeline stays one: its last step becomes the model. A `StandardScaler` before a linear
        model becomes ``standardize=True``; other steps are fitted once, to all rows.

    Raises
    ------
    NotSupportedError
        If there is no such model; the message says what is in the way.
    InvalidInputError
        If a fitted estimator predicts something else for X: it was fitted to other rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.gaussian_process import GaussianProcessRegressor
    >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    >>> import holdfast
    >>> X, y = load_diabetes(return_X_y=True)
    >>> y = (y - y.mean()) / y.std()
    >>> process = GaussianProcessRegressor(RBF(0.2) + WhiteKernel(0.5), optimizer=None).fit(X, y)
    >>> model = holdfast.from_sklearn(process, X, y)
    >>> bool(np.allclose(model.predict(X), process.predict(X)))
    True
    >>> model.predict_interval(X[:3], level=0.9).shape
    (3, 2)
    """
    if type(estimator) is Pipeline:
        return _pipeline(estimator, X, y, sample_weight, groups)
    if isinstance(estimator, CrossValidatedKernelRidge):
        if _is_fitted(estimator):
            return estimator
        return clone(estimator).fit(X, y, sample_weight=sample_weight, groups=groups)
    if type(estimator) in CHOOSING or isinstance(estimator, GridSearchCV | RandomizedSearchCV):
        return from_sklearn(
            _chosen(estimator, X, y, sample_weight, groups), X, y, sample_weight, groups
        )
    if type(estimator) not in RECIPES:
        known = ", ".join(kind.__name__ for kind in (*RECIPES, *CHOOSING))
        raise NotSupportedError(
            f"estimator must be a linear smoother ({known}, GridSearchCV of these, or a Pipeline "
            f"that ends in one); got {type(estimator).__name__}.",
            argument="estimator",
        )
    model, weights = _model_of(estimator, X, y, sample_weight)
    model.set_params(cv=None if groups is None else LeaveOneGroupOut())
    model.fit(X, y, sample_weight=weights, groups=groups)
    _require_same(estimator, model, X, y)
    return model


def _is_fitted(estimator: Any) -> bool:
    """Whether an estimator, or the last step of a pipeline, has learned something."""
    if isinstance(estimator, Pipeline):
        return _is_fitted(estimator.steps[-1][1])
    return any(name.endswith("_") and not name.startswith("_") for name in vars(estimator))


def _require_same(estimator: Any, model: Any, X: Any, y: Any) -> None:
    """Refuse a fitted estimator that predicts something else: it has seen other rows."""
    if not _is_fitted(estimator):
        return
    name = "decision_function" if hasattr(estimator, "decision_function") else "predict"
    theirs, ours = (np.asarray(getattr(one, name)(X), dtype=float) for one in (estimator, model))
    ours = ours.reshape(theirs.shape)
    scale = float(np.std(theirs)) or float(np.abs(theirs).max()) or 1.0
    gap = float(np.abs(theirs - ours).max()) / scale
    if gap > SAME:
        raise InvalidInputError(
            f"estimator predicts these rows differently, by {gap:.2g} standard deviations of its "
            "predictions: it was fitted to other rows, targets or weights, or stopped before its "
            "minimum (solver, tol). Pass what it was fitted to, or an estimator that is not "
            "fitted.",
            argument="estimator",
        )


# -- pipelines and estimators that choose ----------------------------------------------------------


def _pipeline(estimator: Pipeline, X: Any, y: Any, sample_weight: Any, groups: Any) -> Pipeline:
    """Return the pipeline with its last step replaced by the model."""
    steps = [(n, s) for n, s in estimator.steps[:-1] if s is not None and s != "passthrough"]
    name, last = estimator.steps[-1]
    standardize = bool(steps) and type(steps[-1][1]) is StandardScaler
    fitted = _is_fitted(estimator)
    scaler = steps.pop()[1] if standardize else None
    rows, before = X, []
    for step_name, step in steps:
        step = step if fitted else clone(step)
        rows = step.transform(rows) if fitted else step.fit_transform(rows, y)
        before.append((step_name, step))
    if scaler is None:
        model = from_sklearn(last, rows, y, sample_weight, groups)
    else:
        model = _standardised(last, scaler, rows, y, sample_weight, groups)
    return Pipeline([*before, (name, model)])


def _standardised(
    last: Any, scaler: StandardScaler, X: Any, y: Any, sample_weight: Any, groups: Any
) -> Any:
    """Return the model of a linear model behind a scaler."""
    if type(last) in CHOOSING:
        scaled = scaler if _is_fitted(scaler) else clone(scaler).fit(X)
        last = _chosen(last, scaled.transform(X), y, sample_weight, groups)
    if type(last) not in (Ridge, RidgeClassifier) or not scaler.with_std:
        raise NotSupportedError(
            "StandardScaler is supported before Ridge, RidgeClassifier and their CV, with "
            f"with_std=True; got {type(last).__name__}. Scale X once and pass the model alone.",
            argument="estimator",
        )
    if not last.fit_intercept:
        raise NotSupportedError(
            "StandardScaler is supported before a model with fit_intercept=True, which takes up "
            "the means of the columns; got fit_intercept=False.",
            argument="estimator",
        )
    if sample_weight is not None:
        raise NotSupportedError(
            "sample_weight does not reach StandardScaler in a Pipeline, and here one set of "
            "weights serves both. Pass an estimator without a scaler.",
            argument="sample_weight",
        )
    model, weights = _model_of(last, X, y, None)
    cv = None if groups is None else LeaveOneGroupOut()
    return model.set_params(cv=cv, standardize=True).fit(X, y, sample_weight=weights, groups=groups)


def _chosen(estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any) -> Any:
    """Return the estimator that was chosen, or is chosen now."""
    if not _is_fitted(estimator):
        given = {} if sample_weight is None else {"sample_weight": sample_weight}
        if groups is not None and hasattr(estimator, "param_grid"):
            given["groups"] = groups
        estimator = clone(estimator).fit(X, y, **given)
    if type(estimator) in CHOOSING:
        return CHOOSING[type(estimator)](estimator)
    if not hasattr(estimator, "best_estimator_"):
        raise NotSupportedError(
            f"{type(estimator).__name__} must have refit=True: without it no model is chosen.",
            argument="estimator",
        )
    return estimator.best_estimator_


CHOOSING: dict[type, Callable[[Any], Any]] = {
    RidgeCV: lambda one: Ridge(one.alpha_, fit_intercept=one.fit_intercept),
    RidgeClassifierCV: lambda one: RidgeClassifier(
        one.alpha_, fit_intercept=one.fit_intercept, class_weight=one.class_weight
    ),
}


# -- models ----------------------------------------------------------------------------------------


def _model_of(
    estimator: Any, X: Any, y: Any, sample_weight: Any
) -> tuple[CrossValidatedKernelRidge, Any]:
    """Return a model that is not fitted, and what its rows weigh."""
    kind = type(estimator)
    if kind is GaussianProcessRegressor:
        estimator = _with_its_kernel(estimator, X, y, sample_weight)
    try:
        recipe = recipe_of(estimator, np.shape(X)[1] if np.ndim(X) == 2 or sp.issparse(X) else 0)
    except Refit as refit:
        reason = refit.reason or str(refit.__cause__)
        raise NotSupportedError(
            f"{kind.__name__} is not supported here, since {reason}.", argument="estimator"
        ) from refit
    given: dict[str, Any] = {"fit_intercept": recipe.bias}
    if recipe.kernel is None:  # every column in the trend: nothing is left under the penalty
        return KernelRidgeCV("linear", trend="linear", alphas=[1.0], **given), sample_weight
    if kind is RidgeClassifier:
        if recipe.class_weight is not None:
            of_classes = compute_sample_weight(recipe.class_weight, y)
            sample_weight = of_classes if sample_weight is None else of_classes * sample_weight
        alpha = _one_penalty(estimator, recipe.alpha)
        return KernelRidgeClassifierCV(recipe.kernel, alphas=[alpha], **given), sample_weight
    if kind is not GaussianProcessRegressor:
        alpha = _one_penalty(estimator, recipe.alpha)
    elif np.size(recipe.alpha) == 1:
        alpha = float(np.ravel(recipe.alpha)[0])
    else:  # a row with twice the noise counts half
        alpha = float(np.exp(np.log(recipe.alpha).mean()))
        sample_weight = alpha / recipe.alpha
    return KernelRidgeCV(recipe.kernel, alphas=[alpha], **given), sample_weight


def _one_penalty(estimator: Any, given: Any) -> float:
    alpha = np.unique(np.asarray(given, dtype=np.float64))
    if alpha.size > 1:
        raise NotSupportedError(
            f"{type(estimator).__name__} has a penalty for each target; a model here has one that "
            "is given. Pass one target at a time.",
            argument="estimator",
        )
    if not alpha[0] > 0.0:
        raise NotSupportedError(
            f"{type(estimator).__name__} must have alpha > 0; got {alpha[0]:g}. LinearRegression "
            "is supported without a penalty.",
            argument="estimator",
        )
    return float(alpha[0])


def _with_its_kernel(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Any:
    """Return a Gaussian process with the parameters that it has chosen, or chooses now."""
    if sample_weight is not None:
        raise InvalidInputError(
            "GaussianProcessRegressor takes no sample_weight; alpha may be an array, the noise "
            "variance of each row.",
            argument="sample_weight",
        )
    if estimator.normalize_y:
        raise NotSupportedError(
            "GaussianProcessRegressor(normalize_y=True) takes the mean off the targets of every "
            "training set, which is neither a model with a bias nor one without. Pass y - "
            "y.mean() and normalize_y=False; holdfast.model_selection answers it as it is.",
            argument="estimator",
        )
    fitted = estimator if _is_fitted(estimator) else clone(estimator).fit(X, y)
    return clone(estimator).set_params(kernel=fitted.kernel_)
