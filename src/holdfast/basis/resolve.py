"""From what a user passes as ``basis=`` to basis rows: numbers, rows, points, selectors."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from holdfast._typing import FloatArray, IntArray
from holdfast.basis.base import Pool, Selector, how_many
from holdfast.basis.random import Random
from holdfast.data.indices import row_numbers
from holdfast.data.rows import as_rows
from holdfast.exceptions import InvalidInputError

if TYPE_CHECKING:
    from holdfast.core.experiments import Experiments
    from holdfast.kernels.matrix import KernelData

Basis = Selector | ArrayLike | None


class Fixed(Selector):
    """The user's own basis rows.

    Parameters
    ----------
    rows : sequence of int or of bool
        Positions of the basis rows, counted from 0, or a boolean mask with one value per row. The
        order is kept; duplicates are refused.

    Notes
    -----
    holdfast cannot know how the rows were chosen: if it was by looking at the data, the remark on
    ``data_dependent`` selectors applies (Pahikkala et al. 2012, §6.3.2). Rows of weight zero are
    allowed.
    """

    data_dependent: ClassVar[bool] = False

    def __init__(self, rows: ArrayLike) -> None:
        self.rows = rows

    def _given(self, data: KernelData) -> IntArray:
        return check_rows(self.rows, len(data))

    def _choose(self, pool: Pool) -> IntArray:
        raise NotImplementedError("the rows are given")


class Points(Selector):
    """Basis vectors of the user's own, which need not be rows of the data.

    Parameters
    ----------
    Z : array-like of shape (n, d), sparse matrix, or n objects
        The points, of the same kind as the rows: ``KMeans(n).fit(X).cluster_centers_``, a grid, or
        rows of another data set.

    Notes
    -----
    The basis vectors of Cawley and Talbot (2004), §2.3, are any elements of the input space. The
    model is f(x) = b + Σ_j a_j k(x, z_j) with the penalty λ aᵀ(K_ZZ + εI)a. A point is not a row,
    so no hold-out removes it, whatever ``held_out_basis`` says: all policies give the same numbers.
    It is as if the points stood below the rows with weight zero, and that is how they are numbered:
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

    def points(self, X: Any) -> Any:
        """Return the points as rows, checked against the rows of the data."""
        if isinstance(self.Z, np.ndarray) and self.Z.dtype.kind in "biuf" and self.Z.ndim != 2:
            raise InvalidInputError(
                f"Points needs Z of shape (points, features); got shape {self.Z.shape}. For one "
                "feature use Z.reshape(-1, 1).",
                argument="Z",
            )
        Z = as_rows(self.Z)
        if not Z.shape[0]:
            raise InvalidInputError(
                "Points needs at least one point; got an empty Z.", argument="Z"
            )
        if Z.ndim != X.ndim or (Z.ndim == 2 and Z.shape[1] != X.shape[1]):
            raise InvalidInputError(
                f"Points needs Z of the same kind as the rows, with the same features; got Z of "
                f"shape {Z.shape} for X of shape {X.shape}.",
                argument="Z",
            )
        values = Z.data if sp.issparse(Z) else Z
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise InvalidInputError(
                "Points needs finite Z; got NaN or infinity. Drop such points.", argument="Z"
            )
        return Z

    def _given(self, data: KernelData) -> IntArray:
        # The points come after the rows.
        return len(data) + np.arange(as_rows(self.Z).shape[0], dtype=np.int64)

    def _choose(self, pool: Pool) -> IntArray:
        raise NotImplementedError("the points are given")


def as_selector(basis: Basis, m: int | None = None) -> Selector | None:
    """Return the selector that ``basis`` describes, or None for the dense model.

    Parameters
    ----------
    basis : None, int, float, sequence of int or bool, or Selector
        None: dense. An int or a float: that many random rows, or that fraction. A sequence:
        these rows (positions, or a mask). A selector: itself.
    m : int, optional
        Number of rows; if given, numbers and positions are checked against it at once.
    """
    if basis is None or isinstance(basis, Selector):
        return basis
    if isinstance(basis, type) and issubclass(basis, Selector):
        raise InvalidInputError(
            f"basis is the class {basis.__name__}; pass an instance, such as "
            f"{basis.__name__}(100).",
            argument="basis",
        )
    if isinstance(basis, str | bytes | dict):
        raise InvalidInputError(
            f'basis={basis!r} is not understood. Pass None (dense), "auto", a number or a fraction '
            "of rows, row positions, a boolean mask, or a selector from holdfast.basis.",
            argument="basis",
        )
    if isinstance(basis, Real | np.generic) or (isinstance(basis, np.ndarray) and basis.ndim == 0):
        n = basis.item() if isinstance(basis, np.generic | np.ndarray) else basis
        how_many(n, m if m is not None else np.iinfo(np.int64).max, "basis")
        return Random(n)
    if m is not None:
        check_rows(basis, m)
    return Fixed(basis)


def resolve_basis(
    basis: Basis,
    data: KernelData,
    y: FloatArray | None = None,
    weights: FloatArray | None = None,
    groups: NDArray[Any] | None = None,
    experiments: Experiments | None = None,
    rng: np.random.Generator | int | None = None,
) -> IntArray | None:
    """Return the basis rows (n,) in the order of choice, or None for the dense model.

    `Points` are numbered after the rows.

    The arguments after ``basis`` are those of `Selector.select`. What a selector returns, also
    one written by a user, is checked: whole numbers, in range, distinct, at least one.
    """
    selector = as_selector(basis, len(data))
    if selector is None:
        return None
    chosen = selector.select(data, y, weights, groups, experiments, rng)
    return chosen if isinstance(selector, Points) else check_rows(chosen, len(data))


def check_rows(rows: ArrayLike, m: int) -> IntArray:
    """Return row numbers 0 … m-1 or a mask as row numbers, at least one, each named once."""
    found = row_numbers("basis", rows, m, mask=True, error=InvalidInputError)
    if not found.size:
        raise InvalidInputError(
            "basis names no rows; give at least one, or basis=None for the dense model.",
            argument="basis",
        )
    return found
