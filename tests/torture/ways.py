"""The same problems by other ways than the paths: on a cluster, with reselected basis rows, tuned.

Each has the exact answer and retraining by QR beside it, as `torture.measure` has for the paths.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from holdfast import KernelRidgeCV
from holdfast.exceptions import HoldfastWarning
from holdfast.tuning import Criterion
from reference.oracle import exact_retrain
from reference.retrain import retrain
from torture.families import Problem
from torture.measure import Measured, _references, answered, estimator

Floats = NDArray[np.float64]


def cluster(p: Problem) -> Measured | None:
    """Return the errors with rows as a Dask array in chunks; a dense model has none there."""
    if p.basis is None and p.kernel["kernel"] != "linear":
        return None
    import dask
    import dask.array as da

    exact, qr = _references(p)
    with dask.config.set(scheduler="synchronous"):
        model = _fit(estimator(p, "auto"), da.from_array(p.X, chunks=(9, -1)), p)
        values, told = answered(model, p.alphas)
    return _measured(p, "cluster", exact, qr, values, told)


def reselect(p: Problem) -> Measured | None:
    """Return the errors where every experiment chooses its own basis rows."""
    if p.basis is None:
        return None
    asked = estimator(p, "auto").set_params(
        basis=len(p.basis), held_out_basis="reselect", random_state=p.seed
    )
    model = _fit(asked, p.X, p)
    values, told = answered(model, p.alphas)
    K, weights = np.asarray(model.kernel_(p.X)), _weights(p)
    exact, qr = [], []
    for held in p.sets:
        chosen = model._fitted_model().chosen_basis(held)  # which rows: no question of digits
        assert not set(chosen.rows) & set(held)
        more = (chosen.rows, (), weights, p.bias, chosen.epsilon)
        alphas = [float(alpha) for alpha in p.alphas]
        exact.append([exact_retrain(K, p.y, held, held, a, *more)[:, 0] for a in alphas])
        qr.append([retrain(K, p.y, held, held, a, *more, solver="qr")[:, 0] for a in alphas])
    joined = [np.concatenate(parts, axis=1) for parts in (exact, qr)]
    return _measured(p, "reselect", joined[0], joined[1], values, told)


def tuning(p: Problem) -> Measured | None:
    """Return the errors of the root of the tuned criterion, which move no more than predictions."""
    if p.kernel["kernel"] != "rbf":
        return None
    if p.policy == "train":
        p = replace(p, policy="keep")
    exact, qr = _references(p)
    tested = np.concatenate(p.sets)
    share = _weights(p)[tested] / _weights(p)[tested].sum()
    criterion = Criterion.of(estimator(p, "auto"), p.X, p.y, sample_weight=p.weights)
    points = [np.log([alpha, p.kernel["gamma"]]) for alpha in p.alphas]
    found = np.sqrt([criterion.evaluate(point, gradient=False).value for point in points])
    truth = np.sqrt((exact - p.y[tested]) ** 2 @ share)
    size = np.abs(exact).max(axis=1)
    return Measured(
        p, np.abs(qr - exact).max(axis=1) / size, {"tuning": np.abs(found - truth) / size},
        {"tuning": set()},
    )  # fmt: skip


WAYS: dict[str, Callable[[Problem], Measured | None]] = {
    "cluster": cluster,
    "reselect": reselect,
    "tuning": tuning,
}


def _weights(p: Problem) -> Floats:
    return np.ones(len(p.X)) if p.weights is None else p.weights


def _fit(model: KernelRidgeCV, rows: object, p: Problem) -> KernelRidgeCV:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HoldfastWarning)
        return model.fit(rows, p.y, sample_weight=p.weights)


def _measured(
    p: Problem, way: str, exact: Floats, qr: Floats, values: Floats, told: set[float]
) -> Measured:
    size = np.maximum(np.abs(exact).max(axis=1), np.finfo(float).tiny)
    error = np.abs(values - exact).max(axis=(0, 2)) / size
    return Measured(p, np.abs(qr - exact).max(axis=1) / size, {way: error}, {way: told})
