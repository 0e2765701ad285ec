"""One factor for every penalty, then |H| × |H| systems (Pahikkala et al. 2012).

The choice when held-out sets are small and penalties are many: one eigendecomposition serves all.
"""

from __future__ import annotations

from holdfast._typing import FloatArray
from holdfast.experiments import Tasks
from holdfast.holdout.digits import without_doubt
from holdfast.holdout.identity import held_out_predictions
from holdfast.smoother import Smoother


def predict(smoother: Smoother, tasks: Tasks, alphas: FloatArray, columns: slice) -> FloatArray:
    """Return held-out predictions of all tasks, shape (alphas, test rows, targets)."""
    factor = smoother.factor(least=float(alphas.min())).select(columns)
    values = smoother.run(held_out_predictions, factor, tasks, alphas)
    return without_doubt(values, smoother, tasks, alphas, columns, factor)
