"""The one door through which matplotlib enters."""

from __future__ import annotations

from typing import Any

from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from holdfast.exceptions import InvalidInputError, MissingDependencyError, NotSupportedError

__all__ = ["check_fitted_estimator", "new_axes", "refuse_classifier"]


def new_axes(ax: Any | None) -> Any:
    """Return `ax`, or the axes of a new figure."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingDependencyError(
            "Plotting needs matplotlib, which is not installed: pip install 'holdfast[plot]'."
        ) from error
    if ax is not None:
        return ax
    _, made = plt.subplots()
    return made


def check_fitted_estimator(estimator: Any) -> None:
    """Raise unless this is one of holdfast's estimators, fitted."""
    if not hasattr(estimator, "held_out"):
        raise InvalidInputError(
            "estimator must be a KernelRidgeCV or KernelRidgeClassifierCV; got "
            f"{type(estimator).__name__}. A pipeline's last step is pipeline[-1]."
        )
    check_is_fitted(estimator)


def refuse_classifier(estimator: Any, name: str) -> None:
    """Raise for a classifier, whose predictions are classes and not numbers."""
    if is_classifier(estimator):
        raise NotSupportedError(
            f"{name} shows numbers; the predictions of a classifier are classes. Use "
            "sklearn.metrics.ConfusionMatrixDisplay.from_predictions with "
            "estimator.held_out(alphas=estimator.alpha_).labels()[0]."
        )
