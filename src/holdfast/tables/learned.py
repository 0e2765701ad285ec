"""What a preparation learned, as plain data that a model file may hold, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.exceptions import FileFormatError, InvalidInputError
from holdfast.tables.dates import import_pandas
from holdfast.tables.preparation import TablePreparation, in_order, make_transformer

__all__ = ["Learned", "from_learned", "learned_of"]


@dataclass(frozen=True, eq=False)
class Learned:
    """The plain contents of a fitted `TablePreparation`.

    Attributes
    ----------
    scale, impute, time
        Its parameters.
    names, kinds : ndarray of str
        The columns that are used.
    numbers : ndarray of shape (3, n)
        For each column of numbers the mean, the scale, and the value to fill in.
    levels : list of ndarray of str
        For each category its levels.
    fill : ndarray of str
        For each category the level to fill in; empty if there is none.
    dates : ndarray of shape (4, n)
        For each column of dates the first and the median date, in microseconds since 1970, and
        the mean and the standard deviation of the position, in days.
    parts : list of list of str
        For each column of dates the parts it became.
    formats : dict of str to str
        Formats of dates that were written as text.
    """

    scale: bool
    impute: bool
    time: str | None
    names: NDArray[np.str_]
    kinds: NDArray[np.str_]
    numbers: NDArray[np.float64]
    levels: list[NDArray[np.str_]]
    fill: NDArray[np.str_]
    dates: NDArray[np.float64]
    parts: list[list[str]]
    formats: dict[str, str]


def learned_of(preparation: TablePreparation) -> Learned:
    """Return what a fitted preparation learned."""
    kinds = preparation.kinds_
    steps = preparation.transformer_.named_transformers_
    n_numbers = sum(kind in ("number", "yes/no") for kind in kinds.values())
    numbers = np.full((3, n_numbers), np.nan)
    fill: list[str] = []
    if "numbers" in steps:
        if preparation.scale:
            numbers[0], numbers[1] = steps["numbers"][-1].mean_, steps["numbers"][-1].scale_
        if preparation.impute:
            numbers[2] = steps["numbers"][1].statistics_
    if "categories" in steps and preparation.impute:
        fill = list(steps["categories"][0].statistics_)
    dated = [steps[f"date {name}"] for name, kind in kinds.items() if kind == "date"]
    moments = np.array([[s.origin_, s.fill_] for s in dated], dtype="datetime64[us]")
    spreads = np.array([[s.centre_, s.spread_] for s in dated], dtype=float)
    dates = np.hstack([moments.astype(np.int64).reshape(-1, 2), spreads.reshape(-1, 2)]).T
    return Learned(
        scale=bool(preparation.scale),
        impute=bool(preparation.impute),
        time=preparation.time,
        names=np.array(list(kinds), dtype=str),
        kinds=np.array(list(kinds.values()), dtype=str),
        numbers=numbers,
        levels=[np.array(levels, dtype=str) for levels in preparation.levels().values()],
        fill=np.array(fill, dtype=str),
        dates=dates.astype(float),
        parts=[list(step.parts_) for step in dated],
        formats=dict(preparation.formats_),
    )


def from_learned(learned: Learned) -> TablePreparation:
    """Return the preparation that learned this.

    Notes
    -----
    The transformers are fitted to two rows that stand in for the data, so that whatever this
    version of scikit-learn keeps beside the numbers is there; then the numbers are put in place.
    """
    try:
        return _rebuild(learned)
    except (
        TypeError,
        ValueError,
        IndexError,
        KeyError,
        AttributeError,
        InvalidInputError,
    ) as error:
        raise FileFormatError(
            f"What the file says of the preparation of columns does not fit together: {error}."
        ) from error


def _rebuild(learned: Learned) -> TablePreparation:
    pd = import_pandas("The preparation of columns")
    kinds = dict(zip(learned.names.tolist(), learned.kinds.tolist(), strict=True))
    if kinds != in_order(kinds) or list(kinds) != list(in_order(kinds)):
        raise ValueError("columns out of order")
    if len(kinds) != len(learned.names) or not set(kinds.values()) <= set(_STAND_IN):
        raise ValueError("columns of unknown kinds, or twice the same")
    levels = [list(map(str, found)) for found in learned.levels]
    names = [name for name, kind in kinds.items() if kind == "category"]
    numbers = [name for name, kind in kinds.items() if kind in ("number", "yes/no")]
    if len(names) != len(levels) or not all(levels):
        raise ValueError("levels")
    if learned.numbers.shape != (3, len(numbers)) or learned.numbers.dtype.kind != "f":
        raise ValueError("numbers")
    made = TablePreparation(bool(learned.scale), bool(learned.impute), tuple(names), learned.time)
    made.kinds_, made.columns_, made.left_out_ = kinds, tuple(kinds), {}
    made.formats_ = {str(name): str(format) for name, format in learned.formats.items()}
    made.feature_names_in_ = np.array(list(kinds), dtype=object)
    made.n_features_in_ = len(kinds)
    made.transformer_ = make_transformer(
        kinds, scale=made.scale, impute=made.impute, time=learned.time, levels=levels or "auto"
    )
    known = dict(zip(names, levels, strict=True))
    block = pd.DataFrame(np.array([[0.0], [1.0]]).repeat(len(numbers), axis=1), columns=numbers)
    others = {
        name: [known[name][0]] * 2 if kind == "category" else list(_STAND_IN["date"])
        for name, kind in kinds.items()
        if name not in set(numbers)
    }
    frame = pd.concat([block, pd.DataFrame(others, index=range(2))], axis=1)[list(kinds)]
    for name in names:
        frame[name] = frame[name].astype(object)
    made.transformer_.fit(frame)
    _put_back(made, learned)
    return made


def _put_back(made: TablePreparation, learned: Learned) -> None:
    steps: Any = made.transformer_.named_transformers_
    if "numbers" in steps:
        if made.scale:
            mean, spread = learned.numbers[0], learned.numbers[1]
            if not (np.isfinite(mean).all() and np.isfinite(spread).all() and spread.all()):
                raise ValueError("mean and scale")
            scaler = steps["numbers"][-1]
            scaler.mean_, scaler.scale_, scaler.var_ = mean, spread, spread**2
        if made.impute:
            if not np.isfinite(learned.numbers[2]).all():
                raise ValueError("values to fill in")
            steps["numbers"][1].statistics_ = learned.numbers[2]
    if "categories" in steps and made.impute:
        if learned.fill.shape != (len(learned.levels),):
            raise ValueError("levels to fill in")
        steps["categories"][0].statistics_ = learned.fill.astype(object)
    dated = [name for name, kind in made.kinds_.items() if kind == "date"]
    if learned.dates.shape != (4, len(dated)) or not np.isfinite(learned.dates).all():
        raise ValueError("dates")
    for name, (origin, fill, centre, spread), parts in zip(
        dated, learned.dates.T, learned.parts, strict=True
    ):
        step = steps[f"date {name}"]
        step.origin_, step.fill_ = (np.int64(us).astype("datetime64[us]") for us in (origin, fill))
        step.centre_, step.spread_ = float(centre), float(spread)
        if not parts or not set(parts) <= {"position", "season", "weekday", "hour"} or not spread:
            raise ValueError("parts of dates")
        step.parts_ = tuple(map(str, parts))


_STAND_IN = {
    "number": (0.0, 1.0),
    "yes/no": (0.0, 1.0),
    "category": (),
    "date": (np.datetime64("2000-01-01", "us"), np.datetime64("2000-01-02", "us")),
}
