"""Kernels made of kernels: sums, products, multiples, constants, normalised, on some columns."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, Self

import numpy as np

from holdfast._typing import FloatArray, RowData
from holdfast.data.rows import as_rows, numeric_pair, numeric_rows
from holdfast.data.values import check_positive
from holdfast.exceptions import InvalidInputError, KernelError
from holdfast.kernels.base import Kernel
from holdfast.kernels.products import row_blocks

__all__ = ["Constant", "Normalised", "OnColumns", "Product", "Scaled", "Sum"]


def _require_kernel(kernel: Any) -> None:
    if not isinstance(kernel, Kernel):
        raise InvalidInputError(
            f"a kernel can only be built from kernel objects; got {kernel!r}: wrap a callable in "
            "FunctionKernel, a scikit-learn kernel in SklearnKernel.",
            argument="kernel",
        )


@dataclass(frozen=True)
class _Combination(Kernel):
    """Several kernels combined entry by entry by one ufunc."""

    kernels: tuple[Kernel, ...]
    _combine: ClassVar[np.ufunc]

    def __post_init__(self) -> None:
        flat: list[Kernel] = []
        for kernel in self.kernels:
            _require_kernel(kernel)
            # Both operations are associative: (a + b) + c is kept as one sum of three.
            flat.extend(kernel.kernels if type(kernel) is type(self) else (kernel,))
        if not flat:
            raise InvalidInputError(
                "kernels must hold at least one kernel; got none.", argument="kernels"
            )
        object.__setattr__(self, "kernels", tuple(flat))

    @property
    def parts(self) -> dict[str, Kernel]:
        """The kernels, called k1, k2, …."""
        return {f"k{i}": kernel for i, kernel in enumerate(self.kernels, 1)}

    def _rebuilt(self, own: Mapping[str, Any], parts: Mapping[str, Kernel]) -> Self:
        return type(self)(tuple(parts.values()))

    def __call__(self, X: Any, Z: Any = None) -> FloatArray:
        """Return kernel values of every row of X with every row of Z (default: X)."""
        return self._combined(kernel(X, Z) for kernel in self.kernels)

    def diag(self, X: Any) -> FloatArray:
        """Return kernel values k(x, x) of every row, shape (len(X),)."""
        return self._combined(kernel.diag(X) for kernel in self.kernels)

    def _combined(self, values: Iterable[FloatArray]) -> FloatArray:
        """Return the values combined, in the memory of the first."""
        return reduce(lambda a, b: self._combine(a, b, out=a), values)


@dataclass(frozen=True)
class Sum(_Combination):
    """The sum of kernels, also written `k1 + k2`."""

    _combine: ClassVar[np.ufunc] = np.add

    def column_factors(self, d: int) -> FloatArray | None:
        """Return the sum of the factors of the parts, if all have some."""
        total = np.zeros(d)
        for kernel in self.kernels:
            own = kernel.column_factors(d)
            if own is None:
                return None
            total += own
        return total


@dataclass(frozen=True)
class Product(_Combination):
    """The product of kernels, also written `k1 * k2`."""

    _combine: ClassVar[np.ufunc] = np.multiply


@dataclass(frozen=True)
class _OfOne(Kernel):
    """A kernel made of one other."""

    kernel: Kernel

    def __post_init__(self) -> None:
        _require_kernel(self.kernel)

    @property
    def parts(self) -> dict[str, Kernel]:
        """The kernel itself."""
        return {"kernel": self.kernel}


@dataclass(frozen=True)
class Scaled(_OfOne):
    """A positive multiple of a kernel, also written `2.0 * k`."""

    factor: float
    _positive: ClassVar[tuple[str, ...]] = ("factor",)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "factor", check_positive("factor", self.factor))

    def __call__(self, X: Any, Z: Any = None) -> FloatArray:
        """Return kernel values of every row of X with every row of Z (default: X)."""
        values = self.kernel(X, Z)
        values *= self.factor
        return values

    def diag(self, X: Any) -> FloatArray:
        """Return kernel values k(x, x) of every row, shape (len(X),)."""
        return self.kernel.diag(X) * self.factor

    def column_factors(self, d: int) -> FloatArray | None:
        """Return the multiple of the factors of the kernel, if it has some."""
        own = self.kernel.column_factors(d)
        return None if own is None else self.factor * own


@dataclass(frozen=True)
class Constant(Kernel):
    """The same value c for every two rows; in a sum also written `k + 2.0`.

    Parameters
    ----------
    value : float, default 1.0
        c, positive.

    Notes
    -----
    A kernel with a constant added is a model with a bias whose square over c is penalised like the
    rest (Pahikkala et al. 2012, footnote 1): with `fit_intercept=False` it corresponds to the bias
    b of ``λ(b²/c + aᵀKa)``. The larger c, the closer to the bias without penalty of
    `fit_intercept=True`, beside which a constant makes no difference to a dense model.

    Examples
    --------
    >>> from holdfast.kernels import RBF
    >>> k = RBF(gamma=0.5) + 2.0
    >>> k([[0.0], [1.0]]).round(3).tolist()
    [[3.0, 2.607], [2.607, 3.0]]
    """

    value: float = 1.0
    _positive: ClassVar[tuple[str, ...]] = ("value",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", check_positive("value", self.value))

    @property
    def accepts_objects(self) -> bool:
        """True: the rows are only counted."""
        return True

    def __call__(self, X: Any, Z: Any = None) -> FloatArray:
        """Return the constant for every row of X with every row of Z (default: X)."""
        m = as_rows(X).shape[0]
        return np.full((m, m if Z is None else as_rows(Z).shape[0]), self.value)

    def diag(self, X: Any) -> FloatArray:
        """Return the constant for every row, shape (len(X),)."""
        return np.full(as_rows(X).shape[0], self.value)


@dataclass(frozen=True)
class Normalised(_OfOne):
    """The kernel k(x, z) / sqrt(k(x, x) k(z, z)), also written `k.normalised()`.

    Notes
    -----
    Makes rows of different size comparable, such as the parse graphs of Pahikkala et al. (2012)
    §6.4. It costs one diagonal beyond the kernel itself.
    """

    def __call__(self, X: Any, Z: Any = None) -> FloatArray:
        """Return kernel values of every row of X with every row of Z (default: X)."""
        roots_X = self._roots(X)
        roots_Z = roots_X if Z is None else self._roots(Z)
        values = self.kernel(X, Z)
        for rows in row_blocks(*values.shape):
            values[rows] /= np.multiply.outer(roots_X[rows], roots_Z)
        if Z is None:
            np.fill_diagonal(values, 1.0)
        return values

    def diag(self, X: Any) -> FloatArray:
        """Return ones, shape (len(X),), after checking that the kernel's diagonal is positive."""
        return np.ones_like(self._roots(X))

    def _roots(self, X: Any) -> FloatArray:
        diagonal = self.kernel.diag(X)
        bad = np.flatnonzero(~(diagonal > 0.0))
        if bad.size:
            raise KernelError(
                f"kernel {self!r} needs k(x, x) > 0 for every row; got {diagonal[bad[0]]!r} for "
                f"row {bad[0]} ({bad.size} such rows): drop these rows or do not normalise.",
                argument="kernel",
            )
        return np.sqrt(diagonal)


@dataclass(frozen=True, repr=False)
class OnColumns(_OfOne):
    """The kernel of some columns of the rows, as if there were no others.

    Parameters
    ----------
    kernel : Kernel
    columns : range, slice with an end, or iterable of int
        Numbers of the columns, counted from 0.

    Examples
    --------
    >>> from holdfast.kernels import RBF, Linear, OnColumns
    >>> k = OnColumns(RBF(gamma=0.5), range(2)) + OnColumns(Linear(), [2])
    >>> k([[0.0, 0.0, 1.0], [1.0, 0.0, 3.0]]).round(3).tolist()
    [[2.0, 3.607], [3.607, 10.0]]
    """

    columns: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "columns", _numbers(self.columns))

    def __repr__(self) -> str:
        first, last = self.columns[0], self.columns[-1]
        columns: Any = list(self.columns)
        if self.columns == tuple(range(first, last + 1)):
            columns = range(first, last + 1)
        return f"OnColumns({self.kernel!r}, {columns!r})"

    @property
    def accepts_objects(self) -> bool:
        """False: rows have columns."""
        return False

    def _own_parameters(self) -> dict[str, Any]:
        return {}  # columns are no number to search for

    def column_factors(self, d: int) -> FloatArray | None:
        """Return the factors of the kernel in the places of its columns, if it has some."""
        own = self.kernel.column_factors(len(self.columns))
        if own is None or max(self.columns) >= d:
            return None
        factors = np.zeros(d)
        factors[list(self.columns)] = own
        return factors

    def __call__(self, X: Any, Z: Any = None) -> FloatArray:
        """Return kernel values of every row of X with every row of Z (default: X)."""
        rows, others = numeric_pair(X, Z)
        return self.kernel(self._taken(rows), None if others is None else self._taken(others))

    def diag(self, X: Any) -> FloatArray:
        """Return kernel values k(x, x) of every row, shape (len(X),)."""
        return self.kernel.diag(self._taken(numeric_rows(X)))

    def _taken(self, X: RowData) -> RowData:
        if max(self.columns) >= X.shape[1]:
            raise InvalidInputError(
                f"columns must lie among the {X.shape[1]} columns of X; got {max(self.columns)}. "
                "Count them from 0.",
                argument="columns",
            )
        return X[:, list(self.columns)]


def _numbers(columns: Any) -> tuple[int, ...]:
    """Return column numbers, each once and none negative."""
    if isinstance(columns, slice) and columns.stop is not None:
        columns = range(columns.start or 0, columns.stop, columns.step or 1)
    values = list(columns) if isinstance(columns, Iterable) else []
    whole = all(isinstance(j, int | np.integer) and not isinstance(j, bool) for j in values)
    if not values or not whole or min(values) < 0 or len(set(values)) < len(values):
        raise InvalidInputError(
            "columns must be different whole numbers from 0 on, such as range(10) or [0, 3]; got "
            f"{columns!r}.",
            argument="columns",
        )
    return tuple(int(j) for j in values)
