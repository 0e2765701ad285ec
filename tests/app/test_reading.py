"""Reading: what is taken for what, and what is refused with the line."""

import os

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def columns(tmp_path, found):
    """Return what runs `holdfast cv` and tells of each column what it was read as and holds."""

    def read(text, name="t.csv"):
        path = tmp_path / name
        if isinstance(text, str):
            path.write_text(text, encoding="utf-8")
        findings = found("cv", path, "--target", "y")
        return {row[0]: row[1:4] for row in findings["columns"]["rows"]}, findings

    return read


def ends(column):
    """Return the smallest and the largest number of a column, to the digits that are shown."""
    kind, holds, _ = column
    assert kind == "number"
    return [float(end.replace(",", "").replace("−", "-")) for end in holds.split(" to ")]


def repeated(header, *lines, times=12):
    """Return a file whose lines come again and again, with a target of their own in each."""
    rows = [line.replace("Y", str(i)) for i, line in enumerate(lines * times)]
    return "\n".join([header, *rows, ""])


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        (repeated("a;y;b", "1,5;Y;x", "2,25;Y;z"), [1.5, 2.25]),
        (repeated("a;y", "1,5;Y,5", "2,25;Y,25"), [1.5, 2.25]),
        (repeated("a;y;b", "1.234,5;Y;x", "12.000,25;Y;z"), [1234.5, 12000.25]),
        (repeated("a,y", '"1,234.5",Y', '"12,000",Y'), [1234.5, 12000]),
        (repeated("a\ty", "−3\tY", "1e3\tY"), [-3, 1000]),
        (repeated("a|y", "12 %|Y", "3 %|Y"), [3, 12]),
        (repeated("\ufeffa,y", ".5,Y", "n/a,Y"), [0.5, 0.5]),
    ],
)
def test_numbers(columns, text, holds):
    assert ends(columns(text)[0]["a"]) == pytest.approx(holds, rel=1e-3)


def test_kinds(columns):
    cells = {
        "text": ("01067", "99084"),  # a code
        "date": ("2024-02-29", "2023-12-31"),
        "date, German": ("31.12.2023", "01.01.2024"),
        "date, with a zone": ("2024-02-29T10:00:00Z", "2024-02-29T11:30:00Z"),
        "text, a version": ("1.2.3", "4.5.6"),
        "text, infinity": ("Inf", "x"),
        "empty": ("", "NA"),
    }
    header = ";".join([*cells, "y"])
    lines = [";".join([*line, "Y"]) for line in zip(*cells.values(), strict=True)]
    found, _ = columns(repeated(header, *lines))
    for name in cells:
        assert found[name][0] == name.partition(",")[0]


def test_days_before_months_are_said(columns):
    found, findings = columns(repeated("day,y", "03/04/2024,Y", "05/06/2024,Y"))
    assert found["day"][1] == "2024-04-03 to 2024-06-05"
    assert any("03 April 2024" in text for text in findings["reading"])


def test_odd_cells_among_numbers_are_said_with_their_line(columns):
    _, findings = columns(repeated("a,y", "1.5,Y", "2.5,Y", times=30) + "ca. 7,1\n")
    assert any("line 62" in note["text"] for note in findings["notes"])


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("a,b\n1,2\n3\n4,5\n", "line 3: 1 cell"),
        ("a,b\n1,2\n3,4,5\n", "line 3: 3 cells"),
        ("a,a\n1,2\n", "“a”"),
        ("1,2\n3,4\n", "names"),
        ("a,b\n", "no rows"),
        ("a,b\n1,2\n1e200,3\n", "Line 3"),
        ("", "empty"),
        ("\x1f\x8b\x08\0abc", "gzip"),
        ("a,b\n\0\0\0", "zero"),
    ],
)
def test_bad_files_are_refused_with_3(tmp_path, ask, text, word):
    (tmp_path / "t.csv").write_text(text, encoding="latin-1" if "\x8b" in text else "utf-8")
    code, _, err = ask("cv", tmp_path / "t.csv", "--target", "a")
    assert code == 3
    assert word in err


@pytest.mark.skipif(os.name != "posix", reason="devices")
def test_devices_pipes_and_folders_are_refused_with_2(tmp_path, ask):
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/zero", tmp_path / "pipe", tmp_path, tmp_path / "nothing.csv"):
        assert ask("cv", path, "--target", "y")[0] == 2


def test_lines_are_those_of_the_file(tmp_path, ask):
    rows = "".join(f"x,{i}\n\n" for i in range(20))
    (tmp_path / "t.csv").write_text(f'a,y\n"two\nlines",1\n\n{rows}')
    out = tmp_path / "out.csv"
    more = ["--gamma", "0.1", "--quiet", "--predictions", out]
    assert ask("cv", tmp_path / "t.csv", "--target", "y", *more)[0] == 0
    np.testing.assert_array_equal(pd.read_csv(out)["line"], [2, *range(5, 45, 2)])


@pytest.mark.parametrize("name", ["t.parquet", "t.xlsx"])
def test_other_formats(tmp_path, columns, name):
    days = pd.date_range("2024-01-01", periods=24)
    frame = pd.DataFrame({"a": np.arange(24) % 5 + 0.5, "day": days, "y": np.arange(24) % 7 + 0.25})
    if name == "t.parquet":
        frame.to_parquet(tmp_path / name)
    else:
        frame.to_excel(tmp_path / name, index=False)
    found, _ = columns(None, name)
    assert ends(found["a"]) == [0.5, 4.5]
    assert found["day"][:2] == ["date", "2024-01-01 to 2024-01-24"]
