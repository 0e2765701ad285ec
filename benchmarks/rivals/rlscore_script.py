"""Runs RLScore on one job: `python rlscore_script.py job.npz folder`.

For an old interpreter (3.6), so nothing of this project is imported and the syntax is plain.
"""

import json
import os
import sys
import time
import warnings

import numpy as np

warnings.simplefilter("ignore")  # its own deprecations


def reset_peak() -> float:
    """Start the kernel's record of peak memory anew and return what is held now, in bytes."""
    try:
        with open("/proc/self/clear_refs", "w") as handle:
            handle.write("5")
    except OSError:
        pass
    return peak()


def peak() -> float:
    """Return the peak of resident memory, in bytes, or zero where it is not told."""
    try:
        with open("/proc/self/status") as handle:
            for line in handle:
                if line.startswith("VmHWM:"):
                    return 1024.0 * int(line.split()[1])
    except OSError:
        pass
    return 0.0


def main(job: str, folder: str) -> None:
    """Run the job, write predictions.npy and facts.json."""
    from rlscore.learner import KfoldRLS, LeaveOneOutRLS

    arrays = dict(np.load(job))
    X, y, labels, alphas = (arrays[name] for name in ("X", "y", "labels", "alphas"))
    if str(arrays["kernel"]) == "linear":
        options = {"kernel": "LinearKernel", "bias": 0.0}
    else:
        options = {"kernel": "GaussianKernel", "gamma": float(arrays["gamma"])}
    options["regparams"] = alphas.tolist()
    order = np.argsort(labels, kind="mergesort")
    folds = [part.tolist() for part in np.split(order, np.cumsum(np.bincount(labels))[:-1])]
    before = reset_peak()
    start = time.perf_counter()
    if arrays["basis"].size:
        options["basis_vectors"] = X[arrays["basis"]]
    loo = bool(arrays["loo"])
    model = LeaveOneOutRLS(X, y, **options) if loo else KfoldRLS(X, y, folds, **options)
    facts = {"seconds": time.perf_counter() - start, "peak_bytes": peak() - before}
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
        json.dump(facts, handle)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
