"""Which path to the held-out predictions is cheapest, and why: one table of costs.

The three paths give the same numbers (`holdfast.holdout`). Their costs differ by orders of
magnitude with the sizes of the held-out sets and the number of penalties, so the planner estimates
time and memory of each (`holdfast.holdout.costs`) and takes the cheapest that fits in memory; if
none fits, the cheapest of those that need at most twice the least. A wrong guess costs time, never
accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from holdfast.experiments import Tasks
from holdfast.holdout.costs import COSTS
from holdfast.smoother.base import Sizes

Path = Literal["spectral", "fold_gram", "single"]
#: The paths that are compared; the naive twin is never the cheapest.
PLANNED: tuple[Path, ...] = get_args(Path)

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
    """

    path: Path
    seconds: float
    bytes: float


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
        lines += ["", f"{'path':<12}{'estimate':>12}{'× cheapest':>12}{'memory':>12}"]
        for cost in self.costs:
            mark = " ← taken" if cost.path == self.path else ""
            lines.append(
                f"{cost.path:<12}{_time(cost.seconds):>12}{cost.seconds / best:>12.2f}"
                f"{_size(cost.bytes):>12}{mark}"
            )
        why = "cheapest that fits" if self.asked == "auto" else f"path={self.asked!r} was asked for"
        lines += ["", f"taken: {self.path} ({why})"]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def _size(n_bytes: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 1000 or unit == "GB":
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    raise AssertionError


def make_plan(tasks: Tasks, sizes: Sizes, n_alphas: int, asked: str, times: int = 1) -> Plan:
    """Return the plan for these tasks.

    Parameters
    ----------
    tasks : Tasks
    sizes : Sizes
        Of the smoother.
    n_alphas : int
    asked : {"auto", "spectral", "fold_gram", "single", "retrain"}
    times : int
        How often tasks like these will be asked for: a factor at one penalty is kept meanwhile.
    """
    h, e, t = (r.sizes.astype(float) for r in (tasks.held, tasks.removed, tasks.test))
    job = COSTS[sizes.form](sizes, h, e, t, n_alphas, times)
    paths: tuple[Path, ...] = ("fold_gram",) if sizes.learned else PLANNED
    costs = tuple(Cost(path, job.seconds(path), job.bytes(path)) for path in paths)
    room = max(sizes.memory, LEAST_BYTES)
    if all(cost.bytes > room for cost in costs):
        room = 2 * min(cost.bytes for cost in costs)
    cheapest = min((c for c in costs if c.bytes <= room), key=lambda cost: cost.seconds).path
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
    if sizes.form == "features":
        facts["feature rows"] = "streamed in blocks" if sizes.streamed else "kept in memory"
    path = cheapest if asked == "auto" else asked
    return Plan(path, asked, costs, facts)
