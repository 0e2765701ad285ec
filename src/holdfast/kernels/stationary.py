"""Kernels of the distance between two rows."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import manhattan_distances

from holdfast._typing import FloatArray, RowData
from holdfast.exceptions import InvalidInputError, NotSupportedError
from holdfast.kernels.base import VectorKernel, finite_number, positive_width
from holdfast.kernels.products import (
    distance_matrix,
    fill_blocks,
    float64_rows,
    row_blocks,
)

__all__ = ["RBF", "Euclidean", "Laplacian", "Matern"]

Gamma: TypeAlias = float | Sequence[float] | FloatArray


class _Stationary(VectorKernel):
    """A kernel whose diagonal is one and whose width may differ by feature."""

    gamma: Gamma
    _positive: ClassVar[tuple[str, ...]] = ("gamma",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", positive_width("gamma", self.gamma))

    def _diagonal(self, X: RowData) -> FloatArray:
        return np.ones(X.shape[0])

    def _widths(self, n_features: int) -> FloatArray | None:
        """Return one gamma per feature, or None when one holds for all."""
        if isinstance(self.gamma, float):
            return None
        widths = np.asarray(self.gamma)
        if widths.size != n_features:
            raise InvalidInputError(
                f"gamma must be one number or one per feature; got {widths.size} numbers for "
                f"{n_features} features: give {n_features} numbers.",
                argument="gamma",
            )
        return widths


class Euclidean(_Stationary):
    """A stationary kernel of the squared distance, q = Σ_j gamma_j (x_j − z_j)²."""

    def from_squared_distances(self, D2: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Return kernel values from |x − z|², which several widths can share; `out=D2` is allowed.

        Refused if gamma differs by feature: the distances then depend on it.
        """
        if not isinstance(self.gamma, float):
            raise NotSupportedError(
                "from_squared_distances needs one gamma for all features; got one per feature: "
                "call the kernel on the rows instead.",
                argument="gamma",
            )
        out = np.empty_like(D2) if out is None else out
        for rows in row_blocks(D2.shape[0], math.prod(D2.shape[1:])):
            np.multiply(D2[rows], self.gamma, out=out[rows])
            self._profile(out[rows])
        return out

    def _matrix(self, X: RowData, Z: RowData | None) -> FloatArray:
        one = isinstance(self.gamma, float)
        widths = None if one else self._widths(X.shape[1])

        def finish(block: FloatArray) -> None:
            if one:
                block *= self.gamma
            self._profile(block)

        return distance_matrix(X, Z, widths, finish)

    @classmethod
    def scaled_by_gamma(cls, X: RowData) -> FloatArray:
        """Return the squared distances of all pairs of rows."""
        return distance_matrix(X)[np.triu_indices(X.shape[0], 1)]

    @abstractmethod
    def _profile(self, q: FloatArray) -> None:
        """Turn q into kernel values, in place."""


@dataclass(frozen=True)
class RBF(Euclidean):
    """The Gaussian exp(−gamma |x − z|²).

    Parameters
    ----------
    gamma : float or one float per feature, default 1.0
        With one per feature the kernel is exp(−Σ_j gamma_j (x_j − z_j)²).
    """

    gamma: Gamma = 1.0

    def _profile(self, q: FloatArray) -> None:
        np.negative(q, out=q)
        np.exp(q, out=q)


@dataclass(frozen=True)
class Matern(Euclidean):
    """The Matérn kernel of smoothness nu with length scale 1/sqrt(2 gamma).

    Parameters
    ----------
    nu : {0.5, 1.5, 2.5}, default 1.5
        Sample paths are differentiable nu − 1/2 times.
    gamma : float or one float per feature, default 1.0
        As in `RBF`, which is the limit of large nu.

    Notes
    -----
    With t = sqrt(2 nu) sqrt(2 gamma) |x − z|: exp(−t), (1 + t) exp(−t) and
    (1 + t + t²/3) exp(−t). Their slopes in q = t²/(4 nu) are −exp(−t)/t, −3 exp(−t) and
    −5/3 (1 + t) exp(−t).
    """

    nu: float = 1.5
    gamma: Gamma = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        nu = finite_number("nu", self.nu)
        if nu not in (0.5, 1.5, 2.5):
            raise InvalidInputError(
                f"nu must be 0.5, 1.5 or 2.5; got {self.nu!r}: choose one.", argument="nu"
            )
        object.__setattr__(self, "nu", nu)

    def _profile(self, q: FloatArray) -> None:
        q *= 4.0 * self.nu
        np.sqrt(q, out=q)  # t
        if self.nu == 0.5:
            factor = None
        elif self.nu == 1.5:
            factor = q + 1.0
        else:
            factor = (q / 3.0 + 1.0) * q + 1.0
        np.negative(q, out=q)
        np.exp(q, out=q)
        if factor is not None:
            q *= factor


@dataclass(frozen=True)
class Laplacian(_Stationary):
    """The exponential exp(−gamma |x − z|₁) of the sum of absolute differences.

    Parameters
    ----------
    gamma : float or one float per feature, default 1.0
        With one per feature the kernel is exp(−Σ_j gamma_j |x_j − z_j|).
    """

    gamma: Gamma = 1.0

    @classmethod
    def scaled_by_gamma(cls, X: RowData) -> FloatArray:
        """Return the sums of absolute differences of all pairs of rows."""
        sums = manhattan_distances(X) if sp.issparse(X) else cdist(X, X, "cityblock")
        return np.asarray(sums[np.triu_indices(X.shape[0], 1)])

    def _matrix(self, X: RowData, Z: RowData | None) -> FloatArray:
        widths = self._widths(X.shape[1])
        gamma = self.gamma if isinstance(self.gamma, float) else 1.0
        Z_rows = X if Z is None else Z
        sparse = sp.issparse(X) or sp.issparse(Z_rows)

        def evaluate(block: FloatArray, rows: slice, columns: slice) -> None:
            if sparse:
                block[...] = manhattan_distances(
                    _short_csr(X[rows], widths), _short_csr(Z_rows[columns], widths)
                )
            else:
                cdist(X[rows], Z_rows[columns], "cityblock", out=block, w=widths)
            block *= -gamma
            np.exp(block, out=block)

        return fill_blocks(X, Z, evaluate)


def _short_csr(X: RowData, factors: FloatArray | None) -> Any:
    """Return the rows as CSR with 32-bit indices, the only form scikit-learn's loop reads."""
    if X.shape[1] > np.iinfo(np.int32).max:
        raise NotSupportedError(
            f"Laplacian takes sparse rows of at most 2**31 − 1 features; got {X.shape[1]}: hash "
            "them to fewer.",
            argument="X",
        )
    csr = float64_rows(sp.csr_matrix(X), factors)
    indices, indptr = csr.indices.astype(np.int32), csr.indptr.astype(np.int32)
    return sp.csr_matrix((csr.data, indices, indptr), shape=csr.shape)
