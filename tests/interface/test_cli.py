"""The command line, tried as a new user would."""

import csv
import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    StratifiedKFold,
    TimeSeriesSplit,
)

from holdfast import KernelRidgeCV, basis, load
from holdfast.cli import main
from holdfast.cli.demo import FEATURES, make_study, tell
from holdfast.cli.parser import EXIT_CODES
from holdfast.cli.specs import (
    BASIS_NAMES,
    parse_alphas,
    parse_basis,
    parse_cv,
    parse_gamma,
    parse_grid,
)
from holdfast.exceptions import InvalidInputError
from holdfast.splitters import HBlock, PurgedKFold
from holdfast.tables import open_source, read_columns

FAST = ["--alphas", "1e-2:1e2:5", "--verify", "1"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def study(tmp_path):
    """A small study as CSV: numbers, a text column, groups, weights, a class."""
    made = make_study(8, 6, seed=0)
    path = tmp_path / "study.csv"
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["subject", *FEATURES, "site", "w", "level", "score"])
        for i, (who, x, y) in enumerate(zip(made.subject, made.X, made.y, strict=True)):
            site, weight = "ABC"[i % 3], repr(float(rng.uniform(0.5, 2)))
            level = "high" if y > 40 else "low"
            writer.writerow([who, *map(repr, map(float, x)), site, weight, level, repr(float(y))])
    return str(path)


def run(*arguments):
    return main([str(argument) for argument in arguments])


def output(capsys, *arguments):
    code = run(*arguments)
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def naive(path, drop=("score", "subject", "level", "w")):
    """Return X, y, groups of the study, encoded by hand."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    numbers = np.array([[float(row[n]) for n in FEATURES] for row in rows])
    numbers = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    site = np.array([[float(row["site"] == s) for s in "ABC"] for row in rows])
    y = np.array([float(row["score"]) for row in rows])
    return np.hstack([numbers, site]), y, np.array([row["subject"] for row in rows])


# --- cv --------------------------------------------------------------------------------------


def test_numbers_are_those_of_python(study, capsys):
    text = output(
        capsys, "cv", study, "--target", "score", "--group", "subject", "--drop", "level,w",
        "--json", *FAST,
    )  # fmt: skip
    found = json.loads(text)
    X, y, groups = naive(study)
    model = KernelRidgeCV(gamma="search", cv=LeaveOneGroupOut(), alphas=np.geomspace(1e-2, 1e2, 5))
    model.fit(X, y, groups=groups)
    np.testing.assert_allclose(found["headline"]["value"], np.sqrt(-model.best_score_), rtol=1e-10)
    assert found["headline"]["alpha"] == pytest.approx(model.alpha_)
    assert found["asked"]["feature_names"] == [*FEATURES, "site=A", "site=B", "site=C"]
    assert found["asked"]["experiments"] == 8
    assert [c["name"] for c in found["contrasts"]] == ["leave-one-subject-out", "leave-one-out"]
    assert found["certificate"]["max_relative_error"] < 1e-6
    assert found["repeat"]["command"].startswith(f"holdfast cv {study} --target score")


def test_rows_and_subjects_in_one_command_each(study, capsys):
    common = ["cv", study, "--target", "score", "--group", "subject", "--drop", "level,w", *FAST]
    by_row = output(capsys, *common, "--cv", "loo")
    by_subject = output(capsys, *common)
    assert re.search("Held out by +leave-one-out: 48 experiments", by_row)
    assert re.search("Held out by +leave-one-subject-out: 8 experiments", by_subject)
    errors = [
        float(re.search(r"([\d.]+)  held-out RMSE", text)[1]) for text in (by_row, by_subject)
    ]
    assert errors[0] < 0.8 * errors[1]
    assert "centred and scaled to standard deviation 1" in by_row
    assert "'site'" in by_row


def test_weights_and_options_reach_the_model(study, capsys):
    run(
        "cv", study, "--target", "score", "--weight", "w", "--features", "dose,jitter",
        "--kernel", "matern32", "--gamma", "0.3", "--basis", "20", "--cv", "4", "--seed", "5",
        "--held-out-basis", "keep", "--rule", "1se", "--no-intercept", "--no-scale",
        "--scoring", "neg_mean_absolute_error", "--memory", "1GB",
        "--save", "m.holdfast", "--quiet", *FAST,
    )  # fmt: skip
    model = load("m.holdfast")
    assert model.get_params()["kernel"] == "matern32"
    assert model.gamma == 0.3
    assert model.basis == 20
    assert repr(model.cv) == "KFold(n_splits=4, random_state=5, shuffle=True)"
    assert (model.held_out_basis, model.rule, model.fit_intercept) == ("keep", "1se", False)
    assert (model.scoring, model.random_state) == ("neg_mean_absolute_error", 5)
    assert model.memory_limit == "1GB"
    with open_source(study) as source:
        table = read_columns(source, ("dose", "jitter", "w"))
    np.testing.assert_array_equal(model._problem.X[:, 0], table["dose"])
    np.testing.assert_array_equal(model._problem.weights, table["w"])
    assert "mean absolute error" in capsys.readouterr().out


def test_several_widths(study, capsys):
    output(
        capsys, "cv", study, "--target", "score", "--drop", "level,w,subject", "--gamma",
        "0.001,0.01,0.1", "--cv", "4", "--save", "m.holdfast", *FAST,
    )  # fmt: skip
    model = load("m.holdfast")
    assert model.gamma == [0.001, 0.01, 0.1]
    code = run(
        "cv", study, "--target", "score", "--drop", "level,w,subject", "--gamma", "0.001,0.01",
        "--cv", "4", *FAST,
    )  # fmt: skip
    captured = capsys.readouterr()
    assert code == 0
    assert "chosen among 2 values" in captured.err
    assert "may lie beyond" in captured.err


def test_classify(study, capsys):
    text = output(
        capsys, "cv", study, "--target", "level", "--classify", "--drop", "w,score,subject",
        "--cv", "4", "--predictions", "oof.csv", "--save", "m.holdfast", *FAST,
    )  # fmt: skip
    assert "accuracy" in text
    assert "of the predictions of level are right" in text
    with open("oof.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["prediction"] for row in rows} <= {"high", "low"}
    code = run("predict", "m.holdfast", study)
    captured = capsys.readouterr()
    assert code == 0
    assert captured.out.splitlines()[0] == "prediction"
    assert "% right" in captured.err


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_predictions_are_the_held_out_ones(study, capsys, suffix):
    path = f"oof.{suffix}"
    output(
        capsys, "cv", study, "--target", "score", "--group", "subject", "--drop", "level,w",
        "--predictions", path, *FAST,
    )  # fmt: skip
    with open_source(path) as source:
        assert source.names == ("row", "subject", "experiment", "actual", "prediction", "residual")
        table = read_columns(source, source.names)
    X, y, groups = naive(study)
    model = KernelRidgeCV(gamma="search", cv=LeaveOneGroupOut(), alphas=np.geomspace(1e-2, 1e2, 5))
    model.fit(X, y, groups=groups)
    expected = model.held_out(alphas=[model.alpha_]).matrix()[0, :, 0]
    rows = table["row"].astype(int)
    np.testing.assert_allclose(table["prediction"], expected[rows], rtol=1e-9)
    np.testing.assert_array_equal(table["actual"], y[rows])


@pytest.mark.parametrize("suffix", ["html", "md", "json"])
def test_reports(study, capsys, suffix):
    run("cv", study, "--target", "score", "--group", "subject", "--drop", "level,w", "--report",
        f"r.{suffix}", "--title", "My <title>", *FAST)  # fmt: skip
    assert f"wrote r.{suffix}" in capsys.readouterr().err
    text = Path(f"r.{suffix}").read_text(encoding="utf-8")
    assert {"html": "My &lt;title&gt;", "md": r"My \<title\>", "json": "My <title>"}[suffix] in text


def test_standard_input_and_gzip(study, capsys, monkeypatch):
    content = Path(study).read_bytes()
    options = ["--target", "score", "--drop", "level,w,subject", "--cv", "3", "--json", *FAST]
    plain = json.loads(output(capsys, "cv", study, *options))

    class Stdin:
        buffer = io.BytesIO(content)

    monkeypatch.setattr(sys, "stdin", Stdin)
    piped = json.loads(output(capsys, "cv", "-", *options))
    with gzip.open("study.csv.gz", "wb") as file:
        file.write(content)
    zipped = json.loads(output(capsys, "cv", "study.csv.gz", *options))
    assert plain["headline"] == piped["headline"] == zipped["headline"]
    assert piped["repeat"]["checksum"] == plain["repeat"]["checksum"]


def test_missing_values(study, capsys):
    lines = Path(study).read_text().splitlines()
    cells = lines[3].split(",")
    cells[1], cells[7] = "", "NA"
    lines[3] = ",".join(cells)
    with open("gaps.csv", "w") as file:
        file.write("\n".join(lines))
    options = ["cv", "gaps.csv", "--target", "score", "--drop", "level,w,subject", "--cv", "3"]
    assert run(*options, *FAST) == 3
    error = capsys.readouterr().err
    assert "'age': 1, 'site': 1" in error
    assert "--impute" in error
    text = output(capsys, *options, "--impute", *FAST)
    assert "median or most frequent level of all rows ('age' 1, 'site' 1)" in text


def test_codes_as_categories(capsys):
    with open("codes.csv", "w") as file:
        file.write("zip,x,y\n" + "".join(f"{i % 3},{2 * i},{(i * 7) % 5}\n" for i in range(30)))
    options = ["cv", "codes.csv", "--target", "y", "--cv", "3", "--json", *FAST]
    found = json.loads(output(capsys, *options, "--categorical", "zip"))
    assert found["asked"]["feature_names"] == ["x", "zip=0", "zip=1", "zip=2"]


# --- predict, verify, explain ----------------------------------------------------------------


@pytest.fixture
def saved(study, capsys):
    run("cv", study, "--target", "score", "--group", "subject", "--drop", "level,w", "--save",
        "m.holdfast", *FAST)  # fmt: skip
    capsys.readouterr()
    return "m.holdfast"


def test_predict(study, saved, capsys):
    code = run("predict", saved, study, "--keep", "subject,age", "--out", "p.csv")
    captured = capsys.readouterr()
    assert code == 0
    assert "wrote p.csv: 48 predictions" in captured.err
    assert "score is in the file: RMSE" in captured.err
    with open_source("p.csv") as source:
        assert source.names == ("subject", "age", "prediction")
        table = read_columns(source, source.names)
    X, _, _ = naive(study)
    np.testing.assert_allclose(table["prediction"], load(saved).predict(X), rtol=1e-12)


def test_predict_with_bounds(study, saved):
    assert run("predict", saved, study, "--interval", "0.8", "--out", "p.csv") == 0
    with open_source("p.csv") as source:
        assert source.names == ("prediction", "low", "high")
        table = read_columns(source, source.names)
    expected = load(saved).predict_interval(naive(study)[0], 0.8)
    np.testing.assert_allclose(table["low"], expected[:, 0], rtol=1e-12)
    np.testing.assert_allclose(table["high"], expected[:, 1], rtol=1e-12)
    assert run("predict", saved, study, "--interval", "80") == 3


def test_predict_new_levels_and_missing_columns(study, saved, capsys):
    text = Path(study).read_text().replace(",A,", ",Z,")
    with open("new.csv", "w") as file:
        file.write(text)
    assert run("predict", saved, "new.csv") == 0
    captured = capsys.readouterr()
    assert "'site': 16 rows" in captured.err
    assert len(captured.out.splitlines()) == 49
    with open("less.csv", "w") as file:
        file.write("age,height\n1,2\n")
    assert run("predict", saved, "less.csv") == 3
    assert "lacks columns" in capsys.readouterr().err


def test_predict_needs_a_model_of_the_command_line(study, capsys):
    X, y, _ = naive(study)
    KernelRidgeCV(alphas=[0.1, 1, 10], cv=3).fit(X, y).save("python.holdfast")
    assert run("predict", "python.holdfast", study) == 5
    assert "saved from Python" in capsys.readouterr().err


def test_verify(saved, capsys):
    text = output(capsys, "verify", saved, "-n", "3")
    told = r"^verified: retrained 3 experiments, largest difference \S+ of the spread of y \(double"
    assert re.search(told, text, re.MULTILINE)
    found = json.loads(output(capsys, "verify", saved, "--json"))
    assert found["verified"] is True
    assert found["max_relative_error"] < 1e-8


def test_verify_finds_wrong_predictions(saved, capsys, monkeypatch):
    from holdfast.smoother import KernelSmoother

    real = KernelSmoother.retrain
    monkeypatch.setattr(KernelSmoother, "retrain", lambda *a, **k: real(*a, **k) * (1 + 1e-4))
    assert run("verify", saved) == 1
    assert "NOT verified" in capsys.readouterr().out
    assert run("verify", saved, "--tolerance", "1e-6") == 1
    assert "NOT verified" in capsys.readouterr().out
    assert "NOT verified" not in output(capsys, "verify", saved, "--tolerance", "1e-2")


def test_verify_refuses_a_damaged_file(saved, capsys):
    with open(saved, "r+b") as file:
        file.seek(200)
        file.write(b"\x00\x01\x02")
    assert run("verify", saved) == 5
    assert "holdfast: error:" in capsys.readouterr().err


def large_table(path, m):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(m, 2)).round(3)
    lines = [f"{a},{b},{a + b:.3f}" for a, b in X]
    Path(path).write_text("\n".join(["a,b,y", *lines]))


def test_many_rows_take_basis_rows_by_themselves_and_say_so(capsys):
    large_table("large.csv", 1500)
    # 100 basis rows of 1,500 fit into these 3 MB; a dense model would take 36.
    options = ["large.csv", "--target", "y", "--memory", "3MB", "--cv", "3", "--gamma", "0.1",
               "--alphas", "1e-4:1:5"]  # fmt: skip
    assert main(["cv", *options, "--verify", "0", "--json"]) == 0
    done = capsys.readouterr()
    assert "100 of 1,500 rows, drawn at random" in done.err
    found = json.loads(done.out)
    plan = json.loads(output(capsys, "explain", *options, "--json"))
    assert plan["facts"]["model"] == "100 basis rows"
    assert "100 of 1,500 rows, drawn at random" in plan["remarks"][0]
    assert plan["path"] == found["plan"]["path"]
    for command in ("cv", "explain"):  # who insists on all rows is told alike by both
        assert main([command, *options, "--basis", "none"]) == 3
        assert "needs 0.072 GB, more than the 0.003 GB" in capsys.readouterr().err


def test_explain_never_plans_what_cannot_be(capsys):
    large_table("large.csv", 40_000)
    limits = ["--memory", "2GB", "--seconds", "1e4"]
    plan = json.loads(output(capsys, "explain", "large.csv", "--target", "y", "--json", *limits))
    assert plan["facts"]["model"] == "2000 basis rows"
    assert plan["seconds"] < 3600
    taken = next(cost for cost in plan["costs"] if cost["path"] == plan["path"])
    assert taken["bytes"] < 4e9


def test_tune_tells_which_features_matter(study, capsys):
    options = [study, "--target", "score", "--features", "dose,jitter,age", "--cv", "4", "--quiet"]
    found = json.loads(output(capsys, "tune", *options, "--json", "--save", "tuned.holdfast"))
    verdicts = {row["feature"]: row["verdict"] for row in found["features"]}
    assert verdicts.keys() == {"dose", "jitter", "age"}
    assert set(verdicts.values()) <= {"relevant", "irrelevant", "unclear"}
    rises = [row["rise"] for row in found["features"]]
    assert rises == sorted(rises, reverse=True)
    text = output(capsys, "tune", *options)
    assert "error rises by" in text
    assert "mean squared error" in text
    assert main(["predict", "tuned.holdfast", study, "--out", "p.csv", "--quiet"]) == 0
    model = load("tuned.holdfast")
    assert -model.best_score_ == pytest.approx(found["mean_squared_error"], rel=0.01)
    assert main(["verify", "tuned.holdfast", "-n", "2"]) == 0


def test_tune_for_a_law(study, capsys):
    options = [study, "--target", "score", "--features", "dose", "--cv", "4", "--quiet"]
    options += ["--scoring", "log_density", "--one-width"]
    found = json.loads(output(capsys, "tune", *options, "--json", "--save", "law.holdfast"))
    model = load("law.holdfast")
    assert model.scoring == "log_density"
    assert -model.best_score_ == pytest.approx(found["minus_log_density"], abs=0.01)
    assert "minus log density" in output(capsys, "tune", *options)


def test_tune_with_one_width_and_kernels_without_gradient(study, capsys):
    options = [study, "--target", "score", "--features", "dose,jitter", "--cv", "4", "--quiet"]
    text = output(capsys, "tune", *options, "--one-width")
    assert re.search(r"\S+  gamma$", text, re.MULTILINE)
    assert "verdict" not in text
    assert main(["tune", *options, "--kernel", "linear"]) == 3
    assert "--kernel" in capsys.readouterr().err


def test_compare_tells_kernels_apart(study, capsys):
    options = [study, "--target", "score", "--group", "subject", "--drop", "level,w", "--quiet"]
    found = json.loads(output(capsys, "compare", *options, "--json", "--kernels", "rbf,linear"))
    rows = {row["model"]: row for row in found["models"]}
    assert rows.keys() == {"rbf", "linear", "mean of the target"}
    assert found["units"] == "groups"
    scores = [row["score"] for row in found["models"]]
    assert scores == sorted(scores, reverse=True)
    X, y, groups = naive(study)
    model = KernelRidgeCV("linear", cv=LeaveOneGroupOut()).fit(X, y, groups=groups)
    assert rows["linear"]["score"] == pytest.approx(model.best_score_, rel=1e-9)
    errors = [y[test] - y[train].mean() for train, test in LeaveOneGroupOut().split(X, y, groups)]
    naive_score = -np.mean(np.concatenate(errors) ** 2)
    assert rows["mean of the target"]["score"] == pytest.approx(naive_score)
    for row in found["models"][1:]:
        assert row["behind"] == pytest.approx(scores[0] - row["score"])
        assert row["low"] < row["behind"] < row["high"]
    assert "p is corrected" in output(capsys, "compare", *options)


def test_compare_of_classes(study, capsys):
    options = [study, "--target", "level", "--classify", "--drop", "subject,w", "--cv", "4"]
    found = json.loads(output(capsys, "compare", *options, "--json", "--quiet"))
    assert "most frequent class" in {row["model"] for row in found["models"]}
    assert found["scoring"] == "accuracy"


@pytest.mark.parametrize("kernels", ["", "rbf,rbf", "rbf,wide"])
def test_compare_refuses_other_kernels(study, capsys, kernels):
    assert main(["compare", study, "--target", "score", "--kernels", kernels]) == 3
    assert "--kernels must name kernels" in capsys.readouterr().err


def test_explain_is_the_plan_of_cv(study, capsys):
    options = [study, "--target", "score", "--group", "subject", "--drop", "level,w",
               "--alphas", "1e-2:1e2:5"]  # fmt: skip
    plan = json.loads(output(capsys, "explain", *options, "--json"))
    found = json.loads(output(capsys, "cv", *options, "--verify", "0", "--json"))
    assert plan["path"] == found["plan"]["path"]
    for cost, done in zip(plan["costs"], found["plan"]["costs"], strict=True):
        np.testing.assert_allclose(cost["seconds"], done["seconds"])
    text = output(capsys, "explain", *options, "--basis", "greedy:10")
    assert "10 basis rows" in text
    assert "← taken" in text


@pytest.mark.parametrize("name", ["random", "balanced", "per-group", "pivoted-cholesky"])
def test_explain_guesses_the_basis(study, capsys, name):
    options = [study, "--target", "score", "--group", "subject", "--drop", "level,w"]
    text = output(capsys, "explain", *options, "--basis", f"{name}:2", "--held-out-basis", "keep")
    assert f"{16 if name == 'per-group' else 2} basis rows" in text


# --- the small languages ---------------------------------------------------------------------


def test_grids():
    np.testing.assert_allclose(parse_grid("1e-6:1e3:30", "-"), np.logspace(-6, 3, 30))
    assert parse_grid("10,0.1,1", "-").tolist() == [0.1, 1, 10]
    assert parse_grid("2", "-").tolist() == [2]
    for bad in ("", "a", "1:2", "2:1:5", "0:1:5", "1:2:1", "1:2:x", "-1", "1,nan", "1e-3:inf:4"):
        with pytest.raises(InvalidInputError, match="--alphas must be auto, from:to:count"):
            parse_grid(bad, "--alphas")
    assert parse_gamma("auto") == "search"
    assert parse_gamma("features") is None
    assert parse_gamma("0.5") == 0.5
    assert parse_gamma("0.5,1") == [0.5, 1.0]
    assert parse_alphas("auto") is None


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("10", KFold, "10-fold"),
        ("5x10", RepeatedKFold, "5 times 10-fold"),
        ("group", LeaveOneGroupOut, "leave-one-who-out"),
        ("group:4", GroupKFold, "4 folds of whole who values"),
        ("time:5", TimeSeriesSplit, "in the order of the rows"),
        ("hblock:3", HBlock, "3 rows on each side"),
        ("purged:5:2:1", PurgedKFold, "5 blocks of rows, 2 rows before and 1 after"),
        ("loo", type(None), "leave-one-out"),
    ],
)
def test_ways_of_holding_out(text, kind, words):
    made = parse_cv(text, group="who", classify=False, seed=0)
    assert isinstance(made.cv, kind)
    assert words in made.words


def test_default_way_of_holding_out():
    assert parse_cv(None, group=None, classify=False, seed=0).words == "leave-one-out"
    assert parse_cv(None, group="g", classify=False, seed=0).needs_groups
    assert isinstance(parse_cv("5", group=None, classify=True, seed=0).cv, StratifiedKFold)
    repeated = parse_cv("2x5", group=None, classify=True, seed=0).cv
    assert isinstance(repeated, RepeatedStratifiedKFold)
    with pytest.raises(InvalidInputError, match="needs --group"):
        parse_cv("group", group=None, classify=False, seed=0)
    for bad in ("ten", "x5", "group:", "5x", "-3", "time", "hblock", "purged:5:2"):
        with pytest.raises(InvalidInputError, match="--cv must be"):
            parse_cv(bad, group="g", classify=False, seed=0)


def test_basis_words():
    assert parse_basis(None) is None
    assert parse_basis("none") is None
    assert parse_basis("500") == 500
    assert parse_basis("0.1") == 0.1
    assert isinstance(parse_basis("greedy:300"), basis.Greedy)
    for name, cls in BASIS_NAMES.items():
        assert type(parse_basis(f"{name}:7")).__name__ == cls
    for bad in ("0", "-5", "1.5", "greedy", "greedy:", "greedy:x", "nobody:5", "5:5"):
        with pytest.raises(InvalidInputError, match="--basis must be"):
            parse_basis(bad)


# --- errors, exit codes, interruptions -------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["cv", "nowhere.csv", "--target", "y"], 6, "nowhere.csv: No such file"),
        (["cv", "{study}", "--target", "scor"], 3, "Did you mean 'score'"),
        (["cv", "{study}", "--target", "level"], 3, "Options: --classify"),
        (["cv", "{study}", "--target", "score", "--classify"], 3, "too many for classes"),
        (["cv", "{study}", "--target", "score", "--cv", "nine"], 3, "--cv must be"),
        (["cv", "{study}", "--target", "score", "--cv", "group"], 3, "needs --group"),
        (["cv", "{study}", "--target", "score", "--alphas", "x"], 3, "--alphas"),
        (["cv", "{study}", "--target", "score", "--report", "r.pdf"], 3, "--report must end"),
        (["cv", "{study}", "--target", "score", "--save", "no/m"], 3, "no folder 'no'"),
        (["cv", "{study}", "--target", "score", "--predictions", "p.xls"], 3, "must end in .csv"),
        (["cv", "{study}", "--target", "score", "--scoring", "nonsense"], 3, "nonsense"),
        (["cv", "{study}"], 2, "--target"),
        (["cv", "{study}", "--target", "score", "--kernel", "magic"], 2, "invalid choice"),
        (["frobnicate"], 2, "invalid choice"),
        (["predict", "{study}", "{study}"], 5, "not a readable holdfast file"),
        (["verify", "nowhere.holdfast"], 6, "nowhere.holdfast"),
    ],
)
def test_errors_are_sentences_with_a_code(study, capsys, arguments, code, words):
    filled = [argument.format(study=study) for argument in arguments]
    assert run(*filled) == code
    captured = capsys.readouterr()
    assert words in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


def test_missing_extra(study, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert run("cv", study, "--target", "score") == 4
    assert "holdfast[cli]" in capsys.readouterr().err


def test_no_arguments_and_help(capsys):
    assert run() == 2
    assert "holdfast demo" in capsys.readouterr().out
    assert run("--help") == 0
    text = capsys.readouterr().out
    for code in EXIT_CODES:
        assert f" {code}  " in text
    for command in ("cv", "explain", "predict", "verify", "demo"):
        assert run(command, "--help") == 0
        capsys.readouterr()


def test_version(capsys):
    from holdfast import __version__

    assert output(capsys, "--version") == f"holdfast {__version__}\n"


def test_unexpected_errors_are_not_hidden(study, monkeypatch):
    from holdfast.cli import commands

    def broken(options):
        raise ZeroDivisionError

    monkeypatch.setattr(commands, "read_data", broken)
    with pytest.raises(ZeroDivisionError):
        run("cv", study, "--target", "score")


@pytest.mark.parametrize("place", ["fit", "save"])
def test_interruption_leaves_nothing_half_written(study, capsys, monkeypatch, tmp_path, place):
    before = sorted(p.name for p in tmp_path.iterdir())

    def interrupted(*args, **options):
        raise KeyboardInterrupt

    if place == "fit":
        monkeypatch.setattr(KernelRidgeCV, "fit", interrupted)
    else:
        monkeypatch.setattr("holdfast.data.archive._add", interrupted)
    code = run("cv", study, "--target", "score", "--drop", "level,w,subject", "--cv", "3",
               "--save", "m.holdfast", *FAST)  # fmt: skip
    assert code == 130
    assert "Interrupted" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == before


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_a_real_interruption(study, tmp_path):
    big = tmp_path / "big.csv"
    with open(study) as file:
        header, *rows = file.read().splitlines()
    big.write_text("\n".join([header, *(rows * 200)]))
    command = [sys.executable, "-m", "holdfast", "cv", str(big), "--target", "score", "--drop",
               "level,w,subject", "--basis", "800", "--cv", "10", "--save", "m.holdfast",
               "--report", "r.md"]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=120)
    if process.returncode == 0:
        pytest.skip("the machine was faster than the interruption")
    assert process.returncode == 130, error
    assert "Traceback" not in error
    assert sorted(p.name for p in tmp_path.iterdir()) == ["big.csv", "study.csv"]


@pytest.mark.skipif(os.name == "nt", reason="pipes")
def test_a_reader_that_leaves(study, saved):
    rows = Path(study).read_text().splitlines()
    with open("long.csv", "w") as file:
        file.write("\n".join([rows[0], *(rows[1:] * 400)]))
    command = f"{sys.executable} -m holdfast predict {saved} long.csv"
    run = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | head -1"], capture_output=True, text=True
    )
    assert run.stdout == "prediction\n"
    assert "Traceback" not in run.stderr
    assert run.returncode == 141


def test_quiet_and_no_colour(study, capsys, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    code = run("cv", study, "--target", "score", "--drop", "level,w,subject", "--cv", "3",
               "--quiet", "--save", "m.holdfast", *FAST)  # fmt: skip
    captured = capsys.readouterr()
    assert code == 0
    assert captured.err == ""
    assert "\x1b" not in captured.out


# --- demo, other commands --------------------------------------------------------------------


def test_demo(capsys, tmp_path):
    text = output(capsys, "demo", "--output", "out", "--quiet")
    assert len(text.splitlines()) == 10
    assert (tmp_path / "out" / "report.html").exists()
    assert "leave-one-out claims" in text
    found = json.loads(
        output(capsys, "cv", "out/study.csv", "--target", "score", "--group", "subject",
               "--basis", "300", "--gamma", "features", "--json", "--verify", "0")
    )  # fmt: skip
    told = float(re.search(r"basis removed\s+([\d.]+)", text)[1])
    assert found["headline"]["value"] == pytest.approx(told, abs=0.01)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_story_does_not_hang_on_the_seed(seed):
    story = tell(seed)
    print(seed, {k: v for k, v in story.items() if isinstance(v, float)})
    assert story["loo_error"] < 0.65 * story["truth"]
    assert abs(story["group_error"] - story["truth"]) < 3 * story["group_se"]
    assert story["loo_truth"] > 1.2 * story["truth"]


@pytest.mark.parametrize("gone", ["bench", "completion"])
def test_commands_that_are_gone(gone, capsys):
    assert run(gone) == 2
    assert "invalid choice" in capsys.readouterr().err


def stamped(folder) -> list[str]:
    """A file with a time stamp among its columns, not scaled: kernel values of up to 1e53."""
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=(60, 3)), 1.7e9 + 1e7 * rng.normal(size=60)]
    y = X[:, 0] + 0.1 * rng.normal(size=60)
    lines = [",".join(map(repr, map(float, row))) for row in np.c_[X, y]]
    (folder / "t.csv").write_text("a,b,c,stamp,y\n" + "\n".join(lines) + "\n")
    asked = ["cv", str(folder / "t.csv"), "--target", "y", "--no-scale"]
    return [*asked, "--alphas", "1e-6:1e3:30", "--save", str(folder / "m")]


CUBIC = ["--kernel", "poly", "--gamma", "0.25", "--basis", "20"]


def test_cv_and_verify_agree_on_what_double_precision_allows(tmp_path, capsys):
    asked = stamped(tmp_path)
    assert main([*asked, *CUBIC]) == 0
    out = capsys.readouterr()
    (told,) = re.findall(r"etrained 5 experiments, .* \(double precision allows (\S+)\)", out.out)
    assert float(told) > 0.1
    assert "rounding errors of about" in out.err
    main(["verify", str(tmp_path / "m")])
    assert f"(double precision allows {told})" in capsys.readouterr().out
    assert main([*asked, "--kernel", "linear"]) == 0
    assert "NOT verified" not in capsys.readouterr().out
    assert main(["verify", str(tmp_path / "m")]) == 0


def test_nothing_is_verified_where_rounding_errors_are_all_there_is(tmp_path, capsys):
    main([*stamped(tmp_path), *CUBIC])
    capsys.readouterr()
    code = main(["verify", str(tmp_path / "m"), "-n", "60"])
    out = capsys.readouterr().out
    (difference,) = re.findall(r"largest difference (\S+) of the spread", out)
    assert float(difference) < 1e-3 or (code == 1 and "NOT verified" in out)
    assert "which was not chosen" not in out  # the chosen one is the largest


def test_penalties_that_double_precision_cannot_resolve_are_no_alarm(tmp_path, capsys):
    """With a wide kernel rounding errors are large at penalties of 1e-11, however it is trained."""
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, 300)
    y = np.sin(6 * x) + 0.3 * rng.normal(size=300)
    lines = [f"{a:.6f},{b:.6f}" for a, b in zip(x, y, strict=True)]
    (tmp_path / "t.csv").write_text("x,y\n" + "\n".join(lines) + "\n")
    asked = ["cv", str(tmp_path / "t.csv"), "--target", "y", "--cv", "5", "--gamma", "0.1"]
    assert main([*asked, "--alphas", "1e-11:1:12", "--save", str(tmp_path / "m")]) == 0
    out, err = capsys.readouterr()
    assert "Verified: retrained 5 experiments" in out
    assert "double precision" not in err  # nothing to do: they were not chosen
    assert main(["verify", str(tmp_path / "m")]) == 0


# --- errors speak in options -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--basis", "99"], "--basis asks for 99 basis rows"),
        (["--basis", "greedy:99"], "--basis asks for 99 basis rows"),
        (["--basis", "per-group:3"], "--group: PerGroup needs groups"),
        (["--seed", "-1"], "--seed must be a whole number from 0"),
        (["--kernel", "poly", "--degree", "-1"], "--degree must be a whole number from 1 up"),
        (["--kernel", "poly", "--degree", "nan"], "--degree"),
        (["--kernel", "poly", "--coef0", "nan"], "--coef0 must be a finite number"),
        (["--cv", "500"], "--cv: 500 folds need at least 500 rows; there are 48"),
        (["--cv", "time:400"], "--cv: 400 steps need at least 401 rows"),
        (["--cv", "hblock:300"], "--cv: h=300 holds out all 48 rows"),
        (["--scoring", "nonsense"], "--scoring: scoring='nonsense' is not the name"),
        (["--memory", "lots"], "--memory must be"),
    ],
)
def test_errors_speak_in_options(study, capsys, options, message):
    command = ["cv", study, "--target", "score", "--drop", "level,w,subject", *options]
    assert main(command) in (2, 3)
    assert message in capsys.readouterr().err


def test_errors_of_verify_predict_and_tune_speak_in_options(study, capsys):
    base = [study, "--target", "score", "--features", "dose,jitter", "--cv", "4", "--quiet"]
    output(capsys, "cv", *base, "--save", "m.holdfast", "--verify", "0", "--alphas", "0.1,1")
    for arguments, message in [
        (["verify", "m.holdfast", "-n", "0"], "--experiments must be a whole number, at least 1"),
        (["verify", "m.holdfast", "--seed", "-2"], "--seed must be a whole number from 0"),
        (["verify", "m.holdfast", "--tolerance", "-1"], "--tolerance must be a number from 0 up"),
        (["predict", "m.holdfast", study, "--interval", "2"], "--interval must lie between 0"),
        (["tune", *base, "--scoring", "r2"], "got --scoring r2"),
        (["tune", *base, "--held-out-basis", "train"], "tune takes --held-out-basis remove"),
        (["compare", *base, "--level", "2"], "--level must lie between 0 and 1"),
    ]:
        assert main(arguments) == 3
        assert message in capsys.readouterr().err
