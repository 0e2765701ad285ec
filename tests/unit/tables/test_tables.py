"""Tables from files: every format gives the same matrix, and trouble is named."""

import gzip
import io
import sys

import numpy as np
import pytest

from holdfast.exceptions import InvalidInputError, MissingDependencyError
from holdfast.tables import (
    Roles,
    as_table,
    check_writable,
    open_source,
    read_columns,
    write_columns,
)

CSV = """age,sex,dose,subject,y
30,F,1.5,s1,2.0
41, M ,2.5,s1,3.5
52,F,"0.5",s2,1.0
"""


def write(tmp_path, text, name="data.csv"):
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def read(path, names=None, as_text=(), **options):
    with open_source(path, **options) as source:
        return read_columns(source, tuple(names or source.names), tuple(as_text))


def contents(table):
    return {name: table[name].tolist() for name in table.readings}


EXPECTED = {
    "age": [30.0, 41.0, 52.0],
    "sex": ["F", "M", "F"],
    "dose": [1.5, 2.5, 0.5],
    "subject": ["s1", "s1", "s2"],
    "y": [2.0, 3.5, 1.0],
}


def test_csv(tmp_path):
    assert contents(read(write(tmp_path, CSV))) == EXPECTED


def test_gzipped_csv_is_told_by_its_bytes(tmp_path):
    path = write(tmp_path, gzip.compress(CSV.encode()), "data")
    assert contents(read(path)) == EXPECTED


def test_standard_input(monkeypatch):
    class Stdin:
        buffer = io.BytesIO(CSV.encode())

    monkeypatch.setattr(sys, "stdin", Stdin)
    assert contents(read("-")) == EXPECTED


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_other_delimiters_are_guessed(tmp_path, delimiter):
    assert contents(read(write(tmp_path, CSV.replace(",", delimiter)))) == EXPECTED


def test_delimiter_can_be_said(tmp_path):
    path = write(tmp_path, "a b\n1 2\n")
    assert contents(read(path, delimiter=" ")) == {"a": [1.0], "b": [2.0]}


def test_byte_order_mark_windows_lines_and_blank_lines(tmp_path):
    text = "\ufeff" + CSV.replace("\n", "\r\n") + "\r\n\r\n"
    assert contents(read(write(tmp_path, text))) == EXPECTED


@pytest.mark.parametrize("format", ["parquet", "feather", "arrow", "arrows"])
def test_arrow_formats(tmp_path, format):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.feather
    import pyarrow.ipc
    import pyarrow.parquet

    table = pa.table(
        {
            "age": pa.array([30, 41, 52], pa.int16()),
            "sex": pa.array(["F", "M", "F"]).dictionary_encode(),
            "dose": pa.array([1.5, 2.5, 0.5], pa.float32()),
            "subject": pa.array(["s1", "s1", "s2"], pa.large_string()),
            "y": pa.array([2.0, 3.5, 1.0]),
        }
    )
    path = str(tmp_path / "data")
    if format == "parquet":
        pyarrow.parquet.write_table(table, path)
    elif format == "feather":
        pyarrow.feather.write_feather(table, path)
    else:
        make = pa.ipc.new_file if format == "arrow" else pa.ipc.new_stream
        with pa.OSFile(path, "wb") as sink, make(sink, table.schema) as writer:
            writer.write_table(table)
    assert contents(read(path)) == EXPECTED
    assert contents(read(path, ["dose"])) == {"dose": [1.5, 2.5, 0.5]}


def test_arrow_nulls_booleans_and_codes(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    table = pa.table(
        {
            "flag": pa.array([True, None, False]),
            "count": pa.array([1, None, 3], pa.int64()),
            "text": pa.array(["a", None, "b"]),
            "when": pa.array([0, 1, 2], pa.timestamp("s")),
            "hour": pa.array([0, 5400, None], pa.time32("s")),
        }
    )
    path = str(tmp_path / "t.parquet")
    pyarrow.parquet.write_table(table, path)
    read_back = read(path, ["flag", "count", "text"])
    assert read_back.missing() == {"flag": 1, "count": 1, "text": 1}
    np.testing.assert_array_equal(read_back["flag"], [1.0, np.nan, 0.0])
    np.testing.assert_array_equal(read(path, ["hour"])["hour"], [0.0, 1.5, np.nan])
    assert read(path, ["count"], as_text=["count"])["count"].tolist() == ["1", "", "3"]
    assert read(path, ["when"])["when"].astype(str).tolist()[1] == "1970-01-01T00:00:01.000000"


def test_arrow_types_that_are_no_columns(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    path = str(tmp_path / "t.parquet")
    pyarrow.parquet.write_table(pa.table({"list": pa.array([[1], [2]])}), path)
    with pytest.raises(InvalidInputError, match=r"'list' is of type list.*drop="):
        read(path)


def test_arrow_without_pyarrow(tmp_path, monkeypatch):
    path = write(tmp_path, b"PAR1....", "x.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"holdfast\[cli\]"):
        read(path)
    with pytest.raises(MissingDependencyError, match=r"holdfast\[cli\]"):
        check_writable(str(tmp_path / "out.parquet"))


def test_damaged_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read(write(tmp_path, b"PAR1 and nothing else", "x.parquet"))


def test_npz_is_refused_with_a_way_out(tmp_path):
    path = str(tmp_path / "data.npz")
    np.savez(path, X=np.array([{}], dtype=object))
    with pytest.raises(InvalidInputError, match=r"NumPy archive.*Parquet or CSV"):
        read(path)


# --- trouble, by name ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("a,b\n", "has no rows"),
        ("a,b\n1,2\n3\n", "line 3 has 1 values where the first line has 2"),
        ("a,a\n1,2\n", "two columns named 'a'"),
        ("1,2\n3,4\n", "header=False"),
        (gzip.compress(b"a,b\n1,2\n" * 1000, mtime=0)[:-20], "cannot be read"),
        ('a,b\n"1,2\n3,4\n', "line"),
        (b"PK\x03\x04 and nothing else", "damaged archive"),
        (b"\xd0\xcf\x11\xe0 a workbook", "workbook.*as CSV"),
    ],
)
def test_bad_csv(tmp_path, text, words):
    path = write(tmp_path, text)
    with pytest.raises(InvalidInputError, match=words):
        read(path)


def test_no_header(tmp_path):
    assert contents(read(write(tmp_path, "1,2\n3,4\n"), header=False)) == {
        "c0": [1.0, 3.0],
        "c1": [2.0, 4.0],
    }


def test_unknown_columns_come_with_a_hint(tmp_path):
    path = write(tmp_path, CSV)
    with open_source(path) as source:
        with pytest.raises(InvalidInputError, match="Did you mean 'subject'"):
            Roles.choose(source, target="y", group="subjct")
        with pytest.raises(InvalidInputError, match=r"^features: data\.csv has no column 'nope'"):
            Roles.choose(source, target="y", features="age,nope")
        with pytest.raises(InvalidInputError, match="already the target"):
            Roles.choose(source, target="y", features="age,y")
        with pytest.raises(InvalidInputError, match="twice"):
            Roles.choose(source, target="y", features="age,age")
        with pytest.raises(InvalidInputError, match="left to be a feature"):
            Roles.choose(source, features="age", drop="age")


def test_roles(tmp_path):
    path = write(tmp_path, CSV.replace("dose", '"dose,mg"'))
    with open_source(path) as source:
        roles = Roles.choose(source, target="y", group="subject", drop="sex")
        assert roles.features == ("age", "dose,mg")
        assert roles.all() == ("age", "dose,mg", "y", "subject")
        assert Roles.choose(source, features="dose,mg").features == ("dose,mg",)


def test_targets_and_labels():
    table = as_table(
        {"text": ["a", "b", "a"], "gap": [1.0, np.nan, 2.0], "id": [3.0, 1.0, 2.5]},
    )
    with pytest.raises(InvalidInputError, match="target column 'text' must hold numbers"):
        table.numbers("text", "target")
    with pytest.raises(InvalidInputError, match="weight column 'gap' has 1 missing"):
        table.numbers("gap", "weight")
    with pytest.raises(InvalidInputError, match="has 1 infinite"):
        as_table({"a": [1.0, np.inf]}).numbers("a", "weight")
    with pytest.raises(InvalidInputError, match="group column 'gap' has 1 missing"):
        table.labels("gap", "group")
    assert table.labels("id", "group").tolist() == ["3", "1", "2.5"]
    assert table.labels("text", "group").tolist() == ["a", "b", "a"]


# --- writing ---------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_written_columns_read_back(tmp_path, suffix):
    rng = np.random.default_rng(3)
    columns = {
        "row": np.arange(5),
        "prediction": rng.normal(size=5),
        "group": np.array(["a", "b,", 'c"', "d\ne", "é"]),
    }
    path = str(tmp_path / f"out.{suffix}")
    check_writable(path)
    write_columns(path, columns)
    table = contents(read(path))
    assert table["row"] == list(range(5))
    assert table["prediction"] == columns["prediction"].tolist()
    assert table["group"] == columns["group"].tolist()


def test_standard_output(capsys):
    write_columns("-", {"a": np.array([1, 2]), "b": np.array([0.1, 1e-300])})
    assert capsys.readouterr().out == "a,b\n1,0.1\n2,1e-300\n"


def test_unwritable_names(tmp_path):
    with pytest.raises(InvalidInputError, match=r"must end in \.csv or \.parquet"):
        check_writable(str(tmp_path / "out.xlsx"))
    with pytest.raises(InvalidInputError, match="no folder"):
        check_writable(str(tmp_path / "nowhere" / "out.csv"))
