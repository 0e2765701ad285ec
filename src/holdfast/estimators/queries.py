"""Centring within queries: what makes kernel ridge regression a ranker.

The loss of all pairs of a query, Σ_{i<j} w_i w_j ((y_i − y_j) − (f_i − f_j))², is
W Σ_i w_i (e_i − ē)² with e = y − f, W = Σ w_i and ē the weighted mean. So a ranker is kernel ridge
regression without a bias, of rows and targets that are centred within their query (f̃ = Cf), with
weights w_i W. C is block diagonal, one block for each query, so that leaving out a query is leaving
out its rows. Basis rows are functions of the model and are not centred: they stand below the
centred rows as rows of weight zero, and leave with their query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.data.memory import memory_bytes
from holdfast.estimators.regression import KernelRidgeCV
from holdfast.exceptions import HoldOutError, InvalidInputError
from holdfast.experiments import Experiments, HoldOut, as_experiments, leave_group_out
from holdfast.kernels import Kernel, Linear
from holdfast.kernels.matrix import KernelRows
from holdfast.smoother.make import is_primal, require_room

__all__ = [
    "OfDifferences",
    "Queries",
    "Ranked",
    "as_whole_queries",
    "centred_rows",
    "require_order",
    "with_basis",
]


class OfDifferences(KernelRidgeCV):
    """The regression that a ranker is: targets (m, 2), centred, and as scores see them."""

    def _targets(
        self, y: Any, n_rows: int, weights: FloatArray
    ) -> tuple[FloatArray, NDArray[Any], bool]:
        Y = np.asarray(y, dtype=np.float64)
        return Y[:, :1].copy(), Y[:, 1:].copy(), True


class Queries(NamedTuple):
    """Centring within queries, C: values minus their weighted mean over the query.

    Attributes
    ----------
    code : ndarray of int, shape (m,)
        The query of each row, from 0.
    weights : ndarray of shape (m,)
        w_i W, the row's weight times the sum over its query.
    shares : sparse array of shape (queries, m)
        From values to the means of queries; plain means where no row has a weight.
    """

    code: IntArray
    weights: FloatArray
    shares: sp.csr_array

    @classmethod
    def of(cls, code: IntArray, weights: FloatArray) -> Queries:
        """Return the centring for these queries and weights of rows."""
        total = np.bincount(code, weights)[code]
        share = np.where(total > 0, weights, 1.0)
        share /= np.bincount(code, share)[code]
        places = (code, np.arange(code.size))
        return cls(code, weights * total, sp.csr_array((share, places)))

    def centred(self, values: FloatArray) -> FloatArray:
        """Return C values."""
        return np.asarray(values - (self.shares @ values)[self.code])

    def transposed(self, values: FloatArray) -> FloatArray:
        """Return Cᵀ values (m,)."""
        return np.asarray(values - self.shares.T @ np.bincount(self.code, values))


@dataclass(frozen=True)
class Ranked:
    """What a ranker is fitted to, after all checks, and the regression that it is.

    Attributes
    ----------
    parameters : mapping
        Those of the estimator.
    kernel : Kernel
    X : rows
    y, weights : ndarray of shape (m,)
    frames : str or None
        The library of frames that X came in.
    names : ndarray
        The queries, sorted.
    queries : Queries
    experiments : Experiments
    basis : ndarray of int or None
        None for a model of all rows.
    model : OfDifferences or None
        None before it is fitted.
    """

    parameters: Mapping[str, Any]
    kernel: Kernel
    X: Any
    y: FloatArray
    weights: FloatArray
    frames: str | None
    names: AnyArray
    queries: Queries
    experiments: Experiments
    basis: IntArray | None
    model: OfDifferences | None = None

    @property
    def regression(self) -> OfDifferences:
        """The regression, once it is fitted."""
        assert self.model is not None
        return self.model

    @property
    def rows(self) -> KernelRows:
        """The rows with their kernel."""
        return KernelRows(self.kernel, self.X)

    @property
    def groups(self) -> IntArray:
        """The query of each row, then of each basis row."""
        code = self.queries.code
        return code if self.basis is None else np.append(code, code[self.basis])

    @property
    def columns(self) -> FloatArray | None:
        """Coefficients of columns: of a linear kernel with fewer columns than rows, else None."""
        linear = self.regression._asked().coefficients.linear
        return None if linear is None else np.asarray(linear[:, 0])

    def of_rows(self, dual: FloatArray) -> FloatArray:
        """Return coefficients of kernel functions of rows, from those of centred rows."""
        return dual if self.basis is not None else self.queries.transposed(dual)

    def centred(self) -> tuple[OfDifferences, tuple[AnyArray, ...]]:
        """Return the regression to fit, with its rows, targets, weights and groups."""
        queries, basis, m, given = self.queries, self.basis, self.y.size, self.parameters
        memory, pairwise = memory_bytes(given["memory_limit"]), given["scoring"] == "pairwise"
        kernel, rows = centred_rows(self.rows, queries, basis, memory)
        weights, y = queries.weights, queries.centred(self.y)
        y = np.column_stack([y, y if pairwise else self.y])
        if basis is not None:
            weights = np.append(weights, np.zeros(basis.size))
            y = np.vstack([y, np.zeros((basis.size, 2))])
        model = OfDifferences(
            kernel,
            alphas=given["alphas"],
            basis=None if basis is None else np.arange(m, m + basis.size),
            cv=with_basis(self.experiments, self.groups, m),
            held_out_basis=given["held_out_basis"],
            fit_intercept=False,
            scoring=None if pairwise else given["scoring"],
            jitter=given["jitter"],
            memory_limit=given["memory_limit"],
            random_state=0,  # nothing is left to chance
        )
        return model, (rows, y, weights, self.groups)


def as_whole_queries(cv: Any, m: int, X: Any, y: FloatArray, code: IntArray) -> Experiments:
    """Return experiments that hold out whole queries."""
    if cv is None:
        return leave_group_out(code)
    cv = GroupKFold(cv) if isinstance(cv, int) and not isinstance(cv, bool) else cv
    experiments = as_experiments(cv, m, X=X, y=y, groups=code, classifier=False)
    sizes = np.bincount(code)
    for j in range(len(experiments)):
        held, test = experiments.held_out[j], experiments.test[j]
        counts = np.bincount(code[held], minlength=sizes.size)
        if ((counts > 0) & (counts < sizes)).any() or not np.array_equal(
            np.sort(held), np.sort(test)
        ):
            raise HoldOutError(
                f"cv must hold out and test whole queries; experiment {j} takes a part of one. "
                "Pass cv=None, a number of folds, or a splitter by groups such as GroupKFold.",
                argument="cv",
            )
    return experiments


def with_basis(experiments: Experiments, groups: IntArray, m: int) -> Experiments:
    """Return experiments that also hold out, untested, the basis rows of their queries.

    Those follow the m rows, and `groups` has the query of each.
    """
    if groups.size == m:
        return experiments
    found = []
    for one in experiments:
        leaving = m + np.flatnonzero(np.isin(groups[m:], groups[one.held_out]))
        found.append(HoldOut(np.append(one.held_out, leaving), one.test))
    return as_experiments(found, groups.size)


def centred_rows(
    data: KernelRows, queries: Queries, basis: IntArray | None, memory: float
) -> tuple[str, FloatArray]:
    """Return the kernel that the regression has, and its rows or kernel matrix.

    On basis rows the matrix (m + n, n) of the centred rows and, below them, the basis rows.
    """
    m, every, X = len(data), slice(None), data.X
    if basis is not None:
        if 16.0 * m * basis.size > memory:
            raise InvalidInputError(
                f"{m} rows on {basis.size} basis rows need {16e-9 * m * basis.size:.3g} GB, more "
                f"than the {memory / 1e9:.3g} GB they may take. Pass fewer basis rows, or raise "
                "memory_limit.",
                argument="basis",
                remedies=("memory_limit",),
            )
        rows = queries.centred(data.block(every, basis))
        return "precomputed", np.vstack([rows, data.block(basis, basis)])
    if isinstance(data.kernel, Linear) and is_primal(data.kernel, X):
        return "linear", queries.centred(X.toarray() if sp.issparse(X) else X)
    require_room(m, memory)
    K = queries.centred(queries.centred(data.block(every, every)).T)
    return "precomputed", 0.5 * (K + K.T)


def require_order(y: FloatArray, code: IntArray) -> None:
    """Refuse targets without two different ones in some query."""
    order = np.lexsort((y, code))
    same = code[order][1:] == code[order][:-1]
    if not (same & (y[order][1:] != y[order][:-1])).any():
        raise InvalidInputError(
            "no query has two rows with different targets, so there is no order to learn. Check "
            "queries: each names the query of a row, and several rows share one.",
            argument="queries",
        )
