"""The formulas of the papers as they are printed, explicit inverses and all.

Misprints are corrected and named where they stood. These are references for what the papers
say, not for accuracy. Two things cost Proposition 1 its digits when K_BB is ill conditioned:
K_B K_B' formed before whitening, and, when basis rows are removed, the corrections K_HE Q_E and
Q_E' (K_B y)_E, large terms that cancel. Only the models of the papers: no weights, and a bias
only in Cawley and Talbot 2004.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reference.retrain import as_columns, as_rows

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


# Pahikkala, Suominen, Boberg 2012.


@dataclass(frozen=True)
class Proposition1Caches:
    """The matrices (20)-(25) that Proposition 1 keeps in memory.

    Attributes
    ----------
    basis : (n,)
        Basis rows.
    K_B : (n, m)
        (20).
    Lambda : (n,)
        The diagonal of (21).
    Q : (n, n)
        (22).
    KtQ : (m, n)
        (23), K_B' Q.
    Ky : (n, targets)
        (24), K_B y. In (12) it is misprinted K_BB y.
    QtKy : (n, targets)
        (25), Q' K_B y.
    y : (m, targets)
        Labels.
    """

    basis: Rows
    K_B: Floats
    Lambda: Floats
    Q: Floats
    KtQ: Floats
    Ky: Floats
    QtKy: Floats
    y: Floats


def proposition_1_caches(
    K: ArrayLike, y: ArrayLike, basis: ArrayLike, jitter: float = 0.0
) -> Proposition1Caches:
    """Return the caches of Proposition 1: (14), (15), (16), then (20)-(25)."""
    K, Y, B = np.asarray(K, dtype=np.float64), as_columns(y), as_rows(basis)
    K_B = K[B]
    C = np.linalg.cholesky(K[np.ix_(B, B)] + jitter * np.eye(len(B)))  # (14)
    C_inv = np.linalg.inv(C)
    Lambda, V = np.linalg.eigh(C_inv @ (K_B @ K_B.T) @ C_inv.T)  # (15)
    Q = C_inv.T @ V  # (16)
    return Proposition1Caches(B, K_B, Lambda, Q, K_B.T @ Q, K_B @ Y, Q.T @ (K_B @ Y), Y)


def proposition_1(
    caches: Proposition1Caches,
    held_out: ArrayLike,
    alpha: float,
    remove: bool = True,
    side: Literal["left", "right"] = "left",
) -> Floats:
    """Return f_{-H}(X_H), (|H|, targets), by (26)-(32) of Proposition 1.

    Parameters
    ----------
    caches : Proposition1Caches
        (20)-(25).
    held_out : row indices
        H.
    alpha : float
        The penalty.
    remove : bool
        Whether basis rows in H leave the basis. If not, or if there are none, Corollary 2.
    side : {"left", "right"}
        Which side of (36) gives (I - J)^-1: an |H| x |H| or an n x n inverse.
    """
    c, H = caches, as_rows(held_out)
    position = {int(row): j for j, row in enumerate(c.basis)}
    E = as_rows([position[i] for i in H.tolist() if remove and i in position])
    D = 1.0 / (c.Lambda + alpha)  # the diagonal of (Lambda + lambda I)^-1
    Q_E, K_EH = c.Q[E], c.K_B[np.ix_(E, H)]
    U = c.KtQ[H] - K_EH.T @ Q_E  # (30)
    z = c.QtKy - Q_E.T @ c.Ky[E] - c.KtQ[H].T @ c.y[H] + Q_E.T @ (K_EH @ c.y[H])  # (32)
    inner = np.linalg.inv(Q_E * D @ Q_E.T)  # 0 x 0 under Corollary 2
    r = U * D @ z - (U * D @ Q_E.T) @ inner @ (Q_E * D @ z)  # (28)
    A = U * D
    B = U.T - Q_E.T @ inner @ (Q_E * D @ U.T)
    if side == "left":
        J = U * D @ U.T - (U * D @ Q_E.T) @ inner @ (Q_E * D @ U.T)  # (27)
        return np.asarray(-np.linalg.inv(J - np.eye(len(H))) @ r)  # (26)
    inverse = np.eye(len(H)) - A @ np.linalg.inv(-np.eye(len(D)) + B @ A) @ B  # (36)
    return np.asarray(inverse @ r)


def equation_19(
    K: ArrayLike,
    y: ArrayLike,
    held_out: ArrayLike,
    basis: ArrayLike,
    alpha: float,
    jitter: float = 0.0,
) -> Floats:
    """Return f_{-H}(X_H) by (19): the retraining that Proposition 1 avoids, basis rows removed."""
    K, Y, H = np.asarray(K, dtype=np.float64), as_columns(y), as_rows(held_out)
    not_H = np.setdiff1d(np.arange(len(K)), H)
    L = np.setdiff1d(as_rows(basis), H)
    K_L = K[np.ix_(L, not_H)]
    G = K_L @ K_L.T + alpha * (K[np.ix_(L, L)] + jitter * np.eye(len(L)))
    return np.asarray(K[np.ix_(H, L)] @ np.linalg.inv(G) @ K_L @ Y[not_H])


def modified_kernel(K: ArrayLike, basis: ArrayLike) -> Floats:
    """Return the (m, m) matrix of the modified kernel (18).

    Notes
    -----
    k~(x, x') = k(x, X_B) K_BB^-1 k(X_B, x'): the kernel vectors run over the basis rows and the
    second argument is x' (misprinted k(x, X) and k(X, x)). Dense RLS with it is sparse RLS.
    """
    K, B = np.asarray(K, dtype=np.float64), as_rows(basis)
    return np.asarray(K[:, B] @ np.linalg.inv(K[np.ix_(B, B)]) @ K[B])


def method_1_leave_one_out(
    K: ArrayLike, y: ArrayLike, basis: ArrayLike, alphas: ArrayLike, jitter: float = 0.0
) -> Floats:
    """Return leave-one-out predictions (alphas, m, targets), basis kept, anew for each penalty.

    Notes
    -----
    Method 1 of section 6.1: (12)-(13) from scratch for each lambda, then the closed form of
    Cawley and Talbot 2004 §2.6, without bias. (12) reads a = P^-1 K_B y (misprinted K_BB y).
    """
    K, Y, B = np.asarray(K, dtype=np.float64), as_columns(y), as_rows(basis)
    K_B, K_BB = K[B], K[np.ix_(B, B)] + jitter * np.eye(len(B))
    predictions = []
    for alpha in np.asarray(alphas, dtype=np.float64).reshape(-1):
        P_inv = np.linalg.inv(K_B @ K_B.T + alpha * K_BB)  # (13)
        fitted = K_B.T @ (P_inv @ (K_B @ Y))  # (10), (12)
        h = np.einsum("ji,jk,ki->i", K_B, P_inv, K_B)  # diagonal of the hat matrix
        predictions.append(Y - (Y - fitted) / (1.0 - h)[:, None])
    return np.stack(predictions)


# Cawley, Talbot 2004. lambda = 1 / (2 gamma); t are the labels, one target.


def sparse_lssvm_system(
    K: ArrayLike, t: ArrayLike, basis: ArrayLike, gamma: float, jitter: float = 0.0
) -> tuple[Floats, Floats, Floats]:
    """Return (C, d, Z) of (3) and (A.3): C = R + Z'Z, d = Z't, Z = [K^, 1]."""
    K, t, B = np.asarray(K, dtype=np.float64), np.asarray(t, dtype=np.float64), as_rows(basis)
    Z = np.column_stack([K[:, B], np.ones(len(K))])
    R = np.zeros((len(B) + 1, len(B) + 1))
    R[:-1, :-1] = (K[np.ix_(B, B)] + jitter * np.eye(len(B))) / (2.0 * gamma)
    return R + Z.T @ Z, Z.T @ t, Z


def bartlett_parameters(
    K: ArrayLike, t: ArrayLike, basis: ArrayLike, gamma: float, i: int, jitter: float = 0.0
) -> Floats:
    """Return p_(i) = (beta, b) of the model that never saw row i, by Lemma 2 (section 2.5).

    Notes
    -----
    The bracket in A.4 holds C^-1 (misprinted C).
    """
    C, d, Z = sparse_lssvm_system(K, t, basis, gamma, jitter)
    C_inv, z = np.linalg.inv(C), Z[i]
    C_inv_i = C_inv + np.outer(C_inv @ z, z @ C_inv) / (1.0 - z @ C_inv @ z)
    return np.asarray(C_inv_i @ (d - np.asarray(t, dtype=np.float64)[i] * z))


def closed_form_residuals(
    K: ArrayLike, t: ArrayLike, basis: ArrayLike, gamma: float, jitter: float = 0.0
) -> Floats:
    """Return E (m, m) with row i = e_(i), all residuals of the model that never saw row i.

    Notes
    -----
    A.4: e_(i) = e + e_i h_i / (1 - h_ii), H = Z C^-1 Z'. Its diagonal is {e_(i)}_i =
    e_i / (1 - h_ii) of section 2.6. The basis is kept.
    """
    C, d, Z = sparse_lssvm_system(K, t, basis, gamma, jitter)
    C_inv = np.linalg.inv(C)
    hat = Z @ C_inv @ Z.T
    e = np.asarray(t, dtype=np.float64) - Z @ (C_inv @ d)
    return np.asarray(e[None, :] + (e / (1.0 - np.diag(hat)))[:, None] * hat)


def press(K: ArrayLike, t: ArrayLike, basis: ArrayLike, gamma: float, jitter: float = 0.0) -> float:
    """Return Allen's PRESS, the sum of squared leave-one-out residuals (section 2.6)."""
    return float(np.sum(np.diag(closed_form_residuals(K, t, basis, gamma, jitter)) ** 2))


def dense_lssvm(K: ArrayLike, t: ArrayLike, gamma: float) -> tuple[Floats, float]:
    """Return (alpha, b) of the bordered system of section 2.2.

    Notes
    -----
    With the objective as printed the block is K + I / (2 gamma) (misprinted I / gamma).
    """
    K, t = np.asarray(K, dtype=np.float64), np.asarray(t, dtype=np.float64)
    A = np.ones((len(K) + 1, len(K) + 1))
    A[:-1, :-1] = K + np.eye(len(K)) / (2.0 * gamma)
    A[-1, -1] = 0.0
    solution = np.linalg.solve(A, np.append(t, 0.0))
    return solution[:-1], float(solution[-1])


# Tanaka, Imai 2019. G = K, the penalty is called gamma there. Dense, no bias.


def equation_14(K: ArrayLike, y: ArrayLike, held_out: ArrayLike, alpha: float) -> Floats:
    """Return d_k, the held-out residuals (|H|, targets), by An et al.: (14)."""
    K, Y, H = np.asarray(K, dtype=np.float64), as_columns(y), as_rows(held_out)
    inverse = np.linalg.inv(K + alpha * np.eye(len(K)))
    alpha_hat = inverse @ Y  # (4)
    return np.asarray(np.linalg.inv(inverse[np.ix_(H, H)]) @ alpha_hat[H])


def equation_16(K: ArrayLike, y: ArrayLike, held_out: ArrayLike, alpha: float) -> Floats:
    """Return d_k, the held-out residuals (|H|, targets), by eigendecomposition: (16)-(19)."""
    K, Y, H = np.asarray(K, dtype=np.float64), as_columns(y), as_rows(held_out)
    Lambda, P = np.linalg.eigh(K)
    alpha_hat = P / (Lambda + alpha) @ (P.T @ Y)  # (17)
    M = P[H] / (Lambda + alpha) @ P[H].T  # (18)
    return np.asarray(np.linalg.inv(M) @ alpha_hat[H])  # (19)


# Pahikkala, Boberg, Salakoski 2006. Dense, no bias.


def equation_9(K: ArrayLike, y: ArrayLike, held_out: ArrayLike, alpha: float) -> Floats:
    """Return predictions (|L|, targets) of held-out rows by Theorem 1: (9)."""
    Y, L = as_columns(y), as_rows(held_out)
    B = _hat_matrix(K, alpha)
    fitted = B @ Y  # (8)
    B_LL = B[np.ix_(L, L)]
    return np.asarray(np.linalg.inv(np.eye(len(L)) - B_LL) @ (fitted[L] - B_LL @ Y[L]))


def equation_10(K: ArrayLike, y: ArrayLike, alpha: float) -> Floats:
    """Return leave-one-out predictions (m, targets) by Corollary 1: (10)."""
    Y, B = as_columns(y), _hat_matrix(K, alpha)
    h = np.diag(B)[:, None]
    return np.asarray((B @ Y - h * Y) / (1.0 - h))


def _hat_matrix(K: ArrayLike, alpha: float) -> Floats:
    """Return B = K (K + lambda I)^-1 = V Lambda (Lambda + lambda)^-1 V': (7)."""
    Lambda, V = np.linalg.eigh(np.asarray(K, dtype=np.float64))
    return np.asarray(V * (Lambda / (Lambda + alpha)) @ V.T)
