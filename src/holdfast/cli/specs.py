"""The small languages of the options: ``1e-6:1e3:30``, ``greedy:300``, ``5x10``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.data.texts import as_float, as_int
from holdfast.exceptions import InvalidInputError

__all__ = [
    "BASIS_NAMES",
    "CvSpec",
    "parse_alphas",
    "parse_basis",
    "parse_cv",
    "parse_gamma",
    "parse_grid",
]

#: Selectors by the name they have on the command line.
BASIS_NAMES = {
    "random": "Random",
    "greedy": "Greedy",
    "per-group": "PerGroup",
    "balanced": "BalancedOverFolds",
    "feature-vectors": "FeatureVectors",
    "pivoted-cholesky": "RandomlyPivotedCholesky",
    "kmeans": "KMeans",
    "farthest": "FarthestPoint",
}


def parse_grid(text: str, option: str) -> NDArray[np.float64]:
    """Return the numbers of ``from:to:count`` (equal ratios), of a list, or of one number.

    Parameters
    ----------
    text : str
        Such as ``1e-6:1e3:30`` or ``0.1,1,10``.
    option : str
        For the error message.
    """
    names = "auto, features" if option == "--gamma" else "auto"
    problem = InvalidInputError(
        f"{option} must be {names}, from:to:count (such as 1e-6:1e3:30), numbers separated by "
        f"commas, or one number, all greater than 0; got {text!r}."
    )
    parts = text.split(":")
    try:
        if len(parts) == 3:
            low, high, count = as_float(parts[0]), as_float(parts[1]), as_int(parts[2])
            if not (0 < low < high < np.inf and 2 <= count <= 10_000):
                raise problem
            return np.geomspace(low, high, count)
        if len(parts) != 1:
            raise problem
        values = np.array(sorted({as_float(part) for part in text.split(",")}))
    except ValueError as error:
        raise problem from error
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise problem
    return values


def parse_gamma(text: str) -> str | float | list[float] | None:
    """Return the width, or the widths to choose from.

    Parameters
    ----------
    text : str
        ``auto`` (widths around the median distance), ``features`` (one over their number), a
        number, or several as in `parse_grid`.
    """
    if text == "auto":
        return "search"
    if text == "features":
        return None
    gammas = parse_grid(text, "--gamma").tolist()
    return float(gammas[0]) if len(gammas) == 1 else gammas


def parse_alphas(text: str) -> NDArray[np.float64] | None:
    """Return the penalties to compare; ``auto`` is None, a grid that follows the data."""
    return None if text == "auto" else parse_grid(text, "--alphas")


def parse_basis(text: str | None) -> Any:
    """Return what `basis` the option stands for.

    Parameters
    ----------
    text : str or None
        ``500`` or ``0.1`` (random rows), ``greedy:300`` (a selector and its size), ``none`` (a
        dense model), ``auto`` (dense, or random rows where there are too many), or None.
    """
    if text is None or text == "none":
        return None
    if text == "auto":
        return text
    name, colon, size = text.partition(":")
    number = _size(size if colon else name)
    if number is None or (colon and name not in BASIS_NAMES):
        raise InvalidInputError(
            "--basis must be auto, none, a number of rows (500), a fraction (0.1), or name:number "
            f"with one of "
            f"{', '.join(BASIS_NAMES)}; got {text!r}."
        )
    if not colon:
        return number
    from holdfast import basis

    return getattr(basis, BASIS_NAMES[name])(number)


def _size(text: str) -> int | float | None:
    if re.fullmatch(r"[0-9]+", text) and int(text) > 0:
        return int(text)
    if re.fullmatch(r"0?\.[0-9]+", text) and float(text) > 0:
        return float(text)
    return None


@dataclass(frozen=True)
class CvSpec:
    """A way of holding out."""

    cv: Any  #: For the estimator
    words: str  #: What follows "held out by"
    needs_groups: bool = False  #: Whether it means nothing without a group column
    by_time: bool = False  #: Whether rows are held out in the order of time


def parse_cv(
    text: str | None,
    *,
    group: str | None,
    classify: bool,
    seed: int,
    time: str | None = None,
    gap: int = 0,
) -> CvSpec:
    """Return the way of holding out that ``--cv`` stands for.

    Parameters
    ----------
    text : str or None
        ``loo``, ``10`` (folds), ``5x10`` (repeats of folds), ``group`` (one group at a time),
        ``group:5`` (folds of whole groups), ``time:5`` (steps in time); in the order of the rows
        ``hblock:3`` (3 rows on each side) and ``purged:5:2:1`` (folds, rows purged before,
        embargoed after). None: ``group`` with a group column, ``time:5`` with a time column, else
        ``loo``.
    group : str or None
        Name of the group column.
    classify : bool
        Whether folds keep the shares of the classes.
    seed : int
        Of the shuffling.
    time : str or None
        Name of the column that puts rows in order.
    gap : int
        Rows left out between training and test rows of a step in time.
    """
    from sklearn import model_selection as ms

    from holdfast.splitters import HBlock, PurgedKFold

    text = text or ("group" if group else "time:5" if time else "loo")
    made = None
    if text == "loo":
        made = CvSpec(None, "leave-one-out")
    elif text == "group":
        made = CvSpec(ms.LeaveOneGroupOut(), f"leave-one-{group}-out", needs_groups=True)
    elif found := re.fullmatch(r"group:([0-9]+)", text):
        splitter = ms.GroupKFold(_folds(found[1], text), shuffle=True, random_state=seed)
        made = CvSpec(splitter, f"{found[1]} folds of whole {group} values", needs_groups=True)
    elif found := re.fullmatch(r"time:([0-9]+)", text):
        order = f"ordered by {time}" if time else "in the order of the rows in the file"
        between = f", with a gap of {gap:,} rows" if gap else ""
        splitter = _time_splits(int(found[1]), gap)
        made = CvSpec(splitter, f"{found[1]} steps in time, {order}{between}", by_time=True)
    elif found := re.fullmatch(r"hblock:([0-9]+)", text):
        words = f"leave-one-out with {found[1]} rows on each side, in the order of the rows"
        made = CvSpec(HBlock(int(found[1])), words)
    elif found := re.fullmatch(r"purged:([0-9]+):([0-9]+):([0-9]+)", text):
        folds, purge, embargo = map(int, found.groups())
        words = f"{folds} blocks of rows, {purge} rows before and {embargo} after held out as well"
        made = CvSpec(PurgedKFold(folds, purge, embargo), words)
    elif found := re.fullmatch(r"([0-9]+)x([0-9]+)", text):
        kind = ms.RepeatedStratifiedKFold if classify else ms.RepeatedKFold
        repeats, folds = int(found[1]), _folds(found[2], text)
        if repeats < 1:
            raise InvalidInputError(f"--cv needs at least 1 repeat; got --cv {text}.")
        splitter = kind(n_splits=folds, n_repeats=repeats, random_state=seed)
        made = CvSpec(splitter, f"{repeats} times {folds}-fold cross-validation, shuffled")
    elif re.fullmatch(r"[0-9]+", text):
        kind = ms.StratifiedKFold if classify else ms.KFold
        splitter = kind(_folds(text, text), shuffle=True, random_state=seed)
        made = CvSpec(splitter, f"{text}-fold cross-validation, shuffled")
    if made is None:
        raise InvalidInputError(
            "--cv must be loo, a number of folds (10), repeats x folds (5x10), group, group:5, "
            f"time:5, hblock:3 or purged:5:2:1; got {text!r}."
        )
    if made.needs_groups and group is None:
        raise InvalidInputError(f"--cv {text} needs --group, the column that names the groups.")
    if gap and not made.by_time:
        raise InvalidInputError(f"--gap is for steps in time, --cv time:5; got --cv {text}.")
    return made


def _folds(digits: str, text: str) -> int:
    if int(digits) < 2:
        raise InvalidInputError(f"--cv needs at least 2 folds; got --cv {text}.")
    return int(digits)


def _time_splits(steps: int, gap: int) -> Any:
    from sklearn.model_selection import TimeSeriesSplit

    if steps < 2 or gap < 0:
        raise InvalidInputError(
            f"--cv time:N needs at least 2 steps, and --gap cannot be negative; got {steps} steps "
            f"and a gap of {gap}."
        )
    return TimeSeriesSplit(steps, gap=gap)
