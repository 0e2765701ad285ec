"""Grouped data and what paper 000 §6.4 measures on it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from holdfast import HoldOut, KernelRidgeCV
from holdfast.basis import PerGroup
from holdfast.kernels import Kernel, Linear
from reproduce._approaches import SHIFT, chosen, fitted
from reproduce._verdicts import mean_and_error
from reproduce.datasets import DataNotFoundError, Dataset, load, make_parses

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

CURVES = (
    "1: held-out basis row removed",
    "2: held-out basis row trained on",
    "3: held-out basis row kept in the basis",
    "independent test groups",
)
WITHOUT = "2, the row trained on not counted"
STAND_IN = "stand-in"


@dataclass(frozen=True)
class GroupedTask:
    """Training groups and independent test groups."""

    title: str
    train: Dataset
    test: Dataset

    def describe(self) -> str:
        """Return the sizes in words."""
        assert self.train.groups is not None
        assert self.test.groups is not None
        return (
            f"{self.train.source}: {len(self.train):,} rows of {np.unique(self.train.groups).size} "
            f"groups; test: {np.unique(self.test.groups).size} groups, {len(self.test):,} rows"
        )


REAL = (("public parse sample", "parse_rank_rlscore"), ("web queries", "lightgbm_rank"))


def stand_in(rng: np.random.Generator | None = None) -> GroupedTask:
    """Return the generated stand-in for the parse data of paper 000, or other sentences like it."""
    if rng is None:
        return _task(STAND_IN, load("parse_stand_in"))
    return _task(STAND_IN, make_parses(n_train_rows=2354, seed=int(rng.integers(2**31))))


def real_tasks(folder: str | os.PathLike[str] | None) -> tuple[list[GroupedTask], list[str]]:
    """Return the real grouped data that are at hand, and a note for each that is not."""
    found, notes = [], []
    for title, name in REAL:
        try:
            found.append(_task(title, load(name, folder)))
        except DataNotFoundError as error:
            notes.append(f"Not run: {title}. {error}")
    return found, notes


def _task(title: str, data: Dataset) -> GroupedTask:
    return GroupedTask(title, data.train(), data.test())


def one_basis_row_per_group(data: Dataset, rng: np.random.Generator) -> Rows:
    """Return one random row of every group."""
    seed = int(rng.integers(2**31))
    return chosen(PerGroup(1), Linear(), data.X, data.y, seed, data.groups).basis_indices_


def relative_shift(data: Dataset, kernel: Kernel, basis: Rows) -> float:
    """Return the paper's 10⁻⁷ relative to the mean diagonal of K_BB, as `jitter` wants it."""
    return float(SHIFT / np.mean(kernel.diag(data.X[basis])))


class GroupErrors(NamedTuple):
    """Mean squared error at each penalty, and how much it owes to each group.

    Attributes
    ----------
    mse : (alphas,)
        Over all rows tested.
    terms : (groups, alphas)
        What each group adds to the logarithm of the error, to first order. Other groups of the
        same kind would give an error whose logarithm varies as the sum of such terms does.
    """

    mse: Floats
    terms: Floats


class Draws(NamedTuple):
    """An error over several choices of basis rows.

    Attributes
    ----------
    logs : (draws, alphas)
        Its logarithm.
    terms : (groups, alphas)
        What each group adds to it (`GroupErrors`), on average over the choices.
    """

    logs: Floats
    terms: Floats

    @classmethod
    def of(cls, runs: list[GroupErrors], again: bool = False) -> Draws:
        """Return the draws of one curve; with the groups drawn `again` they have no noise left."""
        logs = np.log([run.mse for run in runs])
        if again:
            return cls(logs, np.zeros((1, logs.shape[1])))
        return cls(logs, np.mean([run.terms for run in runs], axis=0))

    def pick(self, read: Callable[[Floats], Floats]) -> Draws:
        """Return the same of a number read off the curve: a linear function of the last axis."""
        return Draws(read(self.logs), read(self.terms))

    def less(self, other: Draws, same_groups: bool = False) -> tuple[float, float]:
        """Return the mean difference of two numbers read off curves, and its standard error.

        Notes
        -----
        The choice of basis rows adds to it what differs from draw to draw; the choice of groups
        adds the squares of their terms, of the differences where both are tested on the same.
        """
        mean, error = mean_and_error(self.logs - other.logs)
        if same_groups:
            groups = _variance(self.terms - other.terms)
        else:
            groups = _variance(self.terms) + _variance(other.terms)
        return float(mean), float(np.sqrt(error**2 + groups))


def _variance(terms: Floats) -> float:
    """Return the variance of a sum of terms of independent groups."""
    return float(np.square(terms).sum() * len(terms) / max(1, len(terms) - 1))


def curves_of(
    task: GroupedTask, kernel: Kernel, basis: Rows, alphas: Floats
) -> dict[str, GroupErrors]:
    """Return the three CV estimates of the error and the test error."""
    data = task.train
    assert data.groups is not None
    whole = [HoldOut(np.flatnonzero(data.groups == group)) for group in np.unique(data.groups)]
    options = {
        "kernel": kernel,
        "basis": basis,
        "jitter": relative_shift(data, kernel, basis),
        "cv": whole,
    }
    models = {
        name: fitted(data.X, data.y, alphas, held_out_basis=policy, **options)
        for name, policy in zip(CURVES, ("remove", "train", "keep"), strict=False)
    }
    found = {name: _errors_of(model, data.y, data.groups) for name, model in models.items()}
    found[CURVES[3]] = test_error(task, kernel, basis, alphas)
    found[WITHOUT] = _errors_of(models[CURVES[1]], data.y, data.groups, leave=basis)
    return found


def test_error(task: GroupedTask, kernel: Kernel, basis: Rows, alphas: Floats) -> GroupErrors:
    """Return the error on the test groups of the model trained on all training rows.

    Notes
    -----
    One experiment that holds out the test rows: its model never saw them.
    """
    data, test = task.train, task.test
    assert data.groups is not None
    assert test.groups is not None
    X = sparse.vstack([data.X, test.X]) if sparse.issparse(data.X) else np.vstack([data.X, test.X])
    rows = len(data) + np.arange(len(test))
    y, groups = np.concatenate([data.y, test.y]), np.concatenate([data.groups, test.groups])
    model = fitted(
        X,
        y,
        alphas,
        kernel=kernel,
        basis=basis,
        jitter=relative_shift(data, kernel, basis),
        cv=[HoldOut(rows)],
    )
    return _errors_of(model, y, groups)


def _errors_of(
    model: KernelRidgeCV, y: Floats, groups: NDArray[Any], leave: Rows | None = None
) -> GroupErrors:
    """Return the held-out errors of a fitted model; rows of `leave` do not count."""
    held = model.held_out()
    rows = np.concatenate([trial.test for trial in held.experiments])
    squares = (np.concatenate([part[:, :, 0] for part in held.predictions], axis=1) - y[rows]) ** 2
    if leave is not None:
        counted = ~np.isin(rows, leave)
        rows, squares = rows[counted], squares[:, counted]
    names, owner = np.unique(groups[rows], return_inverse=True)
    sums = np.zeros((names.size, len(squares)))
    np.add.at(sums, owner, squares.T)
    sizes = np.bincount(owner)
    mse = sums.sum(axis=0) / rows.size
    return GroupErrors(mse, (sums / mse - sizes[:, None]) / rows.size)


def kernel_values(data: Dataset, kernel: Kernel, basis: Rows) -> dict[str, float]:
    """Return the mean |k| between basis rows and rows of their own and of other groups."""
    assert data.groups is not None
    K = np.abs(kernel(data.X, data.X[basis]))  # (m, n)
    same = data.groups[:, None] == data.groups[basis]
    return {"k_inside": float(K[same].mean()), "k_outside": float(K[~same].mean())}


def coefficients(data: Dataset, kernel: Kernel, basis: Rows, alpha: float) -> dict[str, float]:
    """Return means of |a| and |a k| for basis rows in and out of the held-out group (approach 3).

    Notes
    -----
    With ``A = KᵀK + λ(K_BB + εI)``, K (m, n), and ``G = A⁻¹Kᵀ``, the coefficients without the rows
    H are ``a - G_H (I - K_H G_H)⁻¹ (y_H - K_H a)`` (Sherman, Morrison and Woodbury).
    """
    assert data.groups is not None
    K = kernel(data.X, data.X[basis])
    n = basis.size
    A = K.T @ K + alpha * (K[basis] + SHIFT * np.eye(n))
    factor = linalg.cho_factor(A, lower=True)
    G = linalg.cho_solve(factor, K.T)  # (n, m)
    a = G @ data.y
    sums = {name: np.zeros(2) for name in ("a_inside", "a_outside", "ak_inside", "ak_outside")}
    for group in np.unique(data.groups):
        H = np.flatnonzero(data.groups == group)
        residual = np.linalg.solve(np.eye(H.size) - K[H] @ G[:, H], data.y[H] - K[H] @ a)
        size = np.abs(a - G[:, H] @ residual)
        inside = data.groups[basis] == group
        products = np.abs(K[H]) * size
        for place, columns in (("inside", inside), ("outside", ~inside)):
            sums[f"a_{place}"] += size[columns].sum(), columns.sum()
            sums[f"ak_{place}"] += products[:, columns].sum(), H.size * columns.sum()
    return {name: float(total / count) for name, (total, count) in sums.items()}


def why_not(task: GroupedTask, ratio: float, paper_groups: int = 501) -> str:
    """Return why a claim may fail on this data: no clusters, or too few of them."""
    assert task.train.groups is not None
    n_groups = np.unique(task.train.groups).size
    if ratio < 2.0:
        return (
            f"these groups are hardly clusters: kernel values within a group are {ratio:.1f} times "
            "those between groups (paper: about 3), so it matters little what happens to one row."
        )
    if n_groups < min(100, paper_groups):
        return (
            f"there are only {n_groups} training groups (paper: {paper_groups}): the estimates are "
            "noisy."
        )
    return ""
