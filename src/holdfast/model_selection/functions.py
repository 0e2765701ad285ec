"""`cross_val_predict`, `cross_val_score` and `cross_validate`."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import cross_val_predict as _cross_val_predict
from sklearn.model_selection import cross_val_score as _cross_val_score
from sklearn.model_selection import cross_validate as _cross_validate

from holdfast._typing import FloatArray
from holdfast.model_selection.answering import job_of, routed
from holdfast.model_selection.recognise import Refit

__all__ = ["cross_val_predict", "cross_val_score", "cross_validate"]


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
    refit = None if hasattr(estimator, method) else Refit()
    job = job_of("cross_val_predict", estimator, X, y, groups, cv, params, refit=refit)
    answers = job.answers
    if answers is not None and method == "predict" and answers.classes is None and not routed():
        test = answers.experiments.test.values
        if np.array_equal(np.sort(test), np.arange(len(answers.case))):
            values = np.empty_like(answers.values[0])
            values[test] = answers.values[0]
            return values[:, 0] if answers.flat else values
    jobs = {"n_jobs": n_jobs, "pre_dispatch": pre_dispatch}
    given = {"groups": groups, "verbose": verbose, "params": params, "method": method}
    return job.run(_cross_val_predict, jobs, **given)


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
    asked = Refit("return_estimator=True asks for the model of every split")
    job = job_of(
        "cross_validate",
        estimator,
        X,
        y,
        groups,
        cv,
        params,
        everything=return_train_score,
        refit=asked if return_estimator else None,
    )
    found = job.run(
        _cross_validate,
        {"n_jobs": n_jobs, "pre_dispatch": pre_dispatch},
        scoring=scoring,
        groups=groups,
        verbose=verbose,
        params=params,
        return_train_score=return_train_score,
        return_estimator=return_estimator,
        return_indices=return_indices,
        error_score=error_score,
    )
    return dict(found)


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
    job = job_of("cross_val_score", estimator, X, y, groups, cv, params)
    scores = job.run(
        _cross_val_score,
        {"n_jobs": n_jobs, "pre_dispatch": pre_dispatch},
        scoring=scoring,
        groups=groups,
        verbose=verbose,
        params=params,
        error_score=error_score,
    )
    return np.asarray(scores)
