"""The kernels that a fit compares: one, or a grid of kernels and their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from holdfast.data.values import refuse_masked
from holdfast.exceptions import InvalidInputError
from holdfast.kernels import Kernel, Precomputed
from holdfast.kernels.resolve import resolve_kernel

#: Parameters that each named kernel takes, in the order of the grid.
_PARAMETERS: dict[str, tuple[str, ...]] = {
    "linear": (),
    "cosine": (),
    "precomputed": (),
    "poly": ("gamma", "degree", "coef0"),
    "polynomial": ("gamma", "degree", "coef0"),
    "sigmoid": ("gamma", "coef0"),
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
        raise InvalidInputError("kernel must name at least one kernel; got an empty list.")
    values = {"gamma": gamma, "degree": degree, "coef0": coef0}
    found = []
    for entry in kernels:
        names = _PARAMETERS.get(entry, ("gamma",)) if isinstance(entry, str) else ()
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
            'kernel="precomputed" cannot be compared with other kernels: X is its matrix.'
        )
    return found


def _automatic(
    kernel: Any, names: tuple[str, ...], widths: Callable[[str], list[float] | None] | None
) -> list[float] | None:
    """Return the first widths of gamma="search" for one kernel."""
    if kernel == "precomputed" or not isinstance(kernel, str):
        raise InvalidInputError(
            'gamma="search" chooses the width of kernels that are given by name, such as "rbf"; '
            f"got kernel {kernel!r}, which has its own. Leave gamma out, or name a kernel."
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
            "RBF(gamma=[...])."
        )
    if len(set(grid)) != len(grid):
        raise InvalidInputError(f"{name} must not repeat a value; got {grid}.")
    return grid
