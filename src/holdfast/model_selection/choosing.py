"""Estimators that choose their penalty in every fit: nested cross-validation.

`KernelRidgeCV` has it as an answer, `nested`. A `GridSearchCV` of scikit-learn, or a `RidgeCV` with
folds, is refitted for every outer split, and compares its candidates without refits there: the
package's own takes its place. The leave-one-out of `RidgeCV` has a closed form in scikit-learn
already, and is left to it.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from sklearn.model_selection import GridSearchCV as _GridSearchCV

from holdfast._typing import FloatArray
from holdfast.estimators.regression import KernelRidgeCV
from holdfast.exceptions import HoldfastError, HoldfastWarning
from holdfast.experiments import Experiments
from holdfast.model_selection.recognise import Refit

__all__ = ["nested", "require_choice"]


def require_choice(estimator: Any) -> None:
    """Leave estimators that choose, other than `KernelRidgeCV`, to scikit-learn's outer loop.

    Raises
    ------
    Refit
        Without a word for `GridSearchCV` and `RidgeCV(cv=...)`, whose refits have a closed form
        inside.
    """
    from holdfast.model_selection import search  # which asks this module, too

    folds = type(estimator) is RidgeCV and estimator.cv is not None
    folds = folds and not get_config()["enable_metadata_routing"]
    if folds or type(estimator) is _GridSearchCV:
        kind = search.RidgeCV if folds else search.GridSearchCV
        raise Refit(instead=clone(kind(**estimator.get_params(deep=False))))
    if isinstance(estimator, _GridSearchCV | search.RidgeCV):
        raise Refit(instead=estimator)  # ours: the same
    if type(estimator) in (RidgeCV, RidgeClassifierCV):
        raise Refit(f"{type(estimator).__name__} chooses its penalty in every split")


def nested(
    estimator: KernelRidgeCV, X: Any, y: Any, sample_weight: Any, experiments: Experiments
) -> tuple[FloatArray, bool]:
    """Return predictions (k, v) of test rows by models that chose without them, and whether flat.

    Raises
    ------
    Refit
        If the grid is made from the rows of each fit, or basis rows are drawn in each.
    """
    if estimator.alphas is None or isinstance(estimator.gamma, str):
        raise Refit(
            "KernelRidgeCV makes its grid from the rows of each split; given alphas and gamma "
            "have a closed form"
        )
    if estimator.basis is not None:
        raise Refit("KernelRidgeCV draws its basis rows from the rows of each split")
    if estimator.checkpoint is not None:
        raise Refit("KernelRidgeCV(checkpoint=...) saves every fit")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HoldfastWarning)  # about a choice that is not used
            fitted = clone(estimator).fit(X, y, sample_weight=sample_weight)
            found = fitted.nested(list(experiments))
    except (HoldfastError, ValueError, TypeError) as error:
        raise Refit(f"KernelRidgeCV.nested does not answer it ({error})") from error
    return np.concatenate([np.asarray(part) for part in found.predictions]), fitted._problem.flat
