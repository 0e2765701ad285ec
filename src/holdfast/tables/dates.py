"""Dates and times as people write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.exceptions import MissingDependencyError

__all__ = ["Dates", "import_pandas", "parse_dates"]

# In the order in which they are tried; where two fit, `parse_dates` decides.
_DAYS = (
    "%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d",
    "%d/%m/%y", "%m/%d/%y", "%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y",
    "%B %d, %Y", "%b %d %Y", "%b %Y", "%B %Y", "%m/%Y",
)  # fmt: skip
_HOURS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
_SHAPE = (
    r"^[0-9]{1,4}[-/. ][0-9A-Za-z]{1,9}[-/. ]|^[0-9]{4}-[0-9]{2}$|"
    r"^[A-Za-z]{3,9}\.? [0-9]|^[0-9]{1,2}/[0-9]{4}$"
)
_SAMPLE = 60
_WORDS = {"%d": "day", "%m": "month", "%b": "month", "%B": "month", "%Y": "year", "%y": "year"}


@dataclass(frozen=True, eq=False)
class Dates:
    """Texts read as dates.

    Attributes
    ----------
    values : ndarray of datetime64[us]
        NaT where a text is no date.
    format : str
        As `pandas.to_datetime` understands it.
    notes : tuple of str
        The order of day, month and year.
    """

    values: NDArray[np.datetime64]
    format: str
    notes: tuple[str, ...]

    @property
    def fine(self) -> NDArray[np.bool_]:
        """Where a text is a date."""
        return np.asarray(~np.isnat(self.values))


def import_pandas(what: str) -> Any:
    """Return the pandas package, or say how to get it."""
    try:
        import pandas
    except ImportError as error:
        raise MissingDependencyError(
            f"{what} needs pandas, which is not installed: pip install 'holdfast[cli]'."
        ) from error
    return pandas


def parse_dates(
    texts: Any, rows: NDArray[np.int64], format: str | None = None, enough: float = 0.9
) -> Dates | None:
    """Return texts as dates; None unless most of them are.

    Parameters
    ----------
    texts : Arrow array of strings
        Different texts.
    rows : ndarray of int
        For each row of the table, which text; a negative number where there is none.
    format : str, optional
        The format that was found before, for new rows of a known column.
    enough : float
        The share of texts that must be dates.
    """
    import pyarrow.compute as pc

    shaped = pc.match_substring_regex(texts, _SHAPE)
    if not len(texts) or pc.sum(shaped).as_py() < enough * len(texts):
        return None
    if format is not None and (found := _read(texts, format, enough)) is not None:
        return found
    part = texts.take(np.linspace(0, len(texts) - 1, min(_SAMPLE, len(texts))).astype(int))
    fitting = [
        found
        for format in ("ISO8601", *(day + hour for hour in _HOURS for day in _DAYS))
        if _read(part, format, enough) is not None
        and (found := _read(texts, format, enough)) is not None
    ]
    if not fitting:
        return None
    most = max(int(found.fine.sum()) for found in fitting)
    fitting = [found for found in fitting if int(found.fine.sum()) == most]
    # Files are often in the order of time, and only one order of day and month shows it.
    ordered = [found for found in fitting if _in_order(found.values[rows[rows >= 0]])]
    chosen = (ordered or fitting)[0]
    notes = _notes(chosen.format)
    other = next((f for f in fitting if _order(f.format) != _order(chosen.format)), None)
    if other is not None and not ordered:
        if "/" in chosen.format:  # most files with strokes come from where the month is first
            month_first = [f for f in fitting if f.format.startswith("%m")]
            other, chosen = chosen, (month_first or [chosen])[0]
            notes = _notes(chosen.format)
        notes = (*notes, f"{' '.join(_order(other.format))} would fit as well")
    return Dates(chosen.values, chosen.format, notes)


def _read(texts: Any, format: str, enough: float) -> Dates | None:
    pd = import_pandas("Reading dates")
    found = pd.to_datetime(
        pd.Series(texts.to_pylist(), dtype=object), format=format, errors="coerce", utc=True
    )
    values = found.dt.tz_localize(None).to_numpy(dtype="datetime64[us]")
    # %Y also takes 24 for the year 24.
    years = values.astype("datetime64[Y]").astype(int) + 1970
    values = np.where((years > 1000) & (years < 3000), values, np.datetime64("NaT", "us"))
    dates = Dates(values, format, ())
    return dates if dates.fine.sum() >= max(1, enough * len(texts)) else None


def _in_order(values: NDArray[np.datetime64]) -> bool:
    steps = np.diff(values[~np.isnat(values)].astype(np.int64))
    return bool(steps.size > 1 and ((steps >= 0).all() or (steps <= 0).all()))


def _order(format: str) -> tuple[str, ...]:
    return tuple(w for i in range(len(format) - 1) if (w := _WORDS.get(format[i : i + 2])))


def _notes(format: str) -> tuple[str, ...]:
    return () if format == "ISO8601" else (f"read as {' '.join(_order(format))}",)
