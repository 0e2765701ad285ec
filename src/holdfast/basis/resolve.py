"""From what a user passes as ``basis=`` to basis rows."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast._typing import FloatArray, IntArray
from holdfast.basis.base import Selector, how_many
from holdfast.basis.points import Points
from holdfast.basis.random import Fixed, Random, check_rows
from holdfast.exceptions import InvalidInputError

if TYPE_CHECKING:
    from holdfast.experiments import Experiments
    from holdfast.kernels.matrix import KernelData

Basis = Selector | ArrayLike | None


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
            f"basis is the class {basis.__name__}; pass an instance, such as {basis.__name__}(100)."
        )
    if isinstance(basis, str | bytes | dict):
        raise InvalidInputError(
            f'basis={basis!r} is not understood. Pass None (dense), "auto", a number or a fraction '
            "of rows, row positions, a boolean mask, or a selector from holdfast.basis."
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
