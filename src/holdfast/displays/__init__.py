"""Plots in scikit-learn's manner: data in the constructor, looks in ``plot``, artists kept.

| display | shows |
|---|---|
| `CVCurveDisplay` | held-out error over the penalties, with standard errors |
| `HeldOutDisplay` | held-out predictions or residuals |
| `GroupScoresDisplay` | which groups are hard |
| `BasisCurveDisplay` | held-out basis rows kept and removed, side by side |
| `BasisSizeDisplay` | held-out error over the number of basis rows, by selector and policy |
| `LeverageDisplay` | leverage against held-out error |
| `PermutationDisplay` | scores of permuted targets, with the score of the model |
| `ContourDisplay` | held-out error over penalty and kernel width |
| `RadiusDisplay` | held-out error over the distance to the nearest data |
| `InfluenceDisplay` | which rows, or groups, move the model most |
| `LearningCurveDisplay` | held-out error over the number of training rows, extended |
| `PITDisplay` | whether the predictive law is right: held-out targets as probabilities |

matplotlib (``pip install 'holdfast[plot]'``) is imported when something is plotted.
"""

from holdfast.displays.basis_curve import BasisCurveDisplay
from holdfast.displays.basis_size import BasisSizeDisplay
from holdfast.displays.contour import ContourDisplay
from holdfast.displays.cv_curve import CVCurveDisplay
from holdfast.displays.group_scores import GroupScoresDisplay
from holdfast.displays.held_out import HeldOutDisplay
from holdfast.displays.influence import InfluenceDisplay
from holdfast.displays.learning_curve import LearningCurveDisplay
from holdfast.displays.leverage import LeverageDisplay
from holdfast.displays.permutation import PermutationDisplay
from holdfast.displays.pit import PITDisplay
from holdfast.displays.radius import RadiusDisplay

__all__ = [
    "BasisCurveDisplay",
    "BasisSizeDisplay",
    "CVCurveDisplay",
    "ContourDisplay",
    "GroupScoresDisplay",
    "HeldOutDisplay",
    "InfluenceDisplay",
    "LearningCurveDisplay",
    "LeverageDisplay",
    "PITDisplay",
    "PermutationDisplay",
    "RadiusDisplay",
]
