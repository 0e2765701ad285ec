"""Estimators that choose, whose candidates are compared without refits.

Where one of them is asked about in an outer loop, scikit-learn refits it for every outer split,
with a closed form inside (`with_closed_forms_inside`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

import numpy as np
from sklearn import get_config
from sklearn.base import clone, is_classifier
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.linear_model import RidgeClassifierCV as _RidgeClassifierCV
from sklearn.linear_model import RidgeCV as _RidgeCV
from sklearn.model_selection import GridSearchCV as _GridSearchCV
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from holdfast._typing import FloatArray
from holdfast.model_selection.description import Refit
from holdfast.model_selection.job import Job

#: Fewer numbers in X than this are not worth a leave-one-out of our own for `RidgeCV`.
LEAST_NUMBERS = 2**14
#: What a finished search knows beside the refitted estimator.
FOUND = (
    "cv_results_",
    "best_index_",
    "best_params_",
    "best_score_",
    "multimetric_",
    "n_splits_",
)


class _Numbered(_GridSearchCV):  # type: ignore[misc]  # sklearn is untyped
    """scikit-learn's search over the numbers of candidates, told with their parameters."""

    def named(self, candidates: Sequence[Mapping[str, Any]]) -> Self:
        self._candidates = candidates
        return self

    def _format_results(self, candidate_params: Any, *args: Any) -> Any:
        named = [self._candidates[params["candidate"]] for params in candidate_params]
        return super()._format_results(named, *args)


class GridSearchCV(_GridSearchCV):  # type: ignore[misc]  # sklearn is untyped
    """`sklearn.model_selection.GridSearchCV` without the refits of candidates.

    Held-out predictions of all candidates follow from one fit for each kernel, whatever the number
    of penalties and splits; the best candidate is refitted on all rows, if asked for. Where there
    is no closed form, `fit` is scikit-learn's, with a warning that says why.

    Parameters
    ----------
    estimator, param_grid, scoring, n_jobs, refit, cv, verbose, pre_dispatch, error_score, \
return_train_score
        As in scikit-learn. `n_jobs` and `pre_dispatch` matter where candidates are refitted.

    Attributes
    ----------
    cv_results_, best_estimator_, best_score_, best_params_, best_index_, scorer_, n_splits_, \
refit_time_, multimetric_
        As in scikit-learn; fit times in `cv_results_` are those of a lookup.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.kernel_ridge import KernelRidge
    >>> from holdfast.model_selection import GridSearchCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> grid = {"alpha": np.logspace(-3, 1, 9), "gamma": [0.1, 1.0, 10.0]}
    >>> search = GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=10).fit(X, y)
    >>> search.best_params_["gamma"]
    1.0
    """

    cv: Any  # as scikit-learn's class has it

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Compare all candidates and refit the best.

        Parameters
        ----------
        X, y, **params
            As in scikit-learn.

        Returns
        -------
        self
        """
        rest = {name: value for name, value in params.items() if name != "groups"}
        given = {"estimator": self.estimator, "X": X, "y": y, "params": rest, "cv": self.cv}
        given |= {"groups": params.get("groups"), "scoring": self.scoring}
        candidates = list(ParameterGrid(self.param_grid))
        chooses = Refit(f"{type(self.estimator).__name__} chooses in every split")
        job = Job.of(
            "GridSearchCV",
            given,
            candidates,
            everything=self.return_train_score,
            refit=None if with_closed_forms_inside(self.estimator) is None else chooses,
        )
        if job.answers is None:
            cv, self.cv = self.cv, job.given["cv"]
            try:
                job.run(lambda **_: super(GridSearchCV, self).fit(X, y, **params))
            finally:
                self.cv = cv
            return self
        search = _Numbered(
            job.given["estimator"],
            {"candidate": list(range(len(candidates)))},
            scoring=job.given["scoring"],
            n_jobs=1,
            refit=self.refit,
            cv=job.given["cv"],
            verbose=self.verbose,
            error_score=self.error_score,
            return_train_score=self.return_train_score,
        )
        search.named(candidates).fit(job.given["X"], job.given["y"], **params)
        for name in FOUND:
            if hasattr(search, name):
                setattr(self, name, getattr(search, name))
        scorers, _ = self._get_scorers()  # of the estimator itself, not of its stand-in
        self.scorer_ = getattr(scorers, "_scorers", scorers)
        if self.refit:
            start, every = time.time(), job.given["X"][:, 0]
            self.best_estimator_ = job.answers.refitted(self.best_index_, every)
            self.refit_time_ = time.time() - start
            if hasattr(self.best_estimator_, "feature_names_in_"):
                self.feature_names_in_ = self.best_estimator_.feature_names_in_
        return self


class _Choosing:
    """A `RidgeCV` that is fitted with the one penalty that it would choose."""

    alphas: Any

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> Self:
        """Choose the penalty and fit to all rows."""
        grid, alpha = self.alphas, None
        with suppress(TypeError, ValueError):  # scikit-learn says what is wrong
            alpha = None if params else _best_penalty(self, X, y, sample_weight)
        if alpha is not None:
            self.alphas = [alpha]
        try:
            super().fit(X, y, sample_weight=sample_weight, **params)  # type: ignore[misc]
        finally:
            self.alphas = grid
        return self


class RidgeCV(_Choosing, _RidgeCV):  # type: ignore[misc]  # sklearn is untyped
    """`sklearn.linear_model.RidgeCV`, whose penalties are compared without refits."""


class RidgeClassifierCV(_Choosing, _RidgeClassifierCV):  # type: ignore[misc]
    """`sklearn.linear_model.RidgeClassifierCV`, whose penalties are compared without refits."""


def _best_penalty(model: Any, X: Any, y: Any, sample_weight: Any) -> float | None:
    """Return the penalty that a `RidgeCV` or a `RidgeClassifierCV` chooses; None if left to it."""
    alphas, classifies = np.asarray(model.alphas), is_classifier(model)
    valid = alphas.ndim == 1 and alphas.size > 1 and alphas.dtype.kind in "iuf"
    special = model.store_cv_results or getattr(model, "alpha_per_target", False)
    special = special or getattr(model, "class_weight", None) is not None
    if special or not valid or not (alphas > 0).all():
        return None
    if model.cv is not None:
        kind = RidgeClassifier if classifies else Ridge
        linear = kind(fit_intercept=model.fit_intercept)
        given = {"cv": model.cv, "scoring": model.scoring, "refit": False}
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        search = GridSearchCV(linear, {"alpha": alphas}, **given).fit(X, y, **weights)
        return float(search.best_params_["alpha"])
    plain = model.scoring is None and sample_weight is None and isinstance(X, np.ndarray)
    if not plain or X.dtype != np.float64 or X.ndim != 2 or X.size < LEAST_NUMBERS:
        return None
    y = np.asarray(y)
    if len(X) <= X.shape[1] or len(X) != len(y) or (classifies and y.ndim != 1):
        return None
    Y = 2.0 * (y[:, None] == np.unique(y)) - 1.0 if classifies else y.reshape(len(y), -1)
    errors = _leave_one_out(X, Y, alphas, model)
    return float(alphas[errors.argmin()]) if np.isfinite(errors).all() else None


def _leave_one_out(X: FloatArray, Y: FloatArray, alphas: FloatArray, model: Any) -> FloatArray:
    """Return the mean squared error of leave-one-out at each penalty (Golub et al. 1979).

    In the coordinates of the eigenvectors of XᵀX, which are rotated once, a penalty takes n p.
    """
    level = 0.0
    if model.fit_intercept:
        X, Y, level = X - X.mean(axis=0), Y - Y.mean(axis=0), 1.0 / len(X)
    values, vectors = np.linalg.eigh(X.T @ X)
    Z = X @ vectors
    z, squares, found = Z.T @ Y, np.square(Z), np.empty(alphas.size)
    for i, alpha in enumerate(alphas.tolist()):
        share = 1.0 / (values + alpha)
        residuals = Y - Z @ (share[:, None] * z)
        left = 1.0 - level - squares @ share
        with np.errstate(divide="ignore", invalid="ignore"):
            found[i] = np.square(residuals / left[:, None]).mean()
    return found


#: What stands for an estimator of scikit-learn that chooses.
WITH_CLOSED_FORMS = {
    _GridSearchCV: GridSearchCV,
    _RidgeCV: RidgeCV,
    _RidgeClassifierCV: RidgeClassifierCV,
}


def with_closed_forms_inside(estimator: Any) -> Any:
    """Return an estimator that chooses, alone or at the end of a pipeline, with a closed form.

    None for other estimators, and where metadata are routed.
    """
    if get_config()["enable_metadata_routing"]:
        return None
    kind = type(estimator)
    if kind in WITH_CLOSED_FORMS.values():
        return estimator
    if kind in WITH_CLOSED_FORMS:
        return clone(WITH_CLOSED_FORMS[kind](**estimator.get_params(deep=False)))
    if kind is TransformedTargetRegressor:
        name, last = "regressor", estimator.regressor
    elif kind is Pipeline and estimator.steps:
        name, last = estimator.steps[-1]
    else:
        return None
    inside = with_closed_forms_inside(last)
    return None if inside is None else clone(estimator).set_params(**{name: inside})
