"""Many fits in one process: memory, threads and file descriptors stay where they were.

Three hundred here; HOLDFAST_FITS=10000 does that many. They run in a process of their own, so that
no other test counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FITS = int(os.environ.get("HOLDFAST_FITS", "300"))
#: What the allocator may keep for itself, in bytes. A leak of one kernel matrix a fit (60 rows,
#: 29 kB) would be 8 MB in three hundred fits.
SLACK = 4 << 20

SCRIPT = """
import gc, json, os, sys, warnings
import numpy as np
from sklearn.model_selection import GroupKFold, KFold
from holdfast import KernelRidgeClassifierCV, KernelRidgeCV

warnings.simplefilter("ignore")
MODELS = [
    KernelRidgeCV(gamma=0.3, alphas=[1e-2, 1.0, 100.0]),
    KernelRidgeCV(gamma=0.3, basis=12, cv=KFold(5), random_state=0),
    KernelRidgeCV(kernel="linear"),
    KernelRidgeCV(gamma=0.3, cv=GroupKFold(4)),
    KernelRidgeClassifierCV(gamma=0.3),
    KernelRidgeCV(alphas=[-1.0]),  # refused
]

def fits(count):
    for number in range(count):
        rng = np.random.default_rng(number)
        X = rng.normal(size=(int(rng.integers(40, 61)), 3))
        y = X @ [1.0, -2.0, 0.5] + rng.normal(size=len(X))
        model = MODELS[number % len(MODELS)]
        classes = isinstance(model, KernelRidgeClassifierCV)
        try:
            model.fit(X, np.digitize(y, [-1, 1]) if classes else y, 1 + (y > 0), np.arange(len(y)) // 6)
        except ValueError:
            continue
        model.held_out().values, model.predict(X), model.predict_without([1, 5])

def state():
    gc.collect()
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return [resident, len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))]

fits(90)  # to warm up
before = state()
fits(int(sys.argv[1]))
print(json.dumps([before, state()]))
"""  # noqa: E501


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="counts in /proc")
@pytest.mark.timeout(max(600, FITS))
def test_many_fits_leave_nothing_behind():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(FITS)],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    (memory, threads, files), after = json.loads(done.stdout)
    assert after[0] - memory < SLACK
    assert after[1:] == [threads, files]
