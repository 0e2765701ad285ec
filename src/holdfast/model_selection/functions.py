"""`cross_val_predict`, `cross_val_score`, `cross_validate` and `validation_curve`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import cross_val_predict as _cross_val_predict
from sklearn.model_selection import cross_val_score as _cross_val_score
from sklearn.model_selection import cross_validate as _cross_validate
from sklearn.model_selection import validation_curve as _validation_curve

from holdfast._typing import AnyArray, FloatArray
from holdfast.model_selection.answering import answers_of, case_of, routed, tell
from holdfast.model_selection.recognise import Refit
from holdfast.model_selection.stand_in import Answers, KnownSplits, on_rows, same_splits, stand_in

__all__ = ["cross_val_predict", "cross_val_score", "cross_validate", "validation_curve"]


def _numbers(answers: Answers) -> AnyArray:
    """Return row numbers as the rows that stand-ins are asked about."""
    return np.arange(len(answers.case))[:, None]


def cross_val_predict(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    groups: Any = None,
    cv: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    params: dict[str, Any] | None = None,
    pre_dispatch: Any = "2*n_jobs",
    method: str = "predict",
) -> Any:
    """Return held-out predictions as `sklearn.model_selection.cross_val_predict`, without refits.

    Parameters
    ----------
    estimator, X, y, groups, cv, n_jobs, verbose, params, pre_dispatch, method
        As in scikit-learn. `n_jobs` and `pre_dispatch` matter where models are refitted.

    Returns
    -------
    predictions : ndarray
        The same as scikit-learn's, to rounding.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.kernel_ridge import KernelRidge
    >>> from sklearn.model_selection import LeaveOneOut
    >>> from holdfast.model_selection import cross_val_predict
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelRidge(kernel="rbf", gamma=10, alpha=0.1)
    >>> cross_val_predict(model, X, y, cv=LeaveOneOut()).shape
    (442,)
    """
    case = None
    try:
        if not hasattr(estimator, method):
            raise Refit
        case = case_of(estimator, X, y, groups, cv, params)
        test = np.concatenate([test for _, test in case.splits])
        if not np.array_equal(np.sort(test), np.arange(len(case))):
            raise Refit
        answers = answers_of(case)
    except Refit as refit:
        tell("cross_val_predict", refit)
        estimator, cv = refit.instead or estimator, same_splits(case, cv)
        return _cross_val_predict(
            estimator,
            X,
            y,
            groups=groups,
            cv=cv,
            n_jobs=n_jobs,
            verbose=verbose,
            params=params,
            pre_dispatch=pre_dispatch,
            method=method,
        )
    if method == "predict" and answers.classes is None and not routed():
        values = np.empty((len(case), answers.values[0].shape[1]))
        values[test] = answers.values[0]
        return values[:, 0] if answers.flat else values
    return _cross_val_predict(
        stand_in(answers),
        _numbers(answers),
        case.y,
        groups=groups,
        cv=KnownSplits(case.cv, case.splits),
        verbose=verbose,
        params=params,
        method=method,
    )


def cross_validate(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    groups: Any = None,
    scoring: Any = None,
    cv: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    params: dict[str, Any] | None = None,
    pre_dispatch: Any = "2*n_jobs",
    return_train_score: bool = False,
    return_estimator: bool = False,
    return_indices: bool = False,
    error_score: Any = np.nan,
) -> dict[str, Any]:
    """Return scores of every split as `sklearn.model_selection.cross_validate`, without refits.

    Parameters
    ----------
    estimator, X, y, groups, scoring, cv, n_jobs, verbose, params, pre_dispatch, \
return_train_score, return_estimator, return_indices, error_score
        As in scikit-learn. Estimators that are to be returned are refitted.

    Returns
    -------
    scores : dict of arrays
        As in scikit-learn; `fit_time` is the time of a lookup.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from holdfast.model_selection import cross_validate
    >>> X, y = load_diabetes(return_X_y=True)
    >>> found = cross_validate(Ridge(), X, y, scoring=["r2"], return_train_score=True)
    >>> found["test_r2"].round(3)
    array([0.322, 0.44 , 0.422, 0.425, 0.442])
    """
    given = {
        "return_train_score": return_train_score,
        "return_indices": return_indices,
        "error_score": error_score,
        "verbose": verbose,
        "params": params,
        "groups": groups,
    }
    case = None
    try:
        if return_estimator:
            raise Refit("return_estimator=True asks for the model of every split")
        case = case_of(estimator, X, y, groups, cv, params)
        answers = answers_of(case, everything=return_train_score)
    except Refit as refit:
        tell("cross_validate", refit)
        estimator, cv = refit.instead or estimator, same_splits(case, cv)
        return dict(
            _cross_validate(
                estimator,
                X,
                y,
                scoring=scoring,
                cv=cv,
                n_jobs=n_jobs,
                pre_dispatch=pre_dispatch,
                return_estimator=return_estimator,
                **given,
            )
        )
    return dict(
        _cross_validate(
            stand_in(answers),
            _numbers(answers),
            case.y,
            scoring=on_rows(scoring, case),
            cv=KnownSplits(case.cv, case.splits),
            **given,
        )
    )


def cross_val_score(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    groups: Any = None,
    scoring: Any = None,
    cv: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    params: dict[str, Any] | None = None,
    pre_dispatch: Any = "2*n_jobs",
    error_score: Any = np.nan,
) -> FloatArray:
    """Return the score of every split as `sklearn.model_selection.cross_val_score`, without refits.

    Parameters
    ----------
    estimator, X, y, groups, scoring, cv, n_jobs, verbose, params, pre_dispatch, error_score
        As in scikit-learn.

    Returns
    -------
    scores : ndarray of shape (splits,)

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from holdfast.model_selection import cross_val_score
    >>> X, y = load_diabetes(return_X_y=True)
    >>> cross_val_score(Ridge(), X, y, cv=3).round(3)
    array([0.37 , 0.418, 0.44 ])
    """
    given = {"error_score": error_score, "verbose": verbose, "params": params, "groups": groups}
    case = None
    try:
        case = case_of(estimator, X, y, groups, cv, params)
        answers = answers_of(case)
    except Refit as refit:
        tell("cross_val_score", refit)
        estimator, cv = refit.instead or estimator, same_splits(case, cv)
        more = {"n_jobs": n_jobs, "pre_dispatch": pre_dispatch}
        scores = _cross_val_score(estimator, X, y, scoring=scoring, cv=cv, **more, **given)
        return np.asarray(scores)
    scores = _cross_val_score(
        stand_in(answers),
        _numbers(answers),
        case.y,
        scoring=on_rows(scoring, case),
        cv=KnownSplits(case.cv, case.splits),
        **given,
    )
    return np.asarray(scores)


def validation_curve(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    param_name: str,
    param_range: Sequence[Any],
    groups: Any = None,
    cv: Any = None,
    scoring: Any = None,
    n_jobs: int | None = None,
    pre_dispatch: Any = "all",
    verbose: int = 0,
    error_score: Any = np.nan,
    params: dict[str, Any] | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return train and test scores over a parameter as scikit-learn's function, without refits.

    Parameters
    ----------
    estimator, X, y, param_name, param_range, groups, cv, scoring, n_jobs, pre_dispatch, verbose, \
error_score, params
        As in `sklearn.model_selection.validation_curve`.

    Returns
    -------
    train_scores, test_scores : ndarray of shape (values, splits)

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from holdfast.model_selection import validation_curve
    >>> X, y = load_diabetes(return_X_y=True)
    >>> train, test = validation_curve(
    ...     Ridge(), X, y, param_name="alpha", param_range=np.logspace(-3, 1, 5)
    ... )
    >>> test.mean(axis=1).round(3)
    array([0.482, 0.481, 0.48 , 0.41 , 0.138])
    """
    given = {"error_score": error_score, "verbose": verbose, "groups": groups}
    if params is not None:
        given["params"] = params
    case = None
    try:
        case = case_of(estimator, X, y, groups, cv, params)
        candidates = [{param_name: value} for value in param_range]
        answers = answers_of(case, candidates, everything=True)
    except Refit as refit:
        tell("validation_curve", refit)
        estimator, cv = refit.instead or estimator, same_splits(case, cv)
        found = _validation_curve(
            estimator,
            X,
            y,
            param_name=param_name,
            param_range=param_range,
            cv=cv,
            scoring=scoring,
            n_jobs=n_jobs,
            pre_dispatch=pre_dispatch,
            **given,
        )
        return np.asarray(found[0]), np.asarray(found[1])
    found = _validation_curve(
        stand_in(answers),
        _numbers(answers),
        case.y,
        param_name="candidate",
        param_range=range(len(candidates)),
        cv=KnownSplits(case.cv, case.splits),
        scoring=on_rows(scoring, case),
        **given,
    )
    return np.asarray(found[0]), np.asarray(found[1])
