"""The steps before a model: which of them learn nothing, and rows after these.

A transformer that learns nothing from the rows gives a row the same values whatever rows are
trained on, so it is applied once, to all rows. That is decided by a list of scikit-learn's classes
and by the tag ``requires_fit``, and checked: some rows alone must be transformed as they are among
the others (a function may centre its input).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)
from sklearn.utils import _safe_indexing, check_array, get_tags
from sklearn.utils.metadata_routing import get_routing_for_object

from holdfast._typing import FloatArray
from holdfast.kernels import Linear
from holdfast.model_selection.recognise import Form, Refit, row_weights

__all__ = [
    "Parts",
    "Weights",
    "parts_of",
    "standardised",
    "transformed",
    "transformed_targets",
    "weights_of",
]

#: Transformers whose `fit` learns no more than the number of columns.
STATELESS = (PolynomialFeatures, AdditiveChi2Sampler)
#: Rows that are transformed alone, to see whether that changes them.
LOOKED_AT = 64


@dataclass(frozen=True)
class Parts:
    """A model, a scaler directly before it, and transformers before these that learn nothing.

    The scaler is learned inside each experiment. Names are those of the steps, or empty. `target`
    says what is done to the targets, if anything is.
    """

    before: tuple[Any, ...]
    scaler: StandardScaler | None
    model: BaseEstimator
    scaler_name: str = ""
    model_name: str = ""
    target: TransformedTargetRegressor | None = None


def parts_of(estimator: Any) -> Parts:
    """Return an estimator, or a pipeline of several steps, by its parts."""
    if type(estimator) is TransformedTargetRegressor:
        return replace(parts_of(_inner_regressor(estimator)), target=estimator)
    if type(estimator) is not Pipeline:
        return Parts((), None, estimator)
    try:
        estimator._validate_names([name for name, _ in estimator.steps])
    except (TypeError, ValueError) as error:
        raise Refit from error
    steps = [(n, s) for n, s in estimator.steps[:-1] if s is not None and s != "passthrough"]
    name, last = estimator.steps[-1]
    if (
        type(last) in (Pipeline, TransformedTargetRegressor)
        or last is None
        or isinstance(last, str)
    ):
        raise Refit("the last step of the Pipeline is not a model")
    scaler, scaler_name = None, ""
    if steps and type(steps[-1][1]) is StandardScaler:
        scaler_name, scaler = steps.pop()
    for _, step in steps:
        _require_stateless(step)
    return Parts(tuple(step for _, step in steps), scaler, last, scaler_name, name)


def _inner_regressor(estimator: TransformedTargetRegressor) -> Any:
    if estimator.transformer is not None:
        _require_stateless(estimator.transformer)
    return LinearRegression() if estimator.regressor is None else estimator.regressor


def transformed_targets(
    target: TransformedTargetRegressor, y: Any
) -> tuple[Any, Callable[[FloatArray], FloatArray]]:
    """Return targets as the regressor inside gets them, and the way back for its predictions."""
    try:
        Y = check_array(y, input_name="y", ensure_2d=False, dtype="numeric")
        columns = Y.reshape(len(Y), -1)
        made = clone(target).set_params(regressor=DummyRegressor()).fit(columns[:, :1], Y)
        change = made.transformer_
        found = np.asarray(change.transform(columns))
        few = max(1, min(len(Y) // 2, LOOKED_AT))
        alone = np.asarray(change.transform(columns[:few]))
    except Exception as error:  # whatever it is, scikit-learn says it better
        raise Refit from error
    if found.shape != columns.shape or not np.allclose(
        alone, found[:few], rtol=1e-9, atol=0, equal_nan=True
    ):
        raise Refit("TransformedTargetRegressor changes a target by the others")

    def inverse(values: FloatArray) -> FloatArray:
        return np.asarray(change.inverse_transform(values), dtype=float)

    return found[:, 0] if Y.ndim == 1 else found, inverse


def _require_stateless(step: Any) -> None:
    """Refuse a transformer that learns from the rows, by its name."""
    inner = _inside(step)
    if inner is not None:
        for part in inner:
            _require_stateless(part)
        return
    if isinstance(step, str):  # "drop", "passthrough"
        return
    if type(step) in STATELESS or _is_given(step):
        return
    try:
        learns = get_tags(step).requires_fit
    except Exception as error:  # not an estimator
        raise Refit from error
    if learns:
        raise Refit(f"{type(step).__name__} learns from the rows of each fold")


def _is_given(step: Any) -> bool:
    """Whether a transformer that may learn is told everything, or is fitted and frozen."""
    if type(step) is OneHotEncoder:
        rare = step.min_frequency is not None or step.max_categories is not None
        drops = step.drop is not None and isinstance(step.drop, str) and step.drop != "first"
        return not (isinstance(step.categories, str) or rare or drops)
    if type(step) is SplineTransformer:
        return not isinstance(step.knots, str)
    return type(step) is FrozenEstimator


def _inside(step: Any) -> Iterator[Any] | None:
    """Return the transformers that a composed one consists of, or None."""
    if type(step) is Pipeline:
        return iter([part for _, part in step.steps if part is not None])
    if type(step) is FeatureUnion:
        return iter([part for _, part in step.transformer_list])
    if type(step) is ColumnTransformer:
        return iter([*(part for _, part, _ in step.transformers), step.remainder])
    return None


def transformed(before: tuple[Any, ...], X: Any, y: Any) -> Any:
    """Return rows after transformers that learn nothing."""
    try:
        whole, some, index = X, X, None
        for step in before:
            own = clone(step)
            with config_context(transform_output="default"):
                whole = own.fit(whole, y).transform(whole)
                if index is None:
                    m = whole.shape[0]
                    some_rows = np.linspace(0, m - 1, max(1, min(m // 2, LOOKED_AT)))
                    index = np.unique(some_rows.astype(int))
                    some = _safe_indexing(X, index)
                some = own.transform(some)
        same = np.allclose(_dense(some), _dense(whole[index]), rtol=1e-9, atol=0, equal_nan=True)
    except Exception as error:  # whatever it is, scikit-learn says it better
        raise Refit from error
    if not same:
        name = " and ".join(type(step).__name__ for step in before)
        raise Refit(f"{name} gives a row values that depend on the other rows")
    return whole


def _dense(rows: Any) -> Any:
    return rows.toarray() if sp.issparse(rows) else np.asarray(rows)


@dataclass(frozen=True)
class Weights:
    """Row weights, or None, of the model and of the scaler before it."""

    model: Any = None
    scaler: Any = None


def weights_of(parts: Parts, params: Mapping[str, Any], *, routed: bool) -> Weights:
    """Return the row weights that `fit` of a model and of its scaler receive.

    From what the user passes on to `fit`, with scikit-learn's names or, if routed, by request.
    """
    if routed:
        steps = [parts.model, parts.scaler, *parts.before]
        found = [_requested(step, params) for step in steps]
        return Weights(found[0], found[1])
    given = {name: value for name, value in params.items() if value is not None}
    named = [f"{name}__sample_weight" for name in (parts.model_name, parts.scaler_name) if name]
    if not parts.model_name:
        named = ["sample_weight"]
    if others := sorted(given.keys() - set(named)):
        # Without a pipeline scikit-learn raises an error.
        raise Refit(f"steps are fitted with {', '.join(others)}" if parts.model_name else "")
    values = [given.get(name) for name in named]
    return Weights(values[0], values[1] if len(values) > 1 else None)


def _requested(step: Any, params: Mapping[str, Any]) -> Any:
    """Return the weights that a step has asked for, under metadata routing."""
    if step is None or _inside(step) is not None:
        return None
    found = None
    for method in ("fit", "transform", "fit_transform"):
        requests = getattr(get_routing_for_object(step), method).requests
        for name, asked in requests.items():
            key = name if asked is True else asked
            value = params.get(key) if isinstance(key, str) else None
            if value is None:
                continue
            if name != "sample_weight" or method == "transform":
                raise Refit(f"{type(step).__name__} is fitted with {name}")
            found = value
    return found


def standardised(form: Form, scaler: StandardScaler, weights: Weights) -> Form:
    """Return the smoother behind a `StandardScaler` that is learned inside each experiment.

    A bias takes up the means. Without one the model of y on centred columns is that with a bias,
    less the mean of y.
    """
    if form.kernel is not None and not isinstance(form.kernel, Linear):
        raise Refit("StandardScaler changes every value of the kernel inside each fold")
    m, d = form.rows.shape
    if sp.issparse(form.rows) and scaler.with_mean:
        raise Refit  # scikit-learn refuses to centre them
    if d >= m:
        raise Refit(f"StandardScaler stands before {d} columns and there are {m} rows, not more")
    own = weights.scaler is not weights.model
    unit_weights = row_weights(weights.scaler, m)
    if own and form.weights.min() == 0.0:
        raise Refit("rows of weight zero count for StandardScaler and not for the model")
    less_mean = not form.bias and scaler.with_mean
    if less_mean and (own or form.kernel is None):
        raise Refit("columns are centred by StandardScaler and the model has no intercept")
    form = replace(form, bias=form.bias or less_mean, less_mean=less_mean)
    return replace(form, unit_weights=unit_weights if scaler.with_std else None)
