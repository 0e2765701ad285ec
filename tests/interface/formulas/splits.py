"""What splitters hold out, from the definitions."""

from __future__ import annotations

import numpy as np

from holdfast.splitters import (
    HBlock,
    LeaveCorrelatedOut,
    LeaveHopsOut,
    LeaveNeighbourhoodOut,
    PurgedKFold,
    SpatialBlocks,
    TimeSteps,
)
from interface.formulas import example
from interface.formulas.problem import X, m


def held(splitter) -> list[set[int]]:
    return [set(experiment.held_out.tolist()) for experiment in splitter.experiments(m)]


@example("splitters.LeaveNeighbourhoodOut", "splitters.HBlock")
def _():
    apart = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    assert held(LeaveNeighbourhoodOut(X, 1.5)) == [set(np.flatnonzero(row <= 1.5)) for row in apart]
    rows = np.arange(m)
    assert held(HBlock(3)) == [set(np.flatnonzero(abs(rows - i) <= 3)) for i in rows]


@example("splitters.LeaveCorrelatedOut")
def _():
    K = 1.0 + X @ X.T
    alike = np.abs(K) / np.sqrt(np.outer(np.diag(K), np.diag(K)))
    most = np.argsort(-alike, axis=1)[:, :4]
    assert held(LeaveCorrelatedOut(K, 4 / m)) == [set(row) for row in most]


@example("splitters.LeaveHopsOut")
def _():
    edges = [(i, (3 * i + 1) % m) for i in range(0, m, 2)]
    A = np.zeros((m, m))
    for i, j in edges:
        A[i, j] = A[j, i] = 1.0
    near = np.linalg.matrix_power(A + np.eye(m), 2) > 0
    assert held(LeaveHopsOut(edges, 2)) == [set(np.flatnonzero(row)) for row in near]


@example("splitters.TimeSteps")
def _():
    times = X[:, 0]
    for experiment in TimeSteps(times, 3).experiments(m):
        trained = np.setdiff1d(np.arange(m), experiment.held_out)
        assert times[trained].max() < times[experiment.test].min()


@example("splitters.PurgedKFold", "splitters.SpatialBlocks")
def _():
    folds = np.array_split(np.arange(m), 4)
    around = [set(range(max(f[0] - 1, 0), min(f[-1] + 2, m - 1) + 1)) for f in folds]
    assert held(PurgedKFold(4, purge=1, embargo=2)) == around
    cells = np.floor(X / 1.2)
    found = held(SpatialBlocks(X, 1.2))
    assert {frozenset(part) for part in found} == {
        frozenset(np.flatnonzero((cells == cell).all(axis=1)).tolist()) for cell in cells
    }
