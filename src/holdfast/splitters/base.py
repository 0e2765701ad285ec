"""The base of the package's own splitters: scikit-learn's protocol, without its cost."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED

from holdfast._typing import IntArray
from holdfast.core.experiments import Experiments
from holdfast.data.values import whole_number
from holdfast.exceptions import InvalidInputError


class Splitter(BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn carries no types
    """A way of holding out that gives its experiments directly.

    Wherever scikit-learn takes ``cv``, `split` and `get_n_splits` do what it expects. There
    every experiment is a pair of arrays, and the training rows of m experiments together are m²
    numbers. `experiments` gives the same in compressed form, held-out rows only, and that is what
    the package's estimators use.

    A splitter of one's own writes ``_experiments(n_rows)`` and `get_n_splits`.
    """

    # scikit-learn's metadata routing: no splitter here looks at groups.
    __metadata_request__split: ClassVar[dict[str, Any]] = {"groups": UNUSED}

    @abstractmethod
    def _experiments(self, n_rows: int) -> Experiments:
        """Return the experiments on `n_rows` rows."""

    @abstractmethod
    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of experiments.

        Parameters
        ----------
        X, y : array-like, optional
            For splitters whose number of experiments is the number of rows.
        groups : ignored
        """

    def among(self, rows: IntArray) -> Splitter | None:
        """Return the splitter of some of the rows, or None.

        None: what is held out around a row does not depend on the other rows; experiments only lose
        rows that are not there.
        """
        return None

    def steps(self, n_rows: int) -> IntArray | None:
        """Return the place in time of each row, 0, 1, …, or None where rows have no order."""
        return None

    def experiments(self, n_rows: int) -> Experiments:
        """Return the experiments on `n_rows` rows, in compressed form.

        Parameters
        ----------
        n_rows : int
            Number of rows of the data, at least two.
        """
        found = self._experiments(whole_number("n_rows", n_rows, 2))
        found.check_rows(n_rows)
        return found

    def split(
        self, X: Any = None, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the training rows and the test rows of each experiment.

        Rows that are held out and not tested are in neither.

        Parameters
        ----------
        X : array-like of shape (m, ...)
            The rows; only their number matters.
        y : array-like of shape (m,), optional
            Counted if X is None.
        groups : ignored
        """
        n_rows = count_rows(X, y)
        experiments = self.experiments(n_rows)
        train = np.ones(n_rows, dtype=bool)
        for j in range(len(experiments)):
            held = experiments.held_out[j]
            train[held] = False
            yield np.flatnonzero(train), experiments.test[j].copy()
            train[held] = True

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Return the parameters that are not the default, arrays by their shapes."""
        shown = [
            f"{name}={_short(getattr(self, name))}"
            for name, parameter in inspect.signature(type(self)).parameters.items()
            if _short(getattr(self, name)) != _short(parameter.default)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def count_rows(X: Any, y: Any = None) -> int:
    """Return how many rows there are, by X, or by y if X is None."""
    rows = y if X is None else X
    shape = getattr(rows, "shape", None)
    try:
        return int(shape[0]) if shape else len(rows)
    except TypeError:
        raise InvalidInputError(
            "X must be given, one entry per row: this splitter counts its rows; got "
            f"{type(rows).__name__}. Pass X to split and get_n_splits.",
            argument="X",
        ) from None


def plain(values: Any) -> Any:
    """Return a frame or another array-like object as an array, which files can hold."""
    if hasattr(values, "__array__") and not isinstance(values, np.ndarray | np.generic):
        return np.asarray(values)
    return values


def _short(value: Any) -> str:
    shape = getattr(value, "shape", ())
    if shape:
        return f"<{' × '.join(map(str, shape))} {type(value).__name__}>"
    if isinstance(value, list | tuple) and len(value) > 8:
        return f"<{type(value).__name__} of {len(value)}>"
    return repr(value)
