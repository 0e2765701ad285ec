"""What a smoother of features says of its system, wherever its rows are: here or on a cluster."""

from __future__ import annotations

from abc import abstractmethod
from math import inf
from typing import Any, ClassVar

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.experiments import Shape
from holdfast.smoother.base import Fit, Form, Smoother
from holdfast.smoother.factor import Factor, FeatureFactor
from holdfast.smoother.factorise import ENOUGH, held_promise, single_promise
from holdfast.smoother.features import Features
from holdfast.smoother.held import Held
from holdfast.smoother.outputs import FeatureOutputs
from holdfast.smoother.refined import FeatureProblem
from holdfast.smoother.rows import RowBlocks, StreamedRows, fitted
from holdfast.smoother.system import FeatureSystem, coefficients, solve_each
from holdfast.smoother.system_models import feature_models, feature_outputs, half_residuals

__all__ = ["FeatureForm"]


class FeatureForm(Smoother):
    """A smoother in features φ: f(x) = φ(x)·θ with the penalty α‖θ‖².

    Attributes
    ----------
    features : Features
    system : FeatureSystem
        In its current coordinates.
    """

    form: ClassVar[Form] = "features"
    # Half is where summing the rows that are left becomes cheaper than subtracting the others.
    least_share: ClassVar[float] = 0.5
    features: Features

    @property
    @abstractmethod
    def system(self) -> FeatureSystem:
        """The weighted system, in its current coordinates."""

    @abstractmethod
    def factor(self, alpha: float | None = None, least: float = inf) -> FeatureFactor:
        """Return the factor for every penalty from `least` on, or at one penalty."""

    @abstractmethod
    def _portable(self) -> Features:
        """Return the features for new rows, without the rows of the data."""

    @abstractmethod
    def _errors(self, theta: FloatArray, coef: FloatArray, unpenalised: FloatArray) -> FloatArray:
        """Return w(y − f) of every row (m, v), for a model θ (p + s, v) and its coefficients."""

    @property
    def n_basis(self) -> int | None:
        """The number n of basis rows; None for a linear kernel."""
        return self.features.n_basis

    @property
    def largest_value(self) -> float:
        """The largest kernel value of a basis row with itself."""
        return self.features.largest_value

    @property
    def norms(self) -> FloatArray:
        """Approximate ‖W_i‖² of every trained row, the unpenalised columns left out."""
        return self.system.norms

    def path_promise(self, path: str, alphas: FloatArray) -> FloatArray | None:
        """Return how far a path may be from training by QR, which loses digits of its own."""
        if path == "fold_gram" and self.additive:
            return np.full(alphas.size, ENOUGH)  # pivots that promise less are not used
        system = self.system
        if not system.diagonal or alphas.min() < system.least:
            return None
        errors = np.full(alphas.size, system.promise)
        if path == "single":
            Lambda = system.gram[: system.p]
            errors = np.maximum(single_promise(Lambda, alphas, system.support), errors)
        return held_promise(errors)

    # -- the model on all rows ---------------------------------------------------------------------

    def fit(self, alphas: FloatArray) -> Fit:
        """Return the model on all rows; that of a linear kernel also by its columns."""
        return self._published(solve_each(self.system, alphas), alphas)

    def _published(self, theta: FloatArray, alphas: FloatArray) -> Fit:
        """Return the model θ (p + s, v) by its basis rows; without any, by rows and columns."""
        coef, unpenalised = coefficients(self.system, theta, self.targets.level, self.unpenalised)
        if self.n_basis is not None:
            return Fit(coef, None, unpenalised)
        return Fit(self._errors(theta, coef, unpenalised) / alphas, coef, unpenalised)

    def leverages(self, alpha: float) -> FloatArray:
        """Return S_ii of every row."""
        return self.factor(least=alpha).leverages(alpha)

    def likely_leverages(self, alpha: float) -> FloatArray:
        """Return leverages if the factor and the rows are there, else the length of rows."""
        ready = self.system.diagonal and isinstance(self.system.W, np.ndarray)
        return self.leverages(alpha) if ready else self.norms

    # -- models as coefficients --------------------------------------------------------------------

    def outputs(self) -> FeatureOutputs:
        """Return v(x) in the coordinates that the system has now."""
        return feature_outputs(self.system, self._portable(), self.unpenalised)

    def model(self, alphas: FloatArray) -> FloatArray:
        """Return θ (v, p + s) with the targets' level."""
        return self.with_level(solve_each(self.system, alphas).T)

    def held_models(self, factor: Factor, shape: Shape, held: Held, r: FloatArray) -> FloatArray:
        """Return β (b, v, p + s)."""
        return feature_models(held, r)

    def published(self, coefficients: FloatArray, alphas: FloatArray) -> Fit:
        """Return coefficients of basis rows; those of a linear kernel also by its columns."""
        theta = coefficients.T.copy()
        theta[self.features.size :] -= self.targets.level
        return self._published(theta, alphas)

    def fitted_rows(self, coefficients: FloatArray, rows: IntArray) -> FloatArray:
        """Return W θ without the weights."""
        blocks = RowBlocks(self.system.W, rows, once=True)
        return np.asarray(fitted(blocks, self.scale.root[rows], coefficients.T[None])[0])

    def fitted_squares(self, coefficients: FloatArray) -> FloatArray:
        """Return Σ_j Λ_j β_j²: no row is looked at."""
        return np.asarray(np.square(coefficients) @ self.factor().Lambda)

    # -- models without some rows ------------------------------------------------------------------

    def refined(
        self,
        held: IntArray,
        removed: IntArray,
        test: IntArray,
        alpha: float,
        columns: IntArray,
        size: float,
    ) -> FloatArray | None:
        """Return predictions that the feature rows agree with; None where these are not kept.

        The test rows are made again from the data.
        """
        if not isinstance(self.system.W, np.ndarray):
            return None
        problem = FeatureProblem(
            self.system, self.targets.Ys, alpha, self.scale.trained, held, removed, columns
        )
        rows = StreamedRows(self.features, self.system.B, self.scale, self.unpenalised)[test]
        return problem.predictions(rows / self.scale.root[test, None], size)

    # -- the Gaussian view -------------------------------------------------------------------------

    def posterior(self, rows: IntArray, alphas: FloatArray) -> FloatArray:
        """Return φ D φᵀ."""
        factor = self.factor()
        out = factor.outputs(rows, factor.V[rows])
        return np.asarray((out * factor.D(alphas)[:, None]) @ out.T)

    def variances(self, X: Any, alphas: FloatArray) -> FloatArray:
        """Return φ·Dφ."""
        D = self.factor(least=float(alphas.min())).D(alphas)
        return np.asarray(np.square(self.outputs()(X)) @ D.T)

    def half_residuals(self, alpha: float) -> FloatArray:
        """Return √w y − U h(Λ) Uᵀ√w y, h = (1 − √(α/(Λ + α)))/Λ without the cancellation."""
        return half_residuals(self.factor(least=alpha), alpha)
