"""Data tables from files: read, understood, prepared as numbers, written back.

`read_table` reads a file (CSV and similar text, Parquet, Feather, Arrow, .xlsx) and understands its
columns: decimal commas, dates, marks of missing values. `TablePreparation` turns columns into the
matrix that a kernel sees; it is a scikit-learn transformer and can be saved with a model. The extra
``holdfast[cli]`` installs what it needs.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from holdfast.tables.kernel_matrix import KernelMatrix, read_kernel_matrix
from holdfast.tables.options import ReadOptions
from holdfast.tables.sources import Source, open_source
from holdfast.tables.table import (
    Roles,
    Table,
    as_table,
    read_columns,
    split_names,
)
from holdfast.tables.writing import check_writable, write_columns

if TYPE_CHECKING:
    from holdfast.tables.learned import Learned
    from holdfast.tables.preparation import TablePreparation

__all__ = [
    "KernelMatrix",
    "Learned",
    "ReadOptions",
    "Roles",
    "Source",
    "Table",
    "TablePreparation",
    "as_table",
    "check_writable",
    "open_source",
    "read_columns",
    "read_kernel_matrix",
    "read_table",
    "split_names",
    "write_columns",
]

# These bring scikit-learn's transformers with them.
_LAZY = {"Learned": "learned", "TablePreparation": "preparation"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)


def read_table(path: str | os.PathLike[str], **options: Any) -> Any:
    """Return a file as a pandas frame, its columns understood as the command line does.

    Parameters
    ----------
    path : path
        CSV and similar text (also gzipped), Parquet, Feather, Arrow or .xlsx.
    **options
        Of `open_source`: delimiter, header, decimal, encoding, na, dayfirst.
    """
    with open_source(os.fspath(path), **options) as source:
        return read_columns(source, source.names).frame()
