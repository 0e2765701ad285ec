"""Results as data frames of the library that the input came from, pandas or polars."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from numpy.typing import NDArray
from sklearn import get_config

from holdfast.exceptions import InvalidInputError, MissingDependencyError

__all__ = ["LIBRARIES", "library_of", "make_frame"]

LIBRARIES = ("pandas", "polars")


def library_of(X: Any) -> str | None:
    """Return the library whose frame X is: "pandas", "polars", or None for anything else."""
    module = type(X).__module__.partition(".")[0]
    return module if module in LIBRARIES and hasattr(X, "columns") else None


def make_frame(columns: Mapping[str, NDArray[Any]], library: str | None) -> Any:
    """Return columns as a frame of a library, "pandas" or "polars".

    None: the one that scikit-learn is configured to give (``set_config(transform_output=...)``),
    else pandas.
    """
    if library is None:
        configured = get_config()["transform_output"]
        library = configured if configured in LIBRARIES else "pandas"
    if library not in LIBRARIES:
        raise InvalidInputError(
            f"library must be one of {', '.join(LIBRARIES)}; got {library!r}.", argument="library"
        )
    try:
        package = import_module(library)
    except ImportError as error:
        raise MissingDependencyError(
            f"to_frame() needs {library}, which is not installed: pip install {library}."
        ) from error
    return package.DataFrame(dict(columns))
