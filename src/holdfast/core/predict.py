"""Four ways to the same held-out predictions, and the one door to them.

| path | what is factorised | the choice when |
|---|---|---|
| `spectral` | all rows, once for every α | held-out sets are small, penalties many |
| `cholesky` | all rows, once for each α | one or two penalties |
| `per_fold` | the training rows of each experiment, once for every α | held-out sets are large |
| `refit` | the same from scratch: the naive twin | others lose accuracy, or as a check |

`predict_with_error` is the one door: whatever the path, what it returns keeps the promise of
`holdfast.core.accuracy` or carries its estimated error.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from holdfast._typing import FloatArray
from holdfast.core.accuracy import to_refit
from holdfast.core.experiments import Tasks
from holdfast.core.smoother import Smoother
from holdfast.progress import Counter


class Prediction(NamedTuple):
    """Held-out predictions, and how accurate they are.

    Attributes
    ----------
    values : ndarray of shape (alphas, test rows, targets)
    error : ndarray of shape (alphas, tasks)
        Estimated rounding errors, in standard deviations of the targets; at most `PROMISE`, unless
        refitting would have cost too much.
    """

    values: FloatArray
    error: FloatArray


Path = Callable[[Smoother, Tasks, FloatArray, slice], tuple[FloatArray, FloatArray]]


def _spectral(
    smoother: Smoother, tasks: Tasks, alphas: FloatArray, columns: slice
) -> tuple[FloatArray, FloatArray]:
    """Use one factor for every penalty, then |H| × |H| systems (Pahikkala et al. 2012)."""
    factor = smoother.factor(float(alphas.min())).select(columns)
    return smoother.held_out(factor, tasks, alphas)


def _cholesky(
    smoother: Smoother, tasks: Tasks, alphas: FloatArray, columns: slice
) -> tuple[FloatArray, FloatArray]:
    """Use one factor for each penalty: Cawley and Talbot 2004; for dense models An et al. 2007."""
    parts = []
    for alpha in alphas.tolist():
        factor = smoother.factor_at(alpha).select(columns)
        parts.append(smoother.held_out(factor, tasks, np.array([alpha])))
    values, error = zip(*parts, strict=True)
    return np.concatenate(values), np.concatenate(error)


def _per_fold(
    smoother: Smoother, tasks: Tasks, alphas: FloatArray, columns: slice
) -> tuple[FloatArray, FloatArray]:
    """Solve the normal equations of each experiment's own training rows, smallest penalty first."""
    order = np.argsort(alphas, kind="stable")
    values, error = smoother.per_fold(tasks, alphas[order], columns)
    if (np.diff(order) == 1).all():
        return values, error
    back = np.argsort(order, kind="stable")
    return values[back], error[back]


def _refit(
    smoother: Smoother, tasks: Tasks, alphas: FloatArray, columns: slice
) -> tuple[FloatArray, FloatArray]:
    """Refit each experiment from scratch: no identity, no shared factor."""
    done, parts = Counter(len(tasks), "experiments refitted"), []
    for j in range(len(tasks)):
        rows = tasks.held[j], tasks.removed[j], tasks.test[j]
        parts.append(smoother.refit(*rows, alphas, columns))
        done.add(1)
    return np.concatenate(parts, axis=1), np.zeros((alphas.size, len(tasks)))


#: Every way to held-out predictions, by name. Registering one is testing it: the exact matrix, the
#: oracle and the property tests run over this table.
PATHS: MappingProxyType[str, Path] = MappingProxyType(
    {"spectral": _spectral, "cholesky": _cholesky, "per_fold": _per_fold, "refit": _refit}
)


def predict(
    smoother: Smoother,
    tasks: Tasks,
    alphas: FloatArray,
    path: str,
    columns: slice = slice(None),
) -> FloatArray:
    """Return held-out predictions (alphas, test rows, targets)."""
    return predict_with_error(smoother, tasks, alphas, path, columns).values


def predict_with_error(
    smoother: Smoother,
    tasks: Tasks,
    alphas: FloatArray,
    path: str,
    columns: slice = slice(None),
    *,
    refits: bool = True,
) -> Prediction:
    """Return held-out predictions with their estimated errors: the one door to them.

    Parameters
    ----------
    smoother : Smoother
        Of all rows.
    tasks : Tasks
        What is held out, removed and tested.
    alphas : ndarray of shape (a,)
    path : str
        A name in `PATHS`.
    columns : slice
        Which targets.
    refits : bool
        Whether experiments may be refitted.

    Notes
    -----
    Experiments whose error exceeds the promise are refitted, at the penalties where it does, by the
    rule of `holdfast.core.accuracy`.
    """
    smoother.data.unpenalised.require_determined(tasks.held)
    if smoother.learned and path in ("spectral", "cholesky"):
        path = "per_fold"  # the identity is for features that stay what they are
    with smoother.own_threads():
        values, error = PATHS[path](smoother, tasks, alphas, columns)
        again = to_refit(smoother, error, tasks.held.sizes) & refits
        for j in np.flatnonzero(again.any(axis=0)).tolist():
            which, rows = again[:, j], slice(tasks.test.ptr[j], tasks.test.ptr[j + 1])
            sets = tasks.held[j], tasks.removed[j], tasks.test[j]
            values[which, rows] = smoother.refit(*sets, alphas[which], columns)
            error[which, j] = 0.0
    return Prediction(values, error)
