"""Models of a smoother as coefficients, and the Gaussian view of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from holdfast._typing import FloatArray, IntArray
from holdfast.experiments import Shape
from holdfast.smoother.factor import Factor
from holdfast.smoother.held import Held
from holdfast.smoother.outputs import Outputs
from holdfast.smoother.scale import Targets, Unpenalised

__all__ = ["AsCoefficients", "Fit"]


class Fit(NamedTuple):
    """The model on all rows.

    Attributes
    ----------
    dual : ndarray of shape (n, v)
        Coefficients of the basis rows; of all rows for a dense or linear model.
    linear : ndarray of shape (d, v) or None
        Coefficients of the columns of X, where a linear kernel was fitted in these.
    unpenalised : ndarray of shape (s, v)
        Coefficients of the unpenalised columns.
    """

    dual: FloatArray
    linear: FloatArray | None
    unpenalised: FloatArray

    def times(self, unit: float) -> Fit:
        """Return the model of targets in another unit."""
        if unit == 1.0:
            return self
        linear = None if self.linear is None else self.linear * unit
        return Fit(self.dual * unit, linear, self.unpenalised * unit)


class AsCoefficients(ABC):
    """The part of a smoother that answers ask: every model is f(x) = v(x)·coefficients.

    Attributes
    ----------
    unpenalised : Unpenalised
    targets : Targets
    """

    unpenalised: Unpenalised
    targets: Targets

    @abstractmethod
    def outputs(self) -> Outputs:
        """Return the map from new rows to v(x): every model here is f(x) = v(x)·coefficients."""

    @abstractmethod
    def model(self, alphas: FloatArray) -> FloatArray:
        """Return the coefficients (v, q) of the model on all rows, one penalty per target."""

    @abstractmethod
    def held_models(self, factor: Factor, shape: Shape, held: Held, r: FloatArray) -> FloatArray:
        """Return the coefficients (b, v, q) of the models with held-out residuals r (1, b, h, v).

        Like predictions they lack the targets' level, which `with_level` adds.

        Parameters
        ----------
        factor : Factor
        shape : Shape
            Stacked tasks.
        held : Held
            The factor on them, at one penalty.
        r : ndarray of shape (1, b, h, v)
        """

    def with_level(
        self, coefficients: FloatArray, columns: slice | IntArray = slice(None)
    ) -> FloatArray:
        """Add the targets' part along the unpenalised columns to (…, v, q), in place."""
        s = self.unpenalised.count
        if s:
            coefficients[..., -s:] += self.targets.level[:, columns].T
        return coefficients

    @abstractmethod
    def published(self, coefficients: FloatArray, alphas: FloatArray) -> Fit:
        """Return coefficients (v, q) of one model as those of rows, or columns, and unpenalised."""

    @abstractmethod
    def fitted_rows(self, coefficients: FloatArray, rows: IntArray) -> FloatArray:
        """Return f (k, v) on rows of the data, for one model (v, q)."""

    @abstractmethod
    def fitted_squares(self, coefficients: FloatArray) -> FloatArray:
        """Return Σ_i w_i f(x_i)² over the trained rows, for models (…, q)."""

    @abstractmethod
    def posterior(self, rows: IntArray, alphas: FloatArray) -> FloatArray:
        """Return the covariance (a, t, t) of f on rows of the data, in units of the noise."""

    @abstractmethod
    def variances(self, X: Any, alphas: FloatArray) -> FloatArray:
        """Return the variance (k, a) of f on new rows, in units of the noise."""

    @abstractmethod
    def half_residuals(self, alpha: float) -> FloatArray:
        """Return (I − S)^½ √w y (m, v): one number per row, uncorrelated under the model."""
