"""Faults while files are written: pipes, devices, long names, full disks, kill −9.

HOLDFAST_KILLS=100 kills a save, a report and two searches (one on Dask) a hundred times each.
"""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from holdfast import KernelRidgeCV, load
from holdfast.data import atomic
from holdfast.data.atomic import atomic_write, write_text
from holdfast.exceptions import WriteError

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="pipes, devices, signals"),
    pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning"),
]

TESTS = Path(__file__).parents[1]
KILLS = int(os.environ.get("HOLDFAST_KILLS", "3"))
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
    "OPENBLAS_NUM_THREADS": "1",
}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# -- what is not a regular file --------------------------------------------------------------------


def test_a_pipe_is_written_into(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write_text(pipe, "through the pipe")
    reader.join(30)
    assert got == [b"through the pipe"]
    assert pipe.is_fifo()
    assert names(tmp_path) == ["pipe"]


def test_a_model_goes_through_a_pipe(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2))
    model = KernelRidgeCV(alphas=[0.1, 1.0, 10.0], cv=3).fit(X, X[:, 0] + rng.normal(size=12))
    pipe, copy = tmp_path / "pipe", tmp_path / "copy"
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: copy.write_bytes(pipe.read_bytes()))
    reader.start()
    model.save(pipe)
    reader.join(30)
    np.testing.assert_array_equal(load(copy).predict(X), model.predict(X))


def test_nothing_goes_into_a_pipe_from_a_block_that_fails(tmp_path):
    """A file that is not whole is not sent: the pipe is not even opened."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with contextlib.suppress(ZeroDivisionError), atomic_write(pipe) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert pipe.is_fifo()


def test_devices_stay_devices(tmp_path):
    before = os.stat("/dev/null")
    write_text("/dev/null", "x")
    assert os.stat("/dev/null").st_rdev == before.st_rdev
    link = tmp_path / "link"
    link.symlink_to("/dev/null")
    write_text(link, "x")
    assert link.is_symlink()
    assert os.stat("/dev/null").st_rdev == before.st_rdev


@pytest.mark.parametrize("redirect", ["> out", ">> out", "| cat > out"])
def test_the_standard_output_by_its_name(tmp_path, redirect):
    code = "from holdfast.data.atomic import write_text; write_text('/dev/stdout', 'told')"
    (tmp_path / "out").write_text("before\n")
    command = f'{sys.executable} -c "{code}" {redirect}'
    subprocess.run(command, shell=True, check=True, cwd=tmp_path, env=ENVIRONMENT)
    kept = "before\n" if redirect == ">> out" else ""
    assert (tmp_path / "out").read_text() == f"{kept}told"


# -- where nothing can be written ------------------------------------------------------------------


@pytest.mark.parametrize("length", [200, 245, 255])
def test_names_near_the_limit(tmp_path, length):
    path = tmp_path / ("n" * length)
    write_text(path, "x")
    assert path.read_text() == "x"
    assert names(tmp_path) == [path.name]


def test_a_name_beyond_the_limit(tmp_path):
    with pytest.raises(WriteError, match="too long"):
        write_text(tmp_path / ("n" * 256), "x")
    assert names(tmp_path) == []


def test_a_folder_that_is_read_only(tmp_path, monkeypatch):
    """Root may write anywhere, so the refusal of the system is played."""

    def refused(*args, **options):
        raise PermissionError(errno.EACCES, "Permission denied", "somewhere/.holdfast-x.part")

    path = tmp_path / "file"
    path.write_text("old")
    monkeypatch.setattr(atomic.tempfile, "mkstemp", refused)
    with pytest.raises(WriteError, match=r"cannot write .*file: Permission denied") as caught:
        write_text(path, "new")
    assert ".part" not in str(caught.value)
    assert caught.value.errno == errno.EACCES
    assert path.read_text() == "old"


def test_a_full_device():
    with pytest.raises(WriteError, match="No space left on device"):
        write_text("/dev/full", "x" * 100_000)


FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
from holdfast.data.atomic import write_text
from holdfast.exceptions import WriteError
try:
    write_text("file", "x" * 200_000)
except WriteError as error:
    print(error)
"""


def test_a_disk_that_fills_up_on_the_way(tmp_path):
    """A limit on the size of files breaks off the writing as a full disk does."""
    (tmp_path / "file").write_text("old")
    done = subprocess.run(
        [sys.executable, "-c", FULL], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert "cannot write file" in done.stdout
    assert "still there" in done.stdout
    assert (tmp_path / "file").read_text() == "old"
    assert names(tmp_path) == ["file"]


# -- kill −9 ---------------------------------------------------------------------------------------

PRELUDE = """
import itertools, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from holdfast import KernelRidgeCV
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3)); y = X[:, 0] + 0.1 * rng.normal(size=60)
"""
SAVE = """
model = KernelRidgeCV(alphas=[0.1, 1.0], cv=3).fit(X, y)
print("ready", flush=True)
for i in itertools.count():
    model._fitted.coefficients.unpenalised[:] = i
    model.save("model.holdfast")
    print(i, flush=True)
"""
REPORT = """
from holdfast.report import summarise, write_report
summary = summarise(KernelRidgeCV(alphas=[0.1, 1.0], cv=3).fit(X, y), verify=0)
print("ready", flush=True)
for i in itertools.count():
    write_report(summary, "report.md")
    print(i, flush=True)
"""
SEARCH = """
gammas = np.geomspace(1e-3, 1e2, 400)
print("ready", flush=True)
KernelRidgeCV(alphas=[0.1, 1.0], cv=3, gamma=gammas, checkpoint="kept").fit(X, y)
"""
CLUSTER = """
import dask, dask.array as da
dask.config.set(scheduler="threads", num_workers=2)
gammas = np.geomspace(1e-3, 1e2, 400)
options = {"alphas": [0.1, 1.0], "cv": 3, "basis": 15, "random_state": 0}
print("ready", flush=True)
KernelRidgeCV(gamma=gammas, checkpoint="kept", **options).fit(da.from_array(X, chunks=(20, 3)), y)
"""


def killed(code, folder, seconds):
    """Run code in a folder, kill it after a time, and return the lines that it printed."""
    process = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + code],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    lines = process.stdout.read().split()
    process.wait()
    process.stdout.close()
    return lines


def moments(longest):
    return np.random.default_rng(os.getpid()).uniform(0.0, longest, KILLS)


@pytest.mark.timeout(3600)
@pytest.mark.slow
def test_a_save_that_is_killed(tmp_path):
    path = tmp_path / "model.holdfast"
    for moment in moments(0.3):
        finished = killed(SAVE, tmp_path, moment)
        if not finished and not path.exists():
            continue  # killed before the first was whole
        model = load(path)  # whole: the checksums fit
        if finished:  # the last that was finished, or the one after it
            assert int(model.intercept_) in (int(finished[-1]), int(finished[-1]) + 1)


@pytest.mark.timeout(3600)
@pytest.mark.slow
def test_a_report_that_is_killed(tmp_path):
    path, whole = tmp_path / "report.md", None
    for moment in moments(0.3):
        killed(REPORT, tmp_path, moment)
        if path.exists():
            lines = path.read_text("utf-8").splitlines()  # a date in them may differ
            whole = whole or lines
            assert len(lines) == len(whole)
            assert lines[-1] == whole[-1]


@pytest.mark.timeout(3600)
@pytest.mark.slow
@pytest.mark.parametrize(("code", "more"), [(SEARCH, {}), (CLUSTER, {"basis": 15})])
def test_a_search_that_is_killed(tmp_path, code, more):
    """What is finished stays, is read again without a warning, and nothing half-written is."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=60)
    rows = X
    if more:
        rows = pytest.importorskip("dask.array").from_array(X, chunks=(20, 3))
    kept, done = tmp_path / "kept", 0
    for moment in moments(1.0):
        killed(code, tmp_path, moment)
        files = sorted(kept.glob("scores-*.holdfast"))
        assert len(files) >= done
        done = len(files)
    gammas = np.geomspace(1e-3, 1e2, 400)
    options = {"alphas": [0.1, 1.0], "cv": 3, "gamma": gammas[:20], "random_state": 0, **more}
    resumed = KernelRidgeCV(checkpoint=kept, **options).fit(rows, y)
    plain = KernelRidgeCV(**options).fit(X, y)
    np.testing.assert_allclose(
        resumed.cv_results_["pooled_test_score"],
        plain.cv_results_["pooled_test_score"],
        rtol=1e-10,
    )
    assert resumed.best_params_ == plain.best_params_


# -- Ctrl-C ----------------------------------------------------------------------------------------

DECOMPOSE = """
import sys, time
import numpy as np
from holdfast.linalg import _nogil, eigh
A = np.random.default_rng(0).normal(size=(5000, 5000)); A += A.T
run = _nogil._run
def told(name, *rest):
    print("ready", flush=True)
    run(name, *rest)
_nogil._run = told
start = time.monotonic()
eigh(A, overwrite=True)
print("finished after", time.monotonic() - start)
"""


@pytest.mark.slow
def test_ctrl_c_is_answered_while_lapack_works():
    process = subprocess.Popen(
        [sys.executable, "-c", DECOMPOSE],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(1)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=250)
    seconds = time.monotonic() - start
    if "finished" in out:
        pytest.skip("the machine was faster than the interruption")
    assert seconds < 20
    assert "KeyboardInterrupt" in err
    assert "goes on in the background" in err
    assert process.returncode == 130  # at once: a thread is still inside LAPACK
