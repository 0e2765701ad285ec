"""Tables that are written: what a spreadsheet would run, and what stays a number."""

import csv

import numpy as np
import pytest

from holdfast.tables import open_source, read_columns, write_columns

FORMULAS = ["=1+1", "+A1", "-A1", "@SUM(A1)", "\t=1", "\r=1", "\uff1d1", '=LINK("http://x")']


@pytest.mark.parametrize("text", FORMULAS)
def test_no_formula_leaves_in_csv(tmp_path, text):
    write_columns(str(tmp_path / "p.csv"), {"t": np.array([text]), text: np.array([1.5])})
    with (tmp_path / "p.csv").open(newline="", encoding="utf-8") as file:
        header, row = csv.reader(file)
    assert header == ["t", f"'{text}"]
    assert row == [f"'{text}", "1.5"]


def test_a_carriage_return_begins_no_line(tmp_path):
    write_columns(str(tmp_path / "p.csv"), {"t": np.array(["a\r=1+1"]), "n": np.array([1.5])})
    with (tmp_path / "p.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["t", "n"], ["a\r=1+1", "1.5"]]


def test_numbers_stay_numbers(tmp_path):
    values = np.array([-1.5, 2.0, -0.0, 1e-300])
    texts = np.array(["-1", "+2.5", "plain", "a=b"])
    path = str(tmp_path / "p.csv")
    write_columns(path, {"x": values, "t": texts, "n": np.array([-1, 2, 3, 4])})
    with open(path, newline="") as file:
        _, *rows = csv.reader(file)
    assert [row[1] for row in rows] == texts.tolist()
    with open_source(path) as source:
        table = read_columns(source, ("x", "n"))
    np.testing.assert_array_equal(table["x"], values)
    np.testing.assert_array_equal(table["n"], [-1, 2, 3, 4])


def test_parquet_says_what_is_text(tmp_path):
    pytest.importorskip("pyarrow")
    path = str(tmp_path / "p.parquet")
    write_columns(path, {"t": np.array(["=1+1", "b"])})
    with open_source(path) as source:
        assert read_columns(source, ("t",))["t"].tolist() == ["=1+1", "b"]


def test_thousands_of_a_program_are_text(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1_000,1\n2,2\n")
    with open_source(str(tmp_path / "t.csv")) as source:
        table = read_columns(source, ("a", "b"))
    assert table["a"].tolist() == ["1_000", "2"]
    np.testing.assert_array_equal(table["b"], [1.0, 2.0])
