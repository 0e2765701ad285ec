"""Hold out the rows that are most similar to a row by a kernel, and test that row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from holdfast._typing import FloatArray
from holdfast.data.numbers import is_number
from holdfast.exceptions import InvalidInputError
from holdfast.experiments.ragged import Ragged
from holdfast.experiments.splitter import count_rows, plain
from holdfast.splitters.around import AroundRows, blocks, gathered

#: Correlations that agree to this share are equal: rounding must not part rows that are alike.
SLACK = 1e-10


class LeaveCorrelatedOut(AroundRows):
    """Hold out with each row the share of all rows most similar to it by a kernel; test that row.

    The model itself says which rows are near: those whose values of f are most correlated under the
    kernel, k(x, z) / √(k(x, x) k(z, z)), in absolute value. Where there is no distance to draw a
    radius around (relatives, molecules, several kernels together), this is still leave-one-out with
    a buffer, like the automatic groups of R-INLA (Liu & Rue 2022).

    Parameters
    ----------
    kernel : array-like of shape (m, m), kernel object or callable
        The kernel matrix of all rows; or a kernel of `holdfast.kernels`, or a function
        ``kernel(X, Z)``, with the rows as `X`.
    share : float
        How many of the rows are held out, as a share of all; at least the row itself. Rows that are
        as similar as the last of them are held out too; rows without any correlation never are.
    X : array-like or sparse matrix of shape (m, d), optional
        The rows, if `kernel` is not a matrix.

    Notes
    -----
    Kernel values are computed a block of rows at a time; memory is that of the held-out rows, share
    · m². A larger share asks how far from the data the model works: the score against the share is
    the curve that `holdfast.displays.RadiusDisplay` draws for distances.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.kernels import RBF
    >>> from holdfast.splitters import LeaveCorrelatedOut
    >>> X = np.array([[0.0], [1.0], [1.5], [4.0]])
    >>> for experiment in LeaveCorrelatedOut(RBF(gamma=0.5), share=0.5, X=X).experiments(4):
    ...     print(experiment)
    HoldOut(held_out=[0, 1], test=[0])
    HoldOut(held_out=[1, 2], test=[1])
    HoldOut(held_out=[1, 2], test=[2])
    HoldOut(held_out=[2, 3], test=[3])
    """

    def __init__(self, kernel: Any, share: float, X: Any = None) -> None:
        self.kernel = kernel if callable(kernel) or sp.issparse(kernel) else plain(kernel)
        self.share = share
        self.X = X if sp.issparse(X) else plain(X)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of rows, which is that of the kernel's; arguments are ignored."""
        return count_rows(self.X if callable(self.kernel) else self.kernel)

    def _held_out(self, n_rows: int) -> Ragged:
        return gathered(self._near(n_rows), n_rows, f"share={self.share}")

    def _near(self, n_rows: int) -> Iterator[sp.csr_array]:
        share: Any = self.share
        if not is_number(share) or not 0 < share < 1:
            raise InvalidInputError(
                f"share must be a number between 0 and 1, both excluded; got {share!r}. "
                "share=0.05 holds out, with each row, the 5 % of the rows most like it.",
                argument="share",
            )
        count = int(np.ceil(share * n_rows * (1.0 - SLACK)))
        values, scale = self._values(n_rows)
        for rows, itself in blocks(n_rows):
            alike = np.abs(values(rows)) / (scale[rows, None] * scale)
            alike[np.arange(len(alike)), np.arange(rows.start, rows.stop)] = 1.0
            last = np.partition(alike, n_rows - count, axis=1)[:, n_rows - count, None]
            yield itself + sp.csr_array((alike >= last * (1.0 - SLACK)) & (alike > 0))

    def _values(self, n_rows: int) -> tuple[Any, FloatArray]:
        """Return the function from a slice of rows to kernel values with all, and √k(x, x)."""
        if not callable(self.kernel):
            K = self._matrix(n_rows)
            return K.__getitem__, _deviations(np.diag(K))
        if self.X is None:
            raise InvalidInputError(
                "X must hold the rows, one for each row of the data, where kernel is a function; "
                "got None. Pass X, or the kernel matrix as kernel.",
                argument="X",
            )
        X, kernel = self.X if hasattr(self.X, "shape") else np.asarray(self.X), self.kernel
        if X.shape[0] != n_rows:
            raise InvalidInputError(
                f"X must hold the {n_rows} rows of the data; got {X.shape[0]}. Make the splitter "
                "with exactly the rows that are split.",
                argument="X",
            )

        def values(rows: slice) -> FloatArray:
            found = np.asarray(kernel(X[rows], X), dtype=np.float64)
            if found.shape != (rows.stop - rows.start, n_rows) or not np.isfinite(found).all():
                raise InvalidInputError(
                    "kernel must return finite values of all pairs of its rows, shape "
                    f"{(rows.stop - rows.start, n_rows)}; got shape {found.shape}.",
                    argument="kernel",
                )
            return found

        own = [np.diag(np.asarray(kernel(X[rows], X[rows]))) for rows, _ in blocks(n_rows)]
        return values, _deviations(np.concatenate(own))

    def _matrix(self, n_rows: int) -> FloatArray:
        """Return the kernel matrix, checked."""
        try:
            K = np.asarray(self.kernel, dtype=np.float64)
        except (TypeError, ValueError):
            K = np.empty(0)
        if K.shape != (n_rows, n_rows) or not np.isfinite(K).all():
            raise InvalidInputError(
                f"kernel must be a function or a matrix of {n_rows} × {n_rows} finite numbers, one "
                f"row and column for each row of the data; got {type(self.kernel).__name__} of "
                f"shape {np.shape(K)}.",
                argument="kernel",
            )
        return K


def _deviations(variances: FloatArray) -> FloatArray:
    """Return √k(x, x); a row without variance is correlated with no other."""
    if (variances < 0).any():
        raise InvalidInputError(
            f"kernel must not be negative for a row with itself; got {variances.min():g} in row "
            f"{int(np.argmin(variances))}. Pass a positive semidefinite kernel.",
            argument="kernel",
        )
    return np.asarray(np.sqrt(np.where(variances > 0, variances, np.inf)))
