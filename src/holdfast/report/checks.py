"""The plan of a fit and its check against retraining, as a report tells them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holdfast.exceptions import NotSupportedError
from holdfast.report.summary import Certificate, PathCost, PlanTable

if TYPE_CHECKING:
    from holdfast.estimators.base import CrossValidatedKernelRidge

__all__ = ["certificate", "plan_table"]

VERIFY_SEED = 0


def plan_table(model: CrossValidatedKernelRidge) -> PlanTable:
    """Return the plan that the fit followed, and what each way would have cost."""
    plan = model.explain()
    cheapest = min(cost.seconds for cost in plan.costs)
    why = (
        "the cheapest that fits" if plan.asked == "auto" else f"asked for with path={plan.asked!r}"
    )
    return PlanTable(
        facts=(
            *((name, _fact(value)) for name, value in plan.facts.items()),
            ("digits", _digits(model)),
        ),
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


def _digits(model: CrossValidatedKernelRidge) -> str:
    """Return what the factors promise of the predictions, before any of them is checked."""
    smoother, alphas = model._fitted_model().smoother, model._problem.alphas
    promised = smoother.promise(alphas)
    if not promised.any():
        return "factors were chosen so that rounding stays far below the check that follows"
    here = float(smoother.promise(np.atleast_1d(np.asarray(model.alpha_, dtype=float)))[0])
    return (
        f"relative errors of about {here:.0e} promised; {promised.max():.0e} at the worst penalty"
    )


def _fact(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def certificate(
    model: CrossValidatedKernelRidge, n_experiments: int, notes: list[str]
) -> Certificate | None:
    """Return how far retrained experiments lie from the fast ones; why not, goes to the notes."""
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
        float(found.max_relative_error),
        VERIFY_SEED,
        found.verified,
    )
