"""Held-out scores by policy, and how an estimate varies with its basis rows and folds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from holdfast.displays.base import Display, check_fitted_estimator
from holdfast.displays.score_scale import score_scale

if TYPE_CHECKING:
    from holdfast.answers.policies import Policies, Variation

__all__ = ["PoliciesDisplay", "VariationDisplay"]


@dataclass(eq=False, repr=False)
class PoliciesDisplay(Display):
    """The held-out error under every policy as a bar, with what it speaks of.

    Parameters
    ----------
    result : Policies
        From ``estimator.policies``.

    Attributes
    ----------
    bars_ : matplotlib BarContainer
    """

    result: Policies

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **kwargs: Any) -> Self:
        """Return the display of a fitted estimator, plotted.

        Parameters
        ----------
        estimator : fitted KernelRidgeCV or KernelRidgeClassifierCV
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        **kwargs
            For `policies`.
        """
        check_fitted_estimator(estimator)
        return cls(estimator.policies(**kwargs)).plot(ax)

    def _draw(self, ax: Any, **kwargs: Any) -> None:
        found = self.result
        scale = score_scale(found.scoring, found.classifier)
        shown = scale.shown(np.array([one.score for one in found.scores]))
        labels = [f"{one.name}\n({one.speaks_of})" for one in found.scores]
        places = np.arange(len(labels))
        self.bars_ = ax.barh(places, shown, **{"color": "C0", **kwargs})
        ax.set_yticks(places, labels)
        ax.invert_yaxis()
        ax.bar_label(self.bars_, fmt="%.3g", padding=3)
        ax.margins(x=0.12)
        ax.set(xlabel=f"held-out {scale.label}")


@dataclass(eq=False, repr=False)
class VariationDisplay(Display):
    """The estimate for each draw of the basis rows, one point for each partition.

    Parameters
    ----------
    result : Variation
        From ``estimator.variation``.

    Attributes
    ----------
    points_ : matplotlib Line2D
        All estimates.
    line_ : matplotlib Line2D
        Their mean.
    """

    result: Variation

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **kwargs: Any) -> Self:
        """Return the display of a fitted estimator, plotted.

        Parameters
        ----------
        estimator : fitted KernelRidgeCV or KernelRidgeClassifierCV
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        **kwargs
            For `variation`.
        """
        check_fitted_estimator(estimator)
        return cls(estimator.variation(**kwargs)).plot(ax)

    def _draw(self, ax: Any, **kwargs: Any) -> None:
        found = self.result
        scale = score_scale(found.scoring, found.classifier)
        shown = scale.shown(found.scores)
        draws, parts = shown.shape
        x = np.repeat(np.arange(1, draws + 1), parts)
        look = {"marker": "o", "linestyle": "none", "markerfacecolor": "none", **kwargs}
        label = f"{parts} partitions into {found.n_splits} folds"
        (self.points_,) = ax.plot(x, shown.ravel(), label=label, **look)
        mean = float(scale.shown(np.array(found.mean)))
        self.line_ = ax.axhline(mean, color="black", linestyle="--", label="mean")
        ax.set_xticks(np.arange(1, draws + 1))
        ax.set(xlabel="draw of the basis rows", ylabel=f"held-out {scale.label}")
        ax.legend()
