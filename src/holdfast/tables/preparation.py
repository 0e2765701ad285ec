"""From a table to the matrix a kernel sees, learned once and repeated for new rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted

from holdfast.exceptions import HoldfastWarning, InvalidInputError
from holdfast.tables.table import Table, as_table
from holdfast.tables.time_features import TimeFeatures, parts_of
from holdfast.tables.values import Reading

__all__ = ["TablePreparation", "level_name", "prepare"]

# More levels than this are an identifier, not a category.
_MAX_LEVELS = 1000
# What pandas writes an index as.
_INDEX_NAMES = ("", "Unnamed: 0", "index", "__index_level_0__")
_NUMBERS = ("number", "yes/no")


def level_name(column: str, level: object) -> str:
    """Return the name of the feature of one level."""
    return f"{column}={level}"


class TablePreparation(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # no types
    """Turns the columns of a table into a matrix of numbers, as the command line does.

    Numbers are centred and scaled, names become one 0/1 feature per level, dates become a few
    numbers (`TimeFeatures`). Inside is a `sklearn.compose.ColumnTransformer` of scikit-learn's own
    transformers; what it learned is saved with a model of the command line.

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
        The column that puts rows in order; its position in time is then no feature.
    keep : bool, default False
        Whether a column that cannot be a feature (an identifier, no values) is an error; otherwise
        it is left out and `left_out_` says why.

    Attributes
    ----------
    transformer_ : ColumnTransformer
        Fitted; takes a pandas frame of `columns_` as `Table.frame` gives it.
    columns_ : tuple of str
        The columns that are used.
    kinds_ : dict of str to str
        Their kinds: "number", "yes/no", "category" or "date".
    left_out_ : dict of str to str
        Columns that are not used, and why.
    formats_ : dict of str to str
        Formats of dates that were written as text.

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
    ) -> None:
        self.scale = scale
        self.impute = impute
        self.categorical = categorical
        self.time = time
        self.keep = keep

    def fit(self, X: Any, y: Any = None) -> TablePreparation:
        """Learn the preparation of a table.

        Parameters
        ----------
        X : DataFrame of pandas or polars, pyarrow.Table, mapping of columns, or Table
            The columns that may be features.
        y : None
            Not used.
        """
        table = as_table(X, as_text=self.categorical)
        self.left_out_ = self._unfit(table)
        used = [name for name in table.readings if name not in self.left_out_]
        if self.time in used and len(used) > 1 and _only_position(table.readings[self.time]):
            self.left_out_[self.time] = "puts rows in order, and its position is no feature"
            used.remove(self.time)
        if not used:
            raise InvalidInputError("No column is left to be a feature.")
        self.feature_names_in_ = np.array(list(table.readings), dtype=object)
        self.n_features_in_ = len(table.readings)
        self.kinds_ = in_order({name: table.readings[name].kind for name in used})
        self.formats_ = {n: f for n in used if (f := table.readings[n].format) is not None}
        if not self.impute:
            refuse_missing(table, used)
        self.transformer_ = make_transformer(
            self.kinds_, scale=bool(self.scale), impute=bool(self.impute), time=self.time
        )
        self.columns_ = tuple(self.kinds_)
        self.transformer_.fit(table.frame(self.columns_))
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
            refuse_missing(table, self.columns_)
        unseen = self.unseen(table)
        if unseen:
            told = ", ".join(f"{name!r}: {count:,} rows" for name, count in unseen.items())
            warnings.warn(
                f"Levels that were not in the training data are encoded as all zeros ({told}).",
                HoldfastWarning,
                stacklevel=2,
            )
        return np.asarray(self.transformer_.transform(table.frame(self.columns_)), dtype=float)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the names of the features, one per column of the matrix."""
        check_is_fitted(self)
        return np.asarray(self.transformer_.get_feature_names_out(), dtype=object)

    @property
    def categories_(self) -> tuple[str, ...]:
        """The columns that must be read as text."""
        return tuple(name for name, kind in self.kinds_.items() if kind == "category")

    def table_of(self, X: Any) -> Table:
        """Return rows as a table whose columns are read as those of `fit` were."""
        table = as_table(X, as_text=self.categories_, formats=self.formats_)
        lacking = [name for name in self.columns_ if name not in table.readings]
        if lacking:
            raise InvalidInputError(
                f"The table lacks columns that were there before: {', '.join(map(repr, lacking))}."
            )
        return table

    def unseen(self, table: Table) -> dict[str, int]:
        """Return how many rows have levels that were not there before, by column."""
        found = {}
        for name, levels in self.levels().items():
            reading = table.readings[name]
            known = set(levels)
            new = np.array([level not in known for level in reading.levels] + [False])
            if count := int(new[reading.values].sum()):
                found[name] = count
        return found

    def levels(self) -> dict[str, list[str]]:
        """Return the levels of each category."""
        if not self.categories_:
            return {}
        encoder = self.transformer_.named_transformers_["categories"][-1]
        lists = (levels.tolist() for levels in encoder.categories_)
        return dict(zip(self.categories_, lists, strict=True))

    def features_of(self) -> dict[str, tuple[str, ...]]:
        """Return, for each column, the features that it became."""
        names = self.get_feature_names_out().tolist()
        made: dict[str, tuple[str, ...]] = {}
        at = 0
        levels = self.levels()
        steps = self.transformer_.named_transformers_
        for column, kind in self.kinds_.items():
            width = len(levels[column]) if kind == "category" else 1
            if kind == "date":
                width = len(steps[f"date {column}"].get_feature_names_out())
            made[column] = tuple(names[at : at + width])
            at += width
        return made

    def _unfit(self, table: Table) -> dict[str, str]:
        """Return the columns that cannot be features, and why; complain instead if asked to."""
        found: dict[str, str] = {}
        for name, reading in table.readings.items():
            if reading.trouble:
                raise InvalidInputError(f"The column {name!r} {reading.trouble}.")
            if reading.kind == "empty" or reading.missing == table.n_rows:
                found[name] = "has no values at all"
            elif reading.kind == "category":
                n = len(reading.levels)
                if n > min(_MAX_LEVELS, max(20, table.n_rows // 2)):
                    shown = ", ".join(map(repr, reading.levels[:3]))
                    found[name] = (
                        f"is text with {n:,} different values in {table.n_rows:,} rows ({shown}, …)"
                        ", an identifier or free text"
                    )
            elif reading.kind == "number":
                if name in _INDEX_NAMES and is_count(reading.values):
                    found[name] = "counts the rows: an index that was written with the data"
                elif infinite := int(np.isinf(reading.values).sum()):
                    raise InvalidInputError(
                        f"The column {name!r} has {infinite:,} infinite values; leave those rows "
                        "out or drop the column."
                    )
        if self.keep and found:
            name, why = next(iter(found.items()))
            raise InvalidInputError(f"The column {name!r} {why}; leave it out of the features.")
        return found

    def _check_kinds(self, table: Table) -> None:
        for name, kind in self.kinds_.items():
            reading = table.readings[name]
            if reading.trouble and kind in _NUMBERS:
                raise InvalidInputError(f"The column {name!r} {reading.trouble}.")
            same = reading.kind == kind or {reading.kind, kind} <= {*_NUMBERS, "empty"}
            if not same and reading.kind == "empty" and self.impute:
                raise InvalidInputError(
                    f"The column {name!r} held {_PLURAL[kind]} when the model was fitted; now it "
                    "has no values at all."
                )
            if not same:
                held = _PLURAL[reading.kind]
                if reading.kind == "category":
                    held = f"text such as {next(iter(reading.levels), '')!r}"
                raise InvalidInputError(
                    f"The column {name!r} held {_PLURAL[kind]} when the model was fitted; now it "
                    f"holds {held}."
                )
            if kind in _NUMBERS and np.isinf(reading.values).any():
                raise InvalidInputError(f"The column {name!r} has infinite values.")


_PLURAL = {
    "number": "numbers",
    "yes/no": "numbers",
    "category": "text",
    "date": "dates",
    "empty": "no values",
}


def prepare(X: Any, **options: Any) -> tuple[NDArray[np.float64], TablePreparation]:
    """Return the matrix of a table and the preparation that was learned on it.

    Parameters
    ----------
    X : DataFrame of pandas or polars, pyarrow.Table, or mapping of columns
        The columns that may be features.
    **options
        Of `TablePreparation`.
    """
    preparation = TablePreparation(**options)
    table = as_table(X, as_text=preparation.categorical)
    return preparation.fit(table).transform(table), preparation


def make_transformer(
    kinds: dict[str, str],
    *,
    scale: bool,
    impute: bool,
    time: str | None = None,
    levels: Sequence[Sequence[str]] | str = "auto",
) -> ColumnTransformer:
    """Return the unfitted transformer of columns of these kinds.

    Parameters
    ----------
    kinds : dict of str to str
        The columns: numbers first, then categories, then dates.
    scale, impute, time
        As in `TablePreparation`.
    levels : list of list of str
        Of the categories, if they are known.
    """
    # By their places: scikit-learn looks names up one by one, which takes minutes for 100,000.
    numbers = sum(kind in _NUMBERS for kind in kinds.values())
    names = sum(kind == "category" for kind in kinds.values())
    steps: list[tuple[str, Any, Any]] = []
    if numbers:
        parts: list[Any] = [FunctionTransformer(_matrix, feature_names_out="one-to-one")]
        parts += [SimpleImputer(strategy="median")] if impute else []
        parts += [StandardScaler()] if scale else []
        steps.append(("numbers", make_pipeline(*parts), slice(0, numbers)))
    if names:
        fill = [SimpleImputer(strategy="most_frequent")] if impute else []
        encoder = OneHotEncoder(
            categories=levels,
            handle_unknown="ignore",
            sparse_output=False,
            feature_name_combiner=level_name,
        )
        steps.append(("categories", make_pipeline(*fill, encoder), slice(numbers, numbers + names)))
    for place, (name, kind) in enumerate(kinds.items()):
        if kind == "date":
            step = TimeFeatures(position=name != time, scale=scale)
            steps.append((f"date {name}", step, [place]))
    return ColumnTransformer(steps, verbose_feature_names_out=False)


def in_order(kinds: dict[str, str]) -> dict[str, str]:
    """Return columns with numbers first, then categories, then dates."""
    places = {"number": 0, "yes/no": 0, "category": 1, "date": 2}
    return dict(sorted(kinds.items(), key=lambda item: places[item[1]]))


def _matrix(X: Any) -> NDArray[np.float64]:
    """Return a frame of numbers as a matrix, once, instead of at every step."""
    return np.asarray(X, dtype=np.float64)


def _only_position(reading: Reading) -> bool:
    """Return whether a column says nothing but where in time a row stands."""
    if reading.kind == "date":
        return parts_of(reading.values[~np.isnat(reading.values)]) == ("position",)
    return reading.kind == "number"


def is_count(values: NDArray[np.float64]) -> bool:
    """Return whether numbers count the rows: whole, each one more than the last."""
    return bool(len(values) > 2 and np.array_equal(values, values[0] + np.arange(len(values))))


def refuse_missing(table: Table, names: Sequence[str]) -> None:
    """Raise if values are missing in any of the columns."""
    counts = table.missing(names)
    if counts:
        shown = list(counts.items())[:12]
        told = ", ".join(f"{name!r}: {count:,}" for name, count in shown)
        more = f" and {len(counts) - 12:,} more columns" if len(counts) > 12 else ""
        raise InvalidInputError(
            f"Values are missing (of {table.n_rows:,} rows; {told}{more}). Say impute=True to fill "
            "in the median or the most frequent level, leave columns out with drop=[...], or "
            "remove those rows from the file."
        )
