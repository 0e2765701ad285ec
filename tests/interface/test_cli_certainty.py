"""Options of cv that ask how sure the answer is."""

import json

import numpy as np
import pytest

from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.cli import main

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")

FIXED = ["--alphas", "0.01,0.1,1,10", "--gamma", "0.2", "--no-scale", "--quiet", "--verify", "0"]


@pytest.fixture
def rows(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)).round(3)
    y = (np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=60)).round(3)
    kind = np.where(y > 0.3, "high", np.where(y < -0.3, "low", "mid"))
    lines = [f"{a},{b},{c},{k}" for (a, b), c, k in zip(X.tolist(), y.tolist(), kind, strict=True)]
    path = tmp_path / "rows.csv"
    path.write_text("a,b,y,kind\n" + "\n".join(lines))
    return path, X, y, kind


def cv(path, *options):
    return main(["cv", str(path), *FIXED, *options])


def test_answer_is_that_of_the_model(rows, capsys):
    path, X, y, _ = rows
    options = ["--target", "y", "--drop", "kind", "--level", "0.8", "--nested", "--json"]
    assert cv(path, *options, "--permutations", "19") == 0
    sure = json.loads(capsys.readouterr().out)["sure"]
    model = KernelRidgeCV(gamma=0.2, alphas=[0.01, 0.1, 1, 10], random_state=0).fit(X, y)
    found = model.score_interval(0.8, random_state=0)
    np.testing.assert_allclose([sure["low"], sure["high"]], np.sqrt([-found.high, -found.low]))
    assert sure["p_value"] == model.permutation_test(19, random_state=0).p_value
    assert sure["nested"] > 0
    assert sure["not_asked"] == []


def test_predictions_with_intervals(rows, tmp_path):
    path, X, y, _ = rows
    out = tmp_path / "held_out.csv"
    options = ["--target", "y", "--drop", "kind", "--predictions", str(out)]
    assert cv(path, *options, "--interval", "0.9") == 0
    table = np.genfromtxt(out, delimiter=",", names=True)
    model = KernelRidgeCV(gamma=0.2, alphas=[0.01, 0.1, 1, 10]).fit(X, y)
    for row in (0, 7, 59):  # what predict says of a row that was never there
        rest = np.delete(np.arange(60), row)
        twin = KernelRidgeCV(gamma=0.2, alphas=[model.alpha_]).fit(X[rest], y[rest])
        ends = twin.predict_interval(X[[row]], 0.9)[0]
        np.testing.assert_allclose([table["low"][row], table["high"][row]], ends, rtol=1e-6)


def test_predictions_with_scores_of_classes(rows, tmp_path):
    path, X, _, kind = rows
    out = tmp_path / "held_out.csv"
    options = ["--target", "kind", "--classify", "--drop", "y", "--predictions", str(out)]
    assert cv(path, *options, "--cv", "loo") == 0
    header = out.read_text().splitlines()[0].split(",")
    assert header[-3:] == ["score high", "score low", "score mid"]
    table = np.loadtxt(out, delimiter=",", skiprows=1, usecols=range(len(header) - 3, len(header)))
    model = KernelRidgeClassifierCV(gamma=0.2, alphas=[0.01, 0.1, 1, 10]).fit(X, kind)
    np.testing.assert_allclose(table, model.held_out(alphas=[model.alpha_]).values[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--interval", "1.5", "--interval must lie between 0 and 1"),
        ("--level", "0", "--level must lie between 0 and 1"),
        ("--permutations", "-3", "--permutations must be a number from 0 up"),
    ],
)
def test_nonsense_is_refused(rows, capsys, option, value, told):
    assert cv(rows[0], "--target", "y", "--drop", "kind", f"{option}={value}") == 3
    assert told in capsys.readouterr().err


def test_time_goes_into_the_report(tmp_path, capsys):
    rng = np.random.default_rng(0)
    lines = [f"2024-0{1 + i // 28}-{1 + i % 28:02d},{rng.normal():.3f},{i}" for i in range(80)]
    path = tmp_path / "days.csv"
    path.write_text("day,y,x\n" + "\n".join(lines))
    assert cv(path, "--target", "y", "--time", "day", "--json") == 0
    found = json.loads(capsys.readouterr().out)["time"]
    assert found["name"] == "day"
    assert found["moment"][-1].startswith("2024-03-24")
