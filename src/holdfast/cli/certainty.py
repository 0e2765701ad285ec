"""How sure the answer is: the options that ask, and the columns that answer row by row."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.data.texts import as_float, as_int
from holdfast.exceptions import HoldfastError, InvalidInputError

if TYPE_CHECKING:
    from holdfast.report import Ask

__all__ = ["INTERVAL", "add_certainty_options", "certainty_columns", "what_to_ask"]

#: What --interval means, in every command.
INTERVAL = (
    "add columns low and high, an interval that holds the truth this often, such as 0.9 "
    "(jackknife+ or CV+)"
)


def add_certainty_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``cv`` that ask how sure the score is."""
    group = parser.add_argument_group("how sure")
    group.add_argument(
        "--interval",
        type=as_float,
        metavar="LEVEL",
        help=f"{INTERVAL}; with --predictions, and in the report (default there: 0.9)",
    )
    group.add_argument(
        "--level",
        type=as_float,
        metavar="LEVEL",
        help="interval of the score at this level, such as 0.95, by nested "
        "cross-validation; default: 0.9, nested if that takes no time, else by the standard error",
    )
    group.add_argument(
        "--nested",
        action="store_true",
        help="choose the penalty again without the rows that are predicted, and say how much "
        "choosing flattered the score",
    )
    group.add_argument(
        "--permutations",
        type=as_int,
        default=0,
        metavar="N",
        help="permute the target N times, such as 1000, for the chance of doing as well by luck",
    )


def what_to_ask(options: argparse.Namespace) -> Ask:
    """Return what the options ask about the score; refuse bad values."""
    from holdfast.report import Ask

    count = options.permutations
    for name, level in (("--interval", options.interval), ("--level", options.level)):
        if level is not None and not 0 < level < 1:
            raise InvalidInputError(f"{name} must lie between 0 and 1, such as 0.9; got {level}.")
    if count < 0:
        raise InvalidInputError(
            f"--permutations must be a number from 0 up, such as 1000; got {count}."
        )
    return Ask(
        level=options.level,
        nested=bool(options.nested),
        permutations=int(count),
        seed=int(options.seed),
        interval=options.interval,
        seconds=options.seconds,
    )


def certainty_columns(model: Any, level: float | None) -> dict[str, NDArray[Any]]:
    """Return columns for each held-out prediction: scores of classes, or ends of an interval.

    Parameters
    ----------
    model : fitted estimator
    level : float or None
        Of the jackknife+ intervals of a regression; None for none.
    """
    if model._classes is None:
        return {} if level is None else _bounds(model, level)
    found = model.held_out(alphas=[float(np.atleast_1d(model.alpha_)[0])])
    values = found.values[0]
    if values.shape[1] == 1:
        return {f"score {found.classes[1]}": values[:, 0]}
    return {f"score {name}": values[:, c] for c, name in enumerate(found.classes)}


def _bounds(model: Any, level: float) -> dict[str, NDArray[Any]]:
    from holdfast.report.bounds import held_out_bounds

    try:
        found = held_out_bounds(model, (level,))
    except HoldfastError as error:
        raise InvalidInputError(f"--interval with --predictions: {error}") from error
    return {"low": found[:, 0, 0], "high": found[:, 1, 0]}
