"""Reading: what is taken for what, and what is refused with the line."""

import os

import numpy as np
import pandas as pd
import pytest

from holdfast.app.reading import read_table
from holdfast.app.words import BadData, Refusal, safe


def table(tmp_path, text, **options):
    path = tmp_path / "t.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_table(str(path), **options)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a;b\n1,5;x\n2,25;y\n", [1.5, 2.25]),
        ("a;b\n1.234,5;x\n12.000,25;y\n", [1234.5, 12000.25]),
        ('a,b\n"1,234.5",x\n"12,000",y\n', [1234.5, 12000.0]),
        ("a\tb\n−3\tx\n1e3\ty\n", [-3.0, 1000.0]),
        ("a|b\n12 %|x\n3 %|y\n", [12.0, 3.0]),
        ("\ufeffa,b\n.5,x\nn/a,y\n", [0.5, np.nan]),
    ],
)
def test_numbers(tmp_path, text, values):
    found = table(tmp_path, text)
    assert found.kinds["a"] == "number"
    np.testing.assert_array_equal(found.frame["a"], values)


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["01067", "99084"], "text"),
        (["2024-02-29", "2023-12-31"], "date"),
        (["31.12.2023", "01.01.2024"], "date"),
        (["2024-02-29T10:00:00Z", "2024-02-29T11:30:00Z"], "date"),
        (["1.2.3", "4.5.6"], "text"),
        (["Inf", "x"], "text"),
        (["", "NA"], "empty"),
    ],
)
def test_kinds(tmp_path, cells, kind):
    found = table(tmp_path, "a,b\n" + "".join(f"{cell},1\n" for cell in cells))
    assert found.kinds["a"] == kind


def test_days_before_months_are_said(tmp_path):
    found = table(tmp_path, "day,b\n03/04/2024,1\n05/06/2024,2\n")
    assert found.frame["day"][0] == pd.Timestamp(2024, 4, 3)
    assert "3 April 2024".replace("3 ", "03 ") in found.notes[0]


def test_odd_cells_among_numbers_are_said_with_their_line(tmp_path):
    rows = "".join(f"{i}.5,1\n" for i in range(60))
    found = table(tmp_path, f"a,b\n{rows}ca. 7,1\n")
    assert np.isnan(found.frame["a"].iloc[-1])
    assert "line 62" in found.warnings[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n3\n4,5\n", ["line 3", "1 cell"]),
        ("a,b\n1,2\n3,4,5\n", ["line 3", "3 cells"]),
        ("a,a\n1,2\n", ["“a”"]),
        ("1,2\n3,4\n", ["names"]),
        ("a,b\n", ["no rows"]),
        ("a,b\n1,2\n1e200,3\n", ["Line 3"]),
        ("", ["empty"]),
        (b"\x1f\x8b\x08\x00abc", ["gzip"]),
        (b"a,b\n\x00\x00\x00", ["zero"]),
    ],
)
def test_bad_files_are_refused(tmp_path, text, words):
    with pytest.raises(BadData) as refused:
        table(tmp_path, text)
    for word in words:
        assert word in str(refused.value)


@pytest.mark.skipif(os.name != "posix", reason="devices")
def test_devices_pipes_and_folders_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/zero", tmp_path / "pipe", tmp_path, tmp_path / "nothing.csv"):
        with pytest.raises(Refusal):
            read_table(str(path))


def test_lines_are_those_of_the_file(tmp_path):
    found = table(tmp_path, 'a,b\n"two\nlines",1\n\nx,2\ny,3\n')
    np.testing.assert_array_equal(found.lines, [2, 5, 6])


def test_other_formats(tmp_path):
    frame = pd.DataFrame({"a": [1.5, 2.5], "day": pd.to_datetime(["2024-01-01", "2024-01-02"])})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    for name in ("t.parquet", "t.xlsx"):
        found = read_table(str(tmp_path / name))
        assert found.kinds == {"a": "number", "day": "date"}
        np.testing.assert_array_equal(found.frame["a"], [1.5, 2.5])


def test_names_are_shown_without_their_tricks():
    assert safe("user\u202egpj.exe\x1b[31m") == "user\\u202egpj.exe\\x1b[31m"
    assert len(safe("x" * 10_000_000)) < 100
