"""Which path to the held-out predictions is cheapest: a few lines of operation counts.

The paths give the same numbers (`holdfast.core.predict`). Their costs differ by orders of magnitude
with the sizes of the held-out sets and the number of penalties, so the planner estimates time and
memory of each and takes the cheapest that fits in memory; if none fits, the cheapest of those that
need at most twice the least. A wrong guess costs time, never accuracy. The rates are those of an
ordinary machine: with fixed rates the same fit takes the same path every time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from holdfast._typing import FloatArray
from holdfast.core.experiments import Tasks
from holdfast.core.folds import FEW
from holdfast.core.lapack import CHUNK, KEPT, blas_threads
from holdfast.core.residuals import CG_ROWS
from holdfast.core.smoother import Sizes

Path = Literal["spectral", "per_fold", "cholesky"]
#: The paths that are compared; the naive twin is never the cheapest.
PLANNED: tuple[Path, ...] = get_args(Path)

#: Operations a second of a large matrix product; and what these factorisations of an n × n matrix
#: take, in n³ operations at that speed (R_E, R_I, R_L of Tanaka and Imai 2019).
GEMM, EIGH, REDUCTION, CHOLESKY = 9e10, 14.0, 2.6, 1.2
#: How much slower small products of held-out sets are; seconds to touch a number of a large matrix,
#: and of one experiment among many of the same size, and of one with equations of its own.
STACKED, TOUCH, CALL, CALL_FOLD = 3.0, 1.5e-9, 6e-5, 6e-4
#: Steps of conjugate gradients for ordinary held-out rows.
CG_STEPS = 12.0
#: No path is refused for taking this much, however low the limit.
LEAST_BYTES = 2**26


@dataclass(frozen=True)
class Cost:
    """Estimated work of one path.

    Attributes
    ----------
    path : str
    seconds : float
        Estimated time beyond what all paths share: it compares them, and promises nothing.
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
        lines += ["", f"{'path':<12}{'× cheapest':>12}{'memory':>12}"]
        for cost in self.costs:
            mark = " ← taken" if cost.path == self.path else ""
            lines.append(
                f"{cost.path:<12}{cost.seconds / best:>12.3g}{_size(cost.bytes):>12}{mark}"
            )
        why = "cheapest that fits" if self.asked == "auto" else f"path={self.asked!r} was asked for"
        lines += ["", f"taken: {self.path} ({why})"]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


def _size(n_bytes: float) -> str:
    for unit in ("B", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} GB"


def make_plan(tasks: Tasks, sizes: Sizes, n_alphas: int, asked: str, times: int = 1) -> Plan:
    """Return the plan for these tasks.

    Parameters
    ----------
    tasks : Tasks
    sizes : Sizes
        Of the smoother.
    n_alphas : int
    asked : {"auto", "spectral", "per_fold", "cholesky", "refit"}
    times : int
        How often tasks like these will be asked for: a factor at one penalty is kept meanwhile.
    """
    h, e, t = (ragged.sizes.astype(float) for ragged in (tasks.held, tasks.removed, tasks.test))
    paths: tuple[Path, ...] = ("per_fold",) if sizes.learned else PLANNED
    costs = tuple(estimate(path, sizes, h, e, t, n_alphas, times) for path in paths)
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
    return Plan(cheapest if asked == "auto" else asked, asked, costs, facts)


def estimate(
    path: Path, sizes: Sizes, h: FloatArray, e: FloatArray, t: FloatArray, a: int, times: int = 1
) -> Cost:
    """Return what a path costs for sets of h rows, e removed basis rows and t test rows.

    At `a` penalties, for tasks that are asked for `times` times.
    """
    dense = sizes.form == "kernel"
    seconds, doubles = (_dense if dense else _features)(path, sizes, h, e, t, a, times)
    tests = a * float(t.sum())
    predictions = min(tests * sizes.v, max(tests, 4.0 * CHUNK))
    doubles += 2.0 * (predictions + a * h.size) + 4.0 * sizes.m * sizes.v  # errors, targets
    return Cost(path, seconds, 8.0 * doubles)


def _features(
    path: Path, sizes: Sizes, h: FloatArray, e: FloatArray, t: FloatArray, a: int, times: int
) -> tuple[float, float]:
    """Return seconds, and numbers that are there at once, of a smoother of features."""
    m, p, v = float(sizes.m), float(sizes.p), float(sizes.v)
    rows = (float(CHUNK) if sizes.streamed else m * p) + min(2.0 * CHUNK, m * p)  # being made
    own = m * p if sizes.basis is None and not sizes.streamed else 0.0  # a copy of X
    if path == "per_fold":
        passes = (0.0 if sizes.summed else 1.3) + (2.6 if sizes.streamed else 0.0)
        work = passes * h * p**2 + _solve(p - e, a, v) + 4.0 * e * p**2 + 2.0 * t * p * a * v
        touched = h * p + 3.0 * p**2
        seconds = float((work / GEMM + touched * TOUCH + CALL_FOLD).sum())
        matrices = h.size if sizes.summed else min(h.size, 1 + KEPT // p**2)
        return seconds, own + 1.1 * rows + (matrices + 6.0) * p**2
    one = path == "cholesky"
    alphas = 1 if one else a
    sets, stack = _sets(sizes, h, e, t, alphas, cg=True)
    if one:  # a Cholesky factor for every penalty, its inverse, and the rows in its coordinates
        copy = 0.0 if sizes.streamed else rows
        factor = a * ((CHOLESKY + 4.0) * p**3 + 3.0 * m * p**2) / GEMM
        return factor + a * sets, own + 1.1 * rows + copy + stack + 6.0 * p**2
    factor = (EIGH * p**3 + (3.0 if sizes.streamed else 2.0) * m * p**2) / GEMM
    return (0.0 if sizes.factorised else factor) + sets, own + 1.1 * rows + stack + 6.0 * p**2


def _dense(
    path: Path, sizes: Sizes, h: FloatArray, e: FloatArray, t: FloatArray, a: int, times: int
) -> tuple[float, float]:
    """Return the same of a smoother of a kernel matrix."""
    m, v = float(sizes.m), float(sizes.v)
    if path == "per_fold":  # each thread has the kernel of its training rows four times
        n = m - h
        work = 1.25 * _solve(n, a, v) + 2.0 * a * v * t * n
        seconds = float((work / GEMM + 2.0 * n**2 * TOUCH + CALL_FOLD).sum())
        folds = m**2 + 4.0 * min(blas_threads(), h.size) * float(n.max()) ** 2
        return seconds, max(folds, 5.0 * m**2)  # the model on all rows comes last
    if path == "spectral":
        sets, stack = _sets(sizes, h, e, t, a, cg=False)
        factor = 0.0 if sizes.factorised else EIGH * m**3 / GEMM
        return factor + sets, 4.0 * m**2 + stack
    sets, stack = _sets(sizes, h, e, t, 1, cg=False)
    kept = times if a == 1 else 1
    factor = (2.0 * m**3 / GEMM + 8.0 * m**2 * TOUCH) / kept
    return a * (factor + sets), 4.0 * m**2 + stack


def _solve(n: FloatArray, a: int, v: float) -> FloatArray:
    """Return operations that solve equations of size n for all penalties."""
    one = a * CHOLESKY * n**3 if a <= FEW else REDUCTION * n**3
    return np.asarray(one + 8.0 * a * v * n**2)


def _sets(
    sizes: Sizes, h: FloatArray, e: FloatArray, t: FloatArray, a: int, *, cg: bool
) -> tuple[float, float]:
    """Return seconds of all |H| × |H| systems, and numbers of the largest stack."""
    p, v = float(sizes.p), float(sizes.v)
    alone = h <= 1
    seconds = float(alone.sum()) * (6.0 * p * TOUCH + 4.0 * p * a * (1.0 + v) / GEMM)
    h, e, t = h[~alone], e[~alone], t[~alone]
    if not h.size:
        return seconds, 0.0
    iterated = (h >= CG_ROWS * v**2) & cg
    direct = a * (h**2 * p + h**3 / 3.0) * (STACKED if cg else 0.5 * STACKED)
    work = np.where(iterated, 2.0 * STACKED * CG_STEPS * h * p * a * v, direct)
    work = work + 4.0 * (h + t) * p * a * v + 2.0 * a * e * p * (h + e) * STACKED
    touched = (h + t) * p + np.where(iterated, 70.0 * h * a * v, 0.0)
    kinds = len(np.unique(h * (e.max() + 1.0) + e))
    stacks = min(h.size, kinds + float(touched.sum()) / CHUNK)
    calls = CALL * (min(h.size, 4000) + 15.0 * stacks)
    seconds += float(work.sum()) / GEMM + float(touched.sum()) * TOUCH + calls
    columns = v if cg else min(v, p)  # of many targets a dense model solves for coordinates
    each = (h + t) * (p + 2.0 * a * columns) + np.where(iterated, 0.0, 2.0 * a * h**2)
    return seconds, max(float(each.max()), min(2.0 * CHUNK, float(each.sum())))
