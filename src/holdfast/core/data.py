"""Weights, unpenalised columns and targets in the form that the algebra uses.

Rows are multiplied by √w, so that weighted least squares becomes ordinary least squares. The
columns Z of the model that carry no penalty (the bias is the column of ones) are replaced by an
orthonormal basis of their span: with √w Z = Q R, rows u_i = z_i R⁻¹ and Q = √w U. Penalised
features then lose their part along Q, and Q joins them as further columns. A model without a bias
has no such column and a model with a trend has several; nothing else differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from holdfast._typing import BoolArray, FloatArray, Index, IntArray
from holdfast.core.experiments import Ragged
from holdfast.core.lapack import EPS, NEARLY_LOST, one_blas_thread
from holdfast.exceptions import InvalidInputError

#: From rows that are not in the data to the unpenalised columns Z (k, s).
ColumnsOf = Callable[[Any], FloatArray]

#: Targets whose standard deviation is this share of their size are constant: it is rounding error.
CONSTANT = 1e-14


@dataclass(frozen=True)
class Weights:
    """Row weights.

    Attributes
    ----------
    values : ndarray of shape (m,)
    root : ndarray of shape (m,)
        √w where the weight is positive, 1 where it is zero: those rows keep their plain features,
        are predicted and never trained on.
    trained : ndarray of bool, shape (m,)
        Whether the weight is positive.
    rows : ndarray of int
        The rows that are trained on.
    all_trained : bool
        Whether that is every row.
    uniform : bool
        Whether every weight is 1.
    """

    values: FloatArray
    root: FloatArray
    trained: BoolArray
    rows: IntArray
    all_trained: bool
    uniform: bool

    @classmethod
    def of(cls, values: FloatArray) -> Weights:
        """Return these weights."""
        trained, uniform = values > 0, bool((values == 1.0).all())
        root, rows = np.where(trained, np.sqrt(values), 1.0), np.flatnonzero(trained)
        return cls(values, root, trained, rows, rows.size == values.size, uniform)

    def times(self, Y: FloatArray) -> FloatArray:
        """Return √w · Y, zero where a row is not trained on."""
        return Y if self.uniform else Y * (self.root * self.trained)[:, None]

    def without(self, held: IntArray) -> FloatArray:
        """Return the weights of models that never see some rows."""
        values = self.values.copy()
        values[held] = 0.0
        return values


@dataclass(frozen=True)
class Unpenalised:
    """The columns without a penalty, made orthonormal.

    Attributes
    ----------
    Z : ndarray of shape (m, s)
        The columns as they are.
    U : ndarray of shape (m, s)
        Rows u_i = z_i R⁻¹ for every row of the data.
    Q : ndarray of shape (m, s)
        √w U, orthonormal; zero where a row is not trained on.
    R : ndarray of shape (s, s)
        Upper triangular: √w Z = Q R.
    constant : bool
        Whether all rows of U are the same: a bias alone, or no column at all.
    names : tuple of str
        What the columns are called, for errors.
    columns_of : callable or None
        From new rows to Z, where that varies over the rows.
    """

    Z: FloatArray
    U: FloatArray
    Q: FloatArray
    R: FloatArray
    constant: bool
    names: tuple[str, ...]
    columns_of: ColumnsOf | None = None

    @classmethod
    def of(
        cls,
        Z: FloatArray,
        weights: FloatArray,
        names: Sequence[str] = (),
        columns_of: ColumnsOf | None = None,
    ) -> Unpenalised:
        """Return the columns Z (m, s) under these weights.

        Raises
        ------
        InvalidInputError
            If the trained rows leave a column undetermined.
        """
        s = Z.shape[1]
        root = np.sqrt(weights)
        names = tuple(names) or tuple(f"column {j}" for j in range(s))
        if s == 1 and bool((Z == 1.0).all()):  # the bias: nothing to factorise
            norm = float(np.sqrt(weights.sum()))
            U = np.full((len(Z), 1), 1.0 / norm)
            return cls(Z, U, root[:, None] / norm, np.array([[norm]]), True, names)
        Q, R = np.linalg.qr(root[:, None] * Z)
        lost = _undetermined(R, len(Z))
        if lost is not None:
            raise InvalidInputError(_undetermined_column(names[lost]))
        Q[root == 0.0] = 0.0  # exactly
        U = np.linalg.solve(R.T, Z.T).T if s else Z
        return cls(Z, np.ascontiguousarray(U), Q, R, not s, names, columns_of)

    @classmethod
    def bias(cls, weights: FloatArray, fit_intercept: bool) -> Unpenalised:
        """Return the column of ones, or no column."""
        return cls.of(np.ones((weights.size, int(fit_intercept))), weights, ("intercept",))

    @property
    def count(self) -> int:
        """The number s of columns."""
        return int(self.U.shape[1])

    def take(self, rows: Index) -> Unpenalised:
        """Return the same columns of some rows, and of no new ones; Q is not orthonormal there."""
        part = {name: getattr(self, name)[rows] for name in ("Z", "U", "Q")}
        return replace(self, columns_of=None, **part)

    def under(self, weights: FloatArray) -> Unpenalised:
        """Return the same columns made orthonormal under other weights."""
        if self.constant:
            return Unpenalised.bias(weights, bool(self.count))
        return Unpenalised.of(self.Z, weights, self.names, self.columns_of)

    def require_determined(self, held: Ragged) -> None:
        """Refuse experiments that hold out so much that a column is undetermined, by its name.

        A bias needs one row, which every experiment leaves. Held-out rows whose Q_HᵀQ_H is clearly
        smaller than I leave enough of every column; the others are looked at one by one.
        """
        if self.constant:
            return
        rows, s = self.Q[held.values], self.count
        lost = np.bincount(held.owners, np.square(rows).sum(axis=1), minlength=len(held))
        near = np.flatnonzero(lost > 1.0 - NEARLY_LOST)  # the trace bounds the largest value
        for part in np.array_split(near, 1 + near.size // 1024) if near.size else []:
            some = held.items(part)
            pairs = self.Q[some.values][:, :, None] * self.Q[some.values][:, None]
            grams = np.add.reduceat(pairs, some.ptr[:-1], axis=0) if some.values.size else pairs
            left = np.linalg.eigvalsh(np.eye(s) - grams)[:, 0]
            for j in part[left < NEARLY_LOST].tolist():
                self._require_left(held[j])

    def _require_left(self, held: IntArray) -> None:
        """Refuse one hold-out that leaves a column undetermined."""
        left = np.delete(self.Q, held, axis=0)
        R = np.asarray(np.linalg.qr(left, mode="r"))
        own = np.append(np.abs(np.diag(R)), np.zeros(max(0, self.count - len(R))))
        lost = np.flatnonzero(own <= 1e3 * len(self.Q) * EPS)
        if lost.size:
            raise InvalidInputError(_undetermined_column(self.names[int(lost[0])]))

    def level(self, rows: Index, B: FloatArray) -> FloatArray:
        """Return u_i B for those rows: (p,) where all are the same, else (…, p)."""
        if self.constant:
            return np.asarray(self.U[0] @ B)
        return np.asarray(self.U[rows] @ B)

    def elsewhere(self) -> NewColumns:
        """Return the map from rows that are not in the data to u(x)."""
        assert self.constant or self.columns_of is not None, "columns of these rows only"
        return NewColumns(self.R, self.columns_of)

    def project_out(self, values: FloatArray) -> FloatArray:
        """Return (I − QQᵀ) values for values (m, k) of all rows; the array is overwritten."""
        if self.count:
            values -= self.Q @ (self.Q.T @ values)
        return values

    def coefficients(self, along: FloatArray) -> FloatArray:
        """Return coefficients (s, v) of the columns Z from coordinates along Q."""
        return np.asarray(np.linalg.solve(self.R, along)) if self.count else along


@dataclass(frozen=True)
class NewColumns:
    """The unpenalised columns of rows that are not in the data, u(x) = z(x) R⁻¹.

    Attributes
    ----------
    R : ndarray of shape (s, s)
    columns_of : callable or None
        From rows to z(x); None where that is one for every row, or where there is no column.
    """

    R: FloatArray
    columns_of: ColumnsOf | None

    @property
    def count(self) -> int:
        """The number s of columns."""
        return len(self.R)

    def __call__(self, X: Any) -> FloatArray:
        """Return u (k, s), or (1, s) where it is the same for every row."""
        s = self.count
        Z = np.ones((1, s)) if self.columns_of is None else self.columns_of(X)
        return np.asarray(np.linalg.solve(self.R.T, Z.T).T) if s else Z


def _undetermined_column(name: str) -> str:
    return (
        f"the rows to train on do not determine the unpenalised {name}: it is zero there, or a "
        "combination of the columns before it. Leave it out, or hold out less."
    )


def _undetermined(R: FloatArray, n_rows: int) -> int | None:
    """Return the first column that is, to rounding, a combination of those before it."""
    rows, columns = R.shape
    if rows < columns:
        return int(rows)
    lengths, own = np.linalg.norm(R, axis=0), np.abs(np.diag(R))
    lost = np.flatnonzero(own <= 1e3 * n_rows * EPS * lengths)
    return int(lost[0]) if lost.size else None


@dataclass(frozen=True)
class Targets:
    """Targets, as they are and without their part along the unpenalised columns.

    A model with a bias predicts y + c as it predicts y, plus c, so the mean of y may be taken out
    first; large offsets then cost no accuracy. The same holds for every unpenalised column.

    Attributes
    ----------
    Y : ndarray of shape (m, v)
        As they were given.
    Ys : ndarray of shape (m, v)
        √w (y − U level), zero where a row is not trained on.
    level : ndarray of shape (s, v)
        Qᵀ√w y.
    std : ndarray of shape (v,)
        Standard deviation over the trained rows: what errors are measured in.
    """

    Y: FloatArray
    Ys: FloatArray
    level: FloatArray
    std: FloatArray

    @classmethod
    def of(cls, Y: FloatArray, weights: Weights, unpenalised: Unpenalised) -> Targets:
        """Return the targets Y (m, v)."""
        with one_blas_thread():  # a second thread would keep spinning during the first pass
            level = unpenalised.Q.T @ weights.times(Y)
        trained = Y if weights.all_trained else Y[weights.trained]
        std = trained.std(axis=0)
        largest = np.maximum(trained.max(axis=0, initial=0.0), -trained.min(axis=0, initial=0.0))
        # What is constant, to rounding, is judged by its own size.
        constant = std <= CONSTANT * largest
        std = np.where(constant, np.where(largest > 0.0, largest, 1.0), std)
        centred = Y - unpenalised.level(slice(None), level) if unpenalised.count else Y
        return cls(Y, weights.times(centred), level, std)

    @property
    def count(self) -> int:
        """The number v of targets."""
        return int(self.Ys.shape[1])

    def select(self, columns: slice | IntArray) -> Targets:
        """Return some of the targets."""
        Y, Ys, level = (array[:, columns] for array in (self.Y, self.Ys, self.level))
        return Targets(Y, Ys, level, self.std[columns])

    def take(self, rows: IntArray) -> Targets:
        """Return the targets of some rows, to be judged by the standard deviation of all."""
        return Targets(self.Y[rows], self.Ys[rows], self.level, self.std)


@dataclass(frozen=True)
class WeightedData:
    """The weighted, centred problem, apart from its features.

    Attributes
    ----------
    weights : Weights
    unpenalised : Unpenalised
    targets : Targets
    """

    weights: Weights
    unpenalised: Unpenalised
    targets: Targets

    @classmethod
    def of(cls, Y: FloatArray, weights: FloatArray, unpenalised: Unpenalised) -> WeightedData:
        """Return the problem of targets Y (m, v) under some weights."""
        own = Weights.of(weights)
        return cls(own, unpenalised, Targets.of(Y, own, unpenalised))

    def __len__(self) -> int:
        """Return the number of rows m."""
        return int(self.weights.values.size)

    def select(self, columns: slice | IntArray) -> WeightedData:
        """Return the problem of some of the targets."""
        if isinstance(columns, slice) and columns == slice(None):
            return self
        return replace(self, targets=self.targets.select(columns))

    def with_targets(self, Y: FloatArray) -> WeightedData:
        """Return the problem of other targets."""
        return replace(self, targets=Targets.of(Y, self.weights, self.unpenalised))

    def without(self, held: IntArray) -> WeightedData:
        """Return the problem of the rows that are left; row numbers stay what they are."""
        weights = self.weights.without(held)
        return WeightedData.of(self.targets.Y, weights, self.unpenalised.under(weights))

    def level(self, rows: Index) -> FloatArray:
        """Return the targets' part along the unpenalised columns, (…, v) or (v,)."""
        return self.unpenalised.level(rows, self.targets.level)
