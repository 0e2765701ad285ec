"""The one parser: from an estimator of scikit-learn to the linear smoother that it describes.

`Ridge`, `RidgeClassifier`, `LinearRegression`, `KernelRidge` and `GaussianProcessRegressor` predict
ŷ = S y: a kernel or the columns of X, a penalty, a bias or none. `describe` reads these from an
estimator, and what a `Pipeline` does to the rows before it and a `TransformedTargetRegressor` to
the targets. What is no linear smoother raises `Refit`. What is one but differs between training
sets (a step that learns from the rows, classes that are weighed again) is described, and `varies`
says what it is.

A transformer learns nothing if it gives a row the same values whatever rows are trained on. That is
decided by a list of scikit-learn's classes and by the tag ``requires_fit``, and checked on the rows
themselves (`holdfast.model_selection.problem`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Product, Sum, WhiteKernel
from sklearn.gaussian_process.kernels import Kernel as GaussianKernel
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)
from sklearn.utils import get_tags

from holdfast.kernels import Kernel, Linear, Precomputed, SklearnKernel
from holdfast.kernels.grid import NAMED, kernel_grid

P = ParamSpec("P")
T = TypeVar("T")
#: Transformers whose `fit` learns no more than the number of columns.
STATELESS = (PolynomialFeatures, AdditiveChi2Sampler)


class Refit(Exception):
    """Held-out predictions must come from scikit-learn's own refits.

    Parameters
    ----------
    reason : str
        What has no closed form. It is empty only where the arguments are such that scikit-learn
        raises an error.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


def refits_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function whose errors are refits without a reason.

    Arguments that it cannot read are wrong for scikit-learn, too, which says so better.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except Refit:
            raise
        except Exception as error:
            raise Refit from error

    return call


@dataclass(frozen=True, eq=False)
class Description:
    """What an estimator says about its smoother, whatever the rows.

    Attributes
    ----------
    model : estimator
        The last step.
    kernel : callable or None
        From the number of columns to the kernel; None: least squares without a penalty.
    bias : bool
    alpha : number or array
        The penalty, or one for each target; of a Gaussian process the noise, or that of each row.
    class_weight : None, "balanced" or dict
        Of a classifier.
    centred : bool
        Whether the mean of the training targets is taken out before the fit, and added again.
    varies : str
        What is another thing for every training set, so that there is no closed form.
    before : tuple of (name, transformer)
        Steps before the model and its scaler.
    scaler : (name, StandardScaler) or None
        Directly before the model; learned inside each experiment.
    name : str
        Of the last step of a pipeline.
    target : TransformedTargetRegressor or None
        What is done to the targets.
    """

    model: Any
    kernel: Callable[[int], Kernel | Precomputed] | None
    bias: bool
    alpha: Any
    class_weight: Any = None
    centred: bool = False
    varies: str = ""
    before: tuple[tuple[str, Any], ...] = ()
    scaler: tuple[str, StandardScaler] | None = None
    name: str = ""
    target: TransformedTargetRegressor | None = None


@refits_errors
def describe(estimator: Any) -> Description:
    """Return what an estimator, alone or in a pipeline, says about its smoother."""
    if type(estimator) is TransformedTargetRegressor:
        inner = estimator.regressor
        found = describe(LinearRegression() if inner is None else inner)
        changes = "" if estimator.transformer is None else _learns(estimator.transformer)
        return replace(found, target=estimator, varies=changes or found.varies)
    if type(estimator) is Pipeline:
        return _pipeline(estimator)
    kind = type(estimator)
    if hasattr(kind, "nested"):
        raise Refit(f"{kind.__name__} chooses in every split; its own nested() answers it")
    if kind not in MODELS:
        raise Refit(f"{kind.__name__} is not a linear smoother that holdfast knows")
    estimator._validate_params()
    return MODELS[kind](estimator)


def _pipeline(estimator: Pipeline) -> Description:
    """Return the description of the last step, with what stands before it."""
    estimator._validate_names([name for name, _ in estimator.steps])
    steps = [(n, s) for n, s in estimator.steps[:-1] if s is not None and s != "passthrough"]
    name, last = estimator.steps[-1]
    if (
        type(last) in (Pipeline, TransformedTargetRegressor)
        or last is None
        or last == "passthrough"
    ):
        raise Refit("the last step of the Pipeline is not a model")
    scaler = steps.pop() if steps and type(steps[-1][1]) is StandardScaler else None
    reasons = [reason for _, step in steps if (reason := _learns(step))]
    found = describe(last)
    varies = reasons[0] if reasons else found.varies
    return replace(found, before=tuple(steps), scaler=scaler, name=name, varies=varies)


# -- transformers ----------------------------------------------------------------------------------


def _learns(step: Any) -> str:
    """Return which part of a transformer learns from the rows, in words; empty if none does."""
    if type(step) in INSIDE:
        found = (_learns(part) for part in INSIDE[type(step)](step))
        return next((reason for reason in found if reason), "")
    if step is None or isinstance(step, str):  # "drop", "passthrough"
        return ""
    if type(step) in STATELESS or _is_given(step):
        return ""
    learns = get_tags(step).requires_fit
    return f"{type(step).__name__} learns from the rows of each fold" if learns else ""


def _is_given(step: Any) -> bool:
    """Whether a transformer that may learn is told everything, or is fitted and frozen."""
    if type(step) is OneHotEncoder:
        rare = step.min_frequency is not None or step.max_categories is not None
        drops = isinstance(step.drop, str) and step.drop != "first"
        return not (isinstance(step.categories, str) or rare or drops)
    if type(step) is SplineTransformer:
        return not isinstance(step.knots, str)
    return type(step) is FrozenEstimator


#: The transformers that a composed one consists of.
INSIDE: dict[type, Callable[[Any], list[Any]]] = {
    Pipeline: lambda step: [part for _, part in step.steps],
    FeatureUnion: lambda step: [part for _, part in step.transformer_list],
    ColumnTransformer: lambda step: [*(part for _, part, _ in step.transformers), step.remainder],
}


# -- models ----------------------------------------------------------------------------------------


def _ridge(model: Any) -> Description:
    _refuse_positive(model)
    weights, varies = getattr(model, "class_weight", None), ""
    if weights is not None and not isinstance(weights, Mapping):
        varies = (
            f"RidgeClassifier(class_weight={weights!r}) weighs the rows of each fold "
            "differently; a dict of weights has a closed form"
        )
    none = type(model) is Ridge and np.ndim(model.alpha) == 0 and model.alpha == 0
    kernel = None if none else _linear
    return Description(
        model, kernel, bool(model.fit_intercept), model.alpha, weights, varies=varies
    )


def _linear(n_columns: int) -> Linear:
    return Linear()


def _least_squares(model: Any) -> Description:
    _refuse_positive(model)
    return Description(model, None, bool(model.fit_intercept), 0.0)


def _refuse_positive(model: Any) -> None:
    if model.positive:
        raise Refit(f"{type(model).__name__}(positive=True) is not a linear function of y")


def _kernel_ridge(model: Any) -> Description:
    kernel, params = model.kernel, None
    given = {"gamma": model.gamma, "degree": model.degree, "coef0": model.coef0}
    if not (isinstance(kernel, GaussianKernel) or kernel in (*NAMED, "precomputed")):
        params = (model.kernel_params or {}) if callable(kernel) else given
        kernel, params = partial(pairwise_kernels, metric=kernel, filter_params=True, **params), {}

    def of_columns(n_columns: int) -> Kernel | Precomputed:
        return kernel_grid(kernel, **given, kernel_params=params, n_features=n_columns)[0].kernel

    return Description(model, of_columns, False, model.alpha)


def _gaussian_process(model: Any) -> Description:
    plain = ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed")
    kernel, noise = _noise_apart(plain if model.kernel is None else model.kernel)
    if kernel is None:
        raise Refit(f"the kernel {model.kernel!r} is noise alone")
    varies = ""
    if model.optimizer is not None and model.kernel is not None and model.kernel.n_dims:
        varies = (
            "GaussianProcessRegressor chooses the parameters of its kernel again in every fit; "
            "kernel=fitted.kernel_ with optimizer=None has a closed form"
        )
    elif np.size(model.alpha) > 1:
        varies = "alpha is the noise of each row that a split trains on, whichever these are"
    alpha = np.asarray(model.alpha, dtype=np.float64) + noise
    return Description(
        model,
        lambda n_columns: SklearnKernel(kernel),
        False,
        alpha,
        centred=bool(model.normalize_y),
        varies=varies,
    )


def _noise_apart(kernel: Any) -> tuple[Any, float]:
    """Return a kernel without its white noise, None if it is nothing else, and the variance."""
    if isinstance(kernel, WhiteKernel):
        return None, float(kernel.noise_level)
    if isinstance(kernel, Sum):
        (first, one), (second, other) = _noise_apart(kernel.k1), _noise_apart(kernel.k2)
        both = first is not None and second is not None
        return (Sum(first, second) if both else first or second), one + other
    if isinstance(kernel, Product):
        for constant, other in ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1)):
            if isinstance(constant, ConstantKernel):
                left, noise = _noise_apart(other)
                left = None if left is None else Product(constant, left)
                return left, float(constant.constant_value) * noise
    if any(isinstance(part, WhiteKernel) for part in kernel.get_params(deep=True).values()):
        raise Refit(f"a WhiteKernel is neither a term of a sum nor times a constant in {kernel!r}")
    return kernel, 0.0


#: What is recognised: exactly these classes, since a subclass may predict anything.
MODELS: dict[type, Callable[[Any], Description]] = {
    Ridge: _ridge,
    RidgeClassifier: _ridge,
    LinearRegression: _least_squares,
    KernelRidge: _kernel_ridge,
    GaussianProcessRegressor: _gaussian_process,
}
