"""Ways to choose the basis rows of a sparse model.

| selector | looks at | idea |
|---|---|---|
| `Random` | nothing | uniform |
| `Fixed` | nothing | the user's own rows |
| `Points` | nothing | the user's own vectors, which need not be rows |
| `PerGroup` | groups | the same number from every group |
| `BalancedOverFolds` | folds | the same number from every fold |
| `Greedy` | kernel, y | one at a time, the candidate that lowers the model's error most |
| `FeatureVectors` | kernel | the span that reconstructs all rows best (exact, or sampled) |
| `RandomlyPivotedCholesky` | kernel | at random, in proportion to what is not yet explained |

`basis_curve` shows how the held-out error falls with the number of rows, for any of them.
Only the exact `FeatureVectors` ever holds an m × m matrix, and none of more than 1 GB.
"""

from typing import TYPE_CHECKING, Any

from holdfast.basis.base import Selector
from holdfast.basis.feature_vectors import FeatureVectors
from holdfast.basis.greedy import Greedy
from holdfast.basis.pivoted_cholesky import RandomlyPivotedCholesky
from holdfast.basis.random import BalancedOverFolds, PerGroup, Random
from holdfast.basis.resolve import Fixed, Points

if TYPE_CHECKING:
    from holdfast.estimators.basis_curve import BasisCurve, basis_curve

__all__ = [
    "BalancedOverFolds",
    "BasisCurve",
    "FeatureVectors",
    "Fixed",
    "Greedy",
    "PerGroup",
    "Points",
    "Random",
    "RandomlyPivotedCholesky",
    "Selector",
    "basis_curve",
]


def __getattr__(name: str) -> Any:
    # It fits estimators, which stand above this folder: imported when it is asked for.
    if name in ("BasisCurve", "basis_curve"):
        from holdfast.estimators import basis_curve as module

        return getattr(module, name)
    raise AttributeError(f"module 'holdfast.basis' has no attribute {name!r}")
