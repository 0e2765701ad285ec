"""A column of dates as a few numbers: position in time, season, weekday, hour."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from holdfast.exceptions import InvalidInputError

__all__ = ["PARTS", "TimeFeatures", "parts_of"]

#: What a date can become, and how long its circle is, in days; the position has none.
PARTS = {"position": None, "season": 365.2425, "weekday": 7.0, "hour": 1.0}
_DAY_US = 86_400_000_000
# The first day is a Monday; seasons begin in January.
_ORIGINS = {
    "season": np.datetime64("2000-01-01", "us"),
    "weekday": np.datetime64("2001-01-01", "us"),
}


class TimeFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # no types
    """Turns one column of dates into a few numbers.

    Parameters
    ----------
    position : bool, default True
        Whether the position in time is among them. A split in time tests positions that the model
        has never seen, which a kernel cannot do much with.
    scale : bool, default True
        Whether the position gets mean 0 and standard deviation 1; otherwise it is in days since the
        first date.

    Attributes
    ----------
    parts_ : tuple of str
        Of "position", "season", "weekday" and "hour", those that the data suggest: a season where
        they span most of a year, weekdays where they span two weeks and fall on several, hours
        where there are any.
    origin_ : datetime64
        The first date.
    centre_, spread_ : float
        Mean and standard deviation of the position, in days.
    fill_ : datetime64
        The median date, which stands in for missing ones.

    Notes
    -----
    Season, weekday and hour are places on a circle, a sine and a cosine each, of length √2: two
    dates then lie as far apart on average as two values of two standardised columns. Sunday is
    next to Monday and December to January.
    """

    def __init__(self, position: bool = True, scale: bool = True) -> None:
        self.position = position
        self.scale = scale

    def fit(self, X: Any, y: Any = None) -> TimeFeatures:
        """Learn the origin, the scale and which parts the dates suggest."""
        values = _column(X)
        known = values[~np.isnat(values)]
        if not known.size:
            raise InvalidInputError("A column of dates has no values at all; drop it.")
        self.origin_ = known.min()
        self.fill_ = np.sort(known)[(known.size - 1) // 2]
        days = _days(np.where(np.isnat(values), self.fill_, values) - self.origin_)
        self.centre_, self.spread_ = float(days.mean()), float(days.std()) or 1.0
        parts = parts_of(known)
        self.parts_ = parts if self.position else (parts[1:] or parts)
        names = getattr(X, "columns", None)
        self.feature_names_in_ = np.array(["date"] if names is None else list(names), dtype=object)
        self.n_features_in_ = 1
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the features, shape (m, number of features)."""
        check_is_fitted(self)
        values = _column(X)
        values = np.where(np.isnat(values), self.fill_, values)
        columns = []
        for part in self.parts_:
            length = PARTS[part]
            if length is None:
                days = _days(values - self.origin_)
                columns.append((days - self.centre_) / self.spread_ if self.scale else days)
                continue
            origin = _ORIGINS.get(
                part, self.origin_.astype("datetime64[D]").astype("datetime64[us]")
            )
            angle = 2 * np.pi * _days(values - origin) / length
            columns += [np.sqrt(2) * np.sin(angle), np.sqrt(2) * np.cos(angle)]
        return np.column_stack(columns)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the names of the features."""
        check_is_fitted(self)
        given = self.feature_names_in_ if input_features is None else np.asarray(input_features)
        name = str(given[0])
        made = []
        for part in self.parts_:
            sides = ("",) if PARTS[part] is None else (" sin", " cos")
            made += [f"{name} {part}{side}" for side in sides]
        return np.array(made, dtype=object)


def parts_of(dates: NDArray[np.datetime64]) -> tuple[str, ...]:
    """Return which numbers a column of dates suggests; the position always."""
    different = np.unique(dates)
    days = np.unique(different.astype("datetime64[D]"))
    span = float(_days(different[-1:] - different[:1])[0])
    parts = ["position"]
    months = different.astype("datetime64[M]")
    in_year = len(np.unique(months.astype(int) % 12))
    if span >= 350 and in_year >= 4:
        parts.append("season")
    of_month = len(np.unique((days - days.astype("datetime64[M]")).astype(int)))
    weekdays = len(np.unique(days.astype(int) % 7))
    if span >= 13 and len(days) >= 10 and weekdays >= 2 and of_month >= 5:
        parts.append("weekday")
    hours = np.unique((different - different.astype("datetime64[D]")).astype(np.int64))
    if len(hours) >= 3 and span >= 1.5:
        parts.append("hour")
    return tuple(parts)


def _column(X: Any) -> NDArray[np.datetime64]:
    values = np.asarray(X)
    if values.ndim == 2:
        if values.shape[1] != 1:
            raise InvalidInputError(f"TimeFeatures takes one column; got {values.shape[1]}.")
        values = values[:, 0]
    return values.astype("datetime64[us]")


def _days(spans: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(spans.astype(np.int64) / _DAY_US, dtype=np.float64)
