"""From a table to a matrix: a fitted transformer that can be kept."""

import numpy as np
import pytest

from holdfast.exceptions import FileFormatError, HoldfastWarning, InvalidInputError
from holdfast.files.codec import Decoder, Encoder
from holdfast.tables import (
    TablePreparation,
    as_table,
    open_source,
    read_columns,
)

pd = pytest.importorskip("pandas")


def names(preparation):
    return preparation.get_feature_names_out().tolist()


def prepare(table, **options):
    preparation = TablePreparation(**options).fit(table)
    return preparation.transform(table), preparation


def test_numbers_are_standardised_and_categories_become_indicators():
    table = {"age": [1, 2, 3, 6], "sex": ["m", "f", "f", "m"], "one": [5, 5, 5, 5]}
    X, preparation = prepare(table)
    assert names(preparation) == ["age", "one", "sex=f", "sex=m"]
    np.testing.assert_allclose(X[:, 0].mean(), 0, atol=1e-15)
    np.testing.assert_allclose(X[:, 0].std(), 1)
    np.testing.assert_array_equal(X[:, 2:], [[0, 1], [1, 0], [1, 0], [0, 1]])
    np.testing.assert_array_equal(X[:, 1], 0)
    new = preparation.transform({"age": [3], "sex": ["f"], "one": [6]})
    np.testing.assert_allclose(new, [[0, 1, 1, 0]], atol=1e-15)


def test_without_scaling():
    X, _ = prepare({"age": [1, 2, 3, 6]}, scale=False)
    np.testing.assert_array_equal(X[:, 0], [1, 2, 3, 6])


def test_frames_of_pandas_polars_and_arrow_are_one():
    pa = pytest.importorskip("pyarrow")
    pl = pytest.importorskip("polars")
    columns = {"n": [1.0, 2.0, 4.0], "t": ["a", "b", "a"], "k": [True, False, True]}
    made = [prepare(make(columns))[0] for make in (pd.DataFrame, pl.DataFrame, pa.table, dict)]
    for X in made[1:]:
        np.testing.assert_array_equal(X, made[0])


def test_a_pandas_category_holds_names():
    frame = pd.DataFrame({"zip": pd.Series(["1", "2", "1"], dtype="category"), "x": [1, 2, 3]})
    assert names(TablePreparation().fit(frame)) == ["x", "zip=1", "zip=2"]
    frame = pd.DataFrame({"mixed": [1, "two", None], "x": [1, 2, 3]})
    assert names(TablePreparation(impute=True).fit(frame)) == ["x", "mixed=1", "mixed=two"]


def test_inside_a_pipeline_of_scikit_learn():
    from sklearn.base import clone
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=60), "c": rng.choice(["a", "b"], 60)})
    y = frame["x"] + (frame["c"] == "a")
    model = make_pipeline(TablePreparation(), Ridge(alpha=1e-3))
    assert cross_val_score(clone(model), frame, y, cv=3).min() > 0.99


def test_features_do_not_depend_on_the_order_of_rows():
    assert names(TablePreparation().fit({"c": ["b", "a", "c"]})) == ["c=a", "c=b", "c=c"]


def test_unseen_levels_are_zeros_and_counted():
    preparation = TablePreparation().fit({"c": ["a", "b", "a"]})
    with pytest.warns(HoldfastWarning, match="'c': 2 rows"):
        X = preparation.transform({"c": ["z", "b", "q"]})
    np.testing.assert_array_equal(X, [[0, 0], [0, 1], [0, 0]])


def test_missing_values_are_refused_with_their_counts():
    table = {"a": [1, np.nan, np.nan], "b": [1, 2, 3], "c": ["x", None, "x"]}
    with pytest.raises(InvalidInputError, match=r"'a': 2, 'c': 1\).*impute=True"):
        TablePreparation().fit(table)


def test_imputing():
    table = {"a": [1, 2, np.nan, 9], "c": ["x", None, "y", "y"]}
    X, _ = prepare(table, impute=True, scale=False)
    np.testing.assert_array_equal(X[:, 0], [1, 2, 2, 9])
    np.testing.assert_array_equal(X[:, 1:], [[1, 0], [0, 1], [0, 1], [0, 1]])
    refusing = TablePreparation().fit({"a": [1, 2, 3]})
    with pytest.raises(InvalidInputError, match="'a': 1"):
        refusing.transform({"a": [1.0, np.nan]})


def test_scale_is_learned_after_imputing():
    X, _ = prepare({"a": [1, 2, np.nan, 9, 4]}, impute=True)
    np.testing.assert_allclose([X.mean(), X.std()], [0, 1], atol=1e-15)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ([f"id{i}" for i in range(60)], "60 different values in 60 rows.*identifier"),
        ([np.nan] * 60, "no values at all"),
    ],
)
def test_columns_that_are_no_features_are_left_out_and_named(column, words):
    import re

    table = {"c": column, "x": np.arange(60.0) ** 2}
    preparation = TablePreparation().fit(table)
    assert names(preparation) == ["x"]
    assert re.search(words, preparation.left_out_["c"])
    with pytest.raises(InvalidInputError, match=words):
        TablePreparation(keep=True).fit(table)


def test_an_index_is_left_out():
    table = {"Unnamed: 0": [0, 1, 2, 3], "x": [3, 4, 7, 7], "n": [5, 6, 7, 8]}
    preparation = TablePreparation().fit(table)
    assert names(preparation) == ["x", "n"]
    assert "numbers the rows (0 to 3)" in preparation.left_out_["Unnamed: 0"]


def test_row_numbers_are_left_out():
    rng = np.random.default_rng(0)
    numbers = rng.permutation(1200) + 1000
    table = {"number": numbers, "x": rng.normal(size=1200), "gap": np.r_[numbers[:-1], 5000]}
    preparation = TablePreparation().fit(table)
    assert names(preparation) == ["x", "gap"]
    assert "numbers the rows (1000 to 2199)" in preparation.left_out_["number"]
    assert names(TablePreparation(keep=True).fit(table)) == ["number", "x", "gap"]
    some = {name: column[np.arange(1200) % 9 > 0] for name, column in table.items()}
    assert names(TablePreparation().fit(some)) == ["x", "gap"]
    assert names(TablePreparation(time="x").fit({**table, "x": numbers})) == ["gap"]


def test_steps_and_years_are_no_row_numbers():
    years = {"year": np.arange(1950, 2020), "x": np.arange(70) ** 2}
    assert names(TablePreparation().fit(years)) == ["year", "x"]
    assert names(TablePreparation().fit({"step": np.arange(70)})) == ["step"]


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e160, 1e300])
def test_numbers_whose_squares_leave_the_range(size):
    values = np.array([1.0, 2.0, 3.0, 6.0])
    X, _ = prepare({"extreme": values * size, "constant": np.full(4, size)})
    np.testing.assert_allclose(X[:, 0], prepare({"extreme": values})[0][:, 0], rtol=1e-12)
    np.testing.assert_array_equal(X[:, 1], 0)


def test_infinite_values():
    with pytest.raises(InvalidInputError, match="30 infinite values"):
        TablePreparation().fit({"c": [1.0, np.inf] * 30})


def test_kinds_must_stay():
    preparation = TablePreparation().fit({"n": [1, 2], "t": ["a", "b"]})
    with pytest.raises(InvalidInputError, match=r"'n' held numbers.*'x'"):
        preparation.transform({"n": ["x", "y"], "t": ["a", "b"]})
    with pytest.raises(InvalidInputError, match=r"lacks columns.*'t'"):
        preparation.transform({"n": [1, 2]})


def test_codes_of_a_text_column_are_read_as_text(tmp_path):
    """A new file in which all levels look like numbers still matches the levels learned."""
    (tmp_path / "train.csv").write_text("c,y\n1,0\n2,1\nA,2\n")
    (tmp_path / "new.csv").write_text("c\n2\n1\n")
    with open_source(str(tmp_path / "train.csv")) as source:
        preparation = TablePreparation().fit(read_columns(source, ["c"]))
    with open_source(str(tmp_path / "new.csv")) as source:
        table = preparation.read(source)
    np.testing.assert_array_equal(preparation.transform(table), [[0, 1, 0], [1, 0, 0]])


# --- dates -----------------------------------------------------------------------------------


def dates(start, stop, step):
    return np.arange(np.datetime64(start), np.datetime64(stop), np.timedelta64(*step))


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        (dates("2020-01-01", "2024-01-01", (1, "D")), ("position", "season", "weekday")),
        (dates("2020-01", "2030-01", (1, "M")), ("position", "season")),
        (dates("2020-01-01", "2020-01-08", (1, "D")), ("position",)),
        (dates("2020-01-01T00", "2020-02-01T00", (1, "h")), ("position", "weekday", "hour")),
        (dates("2000-01-01", "2003-01-01", (7, "D")), ("position", "season")),
        (np.array(["2020-01-01"] * 5, "datetime64[D]"), ("position",)),
    ],
)
def test_dates_become_what_they_suggest(values, parts):
    X, preparation = prepare({"d": values.astype("datetime64[s]")})
    expected = [f"d {part}{side}" for part in parts[1:] for side in (" sin", " cos")]
    assert names(preparation) == ["d position", *expected]
    assert X.shape == (len(values), 1 + len(expected))


def test_circles_close():
    hours = dates("2020-01-01T00", "2024-01-01T00", (5, "h")).astype("datetime64[s]")
    preparation = TablePreparation().fit({"d": hours})
    assert len(names(preparation)) == 7

    def far(a, b, columns):
        X = preparation.transform({"d": np.array([a, b], dtype="datetime64[s]")})
        return np.linalg.norm(X[0, columns] - X[1, columns])

    assert (
        far("2021-12-31", "2022-01-01", slice(1, 3))
        < 0.05
        < 2
        < far("2021-12-31", "2022-07-01", slice(1, 3))
    )
    assert far("2022-01-02T12", "2022-01-03T12", slice(3, 5)) < 1.3  # Sunday, Monday
    assert far("2022-01-03T23:30", "2022-01-04T00:30", slice(5, 7)) < 0.5


def test_dates_of_new_rows_are_read_as_before():
    """03/04 alone says nothing of the order of day and month; the training rows said it."""
    days = [f"{d:02d}/{m:02d}/2023" for m in (1, 2, 3) for d in range(1, 29)]
    X, preparation = prepare({"when": days}, scale=False)
    assert preparation.learned_.formats == {"when": "%d/%m/%Y"}
    at = days.index("03/02/2023")
    np.testing.assert_array_equal(preparation.transform({"when": ["03/02/2023"]})[0], X[at])


def test_missing_dates():
    days = dates("2020-01-01", "2020-02-01", (1, "D")).astype(object)
    days[3] = None
    table = {"when": days}
    with pytest.raises(InvalidInputError, match="'when': 1"):
        TablePreparation().fit(table)
    X, preparation = prepare(table, impute=True)
    assert np.isfinite(X).all()
    again = TablePreparation.from_learned(preparation.learned_)
    np.testing.assert_array_equal(again.transform(table), X)
    np.testing.assert_array_equal(again.transform({"when": [None]}), X[3:4])


# --- files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("impute", [True, False])
@pytest.mark.parametrize("scale", [True, False])
def test_what_was_learned_survives_a_file(impute, scale):
    rng = np.random.default_rng(0)
    table = {
        "a": rng.normal(size=40) * 1e6,
        "flag": rng.random(40) < 0.5,
        "c": rng.choice(["x", "y", "ü"], 40).tolist(),
        "when": dates("2020-01-01", "2021-01-01", (9, "D"))[:40].astype(str).tolist(),
    }
    if impute:
        table["a"][3], table["c"][5] = np.nan, None
    X, preparation = prepare(table, impute=impute, scale=scale, time="when")
    writer = Encoder()
    learned = Decoder(writer.arrays, False).decode(writer.encode(preparation.learned_, "p"))
    again = TablePreparation.from_learned(learned)
    np.testing.assert_array_equal(again.transform(table), X)
    assert names(again) == names(preparation)
    assert again.features_of() == preparation.features_of()


FORGERIES = [
    ("numbers.names", ["a", "b"]),
    ("numbers.names", {"$tuple": ["a", "a"]}),
    ("numbers.names", {"$tuple": ["a", 3]}),
    ("numbers.centre", 0.0),
    ("numbers.spread", {"$array": "zeros"}),
    ("numbers.fill", {"$array": "text"}),
    ("categories", []),
    ("categories", {"c": 3}),
    ("categories", {"a": 3}),
    ("categories.c.levels", "abc"),
    ("categories.c.levels", {"$tuple": []}),
    ("categories.c.fill", "z"),
    ("dates.when.parts", {"$tuple": ["position", "century"]}),
    ("dates.when.parts", {"$tuple": []}),
    ("dates.when.origin", 2**70),
    ("dates.when.spread", 0.0),
    ("dates.when.centre", {"$number": "nan"}),
    ("formats", 3),
    ("units", {"a": 3}),
    ("options", None),
    ("options.decimal", ";"),
    ("options.na", 3),
]


@pytest.mark.parametrize(("path", "value"), FORGERIES)
def test_a_forged_file_is_refused(path, value):
    table = {
        "a": [1.0, 2.0],
        "b": [0.0, 3.0],
        "c": ["x", "y"],
        "when": ["2020-01-01", "2020-02-01"],
    }
    writer = Encoder()
    document = writer.encode(TablePreparation().fit(table).learned_, "p")
    arrays = {**writer.arrays, "zeros": np.zeros(2), "text": np.array(["x", "y"])}
    *parents, last = path.split(".")
    part = document["fields"]
    for name in parents:
        part = part[name]
        part = part.get("fields", part)
    part[last] = value
    with pytest.raises(FileFormatError, match="malformed"):
        Decoder(arrays, False).decode(document)


def test_as_table_refuses_what_is_none():
    with pytest.raises(InvalidInputError, match="frame must be"):
        as_table(np.eye(3))
    with pytest.raises(InvalidInputError, match="one length"):
        as_table({"a": [1], "b": [1, 2]})
