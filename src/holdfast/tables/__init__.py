"""Data tables from files: read in blocks, encoded as numbers, written back.

CSV (also gzipped, also from standard input) and NPZ need no extra package; Parquet, Feather and
Arrow files need pyarrow.
"""

from holdfast.exceptions import InvalidInputError
from holdfast.tables.encoder import ColumnCode, Encoded, TableEncoder
from holdfast.tables.opening import Roles, check_columns, open_source
from holdfast.tables.sources import Source
from holdfast.tables.table import Categories, Table
from holdfast.tables.writing import check_writable, write_columns

__all__ = [
    "Categories",
    "ColumnCode",
    "Encoded",
    "Roles",
    "Source",
    "Table",
    "TableEncoder",
    "check_columns",
    "check_writable",
    "open_source",
    "read_columns",
    "write_columns",
]


def read_columns(source: Source, names: tuple[str, ...], as_text: tuple[str, ...] = ()) -> Table:
    """Return the named columns of an open source as a table.

    Parameters
    ----------
    source : Source
        From `open_source`.
    names : tuple of str
        Which columns.
    as_text : tuple of str
        Columns whose values are categories even if they read as numbers.
    """
    if not names:
        raise InvalidInputError(f"{source.label} has no columns.")
    columns = source.read(names, as_text)
    n_rows = len(next(iter(columns.values())))
    if n_rows == 0:
        raise InvalidInputError(f"{source.label} has no rows.")
    return Table(columns, n_rows)
