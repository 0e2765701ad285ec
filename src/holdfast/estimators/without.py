"""Models without some rows: their predictions and their coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from holdfast._typing import FloatArray, IntArray
from holdfast.data.dask import on_rows
from holdfast.data.indices import row_numbers
from holdfast.data.values import refuse_masked
from holdfast.estimators.inputs import check_rows, takes_objects
from holdfast.estimators.model import Model
from holdfast.estimators.questions import HeldOutQuestions
from holdfast.estimators.trend import parted
from holdfast.exceptions import HoldOutError, InvalidInputError, NotSupportedError
from holdfast.experiments import (
    Experiments,
    HoldOut,
    Tasks,
    as_experiments,
    resolve,
)
from holdfast.holdout.models import HeldOutModels, predict_with
from holdfast.scores.choice import check_alphas

__all__ = ["HeldOutCoefficients", "WithoutRows", "untested"]


@dataclass(frozen=True, eq=False)
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

    def __sub__(self, other: HeldOutCoefficients) -> HeldOutCoefficients:
        return HeldOutCoefficients(
            self.dual_coef - other.dual_coef,
            self.intercept - other.intercept,
            _difference(self.coef, other.coef),
            _difference(self.trend_coef, other.trend_coef),
        )


class WithoutRows(HeldOutQuestions):
    """What a fitted model says of models that never saw some of its rows."""

    _dual_coef: FloatArray
    _intercept: FloatArray
    _linear_coef: FloatArray | None
    _trend_coef: FloatArray

    def predict_without(
        self, rows: ArrayLike, X: Any = None, alpha: float | ArrayLike | None = None
    ) -> FloatArray:
        """Return predictions by the model that never saw `rows`.

        Parameters
        ----------
        rows : array-like of int
            Training rows to hold out; what becomes of basis rows among them is the policy's.
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
        check_is_fitted(self)
        held = self._rows_to_leave(rows)
        alphas = self._alpha_of_each(alpha)
        if X is None:
            return self._flat(self._held_out_rows(held, alphas))
        new = self._new_rows(X)
        outputs, coefficients = self._models_without(held, alphas).only()
        values = on_rows(predict_with, new, (outputs, coefficients), columns=alphas.size)
        return self._flat(values)

    def coef_without(
        self, rows: ArrayLike, alpha: float | ArrayLike | None = None
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
        """
        check_is_fitted(self)
        held = self._rows_to_leave(rows)
        if self._problem.reselects:
            raise NotSupportedError(
                'held_out_basis="reselect" gives every held-out model basis rows of its own, which '
                "have no place in dual_coef_. Use predict_without.",
                argument="held_out_basis",
            )
        models = self._models_without(held, self._alpha_of_each(alpha))
        ((_, fit),) = models.published()
        n, removed = self.basis_indices_.size, models.tasks.removed[0]
        gone = removed if self._problem.on_basis else models.tasks.held[0]
        if len(fit.dual) < n:  # trained again, on the basis that is left
            dual = np.zeros((n, fit.dual.shape[1]))
            dual[np.delete(np.arange(n), removed)] = fit.dual
        else:
            dual = fit.dual
            dual[gone] = 0.0
        intercept, trend = parted(fit.unpenalised, self._problem.bias)
        return self._coefficients(dual, intercept, fit.linear, trend)

    def _coefficients(
        self,
        dual: FloatArray,
        intercept: FloatArray,
        linear: FloatArray | None,
        trend: FloatArray,
    ) -> HeldOutCoefficients:
        """Return coefficients (., v) in the shapes that `fit` gives them."""
        own = None if self._problem.trend is None else trend
        coef, of_trend = (
            None if part is None else np.ascontiguousarray(part.T) for part in (linear, own)
        )
        if not self._problem.flat:
            return HeldOutCoefficients(dual, intercept, coef, of_trend)
        coef, of_trend = (None if part is None else part[0] for part in (coef, of_trend))
        return HeldOutCoefficients(dual[:, 0], float(intercept[0]), coef, of_trend)

    def _rows_to_leave(self, rows: ArrayLike) -> IntArray:
        """Return the numbers of rows that a model should never have seen: some, and not all."""
        m = self._problem.weights.size
        held = row_numbers("rows", rows, m)
        if not 0 < held.size < m:
            raise HoldOutError(
                f"rows must name some of the {m} rows and leave some to train on; got {held.size}. "
                "The model on all rows is the fitted one: predict.",
                argument="rows",
            )
        return held

    def _held_out_rows(self, held: IntArray, alphas: FloatArray) -> FloatArray:
        """Return predictions (k, v) of the held-out rows themselves."""
        grid, index = np.unique(alphas, return_inverse=True)
        found = self.held_out([HoldOut(held)], alphas=grid)
        if found.rows.size < held.size:
            raise HoldOutError(
                f"row {np.setdiff1d(held, found.rows)[0]} is a basis row, which "
                'held_out_basis="skip" never tests. Leave basis rows out of `rows`.',
                argument="rows",
            )
        return found.values[index, :, np.arange(alphas.size)].T

    def _models_without(self, held: IntArray, alphas: FloatArray) -> HeldOutModels:
        experiments = as_experiments([HoldOut(held)], self._problem.weights.size)
        model = self._fitted_model()
        return model.held_models(untested(model, experiments), alphas)

    # -- what the answers share --------------------------------------------------------------------

    def _alpha_of_each(self, alpha: float | ArrayLike | None) -> FloatArray:
        """Return the penalty of each target."""
        v = self._problem.Y.shape[1]
        refuse_masked("alpha", alpha)
        wanted = np.asarray(self.alpha_ if alpha is None else alpha)
        if wanted.shape not in ((), (v,)):
            raise InvalidInputError(
                f"alpha must be one number, or one for each of the {v} targets; got shape "
                f"{wanted.shape}. For a grid use held_out([HoldOut(rows)], alphas=...).",
                argument="alpha",
                remedies=("alphas",),
            )
        check_alphas(np.unique(wanted), "alpha")
        return np.broadcast_to(wanted.astype(np.float64), v)

    def _flat(self, values: FloatArray) -> FloatArray:
        return values[:, 0] if self._problem.flat else values

    def _new_rows(self, X: Any) -> Any:
        return check_rows(self, X, objects=takes_objects(self._kernel), reset=False)

    def _refuse_classes(self, what: str) -> None:
        if self._classes is not None:
            raise NotSupportedError(
                f"{what} is for regression: the targets of a classifier are classes. Use "
                "decision_function, predict_proba or held_out(...).labels()."
            )


def _difference(a: FloatArray | None, b: FloatArray | None) -> FloatArray | None:
    return None if a is None or b is None else np.asarray(a - b)


def untested(model: Model, experiments: Experiments) -> Tasks:
    """Return tasks of all experiments: basis rows that are never tested still tell of models."""
    problem = model.problem
    if problem.policy != "skip":
        return model.tasks(experiments)
    return resolve(experiments, weights=problem.weights, basis=model.basis, policy="train")
