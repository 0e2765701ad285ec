"""What a point of the search stands for, the bounds of the search and its starting points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from holdfast._typing import FloatArray
from holdfast.exceptions import InvalidInputError, NotSupportedError
from holdfast.kernels import Constant, Kernel, Normalised, OnColumns, Product, Scaled, Sum
from holdfast.kernels.typical import typical_width

if TYPE_CHECKING:
    from holdfast.tuning.criterion import Criterion

__all__ = [
    "Bounds",
    "Coordinates",
    "look_around",
    "reference_gamma",
    "search_bounds",
    "start_points",
]

Bounds = Mapping[str, Any]

#: Default bounds of alpha, times the mean weight of a row. Below the lower one, rounding errors of
#: a thousand rows with a wide kernel would show at a relative 1e-6 and confuse line searches.
ALPHA = (1e-7, 1e4)
#: Default bounds of gamma, times the gamma at which an average pair of rows is one unit apart.
#: Below the lower one a feature changes no kernel value in its first six digits.
GAMMA = (1e-6, 1e4)
#: Default bounds of factors and constants, times the given ones.
FACTOR = (1e-5, 1e5)


@dataclass(frozen=True)
class Coordinates:
    """The coordinates of a search: log alpha, then the logarithms of these kernel parameters.

    `kernel` gives the family and the parameters that are not searched for; `names` are searched
    for, and have `sizes` numbers each: one, or one per feature.
    """

    kernel: Kernel
    names: tuple[str, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, kernel: Kernel, n_features: int, ard: bool) -> Self:
        """Return the coordinates of a kernel's search, with one gamma per feature if `ard`.

        Every positive parameter is searched for, except factors that alpha already covers:
        multiplying the whole kernel and the penalty by the same number changes nothing.
        """
        redundant, scale = _spare(kernel)
        held = {*redundant, scale}
        names = tuple(name for name in kernel.positive_parameters if name not in held)
        if not names:
            raise NotSupportedError(
                f"kernel {kernel!r} has no gamma to tune. Use RBF, Matern or another kernel with "
                "a gamma, or compare kernels on a grid: KernelRidgeCV chooses alpha for each.",
                argument="kernel",
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


def reference_gamma(kernel: Kernel, X: Any, weights: FloatArray, ard: bool = False) -> FloatArray:
    """Return the gamma at which typical rows are one unit apart, shape (1,) or (d,).

    One over the median of what gamma multiplies (the median heuristic), or for each feature one
    over its own mean squared difference and the number of features.
    """
    if not ard:
        width = typical_width(type(kernel), X, weights)
        return np.array([1.0 / max(1, X.shape[1]) if width is None else width])
    X = X[np.flatnonzero(weights > 0)]
    mean = np.asarray(X.mean(axis=0)).ravel()
    square = X.multiply(X) if sp.issparse(X) else X * X
    spread = 2.0 * (np.asarray(square.mean(axis=0)).ravel() - mean * mean)
    floor = 1e-12 * max(float(spread.max()), np.finfo(float).tiny)
    spread = np.where(spread > floor, spread, 1.0)  # a constant feature changes nothing
    return np.asarray(1.0 / (spread * spread.size))


def _owner(kernel: Kernel, name: str, X: Any) -> tuple[Kernel, Any]:
    """Return the kernel that has a parameter itself, and the columns of the rows that it sees."""
    if "__" not in name:
        return kernel, X
    part, rest = name.split("__", 1)
    seen = X[:, list(kernel.columns)] if isinstance(kernel, OnColumns) else X
    return _owner(kernel.parts[part], rest, seen)


def _references(criterion: Criterion) -> list[FloatArray]:
    """Return a typical value of each parameter: of widths from the rows, of others the given one.

    Of several widths the first is the widest: from equal ones no gradient would ever part them.
    """
    coordinates, problem, found = criterion.coordinates, criterion.problem, []
    kernel = coordinates.kernel
    per_feature = kernel.feature_parameters if criterion.ard else ()
    parts = [name for name in coordinates.names if name.endswith("gamma")]
    apart = 10.0 ** np.linspace(-1.0, 1.0, len(parts)) if len(parts) > 1 else np.ones(1)
    for name in coordinates.names:
        if name in parts:
            own, X = _owner(kernel, name, problem.X)
            reference = reference_gamma(own, X, problem.weights, name in per_feature)
            found.append(reference * apart[parts.index(name)])
        else:
            found.append(np.array([float(kernel.parameters[name])]))
    return found


def search_bounds(criterion: Criterion, bounds: Bounds | None) -> FloatArray:
    """Return lower and upper bounds of log alpha and of the log parameters, shape (k, 2)."""
    given = dict(bounds or {})
    names = criterion.coordinates.names
    short = {name: name.rsplit("__", 1)[-1] for name in names}
    unknown = set(given) - {"alpha", *short, *short.values()}
    if unknown:
        known = ", ".join(f'"{name}"' for name in names)
        raise InvalidInputError(
            f'bounds must be a dict with the keys "alpha" and {known}; got {sorted(unknown)}.',
            argument="bounds",
        )
    weight = _mean_weight(criterion)
    found = [_interval("alpha", given.get("alpha", np.array(ALPHA) * weight), 1)]
    for name, reference in zip(names, _references(criterion), strict=True):
        default = np.outer(reference * reference.size, GAMMA if short[name] == "gamma" else FACTOR)
        limits = given.get(name, given.get(short[name], default))
        found.append(_interval(name, limits, reference.size))
    return np.asarray(np.log(np.vstack(found)))


def _mean_weight(criterion: Criterion) -> float:
    """Return the mean weight of the rows that have one."""
    weights = criterion.problem.weights
    return float(weights[weights > 0].mean())


def _interval(name: str, value: Any, size: int) -> FloatArray:
    limits = np.asarray(value, dtype=np.float64)
    if limits.shape not in ((2,), (size, 2)) or not np.isfinite(limits).all():
        raise InvalidInputError(
            f"bounds of {name} must be (low, high) or {size} such pairs; got {value!r}.",
            argument="bounds",
        )
    limits = np.broadcast_to(limits, (size, 2))
    if not ((limits[:, 0] > 0) & (limits[:, 0] < limits[:, 1])).all():
        raise InvalidInputError(
            f"bounds of {name} must satisfy 0 < low < high; got {value!r}.", argument="bounds"
        )
    return limits


def start_points(criterion: Criterion, start: Any, bounds: FloatArray) -> list[FloatArray]:
    """Return the points that a user's `start` describes: one (alpha, gamma) or a list of them."""
    pairs = start if isinstance(start, list) else [start]
    points = []
    for pair in pairs:
        if not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
            raise InvalidInputError(
                f"start must be a pair (alpha, gamma) or a list of such pairs; got {pair!r}.",
                argument="start",
            )
        values = np.append(float(pair[0]), _start_values(criterion, pair[1]))
        if not (np.isfinite(values).all() and (values > 0).all()):
            raise InvalidInputError(
                f"start must hold positive numbers; got {pair!r}.", argument="start"
            )
        points.append(np.clip(np.log(values), bounds[:, 0], bounds[:, 1]))
    return points


def _start_values(criterion: Criterion, given: Any) -> FloatArray:
    """Return the numbers that stand in the place of gamma: one, one for each, or by name."""
    coordinates = criterion.coordinates
    if not isinstance(given, Mapping):
        values = np.asarray(given, dtype=np.float64).ravel()
        return np.broadcast_to(values, coordinates.size - 1)
    if set(given) != set(coordinates.names):
        raise InvalidInputError(
            f"start must give a value for each of {', '.join(coordinates.names)}; got "
            f"{sorted(given)}.",
            argument="start",
        )
    sizes = zip(coordinates.names, coordinates.sizes, strict=True)
    return np.hstack([np.broadcast_to(given[name], size) for name, size in sizes])


def look_around(criterion: Criterion, bounds: FloatArray) -> list[FloatArray]:
    """Return points that cover the sensible region coarsely: 3 widths × 3 penalties."""
    reference = np.log(np.concatenate(_references(criterion)))
    weight = np.log(_mean_weight(criterion))
    widths = criterion.coordinates.widths
    points = [
        np.concatenate([[weight + alpha], reference + gamma * widths])
        for gamma in np.log([0.1, 1.0, 10.0])
        for alpha in np.log([1e-4, 1e-2, 1.0])
    ]
    return [np.clip(point, bounds[:, 0], bounds[:, 1]) for point in points]
