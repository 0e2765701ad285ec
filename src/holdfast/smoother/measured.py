"""How large the error of a dense model's held-out predictions is, measured on a few of them.

A bound, eps times the condition of the kernel matrix, says how large errors may be. They rarely
are, and training from scratch has errors of its own. So a few experiments are looked at: their
models are refined by one step with the kernel matrix itself, which mixes no rows as a decomposition
does, and compared with what the path computed (Skeel 1980, Higham 2002 §12). The same step tells
how much of the answer float64 leaves to anybody: the rounding errors of the residual.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.experiments import Tasks
from holdfast.linalg import solve_small
from holdfast.smoother.scale import RowScale, Unpenalised

__all__ = ["DenseProblem", "Inverse", "Measured", "look", "look_at_some"]

EPS = float(np.finfo(np.float64).eps)
#: All tasks are looked at, at every penalty, where that takes no more operations than this; …
FREE = 6e5
#: … otherwise this many penalties and targets, and tasks up to this share of n³.
SOME, SHARE = 2, 0.01


class Measured(NamedTuple):
    """What was measured, at each penalty.

    Attributes
    ----------
    errors : ndarray of shape (a,)
        The largest difference from refined predictions, over the largest prediction.
    attainable : ndarray of shape (a,)
        The largest error that rounding leaves to any method.
    """

    errors: FloatArray
    attainable: FloatArray


class Inverse(Protocol):
    """G = (√wK√w + αI)⁻¹ on the complement of Q, over the trained rows, as some factor has it."""

    def leverages(self, alpha: float) -> FloatArray:
        """Return S_ii of every row of the data."""

    def inverse_rows(self, rows: IntArray, alphas: FloatArray) -> FloatArray:
        """Return rows of G, shape (a, h, n)."""

    def inverse_times(self, x: FloatArray, alphas: FloatArray) -> FloatArray:
        """Return G x for x (a, n, v)."""


class DenseProblem(NamedTuple):
    """A dense model over its trained rows.

    Attributes
    ----------
    A : ndarray of shape (n, n)
        √wK√w.
    absolute : ndarray of shape (n, n)
        Its entries without their signs.
    root : ndarray of shape (n,)
        √w.
    Q : ndarray of shape (n, s)
        Unpenalised columns times √w, orthonormal.
    Ys : ndarray of shape (n, v)
        √w y.
    K, U, live : ndarray of shape (m, m), (m, s) and (m,)
        Of all rows: the kernel matrix, the unpenalised columns, and which are trained on.
    """

    A: FloatArray
    absolute: FloatArray
    root: FloatArray
    Q: FloatArray
    Ys: FloatArray
    K: FloatArray
    U: FloatArray
    live: BoolArray

    @classmethod
    def of(
        cls, K: FloatArray, scale: RowScale, unpenalised: Unpenalised, Ys: FloatArray
    ) -> DenseProblem:
        """Return the problem of the rows that are trained on."""
        live, root = scale.trained, scale.root[scale.trained]
        A = K if scale.everything else K[np.ix_(live, live)]
        if not scale.uniform:
            A = root[:, None] * A * root
        U = unpenalised.U
        return cls(A, np.abs(A), root, unpenalised.Q[live], Ys[live], K, U, live)

    def residual(self, c: FloatArray, alphas: FloatArray) -> FloatArray:
        """Return √w y − (A + αI) c for c (a, n, v)."""
        return np.asarray(self.Ys - _rows(self.A, c) - alphas[:, None, None] * c)

    def outputs(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return K√w (t, n) and U (t, s) of some rows, which predict by K√w c + U level."""
        return self.K[rows][:, self.live] * self.root, self.U[rows]

    def rounding(self, c: FloatArray, alphas: FloatArray) -> FloatArray:
        """Return the rounding errors of that, in the last digit of each sum."""
        size = _rows(self.absolute, np.abs(c)) + alphas[:, None, None] * np.abs(c)
        return np.asarray(EPS * (size + np.abs(self.Ys)))


def look_at_some(
    problem: DenseProblem,
    inverse: Inverse,
    tasks: Tasks,
    alphas: FloatArray,
    values: FloatArray,
    size: FloatArray,
) -> Measured:
    """Return the largest errors of some tasks, at penalties where predictions have a `size` (a, v).

    All tasks, penalties and targets if that takes no time; otherwise a few, first the task that
    holds out the row of highest leverage. A penalty that is not looked at takes after the nearest
    that is. Predictions that a path has given up itself (NaN) are left out.
    """
    hard, (n, v) = np.flatnonzero(size.max(axis=1) > 0.0), problem.Ys.shape
    looked, targets, which = hard, np.arange(v), np.arange(len(tasks))
    each = 12.0 * n**2
    if each * hard.size * v * len(tasks) > FREE:
        looked, targets = _evenly(hard, SOME), _evenly(targets, SOME)
        others = int(SHARE * n**3 / (each * looked.size * targets.size))
        highest = np.zeros(len(tasks))
        leverages = inverse.leverages(float(alphas[looked[0]]))[tasks.held.values]
        np.maximum.at(highest, tasks.held.owners, leverages)
        which = np.unique(np.append(_evenly(which, others), highest.argmax()))
    some, part = alphas[looked], problem._replace(Ys=problem.Ys[:, targets])
    c = inverse.inverse_times(np.broadcast_to(part.Ys, (looked.size, *part.Ys.shape)), some)
    place = np.cumsum(problem.live) - 1
    worst = np.zeros((2, looked.size))
    for j in which.tolist():
        held = tasks.held[j][problem.live[tasks.held[j]]]
        test = slice(tasks.test.ptr[j], tasks.test.ptr[j + 1])
        if not held.size or test.start == test.stop:
            continue
        given = values[np.ix_(looked, np.arange(test.start, test.stop), targets)]
        found = look(part, inverse, c, place[held], tasks.test[j], some, given)
        relative = found / size[np.ix_(looked, targets)]  # (2, a, v)
        worst = np.fmax(worst, np.fmax.reduce(relative, axis=2))
    nearest = looked[np.abs(np.arange(len(alphas))[:, None] - looked).argmin(axis=1)]
    errors = np.where(size.max(axis=1) > 0.0, worst[:, np.searchsorted(looked, nearest)], 0.0)
    return Measured(*errors)


def _evenly(numbers: IntArray, count: int) -> IntArray:
    """Return `count` of the numbers, the first and the last among them."""
    if numbers.size <= count:
        return numbers
    if count < 1:
        return numbers[:0]
    return numbers[np.linspace(0, numbers.size - 1, count).astype(np.int64)]


def look(
    problem: DenseProblem,
    inverse: Inverse,
    c: FloatArray,
    held: IntArray,
    test: IntArray,
    alphas: FloatArray,
    values: FloatArray,
) -> FloatArray:
    """Return the errors of the predictions of one task, and what is attainable, (2, a, v).

    Parameters
    ----------
    problem : DenseProblem
    inverse : Inverse
    c : ndarray of shape (a, n, v)
        G √w y.
    held : ndarray of int
        Held-out rows, numbered among the trained rows.
    test : ndarray of int
        Test rows of the data.
    alphas : ndarray of shape (a,)
    values : ndarray of shape (a, t, v)
        What a path predicts.

    Notes
    -----
    c₋H = c − G_{·H} G_HH⁻¹ c_H solves the equations of the rows that are left. With their residual
    ρ, one step adds G ρ − G_{·H} G_HH⁻¹ (Gρ)_H. About 10 n² flops for each penalty and target.
    """
    a, n, v = c.shape
    G_H = inverse.inverse_rows(held, alphas)  # (a, h, n)
    G_HH = G_H[:, :, held]

    def without(x: FloatArray) -> FloatArray:
        left = x - G_H.swapaxes(1, 2) @ np.linalg.solve(G_HH, x[:, held])
        left[:, held] = 0.0
        return np.asarray(left)

    model = without(c)
    rho = problem.residual(model, alphas)
    rho[:, held] = 0.0
    model = model + without(inverse.inverse_times(rho, alphas))
    K, U = problem.outputs(test)
    refined = _rows(K, model)
    if U.shape[1]:
        Q = problem.Q.copy()
        Q[held] = 0.0
        left = problem.residual(model, alphas).transpose(1, 0, 2).reshape(n, a * v)
        level = solve_small(Q.T @ Q, Q.T @ left).reshape(-1, a, v)
        refined += _rows(U, level.swapaxes(0, 1))
    # How residuals reach the held-out rows: G_HH⁻¹ G_H·, and from there any row.
    rounding = problem.rounding(model, alphas)
    rounding[:, held] = 0.0
    spread = np.linalg.solve(G_HH, G_H)  # (a, h, n)
    noise = np.sqrt(np.square(spread) @ np.square(rounding)) / problem.root[held, None]
    noise = noise.max(axis=1)  # (a, v)
    noise += EPS * _rows(np.abs(K), np.abs(model)).max(axis=1)
    return np.stack([np.fmax.reduce(np.abs(values - refined), axis=1), noise])


def _rows(K: FloatArray, c: FloatArray) -> FloatArray:
    """Return K c (a, t, v) for c (a, n, v), as one product."""
    a, n, v = c.shape
    flat = np.ascontiguousarray(c.transpose(1, 0, 2)).reshape(n, a * v)
    return np.ascontiguousarray((K @ flat).reshape(-1, a, v).swapaxes(0, 1))
