"""Least squares without a penalty: every column, and the bias, is unpenalised.

With √w [X, 1] = QR the model of all rows is ŷ = Q Qᵀy, and that of the rows without H solves

    (I − Q_HᵀQ_H) b = Qᵀy − Q_Hᵀy_H        in the coordinates of Q,

p × p for any H. The smallest eigenvalue of the matrix shows whether the rows that are left still
determine every column.
"""

from __future__ import annotations

import numpy as np

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.core.experiments import Tasks
from holdfast.model_selection.recognise import Form, Refit

__all__ = ["held_out"]

#: Below this share of a column's length the rows that are left do not determine it.
DETERMINED = 1e-9


def held_out(form: Form, tasks: Tasks) -> tuple[FloatArray, BoolArray]:
    """Return predictions (test rows, v), and which tasks leave a column undetermined.

    Predictions of those tasks are not filled.
    """
    m, root = len(form.Y), np.sqrt(form.weights)
    Z, lengths = form.rows, np.linalg.norm(form.rows, axis=0)
    if form.bias:
        # Centred columns lose no accuracy to a large mean, and the bias takes it up; its column is
        # as long as they are.
        mean = np.average(form.rows, axis=0, weights=form.weights)
        Z = form.rows - mean
        long = np.linalg.norm(root[:, None] * Z) / np.linalg.norm(root)
        Z = np.column_stack([Z, np.full(m, long or 1.0)])
    if Z.shape[1] > m:
        raise Refit(f"{m} rows leave {Z.shape[1]} columns without a penalty undetermined")
    Q, R = np.linalg.qr(root[:, None] * Z)
    own = np.abs(np.diag(R))
    if (own <= DETERMINED * np.linalg.norm(R, axis=0)).any() or not lengths.all():
        raise Refit("the columns are linearly dependent, and without a penalty undetermined")
    out = np.linalg.solve(R.T, Z.T).T  # rows in the coordinates of Q, whatever their weight
    Ys = root[:, None] * form.Y
    z = Q.T @ Ys
    values = np.empty((tasks.test.values.size, form.Y.shape[1]))
    lost = np.zeros(len(tasks), dtype=bool)
    share = np.linalg.svd(R, compute_uv=False)[[-1, 0]]
    share = share[0] / share[1]
    for j in range(len(tasks)):
        H = tasks.held[j]
        A = np.eye(len(R)) - Q[H].T @ Q[H]
        eigenvalues, vectors = np.linalg.eigh(A)
        lost[j] = eigenvalues[0] <= DETERMINED
        # √eigenvalue times `share` is a lower bound of what scikit-learn compares with its cut.
        if not lost[j] and np.sqrt(eigenvalues[0]) * share <= 2.0 * form.cut:
            lost[j] = _least_share(form, H) <= 1.01 * form.cut
        if not lost[j]:
            right = z - Q[H].T @ Ys[H]
            b = vectors @ ((vectors.T @ right) / eigenvalues[:, None])
            values[tasks.test.ptr[j] : tasks.test.ptr[j + 1]] = out[tasks.test[j]] @ b
    return values, lost


def _least_share(form: Form, held: IntArray) -> float:
    """Return the smallest singular value of the training rows over the largest."""
    rows, weights = np.delete(form.rows, held, axis=0), np.delete(form.weights, held)
    if form.bias:
        rows = rows - np.average(rows, axis=0, weights=weights)
    values = np.linalg.svd(np.sqrt(weights)[:, None] * rows, compute_uv=False)
    return float(values[-1] / values[0]) if values.size else 1.0
