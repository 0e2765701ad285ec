"""A second opinion in passing: one experiment of every fit is trained again.

The experiment is the one whose held-out rows have the highest leverage, where hold-out identities
have most to lose. It is trained by other algebra, from its optimality conditions summed over its
own training rows (`Smoother.refined`), for a few per cent of a fit. Rows that are not kept are not
made again: there it is solved from the sums over rows. Only where that disagrees, or does not
settle, is the experiment trained from scratch; and only if the result of that disagrees as well is
anything said.
"""

from __future__ import annotations

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.exceptions import DigitsWarning, warn
from holdfast.experiments import Tasks
from holdfast.holdout import fold_gram, predict
from holdfast.holdout.digits import trained_anew
from holdfast.holdout.verify import TOLERANCE
from holdfast.linalg import pieces_alone
from holdfast.smoother import Smoother

__all__ = ["check"]

#: Test rows and targets that are looked at.
MOST_ROWS, MOST_TARGETS = 32, 8
#: What one experiment of `fold_gram` with many penalties costs, in Cholesky factorisations; an
#: inverse costs three.
FACTORISATIONS = 4


def check(
    smoother: Smoother,
    tasks: Tasks,
    path: str,
    n_alphas: int,
    alpha: float,
    columns: IntArray,
    values: FloatArray | None,
) -> str:
    """Train one experiment again and warn if its held-out predictions were wrong.

    Parameters
    ----------
    smoother : Smoother
    tasks : Tasks
    path : str
        The path that was taken, as the plan says.
    n_alphas : int
        At how many penalties.
    alpha : float
        The penalty to look at.
    columns : ndarray of int
        The targets that have this penalty.
    values : ndarray of shape (test rows, v) or None
        What was predicted at this penalty; None to have it computed again.

    Returns
    -------
    str
        What was found, for the plan.

    Notes
    -----
    A deviation is relative to the largest held-out prediction of all experiments at this penalty,
    or the largest target where those are not kept: a single row may well be predicted to be zero.
    """
    if path == "retrain":
        return "no: every experiment was trained from scratch"
    factorised = {"fold_gram": len(tasks) * min(n_alphas, FACTORISATIONS), "single": 3 * n_alphas}
    if not smoother.refines_cheaply(factorised.get(path, 0)):
        return "no: it would take too large a part of so short a fit; verify() does it"
    with smoother.lock, pieces_alone(smoother.order):
        leverages = smoother.likely_leverages(alpha)
        sums = np.bincount(tasks.held.owners, leverages[tasks.held.values], minlength=len(tasks))
        sums[trained_anew(smoother, tasks)] = -np.inf
        j = int(sums.argmax())
        if sums[j] == -np.inf:
            return "no: every experiment was trained anew"
        held, removed, test = tasks.held[j], tasks.removed[j], tasks.test[j]
        looked_at: slice | IntArray = slice(None)
        if test.size > MOST_ROWS:
            looked_at = np.argsort(-leverages[test], kind="stable")[:MOST_ROWS]
        test, columns = test[looked_at], columns[:MOST_TARGETS]
        if values is None:
            one = Tasks.one(held, removed, test)
            fast = predict(smoother, one, np.array([alpha]), path)[0][:, columns]
            largest = smoother.original_targets()[:, columns]
        else:
            largest = values[:, columns]
            fast = largest[tasks.test.ptr[j] : tasks.test.ptr[j + 1]][looked_at]
        size = float(np.abs(largest).max()) or 1.0
        found = _deviation(smoother, (held, removed, test), alpha, columns, fast, size)
    told = f"experiment {tasks.source[j]}, {held.size:,} row{'s' * (held.size > 1)} held out"
    if not found <= TOLERANCE:
        warn(
            f"{told}, was trained again at alpha = {alpha:.3g}, and its predictions deviate by "
            f"{found:.1e} from those that chose the penalty: digits were lost. Scale the features "
            "(StandardScaler), use larger alphas, or path='retrain'.",
            DigitsWarning,
            alphas=(alpha,),
        )
    return f"{told}, trained again at alpha = {alpha:.3g}: deviates by {found:.1e}"


def _deviation(
    smoother: Smoother,
    rows: tuple[IntArray, IntArray, IntArray],
    alpha: float,
    columns: IntArray,
    fast: FloatArray,
    size: float,
) -> float:
    """Return how far predictions lie from another opinion; if too far, from the naive twin.

    Relative to `size`. `rows` are held out, removed and tested.
    """

    def gap(values: FloatArray) -> float:
        return float(np.abs(fast - smoother.restore(values, rows[2], columns)).max()) / size

    try:
        with np.errstate(all="ignore"):  # what overflows does not settle
            again = smoother.refined(*rows, alpha, columns, size / smoother.targets.unit)
    except np.linalg.LinAlgError:
        again = np.full(fast.shape, np.nan)
    if again is None:  # rows are not kept: their sums are asked
        one = Tasks.one(*rows)
        again = fold_gram.predict(smoother, one, np.array([alpha]), slice(None))[0][:, columns]
    found = gap(again)
    if found <= TOLERANCE:
        return found
    return gap(smoother.retrain(*rows, np.array([alpha]), slice(None))[0][:, columns])
