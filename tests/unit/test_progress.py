"""Progress of long work, and Ctrl-C in the middle of it."""

import signal
import subprocess
import sys

import numpy as np
import pytest

from holdfast import KernelRidgeCV
from holdfast.progress import ProgressBar, listening, report

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = X[:, 0] + 0.1 * RNG.normal(size=40)


def test_reports_reach_the_listener_and_only_inside_the_block():
    heard = []
    report(0, 3, "nobody")
    with listening(lambda done, total, text: heard.append((done, total, text))):
        report(1, 3, "heard")
        with listening(None):
            report(2, 3, "muted")
        report(3, 3, "heard")
    report(3, 3, "nobody")
    assert heard == [(1, 3, "heard"), (3, 3, "heard")]


@pytest.mark.parametrize("installed", [True, False], ids=["tqdm", "lines"])
def test_progress_is_shown_of_what_takes_long(installed, monkeypatch, capsys):
    if installed:
        pytest.importorskip("tqdm")
    else:
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    shown = KernelRidgeCV(gamma=[0.1, 1.0], cv=4, verbose=1).fit(X, Y)
    assert capsys.readouterr().err.strip() == ""  # it is done at once
    quiet = KernelRidgeCV(gamma=[0.1, 1.0], cv=4).fit(X, Y)
    assert shown.nested(3).score() == quiet.nested(3).score()

    with listening(ProgressBar(delay=0.0)):
        KernelRidgeCV(gamma=[0.1, 1.0, 10.0], cv=4).fit(X, Y)
    assert "kernels" in capsys.readouterr().err


def test_a_bar_takes_work_of_unknown_size_and_work_that_begins_again(capsys):
    with ProgressBar() as bar:
        for done in (1, 2, 1):
            bar(done, 0, "rows")
            bar(done, 2, "folds")


CHILD = """
import signal, sys
import numpy as np
from holdfast import KernelRidgeCV
from holdfast.progress import listening
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its jobs ignore it
X = np.random.default_rng(0).normal(size=(800, 3))
with listening(lambda done, total, text: print(text, flush=True)):
    KernelRidgeCV(gamma=np.logspace(-3, 3, 5000)).fit(X, X[:, 0])
"""


def test_ctrl_c_ends_the_process_with_a_traceback():
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline()
    child.send_signal(signal.SIGINT)
    _, error = child.communicate(timeout=60)
    assert child.returncode != 0
    assert error.strip().endswith("KeyboardInterrupt")
