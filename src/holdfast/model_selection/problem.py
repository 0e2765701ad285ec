"""A described estimator on its rows, and held-out predictions of all splits from one smoother.

`Problem` is what a `Description` becomes on rows and targets: rows after the transformers, which
are applied once, row weights, targets as columns. What is not exactly a linear smoother on these
rows raises `Refit`. `Problem.held_out` is the one way to held-out predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import RidgeClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing, check_array
from sklearn.utils.multiclass import type_of_target

from holdfast._typing import AnyArray, FloatArray
from holdfast.core.data import Unpenalised, WeightedData
from holdfast.core.experiments import Experiments, Tasks, resolve
from holdfast.core.feature_smoother import FeatureSmoother
from holdfast.core.features import StandardisedColumns
from holdfast.core.lapack import shared_threads
from holdfast.core.plan import make_plan
from holdfast.core.predict import predict
from holdfast.core.smoother import Smoother
from holdfast.data.memory import memory_bytes
from holdfast.exceptions import HoldfastError
from holdfast.kernels import FunctionKernel, Kernel, Linear, Precomputed
from holdfast.kernels.matrix import KernelData, KernelRows, PrecomputedRows
from holdfast.kernels.smoothers import make_smoother
from holdfast.model_selection import least_squares
from holdfast.model_selection.description import Description, Refit, refits_errors

#: Iterative solvers count as exact if they are asked to be about this accurate.
EXACT_TOLERANCE = 1e-10
#: Solvers of `Ridge` that give the minimum itself.
DIRECT_SOLVERS = ("auto", "cholesky", "svd")
#: Rows that are transformed alone, to see whether that changes them.
LOOKED_AT = 64


@dataclass(frozen=True, eq=False)
class Problem:
    """A linear smoother on rows, apart from its penalty.

    Attributes
    ----------
    kernel : Kernel, Precomputed or None
        None: least squares without a penalty on the columns of `rows`.
    rows : array or sparse matrix of shape (m, d)
        Rows after the transformers; the kernel matrix for `Precomputed`.
    bias : bool
    weights : ndarray of shape (m,)
    Y : ndarray of shape (m, v)
        Targets, ±1 for classes.
    flat : bool
        Whether predictions have one dimension.
    classes : ndarray or None
    units : ndarray of shape (m,) or None
        Row weights of the standard deviations that columns are divided by in each experiment.
    add_mean, less_mean : bool
        Whether the mean of the training targets is taken out before the fit and added again; or
        taken off predictions, where a bias is not there and columns are without their means.
    cut : float
        Least squares: scikit-learn drops directions whose singular value is a smaller share of the
        largest.
    inverse : callable
        From model values to predictions, where targets were transformed.
    """

    kernel: Kernel | Precomputed | None
    rows: Any
    bias: bool
    weights: FloatArray
    Y: FloatArray
    flat: bool
    classes: AnyArray | None
    units: FloatArray | None
    add_mean: bool
    less_mean: bool
    cut: float
    inverse: Callable[[FloatArray], FloatArray]

    def held_out(
        self, experiments: Experiments, penalties: FloatArray, Y: FloatArray | None = None
    ) -> FloatArray:
        """Return predictions (a, k, v) of all test rows, laid end to end, by the held-out models.

        Parameters
        ----------
        experiments : Experiments
        penalties : ndarray of shape (a, v)
        Y : ndarray of shape (m, v), optional
            Other targets.
        """
        Y = self.Y if Y is None else Y
        try:
            tasks = resolve(experiments, weights=self.weights, basis=None, policy="remove")
        except HoldfastError as error:
            raise Refit("a split trains on no row that has a weight") from error
        if self.kernel is None:
            found = least_squares.held_out(
                self.rows, Y, self.weights, tasks, bias=self.bias, cut=self.cut
            )
            return self.inverse(np.repeat(found[None], len(penalties), axis=0))
        grid, index = np.unique(penalties, return_inverse=True)
        try:
            smoother: Smoother | None = self._smoother
            if Y is not self.Y:
                smoother = self._smoother.with_targets(self._sides(Y))
            assert smoother is not None
            with shared_threads(len(Y), float(len(Y)) ** 2):
                path = make_plan(tasks, smoother.sizes(tasks), grid.size, "auto").path
                values = predict(smoother, tasks, grid, path)
        except (HoldfastError, np.linalg.LinAlgError) as error:
            raise Refit(f"the equations of all rows cannot be solved here ({error})") from error
        if self.less_mean:
            values = values - self._means(Y, tasks)
        if self.add_mean:  # f₋H[y] + ȳ₋H (1 − f₋H[1]): the model of y less its mean, and the mean
            values = values[..., :-1] + self._means(Y, tasks) * (1.0 - values[..., -1:])
        index = index.reshape(penalties.shape)
        if (index == index[:, :1]).all():
            return self.inverse(values[index[:, 0]])
        return self.inverse(np.stack([values[own, :, np.arange(len(own))].T for own in index]))

    def _sides(self, Y: FloatArray) -> FloatArray:
        """Return what is solved for: the targets, and a column of ones if its model is needed."""
        return np.hstack([Y, np.ones((len(Y), 1))]) if self.add_mean else Y

    @cached_property
    def _smoother(self) -> Smoother:
        memory, Y = memory_bytes(None), self._sides(self.Y)
        assert self.kernel is not None
        bias = Unpenalised.bias(self.weights, self.bias)
        data = WeightedData.of(Y, self.weights, bias)
        if self.units is not None:
            return FeatureSmoother(StandardisedColumns(self.rows, self.units), data, memory)
        rows: KernelData = (
            PrecomputedRows(self.rows)
            if isinstance(self.kernel, Precomputed)
            else KernelRows(self.kernel, self.rows)
        )
        if isinstance(self.kernel, FunctionKernel):
            _require_symmetric(rows)
        return make_smoother(self.kernel, rows, self.rows, data, memory=memory)

    def _means(self, Y: FloatArray, tasks: Tasks) -> FloatArray:
        """Return the mean target (k, v) of the rows that the model of each test row trains on."""
        held = np.zeros((len(tasks), Y.shape[1] + 1))
        centre = np.average(Y, axis=0, weights=self.weights)
        sums = self.weights[:, None] * np.column_stack([Y - centre, np.ones(len(Y))])
        np.add.at(held, tasks.held.owners, sums[tasks.held.values])
        left = sums.sum(axis=0) - held
        return np.asarray(centre + left[:, :-1] / left[:, -1:])[tasks.test.owners]


# -- from a description ----------------------------------------------------------------------------


@refits_errors
def problem_of(described: Description, X: Any, y: Any, params: Mapping[str, Any]) -> Problem:
    """Return what an estimator is on rows; `params` are what `fit` receives beside them."""
    if described.varies:
        raise Refit(described.varies)
    model = described.model
    weight, scaler_weight = _given_weights(described, params)
    rows = _transformed([step for _, step in described.before], X, y) if described.before else X
    if isinstance(model, GaussianProcessRegressor) and not _reads_vectors(model):
        rows, m = np.asarray(rows), len(rows)
    else:
        rows = _real_rows(rows)
        m = rows.shape[0]
    _require_exact(model, rows, described)
    y, inverse = _transformed_targets(described.target, y)
    weights, classes = _row_weights(weight, m), None
    if isinstance(model, RidgeClassifier):
        Y, classes = _labels(y, m)
        flat = classes.size == 2
        if described.class_weight:
            of_class = [described.class_weight.get(name, 1.0) for name in np.asarray(y).tolist()]
            weights = _row_weights(weights * of_class, m)
    else:
        Y, flat = _real_targets(model, y, m)
    if getattr(model, "n_targets", None) not in (None, Y.shape[1]):
        raise Refit
    kernel = described.kernel and described.kernel(rows.shape[1] if rows.ndim == 2 else 0)
    if isinstance(kernel, Precomputed) and rows.shape != (m, m):
        raise Refit
    bias, units, less_mean = described.bias, None, False
    if described.scaler is not None:
        scaler = described.scaler[1]
        units = _row_weights(scaler_weight, m)
        less_mean = not bias and scaler.with_mean
        _require_scalable(kernel, rows, scaler, weights, units, less_mean=less_mean)
        bias = bias or less_mean
        if kernel is None:  # other units, the same predictions
            rows = StandardScaler(with_mean=False).fit_transform(rows)
        units = units if scaler.with_std else None
    return Problem(
        kernel=kernel,
        rows=rows,
        bias=bias,
        weights=weights,
        Y=Y,
        flat=flat,
        classes=classes,
        units=units,
        add_mean=described.centred,
        less_mean=less_mean,
        cut=float(getattr(model, "tol", 0.0)) if kernel is None else 0.0,
        inverse=inverse,
    )


def _require_symmetric(rows: KernelData) -> None:
    """Refuse a function of which scikit-learn computes one half; some rows show whether it may."""
    some = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), 16)).astype(int))
    first, second = some[::2], some[1::2]
    forth, back = rows.block(first, second), rows.block(second, first).T
    if second.size and np.abs(forth - back).max() > 1e-9 * np.abs(forth).max():
        raise Refit("the kernel is a function with k(x, z) ≠ k(z, x)")


def penalties_of(described: Description, problem: Problem) -> FloatArray:
    """Return the penalty of each target (v,)."""
    v = problem.Y.shape[1]
    if problem.kernel is None:
        return np.ones(v)  # of nothing
    alpha = np.asarray(described.alpha)
    if alpha.dtype.kind not in "iuf" or alpha.shape not in ((), (1,), (v,)):
        raise Refit(f"alpha={described.alpha!r} is not one penalty, or one for each target")
    penalty = np.broadcast_to(alpha.astype(np.float64), (v,))
    if not (np.isfinite(penalty).all() and penalty.min() > 0.0):
        raise Refit(f"alpha={described.alpha!r} leaves the model to rounding errors")
    return penalty


# -- rows ------------------------------------------------------------------------------------------


def _reads_vectors(model: GaussianProcessRegressor) -> bool:
    return bool(model.kernel is None or model.kernel.requires_vector_input)


def _real_rows(X: Any) -> Any:
    """Return rows as float64, or leave what scikit-learn would refuse or round to it."""
    rows = check_array(X, accept_sparse="csr", dtype=(np.float64, np.float32))
    if rows.dtype == np.float32:  # an array, or a frame whose columns all are
        raise Refit("X is float32, in which scikit-learn computes; X.astype(float) avoids that")
    return rows


def _require_exact(model: Any, rows: Any, described: Description) -> None:
    """Refuse solvers that stop early: their answers do not depend on the data alone."""
    if described.kernel is None and sp.issparse(rows):
        raise Refit(f"{type(model).__name__} solves sparse rows by iterations that stop early")
    if isinstance(model, GaussianProcessRegressor) and sp.issparse(rows):
        raise Refit  # which scikit-learn refuses
    solver = getattr(model, "solver", "auto")
    if solver == "auto" and sp.issparse(rows) and hasattr(model, "solver"):
        solver = "sparse_cg"
    exact = solver in ("sparse_cg", "lsqr") and model.tol <= EXACT_TOLERANCE
    if solver not in DIRECT_SOLVERS and not exact:
        raise Refit(
            f"{type(model).__name__} is solved by {solver!r} here, which stops at "
            f"tol={model.tol:g}; tol={EXACT_TOLERANCE:g} or less has a closed form"
        )


def _require_scalable(
    kernel: Any, rows: Any, scaler: Any, weights: Any, units: Any, *, less_mean: bool
) -> None:
    """Refuse what has no closed form behind a `StandardScaler` that each experiment learns.

    A bias takes up the means. Without one the model of y on centred columns is that with a bias,
    less the mean of y.
    """
    m, d = rows.shape
    if kernel is not None and not isinstance(kernel, Linear):
        raise Refit("StandardScaler changes every value of the kernel inside each fold")
    if sp.issparse(rows) and scaler.with_mean:
        raise Refit  # scikit-learn refuses to centre them
    if d >= m:
        raise Refit(f"StandardScaler stands before {d} columns and there are {m} rows, not more")
    own = not np.array_equal(units, weights)
    if own and weights.min() == 0.0:
        raise Refit("rows of weight zero count for StandardScaler and not for the model")
    if less_mean and (own or kernel is None):
        raise Refit("columns are centred by StandardScaler and the model has no intercept")


def _transformed(before: list[Any], X: Any, y: Any) -> Any:
    """Return rows after transformers that learn nothing: some rows alone must become the same."""
    m = X.shape[0] if hasattr(X, "shape") else len(X)
    index = np.unique(np.linspace(0, m - 1, max(1, min(m // 2, LOOKED_AT))).astype(int))
    whole, some = X, _safe_indexing(X, index)
    for step in before:
        own = clone(step)
        with config_context(transform_output="default"):
            whole = own.fit(whole, y).transform(whole)
            some = own.transform(some)
    same = _same(some, whole[index])
    if not same:
        name = " and ".join(type(step).__name__ for step in before)
        raise Refit(f"{name} gives a row values that depend on the other rows")
    return whole


def _same(found: Any, expected: Any) -> bool:
    found, expected = (A.toarray() if sp.issparse(A) else np.asarray(A) for A in (found, expected))
    return bool(np.allclose(found, expected, rtol=1e-9, atol=0, equal_nan=True))


# -- targets ---------------------------------------------------------------------------------------


def _transformed_targets(target: Any, y: Any) -> tuple[Any, Callable[[FloatArray], FloatArray]]:
    """Return targets as the regressor inside gets them, and the way back for its predictions."""
    if target is None:
        return y, lambda values: values
    Y = check_array(y, input_name="y", ensure_2d=False, dtype="numeric")
    columns = Y.reshape(len(Y), -1)
    made = clone(target).set_params(regressor=DummyRegressor()).fit(columns[:, :1], Y)
    change = made.transformer_
    found = np.asarray(change.transform(columns))
    few = max(1, min(len(Y) // 2, LOOKED_AT))
    same = found.shape == columns.shape and _same(change.transform(columns[:few]), found[:few])
    if not same:
        raise Refit("TransformedTargetRegressor changes a target by the others")

    def inverse(values: FloatArray) -> FloatArray:
        back, v = np.empty(values.shape), columns.shape[1]
        for i in np.ndindex(len(values), values.shape[-1] // v):
            own = i[0], slice(None), slice(i[1] * v, (i[1] + 1) * v)
            back[own] = change.inverse_transform(values[own])
        return back

    return found[:, 0] if Y.ndim == 1 else found, inverse


def _real_targets(model: Any, y: Any, m: int) -> tuple[FloatArray, bool]:
    """Return targets (m, v), and whether predictions have one dimension."""
    Y = check_array(y, ensure_2d=False, dtype=np.float64)
    if Y.ndim not in (1, 2) or len(Y) != m:
        raise Refit
    flat = Y.ndim == 1 or (Y.shape[1] == 1 and not _keeps_column(model.__class__))
    return np.ascontiguousarray(Y.reshape(m, -1)), flat


@cache
def _keeps_column(kind: type) -> bool:
    """Whether predictions of targets of shape (m, 1) are of that shape: versions differ."""
    X = np.arange(3.0)[:, None]
    return bool(kind().fit(X, X).predict(X).ndim == 2)


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


# -- weights ---------------------------------------------------------------------------------------


def _row_weights(sample_weight: Any, m: int) -> FloatArray:
    """Return one weight for each row, ones for None."""
    if sample_weight is None:
        return np.ones(m)
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (m,):
        raise Refit("sample_weight is not one weight for each row")
    if not (np.isfinite(weights).all() and weights.min() >= 0.0 and weights.max() > 0.0):
        raise Refit("sample_weight has weights below zero, or none above it")
    return weights


def _given_weights(described: Description, params: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the row weights, or None, that `fit` of the model and of its scaler receive."""
    given = {name: value for name, value in params.items() if value is not None}
    steps = [described.name, *([described.scaler[0]] if described.scaler else [])]
    names = [f"{name}__sample_weight" if name else "sample_weight" for name in steps]
    if others := sorted(given.keys() - set(names)):
        # Without a pipeline scikit-learn raises an error.
        raise Refit(f"steps are fitted with {', '.join(others)}" if described.name else "")
    if isinstance(described.model, GaussianProcessRegressor) and given:
        raise Refit  # scikit-learn takes none
    values = [given.get(name) for name in names]
    return values[0], values[1] if len(values) > 1 else None
