"""Model files: what is written comes back, and hostile files are refused before they do harm."""

import hashlib
import io
import json
import os
import pickle
import re
import struct
import zipfile

import numpy as np
import pytest
import scipy.sparse
from sklearn import gaussian_process, model_selection
from sklearn.base import clone

from holdfast import KernelRidgeClassifierCV, KernelRidgeCV, load
from holdfast.basis import Random
from holdfast.exceptions import FileFormatError, HoldfastError, InvalidInputError, WriteError
from holdfast.experiments import HoldOut
from holdfast.files import (
    FORMAT_VERSION,
    atomic_write,
    load_with_extras,
    read_archive,
    save,
    write_archive,
    write_text,
)

# Small grids keep the tests quick; that the best lies at an end is not their business.
pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")

ARRAYS = {
    "X": np.arange(12.0).reshape(4, 3),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "labels": np.array(["a", "žluťoučký", ""]),
    "flags": np.array([True, False]),
    "scalar": np.array(3.5),
    "empty": np.zeros((0, 5)),
    "big_endian": np.arange(3, dtype=">i4"),
    "name with / and ..": np.array([1, 2, 3]),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.holdfast"


def rewrite(path, change_manifest=None, members=None, comment=None, compress=zipfile.ZIP_STORED):
    """Forge `path`: a changed manifest with a fitting checksum, other members."""
    with zipfile.ZipFile(path) as archive:
        content = {info.filename: archive.read(info) for info in archive.infolist()}
    manifest = json.loads(content["manifest.json"])
    if change_manifest:
        change_manifest(manifest)
    content["manifest.json"] = json.dumps(manifest).encode()
    content.update(members or {})
    digest = hashlib.sha256(content["manifest.json"]).hexdigest()
    with zipfile.ZipFile(path, "w", compress) as archive:
        archive.comment = comment or f"holdfast {FORMAT_VERSION} sha256:{digest}".encode()
        for name, data in content.items():
            archive.writestr(name, data)


def forge_array(path, name, data):
    """Replace an array by `data` with a checksum that fits, as a forger would."""

    def change(manifest):
        manifest["arrays"][name]["sha256"] = hashlib.sha256(data).hexdigest()

    with zipfile.ZipFile(path) as archive:
        member = json.loads(archive.read("manifest.json"))["arrays"][name]["member"]
    rewrite(path, change, {member: data})


def npy(header):
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("exploded",)


def test_round_trip(path):
    content = {"text": "naïve", "numbers": [1, 2.5, None, True], "nested": {"a": {}}}
    digest = write_archive(path, "Thing", content, ARRAYS)
    archive = read_archive(path)
    assert archive.kind == "Thing"
    assert archive.content == content
    assert archive.checksum == digest
    assert archive.written_by["numpy"] == np.__version__
    assert list(archive.arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(archive.arrays[name], array)
        assert archive.arrays[name].shape == array.shape
        assert archive.arrays[name].dtype == array.dtype.newbyteorder("=")
        assert archive.arrays[name].flags.writeable


def test_same_content_same_bytes(path, tmp_path):
    for name in ("a", "b"):
        write_archive(tmp_path / name, "Thing", {"x": 1}, ARRAYS)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_readable_without_holdfast(path):
    write_archive(path, "Thing", {}, ARRAYS)
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        member = manifest["arrays"]["X"]["member"]
        loaded = np.load(io.BytesIO(archive.read(member)), allow_pickle=False)
    np.testing.assert_array_equal(loaded, ARRAYS["X"])


@pytest.mark.parametrize(
    ("content", "arrays", "words"),
    [
        ({}, {"y": np.array([object()])}, "'y' has dtype object"),
        ({}, {"y": np.array(["2020-01-01"], dtype="M8[D]")}, "dtype datetime64"),
        ({"x": {1, 2}}, {}, "not JSON serializable"),
        ({"x": float("nan")}, {}, "JSON"),
    ],
)
def test_what_cannot_be_written_is_refused_and_leaves_nothing(path, content, arrays, words):
    with pytest.raises(InvalidInputError, match=words):
        write_archive(path, "Thing", content, arrays)
    assert list(path.parent.iterdir()) == []


# --- hostile files ---------------------------------------------------------------------------


def test_truncated_at_any_place(path):
    write_archive(path, "Thing", {"x": 1}, ARRAYS)
    whole = path.read_bytes()
    for length in [0, 1, 30, *np.linspace(31, len(whole) - 1, 60, dtype=int)]:
        path.write_bytes(whole[:length])
        with pytest.raises(FileFormatError):
            read_archive(path)


def test_any_changed_byte_is_noticed_or_harmless(path):
    """A flipped byte is refused, unless it is a date or such that the reader does not use."""
    write_archive(path, "Thing", {"x": 1}, {"X": ARRAYS["X"]})
    whole = path.read_bytes()
    expected = read_archive(path)
    rng = np.random.default_rng(5)
    refused = 0
    places = rng.choice(len(whole), 200, replace=False)
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        path.write_bytes(bytes(damaged))
        try:
            archive = read_archive(path)
        except FileFormatError:
            refused += 1
            continue
        assert archive.content == expected.content
        np.testing.assert_array_equal(archive.arrays["X"], expected.arrays["X"])
    assert refused > 150


def test_not_a_zip_and_foreign_zip(path, tmp_path):
    path.write_bytes(b"hello, world" * 100)
    with pytest.raises(FileFormatError, match="not a readable holdfast file"):
        read_archive(path)
    np.savez(tmp_path / "foreign.npz", X=np.ones(3))
    with pytest.raises(FileFormatError, match="not a holdfast file"):
        read_archive(tmp_path / "foreign.npz")


def test_pickle_file_is_not_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(FileFormatError):
        read_archive(path)
    assert not (tmp_path / "exploded").exists()


def test_pickle_inside_an_array_is_not_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_archive(path, "Thing", {}, {"X": ARRAYS["X"]})
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.array([Bomb()], dtype=object), allow_pickle=True)
    forge_array(path, "X", buffer.getvalue())
    with pytest.raises(FileFormatError, match="dtype object"):
        read_archive(path)
    assert not (tmp_path / "exploded").exists()


BYTES = ARRAYS["X"].tobytes()


def header(shape, dtype="<f8", more="", fortran=False):
    return f"{{'descr': '{dtype}', 'fortran_order': {fortran}, 'shape': {shape!r}, {more}}}"


def manifest(change):
    """Return a forgery that changes the manifest, with a checksum that fits."""
    return lambda path: rewrite(path, change)


def array(text, data=BYTES, name="X"):
    """Return a forgery of an array with another header and other bytes."""
    return lambda path: forge_array(path, name, npy(text) + data)


def document(data):
    """Return a forgery whose manifest holds these bytes."""

    def forge(path):
        with zipfile.ZipFile(path, "w") as archive:
            digest = hashlib.sha256(data).hexdigest()
            archive.comment = f"holdfast {FORMAT_VERSION} sha256:{digest}".encode()
            archive.writestr("manifest.json", data)

    return forge


def overlap(path):
    with zipfile.ZipFile(path, "a") as archive:
        info = archive.getinfo("arrays/0.npy")
        for i in range(10, 60):
            twin = zipfile.ZipInfo(f"arrays/{i}.npy")
            for field in ("header_offset", "CRC", "compress_size", "file_size"):
                setattr(twin, field, getattr(info, field))
            archive.filelist.append(twin)
            archive.NameToInfo[twin.filename] = twin
        archive._didModify = True


def name_twice(path):
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("arrays/0.npy", b"evil")


FORGERIES = [
    # Declared shapes allocate nothing.
    *(
        (array(header(shape, dtype), bytes(size)), "array 'X'")
        for shape, dtype, size in [
            ((10**15,), "<f8", 64),
            ((2**62, 2**62), "<f8", 64),
            ((10**18,), "<U0", 0),
            ((0, 2**70), "<f8", 0),
            ((3, 4), "<f8", 64),
            ((4,), "|O", 64),
            ((4,), "<M8[s]", 64),
        ]
    ),
    (array(header((4, 3), more="'x': __import__('os')")), "header of array 'X'"),
    (array("not a dictionary"), "header of array 'X'"),
    (array("{" * 3000), "header of array 'X'"),
    (array(header((1,)).replace("'<f8'", "[('a', '<f8')]")), "dtype"),
    (array(header((-4, -3))), "array 'X'"),
    (array(header((4, 3), fortran=True)), "array 'X'"),
    (array(header((1,), "<U2"), b"\xff" * 8, "t"), "outside Unicode"),
    (array(header((2,), "|b1"), b"\x01\x07", "b"), "boolean values"),
    # Members.
    (lambda path: rewrite(path, compress=zipfile.ZIP_DEFLATED), "compressed"),
    (overlap, "declare"),
    (name_twice, "twice"),
    *(
        (lambda path, name=name: rewrite(path, members={name: b"evil"}), "not those the manifest")
        for name in ("../../evil.npy", "/etc/evil", "C:\\evil", "arrays/../x.npy")
    ),
    (manifest(lambda m: m["arrays"]["b"].update(m["arrays"]["X"])), "not those the manifest"),
    # Versions and checksums.
    (
        lambda path: rewrite(path, comment=b"holdfast 99 sha256:" + b"0" * 64),
        "format version 99.*Upgrade holdfast",
    ),
    (manifest(lambda m: m.update(format_version=99)), "version 99"),
    (manifest(lambda m: m["arrays"]["X"].update(sha256="0" * 64)), "checksum of array 'X'"),
    (
        lambda path: rewrite(path, comment=f"holdfast {FORMAT_VERSION} sha256:{'0' * 64}".encode()),
        "checksum of the manifest",
    ),
    # The manifest.
    (manifest(lambda m: m.pop("arrays")), "lacks one of"),
    (manifest(lambda m: m.update(content=[])), "lacks one of"),
    (manifest(lambda m: m.update(format="other")), "of format 'other'"),
    (manifest(lambda m: m["arrays"].update(X=7)), "malformed"),
    (manifest(lambda m: m["arrays"]["X"].update(sha256=None)), "malformed"),
    (manifest(lambda m: m["arrays"]["X"].update(member="manifest.json")), "not those"),
    *(
        (document(data), None)
        for data in (b"[" * 100_000, b"\xff\xfe", b"7", b'{"a": 1e999999', b"")
    ),
]


@pytest.mark.parametrize(("forge", "words"), FORGERIES)
def test_forged_archives_are_refused(path, tmp_path, forge, words):
    arrays = {"X": ARRAYS["X"], "t": np.array(["ab"]), "b": np.array([True, False])}
    write_archive(path, "Thing", {}, arrays)
    forge(path)
    with pytest.raises(FileFormatError, match=words):
        read_archive(path)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


# --- atomic writing --------------------------------------------------------------------------


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_interrupted_writing_leaves_the_old_file(path, error):
    path.write_text("old")

    def write():
        with atomic_write(path) as file:
            file.write(b"half of the n")
            raise error

    with pytest.raises(error):
        write()
    assert path.read_text() == "old"
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_access_rights(path):
    write_text(path, "new")
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask
    path.chmod(0o640)
    write_text(path, "newer")
    assert path.stat().st_mode & 0o777 == 0o640


def test_links_stay_links(path, tmp_path):
    write_text(path, "old")
    link = tmp_path / "link"
    link.symlink_to(path)
    write_text(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"


def test_missing_folder(tmp_path):
    with pytest.raises(WriteError, match="there is no folder"):
        write_text(tmp_path / "nowhere" / "file", "x")


# --- models ----------------------------------------------------------------------------------


def data(seed=0, m=60):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=m)
    return X, y, np.arange(m) // 6


MODELS = {
    "dense": KernelRidgeCV(gamma=0.5, alphas=np.logspace(-3, 2, 7), cv=5),
    "leave-one-out": KernelRidgeCV(alphas=[0.1, 1.0]),
    "groups": KernelRidgeCV(
        basis=20, cv=model_selection.LeaveOneGroupOut(), random_state=0, alphas=[0.1, 1.0, 10.0]
    ),
    "linear": KernelRidgeCV("linear", alphas=[0.1, 1.0, 10.0]),
    "selector": KernelRidgeCV(basis=Random(0.3), random_state=1, alphas=[0.01, 1.0, 100.0]),
    "holdouts": KernelRidgeCV(
        cv=[HoldOut([0, 1, 2], [1]), HoldOut([5, 6])], alphas=[0.1, 1.0, 10.0]
    ),
    "pairs": KernelRidgeCV(cv=[(np.arange(30), np.arange(30, 60))], alphas=[0.1, 1.0, 10.0]),
    "widths": KernelRidgeCV(gamma=[0.1, 1.0], cv=5, alphas=[0.01, 0.1, 1.0, 10.0]),
    "gp kernel": KernelRidgeCV(gaussian_process.kernels.Matern(nu=1.5), alphas=[0.1, 1.0, 10.0]),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_come_back_the_same(path, name):
    X, y, groups = data()
    model = clone(MODELS[name])
    used = groups if name == "groups" else None
    model.fit(X, y, groups=used, sample_weight=np.linspace(0.5, 2, len(y)))
    model.save(path)
    again = load(path)
    assert type(again) is type(model)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.held_out().values, model.held_out().values)
    assert again.verify(2).max_relative_error == model.verify(2).max_relative_error
    assert str(again.explain()) == str(model.explain())
    assert repr(again) == repr(model)
    for key, value in model.cv_results_.items():
        np.testing.assert_array_equal(again.cv_results_[key], value)
    again.fit(X, y, groups=used)


def test_classifier_with_text_labels(path):
    X, y, _ = data()
    model = KernelRidgeClassifierCV(cv=4, alphas=[0.1, 1.0, 10.0])
    labels = np.where(y > 0.3, "high", np.where(y < -0.3, "low", "middle")).astype(object)
    model.fit(X, labels)
    model.save(path)
    again = load(path)
    assert again.predict(X).tolist() == model.predict(X).tolist()
    np.testing.assert_array_equal(again.held_out().labels(), model.held_out().labels())


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("classes", [2, 3])
def test_calibrated_probabilities(path, calibration, classes):
    X, y, _ = data()
    labels = np.digitize(y, [0.0] if classes == 2 else [-0.3, 0.3])
    model = KernelRidgeClassifierCV(cv=4, alphas=[0.1, 1.0, 10.0], calibration=calibration)
    model.fit(X, labels).save(path)
    np.testing.assert_array_equal(load(path).predict_proba(X), model.predict_proba(X))
    for forged in ({"x": [], "p": []}, {"x": [1.0], "p": [2.0]}, None):
        rewrite(path, lambda m, new=forged: m["content"]["found"].update(calibration=new))
        with pytest.raises(FileFormatError, match="cannot be rebuilt"):
            load(path)


def test_a_trend_and_its_names(path):
    pd = pytest.importorskip("pandas")
    X, y, _ = data()
    frame = pd.DataFrame(X, columns=["a", "b", "ç"])
    model = KernelRidgeCV(cv=3, alphas=[0.1, 1.0], trend=["ç"]).fit(frame, y)
    model.save(path)
    again = load(path)
    assert again.trend_names_.tolist() == ["ç"]
    np.testing.assert_array_equal(again.trend_coef_, model.trend_coef_)
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    np.testing.assert_array_equal(again.held_out().values, model.held_out().values)


def test_frames_and_unfitted_models(path):
    pd = pytest.importorskip("pandas")
    X, y, _ = data()
    frame = pd.DataFrame(X, columns=["a", "b", "ç"])
    model = KernelRidgeCV(cv=3, alphas=[0.01, 0.1, 1.0, 10.0]).fit(frame, y)
    model.save(path)
    again = load(path)
    assert again.feature_names_in_.tolist() == ["a", "b", "ç"]
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    KernelRidgeCV(gamma=2.0).save(path)
    assert load(path).gamma == 2.0


def test_sparse_rows(path):
    X, y, _ = data()
    rows = scipy.sparse.csr_matrix(np.where(np.abs(X) > 0.5, X, 0.0))
    model = KernelRidgeCV(cv=3, alphas=[0.01, 0.1, 1.0, 10.0]).fit(rows, y)
    model.save(path)
    np.testing.assert_array_equal(load(path).predict(rows), model.predict(rows))


def test_own_kernel_functions(path):
    from sklearn.metrics.pairwise import laplacian_kernel

    X, y, _ = data()
    model = KernelRidgeCV(laplacian_kernel, cv=3, alphas=[0.01, 0.1, 1.0, 10.0]).fit(X, y)
    model.save(path)
    with pytest.raises(FileFormatError, match=r"written by holdfast .*allow_callables=True"):
        load(path)
    again = load(path, allow_callables=True)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    model.set_params(kernel=lambda A, B: A @ B.T).fit(X, y)
    with pytest.raises(InvalidInputError, match="import name"):
        model.save(path)


@pytest.mark.parametrize("tool", ["pickle", "joblib", "skops"])
def test_other_tools_work_too(path, tool):
    X, y, _ = data()
    model = KernelRidgeCV(cv=3, basis=20, random_state=0, alphas=[0.01, 0.1, 1.0, 10.0]).fit(X, y)
    if tool == "pickle":
        again = pickle.loads(pickle.dumps(model))
    elif tool == "joblib":
        joblib = pytest.importorskip("joblib")
        joblib.dump(model, path)
        again = joblib.load(path)
    else:
        skops = pytest.importorskip("skops.io")
        skops.dump(model, path)
        again = skops.load(path, trusted=skops.get_untrusted_types(file=path))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.held_out().values, model.held_out().values)


def test_extras_travel_with_the_model(path):
    X, y, _ = data()
    model = KernelRidgeCV(cv=3, alphas=[0.01, 0.1, 1.0, 10.0]).fit(X, y)
    save(model, path, extras={"note": {"command": ["cv"], "rows": np.arange(3)}})
    _, extras = load_with_extras(path)
    assert extras["note"]["command"] == ["cv"]
    np.testing.assert_array_equal(extras["note"]["rows"], np.arange(3))


def test_only_holdfast_models(path):
    class Mine(KernelRidgeCV):
        pass

    with pytest.raises(InvalidInputError, match="joblib"):
        save(Mine(), path)
    write_archive(path, "Thing", {}, {})
    with pytest.raises(FileFormatError, match="holds a 'Thing'"):
        load(path)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"colour": 3}, "no parameter 'colour'"),
        ({"rule": "worst"}, "rule"),
        ({"kernel": {"$function": "os:system"}}, "allow_callables"),
    ],
)
def test_hostile_parameters(path, entry, words):
    KernelRidgeCV().save(path)
    rewrite(path, lambda m: m["content"]["parameters"].update(entry))
    with pytest.raises(FileFormatError, match=words):
        load(path)


def test_kernels_that_cannot_be_made_again(path):
    """Nested choices make every kernel of the results again: they are tried when a file is read."""
    X, y, _ = data()
    KernelRidgeCV(cv=3, alphas=[0.1, 1.0], gamma=[0.1, 1.0]).fit(X, y).save(path)
    rewrite(path, lambda m: m["content"]["found"]["results"]["params"][0].pop("kernel"))
    with pytest.raises(FileFormatError, match="cannot be rebuilt from its parts: 'kernel'"):
        load(path)


def test_a_file_sets_no_attribute(path):
    """Whatever else a file says, it is not believed."""
    X, y, _ = data()
    KernelRidgeCV(cv=3, alphas=[0.1, 1.0]).fit(X, y).save(path)
    evil = {"predict": 3, "_classes": 3, "__class__": 3, "_problem": 3}
    for section in ("parameters", "data", "found"):
        if section != "parameters":
            rewrite(path, lambda m, section=section: m["content"][section].update(evil))
    again = load(path)
    assert not set(evil).intersection(vars(again)) - {"_problem"}
    assert again.predict(X).shape == y.shape


@pytest.mark.parametrize("section", ["parameters", "found"])
def test_missing_sections(path, section):
    X, y, _ = data()
    KernelRidgeCV(cv=3, alphas=[0.1, 1.0]).fit(X, y).save(path)
    rewrite(path, lambda m: m["content"].pop(section))
    with pytest.raises(FileFormatError, match=f"{section!r} is missing"):
        load(path)


def test_nothing_private_is_written(path):
    X, y, _ = data()
    KernelRidgeCV(cv=3, basis=10, alphas=[0.1, 1.0], random_state=0).fit(X, y).save(path)
    archive = read_archive(path)
    names = [*archive.arrays, *archive.content["found"], *archive.content["data"]]
    assert not [name for name in names if name.startswith("_")]
    with zipfile.ZipFile(path) as whole:
        objects = re.findall(r'"\$object": "([^"]*)"', whole.read("manifest.json").decode())
    assert set(objects) == {"holdfast.kernels.stationary:RBF"}


def test_what_was_saved_beside_a_model_need_not_be_understood_to_load_it(path):
    """A file of an earlier command line: the model loads, its table is refused in a sentence."""
    X, y, _ = data()
    model = KernelRidgeCV(cv=3, alphas=[0.1, 1.0]).fit(X, y)
    save(model, path, extras={"table": 1})
    old = {"$object": "holdfast.tables.learned:Numbers", "fields": {"digits": 3}}
    rewrite(path, lambda m: m["content"]["extras"].update(table=old))
    np.testing.assert_array_equal(load(path).predict(X), model.predict(X))
    with pytest.raises(
        FileFormatError, match=r"beside the model cannot be used by this version .*Fit the model"
    ):
        load_with_extras(path)


def test_a_forged_weight_that_leaves_nothing_to_train_on(tmp_path):
    """Beside a weight of 1e150 the others are zero: a sentence, not LinAlgError."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(14, 2)), rng.normal(size=14)
    model = KernelRidgeCV("linear", alphas=[0.01, 0.1, 1.0], cv=3).fit(X, y)
    model.save(tmp_path / "m.holdfast")
    archive = read_archive(tmp_path / "m.holdfast")
    weights = np.ones(14)
    weights[-1] = 1e150
    arrays = {n: weights if n == "sample_weight" else a for n, a in archive.arrays.items()}
    write_archive(tmp_path / "forged.holdfast", archive.kind, archive.content, arrays)
    with pytest.raises(HoldfastError, match="weigh next to nothing"):
        load(tmp_path / "forged.holdfast").held_out()
