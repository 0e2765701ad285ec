"""How far the model carries: held-out error against the distance to the nearest data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import FloatArray
from holdfast.core.experiments import Experiments, Ragged
from holdfast.displays.base import Display, band, check_fitted_estimator
from holdfast.exceptions import InvalidInputError
from holdfast.scores.metric import printed
from holdfast.scores.scoring import score_experiments
from holdfast.splitters import LeaveNeighbourhoodOut

if TYPE_CHECKING:
    from holdfast.answers.fitted import Fitted

__all__ = ["RadiusDisplay"]


@dataclass(eq=False, repr=False, kw_only=True)
class RadiusDisplay(Display):
    """Held-out error by the radius within which all neighbours of a row are held out with it.

    Where the curve meets the line of a model without features, nothing is known about a place so
    far from all data.

    Parameters
    ----------
    radii : array-like of shape (r,)
        Radii, ascending.
    values : array-like of shape (r,)
        Error or score at each.
    se : array-like of shape (r,), optional
        Its standard error.
    held_out : array-like of shape (r,), optional
        Rows held out around a test row, on average.
    control : array-like of shape (r,), optional
        Error or score with as many rows held out anywhere.
    baseline : float, optional
        Error or score without features: of the mean of all targets.
    score_name : str, default "score"
        What is shown.
    unit : str, optional
        Of the radii.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve.
    band_ : matplotlib PolyCollection or None
        Plus and minus one standard error.
    control_, baseline_ : matplotlib Line2D or None
        The lines to compare with.
    """

    radii: FloatArray
    values: FloatArray
    se: FloatArray | None = None
    held_out: FloatArray | None = None
    control: FloatArray | None = None
    baseline: float | None = None
    score_name: str = "score"
    unit: str | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        coordinates: ArrayLike,
        radii: ArrayLike,
        *,
        metric: Any = "euclidean",
        metric_params: dict[str, Any] | None = None,
        control: bool = False,
        random_state: int = 0,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Return the display of a fitted estimator, plotted.

        Parameters
        ----------
        estimator : fitted KernelRidgeCV or KernelRidgeClassifierCV
        coordinates : array-like of shape (m, d) or (m,)
            The place of each training row; see `holdfast.splitters.LeaveNeighbourhoodOut`.
        radii : array-like of shape (r,)
            Radii in the unit of the metric; in kilometres with ``metric="haversine"``.
        metric : str or callable, default "euclidean"
            Of the coordinates.
        metric_params : dict, optional
            Further arguments of the metric.
        control : bool, default False
            Also show the error with as many rows held out anywhere: what of the loss is due to
            fewer rows, and not to distance.
        random_state : int, default 0
            Which rows the control holds out.
        ax, **kwargs
            For `plot`.

        Notes
        -----
        The model keeps its penalty and its scoring; nothing is refitted. Each radius is one
        experiment per row (`holdfast.splitters.LeaveNeighbourhoodOut`). The band counts rows as
        independent, which near rows are not: it is the least that the error is uncertain by.
        """
        check_fitted_estimator(estimator)
        fitted = estimator._fitted_state()
        m, scale = fitted.training.weights.size, printed(fitted.objective.scoring.name)
        grid, rng = np.unique(np.asarray(radii)), np.random.default_rng(random_state)
        if not grid.size:
            raise InvalidInputError(
                "radii must hold at least one radius; got none.", argument="radii"
            )
        near = [
            LeaveNeighbourhoodOut(coordinates, radius, metric, metric_params=metric_params)
            for radius in grid
        ]
        experiments = [splitter.experiments(m) for splitter in near]
        score, se = np.array([_held_out_score(fitted, each) for each in experiments]).T
        others = [_held_out_score(fitted, _anywhere(e, m, rng))[0] for e in experiments if control]
        display = cls(
            radii=grid.astype(float),
            values=scale.of(score),
            se=scale.error(score, se),
            held_out=np.array([each.held_out.sizes.mean() for each in experiments]),
            control=scale.of(others) if control else None,
            baseline=float(scale.of(_baseline(fitted))),
            score_name=scale.label,
            unit="km" if metric == "haversine" else None,
        )
        return display.plot(ax, **kwargs)

    def _draw(self, ax: Any, **kwargs: Any) -> None:
        x, y = np.asarray(self.radii), np.asarray(self.values)
        label = "all rows within the radius held out"
        (self.line_,) = ax.plot(x, y, **{"marker": ".", "label": label, **kwargs})
        self.band_ = self.control_ = self.baseline_ = None
        if self.se is not None and np.isfinite(self.se).any():
            self.band_ = band(ax, x, y - self.se, y + self.se, self.line_)
        if self.control is not None:
            label, grey = "as many rows held out anywhere", {"color": "0.4", "marker": "."}
            (self.control_,) = ax.plot(x, self.control, linestyle="--", label=label, **grey)
        if self.baseline is not None and np.isfinite(self.baseline):
            dotted = {"linestyle": ":", "color": "black", "linewidth": 1}
            self.baseline_ = ax.axhline(self.baseline, label="without features", **dotted)
        unit = f" ({self.unit})" if self.unit else ""
        ax.set(xlabel=f"radius{unit}", ylabel=f"held-out {self.score_name}")
        low, high = ax.get_ylim()
        ax.set_ylim(low, high + 0.3 * (high - low))  # room for the legend above the lines
        ax.legend(loc="upper left")


def _held_out_score(fitted: Fitted, experiments: Experiments) -> tuple[float, float]:
    """Return the score of the model at its own penalty, or penalties, and its standard error."""
    tested, _, values = fitted.predict(experiments)
    return _score(fitted, values, tested.test)


def _baseline(fitted: Fitted) -> float:
    """Return the score of the weighted mean of the targets."""
    Y, m = fitted.training.Y, len(fitted.training.Y)
    constant = np.broadcast_to(np.average(Y, axis=0, weights=fitted.training.weights), Y.shape)
    return _score(fitted, constant, Ragged(np.arange(m), np.array([0, m])))[0]


def _score(fitted: Fitted, values: FloatArray, test: Ragged) -> tuple[float, float]:
    """Return the score of predictions (k, v) and its standard error over experiments."""
    training = fitted.training
    truth = training.labels, training.score_weights, training.groups
    metric = fitted.objective.scoring
    found = score_experiments(metric, values[None], test.values, test.ptr, *truth)
    return float(found.pooled[0]), float(found.se[0])


def _anywhere(experiments: Experiments, m: int, rng: np.random.Generator) -> Experiments:
    """Return experiments that test the same rows and hold out as many, but anywhere.

    Rows are laid out in a random circle; with each test row those that follow it are held out.
    """
    circle = rng.permutation(m)
    place = np.empty(m, dtype=np.int64)
    place[circle] = np.arange(m)
    start = place[experiments.test.values]
    spans = Ragged.ranges(start, start + experiments.held_out.sizes)
    return Experiments(Ragged(circle[spans.values % m], spans.ptr), experiments.test)
