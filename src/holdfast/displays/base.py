"""What all displays share: how they plot, what they ask, and the only import of matplotlib."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from holdfast.exceptions import InvalidInputError, MissingDependencyError

if TYPE_CHECKING:
    from holdfast.answers.held_out import HeldOutPredictions

__all__ = ["AnswerDisplay", "Display", "band", "check_fitted_estimator", "held_out_of"]


class Display(ABC):
    """A plot in scikit-learn's manner: data in the constructor, looks in `plot`, artists kept.

    ``from_estimator`` asks a fitted estimator and plots. ``from_result`` takes an answer that you
    already have, and leaves the plotting to `plot`.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
        Where it was plotted last.
    """

    ax_: Any
    figure_: Any

    @classmethod
    def from_result(cls, result: Any, *args: Any, **kwargs: Any) -> Self:
        """Return the display of an answer, not yet plotted.

        Parameters
        ----------
        result : object
            What the estimator answered.
        *args, **kwargs
            Further parameters of the display.
        """
        return cls(result, *args, **kwargs)  # type: ignore[call-arg]  # a dataclass of the answer

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Plot, and return the display.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        **kwargs
            The other parameters of the class, and looks of its main artist as matplotlib has them.
        """
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise MissingDependencyError(
                "Plotting needs matplotlib, which is not installed: pip install 'holdfast[plot]'."
            ) from error
        if ax is None:
            _, ax = plt.subplots(layout="constrained")
        self._draw(ax, **kwargs)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @abstractmethod
    def _draw(self, ax: Any, **kwargs: Any) -> None:
        """Draw on these axes and keep the artists."""


class AnswerDisplay(Display):
    """A display of what one method of a fitted estimator answers.

    Attributes
    ----------
    answer : str
        The method.
    defaults : dict
        Arguments of it that are not its own defaults.
    """

    answer: ClassVar[str]
    defaults: ClassVar[dict[str, Any]] = {}

    @classmethod
    def from_estimator(cls, estimator: Any, *args: Any, ax: Any = None, **kwargs: Any) -> Self:
        """Return the display of a fitted estimator, plotted.

        Parameters
        ----------
        estimator : fitted KernelRidgeCV or KernelRidgeClassifierCV
        *args, **kwargs
            Arguments of the estimator's method that answers, parameters of the display, and looks
            for `plot`.
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        """
        check_fitted_estimator(estimator)
        ask = getattr(estimator, cls.answer)
        taken = signature(ask).parameters
        given = dict(zip(taken, args, strict=False))
        asked = cls.defaults | given | {name: kwargs.pop(name) for name in taken if name in kwargs}
        own = {f.name: kwargs.pop(f.name) for f in fields(cls) if f.name in kwargs}  # type: ignore[arg-type]  # a dataclass of the answer
        return cls.from_result(ask(**asked), **own).plot(ax, **kwargs)


def band(ax: Any, x: Any, low: Any, high: Any, line: Any, alpha: float = 0.2) -> Any:
    """Return a band in the colour of its line."""
    return ax.fill_between(x, low, high, alpha=alpha, color=line.get_color(), linewidth=0)


def check_fitted_estimator(estimator: Any) -> None:
    """Raise unless this is one of holdfast's estimators, fitted."""
    if not hasattr(estimator, "held_out"):
        raise InvalidInputError(
            "estimator must be a KernelRidgeCV or KernelRidgeClassifierCV; got "
            f"{type(estimator).__name__}. A pipeline's last step is pipeline[-1].",
            argument="estimator",
        )
    check_is_fitted(estimator)


def held_out_of(
    estimator: Any, target: int, cv: Any = None, groups: ArrayLike | None = None
) -> HeldOutPredictions:
    """Return the held-out predictions of a fitted estimator at its penalty for one target."""
    check_fitted_estimator(estimator)
    alphas = np.atleast_1d(estimator.alpha_)
    found: HeldOutPredictions = estimator.held_out(
        cv, groups, alphas=[alphas[min(target, alphas.size - 1)]]
    )
    return found
