"""Answers problems by RLScore's hold-out, one line of standard input after another.

For an old interpreter (3.6), so nothing of this project is imported and the syntax is plain. A line
names a file of arrays and the file for the answer.
"""

import sys
import warnings

import numpy as np

warnings.simplefilter("ignore")  # its own deprecations


def answer(job: str, out: str) -> None:
    """Write held-out predictions (alphas, test rows) of all sets, one after another."""
    from rlscore.learner import RLS

    arrays = dict(np.load(job))
    options = {"kernel": "PrecomputedKernel"}
    if bool(arrays["linear"]):
        options = {"kernel": "LinearKernel", "bias": 0.0}
    sets = np.split(arrays["rows"], np.cumsum(arrays["sizes"])[:-1])
    model = RLS(arrays["X"], arrays["y"], regparam=1.0, **options)
    values = []
    for alpha in arrays["alphas"]:
        model.solve(float(alpha))
        parts = [np.atleast_1d(model.holdout(rows.tolist())) for rows in sets]
        values.append(np.concatenate(parts))
    np.save(out, np.array(values))


if __name__ == "__main__":
    for line in sys.stdin:
        try:
            answer(*line.split())
            print("done", flush=True)
        except Exception as error:
            print("failed", repr(error).replace("\n", " "), flush=True)
