"""Training from scratch on what each experiment leaves: no identity, no shared factor.

The naive twin of all other paths, for `verify`, and for experiments where the others would lose
digits (`holdfast.holdout.digits`).
"""

from __future__ import annotations

import numpy as np

from holdfast._typing import FloatArray
from holdfast.experiments import Tasks
from holdfast.progress import Counter
from holdfast.smoother import Smoother


def predict(smoother: Smoother, tasks: Tasks, alphas: FloatArray, columns: slice) -> FloatArray:
    """Return held-out predictions of all tasks, shape (alphas, test rows, targets)."""
    done = Counter(len(tasks), "experiments trained anew")
    parts = []
    for j in range(len(tasks)):
        rows = tasks.held[j], tasks.removed[j], tasks.test[j]
        parts.append(smoother.retrain(*rows, alphas, columns))
        done.add(1)
    return np.concatenate(parts, axis=1)
