"""Scores of finished kernels in a folder, so that a search can resume where it stopped.

One file for each kernel, named by a hash (joblib's) of all that its scores depend on: the rows,
targets, weights, experiments, penalties, the model's options, the scorer and the kernel. If
anything differs, so does the name: nothing is ever taken from another search, and searches can
share a folder. Files are written whole or not at all; one that cannot be read is computed again.
"""

from __future__ import annotations

import pickle
import re
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from holdfast import __version__
from holdfast._typing import FloatArray
from holdfast.answers.problem import Goal, Problem
from holdfast.answers.rows import rows_with_kernel
from holdfast.basis import Fixed
from holdfast.basis.resolve import as_selector
from holdfast.data.archive import read_archive, write_archive
from holdfast.data.atomic import atomic_write
from holdfast.data.dask import is_dask
from holdfast.data.paths import check_path
from holdfast.exceptions import FileFormatError, HoldfastWarning, InvalidInputError, warn
from holdfast.kernels import Precomputed
from holdfast.kernels.grid import Candidate
from holdfast.scores.choice import check_alphas
from holdfast.scores.scoring import Scores, Scoring

#: Kernel values of this many rows tell apart functions that have the same name.
PROBED_ROWS = 16


class Checkpoint:
    """The scores of one search over kernels, in files.

    Parameters
    ----------
    folder : path
        Created if it does not exist.
    problem : Problem
    goal : Goal
    seeded : bool
        Whether the user gave the seed. If not, and the basis rows are chosen at random, the seed of
        the first run is kept in the folder and used again, so that the search can resume.

    Attributes
    ----------
    seed : int
        The seed to train with.
    """

    def __init__(
        self, folder: str | PathLike[str], problem: Problem, goal: Goal, *, seeded: bool
    ) -> None:
        self.folder = Path(check_path("checkpoint", folder))
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInputError(
                f"checkpoint must be a folder, or a place where one can be made; got "
                f"{str(folder)!r} ({error.strerror}).",
                argument="checkpoint",
            ) from error
        self._problem, self.seed = problem, problem.seed
        data = {f.name: getattr(problem, f.name) for f in fields(problem)}
        for name in (
            "seed",
            "flat",
            "path",
            "memory",
            "frames",
        ):  # of these the scores are independent
            del data[name]
        if problem.trend is not None:
            data["trend"] = problem.unpenalised.Q
        if is_dask(problem.X):
            data["X"] = str(problem.X.name)  # which says what it is computed from
        parts = __version__, goal.per_target, *data.values(), *_of_scoring(goal.scoring)
        self._key = [_hash(part) for part in parts]
        if isinstance(as_selector(problem.basis), Fixed | None):
            return  # nothing random
        if not seeded:
            self.seed = self._kept_seed()
        self._key.append(str(self.seed))

    def load(self, candidate: Candidate) -> tuple[FloatArray, Scores] | None:
        """Return the penalties of a finished kernel and their scores, or None."""
        path = self._file(candidate)
        if not path.exists():
            return None
        try:
            arrays = read_archive(path).arrays
            alphas, given = check_alphas(arrays.pop("alphas", None)), self._problem.alphas
            other = given.size > 0 and not np.array_equal(alphas, given)
            if other or any(len(column) != alphas.size for column in arrays.values()):
                raise FileFormatError("scores of another grid")
            return alphas, Scores(**arrays)
        except (OSError, TypeError, InvalidInputError, FileFormatError) as error:
            warn(
                f"the checkpoint file {path.name} is damaged ({error}): the scores of "
                f"{candidate.kernel!r} are computed again.",
                HoldfastWarning,
            )
            return None

    def save(self, candidate: Candidate, alphas: FloatArray, scores: Scores) -> None:
        """Write the penalties and scores of a finished kernel, whole or not at all."""
        columns: dict[str, Any] = {f.name: getattr(scores, f.name) for f in fields(scores)}
        found = {name: value for name, value in columns.items() if value is not None}
        write_archive(self._file(candidate), "scores", {}, {"alphas": alphas, **found})

    def _file(self, candidate: Candidate) -> Path:
        kernel, key = candidate.kernel, list(self._key)
        key.append(_hash(kernel))
        if not isinstance(kernel, Precomputed):
            data = rows_with_kernel(kernel, self._problem.X, self._problem.basis)
            m = len(data)
            rows = np.unique(np.linspace(0, m - 1, min(m, PROBED_ROWS)).astype(np.int64))
            key.append(_hash(data.block(rows, rows)))
        return self.folder / f"scores-{_hash(key)}.holdfast"

    def _kept_seed(self) -> int:
        path = self.folder / f"seed-{_hash(self._key)}.txt"
        try:
            return int(path.read_text())
        except (OSError, ValueError):
            with atomic_write(path) as file:
                file.write(str(self.seed).encode())
            return self.seed


def _of_scoring(scoring: Scoring) -> list[str]:
    """Return what distinguishes scorers from each other, even functions of the same name."""
    function = getattr(scoring.scorer, "_score_func", scoring.scorer)
    code = getattr(function, "__code__", None)
    if code is None:
        return [scoring.name, _hash(function)]
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    parts = (code.co_code, code.co_consts, code.co_names, function.__defaults__, cells)
    return [scoring.name, *map(_hash, parts)]


def _hash(value: Any) -> str:
    """Return text that is the same in every process, and differs for different values."""
    try:
        return str(joblib.hash(value))
    except (pickle.PicklingError, AttributeError, TypeError):  # functions without a public name
        if isinstance(value, np.ndarray):  # printed, it would be cut short
            return " ".join(_hash(item) for item in value.ravel().tolist())
        return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
