"""An estimator that looks its predictions up: what scikit-learn's own functions are run with.

Scoring, several metrics at once, errors, metadata and the choice between `predict` and
`decision_function` are left to scikit-learn. Its functions get row numbers instead of rows, and a
stand-in for the estimator. The `fit` of the stand-in learns which rows a split trains on, and so
which split it is; then it returns the held-out predictions that are already known (`Answers`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from itertools import cycle, islice
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone, is_classifier
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.multiclass import unique_labels

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.core.experiments import Experiments

__all__ = [
    "Answers",
    "Case",
    "KnownSplits",
    "LeaveOneOutSplits",
    "StandIn",
    "on_rows",
    "r2",
    "same_splits",
    "stand_in",
]

Split = tuple[IntArray, IntArray]


@dataclass(frozen=True, eq=False)
class Case:
    """What the user asked about: an estimator, its rows, how they are split.

    `fit_params` are what `fit` receives beside rows and targets, one value per row.
    """

    estimator: Any
    X: Any
    y: Any
    fit_params: Mapping[str, Any]
    cv: Any
    splits: Sequence[Split]

    def __len__(self) -> int:
        return int(self.X.shape[0]) if hasattr(self.X, "shape") else len(self.X)


@dataclass(frozen=True, eq=False)
class Answers:
    """Held-out predictions of some candidates in all splits.

    `values` are model values (test rows, v) of each candidate, laid end to end as
    `experiments.test` is; `flat` says whether predictions have one dimension.
    """

    case: Case
    experiments: Experiments
    values: Sequence[FloatArray]
    flat: bool
    classes: AnyArray | None
    candidates: Sequence[Mapping[str, Any]] = field(default=({},))

    @cached_property
    def _order(self) -> cycle[int]:
        """The splits in the order in which scikit-learn goes through them, again and again."""
        return cycle(range(len(self.case.splits)))

    def split_of(self, train: IntArray) -> int | None:
        """Return the split that trains on these rows: the next one, or one that comes later."""
        some = islice(self._order, len(self.case.splits))
        return next((j for j in some if np.array_equal(self.case.splits[j][0], train)), None)

    def lookup(self, candidate: int, split: int | None, rows: IntArray) -> FloatArray | None:
        """Return model values (k, v) of some rows, or None if one of them is not known."""
        if split is None:
            return None
        test, start = self.experiments.test[split], int(self.experiments.test.ptr[split])
        if np.array_equal(test, rows):
            return np.asarray(self.values[candidate][start : start + test.size])
        order = np.argsort(test, kind="stable")
        at = order[np.minimum(np.searchsorted(test, rows, sorter=order), test.size - 1)]
        if not np.array_equal(test[at], rows):
            return None
        return np.asarray(self.values[candidate][start + at])

    def refitted(self, candidate: int, train: IntArray) -> Any:
        """Return the estimator itself, fitted: for what a model is asked beside predictions."""
        case = self.case
        model = clone(case.estimator).set_params(**clone_values(self.candidates[candidate]))
        X, y = _safe_split(model, case.X, case.y, train)
        params = {name: _safe_indexing(value, train) for name, value in case.fit_params.items()}
        return model.fit(X, y, **params)


def clone_values(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters that no other estimator shares."""
    return {name: clone(value, safe=False) for name, value in params.items()}


class StandIn(BaseEstimator):  # type: ignore[misc]  # sklearn is untyped
    """Answers for the models of one candidate in all splits; its rows are row numbers."""

    def __init__(self, answers: Answers, candidate: int = 0) -> None:
        self.answers = answers
        self.candidate = candidate

    def __sklearn_clone__(self) -> Self:
        """Return another that answers from the same predictions."""
        return type(self)(self.answers, self.candidate)

    def set_params(self, **params: Any) -> Self:
        """Stand for another candidate; parameters of the estimator itself change nothing."""
        self.candidate = params.get("candidate", self.candidate)
        return self

    def fit(self, rows: IntArray, y: Any = None, **params: Any) -> Self:
        """Learn which rows are trained on."""
        self._train = rows[:, 0]
        self._split = self.answers.split_of(self._train)
        return self

    def predict(self, rows: IntArray) -> AnyArray:
        """Return predictions of rows."""
        return self._response("predict", rows)

    def _response(self, method: str, rows: IntArray) -> AnyArray:
        values = self.answers.lookup(self.candidate, self._split, rows[:, 0])
        if values is None:
            case = self.answers.case
            X, _ = _safe_split(case.estimator, case.X, None, rows[:, 0], self._train)
            return np.asarray(getattr(self.refitted(), method)(X))
        return self._shown(method, values)

    def _shown(self, method: str, values: FloatArray) -> AnyArray:
        return values[:, 0] if self.answers.flat else values

    def refitted(self) -> Any:
        """Return the estimator itself, fitted to the rows of the split."""
        return self.answers.refitted(self.candidate, self._train)

    def get_metadata_routing(self) -> Any:
        """Return what the estimator asks for."""
        return get_routing_for_object(self.answers.case.estimator)

    def _get_metadata_request(self) -> Any:
        return self.answers.case.estimator._get_metadata_request()

    def __sklearn_tags__(self) -> Any:
        """Return the estimator's tags; rows are numbers, not a kernel matrix."""
        tags = get_tags(self.answers.case.estimator)
        tags.input_tags.pairwise = False
        return tags


def r2(truth: FloatArray, values: FloatArray) -> FloatArray:
    """Return R² of each column, for two rows or more."""
    rest = np.square(truth - values).sum(axis=0)
    spread = np.square(truth - truth.mean(axis=0)).sum(axis=0)
    # As `r2_score`: constant targets are predicted perfectly, or not at all.
    flat = spread == 0.0
    score = 1.0 - rest / np.where(flat, 1.0, spread)
    return np.where(flat, np.where(rest == 0.0, 1.0, 0.0), score)


class _Regressor(RegressorMixin, StandIn):  # type: ignore[misc]  # sklearn is untyped
    """Knows R² of one target without scikit-learn's checks, which take most of the time."""

    def score(self, rows: IntArray, y: Any, sample_weight: Any = None) -> float:
        """Return R² of predictions."""
        values = self.predict(rows)
        plain = isinstance(y, np.ndarray) and y.dtype == np.float64 and y.shape == values.shape
        if not plain or y.ndim != 1 or y.size < 2 or sample_weight is not None:
            return float(super().score(rows, y, sample_weight))
        return float(r2(y, values))


class _Classifier(ClassifierMixin, StandIn):  # type: ignore[misc]  # sklearn is untyped
    """Knows the classes of the rows of its split."""

    def fit(self, rows: IntArray, y: Any = None, **params: Any) -> Self:
        super().fit(rows, y, **params)
        self.classes_ = unique_labels(y)
        return self

    def decision_function(self, rows: IntArray) -> AnyArray:
        """Return model values of rows."""
        return self._response("decision_function", rows)

    def _shown(self, method: str, values: FloatArray) -> AnyArray:
        """Return decisions or labels from one model value per class, one in all for two."""
        labels = self.answers.classes
        assert labels is not None
        if labels.size > 2:
            own = np.asarray(_safe_indexing(self.answers.case.y, self._train))
            values = values[:, np.isin(labels, np.unique(own))]
            if values.shape[1] == 2:  # the second against the first
                values = values[:, 1:]
        decision = values[:, 0] if values.shape[1] == 1 else values
        if method == "decision_function":
            return decision
        chosen = (decision > 0).astype(int) if decision.ndim == 1 else decision.argmax(axis=1)
        return np.asarray(self.classes_[chosen])


def stand_in(answers: Answers) -> StandIn:
    """Return the stand-in for an estimator, a regressor or a classifier as it is."""
    return (_Classifier if is_classifier(answers.case.estimator) else _Regressor)(answers)


class KnownSplits:
    """A splitter that gives the splits of another, which were made once."""

    def __init__(self, cv: Any, splits: Sequence[Split]) -> None:
        self.cv, self.splits = cv, splits

    def split(self, X: Any = None, y: Any = None, groups: Any = None, **params: Any) -> Any:
        """Yield (train, test)."""
        return iter(self.splits)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, **params: Any) -> int:
        """Return how many there are."""
        return len(self.splits)

    def get_metadata_routing(self) -> Any:
        """Return what the other asks for."""
        return get_routing_for_object(self.cv)


def same_splits(case: Case | None, cv: Any) -> Any:
    """Return a splitter that splits as was split already: an iterator or a draw happens once."""
    return cv if case is None else KnownSplits(case.cv, case.splits)


class LeaveOneOutSplits(Sequence[Split]):
    """Every row alone, made one at a time: training rows of all would be m² numbers."""

    def __init__(self, m: int) -> None:
        self._rows = np.arange(m)

    def __len__(self) -> int:
        return int(self._rows.size)

    def __getitem__(self, j: Any) -> Any:
        """Return (train, test) of one split."""
        if not -len(self) <= j < len(self):
            raise IndexError(j)
        return np.delete(self._rows, j), self._rows[[j]]


# -- scorers that are functions --------------------------------------------------------------------


class _Fitted:
    """A fitted estimator for a function that scores the rows X, which have numbers.

    Their predictions are known; for anything else it is refitted.
    """

    def __init__(self, stand_in: StandIn, X: Any, rows: IntArray) -> None:
        self._stand_in, self._X, self._rows = stand_in, X, rows

    def predict(self, X: Any) -> Any:
        """Return predictions of rows, without a refit for those that are scored."""
        if X is self._X:
            return self._stand_in.predict(self._rows)
        return self._model.predict(X)

    @cached_property
    def _model(self) -> Any:
        return self._stand_in.refitted()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._model, name)


def _on_rows(scorer: Callable[..., Any], case: Case) -> Callable[..., Any]:
    """Return a user's function of (estimator, X, y) for a stand-in and row numbers."""

    @wraps(scorer)
    def scored(model: StandIn, rows: IntArray, y: Any = None, **params: Any) -> Any:
        X, _ = _safe_split(case.estimator, case.X, None, rows[:, 0], model._train)
        arguments = (_Fitted(model, X, rows), X) if y is None else (_Fitted(model, X, rows), X, y)
        return scorer(*arguments, **params)

    if hasattr(scorer, "get_metadata_routing"):
        scored.get_metadata_routing = scorer.get_metadata_routing  # type: ignore[attr-defined]
    return scored


def on_rows(scoring: Any, case: Case) -> Any:
    """Return `scoring` for stand-ins: functions of a user get the rows themselves."""
    if isinstance(scoring, Mapping):
        return {name: on_rows(scorer, case) for name, scorer in scoring.items()}
    own = callable(scoring) and not hasattr(scoring, "_score_func")
    if own and not str(getattr(scoring, "__module__", "")).startswith("sklearn.metrics"):
        return _on_rows(scoring, case)
    return scoring
