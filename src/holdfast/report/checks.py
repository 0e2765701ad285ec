"""The plan of a fit and its check against retraining, as a report tells them."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
        float(found.chosen_relative_error),
        float(found.max_relative_error),
        VERIFY_SEED,
        found.verified,
        found.words(),
    )
