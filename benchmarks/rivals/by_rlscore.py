"""RLScore, run by an interpreter that can still build it.

Its last release (0.8.1) ships C sources that compile under Python 3.6 and no later, and needs
NumPy 1. Make such an environment and name its interpreter in ``RLSCORE_PYTHON``:

    python3.6 -m venv old
    old/bin/pip install "numpy<1.20" "scipy<1.6"
    old/bin/pip install --no-deps --no-build-isolation --no-binary :all: rlscore==0.8.1
    export RLSCORE_PYTHON=$PWD/old/bin/python

`rlscore_script.py` runs there, on the same arrays, and measures itself from the moment that the
rows are loaded to the moment that the penalty is chosen.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.problems import Data, Problem
from benchmarks.rivals.base import Done, Rival, predictions

SCRIPT = Path(__file__).with_name("rlscore_script.py")
VARIABLE = "RLSCORE_PYTHON"


def missing() -> str | None:
    """Return why RLScore cannot take part, or None."""
    python = os.environ.get(VARIABLE)
    return None if python and Path(python).is_file() else f"{VARIABLE} names no interpreter"


def run(problem: Problem, data: Data) -> Done:
    """Do the job in RLScore's own interpreter."""
    basis = np.empty(0, dtype=np.int64) if data.basis is None else data.basis
    numbers = {"alphas": problem.alphas, "gamma": problem.gamma, "loo": problem.split == "loo"}
    # Packages for this interpreter are not for that one.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "job.npz"
        np.savez(job, X=data.X, y=data.y, basis=basis, labels=data.labels, **numbers)
        command = [os.environ[VARIABLE], os.fspath(SCRIPT), os.fspath(job), folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        facts = json.loads((Path(folder) / "facts.json").read_text())
        found = np.load(Path(folder) / "predictions.npy")
    return predictions(found, data)._replace(**facts)


def can(problem: Problem) -> bool:
    """Whether it is cross-validation without a bias, which RLScore would penalise."""
    return problem.job == "cross-validate" and not problem.bias


RIVAL = Rival("RLScore", run, can, missing=missing)
