"""Held-out predictions by training again, for `verify`, for "reselect", and where little is left.

The model is fitted from scratch on its own training and basis rows, by direct solution of its
normal equations: no hold-out identity, no removal algebra, no spectrum.
"""

from __future__ import annotations

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.kernels.matrix import KernelData
from holdfast.smoother.features import Features, SomeRows
from holdfast.smoother.moments import RowScale, row_blocks
from holdfast.smoother.systems import primal_system, solve_primal


def retrain_primal(
    features: Features,
    weights: FloatArray,
    Y: FloatArray,
    test: IntArray,
    alphas: FloatArray,
    *,
    bias: bool,
) -> FloatArray:
    """Return predictions (alphas, test rows, targets) of a model in feature space.

    Parameters
    ----------
    features : Features
        Of a sparse model on its own basis rows, or the columns of a linear kernel.
    weights : ndarray of shape (m,)
        Zero for every row that must not be trained on.
    Y : ndarray of shape (m, v)
    test : ndarray of int
        Rows to predict.
    alphas : ndarray of shape (a,)
    bias : bool
    """
    predictions = np.empty((alphas.size, test.size, Y.shape[1]))
    train = np.flatnonzero(weights > 0)
    training = SomeRows(features, train)
    system = primal_system(training, weights[train], Y[train], bias=bias, keep=False)
    theta = np.stack([solve_primal(system, system.z, alpha) for alpha in alphas])
    for part in row_blocks(test.size, system.z.shape[0]):
        W = features.rows(test[part])
        if bias:
            W = np.column_stack([W - system.mean[:-1], np.full(len(W), 1 / system.scale.norm)])
        predictions[:, part] = W @ theta
    return predictions


def retrain_dense(
    data: KernelData,
    weights: FloatArray,
    Y: FloatArray,
    test: IntArray,
    alphas: FloatArray,
    *,
    bias: bool,
) -> FloatArray:
    """Return predictions (alphas, test rows, targets) of a dense model; arguments as above."""
    predictions = np.empty((alphas.size, test.size, Y.shape[1]))
    train = np.flatnonzero(weights > 0)
    K, K_test = data.block(train, train), data.block(test, train)
    root = RowScale.of(weights[train]).root
    n = train.size
    border = np.zeros((n + bias, n + bias))  # optimality conditions of the LS-SVM, paper 002
    border[:n, :n] = K * root[:, None] * root
    rhs = np.zeros((n + bias, Y.shape[1]))
    rhs[:n] = Y[train] * root[:, None]
    if bias:
        border[:n, n] = border[n, :n] = root
    for a, alpha in enumerate(alphas):
        A = border.copy()
        A[np.arange(n), np.arange(n)] += alpha
        c = np.linalg.solve(A, rhs)
        predictions[a] = (K_test * root) @ c[:n] + (c[n] if bias else 0.0)
    return predictions
