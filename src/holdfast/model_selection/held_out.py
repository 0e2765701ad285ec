"""Held-out predictions of all splits from one smoother."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from sklearn.linear_model import LinearRegression

from holdfast._typing import FloatArray, IntArray
from holdfast.core.data import Unpenalised, WeightedData
from holdfast.core.experiments import Experiments, Ragged, Tasks, resolve
from holdfast.core.feature_smoother import FeatureSmoother
from holdfast.core.features import StandardisedColumns
from holdfast.core.kernel_smoother import KernelSmoother
from holdfast.core.lapack import shared_threads
from holdfast.core.plan import make_plan
from holdfast.core.predict import predict
from holdfast.core.smoother import Smoother
from holdfast.data.memory import memory_bytes
from holdfast.exceptions import HoldfastError, HoldfastWarning, warn
from holdfast.kernels import Precomputed
from holdfast.kernels.matrix import KernelRows, PrecomputedRows
from holdfast.kernels.smoothers import make_smoother, require_room
from holdfast.model_selection import least_squares
from holdfast.model_selection.recognise import Form, Refit

__all__ = ["experiments_of", "predictions", "prepared", "tasks_of"]

Split = tuple[IntArray, IntArray]


def experiments_of(splits: Iterable[Split], m: int, everything: bool) -> Experiments:
    """Return splits of m rows as experiments: what is not trained on is held out.

    With `everything`, the rows that are trained on are predicted too.
    """
    held, tested, every = [], [], np.arange(m)
    out = np.empty(m, dtype=bool)
    for train, test in splits:
        train, test = np.asarray(train), np.asarray(test)
        if train.dtype == bool or test.dtype == bool:
            raise Refit("a split is a mask of the rows; row numbers have a closed form")
        if not train.size or not test.size:
            raise Refit("a split trains on no row, or tests none")
        out[:] = True
        out[train] = False
        rows = np.flatnonzero(out)
        if rows.size + train.size != m:
            raise Refit("a split trains on a row more than once")
        if not out[test].all():
            raise Refit("a split tests rows that it trains on")
        held.append(rows)
        tested.append(every if everything else test)
    return Experiments(Ragged.from_arrays(held), Ragged.from_arrays(tested))


def tasks_of(experiments: Experiments, weights: FloatArray) -> Tasks:
    """Return the tasks of experiments: rows without a weight are never trained on."""
    try:
        return resolve(experiments, weights=weights, basis=None, policy="remove")
    except HoldfastError as error:
        raise Refit("a split trains on no row that has a weight") from error


def prepared(form: Form) -> Smoother | None:
    """Return the smoother itself, for several `predictions`; None where nothing is shared."""
    if form.kernel is None or form.normalised:
        return None
    try:
        return _smoother(form, form.Y)
    except (HoldfastError, np.linalg.LinAlgError) as error:
        raise _failed(error) from error


def predictions(
    form: Form,
    experiments: Experiments,
    penalties: FloatArray,
    smoother: Smoother | None = None,
) -> FloatArray:
    """Return predictions (a, k, v) of all test rows, laid end to end, by the held-out models.

    At penalties (a, v); by a smoother of the same rows and weights, with these or other targets,
    if there is one.
    """
    tasks = tasks_of(experiments, form.weights)
    if form.kernel is None:
        return _unpenalised(form, tasks)[None]
    grid, index = np.unique(penalties, return_inverse=True)
    Y = form.Y
    if form.normalised:
        Y = np.hstack([Y, np.ones((len(Y), 1))])
    try:
        with shared_threads(len(Y), len(Y) ** 2):
            if smoother is not None:
                smoother = smoother.with_targets(Y)
            if smoother is None:
                smoother = _smoother(form, Y)
            path = make_plan(tasks, smoother.sizes(tasks), grid.size, "auto").path
            values = predict(smoother, tasks, grid, path)
    except (HoldfastError, np.linalg.LinAlgError) as error:
        raise _failed(error) from error
    if form.less_mean:
        values = values - _training_means(form.Y, tasks, form.weights)[tasks.test.owners]
    if form.normalised:
        # f₋H[y] + ȳ₋H (1 − f₋H[1]): the model of y less its mean, and the mean
        means = _training_means(form.Y, tasks, form.weights)[tasks.test.owners]
        values = values[..., :-1] + means * (1.0 - values[..., -1:])
    if grid.size == 1:
        return np.broadcast_to(values, (len(penalties), *values.shape[1:]))
    v = penalties.shape[1]
    index = index.reshape(penalties.shape)
    if (index == index[:, :1]).all():
        return values[index[:, 0]]
    return np.stack([values[own, :, np.arange(v)].T for own in index])


def _failed(error: Exception) -> Refit:
    return Refit(f"the equations of all rows cannot be solved here ({error})")


def _unpenalised(form: Form, tasks: Tasks) -> FloatArray:
    """Return predictions (k, v) of least squares; scikit-learn's where a column is undetermined."""
    values, lost = least_squares.held_out(form, tasks)
    sets = np.flatnonzero(lost)
    if sets.size and form.unit_weights is not None:
        raise Refit("a split leaves a column behind StandardScaler without a penalty undetermined")
    if sets.size:
        warn(
            f"{sets.size} of {len(tasks)} splits leave a column without a penalty undetermined: "
            "their models are refitted, with scikit-learn's answer of minimum norm.",
            HoldfastWarning,
        )
    every = np.arange(len(form.Y))
    for j in sets.tolist():
        train, test = np.setdiff1d(every, tasks.held[j]), tasks.test[j]
        given = {"tol": form.cut} if form.cut else {}
        model = LinearRegression(fit_intercept=form.bias, **given)
        model.fit(form.rows[train], form.Y[train], sample_weight=form.weights[train])
        values[tasks.test.ptr[j] : tasks.test.ptr[j + 1]] = model.predict(form.rows[test])
    return values


def _smoother(form: Form, Y: FloatArray) -> Smoother:
    assert form.kernel is not None
    memory = memory_bytes(None)
    data = WeightedData.of(Y, form.weights, Unpenalised.bias(form.weights, form.bias))
    if isinstance(form.kernel, Precomputed):
        require_room(len(Y), memory)
        return KernelSmoother(PrecomputedRows(form.rows), data, memory)
    if form.unit_weights is not None:
        return FeatureSmoother(StandardisedColumns(form.rows, form.unit_weights), data, memory)
    rows = KernelRows(form.kernel, form.rows)
    return make_smoother(form.kernel, rows, form.rows, data, memory=memory)


def _training_means(Y: FloatArray, tasks: Tasks, weights: FloatArray) -> FloatArray:
    """Return the mean target (J, v) of the rows that each task trains on."""
    held, rows = np.zeros((len(tasks), Y.shape[1] + 1)), tasks.held.values
    centre = np.average(Y, axis=0, weights=weights)
    sums = weights[:, None] * np.column_stack([Y - centre, np.ones(len(Y))])
    np.add.at(held, tasks.held.owners, sums[rows])
    left = sums.sum(axis=0) - held
    return np.asarray(centre + left[:, :-1] / left[:, -1:])
