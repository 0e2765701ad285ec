"""What a kernel is: a frozen, comparable function of two sets of rows."""

from abc import ABC, abstractmethod
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

from holdfast._typing import FloatArray, RowData
from holdfast.data.rows import numeric_pair, numeric_rows

if TYPE_CHECKING:
    from holdfast.kernels.compose import Normalised, Product, Scaled, Sum

__all__ = ["Kernel", "VectorKernel"]


class Kernel(ABC):
    """A positive semidefinite (or at least symmetric) function of two rows.

    Kernels are immutable values: equal parameters make equal kernels, so `sklearn.base.clone`
    returns the kernel itself and grid searches can run over whole kernels.
    """

    @abstractmethod
    def __call__(self, X: Any, Z: Any = None) -> FloatArray:
        """Return kernel values of every row of X with every row of Z (default: X).

        Returns
        -------
        K : ndarray of shape (len(X), len(Z))
            float64, C-contiguous, free to be overwritten.
        """

    @abstractmethod
    def diag(self, X: Any) -> FloatArray:
        """Return kernel values k(x, x) of every row, shape (len(X),), without the whole matrix."""

    @property
    def positive_semidefinite(self) -> bool:
        """Whether every kernel matrix has only non-negative eigenvalues."""
        return True

    @property
    def accepts_objects(self) -> bool:
        """Whether rows may be arbitrary objects (strings, graphs, …) instead of vectors."""
        return False

    def normalised(self) -> "Normalised":
        """Return the kernel k(x, z) / sqrt(k(x, x) k(z, z)), whose diagonal is one."""
        from holdfast.kernels.compose import Normalised

        return Normalised(self)

    def __add__(self, other: Any) -> "Sum":
        from holdfast.kernels.compose import Constant, Sum

        if isinstance(other, Real):
            other = Constant(float(other))
        return Sum((self, other)) if isinstance(other, Kernel) else NotImplemented

    def __radd__(self, other: Any) -> "Sum":
        return self.__add__(other)

    def __mul__(self, other: Any) -> "Product | Scaled":
        from holdfast.kernels.compose import Product

        return Product((self, other)) if isinstance(other, Kernel) else self.__rmul__(other)

    def __rmul__(self, other: Any) -> "Scaled":
        from holdfast.kernels.compose import Scaled

        return Scaled(self, float(other)) if isinstance(other, Real) else NotImplemented

    def __sklearn_clone__(self) -> Self:
        """Return the kernel itself: it cannot change, so a copy is not needed."""
        return self


class VectorKernel(Kernel):
    """A kernel on numeric rows, dense or sparse."""

    def __call__(self, X: Any, Z: Any = None) -> FloatArray:
        """Return kernel values of every row of X with every row of Z (default: X)."""
        return self._matrix(*numeric_pair(X, Z))

    def diag(self, X: Any) -> FloatArray:
        """Return kernel values k(x, x) of every row, shape (len(X),)."""
        return self._diagonal(numeric_rows(X))

    @abstractmethod
    def _matrix(self, X: RowData, Z: RowData | None) -> FloatArray:
        """Return the matrix of checked numeric rows; Z=None stands for X itself."""

    @abstractmethod
    def _diagonal(self, X: RowData) -> FloatArray:
        """Return the diagonal of checked numeric rows."""
