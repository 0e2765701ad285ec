"""What a score is: values of rows, what their weighted mean becomes, and how it is printed.

The mean squared error, R² with the variance of the targets in hand, the accuracy and the log loss
are functions of one weighted mean over rows. That one statement gives the score of every experiment
and of all rows together (`holdfast.scores.scoring`), its standard error (`holdfast.scores.errors`),
and with it intervals, comparisons, permutations and the rule of one standard error. The numbers are
those of the scikit-learn scorers of the same name, up to rounding. Any other scorer is called
(`holdfast.scores.scorers`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast._typing import AnyArray, BoolArray, FloatArray
from holdfast.exceptions import NotSupportedError
from holdfast.scores.probabilities import class_index, of_own_class

__all__ = ["KNOWN", "Metric", "Printed", "placements", "printed"]


@dataclass(frozen=True, eq=False)
class Metric:
    """A score of held-out predictions, greater being better; made by `resolve_scoring`.

    Attributes
    ----------
    name : str
        As the user gave it, or a description of a callable.
    row_value : callable or None
        (predictions (b, k, v), y) -> values (b, k, v) to be averaged with the row weights; None:
        not that of experiments and of all rows alike, each is scored by itself.
    of : {"values", "decisions", "probabilities", "densities"}
        What `row_value` takes: predictions of numbers with the targets (k, v); decision values, or
        class probabilities, with the index of each row's class (k, 1); or log densities.
    form : {"mean", "root", "relative", "area"}
        What the mean becomes: itself; its root; R², one minus its ratio to the variance of the
        targets. The area under the ROC curve is a mean of `placements`.
    sign : {1.0, -1.0}
        −1 for a mean, or a root, of losses.
    classes : ndarray or None
        Sorted class labels; None for regression.
    scorer : callable or None
        ``scorer(estimator, X, y)``, with ``sample_weight`` and ``groups`` where it takes them.
    takes_weights : bool
        Whether the scorer does. One that does not treats all rows of positive weight alike.
    takes_groups : bool
        Whether the scorer accepts the group of each row.
    """

    name: str
    row_value: Callable[[FloatArray, FloatArray], FloatArray] | None = None
    of: str = "values"
    form: str = "mean"
    sign: float = 1.0
    classes: AnyArray | None = None
    scorer: Callable[..., float] | None = None
    takes_weights: bool = True
    takes_groups: bool = False

    @property
    def density(self) -> bool:
        """Whether it scores a predictive distribution, which predictions alone do not give."""
        return self.of == "densities"

    def targets(self, labels: AnyArray) -> FloatArray:
        """Return what `row_value` takes of the labels (k,) or targets (k, v) of rows."""
        if self.classes is None:
            return labels
        return class_index(labels, self.classes)[:, None].astype(float)

    def positive(self, labels: AnyArray) -> BoolArray:
        """Return which labels are the second of two classes."""
        assert self.classes is not None
        return np.asarray(labels == self.classes[1])

    def finish(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Return the score that a mean over rows becomes, elementwise.

        Where targets are constant, R² is 1.0 or 0.0 as scikit-learn defines it.
        """
        if self.form == "root":
            return self.sign * np.sqrt(np.maximum(mean, 0.0))
        if self.form != "relative":
            return self.sign * mean
        constant = variance == 0
        ratio = mean / np.where(constant, 1.0, variance)
        return np.where(constant, np.where(mean == 0, 1.0, 0.0), 1.0 - ratio)

    def slope(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Return the derivative of `finish` with respect to the mean."""
        if self.form == "root":
            tiny = np.finfo(float).tiny
            return np.asarray(0.5 * self.sign / np.sqrt(np.maximum(mean, tiny)))
        if self.form != "relative":
            return np.full_like(mean, self.sign)
        constant = variance == 0
        return np.where(constant, 0.0, -1.0 / np.where(constant, 1.0, variance)) + 0.0 * mean

    def refuse_density(self, answer: str) -> None:
        """Raise if an answer has no distribution, which this score needs."""
        if self.density:
            raise NotSupportedError(
                f"{answer} scores predictions; scoring={self.name!r} needs their distribution. "
                "fit, held_out(...).score, score_interval and permutation_test have it; here, use "
                'a scorer such as "neg_mean_squared_error".',
                argument="scoring",
            )


def _squared_error(predictions: FloatArray, y: FloatArray) -> FloatArray:
    residual = predictions - y
    residual *= residual
    return residual


def _absolute_error(predictions: FloatArray, y: FloatArray) -> FloatArray:
    residual = predictions - y
    return np.abs(residual, out=residual)


def _hit(decision: FloatArray, index: FloatArray) -> FloatArray:
    """Return 1.0 where the decision names class `index`, else 0.0; nan without a decision."""
    named = decision > 0 if decision.shape[-1] == 1 else decision.argmax(axis=-1)[..., None]
    # A sum is finite only where every term is, and needs no (b, k, v) mask.
    return np.where(np.isfinite(decision.sum(axis=-1, keepdims=True)), named == index, np.nan)


def _log_probability(p: FloatArray, index: FloatArray) -> FloatArray:
    """Return the logarithm of the probability of class `index`, bounded as in scikit-learn."""
    eps = np.finfo(float).eps
    return np.asarray(np.log(np.clip(of_own_class(p, index), eps, 1.0 - eps)))


def _squared_difference(p: FloatArray, index: FloatArray) -> FloatArray:
    """Return Σ (p − what happened)², half of it for two classes."""
    own = of_own_class(p, index)
    total = np.square(p).sum(axis=-1, keepdims=True) + 1.0 - 2.0 * own
    return np.asarray(total / 2.0 if p.shape[-1] == 2 else total)


def placements(decision: FloatArray, positive: BoolArray, weights: FloatArray) -> FloatArray:
    """Return values (k,) with the area under the ROC curve as weighted mean; nan if undefined.

    A row's placement is the share of rows of the other class that it is ranked above (positive)
    or below (negative), half of ties. Values are the area plus the row's influence on it, so that
    their variance is that of the area (DeLong, DeLong & Clarke-Pearson 1988).
    """
    w1, w0 = np.where(positive, weights, 0.0), np.where(positive, 0.0, weights)
    if not (w1.sum() > 0 and w0.sum() > 0 and np.isfinite(decision).all()):
        return np.full(decision.shape, np.nan)
    values, code = np.unique(decision, return_inverse=True)

    def below(w: FloatArray) -> FloatArray:
        """Return the share of weight below each value, half of that at it."""
        here = np.bincount(code, weights=w, minlength=values.size)
        return np.asarray((np.cumsum(here) - 0.5 * here)[code] / w.sum())

    placement = np.where(positive, below(w0), 1.0 - below(w1))
    area = w1 @ placement / w1.sum()
    share = np.where(positive, w1.sum(), w0.sum()) / weights.sum()
    return np.asarray(area + (placement - area) / share)


def _itself(values: FloatArray, _: FloatArray) -> FloatArray:
    return values


#: Scores that need no scikit-learn, by its names.
KNOWN: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("neg_mean_squared_error", _squared_error, sign=-1.0),
        Metric("neg_root_mean_squared_error", _squared_error, form="root", sign=-1.0),
        Metric("neg_mean_absolute_error", _absolute_error, sign=-1.0),
        Metric("r2", _squared_error, form="relative"),
        Metric("accuracy", _hit, "decisions"),
        Metric("roc_auc", None, "decisions", "area"),
        Metric("neg_log_loss", _log_probability, "probabilities"),
        Metric("neg_brier_score", _squared_difference, "probabilities", sign=-1.0),
        Metric("log_density", _itself, "densities"),
    )
}


@dataclass(frozen=True)
class Printed:
    """How scores of one name are printed: errors as such, in the unit of the target.

    Attributes
    ----------
    label : str
    sign : {1.0, -1.0}
        −1 where the printed number is an error, of which less is better.
    root : bool
        Whether the root is printed, of a mean squared error.
    """

    label: str
    sign: float = 1.0
    root: bool = False

    def of(self, score: Any) -> Any:
        """Return scores, a number or an array, as they are printed."""
        score = np.asarray(score)
        return np.sqrt(np.maximum(-score, 0.0)) if self.root else self.sign * score

    def error(self, score: FloatArray, se: FloatArray) -> FloatArray:
        """Return the standard error of what is printed; of a root e, by the delta method, se/2e."""
        if not self.root:
            return np.asarray(se, dtype=float)
        shown = self.of(score)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(shown > 0, se / (2.0 * shown), 0.0)


_LABELS = {
    "neg_mean_squared_error": "RMSE",
    "neg_root_mean_squared_error": "RMSE",
    "r2": "R²",
    "neg_brier_score": "Brier score",
    "roc_auc": "AUC",
    "f1": "F1",
    "pearson": "Pearson's r",
    "kendall_tau": "Kendall's τ",
}


def printed(name: str) -> Printed:
    """Return how scores of this name are printed."""
    sign = -1.0 if name.startswith("neg_") else 1.0
    label = _LABELS.get(name, name.removeprefix("neg_").replace("_", " "))
    return Printed(label, sign, root=name == "neg_mean_squared_error")
