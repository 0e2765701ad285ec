"""Plots in scikit-learn's manner: data in the constructor, looks in ``plot``, artists kept.

| display | shows |
|---|---|
| `CVCurveDisplay` | held-out error over the penalties, of every kernel that was compared |
| `HeldOutDisplay` | held-out predictions or residuals |
| `GroupScoresDisplay` | which groups are hard |
| `PermutationDisplay` | scores of permuted targets, with the score of the model |
| `RadiusDisplay` | held-out error over the distance to the nearest data |
| `InfluenceDisplay` | which rows, or groups, move the model most |

``from_estimator`` asks a fitted estimator and plots; ``from_result`` takes an answer that you
already have, and ``plot`` draws it.

>>> from sklearn.datasets import load_diabetes
>>> from holdfast import KernelRidgeCV
>>> from holdfast.displays import CVCurveDisplay, InfluenceDisplay
>>> model = KernelRidgeCV("linear").fit(*load_diabetes(return_X_y=True))
>>> CVCurveDisplay.from_estimator(model).ax_.get_ylabel()
'RMSE'
>>> display = InfluenceDisplay.from_result(model.influence()).plot(n_labels=3, color="grey")
>>> [label.get_text() for label in display.labels_]
['382', '123', '304']

matplotlib (``pip install 'holdfast[plot]'``) is imported when something is plotted.
"""

from holdfast.displays.answers import (
    InfluenceDisplay,
    PermutationDisplay,
)
from holdfast.displays.base import Display
from holdfast.displays.cv_curve import CVCurveDisplay
from holdfast.displays.group_scores import GroupScoresDisplay
from holdfast.displays.held_out import HeldOutDisplay
from holdfast.displays.radius import RadiusDisplay

__all__ = [
    "CVCurveDisplay",
    "Display",
    "GroupScoresDisplay",
    "HeldOutDisplay",
    "InfluenceDisplay",
    "PermutationDisplay",
    "RadiusDisplay",
]
