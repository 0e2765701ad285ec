"""How accurate held-out predictions are: one promise, one estimate, one rule.

**Promise.** Held-out predictions equal those of refitting to 1e-6 of the standard deviation of the
target; on ordinary data the difference is about 1e-10. Where the promise cannot be kept, the result
says so.

**Estimate.** The rounding errors of a factor have a known size: those of features are measured
(`holdfast.core.coordinates`), those of a dense model are eps times the size of its matrix. Random
right-hand sides of that size (probes) go through the same systems as the held-out residuals, and
show how much the errors grow on the way to a prediction. Equations of folds are checked likewise,
by what is left of them (`holdfast.core.folds`).

**Rule.** Models whose estimate exceeds the promise are refitted from their own rows, by QR or, for
dense models, by the optimality conditions, if all refits together cost less than the fit; otherwise
the estimate is stated. The rule is `to_refit`, and it holds for held-out predictions, for held-out
models at new rows, and for the model of all rows.

**What double precision cannot represent** (`holdfast.core.verify`): every kernel value carries a
rounding error. To first order, and adding independent errors as squares, that moves the prediction
f(x) = k_xᵀc of a model with dual coefficients c, training residuals r and A = K_BB + εI by

    eps √( Σ_j k(x,b_j)² c_j² + Σ_j u_j² (Σ_i k_ij² r_i² + α² Σ_l A_jl² c_l²) ),   u = N D v(x)

(a dense model has Σ_j k_ij² c_j² in the bracket). No algorithm avoids it. `verify` and `explain`
state it at the chosen penalty.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.exceptions import PrecisionWarning, warn

#: How far a held-out prediction may lie from that of a refit, in standard deviations of the target.
PROMISE = 1e-6
#: Estimates are as many times larger than what a few random probes show: those are right within an
#: order of magnitude.
CAUTION = 10.0
#: Refits that take so many operations (some hundredths of a second) are free, as is all that takes
#: less than the fit; and what the refit of one model takes besides, a few calls of NumPy.
FREE_OPERATIONS, OPERATIONS_OF_CALLS = 5e8, 1e6


class Refittable(Protocol):
    """What can be refitted, and knows how many operations that takes."""

    def refit_work(self, held: int) -> float:
        """Return the operations of one model without so many rows."""

    def fit_work(self) -> float:
        """Return the operations of the fit."""


def to_refit(smoother: Refittable, error: FloatArray, held: IntArray) -> BoolArray:
    """Return which models (…, n) are refitted: those beyond the promise, or none if it costs more.

    Parameters
    ----------
    smoother : Smoother
    error : ndarray of shape (…, n)
        Estimated errors, in standard deviations of the target.
    held : ndarray of int, shape (n,)
        How many rows each model leaves out.
    """
    beyond = ~(error <= PROMISE)  # nan is beyond
    if not beyond.any():
        return beyond
    refits = beyond.reshape(-1, held.size).sum(axis=0)
    sizes, place = np.unique(held, return_inverse=True)
    work = np.array([smoother.refit_work(int(size)) for size in sizes]) + OPERATIONS_OF_CALLS
    affordable = refits @ work[place] <= max(FREE_OPERATIONS, smoother.fit_work())
    return np.asarray(beyond & affordable)


def warn_of_rounding(alphas: FloatArray, rounding: FloatArray) -> None:
    """Say at which chosen penalties predictions may miss the promise."""
    beyond = rounding > PROMISE
    if not beyond.any():
        return
    named = ", ".join(f"{alpha:.3g}" for alpha in alphas[beyond][:5])
    more = f" and {int(beyond.sum()) - 5} more" if beyond.sum() > 5 else ""
    warn(
        f"at alpha = {named}{more}, rounding errors of about {rounding[beyond].max():.0e} standard "
        "deviations of y are expected in held-out predictions. Use larger alphas, scale the "
        "features (StandardScaler), or use a less smooth kernel.",
        PrecisionWarning,
        alphas=tuple(float(alpha) for alpha in alphas[beyond]),
        argument="alphas",
    )
