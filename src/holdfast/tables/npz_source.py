"""Tables in NumPy's .npz files, read without pickles."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import IO, Any

from numpy.typing import NDArray

from holdfast.data.memory import memory_bytes
from holdfast.data.npz import read_npz
from holdfast.exceptions import FileFormatError, InvalidInputError
from holdfast.tables.sources import (
    Source,
    check_names,
    file_checksum,
    import_pyarrow,
)

__all__ = ["NpzSource"]


class NpzSource(Source):
    """An .npz file: a matrix `X` (named by `feature_names`, else X0, X1, …) and vectors.

    Parameters
    ----------
    file : binary file
        Seekable.
    label : str
        What to call it in messages.

    Notes
    -----
    With `X`, its columns are the features and every vector of the same length is a column that
    can be target, group or weight. Without it, all vectors are columns. Arrays of another length
    or rank are not columns.
    """

    def __init__(self, file: IO[bytes], label: str) -> None:
        self.label = label
        self.checksum = file_checksum(file)
        try:
            arrays: dict[str, NDArray[Any]] = read_npz(file, memory_bytes(None))
        except FileFormatError as error:
            raise InvalidInputError(
                f"{label} cannot be read as .npz without pickles: {error}."
            ) from error
        X = arrays.get("X")
        if X is not None and X.ndim == 2:
            features = _feature_names(arrays, X.shape[1], label)
            columns = {name: X[:, j] for j, name in enumerate(features)}
            rows = X.shape[0]
        else:
            features, columns = (), {}
            rows = max((a.shape[0] for a in arrays.values() if a.ndim == 1), default=0)
        vectors = {n: a for n, a in arrays.items() if a.ndim == 1 and a.shape[0] == rows}
        vectors.pop("feature_names", None)
        self.names = check_names([*features, *vectors], label)
        if not self.names or rows == 0:
            raise InvalidInputError(
                f"{label} has no columns: it needs a matrix X or vectors of one length."
            )
        self.candidates = tuple(features) or self.names
        self._columns = {**columns, **vectors}

    def arrays(self, names: Sequence[str], as_text: Collection[str] = ()) -> dict[str, Any]:
        """Return the named columns as Arrow arrays."""
        pa = import_pyarrow(f"Reading {self.label}")
        found = {}
        for name in names:
            values = self._columns[name]
            if values.dtype.kind not in "biufUM":
                raise InvalidInputError(
                    f"{self.label}: {name!r} has dtype {values.dtype}; columns must hold numbers, "
                    "booleans, text or dates."
                )
            if values.dtype.kind == "U":
                found[name] = pa.array(values.tolist(), pa.string())
            else:
                found[name] = pa.array(values, from_pandas=True)
        return found


def _feature_names(arrays: dict[str, NDArray[Any]], count: int, label: str) -> Sequence[str]:
    names = arrays.get("feature_names")
    if names is None:
        return [f"X{j}" for j in range(count)]
    if names.shape != (count,):
        raise InvalidInputError(
            f"{label}: feature_names has shape {names.shape}; X has {count} columns."
        )
    return [str(name) for name in names]
