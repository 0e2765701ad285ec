"""From the arguments of an estimator to kernels: one, or a grid of kernels and parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, NoReturn

import numpy as np
from sklearn.gaussian_process import kernels as gp

from holdfast.data.values import refuse_masked
from holdfast.exceptions import InvalidInputError
from holdfast.kernels.adapters import FunctionKernel, SklearnKernel
from holdfast.kernels.base import Kernel, VectorKernel
from holdfast.kernels.dot import Cosine, Linear, Polynomial
from holdfast.kernels.stationary import RBF, Laplacian, Matern

__all__ = ["NAMED", "Candidate", "Named", "Precomputed", "kernel_grid"]


@dataclass(frozen=True)
class Precomputed:
    """Marks that X is the kernel matrix itself."""

    def column_factors(self, d: int) -> None:
        """Return None: nothing is known of the columns of the rows."""


@dataclass(frozen=True)
class Named:
    """What a kernel's name stands for: a class, and the parameters that the name itself gives."""

    make: type[VectorKernel]
    fixed: Mapping[str, Any]
    #: The estimator's arguments that it takes, in the order of the grid.
    arguments: tuple[str, ...] = ()


#: Every kernel that has a name, under its name.
NAMED: dict[str, Named] = {
    "linear": Named(Linear, {}),
    "poly": Named(Polynomial, {}, ("gamma", "degree", "coef0")),
    "polynomial": Named(Polynomial, {}, ("gamma", "degree", "coef0")),
    "rbf": Named(RBF, {}, ("gamma",)),
    "laplacian": Named(Laplacian, {}, ("gamma",)),
    "matern12": Named(Matern, {"nu": 0.5}, ("gamma",)),
    "matern32": Named(Matern, {"nu": 1.5}, ("gamma",)),
    "matern52": Named(Matern, {"nu": 2.5}, ("gamma",)),
    "cosine": Named(Cosine, {}),
}


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
    kernel : str, Kernel, scikit-learn GP kernel, callable, or a list of them
        A name of `NAMED`, "precomputed", an object, or a function `kernel(X, Z, **kernel_params)`
        that returns the whole matrix.
    gamma, degree, coef0 : number, None, or a list of values to compare
        ``gamma="search"``: the widths that `widths` gives.
    kernel_params : mapping or None
        Keyword arguments for a callable.
    n_features : int or None
        Columns of X; None when rows are objects.
    widths : callable, optional
        From the name of a kernel to widths that suit the rows, or None: one over the features.
    """
    kernels = list(kernel) if isinstance(kernel, list | tuple) else [kernel]
    if not kernels:
        raise InvalidInputError(
            "kernel must name at least one kernel; got an empty list.", argument="kernel"
        )
    given = {"gamma": gamma, "degree": degree, "coef0": coef0}
    found = []
    for entry in kernels:
        named = NAMED.get(entry) if isinstance(entry, str) else None
        if isinstance(gamma, str):
            given["gamma"] = _automatic(entry, named, widths)
        if named is None:
            found.append(Candidate(_given_kernel(entry, kernel_params), {"kernel": entry}))
            continue
        if kernel_params:
            _refuse_params(entry, kernel_params)
        grids = [_values(name, given[name]) for name in named.arguments]
        for combination in product(*grids):
            chosen = dict(zip(named.arguments, combination, strict=True))
            own = chosen
            if chosen.get("gamma", 0.0) is None:
                if not n_features:
                    raise InvalidInputError(
                        f"gamma must be given for kernel {entry!r} when the number of features is "
                        "unknown; got None: give a number > 0.",
                        argument="gamma",
                    )
                own = {**chosen, "gamma": 1.0 / n_features}
            made = named.make(**named.fixed, **own)
            found.append(Candidate(made, {"kernel": entry, **chosen}))
    if len(found) > 1 and any(isinstance(c.kernel, Precomputed) for c in found):
        raise InvalidInputError(
            'kernel="precomputed" cannot be compared with other kernels: X is its matrix.',
            argument="kernel",
        )
    return found


def _automatic(
    kernel: Any, named: Named | None, widths: Callable[[str], list[float] | None] | None
) -> list[float] | None:
    """Return the first widths of gamma="search" for one kernel."""
    if kernel == "precomputed" or not isinstance(kernel, str):
        raise InvalidInputError(
            'gamma="search" chooses the width of kernels that are given by name, such as "rbf"; '
            f"got kernel {kernel!r}, which has its own. Leave gamma out, or name a kernel.",
            argument="gamma",
        )
    asked = named is not None and "gamma" in named.arguments
    return widths(kernel) if widths is not None and asked else None


def _values(name: str, value: Any) -> list[Any]:
    """Return the values of an argument that are compared."""
    if value is None or isinstance(value, int | float):
        return [value]
    refuse_masked(name, value)
    if np.ndim(value) == 0:
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


def _given_kernel(kernel: Any, params: Mapping[str, Any] | None) -> Kernel | Precomputed:
    """Return the kernel that an object, a function or "precomputed" stands for."""
    if params and isinstance(kernel, str | Kernel | gp.Kernel):
        _refuse_params(kernel, params)
    if isinstance(kernel, Kernel | Precomputed):
        return kernel
    if isinstance(kernel, gp.Kernel):
        return SklearnKernel(kernel)
    if isinstance(kernel, str) and kernel == "precomputed":
        return Precomputed()
    if callable(kernel) and not isinstance(kernel, type):
        return FunctionKernel(kernel, params or {})
    raise InvalidInputError(
        f"kernel must be one of {', '.join(NAMED)}, precomputed, a kernel object or a "
        f"callable(X, Z); got {kernel!r}: correct the name or pass an object.",
        argument="kernel",
    )


def _refuse_params(kernel: Any, params: Mapping[str, Any]) -> NoReturn:
    raise InvalidInputError(
        f"kernel_params is for callable kernels only; got {dict(params)!r} with kernel {kernel!r}: "
        "use gamma, degree and coef0, or set parameters on the kernel object.",
        argument="kernel_params",
    )
