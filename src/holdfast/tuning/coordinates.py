"""What a point of the search stands for: log alpha and the kernel's log parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from holdfast._typing import FloatArray
from holdfast.exceptions import NotSupportedError
from holdfast.kernels import Constant, Kernel, Normalised, Product, Scaled, Sum

__all__ = ["Coordinates", "n_kernels", "with_gamma"]

_REMEDY = (
    "Use RBF, Matern or another kernel with a gamma, or compare kernels on a grid: KernelRidgeCV "
    "chooses alpha for each."
)


@dataclass(frozen=True)
class Coordinates:
    """The coordinates of a search: log alpha, then the logarithms of these kernel parameters.

    Attributes
    ----------
    kernel : Kernel
        The family; parameters that are not searched for keep its values.
    names : tuple of str
        The parameters that are searched for.
    sizes : tuple of int
        How many numbers each has: one, or one per feature.
    """

    kernel: Kernel
    names: tuple[str, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, kernel: Kernel, n_features: int, ard: bool) -> Self:
        """Return the coordinates of a kernel's search, with one gamma per feature if `ard`.

        Notes
        -----
        Every positive parameter is searched for, except factors that alpha stands for already: a
        multiple of the whole kernel changes no model whose penalty is multiplied, too.
        """
        redundant, scale = _spare(kernel)
        held = {*redundant, scale}
        names = tuple(name for name in kernel.positive_parameters if name not in held)
        if not names:
            raise NotSupportedError(
                f"kernel {kernel!r} has no gamma to tune. {_REMEDY}", argument="kernel"
            )
        wide = kernel.feature_parameters if ard else ()
        if ard and not wide:
            raise NotSupportedError(
                f"ard=True needs a kernel with one gamma per feature; got {kernel!r}. Use RBF or "
                "Matern, or ard=False.",
                argument="ard",
            )
        return cls(kernel, names, tuple(n_features if name in wide else 1 for name in names))

    @property
    def size(self) -> int:
        """Number of coordinates, with that of alpha."""
        return 1 + sum(self.sizes)

    @property
    def widths(self) -> NDArray[np.bool_]:
        """Which of the coordinates after alpha are gammas."""
        return np.repeat([name.endswith("gamma") for name in self.names], self.sizes)

    @property
    def labels(self) -> list[str]:
        """A name for each coordinate after alpha, numbered where there is one per feature."""
        return [
            name if size == 1 else f"{name}_{j}"
            for name, size in zip(self.names, self.sizes, strict=True)
            for j in range(size)
        ]

    def kernel_at(self, point: FloatArray) -> Kernel:
        """Return the kernel at a point."""
        pieces = np.split(np.exp(point[1:]), np.cumsum(self.sizes)[:-1])
        values = (float(p[0]) if p.size == 1 else tuple(p.tolist()) for p in pieces)
        return self.kernel.with_params(**dict(zip(self.names, values, strict=True)))

    def gradient(self, slopes: Mapping[str, FloatArray]) -> FloatArray:
        """Return the derivatives by the coordinates after alpha, from those by all parameters."""
        return np.concatenate([slopes[name] for name in self.names])


def _spare(kernel: Kernel) -> tuple[list[str], str | None]:
    """Return the parameters that others make redundant, and one that multiplies the kernel."""
    found = {name: _spare(part) for name, part in kernel.parts.items()}
    redundant = [f"{name}__{p}" for name, (inner, _) in found.items() for p in inner]
    scales = [f"{name}__{scale}" for name, (_, scale) in found.items() if scale is not None]
    if isinstance(kernel, Constant):
        return [], "value"
    if isinstance(kernel, Scaled):
        return redundant + scales, "factor"
    if isinstance(kernel, Product):
        return redundant + scales[1:], scales[0] if scales else None
    if isinstance(kernel, Sum):
        # Where every part has a factor, one of them may stay as it is.
        return redundant, scales[0] if len(scales) == len(found) else None
    if isinstance(kernel, Normalised):
        return redundant + scales, None
    return [], None


def with_gamma(kernel: Kernel, gamma: float) -> Kernel:
    """Return the kernel with another width."""
    if "gamma" not in kernel.parameters:
        raise NotSupportedError(
            f"kernel {kernel!r} has no gamma to tune. {_REMEDY}", argument="kernel"
        )
    return kernel.with_params(gamma=gamma)


def n_kernels(kernel: Kernel) -> int:
    """Return how many kernels a kernel is made of, itself included."""
    return 1 + sum(n_kernels(part) for part in kernel.parts.values())
