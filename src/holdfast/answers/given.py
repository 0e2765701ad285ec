"""Predictions of any other origin that are given to a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.answers.nested import NestedPredictions
from holdfast.answers.question import Judge
from holdfast.exceptions import InvalidInputError
from holdfast.experiments import Experiments, Ragged

__all__ = ["aligned", "of_predictions"]


def of_predictions(
    i: int, given: Any, judge: Judge, experiments: Experiments
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return (experiment, row, prediction) from predictions of any origin."""
    test = experiments.test
    if isinstance(given, NestedPredictions):
        if not np.array_equal(given.experiments.test.values, test.values):
            raise InvalidInputError(
                f"the nested predictions (entry {i}) have other test rows than the experiments. "
                "Pass cv=, the outer experiments of `nested`, to compare.",
                argument="cv",
            )
        return test.owners, test.values, given.values
    m, v = judge.weights.size, 1 if judge.labels.ndim == 1 else judge.labels.shape[1]
    if isinstance(given, list | tuple) and len(given) == len(experiments) and np.ndim(given[0]) > 0:
        parts = [np.asarray(part) for part in given]
        if [len(part) for part in parts] != test.sizes.tolist():
            raise InvalidInputError(
                f"predictions (entry {i}) must hold one array per experiment, with one prediction "
                "for each of its test rows in their order.",
                argument="predictions",
            )
        return test.owners, test.values, as_values(i, np.concatenate(parts), judge)
    array = np.asarray(given)
    if array.ndim not in (1, 2) or len(array) != m:
        raise InvalidInputError(
            f"entry {i} must be a fitted model, an array with one prediction for each of the {m} "
            f"rows ({v} target{'s' if v > 1 else ''}), or a list with one array per experiment; "
            f"got {type(given).__name__} of shape {array.shape}.",
            argument="models",
        )
    if int(np.bincount(test.values).max()) > 1:
        raise InvalidInputError(
            f"rows are tested several times, so predictions (entry {i}) must be a list with one "
            "array per experiment.",
            argument="models",
        )
    return test.owners, test.values, as_values(i, array[test.values], judge)


def as_values(i: int, array: AnyArray, judge: Judge) -> FloatArray:
    """Return predictions (k, v); labels of a classifier become decision values."""
    classes = judge.classes
    if classes is None:
        width = judge.labels.shape[1]
    else:
        width = 1 if len(classes) == 2 else len(classes)
        if array.ndim == 1 and np.isin(array, classes).all():
            index = np.searchsorted(classes, array)
            if width == 1:
                return np.where(index == 1, 1.0, -1.0)[:, None]
            return 2.0 * np.eye(width)[index] - 1.0
    values = array[:, None] if array.ndim == 1 else array
    if values.shape[1] != width or values.dtype.kind not in "fiub":
        raise InvalidInputError(
            f"predictions (entry {i}) must be numbers in {width} column{'s' if width > 1 else ''}"
            f"{'' if classes is None else ', or class labels'}; got shape {array.shape} of "
            f"{array.dtype}.",
            argument="predictions",
        )
    return values.astype(float)


def aligned(
    found: Sequence[tuple[IntArray, IntArray, FloatArray]], experiments: Experiments, m: int
) -> tuple[Experiments, list[FloatArray]]:
    """Return what all are tested on, with the predictions of each in one order."""
    keys = [owner * m + row for owner, row, _ in found]
    common = keys[0]
    for key in keys[1:]:
        common = common[np.isin(common, key)]
    predictions = []
    for key, (_, _, values) in zip(keys, found, strict=True):
        order = np.argsort(key, kind="stable")
        predictions.append(values[order[np.searchsorted(key[order], common)]])
    owner = common // m
    used, count = np.unique(owner, return_counts=True)
    ptr = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    return Experiments(experiments.held_out.items(used), Ragged(common % m, ptr)), predictions
