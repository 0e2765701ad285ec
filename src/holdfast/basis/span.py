"""The few directions that all columns of a kernel matrix lie in, where they are few.

A smooth kernel on rows of few features has eigenvalues that fall so fast that K = F Fᵀ to rounding
with far fewer columns in F than rows: 3,000 rows of one feature may need 50. What depends on the
columns of K through their inner products alone can then be computed in that many coordinates.
"""

from __future__ import annotations

import numpy as np

from holdfast.basis.base import Floats
from holdfast.basis.residual import Residual
from holdfast.gram import KernelData

_EPS = float(np.finfo(np.float64).eps)
_HALFWAY = _EPS**0.25  # eigenvalues of a smooth kernel fall faster and faster
_CHECKED = 16  # columns that are compared with the kernel at the end


def low_rank_factor(data: KernelData, most: int) -> Floats | None:
    """Return F (m, r), r ≤ ``most``, with K = F Fᵀ to rounding, or None if there is none.

    Notes
    -----
    Cholesky with the largest of the diagonal as pivot, in O(m r²), until what is left of every
    diagonal entry is its rounding error; by Cauchy-Schwarz the other entries are no larger. That
    holds for kernels; a matrix that only resembles one is caught by comparing some columns.
    Where half of the columns leave too much, the other half is not tried.
    """
    left = Residual(data, capacity=most)
    while np.any(left.gap > 4 * _EPS * left.diagonal):
        if left.size == most // 2 and np.any(left.gap > _HALFWAY * left.diagonal):
            return None
        row = np.array([np.argmax(left.gap)])
        columns = left.block(slice(None), row)
        if columns[row[0], 0] <= 0:  # noise: nothing is left
            break
        if left.size == most:
            return None
        left.extend(row, columns)
    some = np.unique(np.linspace(0, len(data) - 1, _CHECKED).astype(np.int64))
    wrong = np.abs(left.block(slice(None), some)).max()
    if wrong > left.floor().max():
        return None
    return left.F.copy()
