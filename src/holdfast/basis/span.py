"""The directions that all columns of a kernel matrix lie in, where these are few.

A smooth kernel on rows of few features has eigenvalues that fall so fast that K = F Fᵀ to rounding
with far fewer columns in F than rows: 3,000 rows of one feature may need 50. Whatever depends on
the columns of K only through their inner products can then be computed in that many coordinates.
"""

from __future__ import annotations

import numpy as np

from holdfast._typing import FloatArray
from holdfast.basis.residual import Residual
from holdfast.kernels.matrix import KernelData

_EPS = float(np.finfo(np.float64).eps)
_HALFWAY = _EPS**0.25  # eigenvalues of a smooth kernel fall faster and faster
_CHECKED = 16  # columns that are compared with the kernel at the end


def low_rank_factor(data: KernelData, most: int) -> FloatArray | None:
    """Return F (m, r), r ≤ ``most``, with K = F Fᵀ to rounding, or None if there is none.

    Notes
    -----
    Cholesky in O(m r²), whose pivot is the row with the largest share of its diagonal entry left,
    until only rounding errors are left; by Cauchy-Schwarz the other entries are no larger. That
    holds for kernels; a matrix that is not quite one shows in a few columns, which are compared.
    If ``most`` / 2 columns leave too much the rest is not tried, so a rank between ``most`` / 2 and
    ``most`` is found only if the eigenvalues fall fast.
    """
    left = Residual(data, capacity=most)
    scale = np.maximum(np.abs(left.diagonal), np.finfo(np.float64).tiny)
    while (share := left.gap / scale).max() > 4 * _EPS:
        if left.size == most // 2 and share.max() > _HALFWAY:
            return None
        row = np.array([np.argmax(share)])
        columns = left.block(slice(None), row)
        if columns[row[0], 0] <= 0:  # noise: nothing is left
            break
        if left.size == most:
            return None
        left.extend(row, columns)
    some = np.unique(np.linspace(0, len(data) - 1, _CHECKED).astype(np.int64))
    floor = np.sqrt(left.floor())
    if np.any(np.abs(left.block(slice(None), some)) > np.multiply.outer(floor, floor[some])):
        return None
    return left.F.copy()
