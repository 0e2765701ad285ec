"""Hold out all rows near a row, and test that row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.neighbors import VALID_METRICS, NearestNeighbors

from holdfast._typing import FloatArray
from holdfast.data.numbers import check_positive
from holdfast.exceptions import InvalidInputError
from holdfast.experiments.ragged import Ragged
from holdfast.experiments.splitter import plain
from holdfast.splitters.around import AroundRows, blocks, check_coordinates, gathered

#: The mean radius of the Earth in kilometres (IUGG).
EARTH_KM = 6371.0088
#: A distance equal to the radius up to this share of it lies within: on a grid of step 0.1 three
#: steps are 0.30000000000000004.
SLACK = 1e-10


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
        return len(check_coordinates(self.coordinates))

    def _held_out(self, n_rows: int) -> Ragged:
        return gathered(self._near(n_rows), n_rows, f"radius={self.radius}")

    def _near(self, n_rows: int) -> Iterator[sp.csr_array]:
        points = check_coordinates(self.coordinates, n_rows)
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
        try:
            search.fit(points)
            for rows, itself in blocks(n_rows):
                # A row is near itself even where that distance is a rounding error.
                yield itself + sp.csr_array(search.radius_neighbors_graph(points[rows]))
        except (ValueError, TypeError) as error:
            raise InvalidInputError(
                f"metric={self.metric!r} cannot measure these coordinates: {error} Pass what it "
                "needs as metric_params, or another metric.",
                argument="metric",
            ) from error


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
