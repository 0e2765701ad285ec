"""Scores of finished kernels in a folder, so that a search can resume where it stopped.

One file for each kernel, named by a hash of all that its scores depend on: the rows, targets,
weights, experiments, penalties, the model's options, the scorer and the kernel. Whatever differs
has another name, so nothing is ever taken from another search, and one folder may serve many. Each
file carries a digest of its name and contents; one that does not fit is computed again.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from dataclasses import fields
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from holdfast import __version__
from holdfast._typing import AnyArray, FloatArray
from holdfast.basis import Fixed, Selector
from holdfast.basis.resolve import as_selector
from holdfast.data.atomic import atomic_write
from holdfast.data.dask import is_dask
from holdfast.data.memory import memory_bytes
from holdfast.data.npz import read_npz
from holdfast.data.paths import check_path
from holdfast.estimators.model import rows_with_kernel
from holdfast.estimators.problem import Problem
from holdfast.exceptions import FileFormatError, HoldfastWarning, InvalidInputError, warn
from holdfast.kernels import Precomputed
from holdfast.kernels.grid import Candidate
from holdfast.scores.choice import check_alphas
from holdfast.scores.scoring import Scores, Scoring

#: Kernel values of this many rows tell apart functions that have the same name.
PROBED_ROWS = 16
#: The array of a file that vouches for the others.
_DIGEST = "sha256"
#: Bytes of the data that are hashed at once.
_BLOCK_BYTES = 2**24


class Checkpoint:
    """The scores of one search over kernels, in files.

    Parameters
    ----------
    folder : path
        Created if it does not exist.
    problem : Problem
    scoring : Scoring
    per_target : bool
        Whether targets are also scored one by one.
    seeded : bool
        Whether the user gave the seed. If not, and the basis rows are chosen at random, the seed of
        the first run is kept in the folder and used again, so that the search can resume.

    Attributes
    ----------
    seed : int
        The seed to train with.
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        problem: Problem,
        scoring: Scoring,
        *,
        per_target: bool,
        seeded: bool,
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
        self._digest = sha256()
        for part in (__version__, per_target, *_of_problem(problem), *_of_scoring(scoring)):
            _feed(self._digest, part)
        if isinstance(as_selector(problem.basis), Fixed | None):
            return  # nothing random
        if not seeded:
            self.seed = self._kept_seed()
        _feed(self._digest, self.seed)

    def load(self, candidate: Candidate) -> tuple[FloatArray, Scores] | None:
        """Return the penalties of a finished kernel and their scores, or None."""
        path = self._file(candidate)
        if not path.exists():
            return None
        try:
            with path.open("rb") as file:
                arrays = read_npz(file, memory_bytes(None))
            digest = arrays.pop(_DIGEST, None)
            if digest is None or str(digest) != _digest_of(path.name, arrays):
                raise FileFormatError("its digest does not fit")
            alphas = check_alphas(arrays.pop("alphas", None))
            scores, given = Scores(**arrays), self._problem.alphas
            other = given.size > 0 and not np.array_equal(alphas, given)
            if other or scores.pooled.shape != alphas.shape:
                raise FileFormatError("scores of another grid")
            return alphas, scores
        except (OSError, TypeError, InvalidInputError, FileFormatError) as error:
            warn(
                f"the checkpoint file {path.name} cannot be believed ({error}): the scores of "
                f"{candidate.kernel!r} are computed again.",
                HoldfastWarning,
            )
            return None

    def save(self, candidate: Candidate, alphas: FloatArray, scores: Scores) -> None:
        """Write the penalties and scores of a finished kernel, whole or not at all."""
        found: dict[str, Any] = {f.name: getattr(scores, f.name) for f in fields(scores)}
        found["alphas"] = alphas
        found = {name: value for name, value in found.items() if value is not None}
        path = self._file(candidate)
        with atomic_write(path) as file:
            found[_DIGEST] = np.array(_digest_of(path.name, found))
            np.savez(file, **found)

    def _file(self, candidate: Candidate) -> Path:
        digest = self._digest.copy()
        _feed(digest, _description(candidate.kernel))
        if not isinstance(candidate.kernel, Precomputed):
            data = rows_with_kernel(candidate.kernel, self._problem.X, self._problem.basis)
            m = len(data)
            rows = np.unique(np.linspace(0, m - 1, min(m, PROBED_ROWS)).astype(np.int64))
            _feed(digest, data.block(rows, rows))
        return self.folder / f"scores-{digest.hexdigest()[:32]}.npz"

    def _kept_seed(self) -> int:
        path = self.folder / f"seed-{self._digest.hexdigest()[:32]}.txt"
        try:
            return int(path.read_text())
        except (OSError, ValueError):
            with atomic_write(path) as file:
                file.write(str(self.seed).encode())
            return self.seed


def _digest_of(name: str, arrays: Mapping[str, AnyArray]) -> str:
    """Return a digest of a checkpoint: of its name, which says what it depends on, and contents."""
    digest = sha256(name.encode())
    for key in sorted(arrays):
        _feed(digest, key)
        _feed(digest, np.asarray(arrays[key]))
    return digest.hexdigest()


def _of_problem(problem: Problem) -> list[Any]:
    held, test = problem.experiments.held_out, problem.experiments.test
    return [
        problem.X,
        problem.Y,
        problem.labels,
        problem.weights,
        problem.groups,
        held.values,
        held.ptr,
        test.values,
        test.ptr,
        problem.alphas,
        problem.basis,
        problem.policy,
        problem.bias,
        problem.jitter,
        *([] if problem.trend is None else [problem.unpenalised.Q]),
        *(["standardize"] if problem.standardize else []),
    ]


def _of_scoring(scoring: Scoring) -> list[Any]:
    """Return what distinguishes scorers from each other, even functions of the same name."""
    function = getattr(scoring.scorer, "_score_func", scoring.scorer)
    code = getattr(function, "__code__", None)
    if code is None:
        return [scoring.name, _description(function)]
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    values = (code.co_consts, code.co_names, function.__defaults__, cells)
    return [scoring.name, code.co_code, *map(_description, values)]


def _feed(digest: Any, value: Any) -> None:
    """Add a value to a hash, with its length or shape to separate it from the next value."""
    if is_dask(value):
        value = str(value.name)  # Dask names an array by everything it is computed from
    if sp.issparse(value):
        for part in (value.data, value.indices, value.indptr, np.array(value.shape)):
            _feed(digest, part)
        return
    if isinstance(value, Selector):
        digest.update(_description(type(value)))
        for name, parameter in sorted(value.get_params(deep=False).items()):
            digest.update(name.encode())
            _feed(digest, parameter)
        return
    if not isinstance(value, np.ndarray):
        part = value if isinstance(value, bytes) else _description(value)
        digest.update(f"{len(part)}:".encode() + part)
        return
    digest.update(repr((value.dtype.str, value.shape)).encode())
    if value.dtype == object:
        for item in value.ravel():
            _feed(digest, _description(item))
        return
    step = max(1, _BLOCK_BYTES // max(1, value.nbytes // max(1, len(value))))
    for start in range(0, len(value), step):  # rows of a file on disk need not fit in memory
        digest.update(np.ascontiguousarray(value[start : start + step]).tobytes())


def _description(value: Any) -> bytes:
    """Return bytes that are the same in every process, and differ for different values."""
    if isinstance(value, str | int | float | bytes | None):
        return repr(value).encode()
    try:
        return pickle.dumps(value, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError):  # functions without a public name
        return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value)).encode()
