"""Scorers for held-out predictions: any scikit-learn scorer, weighted by the row weights.

A scorer needs an estimator and data, but held-out predictions are already made. Scorers are
therefore called on an identity estimator, whose "data" are the predictions themselves. The common
metrics have a faster way to the same numbers (`holdfast.scores.metrics`).

Rows of weight zero are left out before anything is scored, so that a weight of zero is the same
as an absent row, even for a scorer that takes no weights.
"""

import difflib
import inspect
import math
import numbers
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from sklearn import metrics
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.exceptions import InvalidInputError, NotSupportedError
from holdfast.scores.metrics import METRICS, Metric
from holdfast.scores.probabilities import Sigmoids, happened, sigmoids
from holdfast.scores.ranking import RANKING, GroupScorer

__all__ = [
    "NO_WEIGHT",
    "Scoring",
    "class_index",
    "decision_to_label_index",
    "decision_to_proba",
    "is_scorer",
    "resolve_scoring",
]


NO_WEIGHT = (
    "sample_weight is zero for every test row: there is nothing to score; "
    "give at least one test row a positive weight"
)


#: The score of the predictive distribution of held-out targets; greater is better.
DENSITY = "log_density"


# --- from decision values to labels and probabilities -------------------------------------------


def decision_to_label_index(decision: FloatArray) -> IntArray:
    """Return the index of the predicted class of each row: sign for one column, else argmax.

    Parameters
    ----------
    decision : (k, v) ndarray
        One column for two classes (positive means class 1), else one column for each class.
    """
    if decision.shape[-1] == 1:
        return (decision[..., 0] > 0).astype(np.int64)
    return np.asarray(decision.argmax(axis=-1), dtype=np.int64)


def decision_to_proba(decision: FloatArray, n_classes: int) -> FloatArray:
    """Return the class probabilities (k, n_classes) that least-squares decision values imply.

    Parameters
    ----------
    decision : (k, v) ndarray
        One column for two classes (positive means class 1), else one column for each class.
    n_classes : int
        The number of classes.

    Notes
    -----
    Least squares on targets -1 and +1 estimates ``f_k(x) = 2 P(k | x) - 1``. Hence
    ``p_k ∝ max((1 + f_k) / 2, 0)``; two classes use ``[-f, f]``. Where every term vanishes there
    is nothing to normalise and the row falls back to the softmax of its decision values.
    """
    f = np.hstack([-decision, decision]) if n_classes == 2 else decision
    proba = np.maximum((1.0 + f) / 2.0, 0.0)
    total = proba.sum(axis=1, keepdims=True)
    empty = total[:, 0] == 0
    if empty.any():
        shifted = np.exp(f[empty] - f[empty].max(axis=1, keepdims=True))
        proba[empty] = shifted
        total[empty] = shifted.sum(axis=1, keepdims=True)
    return np.asarray(proba / total, dtype=np.float64)


def class_index(labels: AnyArray, classes: AnyArray) -> IntArray:
    """Return the index of each label among the classes, -1 for a label that is not one of them."""
    index = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    return np.where(classes[index] == labels, index, -1)


class _IdentityRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # sklearn is untyped
    """A regressor whose predictions are the data it is given."""

    def predict(self, X: FloatArray) -> FloatArray:
        """Return X."""
        return X

    def decision_function(self, X: FloatArray) -> FloatArray:
        """Return X: roc_auc of a regression on 0/1 targets, for scikit-learn 1.9 or later."""
        return X


class _IdentityClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # sklearn is untyped
    """A classifier whose decision values, of shape (k, v), are the data it is given.

    `sigmoids` makes those that its probabilities come from.
    """

    def __init__(self, classes: AnyArray, sigmoids: Callable[[], Sigmoids]) -> None:
        self.classes, self.sigmoids = classes, sigmoids
        self.classes_ = classes

    def decision_function(self, X: FloatArray) -> FloatArray:
        """Return X, one-dimensional for two classes as scikit-learn expects it."""
        return X[:, 0] if len(self.classes_) == 2 else X

    def predict(self, X: FloatArray) -> AnyArray:
        """Return the labels that X implies."""
        return np.asarray(self.classes_[decision_to_label_index(X)])

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return the probabilities that X implies."""
        return np.asarray(self.sigmoids().of(X[None])[0])


# --- what to score with --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Scoring:
    """A scorer ready for held-out predictions; greater is better. Made by `resolve_scoring`.

    Attributes
    ----------
    name : str
        The scorer's name, or a description of the callable.
    scorer : callable
        ``scorer(estimator, X, y)`` or ``scorer(estimator, X, y, sample_weight=...)``.
    classes : ndarray or None
        Sorted class labels; None for regression.
    takes_weights : bool
        Whether the scorer accepts ``sample_weight``. One that does not treats all rows of positive
        weight alike.
    metric : Metric or None
        What gives the same numbers by sums over rows, if there is such a thing.
    takes_groups : bool
        Whether the scorer accepts ``groups``, the group of each row.
    """

    name: str
    scorer: Callable[..., float]
    classes: AnyArray | None
    takes_weights: bool
    metric: Metric | None
    takes_groups: bool = False

    def other(self, scoring: Any) -> "Scoring":
        """Return what another `scoring` argument means for the same targets."""
        return resolve_scoring(scoring, classes=self.classes)

    def sigmoids(
        self, decision: FloatArray, labels: AnyArray, weights: FloatArray | None
    ) -> Sigmoids:
        """Return the sigmoids that turn decision values (k, v) of rows into probabilities."""
        assert self.classes is not None
        v = decision.shape[1]
        used = np.ones(len(decision)) if weights is None else weights
        return sigmoids(decision[None], happened(class_index(labels, self.classes), v), used)

    @property
    def density(self) -> bool:
        """Whether it scores a predictive distribution, which predictions alone do not give."""
        return self.name == DENSITY

    def refuse_density(self, answer: str) -> None:
        """Raise if an answer has no distribution, which this scorer needs."""
        if self.density:
            raise NotSupportedError(
                f"{answer} scores predictions; scoring={self.name!r} needs their distribution. "
                "fit, held_out(...).score, score_interval and permutation_test have it; here, use "
                'a scorer such as "neg_mean_squared_error".',
                argument="scoring",
            )

    def score(
        self,
        y_true: AnyArray,
        predictions: FloatArray,
        weights: FloatArray,
        groups: AnyArray | None = None,
    ) -> float:
        """Return the score of the predictions of k rows; nan where undefined or infinite.

        Parameters
        ----------
        y_true : (k, v) ndarray or (k,) labels
            What was to be predicted.
        predictions : (k, v) ndarray
            Predictions, or decision values of a classifier: v = 1 for two classes (positive
            means ``classes[1]``), else one column for each class.
        weights : (k,) ndarray
            Row weights, not negative. Rows of weight zero are left out.
        groups : (k,) ndarray, optional
            Group of each row, for a scorer that takes them.

        Raises
        ------
        InvalidInputError
            If the scorer refuses the values, or all weights are zero.
        """
        keep = weights > 0
        if not keep.any():
            raise InvalidInputError(NO_WEIGHT, argument="sample_weight")
        weights = weights[keep]
        passed = None if (weights == weights[0]).all() else weights
        kept = None if groups is None else groups[keep]
        return self.call(y_true[keep], predictions[keep], passed, False, kept)

    def call(
        self,
        y: AnyArray,
        predictions: FloatArray,
        weights: FloatArray | None,
        undefined_is_nan: bool,
        groups: AnyArray | None = None,
        sigmoids: Callable[[], Sigmoids] | None = None,
    ) -> float:
        """Return the scorer's value for rows of positive weight, None meaning all alike.

        With `undefined_is_nan` a score that the scorer refuses (a ValueError: one class only, too
        few rows) is nan instead of an InvalidInputError. Probabilities are those of `sigmoids`, or
        of sigmoids that fit these rows.
        """
        if not np.isfinite(predictions).all():
            return math.nan
        estimator: BaseEstimator
        if self.classes is None:
            estimator = _IdentityRegressor()
            if y.shape[1] == 1:
                y, predictions = y[:, 0], predictions[:, 0]
        else:
            if sigmoids is None:
                sigmoids = partial(self.sigmoids, predictions, y, weights)
            estimator = _IdentityClassifier(self.classes, sigmoids)
        extra = {} if weights is None or not self.takes_weights else {"sample_weight": weights}
        if groups is not None and self.takes_groups:
            extra["groups"] = groups
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")  # nan says that a score is undefined
                value: Any = self.scorer(estimator, predictions, y, **extra)
        except (ValueError, AttributeError) as error:  # the latter: no predict_proba here
            if undefined_is_nan and isinstance(error, ValueError):
                return math.nan
            raise InvalidInputError(
                f"scoring={self.name!r} cannot score these held-out predictions: {error}",
                argument="scoring",
            ) from error
        if not isinstance(value, numbers.Real):  # numpy's scalars are
            raise InvalidInputError(
                f"scoring={self.name!r} must return one number, got {type(value).__name__}",
                argument="scoring",
            )
        return float(value) if math.isfinite(value) else math.nan


def resolve_scoring(scoring: Any, *, classes: AnyArray | None = None) -> Scoring:
    """Return the `Scoring` that a user's `scoring` argument means.

    Parameters
    ----------
    scoring : None, str or callable
        None means "neg_mean_squared_error" for regression and "neg_log_loss" for classification:
        of the probabilities that sigmoids make of held-out decisions. "log_density" scores the
        normal distribution of held-out targets (regression). Otherwise the name of a scikit-learn
        scorer, "pearson", "kendall_tau" or "concordance" (see `holdfast.scores.ranking`: within the
        groups of `fit`, averaged over them, all rows alike), a scorer made by
        ``sklearn.metrics.make_scorer``, or any ``scorer(estimator, X, y)`` (which may also take
        ``sample_weight`` and ``groups``) with greater meaning better. It is called with X being the
        held-out predictions, and should look at X only through the methods of `estimator`.
    classes : ndarray or None
        Sorted class labels, at least two; None for regression.

    Raises
    ------
    InvalidInputError
        If `scoring` is none of these.
    """
    if classes is not None and len(classes) < 2:
        raise InvalidInputError(
            f"scoring a classifier needs at least two classes, got {classes}", argument="y"
        )
    if scoring is None:
        scoring = "neg_mean_squared_error" if classes is None else "neg_log_loss"
    if isinstance(scoring, str) and scoring == DENSITY:
        if classes is not None:
            raise InvalidInputError(
                f"scoring={scoring!r} is for regression: the decision values of a classifier are "
                "not normally distributed. Use 'accuracy', 'roc_auc' or 'neg_log_loss'.",
                argument="scoring",
            )
        return Scoring(scoring, _needs_law, None, False, None)
    if isinstance(scoring, str):
        name, scorer = scoring, _named_scorer(scoring)
    elif callable(scoring):
        name, scorer = _describe(scoring), scoring
    else:
        raise InvalidInputError(
            "scoring must be None, the name of one scikit-learn scorer or one callable "
            f"scorer(estimator, X, y), got {scoring!r}",
            argument="scoring",
        )
    if _is_metric_function(scorer):
        raise InvalidInputError(
            f"scoring={name} is a metric and not a scorer: wrap it with "
            "sklearn.metrics.make_scorer (greater_is_better=False for a loss)",
            argument="scoring",
        )
    known = next((METRICS[metric] for metric in METRICS if is_scorer(scorer, metric)), None)
    if known is not None and (known.of == "values") != (classes is None):
        known = None  # a metric for the other kind of task: scikit-learn accepts or refuses it
    takes_groups = not hasattr(scorer, "_score_func") and _takes(scorer, "groups")
    weights = _takes(scorer, "sample_weight")
    return Scoring(name, scorer, classes, weights, known, takes_groups)


def _needs_law(estimator: Any, X: Any, y: Any) -> float:
    raise InvalidInputError(
        "log_density scores the predictive distribution, which predictions alone do not "
        "give. Use it as scoring of fit, or of held_out(...).score.",
        argument="scoring",
    )


def _named_scorer(name: str) -> Callable[..., float]:
    if name in RANKING:
        return GroupScorer(name)
    try:
        scorer: Callable[..., float] = metrics.get_scorer(name)
    except ValueError:
        known = [*metrics.get_scorer_names(), *RANKING]
        near = difflib.get_close_matches(name, known, n=4, cutoff=0.5)
        hint = f"did you mean {', '.join(repr(n) for n in near)}?" if near else ""
        raise InvalidInputError(
            f"scoring={name!r} is not the name of a scikit-learn scorer; "
            + (hint or "sklearn.metrics.get_scorer_names() lists them"),
            argument="scoring",
        ) from None
    return scorer


def _describe(scorer: Callable[..., float]) -> str:
    """Return a name without memory addresses, the same in every run."""
    if hasattr(scorer, "_score_func"):
        return repr(scorer)
    return str(getattr(scorer, "__qualname__", type(scorer).__qualname__))


def _is_metric_function(scorer: Callable[..., float]) -> bool:
    """Return whether this is metric(y_true, y_pred), which would be called with wrong arguments."""
    module = getattr(scorer, "__module__", None) or ""
    return inspect.isfunction(scorer) and module.startswith("sklearn.metrics.")


def _takes(scorer: Callable[..., float], argument: str) -> bool:
    # A scorer from make_scorer takes weights if its metric does, whatever its own signature says.
    function = getattr(scorer, "_score_func", scorer)
    try:
        return argument in inspect.signature(function).parameters
    except (TypeError, ValueError):  # builtins without a signature
        return False


@cache
def _sklearn_scorer(name: str) -> Callable[..., float]:
    scorer: Callable[..., float] = metrics.get_scorer(name)
    return scorer


def is_scorer(scorer: Callable[..., float], name: str) -> bool:
    """Return whether this is scikit-learn's scorer of that name, without other arguments."""
    twin, fields = _sklearn_scorer(name), ("_score_func", "_sign", "_kwargs", "_response_method")
    return type(scorer) is type(twin) and all(
        getattr(scorer, field, None) == getattr(twin, field, None) for field in fields
    )
