"""Which path to the held-out predictions is cheapest, and why: one table of costs.

The three paths give the same numbers (`holdfast.holdout`). Their costs differ by orders of
magnitude with the sizes of the held-out sets and the number of penalties, so the planner counts
the floating-point operations and bytes of each and takes the cheapest. A wrong guess costs time,
never a digit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from holdfast.experiments import Tasks

Path = Literal["spectral", "fold_gram", "single"]
PATHS: tuple[Path, ...] = get_args(Path)

#: Cost of one floating-point operation relative to a matrix product's (papers 003: R_E, R_I, R_L).
EIGH, REDUCTION, CHOLESKY, SMALL = 2.5, 3.0, 1.5, 3.0


@dataclass(frozen=True)
class Cost:
    """Estimated work of one path: operations (in units of a matrix product's) and bytes held."""

    path: Path
    flops: float
    bytes: float


@dataclass(frozen=True)
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

    def __str__(self) -> str:
        best = min(cost.flops for cost in self.costs)
        lines = [f"{name:<24}{value}" for name, value in self.facts.items()]
        lines += ["", f"{'path':<12}{'Gflop':>12}{'× cheapest':>12}{'memory':>12}"]
        for cost in self.costs:
            mark = " ← taken" if cost.path == self.path else ""
            lines.append(
                f"{cost.path:<12}{cost.flops / 1e9:>12.3g}{cost.flops / best:>12.2f}"
                f"{_size(cost.bytes):>12}{mark}"
            )
        why = "cheapest estimate" if self.asked == "auto" else f"path={self.asked!r} was asked for"
        return "\n".join([*lines, "", f"taken: {self.path} ({why})"])

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


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
    """
    h = tasks.held.sizes.astype(float)
    e = tasks.removed.sizes.astype(float)
    costs = tuple(
        Cost(path, _flops(path, h, e, m, p, v, n_alphas, dual), _bytes(path, h, m, p, dual))
        for path in PATHS
    )
    path: Path = min(costs, key=lambda cost: cost.flops).path
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
    }
    return Plan(path, asked, costs, facts)


def _flops(
    path: Path,
    h: np.ndarray,
    e: np.ndarray,
    m: float,
    p: float,
    v: float,
    a: float,
    dual: bool,
) -> float:
    small = SMALL * (2 * h**2 * p + h**3 + 4 * h * p * v + 4 * h * e * p).sum()
    if path == "spectral":
        factor = EIGH * 9 * p**3 + (0 if dual else 2 * m * p**2)
        return float(factor + a * small)
    if path == "single":
        factor = CHOLESKY * (m**3 if dual else p**3 / 3 + m * p**2)
        return float(a * (factor + small))
    if dual:
        n = m - h
        return float((REDUCTION * 4 / 3 * n**3 + 4 * a * n**2 * v).sum())
    gram = (2 * h * p**2).sum()
    return float(gram + h.size * (REDUCTION * 4 / 3 * p**3 + 4 * a * p**2 * v))


def _bytes(path: Path, h: np.ndarray, m: float, p: float, dual: bool) -> float:
    if dual:
        extra = 2 * m**2 if path != "fold_gram" else (m - h.min()) ** 2
        return float(8 * (m**2 + extra))
    extra = m * p if path == "single" else 2 * p**2
    return float(8 * (m * p + extra))
