"""Least squares without a penalty: every column, and the bias, is unpenalised.

With √w [X, 1] = QR the model of all rows is ŷ = Q Qᵀy. In the coordinates of Q that of the rows
without H is b = (I − Q_HᵀQ_H)⁻¹ (Qᵀy − Q_Hᵀy_H), or with an |H| × |H| inverse

    b = Qᵀy − Q_Hᵀ (I − Q_HQ_Hᵀ)⁻¹ (y_H − Q_HQᵀy).

Both matrices have the same smallest eigenvalue, at least 1 / ‖inverse‖: it shows whether the rows
that are left still determine every column.
"""

from __future__ import annotations

import numpy as np

from holdfast._typing import FloatArray
from holdfast.core.experiments import Tasks
from holdfast.model_selection.description import Refit

#: Below this share of its square a column's length is undetermined.
DETERMINED = 1e-7


def held_out(
    X: FloatArray, Y: FloatArray, weights: FloatArray, tasks: Tasks, *, bias: bool, cut: float
) -> FloatArray:
    """Return predictions (test rows, v).

    `cut` is the share of the largest singular value below which scikit-learn drops a direction.
    """
    root = np.sqrt(weights)[:, None]
    if bias:  # columns without their means lose no accuracy to them; the bias takes them up
        X = X - np.average(X, axis=0, weights=weights)
    Z = np.column_stack([X, np.ones(len(X))]) if bias else X
    if Z.shape[1] > len(Z):
        raise Refit(f"{len(Z)} rows leave {Z.shape[1]} columns without a penalty undetermined")
    Q, R = np.linalg.qr(root * Z)
    size = np.linalg.svd(R[: X.shape[1], : X.shape[1]], compute_uv=False)
    if size[-1] <= 1e-9 * size[0] or (np.abs(np.diag(R)) <= 1e-9 * np.linalg.norm(R, axis=0)).any():
        raise Refit("the columns are linearly dependent, and without a penalty undetermined")
    out = np.linalg.solve(R.T, Z.T).T  # rows in the coordinates of Q, whatever their weight
    Y = root * Y
    z, p = Q.T @ Y, len(R)
    values = np.empty((tasks.test.values.size, Y.shape[1]))
    for j in range(len(tasks)):
        H, test = tasks.held[j], slice(tasks.test.ptr[j], tasks.test.ptr[j + 1])
        own, small = Q[H], H.size < p
        A = np.eye(min(H.size, p)) - (own @ own.T if small else own.T @ own)
        try:
            inverse = np.linalg.inv(A)
        except np.linalg.LinAlgError:
            inverse = np.full((1, 1), np.inf)
        least = 1.0 / max(1.0, float(np.linalg.norm(inverse)))
        if not least > DETERMINED or np.sqrt(least) * size[-1] <= 2.0 * cut * size[0]:
            raise Refit("a split leaves a column without a penalty undetermined, or nearly so")
        right = Y[H] - own @ z if small else z - own.T @ Y[H]
        b = z - own.T @ (inverse @ right) if small else inverse @ right
        values[test] = out[tasks.test[j]] @ b
    return values
