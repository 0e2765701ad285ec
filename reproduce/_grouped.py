"""Grouped data and what paper 000 §6.4 measures on it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from holdfast import HoldOut, KernelRidgeCV
from holdfast.basis import PerGroup
from holdfast.kernels import Kernel, Linear
from reproduce._approaches import SHIFT, chosen, fitted
from reproduce._parses import make_parses
from reproduce.datasets import Dataset

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

CURVES = (
    "1: held-out basis row removed",
    "2: held-out basis row trained on",
    "3: held-out basis row kept in the basis",
    "independent test groups",
)
WITHOUT = "2, the row trained on not counted"


class GroupedTask(NamedTuple):
    """Training groups and independent test groups."""

    train: Dataset
    test: Dataset

    def describe(self) -> str:
        """Return the sizes in words."""
        train, test = (np.unique(groups_of(part)).size for part in self)
        return (
            f"{self.train.source}: {len(self.train):,} rows of {train} groups; test: {test} "
            f"groups, {len(self.test):,} rows"
        )

    def together(self) -> tuple[Dataset, Rows]:
        """Return all rows as one data set, and where the test rows are in it."""
        train, test = self
        together = Dataset(
            train.name,
            sparse.vstack([train.X, test.X]),
            np.concatenate([train.y, test.y]),
            train.source,
            np.concatenate([groups_of(train), groups_of(test)]),
        )
        return together, len(train) + np.arange(len(test))


def groups_of(data: Dataset) -> NDArray[np.int64]:
    """Return the group of each row of data that have groups."""
    assert data.groups is not None
    return data.groups


def stand_in(rng: np.random.Generator | None = None) -> GroupedTask:
    """Return the generated stand-in for the parse data of paper 000, or other sentences like it."""
    # As many sentences and parses as in paper 000 §6.4.
    data = make_parses(n_train_rows=2354, seed=0 if rng is None else int(rng.integers(2**31)))
    return GroupedTask(data.train(), data.test())


def one_basis_row_per_group(data: Dataset, rng: np.random.Generator) -> Rows:
    """Return one random row of every group."""
    seed = int(rng.integers(2**31))
    return chosen(PerGroup(1), Linear(), data.X, data.y, seed, data.groups).basis_indices_


def relative_shift(data: Dataset, kernel: Kernel, basis: Rows) -> float:
    """Return the paper's 10⁻⁷ relative to the mean diagonal of K_BB, as `jitter` wants it."""
    return float(SHIFT / np.mean(kernel.diag(data.X[basis])))


def curves_of(task: GroupedTask, kernel: Kernel, basis: Rows, alphas: Floats) -> dict[str, Floats]:
    """Return the three CV estimates of the mean squared error and the test error, (alphas,)."""
    data = task.train
    groups = groups_of(data)
    options = {
        "kernel": kernel,
        "basis": basis,
        "jitter": relative_shift(data, kernel, basis),
        "cv": [HoldOut(np.flatnonzero(groups == group)) for group in np.unique(groups)],
    }
    models = [
        fitted(data.X, data.y, alphas, held_out_basis=policy, **options)
        for policy in ("remove", "train", "keep")
    ]
    estimates = [_mse(model, data.y) for model in models]
    curves = dict(zip(CURVES, [*estimates, test_error(task, kernel, basis, alphas)], strict=True))
    return {**curves, WITHOUT: _mse(models[1], data.y, leave=basis)}


def test_error(task: GroupedTask, kernel: Kernel, basis: Rows, alphas: Floats) -> Floats:
    """Return the mean squared error on the test groups of the model of all training rows.

    Notes
    -----
    One experiment that holds out the test rows: its model never saw them.
    """
    both, rows = task.together()
    model = fitted(
        both.X,
        both.y,
        alphas,
        kernel=kernel,
        basis=basis,
        jitter=relative_shift(task.train, kernel, basis),
        cv=[HoldOut(rows)],
    )
    return _mse(model, both.y)


def _mse(model: KernelRidgeCV, y: Floats, leave: Rows | None = None) -> Floats:
    """Return the mean squared held-out error at each penalty; rows of `leave` do not count."""
    held = model.held_out()
    rows = np.concatenate([trial.test for trial in held.experiments])
    squares = (np.concatenate([part[:, :, 0] for part in held.predictions], axis=1) - y[rows]) ** 2
    if leave is not None:
        squares = squares[:, ~np.isin(rows, leave)]
    return np.asarray(squares.mean(axis=1))


def kernel_values(data: Dataset, kernel: Kernel, basis: Rows) -> dict[str, float]:
    """Return the mean |k| between basis rows and rows of their own and of other groups."""
    groups = groups_of(data)
    K = np.abs(kernel(data.X, data.X[basis]))  # (m, n)
    same = groups[:, None] == groups[basis]
    return {"k_inside": float(K[same].mean()), "k_outside": float(K[~same].mean())}


def coefficients(data: Dataset, kernel: Kernel, basis: Rows, alpha: float) -> dict[str, float]:
    """Return means of |a| and |a k| for basis rows inside and outside the held-out group."""
    groups, K = groups_of(data), np.abs(kernel(data.X, data.X[basis]))
    shift = relative_shift(data, kernel, basis)
    options = {"kernel": kernel, "basis": basis, "jitter": shift, "held_out_basis": "keep"}
    model = fitted(data.X, data.y, np.array([alpha]), **options)
    sums = {name: np.zeros(2) for name in ("a_inside", "a_outside", "ak_inside", "ak_outside")}
    for group in np.unique(groups):
        H = np.flatnonzero(groups == group)
        size = np.abs(model.coef_without(H).dual_coef)
        inside, products = groups[basis] == group, K[H] * size
        for place, columns in (("inside", inside), ("outside", ~inside)):
            sums[f"a_{place}"] += size[columns].sum(), columns.sum()
            sums[f"ak_{place}"] += products[:, columns].sum(), H.size * columns.sum()
    return {name: float(total / count) for name, (total, count) in sums.items()}
