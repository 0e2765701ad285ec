"""From an estimator of scikit-learn to the linear smoother that it is, or to why it is not.

`Ridge`, `RidgeClassifier`, `LinearRegression`, `KernelRidge` and `GaussianProcessRegressor` predict
ŷ = S y: a kernel or the columns of X, a penalty, a bias or none, row weights. `recipe_of` reads
these from an estimator, for `from_sklearn` and for the functions alike; `form_of` puts rows and
targets to it and refuses what is not exactly so on them. What has no closed form raises `Refit`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Product, Sum, WhiteKernel
from sklearn.gaussian_process.kernels import Kernel as GaussianKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils import check_array
from sklearn.utils.multiclass import type_of_target

from holdfast._typing import AnyArray, FloatArray
from holdfast.kernels import Kernel, Linear, Precomputed, SklearnKernel
from holdfast.kernels.grid import NAMED, kernel_grid

__all__ = [
    "RECIPES",
    "Form",
    "Recipe",
    "Refit",
    "form_of",
    "is_known",
    "penalty_of",
    "recipe_of",
    "row_weights",
]

#: Iterative solvers count as exact if they are asked to be about this accurate.
EXACT_TOLERANCE = 1e-10
#: Solvers of `Ridge` that give the minimum itself.
DIRECT_SOLVERS = ("auto", "cholesky", "svd")
#: Kernels of scikit-learn, by name, whose matrices have no negative eigenvalue if coef0 has not.
SEMIDEFINITE = ("linear", "poly", "polynomial", "rbf", "laplacian", "cosine", "chi2")


class Refit(Exception):
    """Held-out predictions must come from scikit-learn's own refits.

    Parameters
    ----------
    reason : str
        What has no closed form. It is empty only where the arguments are such that scikit-learn
        raises an error, or where `instead` has a closed form inside.
    instead : estimator, optional
        What scikit-learn should refit instead of the estimator: the same, with less work inside.
    """

    def __init__(self, reason: str = "", instead: Any = None) -> None:
        super().__init__(reason)
        self.reason, self.instead = reason, instead


@dataclass(frozen=True, eq=False)
class Form:
    """A linear smoother, apart from its penalty.

    Attributes
    ----------
    kernel : Kernel, Precomputed or None
        None: least squares without a penalty on the columns of `rows`.
    rows : array or sparse matrix of shape (m, d)
        Rows after the transformers; the kernel matrix for `Precomputed`.
    bias, weights, Y, flat, classes
        As in `TrainingData`: Y (m, v) is ±1 for classes.
    normalised : bool
        Whether the mean of the training targets is taken out before the fit.
    shift : float
        What the penalty gains: the noise of a `WhiteKernel`.
    unit_weights : ndarray of shape (m,) or None
        Row weights of the standard deviations that columns are divided by in each experiment.
    less_mean : bool
        Whether the mean of the training targets is taken off predictions: a bias that is not there
        and columns without their means.
    cut : float
        Least squares: scikit-learn drops directions whose singular value is a smaller share of the
        largest.
    inverse : callable or None
        From model values to predictions, where targets were transformed.
    """

    kernel: Kernel | Precomputed | None
    rows: Any
    bias: bool
    weights: FloatArray
    Y: FloatArray
    flat: bool
    classes: AnyArray | None = None
    normalised: bool = False
    shift: float = 0.0
    unit_weights: FloatArray | None = None
    less_mean: bool = False
    cut: float = 0.0
    inverse: Callable[[FloatArray], FloatArray] | None = None


# -- targets and weights ---------------------------------------------------------------------------


def _real_rows(X: Any) -> Any:
    """Return rows as float64, or leave what scikit-learn would refuse or round to it."""
    try:
        rows = check_array(X, accept_sparse="csr", dtype=(np.float64, np.float32))
    except (TypeError, ValueError) as error:
        raise Refit from error
    if rows.dtype == np.float32:  # an array, or a frame whose columns all are
        raise Refit("X is float32, in which scikit-learn computes; X.astype(float) avoids that")
    return rows


def _real_targets(model: Any, y: Any, m: int) -> tuple[FloatArray, bool]:
    """Return targets (m, v), and whether predictions have one dimension."""
    try:
        Y = check_array(y, ensure_2d=False, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise Refit from error
    if Y.ndim not in (1, 2) or len(Y) != m:
        raise Refit
    flat = Y.ndim == 1 or (Y.shape[1] == 1 and not _keeps_column(model.__class__))
    return np.ascontiguousarray(Y.reshape(m, -1)), flat


@cache
def _keeps_column(kind: type) -> bool:
    """Whether predictions of targets of shape (m, 1) are of that shape: versions differ."""
    X = np.arange(3.0)[:, None]
    return bool(kind().fit(X, X).predict(X).ndim == 2)


def row_weights(sample_weight: Any, m: int) -> FloatArray:
    """Return one weight for each row, ones for None."""
    if sample_weight is None:
        return np.ones(m)
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise Refit from error
    if weights.shape != (m,):
        raise Refit("sample_weight is not one weight for each row")
    if not (np.isfinite(weights).all() and weights.min() >= 0.0 and weights.max() > 0.0):
        raise Refit("sample_weight has weights below zero, or none above it")
    return weights


def _labels(y: Any, m: int) -> tuple[FloatArray, AnyArray]:
    """Return ±1 columns of a classifier, one for two classes, and the classes."""
    labels = np.asarray(y)
    if labels.shape != (m,) or type_of_target(labels) not in ("binary", "multiclass"):
        raise Refit("y holds several labels for each row")
    classes, code = np.unique(labels, return_inverse=True)
    if classes.size < 2:
        raise Refit("y holds a single class")
    Y = np.where(code[:, None] == np.arange(classes.size), 1.0, -1.0)
    return np.ascontiguousarray(Y[:, 1:] if classes.size == 2 else Y), classes


# -- estimators ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Recipe:
    """What an estimator says about its smoother, whatever the rows.

    Attributes
    ----------
    kernel : Kernel, Precomputed or None
        None: least squares without a penalty on the columns.
    bias : bool
    alpha : number or array
        The penalty, or one for each target; of a Gaussian process the noise, or that of each row.
    class_weight : None, "balanced" or dict
        Of a classifier.
    normalised : bool
        Whether the mean of the training targets is taken out before the fit.
    """

    kernel: Kernel | Precomputed | None
    bias: bool
    alpha: Any
    class_weight: Any = None
    normalised: bool = False


def _linear(model: Any, n_columns: int) -> Recipe:
    if model.positive:
        raise Refit(f"{type(model).__name__}(positive=True) is not a linear function of y")
    weights = getattr(model, "class_weight", None)
    return Recipe(Linear(), bool(model.fit_intercept), model.alpha, weights)


def _least_squares(model: Any, n_columns: int) -> Recipe:
    if model.positive:
        raise Refit("LinearRegression(positive=True) is not a linear function of y")
    return Recipe(None, bool(model.fit_intercept), 0.0)


def _kernel_ridge(model: Any, n_columns: int) -> Recipe:
    kernel, params = model.kernel, None
    given = {"gamma": model.gamma, "degree": model.degree, "coef0": model.coef0}
    if not (isinstance(kernel, GaussianKernel) or kernel in (*NAMED, "precomputed")):
        params = (model.kernel_params or {}) if callable(kernel) else given
        kernel, params = partial(pairwise_kernels, metric=kernel, filter_params=True, **params), {}
    (found,) = kernel_grid(kernel, **given, kernel_params=params, n_features=n_columns)
    return Recipe(found.kernel, False, model.alpha)


def _gaussian_process(model: Any, n_columns: int) -> Recipe:
    plain = ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed")
    kernel, noise = _noise_apart(plain if model.kernel is None else model.kernel)
    if kernel is None:
        raise Refit(f"the kernel {model.kernel!r} is noise alone")
    alpha = np.asarray(model.alpha, dtype=np.float64) + noise
    return Recipe(SklearnKernel(kernel), False, alpha, normalised=bool(model.normalize_y))


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
RECIPES: dict[type, Callable[[Any, int], Recipe]] = {
    Ridge: _linear,
    RidgeClassifier: _linear,
    LinearRegression: _least_squares,
    KernelRidge: _kernel_ridge,
    GaussianProcessRegressor: _gaussian_process,
}


def recipe_of(estimator: BaseEstimator, n_columns: int) -> Recipe:
    """Return the smoother that one of `RECIPES` is on rows of so many columns."""
    try:
        estimator._validate_params()
        return RECIPES[type(estimator)](estimator, n_columns)
    except (TypeError, ValueError) as error:
        raise Refit from error


# -- on rows ---------------------------------------------------------------------------------------


def _require_direct(model: Any, rows: Any) -> None:
    """Refuse solvers that stop early: their answers do not depend on the data alone."""
    solver = model.solver
    if solver == "auto" and sp.issparse(rows):
        solver = "sparse_cg"
    if solver in DIRECT_SOLVERS:
        return
    if solver in ("sparse_cg", "lsqr") and model.tol <= EXACT_TOLERANCE:
        return
    raise Refit(
        f"{type(model).__name__} is solved by {solver!r} here, which stops at tol={model.tol:g}; "
        f"tol={EXACT_TOLERANCE:g} or less has a closed form"
    )


def _ridge_form(model: Any, X: Any, y: Any, sample_weight: Any) -> Form:
    rows = _real_rows(X)
    recipe = recipe_of(model, rows.shape[1])
    _require_direct(model, rows)
    Y, flat = _real_targets(model, y, rows.shape[0])
    weights = row_weights(sample_weight, rows.shape[0])
    kernel = None if np.ndim(model.alpha) == 0 and model.alpha == 0 else recipe.kernel
    return Form(kernel, rows, recipe.bias, weights, Y, flat)


def _classifier_form(model: Any, X: Any, y: Any, sample_weight: Any) -> Form:
    rows = _real_rows(X)
    recipe = recipe_of(model, rows.shape[1])
    _require_direct(model, rows)
    m = rows.shape[0]
    Y, classes = _labels(y, m)
    weights = row_weights(sample_weight, m)
    if isinstance(recipe.class_weight, Mapping):
        weights = weights * [recipe.class_weight.get(name, 1.0) for name in np.asarray(y).tolist()]
        weights = row_weights(weights, m)
    elif recipe.class_weight is not None:
        raise Refit(
            f"RidgeClassifier(class_weight={recipe.class_weight!r}) weighs the rows of each fold "
            "differently; a dict of weights has a closed form"
        )
    if np.ndim(model.alpha) or model.alpha == 0:
        raise Refit(f"RidgeClassifier(alpha={model.alpha!r}) has not one penalty above zero")
    return Form(recipe.kernel, rows, recipe.bias, weights, Y, classes.size == 2, classes)


def _least_squares_form(model: Any, X: Any, y: Any, sample_weight: Any) -> Form:
    if sp.issparse(X):
        raise Refit("LinearRegression solves sparse rows by iterations that stop early")
    rows = _real_rows(X)
    recipe = recipe_of(model, rows.shape[1])
    Y, flat = _real_targets(model, y, rows.shape[0])
    weights = row_weights(sample_weight, rows.shape[0])
    cut = float(model.tol) if _cuts() else 0.0
    return Form(None, rows, recipe.bias, weights, Y, flat, cut=cut)


@cache
def _cuts() -> bool:
    """Whether `tol` is the smallest singular value that counts, for dense rows: versions differ."""
    X = np.diag([1.0, 1e-9])
    model = LinearRegression(fit_intercept=False)
    return hasattr(model, "tol") and model.fit(X, X[0]).rank_ == 1


def _kernel_form(model: Any, X: Any, y: Any, sample_weight: Any) -> Form:
    rows = _real_rows(X)
    m = rows.shape[0]
    recipe = recipe_of(model, rows.shape[1])
    Y, flat = _real_targets(model, y, m)
    weights = row_weights(sample_weight, m)
    if isinstance(recipe.kernel, Linear) and rows.shape[1] < m:
        return Form(recipe.kernel, rows, False, weights, Y, flat)
    try:
        K = np.asarray(model._get_kernel(rows), dtype=np.float64)
    except Exception as error:  # whatever it is, scikit-learn says it better
        raise Refit from error
    if K.shape != (m, m):
        raise Refit
    if callable(model.kernel) and not _is_symmetric(model, rows, K):
        raise Refit("the kernel is a function with k(x, z) ≠ k(z, x)")
    known = model.kernel in SEMIDEFINITE and model.coef0 >= 0
    known = known or isinstance(model.kernel, GaussianKernel)
    if not known and not _is_semidefinite(K):
        raise Refit("the kernel matrix is not positive semidefinite")
    return Form(Precomputed(), K, False, weights, Y, flat)


def _is_symmetric(model: Any, rows: Any, K: FloatArray) -> bool:
    """Whether some rows, as new ones, have the kernel values that they have among all.

    Of a matrix of rows with themselves scikit-learn computes one half.
    """
    some = np.unique(np.linspace(0, len(K) - 1, min(len(K), 16)).astype(int))
    first, second = some[::2], some[1::2]
    if not second.size:
        return True
    forth = model._get_kernel(rows[first], rows[second])
    back = model._get_kernel(rows[second], rows[first])
    size = 1e-9 * np.abs(K).max()
    same = np.abs(forth - back.T).max() <= size
    return bool(same and np.abs(forth - K[np.ix_(first, second)]).max() <= size)


def _is_semidefinite(K: FloatArray) -> bool:
    """Whether a matrix has no negative eigenvalues, to rounding."""
    shifted = K + 1e-12 * np.trace(K) * np.eye(len(K))
    try:
        np.linalg.cholesky(shifted)
    except np.linalg.LinAlgError:
        return False
    return True


def _gaussian_process_form(model: Any, X: Any, y: Any, sample_weight: Any) -> Form:
    if sample_weight is not None:
        raise Refit  # scikit-learn takes none
    if np.size(model.alpha) > 1:
        raise Refit("alpha is the noise of each row that a split trains on, whichever these are")
    kernel = ConstantKernel() * RBF() if model.kernel is None else model.kernel
    if model.optimizer is not None and model.kernel is not None and kernel.n_dims:
        raise Refit(
            "GaussianProcessRegressor chooses the parameters of its kernel again in every fit; "
            "kernel=fitted.kernel_ with optimizer=None has a closed form"
        )
    recipe = recipe_of(model, 0)
    try:
        rows = _real_rows(X) if kernel.requires_vector_input else np.asarray(X)
        if sp.issparse(rows):
            raise Refit
        K = np.array(recipe.kernel.kernel(rows), dtype=np.float64)  # type: ignore[union-attr]
    except (TypeError, ValueError) as error:
        raise Refit from error
    m = K.shape[0]
    Y, flat = _real_targets(model, y, m)
    if model.n_targets not in (None, Y.shape[1]):
        raise Refit
    shift = float(np.ravel(recipe.alpha)[0]) - float(np.ravel(model.alpha)[0])
    own = recipe.normalised
    return Form(Precomputed(), K, False, np.ones(m), Y, flat, normalised=own, shift=shift)


FORMS: dict[type, Callable[[Any, Any, Any, Any], Form]] = {
    Ridge: _ridge_form,
    RidgeClassifier: _classifier_form,
    LinearRegression: _least_squares_form,
    KernelRidge: _kernel_form,
    GaussianProcessRegressor: _gaussian_process_form,
}


def is_known(estimator: BaseEstimator) -> bool:
    """Whether an estimator without transformers may have a closed form."""
    return type(estimator) in FORMS


def form_of(estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any) -> Form:
    """Return the smoother that one of `FORMS` makes of rows, apart from its penalty."""
    try:
        estimator._validate_params()
    except (TypeError, ValueError) as error:
        raise Refit from error
    return FORMS[type(estimator)](estimator, X, y, sample_weight)


def penalty_of(estimator: Any, form: Form) -> FloatArray:
    """Return the penalty of each target (v,)."""
    v = form.Y.shape[1]
    if form.kernel is None:
        return np.zeros(v)
    alpha = np.asarray(estimator.alpha)
    if alpha.dtype.kind not in "iuf" or alpha.shape not in ((), (1,), (v,)):
        raise Refit(f"alpha={estimator.alpha!r} is not one penalty, or one for each target")
    penalty = np.broadcast_to(alpha.astype(np.float64) + form.shift, (v,))
    if not (np.isfinite(penalty).all() and penalty.min() > 0.0):
        raise Refit("a penalty of zero leaves the model to rounding errors")
    return penalty
