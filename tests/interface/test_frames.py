"""Frames out where frames came in."""

import pickle

import numpy as np
import pytest
from sklearn import config_context

from holdfast import KernelRidgeCV

COLUMNS = ["experiment", "row", "target", "alpha", "y", "prediction"]


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    return X, np.sin(X[:, 0])


def fitted(X):
    return KernelRidgeCV(alphas=[0.01, 0.1, 1.0, 10.0], cv=3).fit(X, data()[1])


@pytest.mark.parametrize("name", ["pandas", "polars"])
@pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
def test_the_same_library_comes_back(name):
    library = pytest.importorskip(name)
    X, _ = data()
    frame = library.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    model = fitted(frame)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    found = model.held_out().to_frame()
    assert isinstance(found, library.DataFrame)
    assert list(found.columns) == COLUMNS
    np.testing.assert_array_equal(found["prediction"].to_numpy(), model.held_out().values.ravel())
    assert isinstance(pickle.loads(pickle.dumps(model)).held_out().to_frame(), library.DataFrame)


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
def test_arrays_follow_the_configuration():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    held = fitted(data()[0]).held_out()
    assert isinstance(held.to_frame(), pandas.DataFrame)
    with config_context(transform_output="polars"):
        assert isinstance(held.to_frame(), polars.DataFrame)
    assert isinstance(held.to_frame("polars"), polars.DataFrame)
