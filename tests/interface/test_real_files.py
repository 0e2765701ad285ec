"""Files as people have them, through the command line: read rightly, or the culprit is named."""

import csv
import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from holdfast.cli import main
from holdfast.cli.wording import said, with_options
from holdfast.exceptions import GridEdgeWarning, InvalidInputError

pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")

FAST = ["--alphas", "1e-2:1e2:5", "--verify", "0", "--cv", "4"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(name, header, rows, delimiter=",", encoding="utf-8", newline="\n"):
    lines = [header, *rows]
    text = newline.join(delimiter.join(map(str, line)) for line in lines) + newline
    with open(name, "w", encoding=encoding, newline="") as file:
        file.write(text)
    return name


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def columns(capsys, name, *options):
    """Return how each column is read, by name."""
    code, out, err = run(capsys, "cv", name, "--explain-columns", "--json", *options)
    assert code == 0, err
    return {column["name"]: column for column in json.loads(out)["columns"]}


def answer(capsys, name, *options):
    code, out, err = run(capsys, "cv", name, "--json", *FAST, *options)
    assert code == 0, err
    return json.loads(out)


def comma(value, digits=2):
    return f"{value:.{digits}f}".replace(".", ",")


# --- decimal commas, thousands, encodings ----------------------------------------------------


@pytest.fixture
def prices():
    rng = np.random.default_rng(0)
    dose, price = rng.uniform(0.5, 7.5, 60).round(1), rng.uniform(900, 9000, 60).round(2)
    return dose, price, rng.normal(size=60).round(3) + dose


def test_decimal_commas_are_numbers(capsys, prices):
    rows = [(comma(d, 1), comma(p), comma(t, 3)) for d, p, t in zip(*prices, strict=True)]
    write("de.csv", ["Dosis", "Preis", "y"], rows, ";")
    plain = [(d, p, round(t, 3)) for d, p, t in zip(*prices, strict=True)]
    write("en.csv", ["Dosis", "Preis", "y"], plain)
    german, english = (answer(capsys, name, "--target", "y") for name in ("de.csv", "en.csv"))
    assert german["headline"] == english["headline"]
    assert german["asked"]["feature_names"] == ["Dosis", "Preis"]
    assert "Numbers have a decimal comma." in german["asked"]["preparation"]


def test_thousands_separators(capsys):
    def read(cells, *options, delimiter=";"):
        write("t.csv", ["a", "b"], [(cell, i) for i, cell in enumerate(cells)], delimiter)
        found = columns(capsys, "t.csv", *options)["a"]
        from holdfast.tables import read_table

        decimal = dict(zip(options[::2], options[1::2], strict=True)).get("--decimal")
        frame = read_table("t.csv", decimal=decimal)
        return found, frame["a"].tolist()

    assert read(["1.234,5", "12.345,25"])[1] == [1234.5, 12345.25]
    assert read(["1,234.5", "12,345.25"], delimiter="\t")[1] == [1234.5, 12345.25]
    assert read(['"1,234.5"', '"2,000"'], delimiter=",")[1] == [1234.5, 2000]
    assert read(["1 234,5", "12 345,25"])[1] == [1234.5, 12345.25]
    assert read(["1'234.5", "12'345.25"])[1] == [1234.5, 12345.25]
    assert read(["12 %", "7 %"])[1] == [12, 7]
    assert read(["+1,5", "-2,5e3"])[1] == [1.5, -2500]
    # Alone, 1,234 may be either; the reading is said, and an option settles it.
    assert read(["1,234", "5,678"])[1] == [1.234, 5.678]
    _, out, _ = run(capsys, "cv", "t.csv", "--explain-columns")
    assert "If commas separate thousands here, name '.' as the decimal mark." in out
    assert read(["1,234", "5,678"], "--decimal", ".")[1] == [1234, 5678]
    assert read(["1.234", "5.678"], "--decimal", ",")[1] == [1234, 5678]


def test_underscores_are_no_thousands_separators(capsys):
    write("u.csv", ["a", "b"], [("1_000", 1), ("2_000", 2), ("1_000", 3)])
    assert columns(capsys, "u.csv")["a"]["kind"] == "category"


@pytest.mark.parametrize(
    "encoding", ["latin-1", "cp1252", "utf-8", "utf-8-sig", "utf-16", "utf-16-le"]
)
def test_encodings(capsys, encoding):
    rows = [("Köln" if i % 2 else "Zürich", 2 * i, (i * 7) % 5) for i in range(30)]
    write("e.csv", ["Städte", "x", "y"], rows, encoding=encoding)
    found = answer(capsys, "e.csv", "--target", "y")
    assert found["asked"]["feature_names"] == ["x", "Städte=Köln", "Städte=Zürich"]


def test_an_encoding_can_be_said(capsys):
    rows = [("Łódź" if i % 2 else "Kraków", i, (i * 7) % 5) for i in range(30)]
    write("e.csv", ["city", "x", "y"], rows, encoding="cp1250")
    found = answer(capsys, "e.csv", "--target", "y", "--encoding", "cp1250")
    assert "city=Łódź" in found["asked"]["feature_names"]
    code, _, err = run(capsys, "cv", "e.csv", "--target", "y", "--encoding", "klingon")
    assert code == 3
    assert "--encoding must be the name of one" in err


# --- missing values and culprits -------------------------------------------------------------


@pytest.mark.parametrize("mark", ["", "NA", "n/a", "N/A", "-", ".", "?", "NaN", "null", " NA "])
def test_marks_of_missing_values(capsys, mark):
    rows = [(mark if i == 7 else i * 1.5, "f" if i % 3 else "m", i % 5) for i in range(40)]
    write("m.csv", ["age", "sex", "y"], rows)
    found = columns(capsys, "m.csv")
    assert (found["age"]["kind"], found["age"]["missing"]) == ("number", 1)
    code, _, err = run(capsys, "cv", "m.csv", "--target", "y", *FAST)
    assert code == 3
    assert "'age': 1" in err
    assert "--impute fills in the median or the most frequent level; --drop A,B" in err


def test_a_dash_is_a_level_among_names(capsys):
    write("d.csv", ["sign", "y"], [("+" if i % 2 else "-", i) for i in range(20)])
    found = columns(capsys, "d.csv")["sign"]
    assert (found["kind"], found["levels"], found["missing"]) == ("category", 2, 0)


def test_other_marks_can_be_said(capsys):
    rows = [("n.d." if i == 4 else -9 if i == 6 else i * 1.5, i % 5) for i in range(40)]
    write("m.csv", ["age", "y"], rows)
    found = columns(capsys, "m.csv", "--na", "n.d.,-9")["age"]
    assert (found["kind"], found["missing"]) == ("number", 2)
    found = columns(capsys, "m.csv", "--na", "n.d.", "--na", "-9")["age"]
    assert found["missing"] == 2


def test_the_culprit_is_named_with_its_line(capsys):
    rows = [("unknown" if i == 16 else 20 + i, i % 5) for i in range(40)]
    write("c.csv", ["age", "y"], rows)
    for target, role in (("y", "The column 'age'"), ("age", "The target column 'age'")):
        code, _, err = run(capsys, "cv", "c.csv", "--target", target, *FAST)
        assert code == 3
        assert f"{role} holds numbers, except 'unknown' in line 18" in err
        assert "--na TEXT reads a text as a missing value" in err
        assert "41.0" not in err
    assert "cannot be used" in columns(capsys, "c.csv")["age"]["became"]
    found = columns(capsys, "c.csv", "--na", "unknown")["age"]
    assert (found["kind"], found["missing"]) == ("number", 1)
    assert columns(capsys, "c.csv", "--categorical", "age")["age"]["kind"] == "category"


def test_limits_are_recognised_and_said(capsys):
    rows = [("<0.1" if i in (5, 9) else 0.1 + i, i % 5) for i in range(40)]
    write("l.csv", ["crp", "y"], rows)
    found = columns(capsys, "l.csv")["crp"]
    assert found["kind"] == "number"
    assert "2 values of which only a limit is known, such as '<0.1' in line 7" in found["became"]


def test_codes_keep_their_zeros(capsys):
    rows = [(f"{i % 4:03d}", 2 * i, (i * 7) % 5) for i in range(40)]
    write("z.csv", ["plz", "x", "y"], rows)
    found = answer(capsys, "z.csv", "--target", "y")
    assert found["asked"]["feature_names"] == ["x", "plz=000", "plz=001", "plz=002", "plz=003"]


def test_a_line_that_is_too_short_is_an_error(capsys):
    write("s.csv", ["a", "b", "y"], [(1, 2, 3)] * 20 + [(1, 2)] + [(1, 2, 3)] * 20)
    code, _, err = run(capsys, "cv", "s.csv", "--target", "y", *FAST)
    assert code == 3
    assert "line 22 has 2 values where the first line has 3" in err


# --- dates -----------------------------------------------------------------------------------

FORMATS = {
    "%Y-%m-%d": "",
    "%d.%m.%Y": "day month year",
    "%m/%d/%Y": "month day year",
    "%d/%m/%Y": "day month year",
    "%Y-%m-%d %H:%M": "",
    "%Y-%m-%dT%H:%M:%S": "",
    "%d.%m.%Y %H:%M": "day month year",
    "%d %b %Y": "day month year",
    "%m/%d/%Y %I:%M %p": "month day year",
}


@pytest.mark.parametrize("format", FORMATS)
def test_dates_become_a_few_numbers(capsys, format):
    days = pd.date_range("2022-01-03 06:00", periods=391, freq="35h")
    rng = np.random.default_rng(0)
    y = np.sin(2 * np.pi * days.day_of_year / 365) + 0.1 * rng.normal(size=len(days))
    write("d.csv", ["when", "y"], list(zip(days.strftime(format), y.round(4), strict=True)))
    found = answer(capsys, "d.csv", "--target", "y")
    names = found["asked"]["feature_names"]
    assert names[:3] == ["when position", "when season sin", "when season cos"]
    assert len(names) <= 7
    assert ("when hour sin" in names) == ("%H" in format or "%I" in format)
    assert found["headline"]["skill"] > 0.9
    (column,) = (c for c in found["columns"] if c["name"] == "when")
    assert column["kind"] == "date"
    assert FORMATS[format] in column["became"]
    assert not any("identifier" in note for note in found["notes"])


def test_a_day_that_does_not_exist_is_named(capsys):
    days = [f"{1 + i % 28:02d}.{1 + i % 12:02d}.2023" for i in range(60)]
    days[20] = "31.02.2023"
    write("d.csv", ["when", "y"], [(day, i % 7) for i, day in enumerate(days)])
    code, _, err = run(capsys, "cv", "d.csv", "--target", "y", *FAST)
    assert code == 3
    assert "holds dates, except '31.02.2023' in line 22" in err


def series(shuffled):
    rng = np.random.default_rng(1)
    days = pd.date_range("2022-01-01", periods=200, freq="D")
    x = rng.normal(size=200)
    y = (x + rng.normal(size=200)).round(4)
    rows = list(zip(days.strftime("%Y-%m-%d"), x.round(4), y, strict=True))
    order = rng.permutation(200) if shuffled else np.arange(200)
    write("s.csv", ["when", "x", "y"], [rows[i] for i in order])
    return order


def test_time_orders_the_rows(capsys):
    order = series(shuffled=True)
    options = ["--target", "y", "--time", "when", "--cv", "time:5", "--gap", "3"]
    code, out, err = run(
        capsys,
        "cv",
        "s.csv",
        *options,
        "--predictions",
        "p.csv",
        "--verify",
        "0",
        "--save",
        "m.holdfast",
    )
    assert code == 0, err
    assert "5 steps in time, ordered by when, with a gap of 3 rows" in out
    with open("p.csv", newline="") as file:
        rows = [int(row["row"]) for row in csv.DictReader(file)]
    # 200 rows in six parts: the first is never tested; rows keep the numbers of the file.
    assert sorted(order[rows]) == list(range(35, 200))
    from holdfast import load

    model = load("m.holdfast")
    for experiment in model._problem.experiments:
        trained = np.setdiff1d(np.arange(200), experiment.held_out)
        assert order[trained].max() + 3 < order[experiment.test].min()


def test_rows_of_one_moment_stay_together(capsys):
    rows = [(2000 + i // 10, i % 7, (i * 3) % 11) for i in range(95)]
    write("y.csv", ["year", "x", "y"], rows)
    code, _, err = run(
        capsys,
        "cv",
        "y.csv",
        "--target",
        "y",
        "--time",
        "year",
        "--verify",
        "0",
        "--save",
        "m.holdfast",
    )
    assert code == 0, err
    from holdfast import load

    years = np.array([row[0] for row in rows])
    for experiment in load("m.holdfast")._problem.experiments:
        trained = np.setdiff1d(np.arange(95), experiment.held_out)
        assert years[trained].max() < years[experiment.test].min()


def test_time_splits_say_which_order_they_took(capsys):
    for shuffled, words in (
        (False, "which is the order of 'when'"),
        (True, "not the order of 'when'. --time when follows it"),
    ):
        series(shuffled)
        code, out, err = run(
            capsys, "cv", "s.csv", "--target", "y", "--cv", "time:4", "--verify", "0"
        )
        assert code == 0, err
        assert "in the order of the rows in the file" in out
        assert words in out


def test_gap_without_time(capsys):
    series(False)
    code, _, err = run(capsys, "cv", "s.csv", "--target", "y", "--gap", "3")
    assert code == 3
    assert "--gap is for steps in time, --cv time:5" in err


# --- how columns were read, and notes -------------------------------------------------------


def test_columns_are_a_table_in_the_answer_and_the_report(capsys):
    rows = [(2 * i, "ab"[i % 2], f"2023-01-{1 + i % 28:02d}", "x", i % 7) for i in range(60)]
    write("t.csv", ["n", "c", "d", "unused", "y"], rows)
    options = ["--target", "y", "--drop", "unused"]
    code, out, err = run(capsys, "cv", "t.csv", *options, *FAST, "--report", "r.md")
    assert code == 0, err
    assert re.search(r"column +role +kind +missing +levels +how it is used", out)
    for line in (
        r"n +feature +number +60 +centred and scaled",
        r"c +feature +category +2 +2 features",
        r"d +feature +date +28 +\d numbers: position",
        r"unused +not used",
        r"y +target +number +7 +to predict",
    ):
        assert re.search(line, out), line
    report = Path("r.md").read_text(encoding="utf-8")
    assert "### How each column was read" in report
    assert "| d | feature | date |  | 28 |" in report
    run(capsys, "cv", "t.csv", *options, *FAST, "--report", "r.html")
    page = Path("r.html").read_text(encoding="utf-8")
    assert "How each column was read" in page
    assert "Notes on the data" in page
    code, out, _ = run(capsys, "explain", "t.csv", "--explain-columns")
    assert code == 0
    assert "RMSE" not in out


def test_many_columns_are_counted(capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3000)).round(3)
    write("w.csv", [*(f"g{j}" for j in range(2999)), "y"], X.tolist())
    code, out, err = run(capsys, "cv", "w.csv", "--target", "y", *FAST)
    assert code == 0, err
    assert "more columns" in out
    assert len(out.splitlines()) < 120


def notes(capsys, *options):
    return " ".join(answer(capsys, "x.csv", "--target", "y", *options)["notes"])


def test_notes_on_identifiers(capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=50), "y": rng.normal(size=50)})
    frame.to_csv("x.csv")
    said = notes(capsys)
    assert "'' numbers the rows (0 to 49)" in said
    assert "left out" in said
    frame["case"] = rng.permutation(50) + 1000
    frame["name"] = [f"person {i}" for i in range(50)]
    frame.to_csv("x.csv", index=False)
    said = notes(capsys)
    assert "'case' numbers the rows (1000 to 1049)" in said
    assert "It was left out." in said
    assert "'name' is text with 50 different values" in said


def test_notes_on_duplicates(capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=50), "y": rng.normal(size=50)})
    pd.concat([frame, frame.iloc[:7]]).to_csv("x.csv", index=False)
    assert "7 rows repeat another row exactly" in notes(capsys)
    frame.to_csv("x.csv", index=False)
    assert "repeat" not in notes(capsys)


def test_notes_on_leaks(capsys):
    rng = np.random.default_rng(0)
    y = rng.normal(size=80)
    frame = pd.DataFrame({"x": y + rng.normal(size=80), "later": np.exp(y), "y": y})
    frame.to_csv("x.csv", index=False)
    said = notes(capsys)
    assert "'later' predicts 'y' almost alone" in said
    assert "'x' predicts" not in said
    frame["y"] = np.where(y > 0, "ill", "well")
    frame.to_csv("x.csv", index=False)
    assert "'later' separates the classes of 'y'" in notes(capsys, "--classify")


def test_notes_on_groups(capsys):
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(15), 4)
    frame = pd.DataFrame(
        {"pid": [f"q{w}" for w in who], "height": rng.normal(170, 9, 15).round(1)[who]}
    )
    frame["x"], frame["y"] = rng.normal(size=60), rng.normal(size=60)
    frame.to_csv("x.csv", index=False)
    said = notes(capsys)
    assert "'pid' has 15 values for 60 rows; 'height' is the same in all rows of one" in said
    assert "--group pid" in said
    code, out, _ = run(
        capsys, "cv", "x.csv", "--target", "y", "--group", "pid", "--json", "--verify", "0"
    )
    assert code == 0
    assert not any("in groups" in note for note in json.loads(out)["notes"])


def test_notes_on_classes_as_numbers(capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=60), "y": rng.integers(0, 2, 60)})
    frame.to_csv("x.csv", index=False)
    assert "two values, 0 and 1, and is fitted as a number" in notes(capsys)
    assert notes(capsys, "--classify") == ""


def test_notes_on_time(capsys):
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(size=90))
    frame = pd.DataFrame({"x": rng.normal(size=90), "y": walk})
    frame.to_csv("x.csv", index=False)
    assert "Neighbouring rows of the file resemble each other" in notes(capsys)
    frame["when"] = pd.date_range("2020-01-01", periods=90).strftime("%Y-%m-%d")
    frame.to_csv("x.csv", index=False)
    said = notes(capsys)
    assert "have a time ('when')" in said
    assert said.endswith("hold out steps in time. (--cv time:5 --time when)")


def test_plain_data_raise_no_notes(capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    frame = pd.DataFrame({**dict(zip("abc", X.T, strict=True)), "sex": rng.choice(["f", "m"], 100)})
    frame["y"] = X[:, 0] + rng.normal(size=100)
    frame.to_csv("x.csv", index=False)
    assert notes(capsys) == ""


# --- the preparation inside the folds --------------------------------------------------------


def test_preparing_inside_the_training_rows(capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.exponential(size=40) ** 3, "c": rng.choice(list("abc"), 40)})
    frame["y"] = np.sqrt(frame["x"]) + 0.1 * rng.normal(size=40)
    frame.to_csv("x.csv", index=False)
    fast = ["--alphas", "0.1,1", "--cv", "4"]
    code, out, err = run(
        capsys, "cv", "x.csv", "--target", "y", *fast, "--save", "m.holdfast", "--report", "r.md"
    )
    assert code == 0, err
    assert "Learned inside the training rows instead (3 experiments, 30 test rows): RMSE" in out
    assert "Learned inside the training rows" in Path("r.md").read_text(encoding="utf-8")
    code, out, _ = run(capsys, "verify", "m.holdfast", "-n", "4", "--pipeline", "x.csv", "--json")
    assert code == 0
    found = json.loads(out)["pipeline"]
    # The same by hand: scikit-learn's own transformers, fitted inside.
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    from holdfast import KernelRidgeCV, load

    model = load("m.holdfast")
    squares = []
    for experiment in model._problem.experiments:
        train = np.setdiff1d(np.arange(40), experiment.held_out)
        both = make_column_transformer(
            (StandardScaler(), ["x"]), (OneHotEncoder(handle_unknown="ignore"), ["c"])
        ).fit(frame.iloc[train])
        twin = KernelRidgeCV(kernel=model.kernel_, alphas=[model.alpha_], cv=2)
        twin.fit(both.transform(frame.iloc[train]), frame["y"].to_numpy()[train])
        error = twin.predict(both.transform(frame.iloc[experiment.test]))
        squares.extend((error - frame["y"].to_numpy()[experiment.test]) ** 2)
    np.testing.assert_allclose(found["inside"], np.sqrt(np.mean(squares)), rtol=1e-8)
    np.testing.assert_allclose(found["outside"], np.sqrt(-model.best_score_), rtol=1e-8)
    frame.iloc[1:].to_csv("other.csv", index=False)
    code, _, err = run(capsys, "verify", "m.holdfast", "--pipeline", "other.csv")
    assert code == 3
    assert "not the file that the model was fitted on" in err


def test_predict_prepares_as_before(capsys):
    rng = np.random.default_rng(0)
    days = pd.date_range("2022-01-01", periods=120, freq="5D")
    x, city = rng.normal(size=120), rng.choice(["Köln", "Bonn"], 120)
    y = x + np.sin(2 * np.pi * days.day_of_year / 365)
    rows = [
        (d.strftime("%d.%m.%Y"), comma(a, 4), c, comma(b, 4))
        for d, a, c, b in zip(days, x, city, y, strict=True)
    ]
    write("de.csv", ["Tag", "x", "Ort", "y"], rows, ";", "cp1252")
    code, _, err = run(
        capsys, "cv", "de.csv", "--target", "y", "--impute", *FAST, "--save", "m.holdfast"
    )
    assert code == 0, err
    # The same rows, written as another program would: the same predictions.
    again = [(d.strftime("%Y-%m-%d"), f"{a:.4f}", c) for d, a, c in zip(days, x, city, strict=True)]
    write("en.csv", ["Tag", "x", "Ort"], again)
    german, english = (run(capsys, "predict", "m.holdfast", f)[1] for f in ("de.csv", "en.csv"))
    assert german == english
    write("new.csv", ["Tag", "x", "Ort"], [("2023-01-01", "", "Ulm"), ("", "1.5", "Bonn")])
    code, out, err = run(capsys, "predict", "m.holdfast", "new.csv")
    assert code == 0, err
    assert len(out.splitlines()) == 3
    assert "'Ort': 1 rows" in err
    assert "Missing values were filled in as when the model was fitted ('x' 1, 'Tag' 1)" in err


# --- errors in the words of the command line -------------------------------------------------


def test_options_stand_beside_the_text():
    error = InvalidInputError("memory_limit must be a size.", argument="memory_limit")
    assert with_options(error) == "--memory must be a size."
    error = InvalidInputError("cv=KFold(9) cannot split", argument="cv", remedies=("groups",))
    assert with_options(error) == "--cv: cv=KFold(9) cannot split (Options: --group.)"
    error = InvalidInputError("no column 'basis=None'; say impute=True", remedies=("impute",))
    assert with_options(error) == "no column 'basis=None'; say impute=True (Options: --impute.)"
    error = InvalidInputError("--group q is no column", argument="group", remedies=("group",))
    assert with_options(error) == str(error)
    assert with_options(ValueError("alphas must be")) == "alphas must be"


def test_advice_in_python_becomes_advice_in_options():
    """Column names of users, which are in the fact, stay as they are."""
    advice = {"remedies": ("impute",), "advice": "Say impute=True."}
    error = InvalidInputError("'gamma=1' has gaps.", **advice)
    assert str(error) == "'gamma=1' has gaps. Say impute=True."
    fills = "--impute fills in the median or the most frequent level"
    assert with_options(error) == f"'gamma=1' has gaps. ({fills}.)"
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.fact) == (str(error), error.fact)
    warning = GridEdgeWarning("It lies at the end.", argument="gamma", advice="Pass gamma=[...].")
    told = "--gamma: It lies at the end. (--gamma 0.01:10:7 compares other widths.)"
    assert with_options(warning) == told


@pytest.mark.parametrize(
    "options",
    [
        ["--target", "y"],
        ["--target", "y", "--impute", "--basis", "none", "--memory", "10kB"],
        ["--target", "y", "--impute", "--held-out-basis", "skip"],
        ["--target", "y", "--impute", "--alphas", "1e3,1e4"],
        ["--target", "y", "--impute", "--gamma", "100,200"],
        ["--target", "y", "--impute", "--basis", "5", "--cv", "2"],
        ["--target", "y", "--impute", "--basis", "greedy:5"],
        ["--target", "y", "--impute", "--cv", "time:3"],
        ["--target", "y", "--impute", "--group", "g", "--cv", "loo"],
    ],
    ids=" ".join,
)
def test_no_message_speaks_python(capsys, options):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["x", "y"])
    frame["x"] = frame["x"].where(frame["x"] > -1)
    frame.assign(g=np.repeat(list("abcdef"), 10)).to_csv("x.csv", index=False)
    _, out, err = run(capsys, "cv", "x.csv", *options, "--verify", "0")
    said = "\n".join(line for line in (out + err).splitlines() if not line.startswith("  "))
    said = said.replace("n_samples=", "")  # scikit-learn's own word for the number of rows
    assert not re.search(r"\b[a-z_]+=[^ ]|\bholdfast\.\w|[A-Za-z]\(\)", said), said


@pytest.mark.parametrize(
    ("argument", "value", "typed"),
    [
        ("drop", "a b", "--drop 'a b'"),
        ("na", ("n.d.", "-9"), "--na n.d.,-9"),
        ("dayfirst", False, "--no-dayfirst"),
        ("header", False, "--no-header"),
        ("classify", True, "--classify"),
        ("group", None, "--group"),
    ],
)
def test_arguments_as_they_are_typed(argument, value, typed):
    assert said(argument, value) == typed


def test_errors_speak_of_options(capsys):
    rng = np.random.default_rng(0)
    pd.DataFrame({"x": rng.normal(size=60), "y": rng.normal(size=60)}).to_csv("x.csv", index=False)
    common = ["cv", "x.csv", "--target", "y"]
    for options, words in (
        (["--basis", "none", "--memory", "10kB"], "--basis: a dense model of 60 rows needs"),
        (["--basis", "none", "--memory", "10kB"], "--memory 8GB allows more.)"),
        (["--held-out-basis", "skip"], '--held-out-basis "skip" needs'),
        (["--cv", "100"], "--cv: 100 folds need at least 100 rows; there are 60."),
        (["--decimal", ";"], "--decimal must be '.' or ','"),
        (["--delimiter", "ab"], "--delimiter must be one character"),
    ):
        code, _, err = run(capsys, *common, *options)
        assert code == 3, options
        assert words in err
