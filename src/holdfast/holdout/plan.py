"""Which path to the held-out predictions is cheapest, and why: one table of costs.

The three paths give the same numbers (`holdfast.holdout`). Their costs differ by orders of
magnitude with the sizes of the held-out sets and the number of penalties, so the planner estimates
time and memory of each (`holdfast.holdout.costs`) and takes the cheapest that fits; if none does,
the cheapest of those that take little more than the least. A wrong guess costs time, never a digit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from holdfast.experiments import Tasks
from holdfast.holdout.costs import Job, current, seconds, use_cg
from holdfast.holdout.digits import basis_shrinks
from holdfast.holdout.spectral import STACK_DOUBLES
from holdfast.holdout.sums import KEEP_BYTES
from holdfast.smoother.moments import BLOCK_BYTES

Path = Literal["spectral", "fold_gram", "single"]
PATHS: tuple[Path, ...] = get_args(Path)

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
        Memory held at once.
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

    path: Path
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
        return "\n".join([*lines, "", f"taken: {self.path} ({why})"])

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


def make_plan(
    tasks: Tasks,
    *,
    m: int,
    p: int,
    v: int,
    n_alphas: int,
    dual: bool,
    asked: str,
    basis: int | None,
    memory: float = float("inf"),
    rotated: bool = False,
    summed: bool = False,
) -> Plan:
    """Return the plan for these tasks.

    Parameters
    ----------
    tasks : Tasks
    m, p, v : int
        Rows, features (rows again for a dense model), targets.
    n_alphas : int
    dual : bool
        Whether the model is dense.
    asked : {"auto", "spectral", "fold_gram", "single"}
    basis : int or None
        Number of basis rows.
    memory : float
        Bytes that may be taken.
    rotated : bool
        Whether the spectrum is already there.
    summed : bool
        Whether the pass over the rows that is still to come sums up each held-out set for itself.
    """
    h, e, t = (r.sizes.astype(float) for r in (tasks.held, tasks.removed, tasks.test))
    streamed = not dual and 8.0 * m * p > memory
    job = Job(h, e, t, m, p, v, n_alphas, dual, streamed, rotated, summed)
    costs = tuple(Cost(path, seconds(path, job, current()), _bytes(path, job)) for path in PATHS)
    room = max(memory, LEAST_BYTES)
    if all(cost.bytes > room for cost in costs):
        room = 2 * min(cost.bytes for cost in costs)
    path: Path = min((c for c in costs if c.bytes <= room), key=lambda cost: cost.seconds).path
    for choice in PATHS:
        if asked == choice:
            path = choice
    facts: dict[str, object] = {
        "rows": m,
        "model": "dense" if dual else f"{p} features" if basis is None else f"{basis} basis rows",
        "targets": v,
        "penalties": n_alphas,
        "experiments": len(tasks),
        "held out in each": f"{int(h.min())} to {int(h.max())} rows",
        "basis rows removed": f"{int(e.min())} to {int(e.max())} in each",
        "test rows in all": int(tasks.test.values.size),
        "feature rows": "streamed in blocks" if streamed else "kept in memory",
        "trained anew": "none"
        if basis is None
        else f"{int(basis_shrinks(tasks, basis).sum())} experiments that lose much of the basis",
    }
    if dual:
        del facts["feature rows"], facts["trained anew"]
    return Plan(path, asked, costs, facts)


def _bytes(path: Path, job: Job) -> float:
    h, m, p = job.h, float(job.m), float(job.p)
    if job.dual:
        extra = 2 * m**2 if path != "fold_gram" else (m - h.min()) ** 2
        if path == "single":
            extra += max(2 * STACK_DOUBLES, (h + job.t).max() * m * (1 + job.v))
        return float(8 * (m**2 + extra))
    rows = BLOCK_BYTES / 8 if job.streamed else m * p
    if path == "fold_gram":  # larger folds are summed in blocks
        extra = h.size * p**2 if job.summed else min(h.max() * p, KEEP_BYTES / 8)
        return float(8 * (rows + extra + 3 * p**2))
    # rows of one stack of experiments, twice if others are tested, and their systems
    a = job.a if path == "spectral" else 1
    stack = (h + job.t) * (p + 2 * a * job.v) + np.where(use_cg(job, a), 0.0, a * h**2)
    copy = m * p if path == "single" and not job.streamed else 0.0
    return float(8 * (rows + copy + max(2 * STACK_DOUBLES, stack.max()) + 3 * p**2))
