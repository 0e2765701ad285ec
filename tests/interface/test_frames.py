"""Frames of pandas and polars: names are checked, and frames come out where frames came in."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.model_selection import GroupKFold

from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.exceptions import InvalidInputError

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")

M, NAMES = 50, ["a", "b", "c", "d"]
COLUMNS = ["experiment", "row", "target", "alpha", "y", "prediction"]
RNG = np.random.default_rng(1)
X = RNG.normal(size=(M, 4))
Y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * RNG.normal(size=M)
WEIGHTS, GROUPS = RNG.integers(1, 4, size=M).astype(float), np.arange(M) % 5


def model(**options):
    return KernelRidgeCV(**{"alphas": np.logspace(-3, 2, 6), "cv": 5, **options})


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_frames(library):
    frame, series = library.DataFrame, library.Series
    table = frame({name: X[:, j] for j, name in enumerate(NAMES)})
    fitted = model(cv=GroupKFold(5)).fit(
        table, series(Y), sample_weight=series(WEIGHTS), groups=series(GROUPS)
    )
    assert fitted.feature_names_in_.tolist() == NAMES
    assert fitted.n_features_in_ == 4
    plain = model(cv=GroupKFold(5)).fit(X, Y, sample_weight=WEIGHTS, groups=GROUPS)
    np.testing.assert_array_equal(fitted.predict(table), plain.predict(X))
    found = fitted.held_out()
    np.testing.assert_array_equal(found.values, plain.held_out().values)
    shown = found.to_frame()
    assert isinstance(shown, frame)
    assert list(shown.columns) == COLUMNS
    np.testing.assert_array_equal(shown["prediction"].to_numpy(), found.values.ravel())
    assert isinstance(pickle.loads(pickle.dumps(fitted)).held_out().to_frame(), frame)
    upper = frame({name.upper(): X[:, j] for j, name in enumerate(NAMES)})
    for wrong in (table[NAMES[::-1]], upper, table[NAMES[:3]]):
        with pytest.raises(InvalidInputError):
            fitted.predict(wrong)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        fitted.predict(X)
    fitted.fit(X, Y, groups=GROUPS)
    assert not hasattr(fitted, "feature_names_in_")


def test_arrays_follow_the_configuration():
    held = model().fit(X, Y).held_out()
    assert isinstance(held.to_frame(), pd.DataFrame)
    with config_context(transform_output="polars"):
        assert isinstance(held.to_frame(), pl.DataFrame)
    assert isinstance(held.to_frame("polars"), pl.DataFrame)


def test_targets_in_frames():
    both = np.c_[Y, X[:, 3] ** 2]
    fitted = model().fit(X, pd.DataFrame(both, columns=["u", "v"]))
    np.testing.assert_array_equal(fitted.predict(X), model().fit(X, both).predict(X))
    labels = pd.Series(np.where(Y > 0, "up", "down"), index=np.arange(M)[::-1])
    classes = KernelRidgeClassifierCV(alphas=[0.1, 1.0], cv=3).fit(X, labels)
    assert set(classes.predict(X)) == {"up", "down"}


def test_frames_of_many_column_types():
    table = pd.DataFrame({"i": np.arange(M) % 7, "b": X[:, 0] > 0, "f": X[:, 1].astype("float32")})
    fitted = model().fit(table, Y)
    plain = model().fit(table.to_numpy(dtype=float), Y)
    np.testing.assert_allclose(fitted.held_out().values, plain.held_out().values, rtol=1e-6)
    with pytest.raises(InvalidInputError):
        model().fit(table.assign(s="red"), Y)
