"""Tables in Parquet, Feather and Arrow files, through pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from holdfast import progress
from holdfast.exceptions import InvalidInputError, MissingDependencyError
from holdfast.tables.sources import BLOCK_ROWS, ColumnBuilder, Source, check_names, file_checksum
from holdfast.tables.table import level_of

__all__ = [
    "ArrowSource",
    "arrow_errors",
    "as_numbers",
    "holds_numbers",
    "import_pyarrow",
    "unreadable",
]


def import_pyarrow(what: str) -> Any:
    """Return the pyarrow package, or say how to get it."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingDependencyError(
            f"{what} needs pyarrow, which is not installed: pip install 'holdfast[frames]'. "
            "CSV files need nothing."
        ) from error
    return pyarrow


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
    """

    def __init__(self, file: IO[bytes], label: str, *, parquet: bool) -> None:
        pa = import_pyarrow(f"Reading {label}")
        self.label = label
        self.checksum = file_checksum(file)
        try:
            if parquet:
                import pyarrow.parquet

                self._parquet = pyarrow.parquet.ParquetFile(file)
                schema, self._rows = self._parquet.schema_arrow, self._parquet.metadata.num_rows
            else:
                self._parquet = None
                self._table = _read_ipc(pa, file)
                schema, self._rows = self._table.schema, self._table.num_rows
                self._table.validate(full=True)
        except arrow_errors(pa) as error:
            raise unreadable(label, error) from error
        self.names = check_names(schema.names, label)
        self.candidates = self.names

    def fill(self, builders: Sequence[ColumnBuilder]) -> None:
        """Read the builders' columns from beginning to end."""
        done = 0
        for batch in self._checked([builder.name for builder in builders]):
            for builder in builders:
                _add(builder, batch.column(batch.schema.get_field_index(builder.name)), self.label)
            done += batch.num_rows
            progress.report(done, self._rows, "reading rows")

    def _checked(self, names: list[str]) -> Iterator[Any]:
        """Yield batches after a look at their offsets and texts, which may point anywhere."""
        errors = arrow_errors(import_pyarrow(f"Reading {self.label}"))
        batches = self._batches(names)
        while True:
            try:
                batch = next(batches, None)
                if batch is not None:
                    batch.validate(full=True)
            except errors as error:
                raise unreadable(self.label, error) from error
            if batch is None:
                return
            yield batch

    def _batches(self, names: list[str]) -> Iterator[Any]:
        if self._parquet is not None:
            yield from self._parquet.iter_batches(batch_size=BLOCK_ROWS, columns=names)
        else:
            yield from self._table.select(names).to_batches(max_chunksize=BLOCK_ROWS)


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


def _add(builder: ColumnBuilder, values: Any, label: str) -> None:
    import pyarrow as pa

    kind = values.type
    if pa.types.is_dictionary(kind):
        values = values.dictionary_decode()
        kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or _is_view(pa, kind):
        builder.add_texts(values.to_pylist())
    elif holds_numbers(kind):
        numbers = as_numbers(values)
        if builder.text:
            builder.add_texts(None if np.isnan(v) else level_of(v) for v in numbers.tolist())
        else:
            builder.add_numbers(numbers)
    else:
        raise InvalidInputError(
            f"{label}: the column {builder.name!r} is of type {kind}; columns must hold numbers, "
            "booleans or text. Convert it (a date to days since a day, for instance) or leave it "
            "out with --drop."
        )


def _is_view(pa: Any, kind: Any) -> bool:
    test = getattr(pa.types, "is_string_view", None)
    return bool(test and test(kind))


def holds_numbers(kind: Any) -> bool:
    """Return whether values of an Arrow type are numbers, booleans or missing."""
    import pyarrow as pa

    tests = ("is_integer", "is_floating", "is_boolean", "is_decimal", "is_null")
    return any(getattr(pa.types, test)(kind) for test in tests)


def as_numbers(values: Any) -> NDArray[np.float64]:
    """Return an Arrow array of numbers as float64, NaN where a value is missing."""
    import pyarrow as pa

    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    # safe=False: integers beyond 2**53 are rounded, as any float64 column would have them.
    array = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.asarray(array, dtype=np.float64)
