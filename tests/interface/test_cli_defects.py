"""What the command line once got wrong, each as a user would meet it."""

import dataclasses
import io
import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from holdfast.cli import main
from holdfast.report import to_html, to_markdown
from holdfast.report.checks import Certificate

SMALL = ["--alphas", "0.1,1,10", "--gamma", "0.5", "--verify", "1", "--quiet"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(path, names, *columns):
    lines = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
    path.write_text("\n".join([",".join(names), *lines]) + "\n")
    return str(path)


@pytest.fixture
def waves(tmp_path):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 60)).round(4)
    y = (np.sin(2 * a) + 0.2 * rng.normal(size=60)).round(4)
    return write(tmp_path / "waves.csv", ["a", "b", "y"], a.tolist(), b.tolist(), y.tolist())


def answer(capsys, *options):
    assert main(["cv", *options, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_warnings_of_the_fit_are_in_every_output(waves, tmp_path, capsys):
    grid = ["--alphas", "100,1000", "--gamma", "0.5", "--verify", "1"]
    found = answer(capsys, waves, "--target", "y", *grid)
    assert any("better values may lie beyond" in text for text in found["warnings"])
    for name in ("r.html", "r.md"):
        assert main(["cv", waves, "--target", "y", *grid, "--report", name]) == 0
        assert "better values may lie beyond" in (tmp_path / name).read_text()
    assert capsys.readouterr().err.count("better values may lie beyond") == 2


def test_selection_bias_is_in_the_report(waves, tmp_path, capsys):
    options = ["--basis", "greedy:20", "--held-out-basis", "keep"]
    found = answer(capsys, waves, "--target", "y", *options, *SMALL)
    assert any("chose the basis rows by looking" in text for text in found["warnings"])


def failed(summary):
    told = "NOT verified: the largest deviation is 0.1."
    bad = Certificate(5, 3, 0.1, 0.1, 0, False, told)
    return dataclasses.replace(summary, certificate=bad)


def test_a_failed_certificate_is_not_called_exact(summary):
    promise = "is that of a model retrained without the held-out rows"
    assert promise in to_html(summary)
    page = to_html(failed(summary))
    assert promise not in page
    assert "do not rely on the numbers here" in page.rsplit("<footer>", 1)[1]


@pytest.fixture(scope="module")
def summary():
    from holdfast import KernelRidgeCV
    from holdfast.report import summarise

    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=40)
    return summarise(KernelRidgeCV(gamma=0.5, alphas=[1e-4, 1e-2, 1.0, 100.0]).fit(X, y), verify=1)


def test_a_report_of_the_library_names_no_options(summary):
    for text in (to_markdown(summary), to_html(summary).split("</style>")[1].split("<script")[0]):
        assert "--" not in text.replace("---", "")
    assert 'list="in-use"' not in to_html(summary)


def few_rows(path, m, d):
    rng = np.random.default_rng(0)
    names = [f"c{j}" for j in range(d)] + ["y"]
    rows = ["0" + ",%.3f" * d % tuple(rng.normal(size=d)) for _ in range(m)]
    lines = [f"{','.join(row.split(',')[1:])},{rng.normal():.3f}" for row in rows]
    path.write_text(",".join(names) + "\n" + "\n".join(lines) + "\n")
    return str(path)


def test_many_columns_take_little_memory(tmp_path, capsys, monkeypatch):
    from holdfast.report.shuffling import Shuffle

    made = []
    rows_of = Shuffle.__getitem__

    def watched(self, part):
        found = rows_of(self, part)
        made.append(found.nbytes)
        return found

    monkeypatch.setattr(Shuffle, "__getitem__", watched)
    found = answer(capsys, few_rows(tmp_path / "wide.csv", 20, 500), "--target", "y", *SMALL)
    assert found["relevance"] is not None
    assert max(made) <= 2**26


@pytest.mark.skipif(os.name == "nt", reason="resource")
def test_four_rows_and_thousands_of_columns(tmp_path):
    """It asked for 9.5 GB and ended in a traceback."""
    path = few_rows(tmp_path / "wide.csv", 4, 8000)
    code = (
        "import resource, sys; from holdfast.cli import main; code = main(sys.argv[1:]); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss); sys.exit(code)"
    )
    options = ["cv", path, "--target", "y", "--quiet", "--json"]
    done = subprocess.run([sys.executable, "-c", code, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) < 1e6  # kilobytes


def test_thousands_of_columns_are_not_asked_about_one_by_one(tmp_path, capsys):
    path = few_rows(tmp_path / "wide.csv", 4, 20_000)
    started = time.process_time()
    found = answer(capsys, path, "--target", "y", *SMALL)
    assert found["relevance"] is None
    assert any("which columns does the model use?" in text for text in found["warnings"])
    assert time.process_time() - started < 10


def test_a_million_columns_are_refused_by_their_number(tmp_path, capsys, monkeypatch):
    from holdfast.cli import fitting

    monkeypatch.setattr(fitting, "MOST_COLUMNS", 100)
    assert main(["cv", few_rows(tmp_path / "w.csv", 4, 120), "--target", "y"]) == 3
    assert "has 121 columns; at most 100 are read" in capsys.readouterr().err


def test_progress_is_told_in_lines_where_there_is_no_terminal(monkeypatch):
    from holdfast.progress import ProgressLines

    stream = io.StringIO()
    with ProgressLines(stream, delay=0.01, interval=0.01) as lines:
        lines(1, 4, "fitting")
        time.sleep(0.2)
    assert stream.getvalue().splitlines()[0].startswith("fitting 25% (0 s)")


def test_many_rows_take_basis_rows_and_say_so(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 3)).round(3)
    y = (X[:, 0] + rng.normal(size=2500)).round(3)
    path = write(tmp_path / "many.csv", ["a", "b", "c", "y"], *X.T.tolist(), y.tolist())
    options = ["--target", "y", "--cv", "5", "--alphas", "0.1,1,10", "--verify", "1"]
    found = answer(capsys, path, *options)
    assert found["asked"]["basis"].startswith("1,000 of 2,500 rows")
    assert any("--seconds" in text and "--basis" in text for text in found["warnings"])
    found = answer(capsys, path, *options, "--seconds", "2")
    assert found["asked"]["basis"].startswith("200 of 2,500 rows")
    assert main(["cv", path, "--target", "y", "--seconds", "0"]) == 3
    assert "--seconds must be greater than 0" in capsys.readouterr().err


def test_a_rare_class_is_judged_by_balanced_accuracy(tmp_path, capsys):
    rng = np.random.default_rng(0)
    rare = rng.random(400) < 0.03
    x = (rng.normal(size=400) + rare).round(3)
    kind = np.where(rare, "yes", "no")
    path = write(tmp_path / "rare.csv", ["x", "kind"], x.tolist(), kind.tolist())
    options = [path, "--target", "kind", "--classify", "--cv", "5", *SMALL]
    found = answer(capsys, *options)
    assert "balanced accuracy for kind is 58.3 %" in found["answer"][0]
    assert "Always naming the most frequent class would be right for" in found["answer"][1]
    assert main(["cv", *options]) == 0
    out = capsys.readouterr().out
    assert out.index("58.3 %  balanced accuracy") < out.index("held-out share of errors")


def test_a_series_is_compared_with_repeating_the_last_value(tmp_path, capsys):
    rng = np.random.default_rng(0)
    y = np.cumsum(rng.normal(size=120)).round(3)
    path = write(tmp_path / "walk.csv", ["t", "x", "y"], range(120), rng.random(120), y.tolist())
    options = [path, "--target", "y", "--time", "t", "--cv", "time:5", *SMALL]
    found = answer(capsys, *options)["time"]
    first = 120 - 5 * 20
    last = np.repeat(y[first - 1 :: 20][:5], 20)
    assert found["repeated"] == pytest.approx(np.sqrt(np.mean((y[first:] - last) ** 2)))
    assert main(["cv", *options]) == 0
    assert "Repeating the last value before each row would be off by" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["kernel=rbf", "basis=None", "it's cv=5", 'say "gamma=1"'])
def test_names_of_users_are_not_rewritten(waves, capsys, name):
    assert main(["cv", waves, "--target", name]) == 3
    assert repr(name) in capsys.readouterr().err


def test_errors_know_their_argument(waves, capsys):
    from holdfast.data.memory import memory_bytes
    from holdfast.exceptions import InvalidInputError

    with pytest.raises(InvalidInputError) as caught:
        memory_bytes("much")
    assert caught.value.argument == "memory_limit"
    assert main(["cv", waves, "--target", "y", "--memory", "much"]) == 3
    assert "--memory must be" in capsys.readouterr().err


def test_the_truth_has_a_colour_of_its_own():
    from holdfast.report.answer import Contrast, contrast_section

    ways = [Contrast("a", 1.0, 1.0, asked=True), Contrast("b", 2.0, 1.0, asked=False)]
    truth = Contrast("truth", 1.5, 1.0, asked=False, truth=True)
    (chart,) = contrast_section([*ways, truth], "RMSE").blocks
    colours = chart.figure["data"][0]["marker"]["color"]
    assert len(set(colours)) == 3


def test_parts_of_killed_saves_are_removed(waves, tmp_path):
    old, new = tmp_path / ".holdfast-old.part", tmp_path / ".holdfast-new.part"
    old.touch()
    new.touch()
    long_ago = time.time() - 2 * 24 * 3600
    os.utime(old, (long_ago, long_ago))
    assert main(["cv", waves, "--target", "y", *SMALL, "--save", "m.holdfast"]) == 0
    assert not old.exists()
    assert new.exists()  # another process may be writing it


def test_too_little_memory_is_a_sentence(waves, capsys, monkeypatch):
    from holdfast.cli import commands

    def much(*_):
        raise MemoryError("Unable to allocate 9.5 GiB")

    monkeypatch.setattr(commands, "fit_model", much)
    assert main(["cv", waves, "--target", "y"]) == 3
    err = capsys.readouterr().err
    assert "there is not enough memory" in err
    assert "9.5 GiB" in err


def test_explain_is_about_the_whole_command(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)).round(3)
    path = write(tmp_path / "x.csv", ["a", "b", "y"], *X.T.tolist())
    assert main(["explain", path, "--target", "y", "--json"]) == 0
    several = json.loads(capsys.readouterr().out)
    taken = next(c for c in several["costs"] if c["path"] == several["path"])
    assert several["seconds"] > 6 * taken["seconds"]


def test_explain_tells_the_time_of_tune(tmp_path, capsys):
    rng = np.random.default_rng(0)
    found = {}
    for m in (100, 400):
        X = rng.normal(size=(m, 3)).round(3)
        path = write(tmp_path / f"{m}.csv", ["a", "b", "y"], *X.T.tolist())
        assert main(["explain", path, "--target", "y", "--json"]) == 0
        found[m] = json.loads(capsys.readouterr().out)["tune_seconds"]
    assert 1 < found[100] < found[400] < 60
    assert main(["explain", path, "--target", "y", "--kernel", "linear"]) == 0
    assert "holdfast tune" not in capsys.readouterr().out
    assert main(["explain", path, "--target", "y"]) == 0
    assert "for holdfast tune on this machine" in capsys.readouterr().out
