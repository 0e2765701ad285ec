"""One factor for each penalty, then |H| × |H| systems.

Cawley and Talbot 2004; for dense models An et al. 2007. The choice for one or two penalties: a
Cholesky factorisation costs a fraction of an eigendecomposition, but serves one penalty only.
"""

from __future__ import annotations

import numpy as np

from holdfast._typing import FloatArray
from holdfast.experiments import Tasks
from holdfast.holdout.digits import without_doubt
from holdfast.holdout.identity import held_out_predictions
from holdfast.smoother import Smoother


def predict(smoother: Smoother, tasks: Tasks, alphas: FloatArray, columns: slice) -> FloatArray:
    """Return held-out predictions of all tasks, shape (alphas, test rows, targets)."""
    parts = []
    for alpha in alphas:
        factor = smoother.factor(float(alpha)).select(columns)
        alone = np.array([alpha])
        values = smoother.run(held_out_predictions, factor, tasks, alone)
        parts.append(without_doubt(values, smoother, tasks, alone, columns, factor))
    return np.concatenate(parts)
