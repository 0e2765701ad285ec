"""The plan of a fit and its check against retraining, as a report tells them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holdfast.exceptions import NotSupportedError
from holdfast.report.summary import Certificate, PathCost, PlanTable
from holdfast.report.sure import work_of

if TYPE_CHECKING:
    from holdfast.estimators.base import CrossValidatedKernelRidge

__all__ = ["certificate", "plan_table"]

VERIFY_SEED = 0
#: Experiments that are retrained where that takes little; rows × features² of all of them.
USUAL, _MOST_DENSE, _MOST_BASIS = 5, 5e9, 2e10


def plan_table(model: CrossValidatedKernelRidge) -> PlanTable:
    """Return the plan that the fit followed, and what each way would have cost."""
    plan = model.explain()
    cheapest = min(cost.seconds for cost in plan.costs)
    why = (
        "the cheapest that fits" if plan.asked == "auto" else f"asked for with path={plan.asked!r}"
    )
    return PlanTable(
        facts=tuple((name, _fact(value)) for name, value in plan.facts.items()),
        costs=tuple(
            PathCost(
                cost.path,
                cost.seconds,
                cost.seconds / cheapest if cheapest > 0 else 1.0,
                cost.bytes / 1e6,
                cost.path == plan.path,
            )
            for cost in plan.costs
        ),
        why=f"{plan.path}: {why}",
    )


def _fact(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def certificate(
    model: CrossValidatedKernelRidge,
    n_experiments: int | None,
    notes: list[str],
    patience: float = 1.0,
) -> Certificate | None:
    """Return how far retrained experiments lie from the fast ones; why not, goes to the notes.

    Parameters
    ----------
    model : fitted estimator
    n_experiments : int or None
        None: five, or fewer where that would take long.
    notes : list of str
    patience : float
        How much longer than by default it may take.
    """
    if n_experiments is None:
        most = _MOST_BASIS if model._problem.on_basis else _MOST_DENSE
        n_experiments = int(np.clip(most * patience / work_of(model), 1, USUAL))
    if n_experiments < 1:
        return None
    try:
        found = model.verify(n_experiments, random_state=VERIFY_SEED)
    except NotSupportedError as error:
        notes.append(str(error))
        return None
    return Certificate(
        int(found.experiments.size),
        int(found.alphas.size),
        float(found.chosen_relative_error),
        float(found.max_relative_error),
        VERIFY_SEED,
        found.verified,
        found.words(),
    )
