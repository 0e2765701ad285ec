"""Scores as people read them: errors in the units of the target, or shares."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast._typing import FloatArray

__all__ = ["ScoreScale", "number", "score_scale"]


_NAMES = {
    "neg_mean_absolute_error": "mean absolute error",
    "neg_median_absolute_error": "median absolute error",
    "neg_root_mean_squared_error": "RMSE",
    "neg_log_loss": "log loss",
    "neg_brier_score": "Brier score",
    "r2": "R²",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "roc_auc": "area under the ROC curve",
    "f1": "F1",
    "kendall_tau": "Kendall's τ",
}


@dataclass(frozen=True)
class ScoreScale:
    """How a score, where greater is better, is shown.

    Attributes
    ----------
    label : str
        What the shown number is.
    lower_is_better : bool
        Whether it is an error.
    root : bool
        Whether it is the root of the negative score (mean squared error as RMSE).
    """

    label: str
    lower_is_better: bool
    root: bool = False

    def shown(self, score: FloatArray) -> FloatArray:
        """Return scores as they are shown."""
        if self.root:
            return np.asarray(np.sqrt(np.maximum(-np.asarray(score), 0.0)))
        return np.asarray(-np.asarray(score) if self.lower_is_better else score)

    def spread(self, score: FloatArray, se: FloatArray) -> FloatArray:
        """Return the standard error of the shown number from that of the score.

        Notes
        -----
        For the root of a mean squared error the delta method gives se(√e) = se(e)/(2√e).
        """
        if not self.root:
            return np.asarray(se, dtype=float)
        shown = self.shown(score)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(shown > 0, np.asarray(se) / (2 * shown), 0.0)


def score_scale(scoring: Any, classifier: bool) -> ScoreScale:
    """Return how the scores of an estimator with this `scoring` are shown."""
    if scoring is None:
        scoring = "neg_log_loss" if classifier else "neg_mean_squared_error"
    if not isinstance(scoring, str):
        name = getattr(scoring, "__name__", None) or type(scoring).__name__
        return ScoreScale(f"score ({name})", lower_is_better=False)
    if scoring == "neg_mean_squared_error":
        return ScoreScale("RMSE", lower_is_better=True, root=True)
    negative = scoring.startswith("neg_")
    plain = scoring.removeprefix("neg_").replace("_", " ")
    return ScoreScale(_NAMES.get(scoring, plain), lower_is_better=negative)


def number(value: float, digits: int = 3) -> str:
    """Return a number with that many significant digits, without an exponent where it is short."""
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    if not -4 <= exponent < 7:
        mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
        return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(power)}"
    return f"{value:,.{max(0, digits - 1 - exponent)}f}"
