"""Data tables from files: read, understood, prepared as numbers, written back.

`read_table` reads a file (CSV and its relatives, Parquet, Feather, Arrow, NPZ) and understands its
columns: decimal commas, dates, marks of missing values. `TablePreparation` turns columns into the
matrix that a kernel sees; it is a scikit-learn transformer and can be saved with a model.
The extra ``holdfast[cli]`` brings what it needs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.exceptions import InvalidInputError
from holdfast.tables.opening import Roles, check_columns, open_source
from holdfast.tables.sources import Source
from holdfast.tables.table import Table, as_table, make_table
from holdfast.tables.writing import check_writable, write_columns

if TYPE_CHECKING:
    from holdfast.tables.learned import Learned, from_learned, learned_of
    from holdfast.tables.preparation import TablePreparation, prepare
    from holdfast.tables.time_features import TimeFeatures

__all__ = [
    "Learned",
    "Roles",
    "Source",
    "Table",
    "TablePreparation",
    "TimeFeatures",
    "as_table",
    "check_columns",
    "check_writable",
    "from_learned",
    "learned_of",
    "open_source",
    "prepare",
    "read_columns",
    "read_table",
    "write_columns",
]

# These bring scikit-learn's transformers with them.
_LAZY = {
    "Learned": "learned",
    "TablePreparation": "preparation",
    "TimeFeatures": "time_features",
    "from_learned": "learned",
    "learned_of": "learned",
    "prepare": "preparation",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)


def read_columns(
    source: Source,
    names: Sequence[str],
    as_text: Sequence[str] = (),
    formats: Mapping[str, str] | None = None,
) -> Table:
    """Return the named columns of an open source as a table.

    Parameters
    ----------
    source : Source
        From `open_source`.
    names : sequence of str
        Which columns.
    as_text : sequence of str
        Columns whose values are names even if they read as numbers. Numbers written with leading
        zeros, all of one length, are names without saying so.
    formats : mapping of str to str, optional
        Formats of dates in columns that were seen before.
    """
    if not names:
        raise InvalidInputError(f"{source.label} has no columns.")
    codes = source.codes()
    text = {*as_text, *(name for name in names if name in codes)}
    arrays = source.arrays(names, text)
    if not arrays or not len(next(iter(arrays.values()))):
        raise InvalidInputError(f"{source.label} has no rows.")
    return make_table(arrays, source.marks, as_text=text, formats=formats, place=source.place)


def read_table(path: str | os.PathLike[str], **options: Any) -> Any:
    """Return a file as a pandas frame, its columns understood as the command line does.

    Parameters
    ----------
    path : path
        CSV and its relatives (also gzipped), Parquet, Feather, Arrow or NPZ.
    **options
        Of `open_source`: delimiter, header, decimal, encoding, na.
    """
    with open_source(os.fspath(path), **options) as source:
        return read_columns(source, source.names).frame()
