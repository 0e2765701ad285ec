"""A fitted estimator as plain values: what pickle, joblib and skops keep of it.

Inputs and results are kept: rows, targets, weights, experiments, the table of scores, coefficients.
Factors are not: they are computed again when a question first needs them.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import astuple, fields
from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse as sp
import sklearn.gaussian_process.kernels
import sklearn.model_selection

import holdfast
from holdfast.answers.calibration import Calibration
from holdfast.answers.fitted import Fitted, SearchResult, without_alpha
from holdfast.answers.model import Model, rows_with_kernel
from holdfast.answers.training import Objective, TrainingData
from holdfast.answers.trend import Trend
from holdfast.core.experiments import Experiments, Ragged
from holdfast.core.plan import Cost, Plan
from holdfast.core.smoother import Fit
from holdfast.data.memory import memory_bytes
from holdfast.estimators.search import argument_columns
from holdfast.kernels.matrix import KernelRows
from holdfast.scores.choice import kernel_parts

__all__ = ["restored", "state_of", "trusted_types"]

#: Fields of the training data that are kept as they are.
_KEPT = ("X", "labels", "groups", "alphas", "flat", "seed", "basis", "policy", "bias", "jitter",
         "path", "standardize", "frames", "sample_weight")  # fmt: skip


def state_of(fitted: Fitted) -> dict[str, Any]:
    """Return a fitted model as a dict of arrays, numbers, text, and the objects a user passed."""
    training, model, found = fitted.training, fitted.model, fitted.search
    trend, weights, basis_rows = training.trend, training.weights, fitted.basis_rows
    return {
        "parameters": fitted.parameters,
        "training": {name: getattr(training, name) for name in _KEPT},
        "weights": None if (weights == 1.0).all() else weights,
        "experiments": _packed(training.experiments),
        "trend": None if trend is None else {f.name: getattr(trend, f.name) for f in fields(trend)},
        "kernel": model.kernel,
        "params": model.params,
        "basis": model.basis,
        "epsilon": float(model.epsilon),
        "selector": model.selector,
        "basis_rows": basis_rows.X if isinstance(basis_rows, KernelRows) else None,
        "alpha": found.alpha,
        "score": found.score,
        "index": found.index,
        "table": _packed_results(found.table) if found.table else None,
        "plan": None if found.plan is None else _told(found.plan),
        "coefficients": list(fitted.coefficients),
    }


def restored(state: Mapping[str, Any], Y: Any, objective: Objective) -> Fitted:
    """Return the fitted model that `state_of` made plain, with targets (m, v) and objective."""
    trend, weights, basis_rows = state["trend"], state["weights"], state["basis_rows"]
    kernel, parameters = state["kernel"], state["parameters"]
    training = TrainingData(
        **state["training"],
        Y=Y,
        weights=np.ones(len(Y)) if weights is None else weights,
        experiments=_unpacked(state["experiments"]),
        trend=None if trend is None else Trend(**trend),
        memory=memory_bytes(parameters["memory_limit"]),
    )
    data = rows_with_kernel(kernel, training.X, training.basis)
    own = state["params"], data, state["basis"], state["epsilon"], state["selector"]
    found = SearchResult(
        state["alpha"],
        state["score"],
        state["index"],
        _results(**state["table"]) if state["table"] else {},
        None if state["plan"] is None else _plan(**json.loads(state["plan"])),
    )
    rows = None if basis_rows is None else KernelRows(kernel, basis_rows)
    fit = Fit(*state["coefficients"])
    return Fitted(Model(training, kernel, *own), objective, found, parameters, fit, rows)


def _packed(experiments: Experiments) -> dict[str, Any]:
    """Return experiments as arrays of small integers."""
    held, test = experiments.held_out, experiments.test
    packed = {"held_out": _small(held.values), "sizes": _small(held.sizes)}
    same = np.array_equal(test.ptr, held.ptr) and np.array_equal(test.values, held.values)
    if test is held or same:
        return packed
    return {**packed, "test": _small(test.values), "tested": _small(test.sizes)}


def _unpacked(packed: Mapping[str, Any]) -> Experiments:
    held = _ragged(packed["held_out"], packed["sizes"])
    test = _ragged(packed["test"], packed["tested"]) if "test" in packed else held
    return Experiments(held, test)


def _ragged(values: Any, sizes: Any) -> Ragged:
    ptr = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    return Ragged(values.astype(np.int64), ptr)


def _small(values: Any) -> Any:
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


def _packed_results(results: dict[str, Any]) -> dict[str, Any]:
    """Return the table of scores: its numbers as one array, and the arguments of each kernel."""
    parts = kernel_parts(results)
    own = [without_alpha(results["params"][part.start]) for part in parts]
    numbers = [name for name, column in results.items() if _is_number(name, column)]
    rest = {
        name: column
        for name, column in results.items()
        if name not in numbers and not name.startswith("param")
    }
    return {
        "order": np.array(list(results)),
        "names": np.array(numbers),
        "numbers": np.array([results[name] for name in numbers]),
        "rest": rest,
        "arguments": own,
        "sizes": np.array([part.stop - part.start for part in parts]),
    }


def _is_number(name: str, column: Any) -> bool:
    array = np.asarray(column)
    return not name.startswith("param") and array.ndim == 1 and array.dtype == np.float64


def _results(
    order: Any, names: Any, numbers: Any, rest: dict[str, Any], arguments: list[Any], sizes: Any
) -> dict[str, Any]:
    columns = {**dict(zip(names.tolist(), numbers, strict=True)), **rest}
    columns |= argument_columns(arguments, sizes.tolist(), columns["alpha"])
    return {name: columns[name] for name in order.tolist()}


def _told(plan: Plan) -> str:
    costs = [astuple(cost) for cost in plan.costs]
    told = {"path": plan.path, "asked": plan.asked, "costs": costs, "facts": plan.facts}
    return json.dumps(told, default=str)


def _plan(path: str, asked: str, costs: list[Any], facts: dict[str, Any]) -> Plan:
    return Plan(path, asked, tuple(Cost(*cost) for cost in costs), facts)


def trusted_types() -> list[str]:
    """Return the names of the types that a saved model may hold, for ``skops.io.load``.

    Of holdfast, scikit-learn and SciPy: estimators, kernels, basis selectors, splitters,
    experiments, sparse matrices. None of them runs code that a file brings. Functions of users
    (kernels, scorers, trends) are not among them.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import skops.io
    >>> from sklearn.datasets import load_diabetes
    >>> from holdfast import KernelRidgeCV, trusted_types
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelRidgeCV(gamma=10.0, alphas=[1.0]).fit(X, y)
    >>> with TemporaryDirectory() as folder:
    ...     skops.io.dump(model, f"{folder}/diabetes.skops")
    ...     again = skops.io.load(f"{folder}/diabetes.skops", trusted=trusted_types())
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    modules = [holdfast, holdfast.kernels, holdfast.basis, holdfast.splitters]
    modules += [sklearn.model_selection, sklearn.gaussian_process.kernels]
    found = [one for module in modules for one in _classes(module)]
    found += [Calibration, Ragged, sp.csr_array, sp.csr_matrix]
    ours = [one for one in found if one.__module__.startswith(("holdfast.", "sklearn.", "scipy."))]
    return sorted({f"{one.__module__}.{one.__qualname__}" for one in ours})


def _classes(module: ModuleType) -> list[type]:
    """Return the classes that a module offers."""
    names = module.__all__ if module.__name__.startswith("holdfast") else list(vars(module))
    offered = (getattr(module, name) for name in names)
    return [one for one in offered if inspect.isclass(one) and not issubclass(one, Exception)]
