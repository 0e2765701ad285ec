"""Weights that take outliers out of the fit: robust reweighting of least squares."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from holdfast._typing import FloatArray
from holdfast.answers.decision import decision
from holdfast.data.dask import local
from holdfast.data.numbers import check_choice, check_positive, whole_number
from holdfast.estimators.inputs import check_weights
from holdfast.estimators.regression import KernelRidgeCV
from holdfast.exceptions import HoldfastWarning, InvalidInputError, NotSupportedError, warn

__all__ = ["RobustWeights", "robust_weights"]

# Whole steps may go back and forth for ever: after so many rounds they are halved.
_HALVED = (5, 20)
_NORMAL_IQR = 1.3489795003921634  # the distance between the quartiles of a standard normal


@dataclass(frozen=True, eq=False, repr=False)
class RobustWeights:
    """Weights, and the model that was fitted with them.

    Attributes
    ----------
    model : KernelRidgeCV
        Fitted with `sample_weight` times `weights`.
    weights : ndarray of shape (m,)
        Between `least` and 1; 1 for rows whose residual is unremarkable.
    residuals : ndarray of shape (m,)
        Residuals that the weights come from.
    scale : float
        Their robust scale ŝ.
    rounds : int
        How many models were fitted.
    converged : bool
        Whether the last round left the weights as they were.
    """

    model: KernelRidgeCV
    weights: FloatArray
    residuals: FloatArray
    scale: float
    rounds: int
    converged: bool

    def __repr__(self) -> str:
        lowered = int((self.weights < 1.0).sum())
        state = "converged" if self.converged else "not converged"
        return (
            f"<robust weights: {lowered} of {self.weights.size} rows lowered, scale "
            f"{self.scale:.3g}, {self.rounds} rounds, {state}>"
        )


def robust_weights(
    estimator: KernelRidgeCV,
    X: Any,
    y: ArrayLike,
    sample_weight: Any = None,
    groups: ArrayLike | None = None,
    *,
    residuals: str = "held_out",
    cutoffs: tuple[float, float] = (2.5, 3.0),
    least: float = 1e-4,
    max_rounds: int = 50,
    tol: float = 1e-2,
) -> RobustWeights:
    """Return weights that lower rows with outlying residuals, and the model fitted with them.

    Parameters
    ----------
    estimator : KernelRidgeCV
        The model; it is not fitted itself.
    X, y, sample_weight, groups
        As in `fit`; y one-dimensional. The weights found multiply `sample_weight`.
    residuals : {"held_out", "fitted"}, default="held_out"
        What the weights come from: exact held-out residuals of the estimator's `cv`, which an
        outlier cannot hide from by pulling the fit towards itself, or residuals of the fit, as in
        Suykens et al. (2002).
    cutoffs : (float, float), default=(2.5, 3.0)
        Residuals up to the first, in units of the robust scale, keep weight 1; from there the
        weight falls linearly to `least` at the second.
    least : float, default=1e-4
        The weight of outliers.
    max_rounds : int, default=50
        At most this many models are fitted.
    tol : float, default=1e-2
        Stop when no weight changes by more.

    Returns
    -------
    RobustWeights
        ``.model``, ``.weights``, ``.scale``, ``.residuals``, ``.rounds``, ``.converged``.

    Notes
    -----
    Weighted least-squares support vector machines (Suykens, De Brabanter, Lukas and Vandewalle
    2002): ŝ is the distance between the quartiles of the residuals over
    1.349, which is the standard deviation if they are normal, and the weights are

        1  for |r/ŝ| ≤ c₁,   (c₂ − |r/ŝ|)/(c₂ − c₁)  in between, at least `least`.

    They proposed one round; here rounds go on until nothing changes. Each is one fit, with the
    penalty chosen again. After 5 rounds, and again after 20, weights go half as far towards those
    found, since full steps may oscillate forever.

    The model that comes back is an ordinary one with row weights, so ``result.model.held_out(...)``
    is exact *at these weights*: the weights were computed with the targets of held-out rows, and
    that is not undone. Scores use the weights too, so outliers count little;
    ``held_out().predictions`` with the raw targets gives any other score.

    Examples
    --------
    >>> import numpy as np
    >>> import holdfast
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(150, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=150)
    >>> y[:10] += 5.0
    >>> model = holdfast.KernelRidgeCV(gamma=0.5, alphas=np.logspace(-3, 2, 30))
    >>> robust = holdfast.robust_weights(model, X, y)
    >>> bool((robust.weights[:10] < 0.01).all()), robust.converged
    (True, True)
    >>> robust.model.held_out(cv=5).matrix().shape
    (30, 150, 1)
    """
    _check(estimator, residuals, cutoffs, least)
    rounds, tol = whole_number("max_rounds", max_rounds), check_positive("tol", tol, zero=True)
    y = np.asarray(y)
    if y.ndim != 1:
        raise InvalidInputError(
            "robust_weights takes one target, y of shape (m,), since all targets of a row share "
            f"its weight; got shape {y.shape}. Call it for each target.",
            argument="y",
        )
    base = check_weights(sample_weight, y.size)
    weights = np.ones(y.size)
    for done in range(1, rounds + 1):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", HoldfastWarning)
            model = clone(estimator).fit(X, y, sample_weight=base * weights, groups=groups)
        errors = _residuals(model, residuals)
        scale = _scale(errors[base > 0])
        found = _weights(errors, scale, cutoffs, least)
        change = float(np.abs(found - weights)[base > 0].max())
        if change <= tol:
            _repeat(said)
            return RobustWeights(model, weights, errors, scale, done, True)
        if done < rounds:
            weights = weights + _step(done) * (found - weights)
    _repeat(said)
    warn(
        f"robust weights still change by {change:.2g} after {rounds} rounds; more rounds, or one "
        "penalty in alphas, may settle them.",
        HoldfastWarning,
        remedies=("alphas",),
    )
    return RobustWeights(model, weights, errors, scale, rounds, False)


def _step(done: int) -> float:
    """Return how far the weights go towards those found in this round."""
    return 0.5 ** sum(done > halved for halved in _HALVED)


def _repeat(said: list[warnings.WarningMessage]) -> None:
    """Give the user the warnings of the last model, not those of earlier ones."""
    for one in said:
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def _check(estimator: Any, residuals: str, cutoffs: tuple[float, float], least: float) -> None:
    if not isinstance(estimator, KernelRidgeCV):
        raise NotSupportedError(
            f"robust_weights takes a KernelRidgeCV; got {type(estimator).__name__}. Classes have "
            "no outlying targets: use sample_weight.",
            argument="estimator",
        )
    check_choice("residuals", residuals, ("held_out", "fitted"))
    first, second = cutoffs
    if not 0 < check_positive("cutoffs", first) < check_positive("cutoffs", second):
        raise InvalidInputError(
            f"cutoffs must increase; got {cutoffs!r}. Use (2.5, 3.0).", argument="cutoffs"
        )
    if not check_positive("least", least) <= 1.0:
        raise InvalidInputError(
            f"least must lie in (0, 1]; got {least!r}. Use 1e-4.", argument="least"
        )


def _residuals(model: KernelRidgeCV, kind: str) -> FloatArray:
    """Return one residual per row: held out, averaged if it is tested often; fitted if never."""
    problem = model._problem
    fitted = np.asarray(local(decision(model._asked(), problem.X)))
    errors: FloatArray = problem.Y[:, 0] - fitted[:, 0]
    if kind == "fitted":
        return errors
    found = model.held_out(alphas=[float(np.atleast_1d(model.alpha_)[0])])
    count = np.bincount(found.rows, minlength=errors.size)
    total = np.bincount(found.rows, weights=found.values[0, :, 0], minlength=errors.size)
    tested = count > 0
    errors[tested] = problem.Y[tested, 0] - total[tested] / count[tested]
    return errors


def _scale(errors: FloatArray) -> float:
    low, high = np.quantile(errors, [0.25, 0.75])
    return float(high - low) / _NORMAL_IQR


def _weights(
    errors: FloatArray, scale: float, cutoffs: tuple[float, float], least: float
) -> FloatArray:
    if scale == 0.0:  # most residuals are the same: nothing to measure others by
        return np.ones(errors.size)
    first, second = cutoffs
    falling = (second - np.abs(errors) / scale) / (second - first)
    return np.asarray(np.clip(falling, least, 1.0))
