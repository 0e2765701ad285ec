"""Errors of every path and of explicit retraining against 50-digit arithmetic.

A *cell* is a condition number of the kernel matrix, a penalty, a model, a kind of held-out set and
a path. Each random problem has several held-out sets of the kind; its error is the largest over
max(spread of y, |f − mean of y|). The error of the cell is the largest over the problems, that of
retraining the largest over the same problems: two stable methods differ by a factor of several on a
single problem by luck alone, in either direction.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast import HoldOut, KernelRidgeCV
from holdfast.core.predict import PATHS
from holdfast.exceptions import PrecisionWarning
from reference import printed
from reference.oracle import Problem, conditioned_problem
from reference.retrain import SOLVERS, Policy, policy_experiment, retrain
from tolerances import yardstick_error
from torture.truth import exact_models

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

CONDITIONS = (1e4, 1e6, 1e8, 1e10, 1e12, 1e14)
ALPHAS = (1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1.0, 1e2, 1e4, 1e6)
#: "remove" and "keep" are sparse models; every row of a dense model is a basis row.
MODELS = ("remove", "keep", "dense")
#: Leave-one-out of some rows; a fifth, a third and seven tenths of the rows and of the basis.
KINDS = ("one row", "a fifth", "a third", "most rows")

#: Rows and basis rows: exact arithmetic costs seconds beyond. Three times as many rows as basis
#: rows take the package's way for many rows.
SPARSE_SIZE, DENSE_SIZE = (36, 12), (16, 16)


@dataclass(frozen=True)
class Cell:
    """Largest errors of one cell.

    Attributes
    ----------
    condition, alpha, model, bias, kind : what was measured
    errors : dict
        By path; ``"whitened"``, ``"qr"``, ``"normal"`` for explicit retraining; ``"printed"`` for
        the papers' formulas (000 Proposition 1 or Corollary 2, 003 (16)), which have no bias.
    rounding : float
        The rounding error that the fits predict, in the same unit.
    """

    condition: float
    alpha: float
    model: str
    bias: bool
    kind: str
    errors: dict[str, float]
    rounding: float


def problem(condition: float, model: str, seed: int) -> Problem:
    """Return a random problem whose basis block (dense: whole matrix) has this condition."""
    m, n = DENSE_SIZE if model == "dense" else SPARSE_SIZE
    # One target, so that a dense model is solved through its tridiagonal reduction.
    return conditioned_problem(condition, m, n, 3, 3, n_targets=1, seed=seed)


def held_out_sets(p: Problem, model: str, kind: str, seed: int) -> list[Rows]:
    """Return held-out sets of a kind, as large a share of the basis rows as of the others."""
    m, rng = len(p.K), np.random.default_rng([seed, KINDS.index(kind)])
    others = np.setdiff1d(np.arange(m), p.basis)
    if kind == "one row":
        rows = np.concatenate([p.basis[: 6 - len(others[:3])], others[:3]])
        return [np.array([row]) for row in rows]
    share = {"a fifth": 0.2, "a third": 1 / 3, "most rows": 0.7}[kind]
    sets = []
    for _ in range(2):
        parts = [rng.permutation(rows)[: round(share * rows.size)] for rows in (p.basis, others)]
        sets.append(rng.permutation(np.concatenate(parts)))
    return sets


def cells(
    condition: float,
    model: str,
    bias: bool,
    seeds: Sequence[int],
    alphas: Sequence[float] = ALPHAS,
    kinds: Sequence[str] = KINDS,
) -> Iterator[Cell]:
    """Yield the cells of one condition number and model, for every penalty and kind."""
    for kind in kinds:
        worst: dict[tuple[float, str], float] = {}
        for seed in seeds:
            p = problem(condition, model, seed)
            sets = held_out_sets(p, model, kind, seed)
            for key, error in _errors(p, sets, model, bias, alphas).items():
                worst[key] = max(worst.get(key, 0.0), error)
        for alpha in alphas:
            errors = {name: error for (a, name), error in worst.items() if a == alpha}
            yield Cell(condition, alpha, model, bias, kind, errors, errors.pop("rounding"))


def _errors(
    p: Problem, sets: Sequence[Rows], model: str, bias: bool, alphas: Sequence[float]
) -> dict[tuple[float, str], float]:
    """Return the errors of all methods over the held-out sets, by (alpha, method)."""
    basis = None if model == "dense" else p.basis
    policy: Policy = "keep" if model == "keep" else "remove"
    experiments = []
    for held_out in sets:
        H, T, removed = policy_experiment(held_out, held_out, basis, policy)
        experiments.append(((p.K, p.y, H, T), (basis, removed, None, bias)))
    computed = {path: _held_out(p, sets, basis, policy, bias, alphas, path) for path in PATHS}
    errors, ones = {}, np.ones(len(p.K))
    exact_all = [
        exact_models(K, y, H, T, np.array(alphas), basis, removed, ones, bias, 0.0)
        for (K, y, H, T), (_, removed, _, _) in experiments
    ]
    for a, alpha in enumerate(alphas):
        exact = np.concatenate([part[a] for part in exact_all])
        errors[alpha, "rounding"] = max(float(rounding[a]) for _, rounding in computed.values())
        for path in PATHS:
            errors[alpha, path] = yardstick_error(computed[path][0][a], exact, p.y)
        for solver in SOLVERS:
            try:
                again = [retrain(*e, alpha, *m, solver=solver) for e, m in experiments]
                errors[alpha, solver] = yardstick_error(np.concatenate(again), exact, p.y)
            except np.linalg.LinAlgError:  # the raw normal equations, singular to working precision
                errors[alpha, solver] = np.inf
        if not bias:
            printed_values = np.concatenate([_printed(p, rows, model, alpha) for rows in sets])
            errors[alpha, "printed"] = yardstick_error(printed_values, exact, p.y)
    return errors


def _printed(p: Problem, held_out: Rows, model: str, alpha: float) -> Floats:
    """Return held-out predictions by the formula that the papers print for this model."""
    if model == "dense":
        return p.y[held_out] - printed.equation_16(p.K, p.y, held_out, alpha)
    caches = printed.proposition_1_caches(p.K, p.y, p.basis)
    return printed.proposition_1(caches, held_out, alpha, remove=model == "remove")


def _held_out(
    p: Problem,
    sets: Sequence[Rows],
    basis: Rows | None,
    policy: Policy,
    bias: bool,
    alphas: Sequence[float],
    path: str,
) -> tuple[Floats, Floats]:
    """Return predictions (alphas, test rows of all sets, targets), predicted errors (alphas,)."""
    estimator = KernelRidgeCV(
        "precomputed",
        alphas=list(alphas),
        basis=basis,
        cv=[HoldOut(rows) for rows in sets],
        held_out_basis=policy,
        fit_intercept=bias,
        jitter=0.0,
        path=path,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)  # the table shows how large errors are
        estimator.fit(p.K if basis is None else p.K[:, basis], p.y)
    return estimator.held_out().values, np.asarray(estimator.cv_results_["rounding"])
