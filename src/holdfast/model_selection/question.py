"""What the user asked: an estimator that is described, its rows, and splits that were made once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn import get_config
from sklearn.base import is_classifier
from sklearn.model_selection import check_cv
from sklearn.utils import indexable

from holdfast._typing import IntArray
from holdfast.core.experiments import Experiments, Ragged
from holdfast.model_selection.description import Description, Refit, describe, refits_errors
from holdfast.model_selection.problem import Problem, problem_of

Split = tuple[IntArray, IntArray]


class Splits(Sequence[Split]):
    """The splits of m rows by a splitter, which is asked once: it may draw, or give them once.

    Training rows that are all but the held-out ones, in order, are made when they are asked for:
    those of leave-one-out would be m² numbers.
    """

    def __init__(self, m: int, splits: Any) -> None:
        self._m = m
        self._train: list[Any] = []
        self._test: list[Any] = []
        self._held: list[IntArray] = []
        #: Why these splits have no closed form; empty if they have.
        self.reason = ""
        every, stays = np.arange(m), np.empty(m, dtype=bool)
        for train, test in splits:
            own, tested = np.asarray(train), np.asarray(test)
            stays[:] = False
            stays[own] = True
            self.reason = self.reason or _no_hold_out(own, tested, stays)
            self._held.append(np.flatnonzero(~stays))
            self._test.append(test)
            self._train.append(None if np.array_equal(own, every[stays]) else train)

    def __len__(self) -> int:
        return len(self._test)

    def __getitem__(self, j: Any) -> Any:
        """Return (train, test) of one split."""
        if self._train[j] is None:
            return np.delete(np.arange(self._m), self._held[j]), self._test[j]
        return self._train[j], self._test[j]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Splits) or len(self) != len(other):
            return False
        sides = ((one._held, one._test) for one in (self, other))
        return all(map(np.array_equal, *(held + test for held, test in sides)))

    __hash__ = None  # type: ignore[assignment]

    def experiments(self, *, everything: bool = False) -> Experiments:
        """Return the splits as experiments; with `everything`, all rows are predicted in each."""
        if self.reason:
            raise Refit(self.reason)
        every = np.arange(self._m)
        test = [every if everything else np.asarray(test) for test in self._test]
        return Experiments(Ragged.from_arrays(self._held), Ragged.from_arrays(test))

    # -- as a splitter -----------------------------------------------------------------------------

    def split(self, X: Any = None, y: Any = None, groups: Any = None, **params: Any) -> Any:
        """Yield (train, test)."""
        return iter(self)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, **params: Any) -> int:
        """Return how many there are."""
        return len(self)


def _no_hold_out(train: IntArray, test: IntArray, stays: Any) -> str:
    """Return why a split is no experiment of the core; empty if it is one."""
    if train.dtype == bool or test.dtype == bool:
        return "a split is a mask of the rows; row numbers have a closed form"
    if not train.size or not test.size:
        return "a split trains on no row, or tests none"
    if np.count_nonzero(stays) != train.size:
        return "a split trains on a row more than once"
    return "a split tests rows that it trains on" if stays[test].any() else ""


@dataclass(frozen=True, eq=False)
class Question:
    """What the user asked: an estimator that is described, its rows, how they are split."""

    estimator: Any
    described: Description
    X: Any
    y: Any
    params: Mapping[str, Any]
    splits: Splits

    @classmethod
    @refits_errors
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Return the question, with the splits made; whatever is wrong with it is a `Refit`."""
        estimator, params = given["estimator"], given["params"] or {}
        described = described_of(given)
        X, y = indexable(given["X"], given["y"])
        cv = check_cv(given["cv"], y, classifier=is_classifier(estimator))
        splits = Splits(number_of_rows(X), cv.split(X, y, given["groups"]))
        return cls(estimator, described, X, y, params, splits)

    def problem(self, described: Description | None = None) -> Problem:
        """Return the smoother of the estimator, or of one that differs in its parameters."""
        found = problem_of(described or self.described, self.X, self.y, self.params)
        if found.classes is not None:
            labels = np.asarray(self.y)
            if any(np.unique(labels[train]).size < 2 for train, _ in self.splits):
                raise Refit("a split trains on a single class")
        return found


def described_of(given: Mapping[str, Any]) -> Description:
    """Return what is asked about, if it may have a closed form."""
    described = describe(given["estimator"])
    if get_config()["enable_metadata_routing"]:
        raise Refit("metadata routing is switched on")
    if given["y"] is None:
        raise Refit
    return described


def number_of_rows(X: Any) -> int:
    """Return how many rows X has."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)
