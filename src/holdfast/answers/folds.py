"""Held-out models that are factorised once and solved for ever new targets.

`Folds` has the equations of each experiment's training rows, `Sets` the identity
r_H = (I − S_HH)⁻¹e_H; both keep what does not depend on the targets. `UnionsOfFolds` solves the
equations of very many experiments for few penalties.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs

from holdfast import holdout
from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.experiments import Tasks
from holdfast.holdout.digits import TOO_LITTLE, basis_shrinks, few_left
from holdfast.holdout.elimination import Pairs
from holdfast.holdout.identity import STACK_DOUBLES
from holdfast.holdout.unions import Unions
from holdfast.linalg import (
    Complement,
    Definite,
    Tridiagonal,
    not_definite,
    orthonormal_rows,
    run_pieces,
)
from holdfast.smoother import Equations, Form, Smoother
from holdfast.smoother.equations import FeatureEquations
from holdfast.smoother.factor import Coordinates

__all__ = ["Folds", "Sets", "UnionsOfFolds"]

#: Bytes that the reductions of all folds may take.
MOST_BYTES = 2**30


@dataclass(frozen=True)
class _Fold:
    """The equations of a fold, reduced, and its test rows in the same coordinates.

    Attributes
    ----------
    reduced : Tridiagonal
    complement : Complement or None
        Of the constraints of removed basis rows.
    rows : ndarray of shape (t, p)
        Test rows, less what the unpenalised columns take, in the coordinates of the reduction.
    beside : ndarray of shape (t, s)
        Their unpenalised columns.
    root : ndarray of shape (t,)
        √w.
    """

    reduced: Tridiagonal
    complement: Complement | None
    rows: FloatArray
    beside: FloatArray
    root: FloatArray

    @classmethod
    def of(cls, equations: FeatureEquations, W: FloatArray, root: FloatArray) -> _Fold:
        A, p = equations.A, len(equations.A)
        rows, beside = W[:, :p] - W[:, p:] @ equations.mean, W[:, p:].copy()
        complement = None
        if equations.N_E.size:
            complement = Complement(equations.N_E)
            A, rows = complement.reduce(A), complement.project(rows.T).T
        reduced = Tridiagonal.reduce(A)
        return cls(reduced, complement, reduced.coordinates(rows), beside, root)

    def predict(self, equations: FeatureEquations, alphas: FloatArray) -> FloatArray:
        """Return W θ of the test rows (a, t, v), where θ solves the equations."""
        rhs = equations.rhs
        if self.complement is not None:
            rhs = self.complement.project(rhs)
        x = self.reduced.reduced_solutions(rhs, alphas)  # (v, a, p)
        v, a, p = x.shape
        values = (x.reshape(v * a, p) @ self.rows.T).reshape(v, a, -1)
        if equations.level.size:
            values += (self.beside @ equations.level).T[:, None]
        values /= self.root
        return values.transpose(1, 2, 0)


class Folds:
    """Held-out predictions of the path "fold_gram" for one block of targets after another.

    Parameters
    ----------
    smoother : Smoother
        Of all rows, one that it `serves`. Those that are asked later differ from it in their
        targets alone.
    tasks : Tasks
    alphas : ndarray of shape (a,)

    Notes
    -----
    One reduction for each fold, 4/3 p³; then for each target and penalty 2 |T| p for the
    predictions, beside O(p) to solve.
    """

    def __init__(self, smoother: Smoother, tasks: Tasks, alphas: FloatArray) -> None:
        self.tasks, self.alphas = tasks, alphas
        disjoint = int(np.bincount(tasks.held.values, minlength=1).max()) <= 1
        if disjoint and len(tasks) * smoother.sizes(tasks).p <= 4 * smoother.weights.size:
            smoother.sum_sets(tasks.held)  # the same sums for every block
        self._afresh: BoolArray = few_left(smoother, tasks)
        self._kept: dict[int, _Fold] = {}

    @staticmethod
    def serves(smoother: Smoother, tasks: Tasks) -> bool:
        """Whether the equations of all folds are there, and their reductions find room."""
        if not smoother.sums_sets:
            return False
        p, t = float(smoother.sizes(tasks).p), float(tasks.test.values.size)
        room = 8.0 * (len(tasks) * p**2 + t * p) <= MOST_BYTES
        return room and not basis_shrinks(tasks, smoother.n_basis).any()

    def predict(self, smoother: Smoother) -> FloatArray:
        """Return held-out predictions (a, k, v) for the targets of this smoother."""
        tasks, alphas, v = self.tasks, self.alphas, smoother.targets.count
        values = np.empty((alphas.size, tasks.test.values.size, v))

        def work(j: int) -> None:
            held, removed, test = tasks.held[j], tasks.removed[j], tasks.test[j]
            equations = smoother.equations(held, removed, slice(None), bool(self._afresh[j]))
            fold = self._kept.get(j)
            if fold is None:
                rows = smoother.equation_rows(test)
                fold = self._kept[j] = _Fold.of(equations, rows, smoother.scale.root[test])
            values[:, tasks.test.ptr[j] : tasks.test.ptr[j + 1]] = fold.predict(equations, alphas)

        run_pieces(work, range(len(tasks)), None if smoother._ready_for_folds() else 1)
        return smoother.restore(values, tasks.test.values, slice(None))


class Sets:
    """Held-out predictions of the path "spectral" for one block of targets after another.

    For experiments that test the rows that they hold out: f = y − r needs no model.

    Parameters
    ----------
    smoother : Smoother
        Of all rows. Those that are asked later differ from it in their targets alone.
    tasks : Tasks
        Some for which `serves` is true.
    alphas : ndarray of shape (a,)

    Notes
    -----
    Σ|H|²p for each penalty, once; then 2 m p for each target and penalty, beside the small systems.
    """

    def __init__(self, smoother: Smoother, tasks: Tasks, alphas: FloatArray) -> None:
        self.alphas, self.count = alphas, tasks.test.values.size
        factor = smoother.factor()
        self._parts: list[tuple[IntArray, IntArray, list[Definite | FloatArray]]] = []
        for part in tasks.stacks(factor.size, STACK_DOUBLES):
            held, h = factor.held(part, alphas), part.H.shape[1]
            pieces = held.pieces(h * max(held.row_size, h * alphas.size))
            M = np.concatenate([held.gaps(piece) for piece in pieces])  # (b, a, h, h)
            systems: list[Definite | FloatArray] = [
                M[:, a] if h == 1 else Definite(np.ascontiguousarray(M[:, a]))
                for a in range(alphas.size)
            ]
            self._parts.append((part.H, part.out, systems))

    @staticmethod
    def serves(smoother: Smoother, tasks: Tasks, alphas: FloatArray) -> BoolArray:
        """Return which tasks it serves: no basis row leaves, enough is left, tests are held out."""
        factor, held = smoother.factor(), tasks.held
        simple = (tasks.removed.sizes == 0) & (held.sizes == tasks.test.sizes)
        if not isinstance(factor, Coordinates) or not isinstance(factor.V, np.ndarray):
            return np.zeros_like(simple)
        if not factor.R(factor.D(alphas)).min(initial=0.0) >= 0.0:
            return np.zeros_like(simple)  # an indefinite kernel
        simple &= ~few_left(smoother, tasks)
        index = np.flatnonzero(simple)
        same = held.items(index).values == tasks.test.items(index).values
        differs = np.bincount(held.items(index).owners, weights=~same, minlength=index.size)
        simple[index[differs > 0]] = False
        room = 8.0 * alphas.size * float(np.square(held.sizes[simple].astype(float)).sum())
        return simple if room <= MOST_BYTES else np.zeros_like(simple)

    def predict(self, smoother: Smoother) -> FloatArray:
        """Return held-out predictions (a, k, v) for the targets of this smoother."""
        factor, targets = smoother.factor(), smoother.targets
        assert isinstance(factor, Coordinates)
        values = np.empty((self.alphas.size, self.count, targets.count))
        for a, R in enumerate(factor.R(factor.D(self.alphas))):
            errors = (factor.V * R) @ factor.z  # e, or the dual coefficients of a dense model
            if factor.kappa:
                np.subtract(targets.Ys, errors, out=errors)
            for H, out, systems in self._parts:
                system, e = systems[a], errors[H]
                r = system.solve(e) if isinstance(system, Definite) else e / system
                values[a, out] = targets.Y[H] - smoother.scale.unscaled(r, H)
        rows = np.empty(self.count, dtype=np.int64)
        for H, out, _ in self._parts:
            rows[out] = H
        return smoother.restore(values, rows, slice(None))


#: How the unions of a few folds leave together, for each form of a smoother.
TOGETHER: dict[Form, type[Unions] | type[Pairs]] = {"features": Unions, "kernel": Pairs}


class UnionsOfFolds:
    """Held-out predictions of one set of unions of folds after another, for one or two penalties.

    Parameters
    ----------
    smoother : Smoother
        Of all rows.

    Notes
    -----
    Where many sets share their folds, all of them are solved for together: features by conjugate
    gradients (`holdfast.holdout.unions`), a kernel matrix by eliminating one fold after another
    (`holdfast.holdout.elimination`). Sets that these give up take the path. Of "fold_gram" Gram
    matrices are then sums over the atoms of the held-out sets: for each task p³/3 for a Cholesky
    factorisation and p²e for e removed basis rows, by the Schur complement of their constraints: a
    third of what their null space costs, which pays for many penalties only.
    """

    def __init__(self, smoother: Smoother) -> None:
        self.smoother = smoother
        self._kept: dict[float, Unions | Pairs] = {}

    def predict(self, tasks: Tasks, alphas: FloatArray, path: str) -> FloatArray:
        """Return held-out predictions (a, k, v), as the path has them."""
        smoother, owners = self.smoother, tasks.test.owners
        with smoother.lock:
            few, again = few_left(smoother, tasks), basis_shrinks(tasks, smoother.n_basis)
            values = np.full((alphas.size, owners.size, smoother.targets.count), np.nan)
            some = np.flatnonzero(~(few | again))
            if some.size and not (smoother.promise(alphas) > TOO_LITTLE).any():
                part = tasks if some.size == len(tasks) else tasks.select(some)
                values[:, np.isin(owners, some)] = self._together(part, alphas, path)
            lost = np.bincount(owners, np.isnan(values).any(axis=(0, 2)), len(tasks)) > 0
            apart = np.zeros_like(lost)
            if path == "fold_gram" and smoother.sums_sets and smoother.additive:
                apart = lost & ~again
            if apart.any():
                part = tasks.select(np.flatnonzero(apart))
                smoother.announce(part)
                values[:, apart[owners]] = smoother.by_fold(
                    _solve, part, alphas, slice(None), few[apart]
                )
            smoother.restore(values, tasks.test.values, slice(None))
            rest = lost & ~apart
            if rest.any():
                part = tasks.select(np.flatnonzero(rest))
                values[:, rest[owners]] = holdout.predict(smoother, part, alphas, path)
        return values

    def _together(self, tasks: Tasks, alphas: FloatArray, path: str) -> FloatArray:
        """Return predictions (a, k, v) of tasks that share their folds, NaN for those given up."""
        smoother = self.smoother
        kind, sizes = TOGETHER[smoother.form], smoother.sizes(tasks)
        values = np.full((alphas.size, tasks.test.values.size, smoother.targets.count), np.nan)
        usable = path in kind.instead_of and (smoother.sums_sets or path != "fold_gram")
        if not usable or not kind.pays(tasks, sizes):
            return values
        for a, alpha in enumerate(alphas.tolist()):
            kept: Unions | Pairs | None = self._kept.get(alpha)
            if kept is None or not kept.still(smoother):
                kept = kind.of(smoother, alpha)
            if kept is not None:
                self._kept[alpha] = kept
                values[a] = kept.predict(tasks)
        return values


def _solve(equations: Equations, alphas: FloatArray) -> FloatArray:
    """Return the models (a, p, v) that solve the equations, with N_E x = 0 imposed."""
    N, (p, v) = equations.N_E, equations.rhs.shape
    O = orthonormal_rows(N) if N.size else None  # noqa: E741  # (p, e)
    x = np.empty((alphas.size, p, v))
    for a, alpha in enumerate(alphas):
        A = np.array(equations.A, order="F")
        A[np.diag_indices(p)] += alpha
        L, info = dpotrf(A, lower=1, overwrite_a=1)
        if info != 0:
            raise not_definite(float(alpha), info, p)
        x[a] = dpotrs(L, equations.rhs, lower=1)[0]
        if O is not None:
            Y = dtrtrs(L, O, lower=1)[0]  # L⁻¹O
            weight = np.linalg.solve(Y.T @ Y, O.T @ x[a])
            x[a] -= dtrtrs(L, Y @ weight, lower=1, trans=1)[0]
    return equations.complete(x)
