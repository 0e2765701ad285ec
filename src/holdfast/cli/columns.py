"""What the commands say about columns: how they were read, notes, what preparing costs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from holdfast.cli.fitting import Data
from holdfast.cli.specs import CvSpec
from holdfast.cli.wording import said
from holdfast.exceptions import HoldfastError
from holdfast.kernels import Lookup
from holdfast.tables import TablePreparation

if TYPE_CHECKING:
    from holdfast.tables.notes import Note

__all__ = ["check_pipeline", "counts_features", "raise_notes"]

# Work of one experiment with the preparation inside, in multiplications; and values to prepare.
_MOST_WORK, _MOST_VALUES, _EXPERIMENTS = 2e10, 5e6, 3


def raise_notes(options: argparse.Namespace, data: Data, cv: CvSpec) -> tuple[str, ...]:
    """Return notes on the data and the question, in the words of the command line."""
    from holdfast.tables.notes import Question, notes_on

    question = Question(
        table=data.table,
        roles=data.roles,
        preparation=data.preparation,
        X=data.X,
        y=data.y,
        classify=options.classify,
        by_time=cv.by_time,
        by_group=cv.needs_groups,
    )
    found = [_worded(note) for note in notes_on(question)]
    if cv.by_time and data.moments is None:
        found.append(_order_taken(data))
    return tuple(found)


def _worded(note: Note) -> str:
    options = " ".join(said(name, value) for name, value in note.say)
    return f"{note.text} ({options})" if options else note.text


def _order_taken(data: Data) -> str:
    dated = [name for name, reading in data.table.readings.items() if reading.kind == "date"]
    told = "Steps in time were taken in the order of the rows in the file, the first row first"
    for name in dated:
        if data.table.readings[name].missing:
            continue
        moments = data.table.moments(name)
        if (moments[1:] < moments[:-1]).any():
            return f"{told}; that is not the order of {name!r}. {said('time', name)} follows it."
        return f"{told}, which is the order of {name!r}."
    return f"{told}; if a column holds the time, name it with --time."


def counts_features(model: Any, preparation: TablePreparation) -> bool:
    """Whether parts of the model stand for features by number, and levels may change these."""
    has_trend = getattr(model, "trend", None) is not None
    return hasattr(model, "kernel_weights_") or (
        has_trend and bool(preparation.learned_.categories)
    )


def check_pipeline(model: Any, data: Data, n_verify: int | None) -> Any:
    """Return what preparing inside the training rows changes; None where it would take long."""
    m, d = data.X.shape
    size = len(model.basis_indices_) if model._problem.on_basis else m
    dense = not model._problem.on_basis
    work = float(m) * size**2 if not (dense and model.kernel == "linear") else float(m) * d**2
    n_verify = _EXPERIMENTS if n_verify is None else n_verify
    if n_verify < 1 or model.held_out_basis == "reselect" or isinstance(model.kernel, Lookup):
        return None
    if work > _MOST_WORK or m * d > _MOST_VALUES or counts_features(model, data.preparation):
        return None
    from holdfast.tables.inside import prepare_inside

    try:
        return prepare_inside(model, data.preparation, data.table, min(n_verify, _EXPERIMENTS))
    except HoldfastError:
        return None  # a column without values in some training rows, for instance
