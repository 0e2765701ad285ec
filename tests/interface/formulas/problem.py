"""One small problem for all examples, and models of it from their definitions."""

from __future__ import annotations

import numpy as np
from numpy.linalg import cholesky, inv, qr, solve

from holdfast.experiments import Ragged, Tasks
from holdfast.kernels import RBF
from holdfast.kernels.matrix import KernelRows
from holdfast.smoother import FeatureSmoother, KernelSmoother, Unpenalised
from holdfast.smoother.features import WhitenedFeatures
from holdfast.smoother.scale import RowScale

rng = np.random.default_rng(7)
m, n, v, eps = 26, 7, 2, 1e-3
X = rng.normal(size=(m, 3))
Y = np.c_[np.sin(X.sum(axis=1)), X[:, 0]] + 0.1 * rng.normal(size=(m, 2)) + 5.0
w = rng.uniform(0.5, 2.0, size=m)
root = np.sqrt(w)
Z = np.c_[np.ones(m), X[:, 0] ** 2]  # two unpenalised columns: a bias and a trend
alpha, alphas = 0.3, np.array([0.05, 0.3, 2.0])
K = np.exp(-0.4 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
B = rng.permutation(m)[:n]
H = np.r_[B[:2], np.setdiff1d(np.arange(m), B)[:3]]  # held out: two basis rows and three others
E = np.array([0, 1])  # their positions in the basis
rest = np.setdiff1d(np.arange(m), H)
test_rows = np.r_[H, rest[:2]]

Q, R_Z = qr(root[:, None] * Z)
U = Z @ inv(R_Z)
C = cholesky(K[np.ix_(B, B)] + eps * np.eye(n))
Phi = K[:, B] @ inv(C).T
Level = Q.T @ (root[:, None] * Y)
Ys = root[:, None] * Y - Q @ Level
B_Phi = Q.T @ (root[:, None] * Phi)  # features along the unpenalised columns
W = root[:, None] * Phi - Q @ B_Phi
mask = np.repeat([1.0, 0.0], [n, 2])

data = KernelRows(RBF(0.4), X)
features = WhitenedFeatures.of(data, B, eps)
scale, unpenalised = RowScale.of(w), Unpenalised.of(Z, w)


def feature_smoother() -> FeatureSmoother:
    return FeatureSmoother(features, w, Y, unpenalised)


def kernel_smoother() -> KernelSmoother:
    return KernelSmoother(K.copy(), w, Y, unpenalised)


def naive_S(a: float, removed=()) -> np.ndarray:
    """The smoother of weighted rows, from the definition: fitted values of unit vectors."""
    keep = np.delete(np.arange(n), removed)
    A = np.c_[root[:, None] * K[:, B[keep]], root[:, None] * Z]
    P = np.zeros((A.shape[1],) * 2)
    P[: keep.size, : keep.size] = a * (K[np.ix_(B[keep], B[keep])] + eps * np.eye(keep.size))
    return A @ solve(A.T @ A + P, A.T)


def naive_sparse(held, removed, a: float, weights=w) -> np.ndarray:
    """Predictions of all rows by a model trained without `held`, on basis rows not `removed`."""
    train, keep = np.setdiff1d(np.flatnonzero(weights > 0), held), np.delete(np.arange(n), removed)
    A, P = np.c_[K[:, B[keep]], Z], np.zeros((keep.size + 2,) * 2)
    P[: keep.size, : keep.size] = a * (K[np.ix_(B[keep], B[keep])] + eps * np.eye(keep.size))
    A_w = A[train] * weights[train, None]
    return A @ solve(A[train].T @ A_w + P, A_w.T @ Y[train])


def naive_dense(held, a: float, weights=w) -> np.ndarray:
    """Predictions of all rows by a dense model trained without `held`: the bordered system."""
    train = np.setdiff1d(np.flatnonzero(weights > 0), held)
    k = train.size
    system = np.zeros((k + 2, k + 2))
    system[:k, :k] = K[np.ix_(train, train)] + a * np.diag(1.0 / weights[train])
    system[:k, k:], system[k:, :k] = Z[train], Z[train].T
    c = solve(system, np.r_[Y[train], np.zeros((2, v))])
    return K[:, train] @ c[:k] + Z @ c[k:]


def dense_G(a: float, rows=None) -> np.ndarray:
    """(√wK√w + aI)⁻¹ on the complement of Q, for some rows."""
    rows = np.arange(m) if rows is None else rows
    r, q = root[rows], qr(root[rows, None] * Z[rows])[0]
    inner = inv(r[:, None] * K[np.ix_(rows, rows)] * r + a * np.eye(rows.size))
    return inner - inner @ q @ inv(q.T @ inner @ q) @ q.T @ inner


def tasks(held=H, removed=E, test=test_rows) -> Tasks:
    one = [Ragged.from_arrays([np.asarray(part)]) for part in (held, removed, test)]
    return Tasks(*one, np.array([0]))


def shape(**sets):
    (found,) = tasks(**sets).shapes()
    return found


def held_features(**sets):
    return feature_smoother().factor(alphas[0]).held(shape(**sets), alphas)


def parts(held):
    """V of the held-out rows, D, O and z of a Held, as plain arrays of the first task."""
    O = np.zeros((held.V.shape[2], 0)) if held.O is None else held.O[0]  # noqa: E741
    return held.V[0], held.D, O, held.z


def M_E(D, O):  # noqa: E741
    D = np.diag(D)
    return D - D @ O @ inv(O.T @ D @ O) @ O.T @ D if O.shape[1] else D
