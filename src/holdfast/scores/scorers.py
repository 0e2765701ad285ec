"""Scorers: what a user's `scoring` means, and the call of any scikit-learn scorer.

A scorer needs an estimator and data, but held-out predictions are already made. Scorers are
therefore called on an identity estimator, whose "data" are the predictions themselves. The common
metrics have a faster way to the same numbers (`holdfast.scores.metric`).
"""

from __future__ import annotations

import difflib
import inspect
import math
import numbers
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from sklearn import metrics
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from holdfast._typing import AnyArray, FloatArray
from holdfast.exceptions import InvalidInputError
from holdfast.scores.metric import KNOWN, Metric
from holdfast.scores.probabilities import Sigmoids, decision_to_label_index
from holdfast.scores.ranking import RANKING, GroupScorer

__all__ = ["call_scorer", "resolve_scoring"]


def resolve_scoring(scoring: Any, *, classes: AnyArray | None = None) -> Metric:
    """Return the metric that a user's `scoring` argument means.

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
    known = KNOWN.get(scoring) if isinstance(scoring, str) else _same_as(scoring)
    if known is not None and known.of == "densities" and classes is not None:
        raise InvalidInputError(
            f"scoring={scoring!r} is for regression: the decision values of a classifier are "
            "not normally distributed. Use 'accuracy', 'roc_auc' or 'neg_log_loss'.",
            argument="scoring",
        )
    # A metric for the other kind of task: scikit-learn accepts or refuses it.
    if known is None or (known.of in ("values", "densities")) != (classes is None):
        return _called_metric(scoring, classes)
    if known.form == "area" and classes is not None and len(classes) > 2:
        return _called_metric(scoring, classes)
    name = scoring if isinstance(scoring, str) else _describe(scoring)
    return replace(known, name=name, classes=classes)


def _called_metric(scoring: Any, classes: AnyArray | None) -> Metric:
    """Return the metric of a scorer that has to be called."""
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
    module = getattr(scorer, "__module__", None) or ""
    if inspect.isfunction(scorer) and module.startswith("sklearn.metrics."):
        raise InvalidInputError(
            f"scoring={name} is a metric and not a scorer: wrap it with "
            "sklearn.metrics.make_scorer (greater_is_better=False for a loss)",
            argument="scoring",
        )
    # A scorer from make_scorer takes weights if its metric does, whatever its own signature says.
    function = getattr(scorer, "_score_func", scorer)
    try:
        taken = set(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # builtins without a signature
        taken = set()
    return Metric(
        name,
        classes=classes,
        scorer=scorer,
        takes_weights="sample_weight" in taken,
        takes_groups="groups" in taken and function is scorer,
    )


def _named_scorer(name: str) -> Callable[..., float]:
    if name in RANKING:
        return GroupScorer(name)
    try:
        return _sklearn_scorer(name)
    except ValueError:
        known = [*metrics.get_scorer_names(), *RANKING]
        near = difflib.get_close_matches(name, known, n=4, cutoff=0.5)
        hint = f"did you mean {', '.join(repr(n) for n in near)}?" if near else ""
        raise InvalidInputError(
            f"scoring={name!r} is not the name of a scikit-learn scorer; "
            + (hint or "sklearn.metrics.get_scorer_names() lists them"),
            argument="scoring",
        ) from None


@cache
def _sklearn_scorer(name: str) -> Callable[..., float]:
    scorer: Callable[..., float] = metrics.get_scorer(name)
    return scorer


def _same_as(scorer: Any) -> Metric | None:
    """Return the known metric whose scikit-learn scorer this is, without other arguments."""
    fields = ("_score_func", "_sign", "_kwargs", "_response_method")
    if not hasattr(scorer, "_score_func"):
        return None
    for metric in KNOWN.values():
        if metric.density:
            continue
        twin = _sklearn_scorer(metric.name)
        if type(scorer) is type(twin) and all(
            getattr(scorer, field, None) == getattr(twin, field, None) for field in fields
        ):
            return metric
    return None


def _describe(scorer: Callable[..., float]) -> str:
    """Return a name without memory addresses, the same in every run."""
    if hasattr(scorer, "_score_func"):
        return repr(scorer)
    return str(getattr(scorer, "__qualname__", type(scorer).__qualname__))


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


def call_scorer(
    metric: Metric,
    y: AnyArray,
    predictions: FloatArray,
    weights: FloatArray | None,
    groups: AnyArray | None,
    sigmoids: Callable[[], Sigmoids],
    *,
    strict: bool,
) -> float:
    """Return the scorer's value for rows of positive weight; nan where undefined or infinite.

    Of targets (k, v), or labels (k,) and decision values (k, v): one column for two classes
    (positive means the second), else one for each class, of which `sigmoids` make probabilities.
    Weights of None are all alike. If it is `strict`, a score that the scorer refuses (a ValueError:
    one class only, too few rows) is an InvalidInputError; else it is nan.
    """
    if not np.isfinite(predictions).all():
        return math.nan
    estimator: BaseEstimator
    if metric.classes is None:
        estimator = _IdentityRegressor()
        if y.shape[1] == 1:
            y, predictions = y[:, 0], predictions[:, 0]
    else:
        estimator = _IdentityClassifier(metric.classes, sigmoids)
    extra = {} if weights is None or not metric.takes_weights else {"sample_weight": weights}
    if groups is not None and metric.takes_groups:
        extra["groups"] = groups
    assert metric.scorer is not None
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # nan says that a score is undefined
            value: Any = metric.scorer(estimator, predictions, y, **extra)
    except (ValueError, AttributeError) as error:  # the latter: no predict_proba here
        if not strict and isinstance(error, ValueError):
            return math.nan
        raise InvalidInputError(
            f"scoring={metric.name!r} cannot score these held-out predictions: {error}",
            argument="scoring",
        ) from error
    if not isinstance(value, numbers.Real):  # numpy's scalars are
        raise InvalidInputError(
            f"scoring={metric.name!r} must return one number, got {type(value).__name__}",
            argument="scoring",
        )
    return float(value) if math.isfinite(value) else math.nan
