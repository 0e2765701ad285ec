"""Values in model files: what is encoded comes back, and hostile documents are refused."""

import dataclasses
import json
import os
import pathlib

import numpy as np
import pytest
import scipy.sparse
from sklearn import gaussian_process, model_selection

from holdfast.basis import BalancedOverFolds, Fixed, PerGroup, Points, Random
from holdfast.exceptions import FileFormatError, InvalidInputError
from holdfast.experiments import HoldOut
from holdfast.files.codec import Decoder, Encoder
from holdfast.kernels import Precomputed


def there_and_back(value, allow_callables=False):
    encoder = Encoder()
    document = json.loads(json.dumps(encoder.encode(value, "value"), allow_nan=False))
    return Decoder(encoder.arrays, allow_callables).decode(document)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        2.5,
        "text",
        [1, [2, "x"]],
        (1, (2, None)),
        {"a": 1, "b": {"c": ()}},
        {1: "x", None: "y"},
        {"$array": "not a reference"},
        float("inf"),
    ],
)
def test_values_round_trip(value):
    again = there_and_back(value)
    assert again == value
    assert type(again) is type(value)


def test_nan_and_numpy_scalars():
    assert np.isnan(there_and_back(float("nan")))
    assert there_and_back(np.float32(0.5)) == 0.5
    assert there_and_back(np.int8(-3)) == -3
    assert there_and_back(np.bool_(True)) is True


def test_arrays_and_sparse_matrices_round_trip():
    matrix = scipy.sparse.random(20, 7, 0.2, format="csc", random_state=0)
    dense = np.arange(4.0)
    again = there_and_back({"m": matrix, "a": scipy.sparse.csr_array(matrix), "d": [dense, dense]})
    np.testing.assert_array_equal(again["m"].toarray(), matrix.toarray())
    assert isinstance(again["a"], scipy.sparse.sparray)
    assert not isinstance(again["m"], scipy.sparse.sparray)
    np.testing.assert_array_equal(again["d"][1], dense)


def test_random_states_and_paths():
    state = np.random.RandomState(3)
    state.normal(size=3)
    again = there_and_back(state)
    np.testing.assert_array_equal(again.normal(size=5), state.normal(size=5))
    assert there_and_back(pathlib.Path("some") / "where") == os.path.join("some", "where")


def test_arrays_of_objects_round_trip():
    mixed = np.empty((2, 2), dtype=object)
    mixed[:] = [["a", None], [(1, 2), {"x": 3.5}]]
    again = there_and_back(mixed)
    assert again.dtype == object
    assert again.tolist() == mixed.tolist()


def test_an_array_met_twice_is_stored_once():
    encoder = Encoder()
    array = np.ones(3)
    encoder.encode({"x": array, "y": array, "z": array.copy()}, "v")
    assert len(encoder.arrays) == 2


@pytest.mark.parametrize(
    "splitter",
    [
        model_selection.KFold(5, shuffle=True, random_state=3),
        model_selection.LeaveOneGroupOut(),
        model_selection.RepeatedKFold(n_splits=4, n_repeats=3, random_state=1),
        model_selection.StratifiedGroupKFold(3),
        model_selection.ShuffleSplit(4, test_size=0.3, random_state=0),
        model_selection.TimeSeriesSplit(3, gap=2),
        model_selection.PredefinedSplit(np.array([0, 1, 1, 0])),
        model_selection.LeavePOut(2),
    ],
    ids=lambda s: type(s).__name__,
)
def test_splitters_round_trip(splitter):
    again = there_and_back(splitter)
    assert type(again) is type(splitter)
    X, y, groups = np.zeros((12, 1)), np.arange(12) % 2, np.arange(12) % 4
    if isinstance(splitter, model_selection.PredefinedSplit):
        X, y = X[:4], y[:4]
    if "Group" not in type(splitter).__name__:
        groups = None  # scikit-learn warns of groups that go unused
    for (a, b), (c, d) in zip(splitter.split(X, y, groups), again.split(X, y, groups), strict=True):
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(b, d)


def test_gaussian_process_kernels_round_trip():
    kernel = 2.0 * gaussian_process.kernels.RBF(0.5) + gaussian_process.kernels.WhiteKernel(0.1)
    assert there_and_back(kernel) == kernel


def test_holdfast_objects_round_trip():
    assert there_and_back(Random(0.25)).get_params() == Random(0.25).get_params()
    again = there_and_back([HoldOut(np.array([1, 2, 5]), np.array([2]))])[0]
    np.testing.assert_array_equal(again.held_out, [1, 2, 5])
    np.testing.assert_array_equal(again.test, [2])


def test_functions_are_loaded_only_when_allowed():
    from sklearn.metrics.pairwise import rbf_kernel

    with pytest.raises(FileFormatError, match="allow_callables=True"):
        there_and_back(rbf_kernel)
    assert there_and_back(rbf_kernel, allow_callables=True) is rbf_kernel


def test_functions_without_an_import_name_are_refused():
    with pytest.raises(InvalidInputError, match="import name"):
        Encoder().encode(lambda X, Z: X @ Z.T, "kernel")


@dataclasses.dataclass(frozen=True)
class Foreign:
    x: int = 0


@pytest.mark.parametrize(
    "value", [Foreign(), np.random.default_rng(0), {1, 2}, b"bytes", slice(1, 2), 1j]
)
def test_foreign_objects_are_refused(value):
    with pytest.raises(InvalidInputError, match="cannot hold"):
        Encoder().encode(value, "thing")


def test_arrays_of_foreign_objects_are_refused():
    with pytest.raises(InvalidInputError, match=r"thing\[1\] is a .*Foreign"):
        Encoder().encode(np.array([None, Foreign()], dtype=object), "thing")


@pytest.mark.parametrize(
    "document",
    [
        {"$object": "subprocess:Popen", "fields": {"args": ["touch", "exploded"]}},
        {"$object": "holdfast.kernels:np.load", "fields": {"file": "exploded"}},
        {"$object": "holdfast.cli.__main__:main", "fields": {}},
        {"$object": "holdfast.experiments:as_experiments", "fields": {}},
        {"$object": "holdfast.experiments:HoldOut.__class__", "fields": {}},
        {"$object": "holdfast.experiments:HoldOut", "fields": {"nonsense": 1}},
        {"$object": "holdfast.experiments:HoldOut", "fields": {"held_out": "x", "test": {}}},
        {"$object": "holdfast.nowhere:Thing", "fields": {}},
        {"$object": "sklearn.model_selection._split:check_cv", "fields": {}},
        {"$object": "sklearn.model_selection._split:KFold"},
        {"$object": 7, "fields": {}},
        {"$array": "missing"},
        {"$objects": [1, 2], "shape": [10**15]},
        {"$objects": [1, 2], "shape": ["x"]},
        {"$objects": [], "shape": [0, -1]},
        {"$objects": 5, "shape": [5]},
        {"$array": []},
        {"$number": "evil"},
        {"$random": {"bit_generator": "MT19937"}},
        {"$random": {"bit_generator": "os.system", "state": {}}},
        {"$random": [1]},
        {"$tuple": 3},
        {"$pairs": [[1]]},
        {"$pairs": [[[], 1]]},
        {"$sparse": {"data": {"$array": "a"}, "shape": [10**15, 3], "is_array": True}},
        {"$function": "os:system"},
    ],
)
def test_hostile_documents(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileFormatError):
        Decoder({"a": np.ones(3)}, allow_callables=False).decode(document)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["os:__dict__", "no_such_module:f", "os:sep", "os", ":", "..os:f"])
def test_functions_that_are_none(name):
    with pytest.raises(FileFormatError):
        Decoder({}, allow_callables=True).decode({"$function": name})


def test_hostile_sparse_matrices():
    arrays = {
        "data": np.ones(2),
        "indices": np.array([0, 10**9], dtype=np.int64),
        "indptr": np.array([0, 1, 2], dtype=np.int64),
    }
    body = {name: {"$array": name} for name in arrays}
    for shape in ([2, 3], [10**15, 3], [2, 3, 4], ["x", 3]):
        with pytest.raises(FileFormatError):
            Decoder(arrays, False).decode({"$sparse": {**body, "shape": shape, "is_array": True}})


@pytest.mark.parametrize(
    ("old", "fields", "expected"),
    [
        ("holdfast.basis.grouped:PerGroup", {"k": 2}, PerGroup(2)),
        ("holdfast.basis.grouped:BalancedOverFolds", {"n": 5}, BalancedOverFolds(5)),
        ("holdfast.basis.random:Fixed", {"rows": [1, 2]}, Fixed([1, 2])),
        ("holdfast.basis.points:Points", {"Z": [[1.0]]}, Points([[1.0]])),
        ("holdfast.kernels.resolve:Precomputed", {}, Precomputed()),
    ],
)
def test_classes_that_have_moved_are_found(old, fields, expected):
    found = Decoder({}, allow_callables=False).decode({"$object": old, "fields": fields})
    assert type(found) is type(expected)
    assert repr(found) == repr(expected)
