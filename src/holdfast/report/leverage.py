"""How much each row pulls its own fitted value towards itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from holdfast.holdout.inverse import inverse
from holdfast.smoother.moments import row_blocks
from holdfast.smoother.systems import DualSystem

if TYPE_CHECKING:
    from holdfast.estimators.base import CrossValidatedKernelRidge
    from holdfast.smoother.factors import Factor

__all__ = ["leverages"]


def leverages(model: CrossValidatedKernelRidge, alpha: float | None = None) -> NDArray[np.float64]:
    """Return S_ii for every training row: the derivative of its fitted value by its own target.

    Parameters
    ----------
    model : fitted estimator
    alpha : float, optional
        Penalty; by default the model's (the first, if it has one per target).

    Returns
    -------
    ndarray of shape (m,)
        Between 0 and 1; 0 for rows of weight zero. Their sum is the model's effective number of
        parameters, the intercept included.

    Notes
    -----
    S = U diag(1/(Λ+α)) Uᵀ (DESIGN §1), so S_ii = Σ_j U_ij²/(Λ_j+α); for a dense model
    1 − S_ii = α Σ_j V_ij²/(Λ_j+α), where nothing cancels. O(mp) once the factor is there; if the
    fit of a dense model was not spectral, 1 − S_ii = α(K + αI)⁻¹_ii from one inverse.
    """
    engine = model._engine_again()
    chosen = float(np.atleast_1d(model.alpha_)[0]) if alpha is None else float(alpha)
    system = engine.system
    if isinstance(system, DualSystem) and system.definite and engine._spectrum is None:
        found = np.zeros(len(system.K))
        found[system.scale.trained] = 1.0 - chosen * inverse(system, chosen).diagonal()
        return np.clip(found, 0.0, 1.0)
    return _diagonal(engine.spectrum(), chosen)


def _diagonal(factor: Factor, alpha: float) -> NDArray[np.float64]:
    D = factor.D(np.array([alpha]))
    d = factor.residual_D(D)[0] if factor.dual else D[0]
    m, p = factor.V.shape
    form = np.empty(m)
    for rows in row_blocks(m, p):  # the rows may be computed as they are asked for
        V = factor.V[rows]
        form[rows] = np.einsum("ij,ij,j->i", V, V, d)
    diagonal = 1.0 - alpha * form if factor.dual else form
    return np.where(factor.scale.trained, np.clip(diagonal, 0.0, 1.0), 0.0)
