"""`GridSearchCV`, and `RidgeCV` with folds, whose candidates are compared without refits."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.linear_model import RidgeCV as _RidgeCV
from sklearn.model_selection import GridSearchCV as _GridSearchCV
from sklearn.model_selection import ParameterGrid
from sklearn.utils.metadata_routing import process_routing

from holdfast.model_selection.answering import job_of, routed, with_closed_forms_inside
from holdfast.model_selection.recognise import Refit
from holdfast.model_selection.stand_in import clone_values, on_rows

__all__ = ["GridSearchCV", "RidgeCV"]

#: What a finished search knows beside the refitted estimator.
FOUND = (
    "cv_results_",
    "best_index_",
    "best_params_",
    "best_score_",
    "scorer_",
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
        groups = None if routed() else params.get("groups")
        rest = params if routed() else {k: v for k, v in params.items() if k != "groups"}
        candidates = list(ParameterGrid(self.param_grid))
        chooses = Refit(f"{type(self.estimator).__name__} chooses in every split")
        job = job_of(
            "GridSearchCV",
            self.estimator,
            X,
            y,
            groups,
            self.cv,
            rest,
            candidates,
            everything=self.return_train_score,
            refit=None if with_closed_forms_inside(self.estimator) is None else chooses,
        )
        if job.answers is None:
            cv, self.cv = self.cv, job.given["cv"]
            try:
                super().fit(X, y, **params)
            finally:
                self.cv = cv
            job.tell_late()
            return self
        search = _Numbered(
            job.given["estimator"],
            {"candidate": list(range(len(candidates)))},
            scoring=on_rows(self.scoring, job.answers.case),
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
        self.scorer_ = self._own_scorer()
        if self.refit:
            self._refit(X, y, params)
        return self

    def _own_scorer(self) -> Any:
        """Return the scorer of the estimator itself, where the search had one of its stand-in."""
        scorers, _ = self._get_scorers()
        return getattr(scorers, "_scorers", scorers)

    def _refit(self, X: Any, y: Any, params: Mapping[str, Any]) -> None:
        """Fit the best candidate to all rows."""
        given = {name: value for name, value in params.items() if name != "groups"}
        if routed():
            given = process_routing(self, "fit", **params).estimator.fit
        best = clone(self.estimator).set_params(**clone_values(self.best_params_))
        start = time.time()
        best.fit(X, y, **given)
        self.best_estimator_, self.refit_time_ = best, time.time() - start
        if hasattr(best, "feature_names_in_"):
            self.feature_names_in_ = best.feature_names_in_


class RidgeCV(_RidgeCV):  # type: ignore[misc]  # sklearn is untyped
    """`sklearn.linear_model.RidgeCV` with folds, whose penalties are compared without refits.

    Parameters
    ----------
    alphas, fit_intercept, scoring, cv, gcv_mode, store_cv_results, alpha_per_target
        As in scikit-learn.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> Self:
        """Choose the penalty and fit to all rows."""
        alphas = np.asarray(self.alphas)
        plain = not (self.store_cv_results or self.alpha_per_target or params or routed())
        valid = alphas.ndim == 1 and alphas.dtype.kind in "iuf" and (alphas >= 0).all()
        if self.cv is None or not plain or not valid:  # scikit-learn says what is wrong
            super().fit(X, y, sample_weight=sample_weight, **params)
            return self
        self._validate_params()
        solver = "sparse_cg" if sp.issparse(X) else "auto"
        search = GridSearchCV(
            Ridge(fit_intercept=self.fit_intercept, solver=solver),
            {"alpha": alphas},
            cv=self.cv,
            scoring=self.scoring,
        )
        given = {} if sample_weight is None else {"sample_weight": sample_weight}
        best = search.fit(X, y, **given).best_estimator_
        self.alpha_, self.best_score_ = best.alpha, search.best_score_
        for name in ("coef_", "intercept_", "n_features_in_", "feature_names_in_"):
            if hasattr(best, name):
                setattr(self, name, getattr(best, name))
        return self
