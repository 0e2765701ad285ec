"""A fitted estimator as its inputs and results, and back.

`parts_of` gives plain values: parameters, rows, targets, experiments, penalties, coefficients.
`rebuilt` makes the estimator from them through the checks of `fit` itself. Whatever is private is
computed again, so nothing private is ever in a file, and parts that do not fit together are refused
in the same words as bad input.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.answers.calibration import Calibration
from holdfast.answers.fitted import Fitted
from holdfast.answers.model import make_model
from holdfast.answers.problem import Problem
from holdfast.basis import Points
from holdfast.basis.resolve import as_selector
from holdfast.data.frames import LIBRARIES
from holdfast.data.indices import row_numbers
from holdfast.estimators.base import CrossValidatedKernelRidge
from holdfast.estimators.inputs import refusals
from holdfast.exceptions import InvalidInputError
from holdfast.experiments import Experiments, Ragged
from holdfast.holdout import PATHS
from holdfast.holdout.plan import Cost, Plan
from holdfast.kernels import Kernel, Precomputed
from holdfast.scores.choice import Choice, check_alphas
from holdfast.scores.penalties import kernel_parts
from holdfast.smoother.base import Fit

__all__ = ["parts_of", "rebuilt"]

E = TypeVar("E", bound=CrossValidatedKernelRidge)


def parts_of(model: CrossValidatedKernelRidge) -> dict[str, dict[str, Any]]:
    """Return the parts of an estimator: "parameters"; once it is fitted also "data" and "found"."""
    if not hasattr(model, "alpha_"):
        return {"parameters": model.get_params(deep=False)}
    fitted, problem = model._asked(), model._problem
    return {
        "parameters": fitted.parameters,
        "data": {
            "X": problem.X,
            "y": problem.labels,
            "flat": problem.flat,
            "sample_weight": problem.weights,
            "groups": problem.groups,
            "names": getattr(model, "feature_names_in_", None),
            "frames": problem.frames,
        },
        "found": {
            "experiments": _told_experiments(problem.experiments),
            "seed": problem.seed,
            "basis": problem.basis,
            "alphas": problem.alphas,
            "plan": _told(model.explain()),
            "calibration": _curves(getattr(model, "calibration_", None)),
            "results": model.cv_results_,
            "index": model.best_index_,
            "alpha": model.alpha_,
            "score": model.best_score_,
            "kernel": model.kernel_,
            "basis_rows": model.basis_indices_,
            "coefficients": fitted.coefficients.dual,
            "of_columns": fitted.coefficients.linear,
            "unpenalised": fitted.coefficients.unpenalised,
        },
    }


def rebuilt(cls: type[E], parts: Mapping[str, Mapping[str, Any]]) -> E:
    """Return the estimator that has these parts.

    Raises
    ------
    InvalidInputError
        Or what NumPy and the constructors raise for parts that do not fit together.
    """
    unknown = set(parts["parameters"]).difference(cls._get_param_names())
    _require(not unknown, f"there is no parameter {next(iter(unknown), None)!r}")
    model = cls(**parts["parameters"])
    if "data" not in parts:
        with refusals():
            model._validate_params()
        return model
    data, found = parts["data"], parts["found"]
    problem = _problem(model, data, found)
    m, v = problem.Y.shape
    kernel, basis = found["kernel"], None
    _require(isinstance(kernel, Kernel | Precomputed), "kernel is not a kernel")
    rows = _basis_rows(problem, found["basis_rows"])
    if problem.on_basis:
        basis = rows
    engine = make_model(problem, kernel, None, basis, as_selector(problem.basis, m))
    if problem.X.dtype != object:  # no function of the user's is called
        engine.data.block(np.array([0]), rows[:1])
    d = problem.X.shape[1] if problem.X.ndim == 2 else 0
    of_columns = found["of_columns"]
    fit = Fit(
        _numbers("coefficients", found["coefficients"], rows.size, v),
        None if of_columns is None else _numbers("of_columns", of_columns, d, v),
        _unpenalised(problem, found["unpenalised"]),
    )
    choice = _choice(found, v)
    params = dict(found["results"]["params"][int(np.atleast_1d(choice.indices)[0])])
    params.pop("alpha", None)
    model._publish(
        Fitted(
            engine,
            model._goal(),
            choice.alpha,
            choice.score,
            found["results"],
            params,
            choice.indices,
            _plan(**found["plan"]),
            fit=fit,
        )
    )
    compared = kernel_parts(found["results"])
    for part in compared if len(compared) > 1 else ():
        model._asked()._candidate(part.start)  # which is asked for again by some answers
    if getattr(model, "calibration", None) is not None:
        model.calibration_ = _calibration(model.calibration, v, **found["calibration"])
    return model


def _problem(
    model: CrossValidatedKernelRidge, data: Mapping[str, Any], found: Mapping[str, Any]
) -> Problem:
    """Return the problem of a fit, checked as `fit` checks it; and what the model learns by that.

    With the experiments, penalties, seed and basis of that fit: a splitter may draw others, and
    the default grid and number of basis rows depend on more than the rows.
    """
    y = np.asarray(data["y"])
    _require(type(data["flat"]) is bool and (y.ndim == 1 or y.shape[1] == 1 or not data["flat"]),
             "flat is wrong")  # fmt: skip
    same = {
        "cv": _experiments(found["experiments"]),
        "alphas": check_alphas(found["alphas"]),
        "random_state": found["seed"],
        "basis": found["basis"],
    }
    parameters = model.get_params(deep=False)
    twin = type(model)(**{**parameters, **same})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `fit` has said it
        problem, _ = twin._prepare(
            data["X"],
            y.ravel() if data["flat"] else y,
            data["sample_weight"],
            data["groups"],
            _names(data),
        )
    learned = {name: value for name, value in vars(twin).items() if name not in parameters}
    model.__dict__.update(learned)
    return replace(problem, frames=data["frames"])


def _names(data: Mapping[str, Any]) -> Any:
    """Return the names of the columns of a frame, which an array does not have, or None."""
    _require(data["frames"] in (None, *LIBRARIES), "frames of an unknown library")
    names = data["names"]
    if names is not None:
        good = isinstance(names, np.ndarray) and names.shape == np.shape(data["X"])[1:]
        _require(good and all(type(name) is str for name in names), "names do not fit the columns")
    return names


def _require(good: object, what: str) -> None:
    if not good:
        raise InvalidInputError(what)


def _numbers(what: str, array: Any, *shape: int) -> FloatArray:
    """Return an array of this shape, of finite doubles: `fit` leaves nothing else."""
    good = isinstance(array, np.ndarray) and array.dtype == np.float64 and array.shape == shape
    _require(good, f"{what} is not an array of {shape} doubles")
    _require(np.isfinite(array).all(), f"{what} has numbers that are not finite")
    return np.asarray(array)


def _told_experiments(experiments: Experiments) -> dict[str, Any]:
    ragged = {"held_out": experiments.held_out, "test": experiments.test}
    return {name: {"values": one.values, "ptr": one.ptr} for name, one in ragged.items()}


def _experiments(parts: Mapping[str, Mapping[str, Any]]) -> Experiments:
    """Return experiments, each with rows held out once, of which some are tested."""
    held, test = (_ragged(parts[name]) for name in ("held_out", "test"))
    _require(len(held) == len(test), "experiments: there are more tests than experiments")
    # One number for each pair of experiment and row: sets of pairs are sets of numbers.
    m = max(held.values.max(), test.values.max()) + 1
    outside, inside = (each.owners * m + each.values for each in (held, test))
    once = all(np.unique(each).size == each.size for each in (outside, inside))
    _require(once, "experiments: a row is named twice in one")
    _require(np.isin(inside, outside).all(), "experiments: rows are tested that are not held out")
    return Experiments(held, test)


def _ragged(parts: Mapping[str, Any]) -> Ragged:
    for array in parts["values"], parts["ptr"]:
        good = isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype == np.int64
        _require(good and array.size, "experiments must hold row numbers")
    values, ptr = parts["values"], parts["ptr"]
    good = ptr[0] == 0 and ptr[-1] == values.size and (np.diff(ptr) > 0).all()
    _require(good and ptr.size > 1, "experiments overlap, or are empty")
    _require(((values >= 0) & (values < 2**31)).all(), "experiments name rows that are not there")
    return Ragged(values, ptr)


def _basis_rows(problem: Problem, rows: Any) -> IntArray:
    """Return the rows that the model is expanded in; points come after all rows."""
    m = problem.Y.shape[0]
    if problem.basis is None:
        _require(np.array_equal(rows, np.arange(m)), "a dense model is expanded in all rows")
    if isinstance(problem.basis, Points):
        last = m + problem.basis.points(problem.X).shape[0]
        _require(np.array_equal(rows, np.arange(m, last)), "basis_rows are not those of the points")
        return np.asarray(rows)
    found = row_numbers("basis_rows", rows, m)
    _require(found.size, "basis_rows are none")
    return found


def _unpenalised(problem: Problem, values: Any) -> FloatArray:
    """Return the coefficients of the bias and the trend; early files have an intercept alone."""
    names = () if problem.trend is None else problem.trend.names
    bias, v = int(problem.bias), problem.Y.shape[1]
    if not names and np.shape(values) == (v,):
        values = np.asarray(values)[None][:bias]
    return _numbers("unpenalised", values, bias + len(names), v)


def _choice(found: Mapping[str, Any], v: int) -> Choice:
    """Return the penalty that was chosen, of a table of results that has it."""
    results, index = found["results"], np.asarray(found["index"])
    _require(isinstance(results, dict), "results are not a table")
    tried, params = results["alpha"], results["params"]
    tried = _numbers("alpha of the results", tried, len(tried))
    good = isinstance(params, list) and all(isinstance(entry, dict) for entry in params)
    _require(good, "results do not say what was tried")
    for name, column in results.items():
        good = isinstance(column, np.ndarray | list) and len(column) == tried.size
        _require(good, f"the column {name!r} of the results is of another length")
    _require(np.isin(found["alphas"], tried).all(), "results have other penalties")
    good = index.dtype.kind == "i" and index.shape in ((), (v,))
    _require(good and (index >= 0).all() and (index < tried.size).all(), "index has no result")
    alpha, score = (_one_or_each(name, found[name], v) for name in ("alpha", "score"))
    check_alphas(np.unique(alpha), "alpha")
    return Choice(index if index.ndim else int(index), alpha, score)


def _curves(calibration: Calibration | None) -> dict[str, Any] | None:
    if calibration is None:
        return None
    return {"x": list(calibration.decisions), "p": list(calibration.probabilities)}


def _calibration(method: Any, v: int, x: list[Any], p: list[Any]) -> Calibration:
    """Return the curves from decision values to probabilities, one for each target."""
    curved = method == "isotonic"
    _require(len(x) == v and len(p) == (v if curved else 0), "calibration has other targets")
    for place in x:
        _numbers("calibration", place, len(place) if curved else 2)
    for place, share in zip(x, p, strict=curved):
        _numbers("calibration", share, len(place))
        _require((np.diff(place) >= 0).all() and len(place), "calibration is not in order")
        _require(((share >= 0) & (share <= 1)).all(), "calibration: not probabilities")
    return Calibration(method, tuple(x), tuple(p))


def _told(plan: Plan) -> dict[str, Any]:
    costs = [[cost.path, cost.seconds, cost.bytes] for cost in plan.costs]
    return {"path": plan.path, "asked": plan.asked, "costs": costs, "facts": plan.facts}


def _plan(path: str, asked: str, costs: list[Any], facts: dict[str, Any]) -> Plan:
    """Return the plan of the fit."""
    _require(path in PATHS and asked in ("auto", *PATHS), "the path of the plan is unknown")
    known = all(path in PATHS for path, _, _ in costs)
    _require(known and min(min(cost[1:]) for cost in costs) > 0, "the plan has no costs")
    good = all(type(k) is str and type(v) in (str, int) for k, v in facts.items())
    _require(good, "the facts of the plan are neither words nor numbers")
    made = tuple(Cost(path, float(seconds), float(bytes)) for path, seconds, bytes in costs)
    return Plan(path, asked, made, facts)


def _one_or_each(what: str, value: Any, v: int) -> float | FloatArray:
    """Return a number, or one for each target."""
    array: AnyArray = np.asarray(value)
    good = array.dtype.kind in "if" and array.shape in ((), (v,))
    _require(good, f"{what} is neither a number nor one for each target")
    return array.astype(np.float64) if array.ndim else float(array)
