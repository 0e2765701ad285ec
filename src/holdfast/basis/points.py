"""Basis vectors that are no rows of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn import cluster

from holdfast._typing import FloatArray, IntArray
from holdfast.basis.base import Pool, Selector, whole_number
from holdfast.data.rows import as_rows, numeric_rows
from holdfast.exceptions import InvalidInputError

if TYPE_CHECKING:
    from holdfast.experiments import Experiments
    from holdfast.kernels.matrix import KernelData


class Points(Selector):
    """Basis vectors of the user's own, which need not be rows of the data.

    Parameters
    ----------
    Z : array-like of shape (n, d), sparse matrix, or n objects
        The points, of the same kind as the rows: centres of clusters, a grid, or rows of another
        data set.

    Notes
    -----
    The basis vectors of Cawley and Talbot (2004), §2.3, are any elements of the input space. The
    model is f(x) = b + Σ_j a_j k(x, z_j) with the penalty λ aᵀ(K_ZZ + εI)a. A point is no row, so
    no hold-out removes it, whatever ``held_out_basis`` says: all policies give the same numbers. It
    is as if the points stood below the rows with weight zero, and that is how they are numbered:
    ``basis_indices_`` holds m, m + 1, …, and ``basis_selector_.Z`` the points themselves.

    holdfast cannot know where the points come from: if it was from the rows, the remark on
    ``data_dependent`` selectors applies (Pahikkala et al. 2012, §6.3.2), and ``"reselect"``
    cannot help.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import KernelRidgeCV
    >>> from holdfast.basis import Points
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, size=(300, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=300)
    >>> grid = np.linspace(0, 10, 15)[:, None]
    >>> model = KernelRidgeCV(gamma=0.5, basis=Points(grid), cv=10).fit(X, y)
    >>> bool(model.best_score_ > -0.02), model.dual_coef_.shape
    (True, (15,))
    """

    data_dependent: ClassVar[bool] = False

    def __init__(self, Z: Any) -> None:
        self.Z = Z

    @classmethod
    def from_kmeans(
        cls, X: Any, n: int, *, sample_weight: Any = None, random_state: Any = None
    ) -> Points:
        """Return the centres of n clusters of the rows of X, by k-means.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)
        n : int
            How many centres.
        sample_weight : array-like of shape (m,), optional
        random_state : int, RandomState or None

        Notes
        -----
        The centres have seen every row of X, though no target: a held-out estimate for rows of
        X may be slightly optimistic. `KMeans` takes the row nearest to each centre instead, which
        leaves the basis when it is held out.

        Examples
        --------
        >>> import numpy as np
        >>> from holdfast.basis import Points
        >>> X = np.array([[0.0], [1.0], [10.0], [11.0]])
        >>> sorted(Points.from_kmeans(X, 2, random_state=0).Z[:, 0].tolist())
        [0.5, 10.5]
        """
        rows = numeric_rows(X)
        n = whole_number("n", n)
        if n > rows.shape[0]:
            raise InvalidInputError(
                f"n asks for {n} centres of {rows.shape[0]} rows; use at most {rows.shape[0]}."
            )
        model = cluster.KMeans(n_clusters=n, n_init=1, random_state=random_state)
        centres = model.fit(rows, sample_weight=sample_weight).cluster_centers_
        return cls(np.asarray(centres, dtype=np.float64))

    def points(self, X: Any) -> Any:
        """Return the points as rows, checked against the rows of the data."""
        if isinstance(self.Z, np.ndarray) and self.Z.dtype.kind in "biuf" and self.Z.ndim != 2:
            raise InvalidInputError(
                f"Points needs Z of shape (points, features); got shape {self.Z.shape}. For one "
                "feature use Z.reshape(-1, 1)."
            )
        Z = as_rows(self.Z)
        if not Z.shape[0]:
            raise InvalidInputError("Points needs at least one point; got an empty Z.")
        if Z.ndim != X.ndim or (Z.ndim == 2 and Z.shape[1] != X.shape[1]):
            raise InvalidInputError(
                f"Points needs Z of the same kind as the rows, with the same features; got Z of "
                f"shape {Z.shape} for X of shape {X.shape}."
            )
        values = Z.data if sp.issparse(Z) else Z
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise InvalidInputError("Points needs finite Z; got NaN or infinity. Drop such points.")
        return Z

    def select(
        self,
        data: KernelData,
        y: FloatArray | None = None,
        weights: FloatArray | None = None,
        groups: NDArray[Any] | None = None,
        experiments: Experiments | None = None,
        rng: np.random.Generator | int | None = None,
    ) -> IntArray:
        """Return the numbers of the points, which come after the rows: m, m + 1, …."""
        return len(data) + np.arange(as_rows(self.Z).shape[0], dtype=np.int64)

    def _choose(self, pool: Pool) -> IntArray:
        raise InvalidInputError("Points are no rows; start from a selector of rows, such as Fixed.")
