"""`from_sklearn`: a model of scikit-learn as a fitted model of holdfast, with every answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import (
    LinearRegression,
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
from holdfast.model_selection.description import MODELS, Refit, describe

#: How far predictions of a fitted estimator may lie from those of the model, in standard deviations
#: of y.
SAME = 1e-5
#: Estimators that choose a model of another class.
CHOOSING = (RidgeCV, RidgeClassifierCV, GridSearchCV, RandomizedSearchCV)


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
    if isinstance(estimator, CHOOSING):
        chosen = _chosen(estimator, X, y, sample_weight, groups)
        return from_sklearn(chosen, X, y, sample_weight, groups)
    is_process = type(estimator) is GaussianProcessRegressor
    own = _with_its_kernel(estimator, X, y, sample_weight) if is_process else estimator
    model = _adopted(own, X, y, sample_weight, groups)
    if _is_fitted(estimator):
        _require_same(estimator, model, X, y)
    return model


def _adopted(
    estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any, **options: Any
) -> CrossValidatedKernelRidge:
    """Return the fitted model of one that chooses nothing and stands alone."""
    kind = type(estimator)
    if kind not in MODELS:
        known = ", ".join(known.__name__ for known in (*MODELS, *CHOOSING))
        raise _unsupported(
            f"estimator must be a linear smoother ({known} of these, or a Pipeline that ends in "
            f"one); got {kind.__name__}."
        )
    try:
        described = describe(estimator)
        columns = np.shape(X)[1] if np.ndim(X) == 2 or sp.issparse(X) else 0
        kernel = described.kernel and described.kernel(columns)
    except (Refit, ValueError) as error:
        reason = getattr(error, "reason", "") or str(error.__cause__ or error)
        raise _unsupported(f"{kind.__name__} is not supported here, since {reason}.") from error
    cv = None if groups is None else LeaveOneGroupOut()
    options |= {"fit_intercept": described.bias, "cv": cv}
    model: CrossValidatedKernelRidge
    if kernel is None:  # every column in the trend: nothing is left under the penalty
        if kind is not LinearRegression:
            raise _unsupported(
                f"{kind.__name__} must have alpha > 0; got {described.alpha:g}. LinearRegression "
                "is supported without a penalty."
            )
        model = KernelRidgeCV("linear", trend="linear", alphas=[1.0], **options)
        return model.fit(X, y, sample_weight=sample_weight, groups=groups)
    alpha = np.asarray(described.alpha, dtype=np.float64)
    if kind is GaussianProcessRegressor and alpha.size > 1:
        # A row with twice the noise counts half.
        noise, alpha = alpha, np.exp(np.log(alpha).mean())
        sample_weight = alpha / noise
    if np.unique(alpha).size > 1:
        raise _unsupported(
            f"{kind.__name__} has a penalty for each target; a model here has one that is given. "
            "Pass one target at a time."
        )
    options["alphas"] = [float(alpha.flat[0])]
    if kind is not RidgeClassifier:
        model = KernelRidgeCV(kernel, **options)
    else:
        model = KernelRidgeClassifierCV(kernel, **options)
        if described.class_weight is not None:
            of_classes = compute_sample_weight(described.class_weight, y)
            sample_weight = of_classes if sample_weight is None else of_classes * sample_weight
    return model.fit(X, y, sample_weight=sample_weight, groups=groups)


def _unsupported(message: str) -> NotSupportedError:
    return NotSupportedError(message, argument="estimator")


def _is_fitted(estimator: Any) -> bool:
    """Whether an estimator, or the last step of a pipeline, has learned something."""
    if isinstance(estimator, Pipeline):
        return _is_fitted(estimator.steps[-1][1])
    return any(name.endswith("_") and not name.startswith("_") for name in vars(estimator))


def _require_same(estimator: Any, model: Any, X: Any, y: Any) -> None:
    """Refuse a fitted estimator that predicts something else: it has seen other rows."""
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


def _pipeline(estimator: Pipeline, X: Any, y: Any, sample_weight: Any, groups: Any) -> Pipeline:
    """Return the pipeline with its last step replaced by the model."""
    steps = [(n, s) for n, s in estimator.steps[:-1] if s is not None and s != "passthrough"]
    name, last = estimator.steps[-1]
    scaler = steps.pop()[1] if steps and type(steps[-1][1]) is StandardScaler else None
    rows, before, fitted = X, [], _is_fitted(estimator)
    for step_name, step in steps:
        own = step if fitted else clone(step).fit(rows, y)
        rows = own.transform(rows)
        before.append((step_name, own))
    if scaler is None:
        model = from_sklearn(last, rows, y, sample_weight, groups)
    else:
        if isinstance(last, RidgeCV | RidgeClassifierCV):
            scaled = (scaler if fitted else clone(scaler).fit(rows)).transform(rows)
            last = _chosen(last, scaled, y, sample_weight, groups)
        _require_standardised(last, scaler, sample_weight)
        model = _adopted(last, rows, y, None, groups, standardize=True)
    return Pipeline([*before, (name, model)])


def _require_standardised(last: Any, scaler: StandardScaler, sample_weight: Any) -> None:
    """Refuse a scaler and a model that are not one linear model with standardize=True."""
    if type(last) not in (Ridge, RidgeClassifier) or not scaler.with_std:
        raise _unsupported(
            "StandardScaler is supported before Ridge, RidgeClassifier and their CV, with "
            f"with_std=True; got {type(last).__name__}. Scale X once and pass the model alone."
        )
    if not last.fit_intercept:
        raise _unsupported(
            "StandardScaler is supported before a model with fit_intercept=True, which takes up "
            "the means of the columns; got fit_intercept=False."
        )
    if sample_weight is not None:
        raise NotSupportedError(
            "sample_weight does not reach StandardScaler in a Pipeline, and here one set of "
            "weights serves both. Pass an estimator without a scaler.",
            argument="sample_weight",
        )


def _chosen(estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any) -> Any:
    """Return the estimator that was chosen, or is chosen now."""
    if not _is_fitted(estimator):
        given = {} if sample_weight is None else {"sample_weight": sample_weight}
        if groups is not None and not isinstance(estimator, RidgeCV | RidgeClassifierCV):
            given["groups"] = groups
        estimator = clone(estimator).fit(X, y, **given)
    if isinstance(estimator, RidgeCV):
        return Ridge(estimator.alpha_, fit_intercept=estimator.fit_intercept)
    if isinstance(estimator, RidgeClassifierCV):
        bias, weights = estimator.fit_intercept, estimator.class_weight
        return RidgeClassifier(estimator.alpha_, fit_intercept=bias, class_weight=weights)
    if not hasattr(estimator, "best_estimator_"):
        raise _unsupported(
            f"{type(estimator).__name__} must have refit=True: without it no model is chosen."
        )
    return estimator.best_estimator_


def _with_its_kernel(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Any:
    """Return a Gaussian process with the parameters that it has chosen, or chooses now."""
    if sample_weight is not None:
        raise InvalidInputError(
            "GaussianProcessRegressor takes no sample_weight; alpha may be an array, the noise "
            "variance of each row.",
            argument="sample_weight",
        )
    if estimator.normalize_y:
        raise _unsupported(
            "GaussianProcessRegressor(normalize_y=True) takes the mean off the targets of every "
            "training set, which is neither a model with a bias nor one without. Pass y - "
            "y.mean() and normalize_y=False; holdfast.model_selection answers it as it is."
        )
    if not _is_fitted(estimator):
        estimator = clone(estimator).fit(X, y)
    return clone(estimator).set_params(kernel=estimator.kernel_, optimizer=None)
