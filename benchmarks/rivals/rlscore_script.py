"""Runs RLScore on one job: `python rlscore_script.py job.npz folder`.

For an old interpreter (3.6), so nothing of this project is imported and the syntax is plain.
"""

import json
import os
import resource
import sys
import time
import warnings

import numpy as np

warnings.simplefilter("ignore")  # its own deprecations


def main(job, folder):
    """Run the job, write predictions.npy and facts.json."""
    from rlscore.learner import KfoldRLS, LeaveOneOutRLS

    arrays = dict(np.load(job))
    X, y, labels, alphas = (arrays[name] for name in ("X", "y", "labels", "alphas"))
    options = {
        "kernel": "GaussianKernel",
        "gamma": float(arrays["gamma"]),
        "regparams": alphas.tolist(),
    }
    order = np.argsort(labels, kind="mergesort")
    folds = [part.tolist() for part in np.split(order, np.cumsum(np.bincount(labels))[:-1])]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    if arrays["basis"].size:
        options["basis_vectors"] = X[arrays["basis"]]
    loo = bool(arrays["loo"])
    model = LeaveOneOutRLS(X, y, **options) if loo else KfoldRLS(X, y, folds, **options)
    seconds = time.perf_counter() - start
    peak = 1024.0 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    predictions = np.empty((alphas.size, len(y)))  # of the first target
    for a in range(alphas.size):
        found = model.cv_predictions[a]
        if loo:
            predictions[a] = np.reshape(found, (len(y), -1))[:, 0]
            continue
        for j, fold in enumerate(folds):
            predictions[a, fold] = np.reshape(found[j], (len(fold), -1))[:, 0]
    np.save(os.path.join(folder, "predictions.npy"), predictions)
    with open(os.path.join(folder, "facts.json"), "w") as handle:
        json.dump({"seconds": seconds, "peak_bytes": peak}, handle)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
