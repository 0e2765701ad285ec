"""Kernel least-squares classification whose penalty is chosen by exact cross-validation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from holdfast._typing import FloatArray
from holdfast.data.dask import on_rows
from holdfast.data.labels import check_labels
from holdfast.data.values import refuse_masked
from holdfast.estimators.base import CrossValidatedKernelRidge
from holdfast.estimators.inputs import check_length, refusals, require_finite
from holdfast.exceptions import InvalidInputError
from holdfast.scores.scoring import decision_to_label_index, decision_to_proba


class KernelRidgeClassifierCV(ClassifierMixin, CrossValidatedKernelRidge):  # type: ignore[misc]  # sklearn is untyped
    """Kernel least-squares classifier (LS-SVM) with exact held-out predictions.

    Two classes are regressed as −1 and +1; more classes one against the rest, all sharing one
    factorisation. An integer `cv` means stratified folds; `scoring` defaults to accuracy.

    Parameters
    ----------
    kernel, gamma, degree, coef0, kernel_params, alphas, basis, cv, held_out_basis, \
fit_intercept, trend, scoring, pooled, alpha_per_target, rule, jitter, path, memory_limit, \
checkpoint, random_state
        As in `KernelRidgeCV`. `alpha_per_target` must stay False: the classes are one decision.

    Attributes
    ----------
    classes_ : ndarray
        Class labels, sorted.
    alpha_, alphas_, best_score_, best_index_, cv_results_, n_splits_, basis_indices_, dual_coef_, \
intercept_, coef_, trend_coef_, trend_coef_std_, trend_names_, jitter_, n_features_in_, \
feature_names_in_
        As in `KernelRidgeCV`, with one target per class, or one in all for two classes.

    Notes
    -----
    For two classes the decision function has, up to a factor and a level, the direction of the
    kernel Fisher discriminant whose within-class scatter is regularised by `alpha_` (Cawley
    and Talbot 2004, §4; docs/theory.md has the proof, and Fisher's threshold in three lines): only
    the threshold differs. `predict` compares with 0; Fisher's rule, for classes that are equally
    frequent where it is used, with the middle of the two class means. With balanced weights,
    ``sample_weight`` one over the number of rows of each class, both thresholds are 0, and so
    held-out predictions are those of Fisher's rule.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from holdfast import KernelRidgeClassifierCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelRidgeClassifierCV(cv=5).fit(X, y)
    >>> bool(model.best_score_ > 0.94)
    True
    """

    @property
    def _classes(self) -> NDArray[Any]:
        return np.asarray(self.classes_)

    def _targets(
        self, y: Any, n_rows: int, weights: FloatArray
    ) -> tuple[FloatArray, NDArray[Any], bool]:
        if y is None:
            raise InvalidInputError(
                "requires y to be passed, but the target y is None: pass one label per row.",
                argument="y",
            )
        refuse_masked("y", y)
        with refusals("y"):
            labels = column_or_1d(y, warn=True)
            check_length("y", labels, n_rows)
            if labels.dtype.kind == "f":
                require_finite("y", labels)
            if labels.dtype.kind != "c":  # scikit-learn has the sentence for these
                check_labels("y", labels, n_rows)
            check_classification_targets(labels)
        present = np.unique(labels[weights > 0])
        if present.size < 2:
            raise InvalidInputError(
                f"y must hold at least two classes with positive weight; got {present.size} class. "
                "Add rows of another class.",
                argument="y",
            )
        self.classes_, code = np.unique(labels, return_inverse=True)
        if self.classes_.size == 2:
            return np.where(code == 1, 1.0, -1.0)[:, None], labels, True
        Y = np.full((n_rows, self.classes_.size), -1.0)
        Y[np.arange(n_rows), code] = 1.0
        return Y, labels, False

    def decision_function(self, X: Any) -> FloatArray:
        """Return model values, (k,) for two classes (positive: the second), else (k, classes)."""
        values = self._decision(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X: Any) -> NDArray[Any]:
        """Return class labels, shape (k,)."""
        labels: NDArray[Any] = on_rows(
            _labels, self._decision(X), self.classes_, columns=None, dtype=self.classes_.dtype
        )
        return labels

    def predict_proba(self, X: Any) -> FloatArray:
        """Return least-squares estimates of the class probabilities, shape (k, classes).

        Regression on ±1 estimates 2P − 1; the estimates are clipped at zero and scaled to sum
        to one. They are not calibrated.
        """
        decision = self._decision(X)
        count = self.classes_.size
        values: FloatArray = on_rows(decision_to_proba, decision, count, columns=count)
        return values


def _labels(values: FloatArray, classes: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(classes[decision_to_label_index(values)])
