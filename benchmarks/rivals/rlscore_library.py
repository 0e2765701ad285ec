"""RLScore itself, run by an interpreter that can still build it.

Its last release (0.8.1) ships C sources that compile under Python 3.6 and no later, and needs
NumPy 1. Make such an environment and name its interpreter in ``RLSCORE_PYTHON``:

    python3.6 -m venv old
    old/bin/pip install "numpy<1.20" "scipy<1.6"
    old/bin/pip install --no-deps --no-build-isolation --no-binary :all: rlscore==0.8.1
    export RLSCORE_PYTHON=$PWD/old/bin/python

`rlscore_script.py` runs there, on the same arrays, and measures its own time and memory from the
moment that the rows are loaded to the moment that the penalty is chosen.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.problems import UNSHIFTED, Data, Floats, Problem
from benchmarks.rivals.base import Outcome, Outside, Rival, needs_square

SCRIPT = Path(__file__).with_name("rlscore_script.py")
VARIABLE = "RLSCORE_PYTHON"


def _missing() -> str | None:
    python = os.environ.get(VARIABLE)
    if not python:
        return f"{VARIABLE} does not name an interpreter with RLScore"
    if not Path(python).is_file():
        return f"{VARIABLE} names no file"
    return None


def _environment() -> dict[str, str]:
    # Packages for this interpreter are not for that one.
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def version() -> str:
    """Return RLScore's version and that of the NumPy it runs on."""
    code = "import numpy; print('0.8.1, NumPy', numpy.__version__)"
    command = [os.environ[VARIABLE], "-c", code]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, env=_environment()
    ).stdout.strip()


def _run(problem: Problem, data: Data) -> Outside:
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "job.npz"
        basis = np.empty(0, dtype=np.int64) if data.basis is None else data.basis
        np.savez(
            job,
            X=data.X,
            y=data.y,
            basis=basis,
            labels=data.labels,
            alphas=problem.alphas,
            kernel=problem.kernel,
            gamma=problem.gamma,
            loo=problem.split == "loo",
        )
        command = [os.environ[VARIABLE], os.fspath(SCRIPT), os.fspath(job), folder]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=_environment()
        )
        if done.returncode:
            raise RuntimeError(f"RLScore failed: {done.stderr.strip().splitlines()[-1:]}")
        facts = json.loads((Path(folder) / "facts.json").read_text())
        predictions: Floats = np.load(Path(folder) / "predictions.npy")
    return Outside(facts["seconds"], facts["peak_bytes"], predictions)


def _read(problem: Problem, data: Data, result: Outside) -> Outcome:
    return Outcome(predictions=result.predictions)


RIVALS = (
    Rival(
        "rlscore",
        "RLScore 0.8.1",
        _run,
        _read,
        model=UNSHIFTED,
        refuses=lambda problem: needs_square(problem) if problem.dense else None,
        missing=_missing,
        kernels=("rbf", "linear"),
        many=True,
        package="rlscore",
    ),
)
