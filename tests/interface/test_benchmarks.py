"""Every adaptor of the benchmarks gives the numbers of real retraining; the machinery runs.

Times and ratios are never asserted: they belong to the machine.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold

from benchmarks import __main__ as command
from benchmarks import (
    bands,
    dropins,
    flights,
    growth,
    loops,
    memory,
    planner_sweep,
    reading,
    relevance,
    report,
    runner,
    speed,
    truth,
)
from benchmarks.measure import timed
from benchmarks.problems import (
    COMMON,
    DEFAULT,
    FULL,
    PROBLEMS,
    QUICK,
    SMOKE,
    Model,
    Problem,
    generate,
)
from benchmarks.rivals import RIVALS, YARDSTICK
from benchmarks.rivals.base import Outcome
from benchmarks.rivals.by_hand import naive, plain_fit, rbf
from reference.retrain import retrain_all

ROOT = Path(__file__).parents[2]

TINY = tuple(
    replace(problem, m=48, n=None if problem.dense else 9, parts=min(problem.parts, 6))
    for problem in SMOKE
)

#: Ridge regression, and several targets.
OTHER = tuple(p for p in QUICK if p.kernel == "linear" or p.targets > 1)

#: All rivals solve well-conditioned problems in float64 here. Those that keep only scores, or cut
#: eigenvalues at zero, lose some digits of what they had.
EXACT, LOOSE = 1e-9, 1e-7
LOOSE_RIVALS = ("himalaya", "botorch", "rlscore", "rlscore-published", "cawley-talbot")


JOBS = [
    pytest.param(name, problem, id=f"{name}-{problem.name}")
    for name, rival in RIVALS.items()
    for problem in (*TINY, *OTHER)
    if not rival.single and rival.declines(problem) is None
]


@pytest.mark.parametrize(("name", "problem"), JOBS)
def test_rival_agrees_with_retraining(name: str, problem: Problem) -> None:
    data, rival = generate(problem), RIVALS[name]
    why = rival.missing()
    if why:
        pytest.skip(why)
    outcome = rival.read(problem, data, rival.run(problem, data))
    true = truth.retrain(problem, data, rival.model)
    value, of = truth.deviation(problem, data, rival.model, outcome, true)
    assert of != "nothing"
    assert value < (LOOSE if name in LOOSE_RIVALS else EXACT)


@pytest.mark.parametrize("model", [COMMON, DEFAULT, Model("remove", bias=False, jitter=0.0)])
@pytest.mark.parametrize("problem", TINY[1:4:2], ids=lambda problem: problem.name)
def test_naive_is_the_reference(problem: Problem, model: Model) -> None:
    data = generate(problem)
    held = data.experiments()[1]
    got = naive(problem, data, model, held, problem.alphas)
    [want] = retrain_all(
        rbf(data.X, data.X, problem.gamma),
        data.y,
        [(held, held)],
        problem.alphas,
        basis=data.basis,
        policy=model.policy,
        bias=model.bias,
        jitter=0.0 if problem.dense else model.jitter,
    )
    np.testing.assert_allclose(got, want[:, :, 0], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("problem", TINY[::3], ids=lambda problem: problem.name)
def test_plain_fit_is_the_model_without_held_out_rows(problem: Problem) -> None:
    data = generate(problem)
    alpha = problem.alphas[problem.n_alphas // 2]
    coef = plain_fit(problem, data)
    basis = np.arange(problem.m) if data.basis is None else data.basis
    K = rbf(data.X, data.X[basis], problem.gamma)
    nobody = np.empty(0, dtype=np.int64)
    [want] = retrain_all(
        rbf(data.X, data.X, problem.gamma),
        data.y,
        [(nobody, np.arange(problem.m))],
        [alpha],
        basis=data.basis,
        policy="keep",
        bias=False,
        jitter=0.0 if problem.dense else COMMON.jitter,
    )
    np.testing.assert_allclose(K @ coef, want[0, :, 0], rtol=1e-7, atol=1e-9)


def test_a_wrong_answer_shows() -> None:
    problem = TINY[1]
    data = generate(problem)
    true = truth.retrain(problem, data, COMMON)
    right = RIVALS["retraining"].run(problem, data)
    wrong = right.copy()
    wrong[:, true.held[0][0]] *= 1.001

    def value(outcome: Outcome) -> float:
        return truth.deviation(problem, data, COMMON, outcome, true)[0]

    assert value(Outcome(predictions=right)) < EXACT < 1e-6 < value(Outcome(predictions=wrong))
    sets = data.experiments()
    errors = np.stack([((right - data.y) ** 2)[:, rows].mean(axis=1) for rows in sets], axis=1)
    assert value(Outcome(errors=errors)) < EXACT < value(Outcome(errors=1.001 * errors))
    best = (float(problem.alphas[0]), float(errors[0].mean()))
    assert value(Outcome(best=best)) < EXACT < value(Outcome(best=(best[0], 1.001 * best[1])))


def test_the_fastest_round_counts() -> None:
    made = {"rival": "holdfast", "status": "ok", "seconds": [3.0, 1.0, 2.0]}
    failed = {"rival": "himalaya", "status": "failed", "seconds": [0.5]}
    assert report.seconds([made, failed], "holdfast") == 1.0
    assert np.isnan(report.seconds([made, failed], "himalaya"))


def test_problems_are_frozen() -> None:
    """Records of different days are of the same data; change a problem, change its name."""
    data = generate(SMOKE[1])
    np.testing.assert_allclose(data.X[0, :2], [0.12573022, -0.13210486], atol=1e-8)
    assert data.basis is not None
    assert data.basis[:3].tolist() == [208, 188, 12]
    assert [len(rows) for rows in data.experiments()] == [60] * 5
    assert len(PROBLEMS) == len({*PROBLEMS}) == sum(map(len, command.SETS.values()))
    assert {problem.m for problem in FULL} == {50_000, 20_000, 5_000, 2_000, 1_000}


def test_groups_partition_the_rows() -> None:
    data = generate(SMOKE[2])
    rows = np.concatenate(data.experiments())
    assert sorted(rows.tolist()) == list(range(SMOKE[2].m))
    assert np.any(np.diff(data.experiments()[0]) > 1)  # scattered, not contiguous


def test_peak_memory_sees_an_array() -> None:
    timing = timed(lambda: np.ones(4_000_000).sum())
    assert math.isnan(timing.peak_bytes) or 30e6 < timing.peak_bytes < 60e6


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    rivals = [YARDSTICK, "holdfast", "retraining", "himalaya", "grid-search"]
    problems = [SMOKE[0], SMOKE[3]]
    return runner.run(problems, rivals, runner.Options(repeats=2, isolated=False))


def test_runner_records(made: dict[str, Any], tmp_path: Path) -> None:
    records = report.by_problem(made)[SMOKE[3].name]
    found = {record["rival"]: record for record in records}
    assert len(found["holdfast"]["seconds"]) == 2
    assert found["holdfast"]["deviation"] < 1e-8
    assert found["holdfast"]["version"]
    report.save(made, tmp_path / "run.json")
    again = json.loads(
        (tmp_path / "run.json").read_text(encoding="utf-8"),
        parse_constant=lambda word: pytest.fail(f"{word} is not JSON"),
    )
    assert again["machine"]["cores"] >= 1
    assert "numpy" in again["versions"]
    assert report.to_text(report.load(tmp_path / "run.json"))


def test_rivals_in_their_own_process_give_the_same_record() -> None:
    options = runner.Options(repeats=2, threads=1)
    records = runner.run_problem(
        SMOKE[1], [RIVALS[YARDSTICK], RIVALS["holdfast"]], options, lambda text: None
    )
    assert [record.status for record in records] == ["ok", "ok"]
    assert [len(record.seconds) for record in records] == [2, 2]
    assert math.isnan(records[0].deviation)
    assert records[1].deviation < 1e-8


def test_a_rival_that_fails_is_recorded() -> None:
    def broken(problem: Problem, data: Any) -> None:
        raise MemoryError("no room")

    rival = replace(RIVALS["retraining"], run=broken)
    options = runner.Options(repeats=1, isolated=False)
    [record] = runner.run_problem(SMOKE[1], [rival], options, lambda text: None)
    assert (record.status, record.why) == ("failed", "MemoryError: no room")


def test_budget_ends_the_rounds() -> None:
    options = runner.Options(repeats=5, budget=0.0, isolated=False)
    [record] = runner.run_problem(SMOKE[1], [RIVALS["retraining"]], options, lambda text: None)
    assert len(record.seconds) == 1
    assert record.deviation < EXACT


def test_report_tables(made: dict[str, Any]) -> None:
    records = report.by_problem(made)[SMOKE[3].name]
    table = report.rows(records)
    by_label = {line[0]: line for line in table}
    assert by_label["holdfast"][3] == "1.00"
    assert by_label["one plain fit, one λ"][2] == "1.00"


def test_speed_writes_one_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    speed.main(["--quick", "--output", str(tmp_path), "--page", str(page)])
    text = page.read_text(encoding="utf-8")
    assert all(f"**{problem}**" in text for problem in QUICK)
    assert "peak / promised" in text
    assert "groups, dense, 1,000 rows" in text
    assert "| 5 folds × 3 penalties" in text  # of the README
    record = report.load(tmp_path / "speed-quick.json")
    kept = [r for r in record["records"] if r["status"] == "ok" and r["rival"] != YARDSTICK]
    assert max(r["deviation"] for r in kept) < 1e-6
    body = f"before\n{speed.START}\nstale words\n{speed.END}\nafter\n"
    page.write_text(body, encoding="utf-8")
    speed.write_between(page, "new words")
    assert page.read_text(encoding="utf-8") == body.replace("stale words", "\nnew words\n")


@pytest.mark.parametrize("path", ["docs/benchmarks.md", "README.md"])
def test_pages_have_the_markers_of_the_speed_run(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    assert text.index(speed.START) < text.index(speed.END)


def test_picture(made: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert all(path.stat().st_size > 1000 for path in report.plot(made, tmp_path / "picture"))


def test_command_chooses_and_refuses() -> None:
    problems, rivals = command.choose("smoke", ["holdfast", "dense-loo-smoke"], [])
    assert [problem.name for problem in problems] == ["dense-loo-smoke"]
    assert rivals == [YARDSTICK, "holdfast"]
    with pytest.raises(SystemExit, match="no such problem or rival: hold-fast"):
        command.choose("smoke", ["hold-fast"], [])


def test_planner_sweep_measures_every_path() -> None:
    measured = planner_sweep.measure(planner_sweep.Cell(60, 8, 10, 2), repeats=1)
    assert set(measured.seconds) == {*planner_sweep.PATHS, "auto"}
    assert measured.chosen in planner_sweep.PATHS
    assert measured.ratio >= 1.0
    result = planner_sweep.summary([measured])
    assert result["cells"] == 1
    sizes = {cell.h for cell in planner_sweep.cells("full") if cell.m == 6_000}
    assert {1, 3_000} <= sizes


def test_crossover_of_tanaka_and_imai() -> None:
    found = planner_sweep.crossover(60, 3, (1, 2), repeats=1)
    assert found["equation_21"] > 0
    assert len(found["seconds"]["single"]) == 2


def test_memory_points() -> None:
    points = [memory.point("smoke", 300, "loo", mode, 1) for mode in ("kept", "streamed")]
    assert memory.lines(points)[1][0] == "leave-one-out, m = 300"
    assert points[0]["features_bytes"] == 8 * 300 * 50


def test_flights_on_a_stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 8)).astype(np.float32)
    np.savez(tmp_path / "flights_3m.npz", X=X, y=X.sum(axis=1))
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path))
    for split in flights.SPLITS:
        run = flights.measure(split, 300, 20, 3, "1MB")
        assert run["max_relative_error"] < 1e-9
        assert run["m"] == 300
        assert "wanted" in flights.describe(run)


def test_reading_on_small_files(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    record = reading.measure(tmp_path, 0.1, 2_100, 20)
    assert record["error"] < 1.0
    assert "of which reading" in reading.describe(record)


@pytest.mark.parametrize("world", relevance.WORLDS[1::3], ids=lambda world: world.name)
def test_relevance_finds_the_column_that_matters(world: relevance.World) -> None:
    seen = relevance.looks_relevant(world, 0)
    assert seen[0]
    assert not seen.all()


def test_loops_of_scikit_learn_give_the_same_answers(capsys: pytest.CaptureFixture[str]) -> None:
    rows = loops.main(["--seconds", "0.05"])
    assert [row["answer"] for row in rows] == list(loops.ANSWERS)
    assert max(row["deviation"] for row in rows) < EXACT
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(rows)


def test_growth_is_measured() -> None:
    assert growth.power([1, 2, 4, 8], [9.0, 1.0, 4.0, 16.0]) == pytest.approx(2.0)
    assert growth.largest_step([1.0, 2.0, 0.5]) == pytest.approx(4.0)


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
def test_bands_choose_the_draws_of_himalaya() -> None:
    job = bands.Job(4, 3, 5, rows=40, draws=3)
    X, Y = job.data()
    model = bands.ours(job, X, Y)
    found = np.empty((3, bands.ALPHAS.size, 3))
    for i, draw in enumerate(job.weights()):
        rows = X * np.sqrt(np.repeat(draw, job.width))
        for a, alpha in enumerate(bands.ALPHAS):
            splits = KFold(5).split(X)
            twins = [
                (
                    (Ridge(alpha, fit_intercept=False).fit(rows[s], Y[s]).predict(rows[t]) - Y[t])
                    ** 2
                )
                for s, t in splits
            ]
            found[i, a] = -np.mean([twin.mean(axis=0) for twin in twins], axis=0)
    np.testing.assert_allclose(model.best_score_, found.max(axis=(0, 1)), rtol=1e-9)
    assert bands.many(job, 4).startswith("| 40 × 12 | 4 | 3 | 3 |")
    if find_spec("himalaya") is not None:
        np.testing.assert_allclose(bands.theirs(job, X, Y), model.best_score_, rtol=1e-7)


def test_drop_ins_give_the_numbers_of_scikit_learn() -> None:
    for job in dropins.jobs(0.02):
        if "GridSearchCV" in job.name or "× 200" in job.name:
            continue  # longer, and compared in the tests of these functions
        slow, fast, gap = dropins.measured(job, 1, short=1)
        assert slow > 0.0
        assert fast > 0.0
        assert gap < 1e-8
