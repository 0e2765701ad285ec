"""Hold out all rows near a row, and test that row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.neighbors import VALID_METRICS, NearestNeighbors

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.core.experiments import Experiments, Ragged
from holdfast.data.values import check_positive
from holdfast.exceptions import HoldOutError, InvalidInputError
from holdfast.splitters.base import Splitter, count_rows, plain

__all__ = ["AroundRows", "LeaveNeighbourhoodOut", "require_training_rows"]

#: The mean radius of the Earth in kilometres (IUGG).
EARTH_KM = 6371.0088
#: A distance equal to the radius up to this share of it lies within: on a grid of step 0.1 three
#: steps are 0.30000000000000004.
SLACK = 1e-10
#: Rows whose neighbours are looked up together.
BLOCK_ROWS = 1024


class AroundRows(Splitter):
    """Hold out the neighbourhood of a row and test that row, for every row."""

    @abstractmethod
    def _held_out(self, n_rows: int) -> Ragged:
        """Return the neighbourhood of each row, ascending."""

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of rows.

        Parameters
        ----------
        X : array-like of shape (m, ...), optional
            The rows, for a splitter that does not know their number itself.
        y : array-like of shape (m,), optional
            Counted if X is None.
        groups : ignored
        """
        return count_rows(X, y)

    def _experiments(self, n_rows: int) -> Experiments:
        centres = Ragged(np.arange(n_rows), np.arange(n_rows + 1))
        return Experiments(self._held_out(n_rows), centres)


class LeaveNeighbourhoodOut(AroundRows):
    """Hold out all rows within a radius of a row and test that row, for every row.

    Also known as buffered, or spatial, leave-one-out. The radius says how far from all data the
    model will be used: choose it by the intended use, or compare several with
    `holdfast.displays.RadiusDisplay`.

    Parameters
    ----------
    coordinates : array-like of shape (m, d) or (m,)
        The place of each row. With ``metric="haversine"`` latitude and longitude in degrees.
    radius : float
        Rows at this distance or nearer are held out, in the unit of the metric; in kilometres
        with ``metric="haversine"``. Zero holds out rows at the same place.
    metric : str or callable, default "euclidean"
        Any metric that `sklearn.neighbors.NearestNeighbors` knows, or ``metric(a, b)``, which
        must obey the triangle inequality.
    metric_params : dict, optional
        Further arguments of the metric, such as ``{"p": 3}`` for "minkowski".

    Notes
    -----
    Neighbours come from a k-d tree or a ball tree (metrics that fit in neither, such as "cosine":
    by brute force in blocks); memory is that of the neighbourhoods themselves. A distance that
    equals the radius to ten significant figures lies within, so that rounding does not decide for
    points on a grid.

    Examples
    --------
    >>> from holdfast.splitters import LeaveNeighbourhoodOut
    >>> splitter = LeaveNeighbourhoodOut([0.0, 1.0, 1.5, 4.0], radius=1.0)
    >>> for experiment in splitter.experiments(4):
    ...     print(experiment)
    HoldOut(held_out=[0, 1], test=[0])
    HoldOut(held_out=[0, 1, 2], test=[1])
    HoldOut(held_out=[1, 2], test=[2])
    HoldOut(held_out=[3], test=[3])

    Cities, in kilometres:

    >>> cities = [[60.17, 24.94], [59.44, 24.75], [59.33, 18.07]]  # Helsinki, Tallinn, Stockholm
    >>> LeaveNeighbourhoodOut(cities, radius=100, metric="haversine").experiments(3)[0]
    HoldOut(held_out=[0, 1], test=[0])
    """

    def __init__(
        self,
        coordinates: ArrayLike,
        radius: float,
        metric: str | Callable[..., float] = "euclidean",
        *,
        metric_params: dict[str, Any] | None = None,
    ) -> None:
        self.coordinates = plain(coordinates)
        self.radius = radius
        self.metric = metric
        self.metric_params = metric_params

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of rows, which is that of the coordinates; arguments are ignored."""
        return len(_points(self.coordinates))

    def _held_out(self, n_rows: int) -> Ragged:
        points = _points(self.coordinates, n_rows)
        radius = check_positive("radius", self.radius, zero=True) * (1 + SLACK)
        metric, params = self.metric, dict(self.metric_params or {})
        if metric == "haversine":
            # A chord through the Earth is as good as its arc, and a k-d tree can measure it.
            points, metric = _on_sphere(points), "euclidean"
            radius = 2 * np.sin(min(radius / EARTH_KM, np.pi) / 2)
        search = NearestNeighbors(
            radius=radius,
            algorithm=_algorithm(metric),
            metric=metric,
            p=params.pop("p", 2),
            metric_params=params or None,
        )
        itself = sp.eye_array(n_rows, format="csr", dtype=bool)
        parts: list[Ragged] = []
        try:
            search.fit(points)
            for start in range(0, n_rows, BLOCK_ROWS):
                rows = slice(start, start + BLOCK_ROWS)
                # A row is near itself even where that distance is a rounding error.
                near = itself[rows] + sp.csr_array(search.radius_neighbors_graph(points[rows]))
                near.sort_indices()
                sizes = np.diff(near.indptr)
                require_training_rows(sizes, n_rows, f"radius={self.radius}", first=start)
                parts.append(Ragged(near.indices.astype(np.int64), near.indptr.astype(np.int64)))
        except HoldOutError:
            raise
        except (ValueError, TypeError) as error:
            raise InvalidInputError(
                f"metric={self.metric!r} cannot measure these coordinates: {error} Pass what it "
                "needs as metric_params, or another metric.",
                argument="metric",
            ) from error
        return Ragged.joined(parts)


def require_training_rows(sizes: IntArray, n_rows: int, given: str, first: int = 0) -> None:
    """Raise if an experiment holds out all rows; `given` is what the user asked for."""
    if (sizes >= n_rows).any():
        raise HoldOutError(
            f"{given} holds out all {n_rows} rows in experiment "
            f"{first + int(np.argmax(sizes >= n_rows))}: nothing is left to train on. Choose a "
            "smaller value, or pass more rows.",
            argument=given.partition("=")[0],
        )


def _points(coordinates: ArrayLike, n_rows: int | None = None) -> FloatArray:
    """Return coordinates as finite numbers, shape (n_rows, d); a single column may come flat."""
    raw: AnyArray = np.empty(())
    points: FloatArray = np.empty(())
    with suppress(TypeError, ValueError):  # ragged, or not numbers
        raw = np.asarray(coordinates)
        if raw.dtype.kind in "biufO":  # a time would become nanoseconds without a word
            points = raw.astype(np.float64)
    points = points[:, None] if points.ndim == 1 else points
    if points.ndim != 2 or not points.shape[1]:
        raise InvalidInputError(
            "coordinates must be numbers of shape (rows, dimensions), or (rows,) for one; got "
            f"{type(coordinates).__name__}, shape {raw.shape}, dtype {raw.dtype}. Convert times to "
            "numbers of your unit, such as (t - t[0]) / numpy.timedelta64(1, 'D').",
            argument="coordinates",
        )
    if n_rows not in (None, len(points)):
        raise InvalidInputError(
            f"coordinates must hold one point for each of the {n_rows} rows; got {len(points)} "
            "points. Make the splitter with the coordinates of exactly the rows that are split.",
            argument="coordinates",
        )
    finite = np.isfinite(points).all(axis=1)
    if not finite.all():
        raise InvalidInputError(
            f"coordinates must be finite; got {points[~finite][0]} in row "
            f"{int(np.argmin(finite))}. Leave out rows without a known place.",
            argument="coordinates",
        )
    return np.ascontiguousarray(points)


def _on_sphere(degrees: FloatArray) -> FloatArray:
    """Return places given in degrees as points of the unit sphere, after a look at their ranges."""
    if degrees.shape[1] != 2:
        raise InvalidInputError(
            'metric="haversine" needs two columns of coordinates, latitude and longitude in '
            f"degrees; got {degrees.shape[1]}.",
            argument="metric",
        )
    for column, name, most in ((0, "latitudes", 90), (1, "longitudes", 360)):
        far = np.abs(degrees[:, column]) > most
        if far.any():
            raise InvalidInputError(
                f'metric="haversine" takes degrees, {name} between -{most} and {most}; got '
                f"{degrees[far, column][0]} in row {int(np.argmax(far))}. The order of the columns "
                "is latitude, longitude.",
                argument="metric",
            )
    latitude, longitude = np.radians(degrees).T
    across = np.cos(latitude)
    sphere = [across * np.cos(longitude), across * np.sin(longitude), np.sin(latitude)]
    return np.column_stack(sphere)


def _algorithm(metric: Any) -> str:
    """Return the tree that takes a metric; trees, because they subtract before they square."""
    if callable(metric):
        return "ball_tree"
    for algorithm in ("kd_tree", "ball_tree", "brute"):
        if metric in VALID_METRICS[algorithm] and metric not in ("precomputed", "pyfunc"):
            return algorithm
    raise InvalidInputError(
        "metric must be a function metric(a, b) or the name of a metric between points that "
        f"sklearn.neighbors.NearestNeighbors knows; got {metric!r}. "
        "sklearn.neighbors.VALID_METRICS lists them.",
        argument="metric",
    )
