"""Kernels made of kernels and numbers: sums, products, multiples, constants, normalised kernels."""

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from holdfast._typing import FloatArray
from holdfast.data.rows import as_rows
from holdfast.exceptions import InvalidInputError, KernelError
from holdfast.kernels.base import Kernel
from holdfast.kernels.checks import positive_number
from holdfast.kernels.products import row_blocks

__all__ = ["Constant", "Normalised", "Product", "Scaled", "Sum"]


def _require_kernel(kernel: Any) -> None:
    if not isinstance(kernel, Kernel):
        raise InvalidInputError(
            f"a kernel can only be built from kernel objects; got {kernel!r}: wrap a callable in "
            "FunctionKernel, a scikit-learn kernel in SklearnKernel, a name in resolve_kernel."
        )


@dataclass(frozen=True)
class _Combination(Kernel):
    """Several kernels combined entry by entry by one ufunc."""

    kernels: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        flat: list[Kernel] = []
        for kernel in self.kernels:
            _require_kernel(kernel)
            # Both operations are associative: (a + b) + c is kept as one sum of three.
            flat.extend(kernel.kernels if type(kernel) is type(self) else (kernel,))
        if not flat:
            raise InvalidInputError("kernels must hold at least one kernel; got none.")
        object.__setattr__(self, "kernels", tuple(flat))

    @property
    def positive_semidefinite(self) -> bool:
        """Whether every part is: sums and, by Schur's theorem, products of such kernels are."""
        return all(kernel.positive_semidefinite for kernel in self.kernels)

    @property
    def accepts_objects(self) -> bool:
        """Whether every part does."""
        return all(kernel.accepts_objects for kernel in self.kernels)


@dataclass(frozen=True)
class Sum(_Combination):
    """The sum of kernels, also written `k1 + k2`."""

    def __call__(self, X: Any, Z: Any = None) -> FloatArray:
        """Return kernel values of every row of X with every row of Z (default: X)."""
        total = self.kernels[0](X, Z)
        for kernel in self.kernels[1:]:
            total += kernel(X, Z)
        return total

    def diag(self, X: Any) -> FloatArray:
        """Return kernel values k(x, x) of every row, shape (len(X),)."""
        return reduce(np.add, (kernel.diag(X) for kernel in self.kernels))


@dataclass(frozen=True)
class Product(_Combination):
    """The product of kernels, also written `k1 * k2`."""

    def __call__(self, X: Any, Z: Any = None) -> FloatArray:
        """Return kernel values of every row of X with every row of Z (default: X)."""
        product = self.kernels[0](X, Z)
        for kernel in self.kernels[1:]:
            product *= kernel(X, Z)
        return product

    def diag(self, X: Any) -> FloatArray:
        """Return kernel values k(x, x) of every row, shape (len(X),)."""
        return reduce(np.multiply, (kernel.diag(X) for kernel in self.kernels))


@dataclass(frozen=True)
class Scaled(Kernel):
    """A positive multiple of a kernel, also written `2.0 * k`."""

    kernel: Kernel
    factor: float

    def __post_init__(self) -> None:
        _require_kernel(self.kernel)
        object.__setattr__(self, "factor", positive_number("factor", self.factor))

    @property
    def positive_semidefinite(self) -> bool:
        """Whether the kernel itself is."""
        return self.kernel.positive_semidefinite

    @property
    def accepts_objects(self) -> bool:
        """Whether the kernel itself does."""
        return self.kernel.accepts_objects

    def __call__(self, X: Any, Z: Any = None) -> FloatArray:
        """Return kernel values of every row of X with every row of Z (default: X)."""
        values = self.kernel(X, Z)
        values *= self.factor
        return values

    def diag(self, X: Any) -> FloatArray:
        """Return kernel values k(x, x) of every row, shape (len(X),)."""
        return self.kernel.diag(X) * self.factor


@dataclass(frozen=True)
class Constant(Kernel):
    """The same value c for every two rows; in a sum also written `k + 2.0`.

    Parameters
    ----------
    value : float, default 1.0
        c, positive.

    Notes
    -----
    A kernel with a constant added is a model with a bias whose square over c is penalised like
    the rest (Pahikkala et al. 2012, footnote 1): with `fit_intercept=False` it stands for
    the bias b of ``λ(b²/c + aᵀKa)``. The larger c, the closer to the bias without penalty of
    `fit_intercept=True`, beside which a constant makes no difference to a dense model.

    Examples
    --------
    >>> from holdfast.kernels import RBF
    >>> k = RBF(gamma=0.5) + 2.0
    >>> k([[0.0], [1.0]]).round(3).tolist()
    [[3.0, 2.607], [2.607, 3.0]]
    """

    value: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", positive_number("value", self.value))

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
class Normalised(Kernel):
    """The kernel k(x, z) / sqrt(k(x, x) k(z, z)), also written `k.normalised()`.

    Notes
    -----
    Makes rows of different size comparable, such as the parse graphs of Pahikkala et al. (2012)
    §6.4. It costs one diagonal beyond the kernel itself.
    """

    kernel: Kernel

    def __post_init__(self) -> None:
        _require_kernel(self.kernel)

    @property
    def positive_semidefinite(self) -> bool:
        """Whether the kernel itself is."""
        return self.kernel.positive_semidefinite

    @property
    def accepts_objects(self) -> bool:
        """Whether the kernel itself does."""
        return self.kernel.accepts_objects

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
                f"row {bad[0]} ({bad.size} such rows): drop these rows or do not normalise."
            )
        return np.sqrt(diagonal)
