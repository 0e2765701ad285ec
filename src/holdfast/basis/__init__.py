"""Ways to choose the basis rows of a sparse model, one file each.

| selector | looks at | idea |
|---|---|---|
| `Random` | nothing | uniform |
| `Fixed` | nothing | the user's own rows |
| `PerGroup` | groups | the same number from every group |
| `BalancedOverFolds` | folds | the same number from every fold |
| `Greedy` | kernel, y | the best of a few candidates for the model's error, one at a time |
"""

from holdfast.basis.base import Selector
from holdfast.basis.greedy import Greedy
from holdfast.basis.grouped import BalancedOverFolds, PerGroup
from holdfast.basis.random import Fixed, Random
from holdfast.basis.resolve import as_selector, resolve_basis

__all__ = [
    "BalancedOverFolds",
    "Fixed",
    "Greedy",
    "PerGroup",
    "Random",
    "Selector",
    "as_selector",
    "resolve_basis",
]
