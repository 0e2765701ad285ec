"""pyarrow and pandas: their import, their errors, and Arrow arrays as NumPy's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.data.texts import briefly
from holdfast.exceptions import HoldfastError, InvalidInputError, MissingDependencyError

__all__ = [
    "as_arrow",
    "as_moments",
    "as_numbers",
    "as_texts",
    "holds_numbers",
    "holds_text",
    "import_extra",
    "reading",
    "too_large",
]


def import_extra(module: str, what: str, install: str = "'holdfast[cli]'") -> Any:
    """Return an optional package, or say how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"{what} needs {module}, which is not installed: pip install {install}."
        ) from error


@contextmanager
def reading(label: str) -> Iterator[None]:
    """Turn what pyarrow raises while it reads a file into errors that say what to do."""
    try:
        yield
    except HoldfastError:
        raise
    except MemoryError as error:  # Arrow's own is one as well
        raise too_large(label, error) from error
    except _errors() as error:
        raise InvalidInputError(
            f"{label} cannot be read; it is damaged, or of an unknown kind ({briefly(error)}). "
            "Copy it again, or write it again."
        ) from error


def _errors() -> tuple[type[Exception], ...]:
    pa = import_extra("pyarrow", "Reading")
    return (pa.ArrowException, OSError, ValueError, LookupError, TypeError)


def too_large(label: str, error: MemoryError) -> InvalidInputError:
    """Return the error of a file that needs more memory than there is."""
    return InvalidInputError(
        f"{label} does not fit into memory ({briefly(error)}). Free memory, or read fewer columns. "
        "If the file should be small, it is damaged: copy it again."
    )


def holds_text(kind: Any) -> bool:
    """Return whether values of an Arrow type are text."""
    import pyarrow as pa

    tests = ("is_string", "is_large_string", "is_string_view")
    return any(getattr(pa.types, test)(kind) for test in tests if hasattr(pa.types, test))


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
    if values.type != pa.float64():
        values = values.cast(pa.float64(), safe=False)
    return np.asarray(values.__array__(), dtype=np.float64)


def as_moments(array: Any) -> NDArray[np.datetime64]:
    """Return an Arrow array of dates or moments as datetime64[us], NaT where one is missing."""
    import pyarrow as pa

    # A moment with a zone is kept as the moment in UTC.
    plain = array.cast(pa.timestamp("us", getattr(array.type, "tz", None)), safe=False)
    values = plain.cast(pa.int64()).fill_null(np.iinfo(np.int64).min)
    return np.asarray(values).astype("datetime64[us]")


def as_texts(array: Any) -> Any:
    """Return an Arrow array as text; whole numbers are written without a point."""
    import pyarrow as pa

    if holds_numbers(array.type) and not pa.types.is_integer(array.type):
        array = pa.array(as_numbers(array), from_pandas=True)
        with suppress(pa.ArrowInvalid):  # some are not whole
            array = array.cast(pa.int64())
    texts = array.cast(pa.large_string())  # of any size together
    return texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts


def as_arrow(values: Any) -> Any:
    """Return a column of any objects as an Arrow array; of several types as text."""
    import pyarrow as pa

    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if v is None or v != v else str(v) for v in values], pa.string())
