"""What a kernel is: a frozen, comparable function of two sets of rows that knows its parameters.

And the checks of parameters, and of the matrices that kernels return.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
import scipy.sparse as sp

from holdfast._typing import FloatArray, RowData
from holdfast.data.rows import numeric_pair, numeric_rows
from holdfast.data.values import check_positive, is_number, refuse_masked
from holdfast.exceptions import InvalidInputError, KernelError

if TYPE_CHECKING:
    from holdfast.kernels.compose import Normalised, Product, Scaled, Sum

__all__ = [
    "Kernel",
    "VectorKernel",
    "finite_number",
    "kernel_matrix",
    "positive_width",
    "require_finite",
]


class Kernel(ABC):
    """A symmetric, positive semidefinite function of two rows.

    Kernels are immutable values: equal parameters make equal kernels, so `sklearn.base.clone`
    returns the kernel itself and grid searches can run over whole kernels.
    """

    _positive: ClassVar[tuple[str, ...]] = ()

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
    def parts(self) -> Mapping[str, "Kernel"]:
        """The kernels that this one is made of, by name; most are made of none."""
        return {}

    @property
    def accepts_objects(self) -> bool:
        """Whether rows may be arbitrary objects (strings, graphs, …) instead of vectors."""
        return bool(self.parts) and all(part.accepts_objects for part in self.parts.values())

    # -- parameters -------------------------------------------------------------------------------

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters by name; those of a part are called after it, as in ``k1__gamma``.

        >>> from holdfast.kernels import RBF, Linear
        >>> (RBF(gamma=0.5) + 2.0 * Linear()).parameters
        {'k1__gamma': 0.5, 'k2__factor': 2.0}
        """
        return {**self._own_parameters(), **self._nested(lambda part: part.parameters)}

    @property
    def positive_parameters(self) -> tuple[str, ...]:
        """Names of the parameters that any positive number may take: widths, factors, constants."""
        nested = self._nested(lambda part: dict.fromkeys(part.positive_parameters))
        return (*self._positive, *nested)

    def with_params(self, **changes: Any) -> Self:
        """Return the kernel with other values of some of its `parameters`.

        >>> from holdfast.kernels import RBF, Linear
        >>> (RBF(gamma=0.5) + Linear()).with_params(k1__gamma=2.0).kernels[0]
        RBF(gamma=2.0)
        """
        unknown = changes.keys() - self.parameters.keys()
        if unknown:
            known = ", ".join(self.parameters) or "none"
            raise InvalidInputError(
                f"{type(self).__name__} has no parameter {min(unknown)!r}; its parameters: {known}."
            )
        parts = {}
        for name, part in self.parts.items():
            start = f"{name}__"
            inner = {n.removeprefix(start): v for n, v in changes.items() if n.startswith(start)}
            parts[name] = part.with_params(**inner) if inner else part
        own = {name: changes[name] for name in self._own_parameters() if name in changes}
        return self._rebuilt(own, parts)

    def _own_parameters(self) -> dict[str, Any]:
        """Return the parameters that are not those of a part."""
        names = (field.name for field in fields(cast(Any, self)))
        return {name: getattr(self, name) for name in names if name not in ("kernel", "kernels")}

    def _rebuilt(self, own: Mapping[str, Any], parts: Mapping[str, "Kernel"]) -> Self:
        """Return the kernel with other parameters of its own and other parts."""
        return cast(Self, replace(cast(Any, self), **own, **parts))

    def _nested(self, of: "Callable[[Kernel], Mapping[str, Any]]") -> dict[str, Any]:
        """Return what the parts have by name, with the part in front of each name."""
        return {
            f"{name}__{key}": value
            for name, part in self.parts.items()
            for key, value in of(part).items()
        }

    def column_factors(self, d: int) -> FloatArray | None:
        """Return f (d,) if the kernel is Σ_j f_j x_j z_j on rows of d columns, else None."""
        return None

    @classmethod
    def scaled_by_gamma(cls, X: RowData) -> FloatArray | None:
        """Return what gamma multiplies, for the pairs of some rows; None: no width suits them."""
        return None

    # -- arithmetic -------------------------------------------------------------------------------

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


def finite_number(name: str, value: Any) -> float:
    """Return the value as a float, if it is a finite real number."""
    if not is_number(value) or not math.isfinite(value):
        raise InvalidInputError(
            f"{name} must be a finite number; got {value!r}: give one number, such as {name}=1.0.",
            argument=name,
        )
    return float(value)


def positive_width(name: str, value: Any) -> float | tuple[float, ...]:
    """Return a positive float, or a tuple of positive floats (one per feature)."""
    if type(value) is float and 0.0 < value < math.inf:
        return value
    if np.ndim(value) == 0:
        return check_positive(name, value.item() if isinstance(value, np.ndarray) else value)
    array = np.asarray(value)
    valid = array.ndim == 1 and array.size > 0 and array.dtype.kind in "iuf"
    if valid and np.isfinite(array).all() and (array > 0).all():
        return tuple(float(entry) for entry in array)
    raise InvalidInputError(
        f"{name} must be a finite number > 0 or a 1-D array of such numbers, one per feature; got "
        f"{value!r}: give positive widths only (leave a feature out by dropping its column).",
        argument=name,
    )


def kernel_matrix(values: Any, shape: tuple[int, ...], name: object, *, copy: bool) -> FloatArray:
    """Return the values as a C-contiguous float64 array of exactly that shape, all finite.

    Raises
    ------
    KernelError
        If shape, type or values are wrong; the message names the kernel.
    """
    if sp.issparse(values):
        values = values.toarray()
    refuse_masked(f"the values of kernel {name}", values, KernelError)
    array = np.asarray(values)
    if array.shape != shape:
        raise KernelError(
            f"kernel {name} must return shape {shape} (rows of X, rows of Z); got "
            f"{array.shape}: return one value for every pair of rows.",
            argument="kernel",
        )
    if array.dtype.kind not in "biuf" and array.dtype.kind != "O":
        raise KernelError(
            f"kernel {name} must return real numbers; got dtype {array.dtype}: return float64.",
            argument="kernel",
        )
    try:
        result = np.array(array, dtype=np.float64, order="C", copy=True if copy else None)
    except (TypeError, ValueError) as error:
        raise KernelError(
            f"kernel {name} must return real numbers; got dtype {array.dtype} ({error}): return "
            "float64.",
            argument="kernel",
        ) from error
    require_finite(result, name)
    return result


def require_finite(values: FloatArray, name: object) -> None:
    """Raise KernelError when a value is NaN or infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum()
    # A finite sum proves finite entries without a boolean array of the matrix's size.
    if np.isfinite(total):
        return
    nans = int(np.count_nonzero(np.isnan(values)))
    infinite = int(np.count_nonzero(np.isinf(values)))
    if nans or infinite:
        raise KernelError(
            f"kernel {name} must return finite values; got {nans} NaN and {infinite} infinite of "
            f"{values.size}: look for missing or huge values in X, or scale X.",
            argument="kernel",
        )
