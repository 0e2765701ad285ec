"""From a table to the matrix a kernel sees, learned once and repeated for new rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from holdfast.data.texts import quoted
from holdfast.exceptions import HoldfastWarning, InvalidInputError
from holdfast.tables.learned import Category, Dates, Learned, Numbers, date_parts
from holdfast.tables.options import ReadOptions
from holdfast.tables.sources import Source
from holdfast.tables.table import Table, as_table, check_columns, read_columns
from holdfast.tables.values import Reading

__all__ = ["TablePreparation"]

# More levels than this are an identifier, not a category.
_MAX_LEVELS = 1000
# What pandas writes an index as.
_INDEX_NAMES = ("", "Unnamed: 0", "index", "__index_level_0__")
_NUMBERS = ("number", "yes/no")
_HELD = {"number": "numbers", "yes/no": "numbers", "category": "text", "date": "dates"}
# Different whole numbers are row numbers from so many rows on, if at least two of three numbers
# between the smallest and the largest occur, unless they are years.
_FEWEST_ROWS, _DENSE, _YEARS = 20, 1.5, (1800, 2100)


class TablePreparation(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # no types
    """Turns the columns of a table into a matrix of numbers, as the command line does.

    Numbers are centred and scaled, names become one 0/1 feature per level, dates become a few
    numbers (position in time, season, weekday, hour). Numbers come first, then names, then dates.

    Parameters
    ----------
    scale : bool, default True
        Whether numbers get mean 0 and standard deviation 1.
    impute : bool, default False
        Whether missing values are filled in: numbers and dates by the median, categories by the
        most frequent level. Otherwise they are refused.
    categorical : sequence of str
        Columns of numbers that are names, such as codes.
    time : str, optional
        The column that puts rows in order; its position in time is then not a feature.
    keep : bool, default False
        Whether every column is to be a feature: row numbers are then used, and a column that cannot
        be one (free text, no values) is an error. Otherwise such columns are left out and
        `left_out_` says why.
    dayfirst : bool, optional
        Whether 03/04/2021 is the third of April or the fourth of March, for frames of texts. If the
        texts are ambiguous and it is None, there is an error.

    Attributes
    ----------
    learned_ : Learned
        What was learned, as plain data; saved with a model of the command line.
    left_out_ : dict of str to str
        Columns that are not used, and why.

    Examples
    --------
    >>> from holdfast.tables import TablePreparation
    >>> table = {"dose": ["0,5", "1,5", "2,5"], "sex": ["f", "m", "f"]}
    >>> preparation = TablePreparation(scale=False).fit(table)
    >>> list(preparation.get_feature_names_out())
    ['dose', 'sex=f', 'sex=m']
    >>> preparation.transform(table)
    array([[0.5, 1. , 0. ],
           [1.5, 0. , 1. ],
           [2.5, 1. , 0. ]])

    Notes
    -----
    Categories are not scaled: two different levels lie as far apart (√2) as two numbers typically
    do. Levels, scale and values to fill in are learned on the rows given to `fit`; in a pipeline
    that is cross-validated by scikit-learn they are learned inside the folds.
    """

    def __init__(
        self,
        scale: bool = True,
        impute: bool = False,
        categorical: Sequence[str] = (),
        time: str | None = None,
        keep: bool = False,
        dayfirst: bool | None = None,
    ) -> None:
        self.scale = scale
        self.impute = impute
        self.categorical = categorical
        self.time = time
        self.keep = keep
        self.dayfirst = dayfirst

    @classmethod
    def from_learned(cls, learned: Learned) -> TablePreparation:
        """Return the fitted preparation that learned this."""
        made = cls(
            learned.scale,
            learned.impute,
            tuple(learned.categories),
            learned.time,
            dayfirst=learned.options.dayfirst,
        )
        made.learned_, made.left_out_ = learned, {}
        made.feature_names_in_ = np.array(list(learned.kinds), dtype=object)
        made.n_features_in_ = len(learned.kinds)
        return made

    def fit(self, X: Any, y: Any = None) -> TablePreparation:
        """Learn the preparation of a table.

        Parameters
        ----------
        X : DataFrame of pandas or polars, pyarrow.Table, mapping of columns, or Table
            The columns that may be features.
        y : None
            Not used.
        """
        options = ReadOptions(dayfirst=self.dayfirst)
        table = as_table(X, as_text=self.categorical, options=options)
        self.left_out_ = self._left_out(table)
        used = {n: r for n, r in table.readings.items() if n not in self.left_out_}
        if not used:
            whys = "; ".join(f"{quoted(n)} {why}" for n, why in list(self.left_out_.items())[:3])
            raise InvalidInputError(f"No column is left to be a feature: {whys or 'none'}.")
        if not self.impute:
            _refuse_missing(table, list(used))
        impute, scale = bool(self.impute), bool(self.scale)
        numbers = tuple(name for name, reading in used.items() if reading.kind in _NUMBERS)
        self.learned_ = Learned(
            scale=scale,
            impute=impute,
            time=self.time,
            numbers=Numbers.learn(table, numbers, scale, impute),
            categories={
                n: Category.learn(r, impute) for n, r in used.items() if r.kind == "category"
            },
            dates={
                name: Dates.learn(reading, position=name != self.time, scale=scale)
                for name, reading in used.items()
                if reading.kind == "date"
            },
            formats={n: r.format for n, r in used.items() if r.format is not None},
            units={n: r.unit for n, r in used.items() if r.unit is not None},
            options=table.options,
        )
        self.feature_names_in_ = np.array(list(table.readings), dtype=object)
        self.n_features_in_ = len(table.readings)
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the matrix of a table that has the learned columns.

        Warns
        -----
        HoldfastWarning
            When levels occur that were not there before.
        """
        check_is_fitted(self)
        table = self.table_of(X)
        self._check_kinds(table)
        if not self.impute:
            _refuse_missing(table, self.columns_)
        if unseen := self.learned_.unseen(table):
            told = ", ".join(f"{name!r}: {count:,} rows" for name, count in unseen.items())
            warnings.warn(
                f"Levels that were not in the training data are encoded as all zeros ({told}).",
                HoldfastWarning,
                stacklevel=2,
            )
        return self.learned_.matrix(table)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the names of the features, one per column of the matrix."""
        check_is_fitted(self)
        names = [name for made in self.features_of().values() for name in made]
        return np.array(names, dtype=object)

    @property
    def columns_(self) -> tuple[str, ...]:
        """The columns that are used."""
        return tuple(self.kinds_)

    @property
    def kinds_(self) -> dict[str, str]:
        """The columns that are used, and what they hold: "number", "category" or "date"."""
        return self.learned_.kinds

    def features_of(self) -> dict[str, tuple[str, ...]]:
        """Return, for each column, the features that it became."""
        return self.learned_.features()

    def table_of(self, X: Any) -> Table:
        """Return rows as a table whose columns are read as those of `fit` were."""
        learned = self.learned_
        table = as_table(
            X, as_text=learned.categories, formats=learned.formats, options=learned.options
        )
        check_columns(self.columns_, table.readings, "The table")
        return table

    def read(self, source: Source, more: Sequence[str] = ()) -> Table:
        """Return the columns of a file, and some more, read as those of `fit` were."""
        names = dict.fromkeys([*self.columns_, *more])
        check_columns(names, source.names, source.label)
        return read_columns(source, tuple(names), self.learned_.categories, self.learned_.formats)

    def _left_out(self, table: Table) -> dict[str, str]:
        """Return the columns that are not to be features, and why; raise if all must be."""
        found = {n: why for n, r in table.readings.items() if (why := _unfit(n, r, table.n_rows))}
        if self.keep and found:
            name, why = next(iter(found.items()))
            raise InvalidInputError(f"The column {name!r} {why}; leave it out of the features.")
        rest = [name for name in table.readings if name not in found]
        if self.time in rest and len(rest) > 1 and _only_position(table.readings[self.time]):
            found[self.time] = "puts rows in order; its position is not a feature"
            rest.remove(self.time)
        counts = {
            name: f"numbers the rows ({values.min():.0f} to {values.max():.0f}), which says "
            "nothing about new ones; name it among the features to use it"
            for name in rest
            if not self.keep and table.readings[name].kind == "number" and name != self.time
            if is_row_number(name, values := table.readings[name].values)
        }
        # A count that is all there is, such as the steps of a series, is better than nothing.
        return {**found, **counts} if len(counts) < len(rest) else found

    def _check_kinds(self, table: Table) -> None:
        """Raise unless the columns hold what they held when the preparation was learned."""
        for name, kind in self.kinds_.items():
            reading = table.readings[name]
            if kind != "category":
                reading.refuse_faults(f"The column {name!r}")
            if reading.kind == "empty":
                continue  # filled in, or refused as missing
            held, now = _HELD[kind], _HELD[reading.kind]
            unit = self.learned_.units.get(name)
            if unit and reading.unit and unit != reading.unit:
                held, now = f"numbers in {unit}", f"numbers in {reading.unit}"
            if held != now:
                example = f" such as {quoted(reading.levels[0])}" if reading.levels else ""
                raise InvalidInputError(
                    f"The column {name!r} held {held} when the model was fitted; now it holds {now}"
                    f"{example}."
                )


def _unfit(name: str, reading: Reading, n_rows: int) -> str:
    """Return why a column cannot be a feature; "" if it can; raise if it needs correcting."""
    reading.refuse_faults(f"The column {name!r}")
    if reading.kind == "empty" or reading.missing == n_rows:
        return "has no values at all"
    n = len(reading.levels)
    if n > min(_MAX_LEVELS, max(20, n_rows // 2)):
        shown = ", ".join(map(quoted, reading.levels[:3]))
        return (
            f"is text with {n:,} different values in {n_rows:,} rows ({shown}, …), an identifier "
            "or free text"
        )
    return ""


def _only_position(reading: Reading) -> bool:
    """Return whether a column says nothing but where in time a row stands."""
    if reading.kind == "date":
        return date_parts(reading.values[~reading.gaps()]) == ("position",)
    return reading.kind == "number"


def is_row_number(name: str, values: NDArray[np.float64]) -> bool:
    """Return whether numbers count the rows: whole, each once, and few left out.

    Few rows, and years, may count by chance, unless the name is that of an index. Some numbers are
    missing where rows were left out.
    """
    m = len(values)
    low, high = (values.min(), values.max()) if m else (0.0, 0.0)
    if m < 3 or not high - low < _DENSE * m:  # also NaN
        return False
    if not np.array_equal(values, np.floor(values)) or len(np.unique(values)) < m:
        return False
    years = _YEARS[0] <= low and high <= _YEARS[1]
    return name in _INDEX_NAMES or (m >= _FEWEST_ROWS and not years)


def _refuse_missing(table: Table, names: Sequence[str]) -> None:
    """Raise if values are missing in any of the columns."""
    counts = table.missing(names)
    if counts:
        shown = list(counts.items())[:12]
        told = ", ".join(f"{name!r}: {count:,}" for name, count in shown)
        more = f" and {len(counts) - 12:,} more columns" if len(counts) > 12 else ""
        raise InvalidInputError(
            f"Values are missing (of {table.n_rows:,} rows; {told}{more}).",
            remedies=("impute", "drop"),
            advice="Say impute=True to fill in the median or the most frequent level, leave "
            "columns out with drop=[...], or remove those rows from the file.",
        )
