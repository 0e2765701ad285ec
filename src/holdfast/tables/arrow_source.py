"""Tables in Parquet, Feather and Arrow files, through pyarrow."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import IO, Any

from holdfast import progress
from holdfast.exceptions import InvalidInputError
from holdfast.tables.sources import Source, check_names, file_checksum, import_pyarrow
from holdfast.tables.values import Marks

__all__ = ["ArrowSource", "arrow_errors", "unreadable"]


class ArrowSource(Source):
    """A Parquet, Feather or Arrow IPC file.

    Parameters
    ----------
    file : binary file
        Seekable.
    label : str
        What to call it in messages.
    parquet : bool
        Whether it is Parquet; otherwise Arrow IPC (Feather version 2) or Feather version 1.
    decimal : {".", ","}, optional
        Of numbers that are written as text.
    na : sequence of str
        Further marks of missing values in text.
    """

    def __init__(
        self,
        file: IO[bytes],
        label: str,
        *,
        parquet: bool,
        decimal: str | None = None,
        na: Sequence[str] = (),
    ) -> None:
        pa = import_pyarrow(f"Reading {label}")
        self.label = label
        self.checksum = file_checksum(file)
        self.marks = Marks(decimal, decimal or ".", tuple(na))
        try:
            if parquet:
                import pyarrow.parquet

                self._parquet = pyarrow.parquet.ParquetFile(file)
                schema = self._parquet.schema_arrow
            else:
                self._parquet = None
                self._table = _read_ipc(pa, file)
                schema = self._table.schema
                self._table.validate(full=True)  # offsets in a damaged file may point anywhere
        except arrow_errors(pa) as error:
            raise unreadable(label, error) from error
        self.names = check_names(schema.names, label)
        self.candidates = self.names

    def arrays(self, names: Sequence[str], as_text: Collection[str] = ()) -> dict[str, Any]:
        """Return the named columns as Arrow arrays."""
        import pyarrow as pa

        progress.report(0, 1, "reading")
        try:
            if self._parquet is not None:
                table = self._parquet.read(columns=list(names))
                table.validate(full=True)
            else:
                table = self._table.select(list(names))
        except arrow_errors(pa) as error:
            raise unreadable(self.label, error) from error
        progress.report(1, 1, "reading")
        return {name: table.column(name) for name in names}


def arrow_errors(pa: Any) -> tuple[type[Exception], ...]:
    """Return what pyarrow raises for files that are damaged."""
    return (pa.ArrowException, OSError, ValueError, LookupError, TypeError, MemoryError)


def unreadable(label: str, error: Exception) -> InvalidInputError:
    """Return the error of a file that is damaged, with what pyarrow says about it."""
    told = " ".join(str(error).split())[:200] or type(error).__name__
    return InvalidInputError(
        f"{label} cannot be read; it is damaged, or of a kind that is not known ({told}). Copy it "
        "again, or write it again."
    )


def _read_ipc(pa: Any, file: IO[bytes]) -> Any:
    """Return the table of an Arrow file, stream, or Feather file of either version."""
    import pyarrow.feather
    import pyarrow.ipc

    try:
        return pyarrow.feather.read_table(file, memory_map=False)
    except pa.ArrowInvalid:
        file.seek(0)
        return pyarrow.ipc.open_stream(file).read_all()
