"""Other models on the command line: a trend, bands of columns, calibrated probabilities."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedKFold

import holdfast
from holdfast import KernelMixtureCV, KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.cli import main
from holdfast.kernels import RBF, OnColumns

FAST = ["--cv", "5", "--gamma", "0.3", "--alphas", "1e-3:10:5", "--verify", "1", "--quiet"]
GRID = {"alphas": np.geomspace(1e-3, 10, 5), "random_state": 0}
FOLDS = KFold(5, shuffle=True, random_state=0)

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")


@pytest.fixture
def stations(tmp_path, monkeypatch):
    """Write stations.csv; return its features as the command line makes them, and the target."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    place, height = rng.uniform(0, 10, size=(120, 2)), rng.uniform(0, 2000, size=120)
    site = rng.choice(list("abc"), 120)
    y = 15 - 0.0065 * height + np.sin(place[:, 0]) + 2 * (site == "b") + rng.normal(size=120) / 3
    with open("stations.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["east", "north", "height", "site", "warm", "t"])
        for p, h, s, t in zip(place, height, site, y, strict=True):
            writer.writerow([*map(repr, map(float, (*p, h))), s, "yn"[int(t < 10)], repr(float(t))])
    numbers = np.c_[place, height]
    levels = np.stack([site == s for s in "abc"], axis=1).astype(float)
    X = np.hstack([(numbers - numbers.mean(axis=0)) / numbers.std(axis=0), levels])
    return X, y, numbers.std(axis=0)


def found(capsys, *arguments):
    code = main(["cv", "stations.csv", *arguments, *FAST, "--json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return json.loads(captured.out)


@pytest.mark.parametrize(
    ("trend", "columns", "names"),
    [
        ("height,site", [2, 4, 5], ["height", "site=b", "site=c"]),
        ("linear", [0, 1, 2, 4, 5], ["east", "north", "height", "site=b", "site=c"]),
    ],
)
def test_trend_is_that_of_python_in_the_units_of_the_file(stations, capsys, trend, columns, names):
    X, y, spread = stations
    document = found(capsys, "--target", "t", "--drop", "warm", "--trend", trend)
    model = KernelRidgeCV(gamma=0.3, cv=FOLDS, trend=columns, **GRID).fit(X, y)
    units = np.append(spread, np.ones(3))[columns]
    terms = document["trend"]
    assert [term["name"] for term in terms] == names
    np.testing.assert_allclose(
        [term["coefficient"] for term in terms], model.trend_coef_ / units, rtol=1e-7
    )
    np.testing.assert_allclose(
        [term["standard_error"] for term in terms], model.trend_coef_std_ / units, rtol=1e-7
    )
    assert document["headline"]["value"] == pytest.approx(np.sqrt(-model.best_score_))


def test_trend_in_every_form_of_the_answer(stations, capsys):
    options = ["--target", "t", "--drop", "warm", "--trend", "height", "--report", "r.html"]
    assert main(["cv", "stations.csv", *options, *FAST, "--save", "m.holdfast"]) == 0
    text = capsys.readouterr().out
    assert "column  coefficient  standard error" in text
    assert "What the model is made of" in Path("r.html").read_text("utf-8")
    assert main(["predict", "m.holdfast", "stations.csv", "--out", "p.csv", "--quiet"]) == 0
    assert main(["verify", "m.holdfast", "--pipeline", "stations.csv"]) == 3
    assert "--trend and columns of text" in capsys.readouterr().err


def test_bands_are_those_of_python(stations, capsys):
    X, y, _ = stations
    options = ["--target", "t", "--drop", "warm", "--band", "place=east,north"]
    document = found(capsys, *options, "--band", "up=height", "--save", "m.holdfast")
    kernels = {
        "place": OnColumns(RBF(0.3), [0, 1]),
        "up": OnColumns(RBF(0.3), [2]),
        "other columns": OnColumns(RBF(0.3), [3, 4, 5]),
    }
    model = KernelMixtureCV(kernels, n_draws=30, cv=FOLDS, **GRID).fit(X, y)
    bands = document["bands"]
    assert [band["name"] for band in bands] == list(kernels)
    np.testing.assert_allclose([band["weight"] for band in bands], model.kernel_weights_)
    delta = model.kernel_importance().delta[:, 0]
    np.testing.assert_allclose([band["loss"] for band in bands], delta, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(holdfast.load("m.holdfast").predict(X), model.predict(X))


def test_calibration_is_that_of_python(stations, capsys):
    X, _, _ = stations
    options = ["--target", "warm", "--drop", "t", "--classify", "--calibration", "sigmoid"]
    document = found(capsys, *options, "--save", "m.holdfast")
    with open("stations.csv", newline="") as file:
        labels = np.array([row["warm"] for row in csv.DictReader(file)])
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    model = KernelRidgeClassifierCV(gamma=0.3, calibration="sigmoid", cv=folds, **GRID)
    before, after = model.fit(X, labels).calibration_scores().values()
    told = document["probabilities"]
    assert told["method"] == "sigmoid"
    assert told["log_loss"] == pytest.approx([before.log_loss, after.log_loss])
    assert told["brier"] == pytest.approx([before.brier, after.brier])
    assert main(["predict", "m.holdfast", "stations.csv", "--out", "p.csv", "--quiet"]) == 0
    with open("p.csv", newline="") as file:
        given = [float(row["probability y"]) for row in csv.DictReader(file)]
    np.testing.assert_allclose(given, model.predict_proba(X)[:, 1], rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--trend", "depth"], "--trend: 'depth' is not one of the columns"),
        (["--band", "place"], "--band must be a name and its columns"),
        (["--band", "a=east", "--band", "b=east,north"], "'east' is in two bands"),
        (["--band", "a=east,north,height,site,warm"], "one band holds all columns"),
        (["--band", "a=east", "--gamma", "0.1:1:3"], "takes one width for all bands"),
        (["--calibration", "sigmoid"], "say --classify too"),
        (["--trend", "linear", "--kernel-matrix", "K.npy"], "exclude each other"),
    ],
)
def test_nonsense_is_refused_in_the_words_of_the_options(stations, capsys, options, words):
    assert main(["cv", "stations.csv", "--target", "t", *options]) == 3
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.out == ""
