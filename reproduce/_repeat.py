"""Repetitions of an experiment: on all cores, and kept on disk until the run is through.

A repetition depends on the seed and on its own number alone, so a run that was stopped goes on
where it stopped, and a run of more repetitions begins with those of a shorter one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import joblib
import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from holdfast.progress import Progress
from reproduce._digest import digest
from reproduce._framework import Options

Floats = NDArray[np.float64]

FEW = 3


def repeated(
    work: Callable[[list[int]], Floats], options: Options, progress: Progress, text: str
) -> Floats:
    """Return what `work` gives for each repetition, one after the other along axis 0.

    Parameters
    ----------
    work : callable
        From a seed to an array; sent to other processes, so a function or a partial of one.
    options : Options
        Seed, number of repetitions, and where finished ones are kept.
    progress : callable
        Told of each repetition.
    text : str
        What is repeated, for the progress.

    Notes
    -----
    Kept repetitions count if code, arguments and seed are those of now.
    """
    key = f"{text}: {digest(_function(work))} {joblib.hash(work)} {options.seed}"
    done = _kept(options.kept, key)[: options.repetitions]
    waiting = range(len(done), options.repetitions)
    # Joblib shares the cores among its workers: one BLAS thread each. Few calls start none.
    calls = (delayed(work)([options.seed, number]) for number in waiting)
    jobs = -1 if len(waiting) > FEW else 1
    for values in Parallel(n_jobs=jobs, return_as="generator")(calls):
        progress(len(done), options.repetitions, text)
        done.append(values)
        if options.kept is not None:
            with options.kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, values.tolist()]) + "\n")
    progress(options.repetitions, options.repetitions, text)
    return np.array(done)


def _function(work: Callable[..., Floats]) -> Callable[..., Floats]:
    """Return the function that a partial is of."""
    return work.func if isinstance(work, partial) else work


def _kept(path: Path | None, key: str) -> list[Floats]:
    """Return the repetitions of this key that are on disk, and drop a line that was cut short."""
    if path is None or not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: text.rfind("\n") + 1], encoding="utf-8")
    entries = [json.loads(line) for line in text.split("\n")[:-1]]
    return [np.array(values) for name, values in entries if name == key]
