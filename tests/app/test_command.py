"""The command: what it answers for files as people have them, and what it refuses."""

import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from app.messy import write


def said(findings):
    return " ".join(note["text"] for note in findings["warnings"])


def test_german_numbers_are_read(tmp_path, found):
    findings = found(*write(tmp_path, "german"))
    assert findings["numbers"]["rows"] == 300
    assert 30 < findings["numbers"]["value"] < 50  # the noise is 40
    assert findings["warnings"] == []
    assert findings["numbers"]["better_than_no_columns"] is True


def test_codes_for_missing_values_are_named_and_can_be_read_as_missing(tmp_path, found):
    arguments = write(tmp_path, "missing")
    before = found(*arguments)
    assert "--na=-999" in before["warnings"][0]["option"]
    assert before["numbers"]["rows"] < 250  # rows without a target are left out, and said
    assert any("have no" in text for text in before["reading"])
    after = found(*arguments, "--na=-999")
    assert after["warnings"] == []


def test_a_column_that_counts_by_chance_is_no_identifier(tmp_path, found):
    findings = found(*write(tmp_path, "ids"))
    parts = {row[0]: row[4] for row in findings["columns"]["rows"]}
    assert parts["temperature"] == "used"
    assert parts["plz"] == "used"
    assert parts["id"].startswith("not used")
    assert parts["uuid"].startswith("not used")
    assert findings["numbers"]["value"] < 1.3  # without the temperature it would be 5.9


def test_dates_warn_when_later_rows_are_harder(tmp_path, found):
    arguments = write(tmp_path, "dates")
    assert "later rows" in said(found(*arguments))
    findings = found(*arguments, "--time", "date")
    assert findings["warnings"] == []
    assert "later" in findings["headline"]


def test_copies_are_found_and_held_out_together(tmp_path, found):
    findings = found(*write(tmp_path, "copies"), "--gamma", "5")
    together = findings["numbers"]["compared"]["copies held out together"]
    assert "copy" in said(findings)
    assert together > 1.3 * findings["numbers"]["value"]


def test_groups_are_named_and_contrast_with_single_rows(tmp_path, found):
    arguments = write(tmp_path, "groups")
    before = found(*arguments)
    assert before["warnings"][0]["option"] == "--group building"
    after = found(*arguments, "--group", "building")
    assert after["numbers"]["value"] > 1.5 * before["numbers"]["value"]
    assert "single rows held out" in after["numbers"]["compared"]
    assert after["warnings"] == []


def test_a_series_is_beaten_by_its_last_value(tmp_path, found):
    findings = found(*write(tmp_path, "series"))
    assert "Repeating the last value" in said(findings)


def test_rare_classes_are_judged_by_ranks_and_probabilities(tmp_path, found):
    arguments = write(tmp_path, "imbalanced", m=300)
    findings = found(*arguments)
    assert findings["numbers"]["auc"] > 0.85
    assert findings["numbers"]["better_than_no_columns"] is True
    assert findings["numbers"]["largest_class"] == pytest.approx(0.93, abs=0.01)
    by_auc = found(*arguments, "--scoring", "roc_auc")
    assert by_auc["numbers"]["without_columns"] == 0.5
    assert "AUC" in by_auc["headline"]
    assert "no better" not in by_auc["verdict"]


def test_noise_is_called_noise(tmp_path, found):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 4)), columns=list("abcy"))
    frame.to_csv(tmp_path / "noise.csv", index=False)
    findings = found("cv", tmp_path / "noise.csv", "--target", "y")
    assert findings["numbers"]["better_than_no_columns"] is not True


def test_advice_begins_where_the_search_ended(tmp_path, found):
    arguments = write(tmp_path, "groups")
    findings = found(*arguments, "--gamma", "10:1000:3")
    (option,) = [n["option"] for n in findings["notes"] if n["option"].startswith("--gamma")]
    low, high, _ = option.removeprefix("--gamma ").split(":")
    assert float(low) < float(high) == 10


def test_predictions_are_those_of_models_that_never_saw_the_row(tmp_path, ask):
    from holdfast import KernelRidgeCV

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "y"]).round(4)
    frame.to_csv(tmp_path / "d.csv", index=False)
    out = tmp_path / "held.csv"
    arguments = ["--gamma", "0.1", "--alphas", "0.5", "--predictions", out]
    assert ask("cv", tmp_path / "d.csv", "--target", "y", *arguments)[0] == 0
    X = frame[["a", "b"]].to_numpy()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    for i in (0, 17):
        others = np.arange(60) != i
        model = KernelRidgeCV(gamma=0.1, alphas=[0.5]).fit(X[others], frame.y[others])
        held = pd.read_csv(out).set_index("line").prediction[i + 2]
        assert held == pytest.approx(model.predict(X[[i]])[0], abs=1e-9)


def test_a_saved_model_predicts_what_it_predicted(tmp_path, ask):
    arguments = write(tmp_path, "dates")
    model, out = tmp_path / "m.skops", tmp_path / "out.csv"
    assert ask(*arguments, "--save", model, "--quiet", "--gamma", "0.03")[0] == 0
    code, _, err = ask("predict", model, tmp_path / "dates.csv", "--level", "0.9", "--out", out)
    assert code == 0, err
    made = pd.read_csv(out)
    truth = pd.read_csv(tmp_path / "dates.csv").sales
    assert np.corrcoef(made.prediction, truth)[0, 1] > 0.9
    assert 0.8 < np.mean((made.low <= truth) & (truth <= made.high)) <= 1


@pytest.mark.parametrize(
    ("name", "sizes"), [("text", {}), ("groups", {}), ("imbalanced", {"m": 300})]
)
def test_every_kind_of_column_can_be_saved(tmp_path, ask, name, sizes):
    arguments = write(tmp_path, name, **sizes)
    model, out = tmp_path / "m.skops", tmp_path / "out.csv"
    more = ["--quiet", "--gamma", "0.03", "--seconds", "10"]
    assert ask(*arguments, "--save", model, *more)[0] == 0
    code, _, err = ask("predict", model, arguments[1], "--out", out)
    assert code == 0, err
    assert "is in the file" in err
    assert pd.read_csv(out).prediction.nunique() > 1


def test_files_of_other_types_are_refused_by_name(tmp_path, ask):
    import skops.io
    from sklearn.preprocessing import FunctionTransformer

    skops.io.dump(
        {"format": 1, "preparation": FunctionTransformer(os.system)}, tmp_path / "m.skops"
    )
    (tmp_path / "d.csv").write_text("a\n1\n")
    code, out, err = ask("predict", tmp_path / "m.skops", tmp_path / "d.csv")
    assert code == 3
    assert "system" in err
    assert out == ""
    (tmp_path / "n.skops").write_bytes(b"PK\3\4 not a zip")
    assert ask("predict", tmp_path / "n.skops", tmp_path / "d.csv")[0] == 3


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--target", "rnet"], "“rent”"),
        ([], "--target"),
        (["--target", "rent", "--gamma", "wide"], "--gamma"),
        (["--target", "rent", "--cv", "7x"], "--cv"),
        (["--target", "rent", "--cv", "groups"], "--group"),
        (["--target", "rent", "--scoring", "r3"], "r2"),
        (["--target", "rent", "--seconds", "0"], "--seconds"),
        (["--target", "rent", "--report", "no/folder.html"], "no folder"),
    ],
)
def test_the_command_line_is_refused_with_2(tmp_path, ask, arguments, word):
    code, out, err = ask(*write(tmp_path, "groups")[:2], *arguments)
    assert code == 2
    assert word in err
    assert out == ""


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupt_ends_with_130_and_one_line(tmp_path):
    arguments = write(tmp_path, "imbalanced")
    with subprocess.Popen(
        [sys.executable, "-m", "holdfast", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stderr.readline()  # it is at work
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=120)
    assert running.returncode == 130
    assert err.splitlines()[-1] == "Interrupted."
    assert "Traceback" not in err
    assert out == ""


def test_without_the_extra_the_install_line_is_printed():
    code = (
        "import sys; sys.modules['skrub'] = None; import holdfast.app as a; exit(a.main(['demo']))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 2
    assert "pip install 'holdfast[app]'" in run.stderr


def test_the_demo_claims_what_is_true(tmp_path, ask):
    code, story, err = ask("demo", "--output", tmp_path, "--quiet")
    assert code == 0, err
    single, whole, truth = (
        float(line.split()[k]) for line, k in zip(story.splitlines()[3:6], (4, 4, 2), strict=True)
    )
    assert abs(whole - truth) < 0.15 * truth
    assert single < 0.75 * truth
    assert (tmp_path / "report.html").stat().st_size < 400_000
