"""The held-out criterion over a grid of gamma and alpha, as a table and as a picture."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import FloatArray
from holdfast.estimators.regression import KernelRidgeCV
from holdfast.exceptions import GridEdgeWarning, InvalidInputError, MissingDependencyError
from holdfast.progress import Progress, listening, report
from holdfast.tuning.coordinates import with_gamma
from holdfast.tuning.problem import Problem, make_problem

if TYPE_CHECKING:
    import pandas

    from holdfast.displays import ContourDisplay

__all__ = ["Surface", "criterion_surface"]


@dataclass(frozen=True, eq=False)
class Surface:
    """The exact held-out criterion over (gamma, alpha).

    Attributes
    ----------
    gammas : ndarray of shape (g,)
    alphas : ndarray of shape (a,)
    values : ndarray of shape (g, a)
        NaN for widths that an interrupted run did not reach.
    criterion_name : str
        What the values are: "mean squared error", "minus log density" (mean per row) or "CRPS".
    """

    gammas: FloatArray
    alphas: FloatArray
    values: FloatArray
    criterion_name: str = "mean squared error"

    @property
    def best(self) -> tuple[float, float]:
        """The best (alpha, gamma) of the grid."""
        g, a = np.unravel_index(int(np.nanargmin(self.values)), self.values.shape)
        return float(self.alphas[a]), float(self.gammas[g])

    def plot(self, ax: Any = None, **kwargs: Any) -> ContourDisplay:
        """Return a contour plot (needs matplotlib).

        Parameters
        ----------
        ax : matplotlib Axes, optional
        **kwargs
            For the contours.
        """
        from holdfast.displays import ContourDisplay

        done = ~np.isnan(self.values).all(axis=1)
        return ContourDisplay(
            alphas=self.alphas,
            gammas=self.gammas[done],
            values=self.values[done],
            score_name=f"held-out {self.criterion_name}",
            lower_is_better=True,
        ).plot(ax, **kwargs)

    def to_frame(self) -> pandas.DataFrame:
        """Return a long pandas table: gamma, alpha, criterion."""
        try:
            import pandas as pd
        except ImportError:
            raise MissingDependencyError(
                "to_frame() needs pandas, which is not installed: pip install holdfast[frames]."
            ) from None
        return pd.DataFrame(
            {
                "gamma": np.repeat(self.gammas, self.alphas.size),
                "alpha": np.tile(self.alphas, self.gammas.size),
                "criterion": self.values.ravel(),
            }
        )


def criterion_surface(
    model: Any,
    X: Any,
    y: Any,
    gammas: ArrayLike,
    alphas: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    progress: Progress | None = None,
) -> Surface:
    """Return the exact held-out criterion at every gamma and alpha.

    Parameters
    ----------
    model : KernelRidgeCV, KernelRidgeClassifierCV, or dict of parameters
        As in `tune`; its `scoring` says what the criterion is.
    X, y, sample_weight, groups
        As in ``fit``.
    gammas : array-like of shape (g,)
        Widths, increasing.
    alphas : array-like of shape (a,), optional
        Penalties, increasing; default: those of the model.
    progress : callable(done, total, text), optional
        A listener as in `holdfast.progress`.

    Notes
    -----
    One fit for each gamma, which serves all alphas. Ctrl-C ends it with what is finished.
    """
    widths = np.asarray(gammas, dtype=np.float64)
    if widths.ndim != 1 or not widths.size or not (widths > 0).all():
        raise InvalidInputError(
            f"gammas must be positive numbers in a list; got {gammas!r}.", argument="gammas"
        )
    problem = make_problem(model, X, y, sample_weight, groups)
    rows: list[FloatArray] = []
    grid = np.empty(0)
    with listening(progress):
        try:
            for gamma in widths:
                grid, values = _one_width(problem, gamma, alphas, X, sample_weight, groups)
                rows.append(values)
                report(len(rows), widths.size, "kernel widths")
        except KeyboardInterrupt:
            if not rows:
                raise
    surface = np.full((widths.size, grid.size), np.nan)
    surface[: len(rows)] = rows
    return Surface(widths, grid, surface, problem.goal.words)


def _one_width(
    problem: Problem, gamma: float, alphas: Any, X: Any, sample_weight: Any, groups: Any
) -> tuple[FloatArray, FloatArray]:
    """Return the penalties and the held-out errors at one width."""
    params: dict[str, Any] = problem.estimator.get_params(deep=False)
    params |= {"kernel": with_gamma(problem.kernel, float(gamma)), "gamma": None}
    params |= {"cv": problem.experiments, "scoring": problem.goal.scoring}
    params |= {"basis": problem.basis}
    if alphas is not None:
        params["alphas"] = alphas
    twin = KernelRidgeCV(**params)  # also for a classifier: on its codes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        twin.fit(X, problem.codes, sample_weight=sample_weight, groups=groups)
    return np.asarray(twin.cv_results_["alpha"]), -np.asarray(twin.cv_results_["pooled_test_score"])
