"""Many fits in one process: memory, threads and file descriptors stay where they were.

Four hundred here; HOLDFAST_FITS=10000 does that many. They run in a process of their own, so that
no other test counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FITS = int(os.environ.get("HOLDFAST_FITS", "400"))
#: What the allocator may keep for itself, in bytes. A leak of one kernel matrix a fit (60 rows,
#: 29 kB) would be 11 MB in four hundred fits.
SLACK = 4 << 20

SCRIPT = """
import gc, hashlib, json, os, sys, threading, warnings
import numpy as np
from sklearn.model_selection import GroupKFold, KFold
from holdfast import KernelRidgeClassifierCV, KernelRidgeCV

warnings.simplefilter("ignore")

def dense(X, y):
    model = KernelRidgeCV(gamma=0.3, alphas=[1e-2, 1.0, 100.0]).fit(X, y)
    return model.held_out().values, model.predict_without([1, 5])

def sparse(X, y):
    model = KernelRidgeCV(gamma=0.3, basis=12, cv=KFold(5), random_state=0).fit(X, y)
    return model.held_out().values, model.predict(X)

def linear(X, y):
    model = KernelRidgeCV(kernel="linear").fit(X, y, sample_weight=1 + (y > 0))
    return model.predict(X), model.verify(2, random_state=0).max_relative_error

def classes(X, y):
    model = KernelRidgeClassifierCV(gamma=0.3).fit(X, np.digitize(y, [-1, 1]))
    return model.decision_function(X), model.best_score_

def groups(X, y):
    labels = np.arange(len(y)) // 6
    model = KernelRidgeCV(gamma=0.3, cv=GroupKFold(4)).fit(X, y, groups=labels)
    return model.held_out().values, model.best_score_

def refused(X, y):
    try:
        KernelRidgeCV(alphas=[-1.0]).fit(X, y)
    except ValueError as error:
        return (float(len(str(error))),)

KINDS = (dense, sparse, linear, classes, groups, refused)

def state():
    gc.collect()
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return {
        "memory": resident,
        "threads": len(os.listdir("/proc/self/task")),
        "files": len(os.listdir("/proc/self/fd")),
    }

def fits(first, count):
    digest = hashlib.sha256()
    for number in range(first, first + count):
        rng = np.random.default_rng(number)
        X = rng.normal(size=(int(rng.integers(40, 61)), 3))
        y = X @ [1.0, -2.0, 0.5] + rng.normal(size=len(X))
        for value in KINDS[number % len(KINDS)](X, y):
            digest.update(np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()

count, warm = int(sys.argv[1]), int(sys.argv[2])
fits(10**6, warm)
before = state()
bits = fits(0, count)
print(json.dumps({"before": before, "after": state(), "bits": bits}))
"""


def run(count: int, warm: int) -> dict:
    """Return the state of a fresh process before and after some fits, and a digest of results."""
    path = os.pathsep.join([str(TESTS.parent / "src"), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(count), str(warm)],
        env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="counts in /proc")
@pytest.mark.timeout(max(600, FITS))
def test_many_fits_leave_nothing_behind():
    found = run(FITS, warm=120)
    before, after = found["before"], found["after"]
    assert after["memory"] - before["memory"] < SLACK, found
    assert after["threads"] == before["threads"]
    assert after["files"] == before["files"]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="counts in /proc")
def test_the_same_fits_give_the_same_bits():
    """In another process, and after other fits."""
    assert run(60, warm=0)["bits"] == run(60, warm=12)["bits"]
