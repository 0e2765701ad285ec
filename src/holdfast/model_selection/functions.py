"""`cross_val_predict`, `cross_val_score` and `cross_validate`, with scikit-learn's signatures."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

from sklearn.model_selection import cross_val_predict as _cross_val_predict
from sklearn.model_selection import cross_val_score as _cross_val_score
from sklearn.model_selection import cross_validate as _cross_validate

from holdfast.model_selection.description import Refit
from holdfast.model_selection.job import Job
from holdfast.model_selection.search import with_closed_forms_inside


def drop_in(theirs: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that gives a function of all arguments scikit-learn's signature.

    Estimators that choose are refitted by scikit-learn, with a closed form inside.
    """
    form = signature(theirs)

    def decorated(own: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
        @wraps(own)
        def call(*args: Any, **kwargs: Any) -> Any:
            bound = form.bind(*args, **kwargs)
            bound.apply_defaults()
            inside = with_closed_forms_inside(bound.arguments["estimator"])
            if inside is not None:
                return theirs(**{**bound.arguments, "estimator": inside})
            return own(bound.arguments)

        call.__signature__ = form  # type: ignore[attr-defined]
        return call

    return decorated


@drop_in(_cross_val_predict)
def cross_val_predict(given: dict[str, Any]) -> Any:
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
    method = given["method"]
    refit = None if hasattr(given["estimator"], method) else Refit()
    job = Job.of("cross_val_predict", given, refit=refit)
    if job.answers is not None and method == "predict" and job.answers.problem.classes is None:
        values = job.answers.of_all_rows()
        if values is not None:
            return values
    return job.run(_cross_val_predict)


@drop_in(_cross_validate)
def cross_validate(given: dict[str, Any]) -> Any:
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
    refit = asked if given["return_estimator"] else None
    job = Job.of("cross_validate", given, everything=given["return_train_score"], refit=refit)
    return job.run(_cross_validate)


@drop_in(_cross_val_score)
def cross_val_score(given: dict[str, Any]) -> Any:
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
    return Job.of("cross_val_score", given).run(_cross_val_score)
