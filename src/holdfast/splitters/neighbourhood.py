"""Hold out all rows near a row, and test that row."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.neighbors import VALID_METRICS, NearestNeighbors

from holdfast._typing import FloatArray, IntArray
from holdfast.data.numbers import check_positive
from holdfast.exceptions import HoldOutError, InvalidInputError
from holdfast.experiments.experiment import Experiments
from holdfast.experiments.ragged import Ragged
from holdfast.experiments.splitter import Splitter, plain
from holdfast.splitters.coordinates import as_columns, check_coordinates

#: The mean radius of the Earth in kilometres (IUGG).
EARTH_KM = 6371.0088
#: A distance equal to the radius up to this share of it lies within: on a grid of step 0.1 three
#: steps are 0.30000000000000004.
SLACK = 1e-10
#: Neighbours that are looked up at once.
BLOCK_VALUES = 2**22


class LeaveNeighbourhoodOut(Splitter):
    """Hold out all rows within a radius of a row and test that row, for every row.

    Also known as buffered, or spatial, leave-one-out. The radius says how far from all data the
    model will be used: choose it by the use, or look at all of them with
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
    equals the radius to ten digits lies within, so that rounding does not decide on a grid.

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
        """Return the number of rows.

        Parameters
        ----------
        X, y, groups : ignored
        """
        return len(as_columns(self.coordinates))

    def _experiments(self, n_rows: int) -> Experiments:
        points = check_coordinates(self.coordinates, n_rows)
        radius = check_positive("radius", self.radius, zero=True)
        metric, radius = self.metric, radius * (1 + SLACK)
        if metric == "haversine":
            # A chord through the Earth is as good as its arc, and a k-d tree can measure it.
            points, metric = _on_sphere(points), "euclidean"
            radius = 2 * np.sin(min(radius / EARTH_KM, np.pi) / 2)
        near, sizes = [], []
        for rows, size in self._neighbours(points, radius, metric):
            near.append(rows)
            sizes.append(size)
            if (size == n_rows).any():
                centre = sum(map(len, sizes[:-1])) + int(np.argmax(size == n_rows))
                raise HoldOutError(
                    f"radius={self.radius} reaches every one of the {n_rows} rows from row "
                    f"{centre}: nothing is left to train on. Choose a smaller radius."
                )
        ptr = np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64)
        centres = Ragged(np.arange(n_rows), np.arange(n_rows + 1))
        return Experiments(Ragged(np.concatenate(near), ptr), centres)

    def _neighbours(
        self, points: FloatArray, radius: float, metric: Any
    ) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield, block by block, the neighbours of each row in ascending order, and how many."""
        m = len(points)
        params = dict(self.metric_params or {})
        try:
            search = NearestNeighbors(
                radius=radius,
                algorithm=_algorithm(metric),
                metric=metric,
                p=params.pop("p", 2),
                metric_params=params or None,
            ).fit(points)
            start, step = 0, 64
            while start < m:
                rows = np.arange(start, min(m, start + step))
                found = search.radius_neighbors(points[rows], return_distance=False)
                owners = np.repeat(np.arange(rows.size), [len(part) for part in found])
                # One number for a pair sorts faster than pairs. A row is always near itself,
                # even where its distance to itself is a rounding error.
                itself = np.arange(rows.size) * m + rows
                keys = np.concatenate([owners * m + np.concatenate(found), itself])
                keys.sort()
                keys = keys[np.append(True, keys[1:] != keys[:-1])]
                sizes = np.bincount(keys // m, minlength=rows.size).astype(np.int64)
                yield keys % m, sizes
                start += rows.size
                step = min(2 * step, max(64, BLOCK_VALUES // int(sizes.max())))
        except (ValueError, TypeError) as error:
            if isinstance(error, InvalidInputError):
                raise
            raise InvalidInputError(
                f"metric={self.metric!r} cannot measure these coordinates: {error} Pass what it "
                "needs as metric_params, or another metric."
            ) from error


def _on_sphere(degrees: FloatArray) -> FloatArray:
    """Return places given in degrees as points of the unit sphere, after a look at their ranges."""
    if degrees.shape[1] != 2:
        raise InvalidInputError(
            'metric="haversine" needs two columns of coordinates, latitude and longitude in '
            f"degrees; got {degrees.shape[1]}."
        )
    for column, name, most in ((0, "latitudes", 90), (1, "longitudes", 360)):
        far = np.abs(degrees[:, column]) > most
        if far.any():
            raise InvalidInputError(
                f'metric="haversine" takes degrees, {name} between -{most} and {most}; got '
                f"{degrees[far, column][0]} in row {int(np.argmax(far))}. The order of the columns "
                "is latitude, longitude."
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
    known = sorted({name for names in VALID_METRICS.values() for name in names})
    near = difflib.get_close_matches(str(metric), known, n=3, cutoff=0.5)
    hint = f"Did you mean {', '.join(map(repr, near))}?" if near and metric not in known else ""
    raise InvalidInputError(
        "metric must be a function metric(a, b) or the name of a metric between points that "
        f"sklearn.neighbors.NearestNeighbors knows; got {metric!r}. "
        + (hint or "sklearn.neighbors.VALID_METRICS lists them.")
    )
