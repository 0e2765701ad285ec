"""Ways to choose the basis rows of a sparse model, one file each.

| selector | looks at | idea |
|---|---|---|
| `Random` | nothing | uniform |
| `Fixed` | nothing | the user's own rows |
"""

from holdfast.basis.base import Selector
from holdfast.basis.random import Fixed, Random
from holdfast.basis.resolve import as_selector, resolve_basis

__all__ = ["Fixed", "Random", "Selector", "as_selector", "resolve_basis"]
