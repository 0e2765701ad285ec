"""Models without some rows: their predictions and their coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import FloatArray, IntArray
from holdfast.answers.fitted import Estimator, Fitted
from holdfast.answers.model import expanded_in
from holdfast.answers.trend import parted
from holdfast.core.experiments import HoldOut
from holdfast.core.models import HeldOutModels, predict_with
from holdfast.core.smoother import Fit
from holdfast.data.dask import on_rows
from holdfast.data.indices import row_numbers
from holdfast.exceptions import HoldOutError, NotSupportedError
from holdfast.splitters.cv import as_experiments

__all__ = ["HeldOutCoefficients", "coef_without", "predict_without"]


@dataclass(frozen=True, eq=False, repr=False)
class HeldOutCoefficients:
    """The coefficients of a model that never saw some rows, shaped like those of `fit`.

    Attributes
    ----------
    dual_coef : ndarray of shape (n,) or (n, v)
        Of the basis rows; of all rows for a dense or linear model, zero for rows held out.
    intercept : float or ndarray of shape (v,)
    coef : ndarray of shape (d,) or (v, d), or None
        As ``coef_``, for a linear kernel with fewer columns than rows.
    trend_coef : ndarray of shape (s,) or (v, s), or None
        As ``trend_coef_``, for a model with a trend.
    """

    dual_coef: FloatArray
    intercept: float | FloatArray
    coef: FloatArray | None = None
    trend_coef: FloatArray | None = None

    def __repr__(self) -> str:
        intercept = np.array2string(np.asarray(self.intercept), precision=4)
        return (
            f"<the model without some rows has {len(self.dual_coef)} dual coefficients and the "
            f"intercept {intercept}>"
        )


def predict_without(
    estimator: Estimator, rows: ArrayLike, X: Any = None, alpha: float | ArrayLike | None = None
) -> FloatArray:
    """Return predictions by the model that never saw `rows`.

    Parameters
    ----------
    rows : array-like of int
        Training rows to hold out; `held_out_basis` says what happens to basis rows among them.
    X : rows, optional
        Rows to predict, in any form that `predict` takes: rows that were held out, rows that
        were trained on, new ones. None: the held-out rows themselves.
    alpha : float or ndarray of shape (v,), optional
        Penalty, or one per target; default: the chosen ``alpha_``.

    Returns
    -------
    ndarray of shape (k,) or (k, v)
        One row per predicted row; decision values for a classifier. Lazy for a Dask X.

    Notes
    -----
    f₋H(x) = v(x)·β₋H with β₋H = M(z − V_Hᵀr_H): Cawley and Talbot (2004, A.4),
    Pahikkala et al. (2006, f_L).

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import KernelRidgeCV
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> model = KernelRidgeCV(gamma=1.0, alphas=[1e-3]).fit(X, np.sin(X[:, 0]))
    >>> model.predict_without([3, 4], X=[[0.5], [3.0]]).shape
    (2,)
    """
    fitted = estimator._fitted_state()
    new = None if X is None else estimator._new_rows(X)
    held, alphas = _rows_to_leave(fitted, rows), fitted.penalties(alpha)
    if new is not None:
        outputs, coefficients = _models_without(fitted, held, alphas).only()
        values = on_rows(predict_with, new, (outputs, coefficients), columns=alphas.size)
        return fitted.flat(values)
    tasks = fitted.model.tasks(as_experiments([HoldOut(held)], fitted.training.weights.size))
    if tasks.test.values.size < held.size:
        raise HoldOutError(
            f"row {np.setdiff1d(held, tasks.test.values)[0]} is a basis row, which "
            'held_out_basis="skip" never tests. Leave basis rows out of `rows`.',
            argument="rows",
        )
    return fitted.flat(fitted.model.at(tasks, alphas))


def coef_without(
    estimator: Estimator, rows: ArrayLike, alpha: float | ArrayLike | None = None
) -> HeldOutCoefficients:
    """Return the coefficients of the model that never saw `rows`.

    Parameters
    ----------
    rows : array-like of int
    alpha : float or ndarray of shape (v,), optional
        Penalty, or one per target; default: the chosen ``alpha_``.

    Returns
    -------
    HeldOutCoefficients
        ``dual_coef``, ``intercept`` and, for a linear kernel, ``coef``. Coefficients of basis
        rows that left the basis are zero, as are those of held-out rows of a dense model.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from holdfast import KernelRidgeCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelRidgeCV("linear", alphas=[1.0]).fit(X, y)
    >>> model.coef_without([0, 1, 2]).coef.shape == model.coef_.shape
    True
    """
    fitted = estimator._fitted_state()
    held, training = _rows_to_leave(fitted, rows), fitted.training
    if training.reselects:
        raise NotSupportedError(
            'held_out_basis="reselect" gives every held-out model basis rows of its own, which '
            "have no place in dual_coef_. Use predict_without.",
            argument="held_out_basis",
        )
    models = _models_without(fitted, held, fitted.penalties(alpha))
    ((_, fit),) = models.published()
    n, removed = (
        expanded_in(fitted.model.basis, training.weights.size).size,
        models.tasks.removed[0],
    )
    gone = removed if training.basis is not None else models.tasks.held[0]
    if len(fit.dual) < n:  # refitted, on the basis that is left
        dual = np.zeros((n, fit.dual.shape[1]))
        dual[np.delete(np.arange(n), removed)] = fit.dual
    else:
        dual = fit.dual
        dual[gone] = 0.0
    return _shaped(fitted, fit._replace(dual=dual))


def _shaped(fitted: Fitted, fit: Fit) -> HeldOutCoefficients:
    """Return coefficients (., v) in the shapes that `fit` gives them."""
    training = fitted.training
    intercept, columns = parted(fit.unpenalised, training.bias)
    parts = fit.linear, None if training.trend is None else columns
    coef, trend = (None if part is None else np.ascontiguousarray(part.T) for part in parts)
    if not training.flat:
        return HeldOutCoefficients(fit.dual, intercept, coef, trend)
    coef, trend = (None if part is None else part[0] for part in (coef, trend))
    return HeldOutCoefficients(fit.dual[:, 0], float(intercept[0]), coef, trend)


def _rows_to_leave(fitted: Fitted, rows: ArrayLike) -> IntArray:
    """Return the numbers of the rows that a model should never have seen: some, but not all."""
    m = fitted.training.weights.size
    held = row_numbers("rows", rows, m)
    if not 0 < held.size < m:
        raise HoldOutError(
            f"rows must name some of the {m} rows and leave some to train on; got {held.size}. "
            "The model on all rows is the fitted one: predict.",
            argument="rows",
        )
    return held


def _models_without(fitted: Fitted, held: IntArray, alphas: FloatArray) -> HeldOutModels:
    experiments = as_experiments([HoldOut(held)], fitted.training.weights.size)
    return fitted.model.held_models(fitted.model.tasks(experiments, all_tested=True), alphas)
