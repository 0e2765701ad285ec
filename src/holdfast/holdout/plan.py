"""Which path to the held-out predictions is cheapest, and why: one table of costs.

The three paths give the same numbers (`holdfast.holdout`). Their costs differ by orders of
magnitude with the sizes of the held-out sets and the number of penalties, so the planner estimates
time and memory of each (`holdfast.holdout.costs`) and takes the cheapest that fits in memory; if
none fits, the cheapest of those that need at most twice the least. A wrong guess costs time, never
a digit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from holdfast._typing import FloatArray
from holdfast.experiments import Tasks
from holdfast.holdout.costs import COSTS
from holdfast.holdout.digits import basis_shrinks, taken
from holdfast.smoother import Smoother
from holdfast.smoother.base import Sizes

Path = Literal["spectral", "fold_gram", "single"]
#: The paths that are compared; the naive twin is never the cheapest.
PLANNED: tuple[Path, ...] = get_args(Path)

#: What a double has.
MOST_DIGITS = 15.0

#: No path is refused for taking this much, however low the limit.
LEAST_BYTES = 2**26


@dataclass(frozen=True)
class Cost:
    """Estimated work of one path.

    Attributes
    ----------
    path : str
    seconds : float
        Estimated time beyond what all paths share.
    bytes : float
        Memory needed at once.
    digits, digits_at_worst : float or None
        Decimal digits that the path promises of held-out predictions, beside the largest target or
        prediction: at the chosen penalty, and at the worst of the grid. None before the fit, and
        where the fit had no need of the factor that could tell.
    """

    path: Path
    seconds: float
    bytes: float
    digits: float | None = None
    digits_at_worst: float | None = None


@dataclass(frozen=True, repr=False)
class Plan:
    """The chosen path, the candidates with their costs, and the sizes that decided.

    Attributes
    ----------
    path : str
        The path taken.
    asked : str
        What was asked for: a path, or "auto".
    costs : tuple of Cost
        One entry per path.
    facts : dict
        Sizes: rows, features, experiments, held-out rows, penalties, targets, basis rows.
    """

    path: str
    asked: str
    costs: tuple[Cost, ...]
    facts: dict[str, object]

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        best = min(cost.seconds for cost in self.costs)
        lines = [f"{name:<24}{value}" for name, value in self.facts.items()]
        told = any(cost.digits is not None for cost in self.costs)
        lines += ["", f"{'path':<12}{'estimate':>12}{'× cheapest':>12}{'memory':>12}"]
        lines[-1] += f"{'digits':>16}" if told else ""
        for cost in self.costs:
            mark = " ← taken" if cost.path == self.path else ""
            digits = f"{digits_in_words(cost):>16}" if told else ""
            lines.append(
                f"{cost.path:<12}{_time(cost.seconds):>12}{cost.seconds / best:>12.2f}"
                f"{_size(cost.bytes):>12}{digits}{mark}"
            )
        why = "cheapest that fits"
        if self.asked != "auto":
            costly = "" if self.asked == self.path else " and would cost digits"
            why = f"path={self.asked!r} was asked for{costly}"
        lines += ["", f"taken: {self.path} ({why})"]
        if told:
            lines.append(
                "digits: promised of held-out predictions, at the chosen and at the worst penalty"
            )
        return "\n".join(lines)

    def with_digits(self, smoother: Smoother, alphas: FloatArray, chosen: FloatArray) -> Plan:
        """Return the plan with the digits that each path promises, as far as the smoother knows.

        Parameters
        ----------
        smoother : Smoother
            After the fit.
        alphas, chosen : ndarray
            The penalties of the grid, and those that were chosen.
        """

        def told(cost: Cost) -> Cost:
            errors = smoother.path_promise(cost.path, np.append(chosen, alphas))
            if errors is None:
                return cost
            digits = np.clip(-np.log10(errors), 0.0, MOST_DIGITS)
            here, worst = float(digits[: chosen.size].min()), float(digits.min())
            return replace(cost, digits=here, digits_at_worst=worst)

        return replace(self, costs=tuple(told(cost) for cost in self.costs))

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


def digits_in_words(cost: Cost) -> str:
    """Return the digits that a path promises, as a table shows them."""
    if cost.digits is None or cost.digits_at_worst is None:
        return "—"
    here, worst = int(cost.digits), int(cost.digits_at_worst)
    return f"about {here}" if here == worst else f"{here}, at worst {worst}"


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def _size(n_bytes: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 1000 or unit == "GB":
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    raise AssertionError


def make_plan(tasks: Tasks, sizes: Sizes, n_alphas: int, asked: str) -> Plan:
    """Return the plan for these tasks.

    Parameters
    ----------
    tasks : Tasks
    sizes : Sizes
        Of the smoother.
    n_alphas : int
    asked : {"auto", "spectral", "fold_gram", "single", "retrain"}
    """
    h, e, t = (r.sizes.astype(float) for r in (tasks.held, tasks.removed, tasks.test))
    job = COSTS[sizes.form](sizes, h, e, t, n_alphas)
    costs = tuple(Cost(path, job.seconds(path), job.bytes(path)) for path in PLANNED)
    able = [cost for cost in costs if taken(cost.path, sizes.spectrum) == cost.path]
    room = max(sizes.memory, LEAST_BYTES)
    if all(cost.bytes > room for cost in able):
        room = 2 * min(cost.bytes for cost in able)
    cheapest = min((c for c in able if c.bytes <= room), key=lambda cost: cost.seconds).path
    facts: dict[str, object] = {
        "rows": sizes.m,
        "model": sizes.model,
        "targets": sizes.v,
        "penalties": n_alphas,
        "experiments": len(tasks),
        "held out in each": f"{int(h.min())} to {int(h.max())} rows",
        "basis rows removed": f"{int(e.min())} to {int(e.max())} in each",
        "test rows in all": int(tasks.test.values.size),
    }
    if not sizes.spectrum:
        facts["weights"] = "too far apart for one factor of all penalties: light rows need digits"
    if sizes.form == "features":
        anew = int(basis_shrinks(tasks, sizes.basis).sum())
        facts["feature rows"] = "streamed in blocks" if sizes.streamed else "kept in memory"
        facts["trained anew"] = "none"
        if sizes.basis is not None:
            facts["trained anew"] = f"{anew} experiments that lose much of the basis"
    path = cheapest if asked == "auto" else taken(asked, sizes.spectrum)
    return Plan(path, asked, costs, facts)
