"""From the arguments of an estimator to kernels: one, or a grid of kernels and parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from itertools import product
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as gp

from holdfast.data.values import refuse_masked
from holdfast.exceptions import InvalidInputError
from holdfast.kernels.adapters import FunctionKernel, SklearnKernel
from holdfast.kernels.base import Kernel, VectorKernel
from holdfast.kernels.checks import positive_width
from holdfast.kernels.dot import Cosine, Linear, Polynomial, Sigmoid
from holdfast.kernels.stationary import RBF, Gamma, Laplacian, Matern

__all__ = [
    "KERNEL_NAMES",
    "NAMED",
    "Candidate",
    "Named",
    "Precomputed",
    "kernel_grid",
    "resolve_kernel",
]


@dataclass(frozen=True)
class Precomputed:
    """Marks that X is the kernel matrix itself."""


@dataclass(frozen=True)
class Named:
    """What a kernel's name stands for.

    Attributes
    ----------
    make : subclass of VectorKernel
        Its class, which knows the parameters.
    fixed : mapping
        Parameters that the name itself gives.
    """

    make: type[VectorKernel]
    fixed: Mapping[str, Any]

    @property
    def arguments(self) -> tuple[str, ...]:
        """The estimator's arguments that it takes, in the order of the grid."""
        own = {field.name for field in fields(self.make)}  # type: ignore[arg-type]  # a dataclass
        return tuple(name for name in ("gamma", "degree", "coef0") if name in own)


#: Every kernel that has a name, under its name.
NAMED: dict[str, Named] = {
    "linear": Named(Linear, {}),
    "poly": Named(Polynomial, {}),
    "polynomial": Named(Polynomial, {}),
    "rbf": Named(RBF, {}),
    "laplacian": Named(Laplacian, {}),
    "matern12": Named(Matern, {"nu": 0.5}),
    "matern32": Named(Matern, {"nu": 1.5}),
    "matern52": Named(Matern, {"nu": 2.5}),
    "cosine": Named(Cosine, {}),
    "sigmoid": Named(Sigmoid, {}),
}

KERNEL_NAMES: tuple[str, ...] = (*NAMED, "precomputed")


@dataclass(frozen=True)
class Candidate:
    """A kernel and the arguments that it came from."""

    kernel: Kernel | Precomputed
    params: dict[str, Any]


def kernel_grid(
    kernel: Any,
    *,
    gamma: Any,
    degree: Any,
    coef0: Any,
    kernel_params: Mapping[str, Any] | None,
    n_features: int | None,
    widths: Callable[[str], list[float] | None] | None = None,
) -> list[Candidate]:
    """Return the candidates: every kernel with every combination of the parameters it takes.

    Parameters
    ----------
    kernel : str, kernel object, callable, or a list of them
    gamma, degree, coef0 : number, None, or a list of values to compare
        ``gamma="search"``: the widths that `widths` gives.
    kernel_params : mapping or None
    n_features : int or None
    widths : callable, optional
        From the name of a kernel to widths that suit the rows; None, or None from it: the width of
        the kernel's own, one over the features.
    """
    kernels = list(kernel) if isinstance(kernel, list | tuple) else [kernel]
    if not kernels:
        raise InvalidInputError(
            "kernel must name at least one kernel; got an empty list.", argument="kernel"
        )
    values = {"gamma": gamma, "degree": degree, "coef0": coef0}
    found = []
    for entry in kernels:
        named = NAMED.get(entry) if isinstance(entry, str) else None
        names = () if named is None else named.arguments
        if isinstance(gamma, str):
            values["gamma"] = _automatic(entry, names, widths)
        grids = [_values(name, values[name]) for name in names]
        for combination in product(*grids):
            chosen = dict(zip(names, combination, strict=True))
            resolved = resolve_kernel(
                entry,
                gamma=chosen.get("gamma"),
                degree=chosen.get("degree", 3),
                coef0=chosen.get("coef0", 1.0),
                kernel_params=kernel_params,
                n_features=n_features,
            )
            found.append(Candidate(resolved, {"kernel": entry, **chosen}))
    if len(found) > 1 and any(isinstance(c.kernel, Precomputed) for c in found):
        raise InvalidInputError(
            'kernel="precomputed" cannot be compared with other kernels: X is its matrix.',
            argument="kernel",
        )
    return found


def _automatic(
    kernel: Any, names: tuple[str, ...], widths: Callable[[str], list[float] | None] | None
) -> list[float] | None:
    """Return the first widths of gamma="search" for one kernel."""
    if kernel == "precomputed" or not isinstance(kernel, str):
        raise InvalidInputError(
            'gamma="search" chooses the width of kernels that are given by name, such as "rbf"; '
            f"got kernel {kernel!r}, which has its own. Leave gamma out, or name a kernel.",
            argument="gamma",
        )
    return widths(kernel) if widths is not None and "gamma" in names else None


def _values(name: str, value: Any) -> list[Any]:
    refuse_masked(name, value)
    if value is None or np.ndim(value) == 0:
        return [value]
    grid = list(np.asarray(value).ravel().tolist())
    if np.ndim(value) != 1 or not grid:
        raise InvalidInputError(
            f"{name} must be a number or a one-dimensional list of values to compare; got "
            f"shape {np.shape(value)}. For one width per feature pass a kernel object, such as "
            "RBF(gamma=[...]).",
            argument=name,
        )
    if len(set(grid)) != len(grid):
        raise InvalidInputError(f"{name} must not repeat a value; got {grid}.", argument=name)
    return grid


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
            f"{kernel!r}: use gamma, degree and coef0, or set parameters on the kernel object.",
            argument="kernel_params",
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
        f"got {kernel!r}.",
        argument="kernel",
    )


def _named_kernel(
    name: str, gamma: Gamma | None, degree: float, coef0: float, n_features: int | None
) -> Kernel | Precomputed:
    width = None if gamma is None else positive_width("gamma", gamma)
    if name == "precomputed":
        return Precomputed()
    if name not in NAMED:
        raise InvalidInputError(
            f"kernel must be one of {', '.join(KERNEL_NAMES)}, a kernel object or a "
            f"callable(X, Z); got {name!r}: correct the name or pass an object.",
            argument="kernel",
        )
    named = NAMED[name]
    if width is None and "gamma" in named.arguments:
        if not n_features:
            raise InvalidInputError(
                f"gamma must be given for kernel {name!r} when the number of features is unknown; "
                "got None: give a number > 0.",
                argument="gamma",
            )
        width = 1.0 / n_features
    if isinstance(width, tuple) and n_features is not None and len(width) != n_features:
        raise InvalidInputError(
            f"gamma must be one number or one per feature; got {len(width)} numbers for "
            f"{n_features} features: give {n_features} numbers.",
            argument="gamma",
        )
    given = {"gamma": width, "degree": degree, "coef0": coef0}
    return named.make(**named.fixed, **{name: given[name] for name in named.arguments})
