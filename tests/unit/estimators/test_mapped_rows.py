"""Rows that stay on disk: mapped, read in blocks, never loaded whole."""

import os
import subprocess
import sys

import numpy as np
import pytest

from holdfast import KernelRidgeCV


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
def test_fit_on_mapped_rows(tmp_path):
    X = np.random.default_rng(1).normal(size=(300, 2))
    np.save(tmp_path / "rows.npy", X)
    options = {"basis": 20, "cv": 4, "random_state": 0, "alphas": [0.1, 1.0]}
    here = KernelRidgeCV(**options).fit(X, X[:, 0])
    mapped = KernelRidgeCV(**options).fit(np.load(tmp_path / "rows.npy", mmap_mode="r"), X[:, 0])
    assert np.array_equal(mapped.held_out().values, here.held_out().values)


SCRIPT = """
import sys, threading, time, warnings
import numpy as np
from holdfast import KernelRidgeCV
warnings.simplefilter("ignore")
import holdfast.core.rows
holdfast.core.rows.CHUNK = 2**16

def private():  # bytes of this process alone: pages of a mapped file do not count
    with open("/proc/self/status") as lines:
        return next(1024 * int(l.split()[1]) for l in lines if l.startswith("RssAnon"))

X = np.load(sys.argv[1], mmap_mode="r")
y = np.array(X[:, 0])
model = KernelRidgeCV("linear", basis=50, alphas=[1.0], cv=4, memory_limit=1e6, random_state=0)
model.fit(X[:1000], y[:1000])
before, peak, running = private(), 0, True
def watch():
    global peak
    while running:
        peak = max(peak, private())
        time.sleep(0.001)
thread = threading.Thread(target=watch)
thread.start()
model.fit(X, y)
running = False
thread.join()
print(peak - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's /proc")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_mapped_rows_are_never_loaded_whole(tmp_path, dtype):
    """A fit takes its blocks and a few numbers for each row, not the rows."""
    m, d = 50_000, 400
    rows = np.lib.format.open_memmap(tmp_path / "rows.npy", "w+", dtype=dtype, shape=(m, d))
    rng = np.random.default_rng(0)
    for start in range(0, m, 10_000):
        rows[start : start + 10_000] = rng.normal(size=(10_000, d))
    size = rows.nbytes
    del rows
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "rows.npy")]
    # Threads of BLAS hold buffers of their own, which are not the question.
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **one}
    )
    assert run.returncode == 0, run.stderr
    taken = int(run.stdout)
    print(f"rows {size / 1e6:.0f} MB, taken {taken / 1e6:.0f} MB")
    assert taken < 0.6 * size
