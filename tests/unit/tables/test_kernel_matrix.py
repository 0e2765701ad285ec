"""Kernel matrices from files: what is read, what is refused."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from holdfast.exceptions import InvalidInputError
from holdfast.tables import kernel_matrix, read_kernel_matrix

M = 6
A = np.random.default_rng(0).normal(size=(M, 4))
K = A @ A.T
NAMES = [f"p{i}" for i in range(M)]


def write_grm(folder, K, people, name="cow"):
    """Write what GCTA does: the lower triangle by rows, in single precision, and two columns."""
    K[np.tril_indices(len(K))].astype("<f4").tofile(folder / f"{name}.grm.bin")
    (folder / f"{name}.grm.id").write_text("".join(f"{a}\t{b}\n" for a, b in people))
    return folder / f"{name}.grm"


def text(rows, delimiter=","):
    return "".join(delimiter.join(map(str, row)) + "\n" for row in rows)


def test_npy(tmp_path):
    np.save(tmp_path / "K.npy", K)
    found = read_kernel_matrix(tmp_path / "K.npy")
    np.testing.assert_array_equal(found.values, 0.5 * (K + K.T))
    assert found.ids is None
    np.save(tmp_path / "I.npy", np.eye(3, dtype=np.int32))
    assert read_kernel_matrix(tmp_path / "I.npy").values.dtype == np.float64


@pytest.mark.parametrize("delimiter", [",", ";", "\t", " "])
@pytest.mark.parametrize("kind", ["plain", "header", "both", "corner", "numbers"])
def test_text(tmp_path, delimiter, kind):
    names = [str(1000 + i) for i in range(M)] if kind == "numbers" else NAMES
    rows = K.tolist()
    if kind in ("both", "corner"):
        rows = [[name, *row] for name, row in zip(names, rows, strict=True)]
    if kind != "plain":
        rows = [[*(["id"] if kind == "corner" else []), *names], *rows]
    path = tmp_path / "K.txt"
    path.write_text("\ufeff" * (kind == "header") + text(rows, delimiter), "utf-8")
    found = read_kernel_matrix(path)
    np.testing.assert_allclose(found.values, K, rtol=1e-15)
    assert found.ids == (None if kind == "plain" else tuple(names))
    with gzip.open(tmp_path / "K.csv.gz", "wt") as file:
        file.write(text(rows, delimiter))
    np.testing.assert_array_equal(read_kernel_matrix(tmp_path / "K.csv.gz").values, found.values)


@pytest.mark.parametrize("ending", ["", ".bin", ".id"])
def test_grm(tmp_path, ending):
    path = write_grm(tmp_path, K, [("fam", name) for name in NAMES])
    found = read_kernel_matrix(f"{path}{ending}")
    np.testing.assert_allclose(found.values, K, rtol=1e-6)
    np.testing.assert_array_equal(found.values, found.values.T)
    assert found.ids == tuple(NAMES)


def test_people_with_one_name_in_two_families(tmp_path):
    people = [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2"), ("c", "1"), ("c", "2")]
    found = read_kernel_matrix(write_grm(tmp_path, K, people))
    assert found.ids[:3] == ("a 1", "a 2", "b 1")


def test_places_by_name(tmp_path):
    found = read_kernel_matrix(write_grm(tmp_path, K, [("f", name) for name in NAMES]))
    assert found.places(np.array(["p4", "p0"]), "animal").tolist() == [4, 0]
    with pytest.raises(InvalidInputError, match=r"id='animal': 1 of 2 rows .* 'x'"):
        found.places(np.array(["p4", "x"]), "animal")
    with pytest.raises(InvalidInputError, match="twice"):
        found.places(np.array(["p4", "p4"]), "animal")
    np.save(tmp_path / "K.npy", K)
    with pytest.raises(InvalidInputError, match="names its rows"):
        read_kernel_matrix(tmp_path / "K.npy").places(np.array(["p4"]), "animal")


def asymmetric():
    wrong = K.copy()
    wrong[1, 4] += 1.0
    return wrong


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (K[:4], r"shape \(4, 6\)"),
        (K[0], r"shape \(6,\)"),
        (np.empty((0, 0)), r"shape \(0, 0\)"),
        (np.where(np.eye(M) > 0, np.nan, K), "nan in row 1, column 1"),
        (asymmetric(), "not symmetric: .* row 2, column 5"),
        (np.array([["a"]]), "type <U1"),
        (K + 1j, "complex128"),
    ],
)
def test_matrices_that_are_refused(tmp_path, array, words):
    np.save(tmp_path / "K.npy", array)
    with pytest.raises(InvalidInputError, match=words) as caught:
        read_kernel_matrix(tmp_path / "K.npy")
    assert caught.value.argument == "kernel_matrix"
    assert "K.npy" in str(caught.value)


def test_objects_are_never_unpickled(tmp_path):
    np.save(tmp_path / "K.npy", np.array([[print]], dtype=object), allow_pickle=True)
    with pytest.raises(InvalidInputError, match="not an array of numbers"):
        read_kernel_matrix(tmp_path / "K.npy")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("K.npy", b"\x93NUMPY but not really", "not an array of numbers"),
        ("K.npy", b"", "not an array of numbers"),
        ("K.csv", b"1,2\n3,x\n", "cannot be read as numbers"),
        ("K.csv", b"1,2\n2,1,5\n", "cannot be read as numbers"),
        ("K.csv", b"a,b\n1,2\n", r"shape \(1, 2\)|names 2 columns"),
        ("K.csv", b"a,a\n1,2\n2,1\n", "names 1 columns"),
        ("K.csv", b"", "cannot be read|shape"),
        ("K.csv", b"\xff\xfe\x00", "cannot be read as numbers"),
        ("K.csv.gz", b"1,2\n2,1\n", "cannot be read as numbers"),
        ("K.xlsx", b"", "none of .npy"),
    ],
)
def test_files_that_are_refused(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInputError, match=words):
        read_kernel_matrix(tmp_path / name)


def test_a_header_that_promises_more_than_the_file(tmp_path):
    np.save(tmp_path / "K.npy", K)
    whole = (tmp_path / "K.npy").read_bytes()
    (tmp_path / "K.npy").write_bytes(whole.replace(b"(6, 6)", b"(9999999, 9999999)".ljust(6))[:300])
    with pytest.raises(InvalidInputError, match="not an array of numbers"):
        read_kernel_matrix(tmp_path / "K.npy")


def test_more_than_fits_into_memory(tmp_path, monkeypatch):
    np.save(tmp_path / "K.npy", K)
    monkeypatch.setattr(kernel_matrix, "available_bytes", lambda: 100.0)
    with pytest.raises(InvalidInputError, match="more memory than there is"):
        read_kernel_matrix(tmp_path / "K.npy")


def test_grm_files_that_do_not_belong_together(tmp_path):
    path = write_grm(tmp_path, K, [("f", name) for name in NAMES[:5]])
    with pytest.raises(
        InvalidInputError, match=r"has 84 bytes; the 5 people of cow.grm.id take 60"
    ):
        read_kernel_matrix(path)
    (tmp_path / "cow.grm.id").write_text("only one column\nhere\n")
    with pytest.raises(InvalidInputError, match="two columns"):
        read_kernel_matrix(path)
    with pytest.raises(FileNotFoundError):
        read_kernel_matrix(tmp_path / "pig.grm")
