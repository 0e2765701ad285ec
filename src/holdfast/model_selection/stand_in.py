"""An estimator that looks its predictions up: what scikit-learn's own functions are run with.

Scoring, several metrics at once, errors, metadata and the choice between `predict` and
`decision_function` are left to scikit-learn. Its functions get row numbers instead of rows, and a
stand-in for the estimator. The `fit` of the stand-in learns which rows a split trains on, and so
which split it is; then it returns the held-out predictions that are already known (`Answers`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from itertools import cycle, islice
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone, is_classifier
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.multiclass import unique_labels

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.core.experiments import Experiments
from holdfast.model_selection.problem import Problem
from holdfast.model_selection.question import Question, number_of_rows


@dataclass(frozen=True, eq=False)
class Answers:
    """Held-out predictions of some candidates in all splits.

    Attributes
    ----------
    question : Question
    problem : Problem
        The smoother, or one of them.
    experiments : Experiments
        The splits, with the rows whose predictions are known.
    values : sequence of ndarray of shape (test rows, v)
        Model values of each candidate, laid end to end as `experiments.test` is.
    candidates : sequence of dict
        In which parameters each differs from the estimator.
    """

    question: Question
    problem: Problem
    experiments: Experiments
    values: Sequence[FloatArray]
    candidates: Sequence[Mapping[str, Any]] = ({},)

    @cached_property
    def _order(self) -> cycle[int]:
        """The splits in the order in which scikit-learn goes through them, again and again."""
        return cycle(range(len(self.question.splits)))

    def split_of(self, train: IntArray) -> int | None:
        """Return the split that trains on these rows: the next one, or one that comes later."""
        some = islice(self._order, len(self.question.splits))
        return next((j for j in some if np.array_equal(self.question.splits[j][0], train)), None)

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

    def of_all_rows(self) -> FloatArray | None:
        """Return predictions in the order of the rows; None if a row is not tested just once."""
        test, values = self.experiments.test.values, self.values[0]
        if not np.array_equal(np.sort(test), np.arange(number_of_rows(self.question.X))):
            return None
        ordered = np.empty_like(values)
        ordered[test] = values
        return ordered[:, 0] if self.problem.flat else ordered

    def refitted(self, candidate: int, train: IntArray) -> Any:
        """Return the estimator itself, fitted: for what a model is asked beside predictions."""
        own = {name: clone(v, safe=False) for name, v in self.candidates[candidate].items()}
        model = clone(self.question.estimator).set_params(**own)
        X, y = _safe_split(model, self.question.X, self.question.y, train)
        given = self.question.params.items()
        params = {name: _safe_indexing(v, train) for name, v in given if v is not None}
        return model.fit(X, y, **params)

    def rows(self, rows: IntArray, train: IntArray) -> Any:
        """Return the rows themselves; of a kernel matrix the columns that are trained on."""
        return _safe_split(self.question.estimator, self.question.X, None, rows, train)[0]

    def stand_in(self) -> StandIn:
        """Return the stand-in for the estimator, a regressor or a classifier as it is."""
        return (_Classifier if is_classifier(self.question.estimator) else _Regressor)(self)


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
        return self._response("predict", rows[:, 0])

    def _response(self, method: str, rows: IntArray) -> AnyArray:
        values = self.answers.lookup(self.candidate, self._split, rows)
        if values is None:
            X = self.answers.rows(rows, self._train)
            return np.asarray(getattr(self.refitted(), method)(X))
        return self._shown(method, values)

    def _shown(self, method: str, values: FloatArray) -> AnyArray:
        return values[:, 0] if self.answers.problem.flat else values

    def refitted(self) -> Any:
        """Return the estimator itself, fitted to the rows of the split."""
        return self.answers.refitted(self.candidate, self._train)

    def __sklearn_tags__(self) -> Any:
        """Return the estimator's tags; rows are numbers, not a kernel matrix."""
        tags = get_tags(self.answers.question.estimator)
        tags.input_tags.pairwise = False
        return tags


def r2(truth: FloatArray, values: FloatArray) -> FloatArray:
    """Return R² of each column, for two rows or more."""
    rest = np.square(truth - values).sum(axis=0)
    variation = np.square(truth - truth.mean(axis=0)).sum(axis=0)
    # As `r2_score`: constant targets are predicted perfectly, or not at all.
    flat = variation == 0.0
    score = 1.0 - rest / np.where(flat, 1.0, variation)
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
        return self._response("decision_function", rows[:, 0])

    def _shown(self, method: str, values: FloatArray) -> AnyArray:
        """Return decisions or labels from one model value per class, one in all for two."""
        labels = self.answers.problem.classes
        assert labels is not None
        if labels.size > 2:
            own = np.asarray(_safe_indexing(self.answers.question.y, self._train))
            values = values[:, np.isin(labels, np.unique(own))]
            if values.shape[1] == 2:  # the second against the first
                values = values[:, 1:]
        decision = values[:, 0] if values.shape[1] == 1 else values
        if method == "decision_function":
            return decision
        chosen = (decision > 0).astype(int) if decision.ndim == 1 else decision.argmax(axis=1)
        return np.asarray(self.classes_[chosen])


# -- scorers that are functions --------------------------------------------------------------------


class _Fitted:
    """A fitted estimator for a user's function, which scores the rows X.

    Their predictions are known; for anything else it is refitted.
    """

    def __init__(self, model: StandIn, X: Any, rows: IntArray) -> None:
        self._stand_in, self._X, self._rows = model, X, rows

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


def on_rows(scoring: Any) -> Any:
    """Return `scoring` for stand-ins: a user's function of (estimator, X, y) gets the rows."""
    if isinstance(scoring, Mapping):
        return {name: on_rows(scorer) for name, scorer in scoring.items()}
    made = hasattr(scoring, "_score_func") or not callable(scoring)
    if made or str(getattr(scoring, "__module__", "")).startswith("sklearn.metrics"):
        return scoring

    @wraps(scoring)
    def scored(model: StandIn, rows: IntArray, *y: Any, **params: Any) -> Any:
        X = model.answers.rows(rows[:, 0], model._train)
        return scoring(_Fitted(model, X, rows), X, *y, **params)

    return scored
