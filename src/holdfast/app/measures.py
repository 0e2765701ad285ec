"""Scores: the one that the answer is about, what no columns would have, and probabilities."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.app.columns import Task
from holdfast.app.holding import Holding
from holdfast.app.words import BadOption, percent
from holdfast.displays.words import number

__all__ = ["Measure", "last_value", "loss_of", "naive_predictions", "probabilities"]

Array = NDArray[Any]

_NAMES = {
    "neg_mean_squared_error": "mean squared error",
    "neg_mean_absolute_error": "mean absolute error",
    "neg_median_absolute_error": "median absolute error",
    "neg_root_mean_squared_error": "RMSE",
    "neg_log_loss": "log loss",
    "neg_brier_score": "Brier score",
    "r2": "R²",
    "roc_auc": "AUC",
    "roc_auc_ovr": "AUC (one class against the rest)",
    "kendall_tau": "Kendall's τ",
    "explained_variance": "explained variance",
}
#: Scores of how rows are ranked, which are not scikit-learn's, and what guessing has.
_RANKS = {"kendall_tau": 0.0, "concordance": 0.5}
_SHARES = ("accuracy", "balanced_accuracy", "precision", "recall")


@dataclass(frozen=True)
class Measure:
    """The score that the answer is about."""

    scoring: str | None  #: As it was asked for; None: RMSE, or the log loss of probabilities
    classify: bool

    @property
    def name(self) -> str:
        """What it is called."""
        if self.scoring is None:
            return "log loss" if self.classify else "RMSE"
        plain = self.scoring.removeprefix("neg_").replace("_", " ")
        return _NAMES.get(self.scoring, plain)

    @property
    def higher_is_better(self) -> bool:
        """Whether it is a score, not an error."""
        return self.scoring is not None and not self.scoring.startswith("neg_")

    def check(self) -> None:
        """Refuse a score that is not there."""
        if self.scoring in (None, *_RANKS):
            return
        from sklearn.metrics import get_scorer_names

        names = get_scorer_names()
        if self.scoring not in names:
            near = difflib.get_close_matches(str(self.scoring), names, 3, 0.4)
            meant = f" Did you mean {', '.join(near)}?" if near else ""
            raise BadOption(f"--scoring: there is no score {self.scoring!r}.{meant}")

    def shown(self, value: float) -> str:
        """Return a value as it is written."""
        if self.scoring in _SHARES:
            return percent(value)
        if self.scoring in ("roc_auc", "r2", "kendall_tau", "concordance"):
            return f"{value:.3f}"
        return number(value)

    def value(self, task: Task, holding: Holding, model: Any, held: Any) -> float:
        """Return the value for held-out predictions."""
        if self.scoring is not None:
            score = float(np.ravel(model.best_score_)[0])
            return score if self.higher_is_better else -score
        truth, w = task.y[held.rows], _weights_of(task, held.rows)
        if not self.classify:
            return float(np.sqrt(np.average((truth - held.values[0, :, 0]) ** 2, weights=w)))
        P, classes = probabilities(task, holding, held)
        return log_loss(truth, P, classes, w)

    def baseline(self, task: Task, holding: Holding, held: Any) -> float | None:
        """Return the value of predictions that use no column; None if that has no meaning."""
        if self.scoring is None:
            truth, w = task.y[held.rows], _weights_of(task, held.rows)
            naive = naive_predictions(task, holding, held)
            if not self.classify:
                return float(np.sqrt(np.average((truth - naive) ** 2, weights=w)))
            return log_loss(truth, naive, np.unique(task.y), w)
        from sklearn.dummy import DummyClassifier, DummyRegressor
        from sklearn.metrics import get_scorer

        if self.scoring in _RANKS:
            return _RANKS[self.scoring]
        try:
            scorer = get_scorer(self.scoring)
            dummy = DummyClassifier(strategy="prior") if self.classify else DummyRegressor()
            blank = np.zeros((len(task.y), 1))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                score = float(scorer(dummy.fit(blank, task.y), blank, task.y))
        except (ValueError, TypeError):
            return None
        return score if self.higher_is_better else -score


def _weights_of(task: Task, rows: Array) -> Array | None:
    return None if task.weights is None else task.weights[rows]


def log_loss(labels: Array, P: Array, classes: Array, weights: Array | None = None) -> float:
    """Return the mean of −log of the probability that the right class was given."""
    found = P[np.arange(len(labels)), np.searchsorted(classes, labels)]
    return float(np.average(-np.log(np.clip(found, 1e-12, 1.0)), weights=weights))


def naive_predictions(task: Task, holding: Holding, held: Any) -> Array:
    """Return predictions of the training rows' mean, or of their shares of classes."""
    rows, experiment = held.rows, held.experiments.test.owners
    m = len(task.y)
    w = np.ones(m) if task.weights is None else task.weights
    classes = np.unique(task.y) if task.classify else None
    Y = task.y[:, None] if classes is None else (task.y[:, None] == classes).astype(float)
    Y = Y.astype(float)
    if holding.kind == "time":
        assert holding.times is not None
        made = np.empty((len(rows), Y.shape[1]))
        for e in np.unique(experiment):
            here = experiment == e
            before = holding.times < holding.times[rows[here]].min()
            made[here] = np.average(Y[before], axis=0, weights=w[before])
    else:
        n = int(experiment.max()) + 1
        inside = np.column_stack(
            [np.bincount(experiment, w[rows] * Y[rows, j], n) for j in range(Y.shape[1])]
        )
        weight = w.sum() - np.bincount(experiment, w[rows], n)
        outside = (w @ Y)[None] - inside
        made = (outside / np.maximum(weight, 1e-300)[:, None])[experiment]
    return made[:, 0] if classes is None else made


def last_value(task: Task, holding: Holding, held: Any) -> Array:
    """Return, for every tested row, the target of the row just before the training rows end."""
    assert holding.times is not None
    order = np.argsort(holding.times, kind="stable")
    made = np.empty(len(held.rows))
    owners = held.experiments.test.owners
    for e in np.unique(owners):
        here = owners == e
        before = order[holding.times[order] < holding.times[held.rows[here]].min()]
        made[here] = task.y[before[-1]]
    return made


def probabilities(task: Task, holding: Holding, held: Any) -> tuple[Array, Array]:
    """Return probabilities of the classes for the tested rows, and the classes.

    A sigmoid per class on held-out decisions, learned without the rows that it is applied to.
    """
    from sklearn.model_selection import GroupKFold, StratifiedKFold

    classes, labels = np.unique(task.y), task.y[held.rows]
    decisions = held.values[0]
    if holding.groups is not None:
        groups = holding.groups[held.rows]
        k = min(5, len(np.unique(groups)))
        splits = list(GroupKFold(k).split(decisions, labels, groups)) if k > 1 else []
    else:
        least = int(np.unique(labels, return_counts=True)[1].min())
        folds = StratifiedKFold(max(2, min(5, least)), shuffle=True, random_state=0)
        splits = list(folds.split(decisions, labels)) if least > 1 else []
    everything = np.arange(len(labels))
    P = np.empty((len(labels), decisions.shape[1]))
    for train, test in splits or [(everything, everything)]:
        for j in range(decisions.shape[1]):
            positive = labels[train] == (classes[1] if len(classes) == 2 else classes[j])
            P[test, j] = _sigmoid(decisions[train, j], positive, decisions[test, j])
    if len(classes) == 2:
        return np.column_stack([1 - P[:, 0], P[:, 0]]), classes
    total = P.sum(axis=1, keepdims=True)
    return np.where(total > 0, P / np.where(total > 0, total, 1.0), 1 / len(classes)), classes


def _sigmoid(decisions: Array, positive: Array, new: Array) -> Array:
    """Return the probability that a decision value means: a sigmoid that never falls."""
    from sklearn.linear_model import LogisticRegression

    share = (positive.sum() + 1) / (len(positive) + 2)
    scale = float(np.std(decisions)) or 1.0
    if positive.all() or not positive.any():
        return np.full(len(new), share)
    fitted = LogisticRegression(C=100.0).fit(decisions[:, None] / scale, positive)
    if fitted.coef_[0, 0] <= 0:
        return np.full(len(new), share)
    return np.asarray(fitted.predict_proba(new[:, None] / scale)[:, 1])


def loss_of(task: Task, truth: Array) -> Callable[[Array], float]:
    """Return the error of decisions: RMSE, or the share of wrong pairs, or of wrong rows."""
    if not task.classify:
        return lambda values: float(np.sqrt(np.mean((truth - np.ravel(values)) ** 2)))
    classes = np.unique(task.y)
    if len(classes) == 2:
        from sklearn.metrics import roc_auc_score

        if len(np.unique(truth)) < 2:
            return lambda values: float("nan")
        return lambda values: 1 - float(roc_auc_score(truth == classes[1], np.ravel(values)))
    return lambda values: float(np.mean(classes[np.argmax(values, axis=1)] != truth))
