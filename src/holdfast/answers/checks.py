"""What `fit` did, and whether its fast predictions are those of refitted models."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast.answers.fitted import Estimator
from holdfast.core.accuracy import PROMISE
from holdfast.core.plan import Plan
from holdfast.core.verify import Verification, verify_tasks
from holdfast.data.values import seed_of, whole_number
from holdfast.exceptions import NotSupportedError
from holdfast.progress import shows_progress

__all__ = ["explain", "verify"]


def explain(estimator: Estimator) -> Plan:
    """Return the plan of `fit`: the path taken; cost and memory of each, and why.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from holdfast import KernelRidgeCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> KernelRidgeCV(gamma=10.0).fit(X, y).explain().path
    'spectral'
    """
    plan = estimator._fitted_state().search.plan
    assert plan is not None  # every fit has one
    return plan


@shows_progress
def verify(estimator: Estimator, n_experiments: int = 5, random_state: Any = 0) -> Verification:
    """Return how far the fast predictions lie from models that are really refitted.

    Parameters
    ----------
    n_experiments : int
        How many experiments of `fit` to refit, drawn at random.
    random_state : int, RandomState or None
        Seed of the draw.

    Returns
    -------
    Verification
        ``verified``, ``max_relative_error``; it prints what was found in a sentence.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from holdfast import KernelRidgeCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> KernelRidgeCV(gamma=10.0).fit(X, y).verify(3).verified
    True
    """
    fitted = estimator._fitted_state()
    model, training = fitted.model, fitted.training
    if training.reselects:
        raise NotSupportedError(
            'held_out_basis="reselect" refits every experiment already: there is no fast '
            "prediction to verify.",
            argument="held_out_basis",
        )
    count = whole_number("n_experiments", n_experiments)
    tasks = model.tasks(training.experiments)
    path = model.plan(tasks, training.alphas.size).path
    chosen = np.flatnonzero(np.isin(training.alphas, fitted.alpha))
    stated = bool((fitted.search.table["rounding"][fitted.search.index] > PROMISE).any())
    where = tasks, training.alphas, path, count, seed_of(random_state), chosen
    return verify_tasks(model.smoother, *where, stated=stated)
