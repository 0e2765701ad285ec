"""From the arguments of an estimator to a kernel object."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sklearn.gaussian_process import kernels as gp

from holdfast.exceptions import InvalidInputError
from holdfast.kernels.adapters import FunctionKernel, SklearnKernel
from holdfast.kernels.base import Kernel
from holdfast.kernels.checks import positive_width
from holdfast.kernels.dot import Cosine, Linear, Polynomial, Sigmoid
from holdfast.kernels.stationary import RBF, Gamma, Laplacian, Matern

__all__ = ["KERNEL_NAMES", "Precomputed", "resolve_kernel"]


@dataclass(frozen=True)
class Precomputed:
    """Marks that X is the kernel matrix itself."""


_Maker: TypeAlias = Callable[[Any, Any, float], Kernel]

_BY_NAME: dict[str, _Maker] = {
    "linear": lambda gamma, degree, coef0: Linear(),
    "poly": lambda gamma, degree, coef0: Polynomial(degree, gamma, coef0),
    "polynomial": lambda gamma, degree, coef0: Polynomial(degree, gamma, coef0),
    "rbf": lambda gamma, degree, coef0: RBF(gamma),
    "laplacian": lambda gamma, degree, coef0: Laplacian(gamma),
    "matern12": lambda gamma, degree, coef0: Matern(0.5, gamma),
    "matern32": lambda gamma, degree, coef0: Matern(1.5, gamma),
    "matern52": lambda gamma, degree, coef0: Matern(2.5, gamma),
    "cosine": lambda gamma, degree, coef0: Cosine(),
    "sigmoid": lambda gamma, degree, coef0: Sigmoid(gamma, coef0),
}
_WITHOUT_GAMMA = frozenset({"linear", "cosine"})

KERNEL_NAMES: tuple[str, ...] = (*_BY_NAME, "precomputed")


def resolve_kernel(
    kernel: Any,
    *,
    gamma: Gamma | None = None,
    degree: float = 3,
    coef0: float = 1.0,
    kernel_params: Mapping[str, Any] | None = None,
    n_features: int | None = None,
) -> Kernel | Precomputed:
    """Return the kernel object that an estimator's arguments describe.

    Parameters
    ----------
    kernel : str, Kernel, scikit-learn GP kernel or callable
        A name from `KERNEL_NAMES`, an object, or a function `kernel(X, Z, **kernel_params)`
        that returns the whole matrix.
    gamma : float or one per feature, optional
        Width for the names that have one; None means 1 / n_features, as in scikit-learn.
    degree, coef0 : int, float
        For "poly" ("polynomial") and "sigmoid".
    kernel_params : mapping, optional
        Keyword arguments for a callable.
    n_features : int, optional
        Columns of X; None when rows are objects.

    Raises
    ------
    InvalidInputError
        If a name is unknown or a parameter impossible.
    """
    if kernel_params and (isinstance(kernel, str | Kernel | gp.Kernel)):
        raise InvalidInputError(
            f"kernel_params is for callable kernels only; got {dict(kernel_params)!r} with kernel "
            f"{kernel!r}: use gamma, degree and coef0, or set parameters on the kernel object."
        )
    if isinstance(kernel, Kernel | Precomputed):
        return kernel
    if isinstance(kernel, gp.Kernel):
        return SklearnKernel(kernel)
    if isinstance(kernel, str):
        return _named_kernel(kernel, gamma, degree, coef0, n_features)
    if callable(kernel) and not isinstance(kernel, type):
        return FunctionKernel(kernel, kernel_params or {})
    raise InvalidInputError(
        f"kernel must be one of {', '.join(KERNEL_NAMES)}, a kernel object or a callable(X, Z); "
        f"got {kernel!r}."
    )


def _named_kernel(
    name: str, gamma: Gamma | None, degree: float, coef0: float, n_features: int | None
) -> Kernel | Precomputed:
    width = None if gamma is None else positive_width("gamma", gamma)
    if name == "precomputed":
        return Precomputed()
    if name not in _BY_NAME:
        raise InvalidInputError(
            f"kernel must be one of {', '.join(KERNEL_NAMES)}, a kernel object or a "
            f"callable(X, Z); got {name!r}: correct the name or pass an object."
        )
    if width is None and name not in _WITHOUT_GAMMA:
        if not n_features:
            raise InvalidInputError(
                f"gamma must be given for kernel {name!r} when the number of features is unknown; "
                "got None: give a number > 0."
            )
        width = 1.0 / n_features
    if isinstance(width, tuple) and n_features is not None and len(width) != n_features:
        raise InvalidInputError(
            f"gamma must be one number or one per feature; got {len(width)} numbers for "
            f"{n_features} features: give {n_features} numbers."
        )
    return _BY_NAME[name](width, degree, coef0)
