"""Whether the parts of a model from a file fit together.

The checksums of a file vouch for its bytes, not for whoever wrote them. A model whose coefficients
are too short, or whose experiments name rows that are not there, would fail later and elsewhere, or
predict nonsense. So every part is held against the others before the model is handed out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from holdfast.answers.calibration import CALIBRATIONS, Calibration
from holdfast.basis import Points
from holdfast.data.frames import LIBRARIES
from holdfast.data.npz import briefly
from holdfast.exceptions import FileFormatError, HoldfastError
from holdfast.experiments import POLICIES, Experiments, Ragged
from holdfast.holdout import PATHS
from holdfast.holdout.plan import Cost, Plan
from holdfast.kernels import Kernel, Precomputed
from holdfast.kernels.matrix import KernelData
from holdfast.scores.choice import check_alphas

__all__ = ["check_model"]

#: What `fit` leaves behind; a classifier has `classes_` as well.
_PARTS = (
    "_problem",
    "_frames",
    "_basis_rows",
    "_plan",
    "_kernel",
    "kernel_",
    "alpha_",
    "best_score_",
    "best_index_",
    "cv_results_",
    "best_params_",
    "basis_selector_",
    "n_splits_",
    "basis_indices_",
    "jitter_",
    "_dual_coef",
    "_intercept",
    "_linear_coef",
    "dual_coef_",
    "intercept_",
)


# What the parts raise when they are asked for something that they do not have.
_MISFITS = (
    HoldfastError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)


def check_model(model: Any, fitted: dict[str, Any], classifier: bool) -> None:
    """Raise FileFormatError unless the parts of a model are all there and agree with each other.

    Parameters
    ----------
    model : estimator
        With the parameters of the file, not yet with its fitted attributes.
    fitted : dict
        Those attributes; empty for a model that was never fitted.
    classifier : bool
    """
    try:
        model._validate_params()
        if fitted:
            _check_fitted(fitted, classifier)
    except FileFormatError:
        raise
    except _MISFITS as error:
        told = briefly(error).rstrip(".")
        raise FileFormatError(f"The parts of the model do not fit together: {told}.") from error


def _check_fitted(fitted: dict[str, Any], classifier: bool) -> None:
    parts = (*_PARTS, "classes_") if classifier else _PARTS
    missing = [name for name in parts if name not in fitted]
    _require(not missing, f"{', '.join(missing)} missing")
    problem = fitted["_problem"]
    _check_problem(problem)
    _check_rows(fitted, problem)
    _check_kernel(fitted["_kernel"], problem)
    _require(isinstance(fitted["kernel_"], Kernel | Precomputed), "kernel_ is no kernel")
    _check_coefficients(fitted, problem)
    _check_results(fitted, problem)
    _check_plan(fitted["_plan"])
    _require(fitted["_frames"] in (None, *LIBRARIES), "frames of a library that is not known")
    if classifier:
        _check_classes(fitted["classes_"], problem)
        _check_calibration(fitted.get("calibration_"), problem.Y.shape[1])


def _require(good: object, what: str) -> None:
    if not good:
        raise FileFormatError(f"The parts of the model do not fit together: {what}.")


def _numbers(what: str, array: Any, *shape: int, finite: bool = True) -> None:
    """Require an array of this shape, of doubles: `fit` leaves nothing else."""
    good = isinstance(array, np.ndarray) and array.dtype == np.float64 and array.shape == shape
    _require(good, f"{what} is not an array of {shape} doubles")
    _require(not finite or np.isfinite(array).all(), f"{what} has numbers that are not finite")


def _real(what: str, value: Any) -> None:
    good = isinstance(value, int | float) and not isinstance(value, bool)
    _require(good and not math.isnan(value), f"{what} is no number")


# -- what the fit saw ------------------------------------------------------------------------------


def _check_problem(problem: Any) -> None:
    from holdfast.answers.problem import Problem

    _require(isinstance(problem, Problem), "the problem is none")
    _require(isinstance(problem.Y, np.ndarray) and problem.Y.ndim == 2, "Y is no table")
    m, v = problem.Y.shape
    _require(m > 0 and v > 0, "there are no targets")
    _numbers("Y", problem.Y, m, v)
    _numbers("the weights", problem.weights, m)
    _require((problem.weights >= 0).all() and problem.weights.any(), "the weights are none")
    labels = problem.labels
    good = isinstance(labels, np.ndarray) and labels.shape in ((m,), (m, v))
    _require(good, "the labels are not those of the rows")
    groups = problem.groups
    good = groups is None or (isinstance(groups, np.ndarray) and groups.shape == (m,))
    _require(good, "the groups are not those of the rows")
    _check_experiments(problem.experiments, m)
    good = isinstance(problem.alphas, np.ndarray) and problem.alphas.dtype == np.float64
    _require(good, "the penalties are no doubles")
    check_alphas(problem.alphas)
    _require(type(problem.flat) is bool and (v == 1 or not problem.flat), "flat is wrong")
    _require(type(problem.bias) is bool, "the bias is neither there nor not")
    _require(type(problem.standardize) is bool, "standardize is neither true nor false")
    _require(type(problem.seed) is int and problem.seed >= 0, "the seed is none")
    _require(problem.policy in POLICIES, "the policy is unknown")
    _require(problem.path in ("auto", *PATHS), "the path is unknown")
    for what, number in (("jitter", problem.jitter), ("the memory", problem.memory)):
        _real(what, number)
        _require(number >= 0, f"{what} is negative")


def _check_experiments(experiments: Any, m: int) -> None:
    _require(isinstance(experiments, Experiments), "the experiments are none")
    for ragged in (experiments.held_out, experiments.test):
        _require(isinstance(ragged, Ragged), "the experiments are none")
        for part in (ragged.values, ragged.ptr):
            good = isinstance(part, np.ndarray) and part.ndim == 1 and part.dtype == np.int64
            _require(good, "the experiments do not hold row numbers")
        values, ptr = ragged.values, ragged.ptr
        _require(ptr.size > 1 and ptr[0] == 0 and ptr[-1] == values.size, "experiments overlap")
        _require((np.diff(ptr) > 0).all(), "an experiment is empty")
        _require(((values >= 0) & (values < m)).all(), "experiments name rows that are not there")
    held, test = experiments.held_out, experiments.test
    _require(len(held) == len(test), "there are more tests than experiments")
    # One number for each pair of experiment and row: sets of pairs are sets of numbers.
    outside = held.owners * m + held.values
    inside = test.owners * m + test.values
    _require(np.unique(outside).size == outside.size, "an experiment names a row twice")
    _require(np.isin(inside, outside).all(), "an experiment tests rows that it does not hold out")


# -- the model -------------------------------------------------------------------------------------


def _check_rows(fitted: dict[str, Any], problem: Any) -> None:
    X, m = problem.X, problem.Y.shape[0]
    sparse = sp.issparse(X)
    _require(sparse or isinstance(X, np.ndarray), "X is neither array nor sparse matrix")
    _require(X.ndim in (1, 2) and X.shape[0] == m, "X has another number of rows than Y")
    if X.ndim == 1:
        _require(X.dtype == object, "X has one dimension")
        return
    values = X.data if sparse else X
    if values.dtype.kind == "O":  # rows of a kernel that is a function
        return
    _require(values.dtype in (np.float32, np.float64), "X holds no single or double numbers")
    _require(np.isfinite(values).all(), "X has numbers that are not finite")
    width = fitted.get("n_features_in_")
    _require(width == X.shape[1], "n_features_in_ is not the width of X")
    names = fitted.get("feature_names_in_")
    good = names is None or (isinstance(names, np.ndarray) and names.shape == (width,))
    _require(good, "feature_names_in_ does not name the columns of X")


def _check_kernel(kernel: Any, problem: Any) -> None:
    from holdfast.answers.rows import rows_with_kernel

    _require(isinstance(kernel, Kernel | Precomputed), "the kernel is none")
    _require(isinstance(kernel, Precomputed) or problem.X.ndim == 2 or kernel.accepts_objects,
             "the kernel needs rows of numbers")  # fmt: skip
    data = rows_with_kernel(kernel, problem.X, problem.basis)
    if problem.X.dtype != object:  # no function of the user's is called
        data.block(np.array([0]), np.array([0]) if len(data) else np.array([], dtype=np.int64))


def _check_coefficients(fitted: dict[str, Any], problem: Any) -> None:
    m, v = problem.Y.shape
    rows = fitted["basis_indices_"]
    good = isinstance(rows, np.ndarray) and rows.ndim == 1 and rows.dtype.kind in "iu" and rows.size
    _require(good, "the basis rows are none")
    first, last = 0, m
    if isinstance(problem.basis, Points):
        first, last = m, m + problem.basis.points(problem.X).shape[0]
        _require(rows.size == last - first, "basis points are not there")
    _require(((rows >= first) & (rows < last)).all(), "basis rows are not there")
    _require(np.unique(rows).size == rows.size, "a basis row is named twice")
    if problem.basis is None:
        _require(np.array_equal(rows, np.arange(m)), "a dense model expands in all rows")
    _numbers("the coefficients", fitted["_dual_coef"], rows.size, v)
    _numbers("the intercept", fitted["_intercept"], v)
    _check_trend(problem.trend, fitted.get("_trend_coef"), problem)
    linear = fitted["_linear_coef"]
    if linear is not None:
        _numbers("the coefficients of the columns", linear, problem.X.shape[1], v)
    shape = (rows.size,) if problem.flat else (rows.size, v)
    _numbers("dual_coef_", fitted["dual_coef_"], *shape)
    if problem.flat:
        _real("intercept_", fitted["intercept_"])
    else:
        _numbers("intercept_", fitted["intercept_"], v)
    _check_basis_rows(fitted["_basis_rows"], rows.size)


def _check_trend(trend: Any, coefficients: Any, problem: Any) -> None:
    """Check the unpenalised columns; files of early versions know the bias only."""
    from holdfast.answers.trend import Trend

    count, v = 0, problem.Y.shape[1]
    if trend is not None:
        _require(isinstance(trend, Trend) and trend.bias is problem.bias, "the trend is none")
        names, columns = trend.names, trend.columns
        good = isinstance(names, tuple) and all(isinstance(name, str) for name in names)
        _require(good and names, "the columns of the trend have no names")
        count = len(names)
        if columns is not None:
            good = isinstance(columns, tuple) and len(columns) == count and problem.X.ndim == 2
            good = good and all(type(j) is int and 0 <= j < problem.X.shape[1] for j in columns)
            _require(good, "the trend names columns that X does not have")
        else:
            _require(callable(trend.function), "the trend has neither columns nor a function")
    if trend is not None or coefficients is not None:
        _numbers("the coefficients of the trend", coefficients, count, v)


def _check_basis_rows(kept: Any, n: int) -> None:
    _require(kept is None or isinstance(kept, KernelData), "the kept basis rows are none")
    _require(kept is None or len(kept) == n, "other basis rows were kept")


def _check_results(fitted: dict[str, Any], problem: Any) -> None:
    v = problem.Y.shape[1]
    for name in ("alpha_", "best_score_"):
        value = fitted[name]
        if isinstance(value, np.ndarray):
            _numbers(name, value, v, finite=name != "best_score_")
        else:
            _real(name, value)
    _require((np.asarray(fitted["alpha_"]) > 0).all(), "alpha_ is not positive")
    count = fitted["n_splits_"]
    _require(count == len(problem.experiments), "n_splits_ does not count the experiments")
    _real("jitter_", fitted["jitter_"])
    results = fitted["cv_results_"]
    _require(isinstance(results, dict) and "alpha" in results, "cv_results_ has no penalties")
    tried, params = results["alpha"], results.get("params")
    _numbers("alpha", tried, len(tried))
    size = len(tried)
    _require(np.isin(problem.alphas, tried).all(), "cv_results_ is of other penalties")
    good = isinstance(params, list) and all(isinstance(entry, dict) for entry in params)
    _require(good, "cv_results_ does not say what was tried")
    for name, column in results.items():
        good = isinstance(column, np.ndarray | list) and len(column) == size
        _require(good, f"the column {name!r} of cv_results_ is of another length")
    index = np.asarray(fitted["best_index_"])
    good = index.dtype.kind == "i" and index.shape in ((), (v,))
    _require(good, "best_index_ is no row of cv_results_")
    _require(((index >= 0) & (index < size)).all(), "best_index_ is outside cv_results_")
    _require(isinstance(fitted["best_params_"], dict), "best_params_ is no dict")


def _check_plan(plan: Any) -> None:
    _require(isinstance(plan, Plan), "the plan is none")
    costs = plan.costs
    good = isinstance(costs, tuple) and costs and all(isinstance(cost, Cost) for cost in costs)
    _require(good and isinstance(plan.facts, dict), "the plan has no costs or facts")
    for cost in costs:
        _real("a cost", cost.seconds)
        _real("a cost", cost.bytes)
    str(plan)


def _check_classes(classes: Any, problem: Any) -> None:
    good = isinstance(classes, np.ndarray) and classes.ndim == 1 and classes.size >= 2
    _require(good, "the classes are none")
    _require(np.unique(classes).size == classes.size, "a class is named twice")
    _require((classes[1:] > classes[:-1]).all(), "the classes are not sorted")
    v = problem.Y.shape[1]
    _require(v == (1 if classes.size == 2 else classes.size), "there are more classes than targets")
    known = problem.labels.ndim == 1 and np.isin(problem.labels, classes).all()
    _require(known, "rows are of other classes")


def _check_calibration(calibration: Any, v: int) -> None:
    if calibration is None:
        return
    _require(isinstance(calibration, Calibration), "the calibration is none")
    _require(calibration.method in CALIBRATIONS, "the calibration is unknown")
    sigmoid = calibration.method == "sigmoid"
    for name, count in (("decisions", v), ("probabilities", 0 if sigmoid else v)):
        arrays = getattr(calibration, name)
        _require(isinstance(arrays, tuple) and len(arrays) == count, f"{name} are not there")
        for i, array in enumerate(arrays):
            _numbers(name, array, 2 if sigmoid else len(calibration.decisions[i]))
    if not sigmoid:
        sorted_ones = all((np.diff(x) >= 0).all() and x.size for x in calibration.decisions)
        _require(sorted_ones, "the decisions of a calibrator are not sorted")
        inside = all(((p >= 0) & (p <= 1)).all() for p in calibration.probabilities)
        _require(inside, "the probabilities of a calibrator are none")
