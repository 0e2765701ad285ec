"""The plan of a fit without the fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier

from holdfast.basis import Random, as_selector
from holdfast.basis.base import how_many
from holdfast.cli.fitting import Data
from holdfast.experiments import Policy, as_experiments, resolve
from holdfast.holdout.plan import make_plan
from holdfast.smoother import Form, Sizes

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
    m, d = data.X.shape
    classifier = is_classifier(model)
    n_classes = len(np.unique(data.y)) if classifier else 0
    experiments = as_experiments(
        model.cv, m, X=data.X, y=data.y, groups=data.groups, classifier=classifier
    )
    weights = np.ones(m) if data.weights is None else data.weights
    remarks = []
    basis = None
    selector = as_selector(model.basis, m)
    if selector is not None:
        size = _basis_size(selector, data)
        basis = np.sort(np.random.default_rng(model.random_state).permutation(m)[:size])
        if not isinstance(selector, Random):
            remarks.append(
                f"The cost of choosing the basis rows ({type(selector).__name__}) is not counted; "
                "random rows stand in for them here."
            )
    if model.held_out_basis == "reselect" and basis is not None:
        remarks.append('"reselect" retrains every experiment: expect the naive cost.')
    if isinstance(model.gamma, list):
        remarks.append(f"The plan is for one kernel width; {len(model.gamma)} are compared.")
    policy: Policy = "keep" if model.held_out_basis == "reselect" else model.held_out_basis
    tasks = resolve(experiments, weights=weights, basis=basis, policy=policy)
    n_basis = None if basis is None else int(basis.size)
    form: Form = "features"
    if n_basis is not None:
        p = n_basis + int(model.fit_intercept)
    elif model.kernel == "linear" and d < m:
        p = d + int(model.fit_intercept)
    else:
        form, p = "kernel", m
    sizes = Sizes(form, m, p, n_classes if n_classes > 2 else 1, n_basis)
    return make_plan(tasks, sizes, len(model.alphas), model.path), remarks


def _basis_size(selector: Any, data: Data) -> int:
    m = len(data.X)
    if hasattr(selector, "k") and data.groups is not None:
        return min(m, int(selector.k) * len(np.unique(data.groups)))
    size = getattr(selector, "n", getattr(selector, "max_size", None))
    return how_many(size if size is not None else min(m, 500), m)
