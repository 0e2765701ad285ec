"""The same problems by other ways than the paths: streamed, by neighbourhoods, on a cluster, …

Each has the exact answer and retraining by QR beside it, as `torture.measure` has for the paths.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from holdfast import HoldOut
from recorded import Recorded, chosen_for
from reference.retrain import training_rows
from torture.families import Problem
from torture.measure import Measured, by_one_way, fitted
from torture.truth import of_models, truth

#: Bytes into which no feature rows fit: they are made again whenever they are used.
LITTLE_MEMORY = 64.0
#: Rows on either side that are held out with a row.
WINDOW = 4


def streamed(p: Problem) -> Measured | None:
    """Return the errors where feature rows are never kept; a dense model keeps its matrix."""
    if p.is_dense or p.X.shape[1] >= len(p.X):
        return None
    model = fitted(p, "auto", memory_limit=LITTLE_MEMORY)
    return by_one_way(p, "streamed", truth(p, model), model)


def cluster(p: Problem) -> Measured | None:
    """Return the errors with rows as a Dask array in chunks; a dense model has none there."""
    if p.is_dense:
        return None
    import dask
    import dask.array as da

    with dask.config.set(scheduler="synchronous"):
        model = fitted(p, "auto", da.from_array(p.X, chunks=(9, -1)))
        return by_one_way(p, "cluster", truth(p, model), model)


def reselect(p: Problem) -> Measured | None:
    """Return the errors where every experiment chooses its own basis rows."""
    if p.basis is None:
        return None
    asked = {"basis": Recorded(len(p.basis)), "held_out_basis": "reselect", "random_state": p.seed}
    model = fitted(p, "auto", **asked)
    K, none = np.asarray(model.kernel_(p.X)), np.empty(0, dtype=np.int64)
    experiments = []
    for held, positions in zip(p.sets, chosen_for(model, alphas=p.alphas), strict=True):
        basis = training_rows(len(p.X), held, p.row_weights)[positions]
        jitter = model.jitter * np.diag(K)[basis].mean()
        experiments.append((held, held, basis, none, jitter))
    return by_one_way(p, "reselect", of_models(p, K, experiments), model)


def neighbourhoods(p: Problem) -> Measured | None:
    """Return the errors where every row is tested alone, held out with the rows beside it.

    Such sets overlap, and are answered from products that they share.
    """
    m = len(p.X)
    sets = [np.arange(max(0, i - WINDOW), min(m, i + WINDOW + 1)) for i in range(m)]
    tests = [np.array([i]) for i in range(m)]
    p, cv = replace(p, sets=sets), [HoldOut(*one) for one in zip(sets, tests, strict=True)]
    model = fitted(p, "auto", cv=cv)
    return by_one_way(p, "neighbourhoods", truth(p, model, tests), model)


WAYS: dict[str, Callable[[Problem], Measured | None]] = {
    "streamed": streamed,
    "neighbourhoods": neighbourhoods,
    "cluster": cluster,
    "reselect": reselect,
}
