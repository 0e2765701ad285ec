"""The papers' own baselines, from the reproductions: one factorisation for every penalty."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.problems import Data, Floats, Problem
from benchmarks.rivals.base import Outcome, Rival, needs_retraining, only_dense
from benchmarks.rivals.by_hand import rbf, shifted
from reproduce._baselines import an_et_al, cawley_talbot, eigendecomposition, naive_dense


def _read(problem: Problem, data: Data, result: Floats) -> Outcome:
    return Outcome(predictions=result)


def _method_one(problem: Problem, data: Data) -> Floats:
    assert data.basis is not None
    K = rbf(data.X, data.X[data.basis], problem.gamma)
    K_BB = shifted(K[data.basis])
    return np.stack([cawley_talbot(K, K_BB, data.y, float(alpha)) for alpha in problem.alphas])


def _loo_with_basis(problem: Problem) -> str | None:
    if problem.dense or problem.split != "loo":
        return "is leave-one-out of a sparse model"
    return None


def _dense(method: Callable[..., Floats]) -> Callable[[Problem, Data], Floats]:
    def run(problem: Problem, data: Data) -> Floats:
        K = np.ascontiguousarray(rbf(data.X, data.X, problem.gamma))
        return method(K, data.y, data.experiments(), problem.alphas)

    return run


RIVALS = (
    Rival(
        "cawley-talbot",
        "Cawley–Talbot for each λ (Pahikkala et al. 2012 method 1)",
        _method_one,
        _read,
        refuses=_loo_with_basis,
        package="scipy",
    ),
    Rival(
        "tanaka-imai-naive",
        "Tanaka and Imai 2019, naive",
        _dense(naive_dense),
        _read,
        refuses=lambda problem: only_dense(problem) or needs_retraining(problem),
        package="scipy",
    ),
    Rival(
        "an-et-al",
        "An et al., one inverse per λ",
        _dense(an_et_al),
        _read,
        refuses=only_dense,
        package="scipy",
    ),
    Rival(
        "tanaka-imai-eigen",
        "Tanaka and Imai 2019, one eigendecomposition",
        _dense(eigendecomposition),
        _read,
        refuses=only_dense,
        package="scipy",
    ),
)
