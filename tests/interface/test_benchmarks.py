"""Every library of the benchmarks gives the numbers of real retraining; a small run works."""

import json
import sys

import numpy as np
import pytest

from benchmarks import report
from benchmarks.__main__ import main
from benchmarks.naive import Truth
from benchmarks.problems import SMOKE, generate
from benchmarks.rivals import OURS, RIVALS

JOBS = [
    pytest.param(rival, problem, id=f"{rival.name}-{problem.name}")
    for problem in SMOKE
    for rival in RIVALS.values()
    if rival.can(problem) and rival.absent() is None
]


@pytest.mark.filterwarnings("ignore")  # the libraries' own
@pytest.mark.parametrize(("rival", "problem"), JOBS)
def test_every_library_agrees_with_retraining(rival, problem):
    data = generate(problem)
    naive = Truth(problem, data)
    answer = rival.run(problem, data).read(naive.asked)
    if problem.job == "cross-validate":
        far = naive.deviation(answer)
        assert far is None or far < 1e-8
    elif "value" in answer and rival.name != OURS:
        ours = RIVALS[OURS].run(problem, data).read(naive.asked)
        np.testing.assert_allclose(answer["value"], ours["value"], rtol=1e-7, atol=1e-8)


@pytest.mark.skipif(sys.platform == "win32", reason="processes are asked through pipes")
def test_a_small_run_writes_its_records_and_a_table(tmp_path, capsys):
    path = tmp_path / "records.json"
    assert main(["--smoke", "linear-100", "--library", "NumPy by hand", "--record", str(path)]) == 0
    records = json.loads(path.read_text("utf-8"))["records"]
    assert {record["library"] for record in records} == {OURS, "NumPy by hand"}
    assert all(record["seconds"] > 0.0 and record["deviation"] < 1e-8 for record in records)
    assert "| job | holdfast |" in capsys.readouterr().out


def test_losses_are_bold_and_runs_that_were_stopped_are_named():
    def record(library, seconds, why=""):
        facts = {"problem": "p", "title": "a job", "threads": 1, "peak_bytes": 1e6}
        return {**facts, "library": library, "seconds": seconds, "deviation": None, "why": why}

    others = [record("NumPy by hand", 0.5), record("himalaya", None, "more than 20 s")]
    done = {"absent": {}, "records": [record(OURS, 2.0), record(OURS, 1.0), *others]}
    assert report.overview(done).splitlines()[-1] == (
        "| a job | 1 s | – | more than 20 s | – | – | – | **0.50** |"
    )


def test_pages_keep_what_stands_around_the_table(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.START}\nold\n{report.END}\nafter\n", "utf-8")
    report.write_between(page, "new")
    assert page.read_text("utf-8") == f"before\n{report.START}\n\nnew\n\n{report.END}\nafter\n"
