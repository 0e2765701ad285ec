"""What each path to the held-out predictions costs on this machine.

Costs are seconds, from counts of floating-point operations and a few rates: how fast a matrix
product runs, and how much slower than that an eigendecomposition, a tridiagonal reduction or a
Cholesky factorisation is (R_E, R_I, R_L of paper 003). The shipped rates are those of an ordinary
two-core machine, and are used unless `measure` is called, which takes a fraction of a second to
find those of the running one: with fixed rates the same fit takes the same path every time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.holdout.fold_gram import CHOLESKY_UP_TO
from holdfast.holdout.spectral import CG_ROWS, CG_SYSTEMS, STACK_DOUBLES
from holdfast.holdout.sums import KEEP_BYTES
from holdfast.linalg import Tridiagonal, eigh

Sizes = NDArray[np.float64]

#: Operations, in units of n³, that the inverse takes after a Cholesky factorisation.
INVERSE = 1.2
#: Steps of conjugate gradients for ordinary held-out rows, and how often they touch a vector.
CG_STEPS, CG_TOUCHED = 12.0, 70.0
#: Fixed work of a stack of experiments of one size, and of an experiment with its own system, in
#: units of that of one experiment in a stack.
PER_STACK, PER_FOLD = 15.0, 7.0
#: A dense model's matrices leave the cache, and their factorisations take so much longer.
LARGE_REDUCTION = 1.25


@dataclass(frozen=True)
class Rates:
    """Speeds of one machine.

    Attributes
    ----------
    gemm : float
        Operations a second of a large matrix product.
    eigh, reduction, cholesky : float
        Cost of these factorisations of an n × n matrix, in units of n³ operations at that speed.
    stacked : float
        How much slower than a large product the many small products of held-out sets are; half
        as much where their rows are many.
    touch : float
        Seconds to read or write one number of a large matrix.
    call : float
        Seconds for the fixed work of one experiment among many of its kind.
    """

    gemm: float = 9e10
    eigh: float = 10.0
    reduction: float = 2.6
    cholesky: float = 0.6
    stacked: float = 3.0
    touch: float = 1.5e-9
    call: float = 6e-5


@dataclass(frozen=True)
class Job:
    """The sizes that decide: what `seconds` needs to know of a set of tasks.

    Attributes
    ----------
    h, e, t : ndarray of shape (experiments,)
        Held-out rows, removed basis rows, test rows of each experiment.
    m, p, v, a : int
        Rows, features (rows again for a dense model), targets, penalties.
    dual : bool
        Whether the model is dense.
    streamed : bool
        Whether feature rows are computed again whenever they are needed.
    rotated : bool
        Whether the spectrum is already there.
    summed : bool
        Whether the Gram matrices of held-out sets come with the first pass over the rows.
    """

    h: Sizes
    e: Sizes
    t: Sizes
    m: int
    p: int
    v: int
    a: int
    dual: bool
    streamed: bool = False
    rotated: bool = False
    summed: bool = False


def seconds(path: str, job: Job, rates: Rates) -> float:
    """Return the estimated time of a path, beyond what all paths share."""
    return {"spectral": _spectral, "fold_gram": _fold_gram, "single": _single}[path](job, rates)


def _spectral(job: Job, rates: Rates) -> float:
    p = float(job.p)
    factor = rates.eigh * p**3
    if not job.dual:
        factor += (3.0 if job.streamed else 2.0) * job.m * p**2
    return (0.0 if job.rotated else factor / rates.gemm) + _sets(job, job.a, rates)


def _single(job: Job, rates: Rates) -> float:
    p = float(job.p)
    if job.dual:
        h, t, v = job.h, job.t, float(job.v)
        work = (rates.cholesky + INVERSE) * p**3 + float((h**3 + (4.0 * h + 2.0 * t) * p * v).sum())
        # copies of the matrix, rows of it and of the inverse, coefficients of each held-out model
        touched = 8.0 * p**2 + float((2.0 * (h + t) + 4.0 * v).sum()) * p
        stacks = min(h.size, 100)
        return job.a * (work / rates.gemm + touched * rates.touch + rates.call * stacks)
    # a Cholesky factor, its inverse, and the rows in its coordinates, for every penalty; 5 and 3
    # instead of the 1 and 2 that they count, for triangular matrices and fresh arrays are slow
    factor = (rates.cholesky + 5.0) * p**3 + 3.0 * job.m * p**2
    return job.a * (factor / rates.gemm + _sets(job, 1, rates))


def _sets(job: Job, a: int, rates: Rates) -> float:
    """Return the time of all |H| × |H| systems for `a` penalties at once."""
    h, e, t, p, v = job.h, job.e, job.t, float(job.p), float(job.v)
    alone = h <= 1
    rows = 6.0 * p * rates.touch + 4.0 * p * a * (1.0 + v) / rates.gemm
    single_rows = float(alone.sum()) * rows
    h, e, t = h[~alone], e[~alone], t[~alone]
    if not h.size:
        return single_rows
    large = 0.5 * rates.stacked
    direct = a * (h**2 * p + h**3 / 3.0) * (large if job.dual else rates.stacked)
    cg = 4.0 * CG_STEPS * h * p * a * v * large
    conjugate = use_cg(job, a)[~alone]
    systems = np.where(conjugate, cg, direct)
    around = 4.0 * (h + t) * p * a * v + 4.0 * a * e * p * (h + e) * large
    touched = (h + t) * p + np.where(conjugate, CG_TOUCHED * h * a * v, 0.0)
    stacks = len(np.unique(h * (e.max() + 1.0) + e)) + float(((h + t) * p).sum()) / STACK_DOUBLES
    overhead = rates.call * (min(h.size, 4000) + PER_STACK * min(h.size, stacks))
    work = float((systems + around).sum()) / rates.gemm
    return single_rows + work + float(touched.sum()) * rates.touch + overhead


def use_cg(job: Job, a: int) -> NDArray[np.bool_]:
    """Return which experiments take conjugate gradients for `a` penalties at once."""
    return (job.h >= CG_ROWS) & (job.h * a >= CG_SYSTEMS) & (not job.dual)


def _fold_gram(job: Job, rates: Rates) -> float:
    h, e, t, p, v, a = job.h, job.e, job.t, float(job.p), float(job.v), job.a
    n = job.m - h if job.dual else p - e
    solve = a * rates.cholesky * n**3 if a <= CHOLESKY_UP_TO else rates.reduction * n**3
    solve = solve + 8.0 * a * v * n**2
    if job.dual:
        work = LARGE_REDUCTION * solve + 2.0 * a * v * t * n
        touched = 2.0 * n**2
    else:
        # making streamed rows again takes about as long as their Gram matrix; rows that are not
        # kept are made for the sums and for the predictions
        made = np.where(job.summed | (8.0 * h * p <= KEEP_BYTES), 1.0, 2.0)
        passes = (0.0 if job.summed else 1.0) + (made if job.streamed else 0.0)
        gram = passes * 1.3 * h * p**2
        work = gram + solve + 4.0 * e * p**2 + 2.0 * t * p * a * v
        touched = h * p + 3.0 * p**2
    return float((work / rates.gemm + touched * rates.touch + PER_FOLD * rates.call).sum())


_rates = Rates()


def current() -> Rates:
    """Return the rates that plans use now."""
    return _rates


def measure(size: int = 512) -> Rates:
    """Measure the rates of this machine, a fraction of a second, and use them from now on."""
    global _rates
    rng = np.random.default_rng(0)
    A = rng.normal(size=(size, size))
    S = A @ A.T + size * np.eye(size)
    cube = float(size) ** 3

    def best(work: Callable[[], object]) -> float:
        work()
        times = []
        for _ in range(3):
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
        return min(times)

    gemm = 2.0 * cube / best(lambda: A @ A)
    default = Rates()
    _rates = Rates(
        gemm=gemm,
        eigh=best(lambda: eigh(S)) * gemm / cube,
        reduction=best(lambda: Tridiagonal.reduce(S)) * gemm / cube,
        cholesky=best(lambda: np.linalg.cholesky(S)) * gemm / cube,
        stacked=default.stacked,
        touch=default.touch,
        call=default.call,
    )
    return _rates
