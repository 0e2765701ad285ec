"""Weights, unpenalised columns and targets in the form that the algebra uses.

Rows are multiplied by √w, so that weighted least squares becomes ordinary least squares. The
columns Z of the model that carry no penalty (the bias is the column of ones) are replaced by an
orthonormal basis of their span: with √w Z = Q R, rows u_i = z_i R⁻¹ and Q = √w U. Penalised
features then lose their part along Q, and Q joins them as further columns. A model without a bias
has no such column and a model with a trend has several; nothing else differs, and no code outside
this folder needs to ask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from holdfast._typing import BoolArray, FloatArray, Index, IntArray
from holdfast.exceptions import InvalidInputError
from holdfast.experiments import Ragged
from holdfast.linalg import one_blas_thread, solve_small

__all__ = ["Centre", "ColumnsOf", "NewColumns", "RowScale", "Targets", "Unpenalised"]

#: From rows that are not in the data to the unpenalised columns Z (k, s).
ColumnsOf = Callable[[Any], FloatArray]

#: Targets whose spread is this share of their size are constant: it is rounding error.
CONSTANT = 1e-14
#: Where less than this of a column's length is left, its rank is looked at in earnest.
NEARLY = 1e-4
#: Of many targets this many are looked at.
SOME = 4


@dataclass(frozen=True)
class RowScale:
    """Row weights in the form that the algebra uses.

    Attributes
    ----------
    root : ndarray of shape (m,)
        √w where the weight is positive, 1 where it is zero: those rows keep their plain features,
        are predicted and never trained on.
    trained : ndarray of bool, shape (m,)
        Whether the weight is positive.
    uniform : bool
        Whether every weight is 1.
    """

    root: FloatArray
    trained: BoolArray
    uniform: bool

    @classmethod
    def of(cls, weights: FloatArray) -> RowScale:
        """Return the scaling for these weights."""
        trained = weights > 0
        uniform = bool(np.all(weights == 1.0))
        return cls(np.where(trained, np.sqrt(weights), 1.0), trained, uniform)

    @cached_property
    def everything(self) -> bool:
        """Whether every row is trained on."""
        return bool(self.trained.all())

    def targets(self, Y: FloatArray) -> FloatArray:
        """Return √w · Y, zero where a row is not trained on."""
        return Y if self.uniform else Y * (self.root * self.trained)[:, None]

    def times(self, values: FloatArray) -> FloatArray:
        """Return values (…, m) with their √w."""
        return values if self.uniform else values * self.root


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
        U = solve_small(R.T, Z.T).T if s else Z
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

    def retrained(self, weights: FloatArray) -> Unpenalised:
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
        near = np.flatnonzero(lost > 1.0 - NEARLY)  # the trace is no less than the largest value
        for part in np.array_split(near, 1 + near.size // 1024) if near.size else []:
            some = held.items(part)
            pairs = self.Q[some.values][:, :, None] * self.Q[some.values][:, None]
            grams = np.add.reduceat(pairs, some.ptr[:-1], axis=0) if some.values.size else pairs
            left = np.linalg.eigvalsh(np.eye(s) - grams)[:, 0]
            for j in part[left < NEARLY].tolist():
                self._require_left(held[j])

    def _require_left(self, held: IntArray) -> None:
        """Refuse one hold-out that leaves a column undetermined."""
        left = np.delete(self.Q, held, axis=0)
        R = np.asarray(np.linalg.qr(left, mode="r"))
        own = np.append(np.abs(np.diag(R)), np.zeros(max(0, self.count - len(R))))
        lost = np.flatnonzero(own <= 1e3 * len(self.Q) * np.finfo(float).eps)
        if lost.size:
            raise InvalidInputError(_undetermined_column(self.names[int(lost[0])]))

    def level(self, rows: Index, B: FloatArray) -> FloatArray:
        """Return u_i B for those rows: (p,) where all are the same, else (k, p)."""
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
        return solve_small(self.R, along) if self.count else along


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
        return np.asarray(solve_small(self.R.T, Z.T).T) if s else Z


@dataclass(frozen=True)
class Centre:
    """The features' part along the unpenalised columns, B = Qᵀ√wΦ, as a sum of two.

    Features far from zero leave no room for B in one float64 number. So the first part is
    subtracted from them, and then the rest.

    Attributes
    ----------
    first, rest : ndarray of shape (s, p)
    """

    first: FloatArray
    rest: FloatArray

    @classmethod
    def of(cls, B: FloatArray) -> Centre:
        """Return a centre without a rest."""
        return cls(B, np.zeros_like(B))

    @property
    def shape(self) -> tuple[int, int]:
        """(s, p)."""
        return self.first.shape[0], self.first.shape[1]

    @property
    def total(self) -> FloatArray:
        """B, rounded."""
        return np.asarray(self.first + self.rest)


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
    lost = np.flatnonzero(own <= 1e3 * n_rows * np.finfo(float).eps * lengths)
    return int(lost[0]) if lost.size else None


def target_unit(Y: FloatArray) -> float:
    """Return 1, or a power of two near the largest target if squares would leave the range."""
    largest = float(np.abs(Y).max(initial=0.0))
    if largest == 0.0 or 1e-70 < largest < 1e70:
        return 1.0
    return float(2.0 ** np.clip(np.round(np.log2(largest)), -1000, 1000))


@dataclass(frozen=True)
class Targets:
    """Targets without their part along the unpenalised columns, which is put back at the end.

    A model with a bias predicts y + c as it predicts y, plus c, so the mean of y may be taken out
    first; large offsets then cost no accuracy. The same holds for every unpenalised column.

    Attributes
    ----------
    Y : ndarray of shape (m, v)
        y − U level.
    Ys : ndarray of shape (m, v)
        √w times that, zero where a row is not trained on.
    level : ndarray of shape (s, v)
        Qᵀ√w y.
    mean, spread : ndarray of shape (v,)
        Mean of Y and standard deviation of the targets, over the trained rows.
    unit : float
        What all of them are in units of: a power of two, 1 unless targets are so large or small
        that their squares leave the range of numbers.
    """

    Y: FloatArray
    Ys: FloatArray
    level: FloatArray
    mean: FloatArray
    spread: FloatArray
    unit: float = 1.0

    @classmethod
    def of(cls, Y: FloatArray, scale: RowScale, unpenalised: Unpenalised) -> Targets:
        """Return the targets Y (m, v)."""
        unit = target_unit(Y)
        if unit != 1.0:
            Y = Y / unit
        with one_blas_thread():  # a second thread would keep spinning during the first pass
            level = unpenalised.Q.T @ scale.targets(Y)
        trained = Y[scale.trained]
        spread, largest = trained.std(axis=0), np.abs(trained).max(axis=0, initial=0.0)
        # What is constant, to rounding, is judged by its own size.
        constant = spread <= CONSTANT * largest
        spread = np.where(constant, np.where(largest > 0.0, largest, 1.0), spread)
        if unpenalised.count:
            Y = Y - unpenalised.level(slice(None), level)
        return cls(Y, scale.targets(Y), level, Y[scale.trained].mean(axis=0), spread, unit)

    def select(self, columns: slice | IntArray) -> Targets:
        """Return some of the targets."""
        return Targets(
            self.Y[:, columns],
            self.Ys[:, columns],
            self.level[:, columns],
            self.mean[columns],
            self.spread[columns],
            self.unit,
        )

    def some(self) -> IntArray:
        """Return a few of the targets, evenly spaced: enough to look at rounding errors."""
        return np.unique(np.linspace(0, self.count - 1, min(self.count, SOME)).astype(np.int64))

    def take(self, rows: IntArray) -> Targets:
        """Return the targets of some rows, to be judged by the spread of all."""
        return Targets(self.Y[rows], self.Ys[rows], self.level, self.mean, self.spread, self.unit)

    def yardstick(self, values: FloatArray) -> FloatArray:
        """Return what errors of predictions (…, v) are judged by: max(σ_y, |f − ȳ|)."""
        return np.asarray(np.maximum(self.spread, np.abs(values - self.mean)))

    @property
    def count(self) -> int:
        """The number v of targets."""
        return int(self.Ys.shape[1])
