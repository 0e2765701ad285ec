r"""How accurate held-out predictions are: one yardstick, two formulas, one rule.

**Yardstick.** The error of a prediction is judged by max(σ_y, |f − ȳ|): the spread of the target,
or how far the prediction itself lies from its mean, whichever is larger.

**What double precision cannot represent** (the data floor). Every kernel value carries a rounding
error. To first order, and adding independent errors as squares, that moves the prediction
f(x) = k_xᵀc of a model with dual coefficients c, training residuals r and A = K_BB + εI by

    floor(x, α) = eps √( Σ_j k(x,b_j)² c_j² + Σ_j u_j² (Σ_i k_ij² r_i² + α² Σ_l A_jl² c_l²) )

with u = N D v(x) (`Smoother.floor`; a dense model has Σ_j k_ij² c_j² in the bracket). No algorithm
avoids it. It is stated, and warned of where it matters; nothing is repaired.

**What our algebra adds.** A factor of features has a measured `defect`, a dense one is backward
stable: either way its rounding errors have a known size (`Factor.unit`). Right-hand sides of
that size (`Held.looks`) go through the same systems as the residuals do, and show how much they
grow on the way to a prediction. Equations of folds have a measured residual instead
(`holdfast.holdout.folds`).

**The rule.** Where the algebra may add more than `PROMISE`, the set is trained again from its own
rows, if that is affordable. Otherwise the error is stated.
"""

from __future__ import annotations

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.exceptions import KernelError, PrecisionWarning, warn
from holdfast.experiments import Tasks
from holdfast.linalg import pieces_alone
from holdfast.smoother import Smoother

__all__ = [
    "CALLING",
    "LOST",
    "PROMISE",
    "WORTH_A_WARNING",
    "affordable",
    "data_floor",
    "warn_of_rounding",
]

#: What our algebra may add to a held-out prediction, over the yardstick; and the estimate from
#: which sets are trained again, because an estimate is right within a factor of a few.
PROMISE, LOST = 1e-8, 2.5e-9
#: A predicted error from which a user should know, at the chosen penalty.
WORTH_A_WARNING = 1e-6
#: What training again may cost: this many operations are always free (about a tenth of a second),
#: and beyond that no more than the fit itself.
FREE_OPERATIONS = 2e9
#: What training one model at one penalty costs besides, in operations: a few calls of NumPy.
CALLING = 1e6
#: Test rows, and penalties, that the data floor is looked at for; those between are interpolated.
#: The rows are those furthest from the mean, and others evenly spaced.
FAR_ROWS, MOST_ROWS, MOST_ALPHAS = 6, 8, 3


def affordable(smoother: Smoother, work: float) -> bool:
    """Whether so many operations may be spent on training again."""
    return work <= max(FREE_OPERATIONS, smoother.fit_work())


def data_floor(smoother: Smoother, tasks: Tasks, alphas: FloatArray) -> FloatArray:
    """Return the data floor at each penalty (a,), the largest of some test rows."""
    rows = np.unique(_some(tasks.test.values, MOST_ROWS))
    far = smoother.distances(tasks)
    tested = np.unique(tasks.test.values)
    rows = np.union1d(tested[np.argsort(-far[tested], kind="stable")[:FAR_ROWS]], rows)
    looked = _some(np.arange(alphas.size), MOST_ALPHAS)
    try:
        with np.errstate(all="ignore"), pieces_alone(smoother.order):
            found = smoother.floor(rows, alphas[looked])
    except (np.linalg.LinAlgError, KernelError):  # singular to working precision, or indefinite
        return np.full(alphas.size, np.inf)
    level = np.abs(smoother.targets.level).sum(axis=0) * _largest(smoother)
    found = np.maximum(found, np.finfo(np.float64).eps * (level / smoother.targets.spread).max())
    if looked.size == 1 or not np.isfinite(found).all():
        return np.full(alphas.size, found.max())
    with np.errstate(divide="ignore"):
        logs = np.interp(np.log(alphas), np.log(alphas[looked]), np.log(np.maximum(found, 1e-300)))
    return np.asarray(np.exp(logs))


def _largest(smoother: Smoother) -> float:
    """Return the largest unpenalised column, by which the level of the targets is restored."""
    return float(np.abs(smoother.unpenalised.U).max(initial=0.0))


def _some(numbers: IntArray, count: int) -> IntArray:
    """Return `count` of the numbers, evenly spaced, the first and the last among them."""
    if numbers.size <= count:
        return numbers
    return numbers[np.linspace(0, numbers.size - 1, count).astype(np.int64)]


def warn_of_rounding(alphas: FloatArray, rounding: FloatArray) -> None:
    """Say at which penalties held-out predictions have rounding errors that a user should know."""
    told = rounding > WORTH_A_WARNING
    if not told.any():
        return
    named = ", ".join(f"{alpha:.3g}" for alpha in alphas[told][:5])
    more = f" and {int(told.sum()) - 5} more" if told.sum() > 5 else ""
    warn(
        f"at alpha = {named}{more} held-out predictions have rounding errors of about "
        f"{rounding[told].max():.0e} of the spread of y, because double precision cannot represent "
        "them better. Use larger alphas, scale the features (StandardScaler), or use a less smooth "
        "kernel.",
        PrecisionWarning,
        alphas=tuple(float(alpha) for alpha in alphas[told]),
        argument="alphas",
    )
