"""What must not be misread in silence: currencies, orders of dates, long cells, memory, sheets."""

import json
import subprocess
import sys

import numpy as np
import pytest

from holdfast.cli import main
from holdfast.exceptions import InvalidInputError, MissingDependencyError
from holdfast.tables import TablePreparation, open_source, read_columns, read_table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pandas")
FAST = ["--alphas", "1e-2:1e2:5", "--verify", "0", "--cv", "4"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(name, *columns):
    """Write columns, each a name and its cells, as CSV."""
    lines = zip(*([head, *cells] for head, cells in columns), strict=True)
    with open(name, "w", encoding="utf-8") as file:
        file.writelines(",".join(map(str, line)) + "\n" for line in lines)
    return name


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


# --- currencies ------------------------------------------------------------------------------


def test_currencies_are_not_mixed(capsys):
    y = ("y", range(40))
    write("one.csv", ("price", [f"${i}.50" for i in range(40)]), y)
    assert read_table("one.csv")["price"].tolist() == [i + 0.5 for i in range(40)]
    write("two.csv", ("price", [f"{'$€'[i % 2]}{i}" for i in range(40)]), y)
    code, _, err = run(capsys, "cv", "two.csv", "--target", "y", *FAST)
    assert code == 3
    assert "mixes the signs $ and € ('$0' in line 2, '€1' in line 3)" in err
    assert "--categorical A,B takes columns as names" in err
    with pytest.raises(InvalidInputError, match="mixes the signs % and €"):
        TablePreparation().fit({"a": ["5 %", "3 €"]})


def test_new_rows_are_in_the_same_currency():
    preparation = TablePreparation(scale=False).fit({"price": ["$5", "$7"]})
    assert preparation.transform({"price": ["$6", "$8"]}).tolist() == [[6], [8]]
    assert preparation.transform({"price": [6, 8]}).tolist() == [[6], [8]]
    with pytest.raises(InvalidInputError, match=r"held numbers in \$ .* now it holds numbers in €"):
        preparation.transform({"price": ["€6", "€8"]})


def test_limits_have_signs_and_marks_like_the_others():
    read = TablePreparation(scale=False)
    assert read.fit_transform({"a": ["0,5 %", "<0,1 %", "1.234,5 %"]})[:, 0].tolist() == [
        0.5,
        0.1,
        1234.5,
    ]
    assert read.fit_transform({"a": ["2.5", "<1,234"]})[:, 0].tolist() == [2.5, 1234]
    assert read.fit_transform({"a": ["2,5", "<1,234"]})[:, 0].tolist() == [2.5, 1.234]


# --- the order of day and month --------------------------------------------------------------


def test_the_order_of_day_and_month_is_asked_for(capsys):
    days = [f"{1 + i % 12:02d}/{1 + (i * 5) % 12:02d}/2021" for i in range(40)]
    write("d.csv", ("when", days), ("y", [(7 * i) % 11 for i in range(40)]))
    code, _, err = run(capsys, "cv", "d.csv", "--target", "y", *FAST)
    assert code == 3
    assert "'when' holds dates that fit both day/month and month/day" in err
    assert "'01/01/2021' in line 2" in err
    assert "(--dayfirst or --no-dayfirst decides it.)" in err
    for option, dayfirst, month in (("--dayfirst", True, 6), ("--no-dayfirst", False, 2)):
        assert run(capsys, "cv", "d.csv", "--target", "y", option, *FAST)[0] == 0
        assert read_table("d.csv", dayfirst=dayfirst)["when"][1].month == month
    assert (
        run(capsys, "cv", "d.csv", "--target", "y", "--drop", "when", *FAST)[0] == 3
    )  # no feature
    frame = {"when": ["03/04/2021", "05/04/2021"]}
    with pytest.raises(InvalidInputError, match="Say dayfirst=True or dayfirst=False"):
        TablePreparation().fit(frame)
    for dayfirst, span in ((True, 2), (False, 61)):
        X = TablePreparation(scale=False, dayfirst=dayfirst).fit_transform(frame)
        assert X[:, 0].tolist() == [0, span]


@pytest.mark.parametrize("days", [["13/04/2021", "03/04/2021"], ["05/05/2021"] * 2, ["3.4.2021"]])
def test_dates_that_show_their_order_are_read(days):
    assert TablePreparation().fit({"when": days}).kinds_ == {"when": "date"}


# --- long cells, and memory ------------------------------------------------------------------


def test_long_cells_are_not_echoed():
    write("long.csv", ("age", [*range(30), "x" * 100_000]), ("y", range(31)))
    write("name.csv", ("z" * 100_000, range(30)), ("z" * 100_000, range(30)))
    for name, words in (("long.csv", "xxx…' in line 32"), ("name.csv", "two columns")):
        raised = pytest.raises(InvalidInputError, match=words)
        with raised as caught, open_source(name) as source:
            read_columns(source, source.names).numbers("age", "target")
        assert len(str(caught.value)) < 500
    long = {"c": [f"{'w' * 10_000}{i}" for i in range(60)], "x": np.arange(60) % 7}
    preparation = TablePreparation().fit(long)
    assert len(preparation.left_out_["c"]) < 500
    with pytest.raises(InvalidInputError, match="now it holds text such as") as caught:
        preparation.transform({"x": ["w" * 10_000]})
    assert len(str(caught.value)) < 500


def test_a_line_that_is_wrong_is_not_echoed():
    with open("t.csv", "w", encoding="utf-8") as file:
        file.write("a,b\n1,2\n" + "w" * 100_000 + "\n")
    with pytest.raises(InvalidInputError, match="line 3") as caught:
        read_table("t.csv")
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("error", [MemoryError("no room"), pa.ArrowMemoryError("no room")])
def test_out_of_memory_is_not_a_damaged_file(monkeypatch, error):
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({"a": [1.0, 2.0]}), "t.parquet")

    def fail(*arguments, **options):
        raise error

    class Full(pyarrow.parquet.ParquetFile):
        read = fail

    monkeypatch.setattr(pyarrow.parquet, "ParquetFile", Full)
    with pytest.raises(InvalidInputError, match="does not fit into memory"):
        read_table("t.parquet")


# --- rows without a target, and columns that are mostly missing -------------------------------


def partly_known(capsys, *options):
    rng = np.random.default_rng(0)
    x = rng.normal(size=60).round(3)
    y = np.where(np.arange(60) % 10 == 3, np.nan, 2 * x + 0.1 * rng.normal(size=60))
    cells = ["" if np.isnan(v) else f"{v:.4f}" for v in y]
    write("x.csv", ("x", x), ("y", cells))
    write("known.csv", ("x", x[~np.isnan(y)]), ("y", [c for c in cells if c]))
    found = [
        run(capsys, "cv", name, "--target", "y", "--json", *FAST, *options)
        for name in ("x.csv", "known.csv")
    ]
    assert [code for code, _, _ in found] == [0, 0], found
    return x, y, [json.loads(out) for _, out, _ in found]


def test_rows_without_a_target_are_left_out_and_predicted(capsys):
    x, y, (partly, known) = partly_known(capsys)
    assert partly["headline"] == known["headline"]
    told = "6 of 60 rows have no value of 'y' and were left out"
    assert any(told in sentence for sentence in partly["asked"]["preparation"])
    options = ["--predictions", "p.csv", "--save", "m.holdfast"]
    assert run(capsys, "cv", "x.csv", "--target", "y", *FAST, *options)[0] == 0
    frame = read_table("p.csv")
    assert sorted(frame["row"]) == list(range(60))
    rest = frame[frame["experiment"] == -1]
    assert rest["row"].tolist() == np.flatnonzero(np.isnan(y)).tolist()
    assert rest["actual"].isna().all()
    np.testing.assert_allclose(rest["prediction"], 2 * x[np.isnan(y)], atol=0.5)
    held = frame[frame["experiment"] >= 0]
    np.testing.assert_allclose(held["actual"], y[held["row"].astype(int)], atol=1e-4)
    code, _, err = run(capsys, "verify", "m.holdfast", "-n", "2", "--pipeline", "x.csv")
    assert code == 0, err


def test_a_target_without_any_value(capsys):
    write("x.csv", ("x", range(30)), ("y", [""] * 30))
    code, _, err = run(capsys, "cv", "x.csv", "--target", "y", *FAST)
    assert code == 3
    assert "'y' has no values: all 30 are missing" in err


def test_mostly_missing_columns_are_named(capsys):
    rng = np.random.default_rng(0)
    y = ("y", rng.normal(size=100).round(3))
    rare = [f"{v:.3f}" if i % 12 == 0 else "" for i, v in enumerate(rng.normal(size=100))]
    some = [f"{v:.3f}" if i % 4 else "" for i, v in enumerate(rng.normal(size=100))]
    write("x.csv", ("rare", rare), ("some", some), y)
    _, out, _ = run(capsys, "cv", "x.csv", "--target", "y", "--impute", *FAST)
    assert "'rare' has no value in 91 % of the rows" in out
    assert "'some' has no value" not in out


# --- predict reads as cv did -----------------------------------------------------------------


def test_predict_remembers_how_the_file_was_read(capsys):
    rng = np.random.default_rng(0)
    days = [f"{1 + i % 12:02d}/{1 + (i * 5) % 12:02d}/2021" for i in range(60)]
    x = [f'"1,{i:03d}"' if i % 9 else "n.d." for i in rng.integers(100, 999, 60)]
    write("t.csv", ("when", days), ("x", x), ("y", rng.integers(0, 9, 60)))
    said = ["--na", "n.d.", "--decimal", ",", "--dayfirst"]
    code, _, err = run(
        capsys, "cv", "t.csv", "--target", "y", "--impute", *FAST, "--save", "m.holdfast", *said
    )
    assert code == 0, err
    code, plain, err = run(capsys, "predict", "m.holdfast", "t.csv")
    assert code == 0, err
    assert "read as the training rows were, with --decimal , and --na n.d. and --dayfirst" in err
    assert plain == run(capsys, "predict", "m.holdfast", "t.csv", *said)[1]
    assert plain != run(capsys, "predict", "m.holdfast", "t.csv", "--decimal", ".")[1]
    assert plain != run(capsys, "predict", "m.holdfast", "t.csv", "--no-dayfirst")[1]


# --- workbooks -------------------------------------------------------------------------------


def test_the_first_sheet_of_a_workbook():
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    book = openpyxl.Workbook()
    book.active.append(["age", "sex", "when", "dose"])
    for i in range(30):
        day = np.datetime64("2021-01-01").astype(object)
        book.active.append([i * 1.5, "fm"[i % 2], day, "?!" if i == 12 else 20 + i])
    book.active.append([None, None, None, None])
    book.save("t.xlsx")
    with open_source("t.xlsx") as source:
        table = read_columns(source, source.names)
    assert table["age"].tolist() == [i * 1.5 for i in range(30)]
    assert table["sex"][:2].tolist() == ["f", "m"]
    assert table.readings["when"].kind == "date"
    assert "except '?!' in row 14 of the sheet" in table.readings["dose"].trouble
    assert read_table("t.xlsx", na=["?!"])["dose"].isna().sum() == 1
    with open_source("t.xlsx", header=False) as source:
        assert source.names == ("c0", "c1", "c2", "c3")


def test_a_workbook_without_openpyxl(monkeypatch):
    import zipfile

    with zipfile.ZipFile("t.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingDependencyError, match=r"openpyxl.*CSV"):
        read_table("t.xlsx")


def test_reading_needs_no_scikit_learn():
    write("t.csv", ("a", [1, 2]))
    script = (
        "import sys; from holdfast.tables import open_source as o\nwith o('t.csv') as s: pass\n"
    )
    script += "assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
