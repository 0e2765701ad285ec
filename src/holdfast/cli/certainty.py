"""How sure the answer is: the options that ask, and the columns that tell row by row."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.data.texts import as_float, as_int
from holdfast.exceptions import HoldfastError, InvalidInputError

if TYPE_CHECKING:
    from holdfast.report import Ask

__all__ = ["add_certainty_options", "certainty_columns", "what_to_ask"]


def add_certainty_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``cv`` that ask how sure the score is."""
    group = parser.add_argument_group("how sure")
    group.add_argument(
        "--interval",
        type=as_float,
        metavar="LEVEL",
        help="interval of the score at this level, such as 0.95, from models without pairs of "
        "folds; default: 0.9, the same if it takes no time, else from the standard error. Adds "
        "columns low and high to --predictions",
    )
    group.add_argument(
        "--nested",
        action="store_true",
        help="choose the penalty again without the rows that are predicted, and say what choosing "
        "did to the score",
    )
    group.add_argument(
        "--permutations",
        type=as_int,
        default=0,
        metavar="N",
        help="permute the target N times, such as 1000: the chance of doing as well by luck",
    )


def what_to_ask(options: argparse.Namespace) -> Ask:
    """Return what the options ask of the score; refuse nonsense."""
    from holdfast.report import Ask

    level, count = options.interval, options.permutations
    if level is not None and not 0 < level < 1:
        raise InvalidInputError(f"--interval must lie between 0 and 1, such as 0.9; got {level}.")
    if count < 0:
        raise InvalidInputError(
            f"--permutations must be a number from 0 up, such as 1000; got {count}."
        )
    return Ask(level, bool(options.nested), int(count), int(options.seed))


def certainty_columns(model: Any, level: float | None) -> dict[str, NDArray[Any]]:
    """Return columns for each held-out prediction: scores of classes, or ends of an interval.

    Parameters
    ----------
    model : fitted estimator
    level : float or None
        Of the intervals of a regression, under the normal law; None for none.
    """
    if model._classes is None and level is None:
        return {}
    found = model.held_out(alphas=[float(np.atleast_1d(model.alpha_)[0])])
    values = found.values[0]
    if found.classes is None:
        assert level is not None
        from scipy.special import ndtri

        try:
            half = float(ndtri((1 + level) / 2)) * found.std[0, :, 0]
        except HoldfastError as error:
            raise InvalidInputError(f"--interval with --predictions: {error}") from error
        return {"low": values[:, 0] - half, "high": values[:, 0] + half}
    if values.shape[1] == 1:
        return {f"score {found.classes[1]}": values[:, 0]}
    return {f"score {name}": values[:, c] for c, name in enumerate(found.classes)}
