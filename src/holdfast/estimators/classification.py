"""Kernel least-squares classification whose penalty is chosen by exact cross-validation."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from holdfast._typing import AnyArray, BoolArray, FloatArray, IntArray
from holdfast.answers.calibration import (
    CALIBRATIONS,
    Calibration,
    CalibrationScores,
    calibrated,
    compared,
)
from holdfast.answers.fitted import Fitted
from holdfast.data.dask import local, on_rows
from holdfast.data.values import check_labels, refuse_masked
from holdfast.estimators.base import OneKernel
from holdfast.estimators.inputs import check_length, refusals, require_finite
from holdfast.exceptions import InvalidInputError
from holdfast.scores.probabilities import (
    class_index,
    decision_to_label_index,
    decision_to_proba,
    shares,
)


@dataclass(eq=False, repr=False)
class KernelRidgeClassifierCV(ClassifierMixin, OneKernel):  # type: ignore[misc]  # sklearn is untyped
    """Kernel least-squares classifier (LS-SVM) with exact held-out predictions.

    Two classes are regressed as −1 and +1; more classes one against the rest, all sharing one
    factorisation. An integer `cv` means stratified folds. The penalty is the one with the smallest
    held-out log loss of the probabilities that `predict_proba` will give: a sigmoid of the decision
    value for each class.

    Parameters
    ----------
    kernel, gamma, degree, coef0, kernel_params, alphas, basis, cv, held_out_basis, \
fit_intercept, trend, standardize, pooled, alpha_per_target, rule, jitter, path, \
memory_limit, random_state, verbose
        As in `KernelRidgeCV`, but for `alpha_per_target`: the classes are one decision.
    scoring : str or callable, default=None
        What the penalty is chosen by, and `best_score_` is: None means "neg_log_loss". Scores of
        labels ("accuracy") and of the order of rows ("roc_auc") take the held-out decisions, scores
        of probabilities ("neg_log_loss", "neg_brier_score") those of sigmoids that fit all of
        them, whatever `calibration` is.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        How `predict_proba` turns decision values into probabilities: by a calibrator that learns
        from the held-out decisions of `fit` at the chosen penalty, like scikit-learn's
        ``CalibratedClassifierCV(ensemble=False)`` with the same folds, but without its fits, and
        with slopes that are never negative. "sigmoid" (Platt) for few rows, "isotonic" from about a
        thousand on, None for decision values that are clipped and scaled. Labels, decisions and
        scores are the same with each.
    class_weight : "balanced", dict or None, default=None
        What rows of a class weigh in the fit, beside `sample_weight`; in a dict a class that is not
        named counts 1. "balanced" is ``m / (classes * rows of the class)``, as in scikit-learn,
        counted once on all rows of positive weight and the same in every experiment. Scores and
        probabilities do not take it: they are about rows as frequent as they are.

    Attributes
    ----------
    classes_ : ndarray
        Class labels, sorted.
    alpha_, alphas_, best_score_, best_index_, cv_results_, n_splits_, basis_indices_, dual_coef_, \
intercept_, coef_, trend_coef_, jitter_, n_features_in_, \
feature_names_in_
        As in `KernelRidgeCV`, with one target per class, or a single one for two classes.
    calibration_ : Calibration or None
        What was learned from the held-out decisions; `calibration_scores` says how much it helps.
    class_weight_ : ndarray of shape (classes,)
        What rows of each class weigh in the fit.

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
    >>> bool(model.best_score_ > -0.2)
    True
    >>> model.predict_proba(X[:1]).round(1)
    array([[1., 0., 0.]])
    """

    _: KW_ONLY
    calibration: str | None = "sigmoid"
    class_weight: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **OneKernel._parameter_constraints,
        "calibration": [StrOptions(set(CALIBRATIONS)), None],
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    @property
    def _classes(self) -> NDArray[Any]:
        return np.asarray(self.classes_)

    def _targets(
        self, y: Any, weights: FloatArray
    ) -> tuple[FloatArray, NDArray[Any], FloatArray, bool]:
        if y is None:
            raise InvalidInputError(
                "requires y to be passed, but the target y is None: pass one label per row.",
                argument="y",
            )
        y = local(y)
        refuse_masked("y", y)
        with refusals("y"):
            labels = column_or_1d(y, warn=True)
            check_length("y", labels, weights.size)
            if labels.dtype.kind == "f":
                require_finite("y", labels)
            if labels.dtype.kind != "c":  # scikit-learn has the sentence for these
                check_labels("y", labels, weights.size)
            check_classification_targets(labels)
        present = np.unique(labels[weights > 0])
        if present.size < 2:
            raise InvalidInputError(
                f"y must hold at least two classes with positive weight; got {present.size} class. "
                "Add rows of another class.",
                argument="y",
            )
        self.classes_ = np.unique(labels)
        self.class_weight_ = _class_weights(self.class_weight, labels[weights > 0], self.classes_)
        own = weights
        if self.class_weight is not None:
            own = np.asarray(weights * self.class_weight_[class_index(labels, self.classes_)])
        return self._coded(labels), labels, own, self.classes_.size == 2

    def _coded(self, labels: NDArray[Any]) -> FloatArray:
        """Return −1 and +1 for each row and class, or for the second of two classes."""
        shown = self.classes_[1:] if self.classes_.size == 2 else self.classes_
        return np.where(labels[:, None] == shown, 1.0, -1.0)

    def _publish(self, fitted: Fitted, parameters: dict[str, Any]) -> None:
        """Keep the fitted model, and calibrate one that is new."""
        super()._publish(fitted, parameters)
        self.calibration_: Calibration | None = None
        if self.calibration is not None:
            decision, positive, weights, _ = self._held_out_decisions()
            self.calibration_ = calibrated(self.calibration, decision, positive, weights)  # type: ignore[arg-type]  # checked by _validate_params

    def _held_out_decisions(self) -> tuple[FloatArray, BoolArray, FloatArray, IntArray]:
        """Return held-out decisions (k, v), whether rows have the class, weights, experiments."""
        training, held = self._training, self.held_out(alphas=np.atleast_1d(self.alpha_))
        test = held.experiments.test
        weights = shares(test.values, training.score_weights[test.values])
        return held.values[0], training.Y[test.values] > 0, weights, test.owners

    def decision_function(self, X: Any) -> FloatArray:
        """Return model values, (k,) for two classes (positive: the second), else (k, classes).

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from holdfast import KernelRidgeClassifierCV
        >>> X, y = load_iris(return_X_y=True)
        >>> KernelRidgeClassifierCV().fit(X, y).decision_function(X[:4]).shape
        (4, 3)
        """
        values = self._decision(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X: Any) -> NDArray[Any]:
        """Return class labels, shape (k,).

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from holdfast import KernelRidgeClassifierCV
        >>> X, y = load_iris(return_X_y=True)
        >>> KernelRidgeClassifierCV().fit(X, y).predict(X[::50])
        array([0, 1, 2])
        """
        labels: NDArray[Any] = on_rows(
            _labels, self._decision(X), self.classes_, columns=None, dtype=self.classes_.dtype
        )
        return labels

    def predict_proba(self, X: Any) -> FloatArray:
        """Return class probabilities, shape (k, classes).

        Of the calibrator that learned from held-out decisions, scaled to sum to one. With
        ``calibration=None``, regression on ±1 estimates 2P − 1: the estimates are clipped at zero
        and scaled.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from holdfast import KernelRidgeClassifierCV
        >>> X, y = load_iris(return_X_y=True)
        >>> KernelRidgeClassifierCV().fit(X, y).predict_proba(X[::50]).argmax(axis=1)
        array([0, 1, 2])
        """
        decision = self._decision(X)
        count, calibration = self.classes_.size, getattr(self, "calibration_", None)
        if calibration is not None:
            found: FloatArray = on_rows(_calibrated, decision, calibration, columns=count)
            return found
        values: FloatArray = on_rows(decision_to_proba, decision, count, columns=count)
        return values

    def calibration_scores(self) -> dict[str, CalibrationScores]:
        """Return log loss and Brier score of held-out probabilities before and after calibration.

        Returns
        -------
        dict
            ``"before"`` and ``"after"``, each with ``log_loss`` and ``brier``; smaller is better.
            After: by calibrators that did not learn from the rows that they score; so the
            log loss of sigmoids is a little above that of ``scoring="neg_log_loss"``, which is of
            the two numbers for each class that fit all held-out decisions.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from holdfast import KernelRidgeClassifierCV
        >>> X, y = load_iris(return_X_y=True)
        >>> scores = KernelRidgeClassifierCV().fit(X, y).calibration_scores()
        >>> bool(scores["after"].log_loss < scores["before"].log_loss)
        True
        """
        check_is_fitted(self)
        calibration = getattr(self, "calibration_", None)
        if calibration is None:
            raise InvalidInputError(
                "calibration_scores needs a calibrated model; got calibration=None. Fit with "
                'calibration="sigmoid" or "isotonic".',
                argument="calibration",
            )
        decision, positive, weights, owners = self._held_out_decisions()
        plain = decision_to_proba(decision, self.classes_.size)
        before, after = compared(calibration.method, decision, plain, positive, weights, owners)
        return {"before": before, "after": after}


def _class_weights(given: Any, labels: AnyArray, classes: AnyArray) -> FloatArray:
    """Return what rows of each class weigh in the fit, from the labels of the rows that count."""
    if given is None:
        return np.ones(classes.size)
    if isinstance(given, str):
        count = np.bincount(class_index(labels, classes), minlength=classes.size)
        return np.where(
            count > 0, labels.size / (np.count_nonzero(count) * np.maximum(count, 1)), 1.0
        )
    known = classes.tolist()
    wrong = [name for name in given if name not in known]
    if wrong:
        raise InvalidInputError(
            f"class_weight names {wrong[0]!r}, which is not a class; the classes are {known}.",
            argument="class_weight",
        )
    found = np.array([given.get(name, 1.0) for name in known], dtype=float)
    if not (np.isfinite(found) & (found > 0)).all():
        raise InvalidInputError(
            f"class_weight must hold positive numbers; got {given}. Leave out the rows of a class "
            "that must not be trained on.",
            argument="class_weight",
        )
    return found


def _calibrated(values: FloatArray, calibration: Calibration) -> FloatArray:
    return calibration.of_classes(values)


def _labels(values: FloatArray, classes: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(classes[decision_to_label_index(values)])
