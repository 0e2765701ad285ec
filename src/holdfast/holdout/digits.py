"""Where a fast path would lose digits: how much of the data, and of the basis, is left.

Hold-out identities take the held-out rows away from sums over all rows. Their rounding errors are
eps times the size of *all* rows, while the answer depends on the training rows alone. Where the
held-out rows carry most of the data (the first folds of a time series, one far-away group, an
outlier), the difference loses digits that training on the few remaining rows keeps. Training is
then also the cheaper way, so every path trains such experiments directly.

Likewise, coordinates that whiten all basis rows carry rounding errors in proportion to the
condition of K_BB. A model that loses many basis rows is often far better conditioned; it gets a
whitening of its own and is fitted from scratch, at the price of one fit of the smaller model.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from holdfast._typing import BoolArray, FloatArray
from holdfast.exceptions import DigitsWarning, warn
from holdfast.experiments import Tasks
from holdfast.smoother import Factor, Smoother

__all__ = [
    "TOLD_BOUND",
    "TOO_LITTLE",
    "affordable",
    "basis_shrinks",
    "few_left",
    "taken",
    "trained_anew",
    "warn_of_digits",
    "warn_of_rounding",
    "warn_of_unlike_rows",
    "without_doubt",
    "without_reach",
]

EPS = float(np.finfo(np.float64).eps)

#: Relative errors beyond this are too large for a path that promises no better.
TOO_LITTLE = 1e-11
#: Relative errors beyond this are worth a warning, …
TOLD = 1e-8
#: … and bounds beyond this, which errors rarely reach, where far-away rows are the reason. The
#: default grid ends before it.
TOLD_BOUND = 1e-6
#: What retraining may cost where digits are lost: this many operations are always free, …
FREE_OPERATIONS = 2e10
#: … and beyond that, if it takes no more than this many plain fits.
WORTH_FITS = 20.0

#: Training from scratch takes no time up to this many operations; …
CHEAP = 2e7
#: … beyond it, measured errors are too large from this many times what is attainable. On ordinary
#: data they are 0.1 to 2 times as large.
CLEARLY_WORSE = 10.0

#: What `few_left` told last, and of which tasks.
_asked: WeakKeyDictionary[Smoother, tuple[Tasks, BoolArray]] = WeakKeyDictionary()

#: A model that loses at least this share of its basis rows is whitened anew.
MOST_BASIS_REMOVED = 0.25


def taken(path: str, spectrum: bool) -> str:
    """Return the path that is taken for one that is asked for.

    Parameters
    ----------
    path : str
    spectrum : bool
        Whether a factor for every penalty leaves each row its digits (`Smoother.spectrum_serves`):
        not so with weights far apart, for which an inverse at each penalty does.
    """
    return path if spectrum or path == "retrain" else "single"


def few_left(smoother: Smoother, tasks: Tasks) -> BoolArray:
    """Return for each task whether it leaves so little that it should be trained directly.

    Notes
    -----
    What counts is the share of the trace of the Gram matrix of W, the unpenalised columns left out.
    Without the held-out rows the trace is smaller by their part τ_H and, because the unpenalised
    part is fitted anew, by up to ‖Q_HᵀW_H‖²/(1 − ω), where ω is the largest eigenvalue of Q_HᵀQ_H,
    at most Σ‖Q_i‖². The bound ‖Q_HᵀW_H‖² ≤ ω τ_H needs no look at the rows, so that ordinary folds
    cost one sum. A fit asks several times of the same tasks: the last answer is remembered.
    """
    asked, few = _asked.get(smoother, (None, None))
    if asked is not tasks or few is None:
        few = _few_left(smoother, tasks)
        _asked[smoother] = tasks, few
    return few.copy()


def _few_left(smoother: Smoother, tasks: Tasks) -> BoolArray:
    lost, omega = _carried(smoother, tasks)
    spare = (1.0 - smoother.least_share) * _trace(smoother)
    few = lost > (1.0 - omega) * spare  # the bound
    doubtful = np.flatnonzero(few & (omega > 0) & (lost <= spare))
    if doubtful.size:
        shifts = smoother.shifts(tasks.held.items(doubtful))
        few[doubtful] = shifts > ((1.0 - omega) * (spare - lost))[doubtful]
    return np.asarray(few)


def _trace(smoother: Smoother) -> float:
    return float(smoother.norms[smoother.scale.trained].sum())


def _carried(smoother: Smoother, tasks: Tasks) -> tuple[FloatArray, FloatArray]:
    """Return τ_H and ω of each task, at least a tiny bit less than 1."""
    held = tasks.held
    squares = np.square(smoother.unpenalised.Q).sum(axis=1)
    lost, omega = (
        np.bincount(held.owners, weights=values[held.values], minlength=len(tasks)).astype(float)
        for values in (smoother.norms, squares)
    )
    return lost, np.minimum(omega, 1.0 - EPS)


def without_reach(
    values: FloatArray, smoother: Smoother, tasks: Tasks, alphas: FloatArray, few: BoolArray
) -> FloatArray:
    """Return predictions, NaN where a test row is so long that it magnifies rounding errors.

    Parameters
    ----------
    values : ndarray of shape (alphas, test rows, targets)
        Predictions from equations of the training rows alone; changed in place.
    smoother : Smoother
    tasks : Tasks
    alphas : ndarray of shape (a,)
    few : ndarray of bool
        Which tasks leave little of the data: only they can have such rows.

    Notes
    -----
    A model of training rows with trace τ has errors of eps (τ + α)/α in any direction, also one in
    which no training row has a part. A row that is longer than √τ sees them magnified. Rows count
    from the mean of those that are left, which lies ‖Q_HᵀW_H‖/(1 − ω) away from that of all.
    """
    lost, omega = _carried(smoother, tasks)
    trace, length = _trace(smoother), np.sqrt(smoother.norms)
    along = np.sqrt(np.square(smoother.unpenalised.Q).sum(axis=1))
    for j in np.flatnonzero(few).tolist():
        moved = np.sqrt(smoother.shift(tasks.held[j])) if omega[j] > 0 else 0.0
        left = max(trace - lost[j] - moved**2 / (1.0 - omega[j]), EPS * trace)
        test = tasks.test[j]
        longest = float((length[test] + along[test] * moved / (1.0 - omega[j])).max(initial=0.0))
        error = EPS * longest / np.sqrt(left) * (1.0 + left / alphas)
        far = (error > TOO_LITTLE) & (longest**2 > left)
        values[far, tasks.test.ptr[j] : tasks.test.ptr[j + 1]] = np.nan
    return values


def basis_shrinks(tasks: Tasks, n_basis: int | None) -> BoolArray:
    """Return for each task whether it loses so much of the basis that it is trained anew."""
    return np.asarray(tasks.removed.sizes >= MOST_BASIS_REMOVED * (n_basis or np.inf))


def trained_anew(smoother: Smoother, tasks: Tasks) -> BoolArray:
    """Return which tasks no path takes: they leave too little of the data, or of the basis."""
    few = few_left(smoother, tasks)
    if smoother.n_basis is not None:
        few |= basis_shrinks(tasks, smoother.n_basis)
    return few


def affordable(smoother: Smoother, tasks: Tasks, n_alphas: int) -> bool:
    """Whether tasks whose digits are lost may be trained from scratch, at the price of a few fits.

    A QR factorisation counts as six times the products of a fit, and each penalty as one more of
    the triangle; work of less than a second is always done.
    """
    sizes = smoother.sizes(tasks)
    m, p = float(sizes.m), float(sizes.p)
    work = _operations(smoother, tasks, n_alphas)
    return work <= max(FREE_OPERATIONS, WORTH_FITS * (m * p**2 + p**3))


def _operations(smoother: Smoother, tasks: Tasks, n_alphas: int) -> float:
    sizes = smoother.sizes(tasks)
    m, p = float(sizes.m), float(sizes.p)
    return len(tasks) * (6.0 * m * p**2 + n_alphas * 4.0 * p**3)


def without_doubt(
    values: FloatArray,
    smoother: Smoother,
    tasks: Tasks,
    alphas: FloatArray,
    columns: slice,
    factor: Factor | None = None,
) -> FloatArray:
    """Return predictions, NaN at penalties where they are worse than float64 lets others be.

    Where training from scratch takes no time, what others can do does not matter.
    """
    found = smoother.measured(tasks, alphas, values, columns, factor)
    if found is not None:
        cheap = _operations(smoother, tasks, alphas.size) <= CHEAP
        limit = 0.0 if cheap else CLEARLY_WORSE
        values[(found.errors > TOO_LITTLE) & (found.errors > limit * found.attainable)] = np.nan
    return values


def warn_of_digits(alphas: FloatArray, n_tasks: int) -> None:
    """Warn at which penalties held-out predictions lose digits, and why."""
    named = ", ".join(f"{alpha:.3g}" for alpha in alphas[:5])
    more = f" and {alphas.size - 5} more" if alphas.size > 5 else ""
    warn(
        f"at alpha = {named}{more} digits of the held-out predictions of {n_tasks} experiments are "
        "lost: the model nearly interpolates their rows (leverage close to 1), or rows are too "
        "unlike each other. Use larger alphas, or path='retrain' for those experiments.",
        DigitsWarning,
        alphas=tuple(float(alpha) for alpha in alphas),
    )


def warn_of_rounding(smoother: Smoother, alphas: FloatArray) -> None:
    """Say at which penalties the rounding errors of the kernel values are larger than the penalty.

    What the penalty holds down there is rounding error: no way to compute the model can tell.
    """
    largest = smoother.largest_value
    told = alphas[alphas < np.finfo(np.float64).eps * largest]
    if told.size:
        warn(
            f"at alpha = {told[0]:.3g} to {told[-1]:.3g} the model follows rounding errors: kernel "
            f"values go up to {largest:.3g}, and their last digit is larger than the penalty. "
            "Scale the features (StandardScaler), or use larger alphas.",
            DigitsWarning,
            alphas=tuple(float(alpha) for alpha in told),
        )


def warn_of_unlike_rows(alphas: FloatArray, errors: FloatArray, least: float = TOLD) -> None:
    """Say at which penalties one far-away row costs the others their digits."""
    told = alphas[errors > least]
    if not told.size:
        return
    warn(
        f"at alpha = {told[0]:.3g} to {told[-1]:.3g} digits are lost: some rows have kernel values "
        "many orders of magnitude larger than others. Scale the features, or use larger alphas.",
        DigitsWarning,
        alphas=tuple(float(alpha) for alpha in told),
    )
