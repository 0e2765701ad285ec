"""Data sets from a local folder of .npz files, the one named by ``HOLDFAST_DATA``."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from holdfast.exceptions import FileFormatError, InvalidInputError
from reproduce.datasets._dataset import Dataset, Matrix

ENVIRONMENT_VARIABLE = "HOLDFAST_DATA"

# Arrays that have a field of their own in Dataset; all others go to `extra`.
_NAMED = ("X", "X_data", "X_indices", "X_indptr", "X_shape", "y", "groups", "feature_names")


def data_folder(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the folder to look into: the one given, or the one named by ``HOLDFAST_DATA``."""
    given = folder if folder is not None else os.environ.get(ENVIRONMENT_VARIABLE)
    if not given:
        return None
    path = Path(given)
    if not path.is_dir():
        where = "folder" if folder is not None else ENVIRONMENT_VARIABLE
        raise InvalidInputError(
            f"{where} must name an existing folder of .npz files; got {os.fspath(path)!r}. Correct "
            "the path or leave it unset."
        )
    return path


def read_npz(name: str, folder: Path) -> Dataset | None:
    """Return the data set stored in ``folder/name.npz``, or None when there is no such file.

    Notes
    -----
    Layout: ``X`` (m, d), or the four CSR arrays ``X_data``, ``X_indices``, ``X_indptr``,
    ``X_shape``; ``y`` (m,); optionally ``groups``, ``is_train`` (or ``is_test``, its opposite),
    ``feature_names``. No pickled objects: a file that needs them is refused.
    """
    path = folder / f"{name}.npz"
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise FileFormatError(
            f"{path.name} cannot be read as a .npz file without pickled objects ({error}). Replace "
            "the file."
        ) from error
    missing = sorted({"y"} - arrays.keys())
    if not missing and "X" not in arrays:
        missing = sorted({"X_data", "X_indices", "X_indptr", "X_shape"} - arrays.keys())
    if missing:
        raise FileFormatError(
            f"{path.name} lacks the arrays {missing}; it holds {sorted(arrays)}. A data set needs "
            "y, and X or the CSR arrays X_data, X_indices, X_indptr, X_shape."
        )
    names = arrays.get("feature_names")
    is_train = arrays.get("is_train")
    if is_train is None and "is_test" in arrays:
        is_train = ~arrays["is_test"].astype(bool)
    return Dataset(
        name=name,
        X=_matrix(arrays),
        y=arrays["y"],
        source=f"local file {path.name}",
        groups=arrays.get("groups"),
        is_train=is_train,
        feature_names=None if names is None else tuple(str(label) for label in names),
        extra={k: v for k, v in arrays.items() if k not in (*_NAMED, "is_train", "is_test")},
    )


def _matrix(arrays: dict[str, NDArray[Any]]) -> Matrix:
    """Return X as it is stored, dense or CSR."""
    if "X" in arrays:
        return arrays["X"]
    rows, columns = (int(size) for size in arrays["X_shape"])
    parts = (arrays["X_data"], arrays["X_indices"], arrays["X_indptr"])
    return sparse.csr_matrix(parts, shape=(rows, columns))
