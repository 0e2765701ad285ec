"""The plan of a fit without the fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.basis import Random
from holdfast.basis.base import how_many
from holdfast.basis.resolve import as_selector
from holdfast.cli.fitting import Data
from holdfast.estimators.automatic import told_basis
from holdfast.estimators.model import make_model, rows_with_kernel
from holdfast.experiments import resolve
from holdfast.holdout.plan import make_plan
from holdfast.scores.penalties import COUNT
from holdfast.smoother import Sizes
from holdfast.smoother.make import is_primal, require_room

if TYPE_CHECKING:
    from holdfast.holdout.plan import Plan

__all__ = ["plan_of"]


def plan_of(model: Any, data: Data) -> tuple[Plan, list[str]]:
    """Return the plan that fitting would follow, and remarks on what was guessed.

    Parameters
    ----------
    model : unfitted estimator
    data : Data

    Notes
    -----
    Which basis rows a selector picks is not known before it runs, and running it may be the larger
    part of the work: for the plan, random rows stand in for them.
    """
    problem, candidates = model._prepare(data.X, data.y, data.weights, data.groups)
    m, kernel = problem.weights.size, candidates[0].kernel
    remarks = []
    selector, basis = as_selector(problem.basis, m), None
    if model.basis == "auto" and selector is not None:
        remarks.append(f"Basis rows: {told_basis(problem.basis, m)} (--basis says how many).")
    if selector is not None:
        size = _basis_size(selector, data)
        basis = np.sort(np.random.default_rng(problem.seed).permutation(m)[:size])
        if not isinstance(selector, Random):
            remarks.append(
                f"The cost of choosing the basis rows ({type(selector).__name__}) is not counted; "
                "random rows stand in for them here."
            )
    if problem.policy == "reselect" and basis is not None:
        remarks.append('"reselect" retrains every experiment: expect the naive cost.')
    if len(candidates) > 1:
        remarks.append(f"The plan is for one kernel width; {len(candidates)} are compared.")
    weights, policy = problem.weights, problem.policy
    tasks = resolve(problem.experiments, weights=weights, basis=basis, policy=policy)
    n_alphas = problem.alphas.size or COUNT
    if basis is not None or is_primal(kernel, problem.X):
        data_ = rows_with_kernel(kernel, problem.X, None)
        sizes = make_model(problem, kernel, data_, basis).smoother.sizes(tasks)
    else:
        require_room(m, problem.memory)
        sizes = Sizes("kernel", m, m, problem.Y.shape[1], None, problem.memory)
    return make_plan(tasks, sizes, n_alphas, problem.path), remarks


def _basis_size(selector: Any, data: Data) -> int:
    m = len(data.X)
    if hasattr(selector, "k") and data.groups is not None:
        return min(m, int(selector.k) * len(np.unique(data.groups)))
    size = getattr(selector, "n", getattr(selector, "max_size", None))
    return how_many(size if size is not None else min(m, 500), m)
