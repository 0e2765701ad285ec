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

Only the exact `FeatureVectors` ever holds an m × m matrix, and none of more than 1 GB.
"""

from holdfast.basis.base import Selector
from holdfast.basis.feature_vectors import FeatureVectors
from holdfast.basis.greedy import Greedy
from holdfast.basis.pivoted_cholesky import RandomlyPivotedCholesky
from holdfast.basis.random import BalancedOverFolds, PerGroup, Random
from holdfast.basis.resolve import Fixed, Points

__all__ = [
    "BalancedOverFolds",
    "FeatureVectors",
    "Fixed",
    "Greedy",
    "PerGroup",
    "Points",
    "Random",
    "RandomlyPivotedCholesky",
    "Selector",
]
