"""What the report says beyond the score is what the model's own methods say."""

import base64
import gzip
import json
import math
import re

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    StratifiedKFold,
)

from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.report import Ask, Context, summarise, to_html, to_markdown
from holdfast.report.answer import number
from holdfast.report.rows import part_scores, row_results, wilson

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")

ALPHAS = np.logspace(-3, 3, 7)


def data(seed=0, m=80):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 3))
    return X, np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=m)


def fitted(**options):
    X, y = data()
    return KernelRidgeCV(**{"alphas": ALPHAS, "gamma": 0.2, "cv": KFold(5), **options}).fit(X, y)


def classifier(names=("no", "yes"), **options):
    X, y = data(m=120)
    labels = np.array(names)[np.digitize(y, np.quantile(y, np.arange(1, len(names)) / len(names)))]
    model = KernelRidgeClassifierCV(**{"alphas": ALPHAS, "gamma": 0.2, "cv": 5, **options})
    return model.fit(X, labels), labels


def packed(page, name):
    text = re.search(rf'<script type="text/plain" id="{name}">([^<]*)</script>', page)[1]
    return gzip.decompress(base64.b85decode(text.replace(".", "<"))).decode()


# --- how sure ---------------------------------------------------------------------------------


def test_headline_has_the_interval_of_the_model():
    model = fitted()
    summary = summarise(model, verify=0, ask=Ask(level=0.8, seed=3))
    found = model.score_interval(0.8, random_state=3)
    sure = summary.sure
    assert (sure.method, sure.level) == ("nested", 0.8)
    np.testing.assert_allclose([sure.low, sure.high], np.sqrt([-found.high, -found.low]))
    assert f"80 % interval {sure.low:.3f} to {sure.high:.3f}" in summary.answer[0]
    assert "80 % interval of the RMSE" in to_html(summary)


def test_large_models_get_the_asymptotic_interval_unless_asked(monkeypatch):
    from holdfast.report import sure

    monkeypatch.setattr(sure, "_CHEAP", 0.0)
    model = fitted()
    found = model.score_interval(0.9, "asymptotic")
    summary = summarise(model, verify=0)
    assert summary.sure.method == "asymptotic"
    np.testing.assert_allclose(summary.sure.high, np.sqrt(-found.low))


def test_headline_says_what_choosing_the_penalty_did():
    model = fitted()
    summary = summarise(model, verify=0, ask=Ask(nested=True))
    found = model.nested(KFold(5))
    np.testing.assert_allclose(summary.sure.nested, np.sqrt(-found.score()), rtol=1e-9)
    assert summary.sure.choices == (found.alphas.min(), found.alphas.max())
    assert "choosing λ on the same rows" in summary.answer[0]
    assert "the same experiments outside" in " ".join(summary.answer)
    assert summary.sure.not_asked == ("permutation_test",)


def test_outer_folds_keep_groups_together():
    X, y = data()
    groups = np.repeat(np.arange(40), 2)
    model = KernelRidgeCV(alphas=ALPHAS, cv=LeaveOneGroupOut()).fit(X, y, groups=groups)
    summary = summarise(model, verify=0, ask=Ask(nested=True))
    found = model.nested(GroupKFold(10))
    np.testing.assert_allclose(summary.sure.nested, np.sqrt(-found.score()), rtol=1e-9)
    assert summary.sure.units == "groups"


def test_headline_says_what_luck_would_do():
    model = fitted()
    summary = summarise(model, verify=0, ask=Ask(permutations=19, seed=1))
    found = model.permutation_test(19, random_state=1)
    assert summary.sure.p_value == found.p_value == 0.05
    assert "by luck is at most 0.050" in summary.answer[0]
    np.testing.assert_allclose(summary.sure.null_best, np.sqrt(-found.null_scores.max()))
    assert "≤ 0.050" in to_html(summary)


def test_luck_with_groups_moves_whole_groups():
    X, y = data()
    groups = np.repeat(np.arange(20), 4)
    model = KernelRidgeCV(alphas=ALPHAS, cv=LeaveOneGroupOut()).fit(X, y, groups=groups)
    summary = summarise(model, verify=0, ask=Ask(permutations=9))
    assert summary.sure.permuted == "groups"
    ragged = np.repeat(np.arange(8), [4, 6, 8, 10, 11, 12, 14, 15])
    model.fit(X, y, groups=ragged)
    summary = summarise(model, verify=0, ask=Ask(permutations=9))
    assert summary.sure.permuted == "rows"
    assert any("too few to change places" in note for note in summary.warnings)


def test_beliefs_fit_the_model():
    page = to_html(summarise(fitted(), verify=0))
    assert "What to believe" in page
    assert "not asked (nested and permutation_test)" in page
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    useless = summarise(KernelRidgeCV(gamma=0.3, alphas=[1e-6], cv=5).fit(X, y), verify=0)
    assert "Any prediction of this model." in to_html(useless)
    assert "Any prediction of this model." in to_markdown(useless)


def test_a_score_that_is_no_mean_over_rows():
    summary = summarise(fitted(scoring="kendall_tau"), verify=0)
    assert summary.sure.method == "asymptotic"
    assert summary.sure.low < summary.headline.value < summary.sure.high


# --- single predictions -----------------------------------------------------------------------


def test_coverage_counts_rows_inside():
    model = fitted()
    found = summarise(model, verify=0, ask=Ask(interval=0.75)).coverage
    X, y = data()
    held = model.held_out(alphas=[model.alpha_])
    ends = np.empty((len(y), 2, len(found.levels)))
    for train, test in KFold(5).split(X):  # what predict_interval says without each fold
        rest = np.repeat(np.arange(5), 16)[train]
        twin = KernelRidgeCV(model.kernel, gamma=model.gamma, alphas=[model.alpha_])
        twin.set_params(cv=PredefinedSplit(rest)).fit(X[train], y[train])
        ends[test] = twin.predict_interval(X[test], found.levels.tolist())
    inside = (ends[:, 0] <= y[:, None]) & (y[:, None] <= ends[:, 1])
    np.testing.assert_allclose(found.share, inside.mean(axis=0))
    np.testing.assert_allclose(found.width, (ends[:, 1] - ends[:, 0]).mean(axis=0), rtol=1e-6)
    assert held.rows.size == 80
    assert 0.75 in found.levels
    assert np.all(np.diff(found.prediction) >= 0)


def test_intervals_that_would_take_long_are_left_out(monkeypatch):
    from holdfast.report import bounds

    monkeypatch.setattr(bounds, "_MODEL", 10.0)
    summary = summarise(fitted(cv=None), verify=0)
    assert summary.coverage is None
    assert any("No intervals of single predictions" in note for note in summary.warnings)
    assert "fig-coverage" not in to_html(summary)


def test_intervals_of_parts():
    assert wilson(0.3, np.ones(20), 0.9) == pytest.approx(
        tuple(binomtest(6, 20).proportion_ci(0.9, "wilson"))
    )
    results = row_results(fitted())
    for part in part_scores(results, results.experiment):
        assert part.low < part.score < part.high
    one = part_scores(results, np.arange(len(results.rows)))[0]
    assert math.isnan(one.low)


def test_intervals_of_parts_hold():
    """Nine times of ten, for normal errors of thirty rows."""
    rng = np.random.default_rng(0)
    results = row_results(fitted())
    hits, n = 0, 400
    for _ in range(n):
        error = rng.normal(size=30)
        made = type(results)(
            np.arange(30),
            np.zeros(30, int),
            error,
            np.zeros(30),
            error,
            np.abs(error),
            error,
            np.ones(30),
            None,
        )
        (part,) = part_scores(made, np.zeros(30))
        hits += part.low < 1 < part.high
    assert abs(hits / n - 0.9) < 4 * math.sqrt(0.09 / n)


# --- classes ----------------------------------------------------------------------------------


def test_two_classes():
    model, labels = classifier()
    summary = summarise(model, verify=0)
    (curve,) = summary.classes
    held = model.held_out(alphas=[model.alpha_])
    truth, decision = labels[held.rows] == "yes", held.values[0, :, 0]
    assert curve.label == "yes"
    assert curve.auc == pytest.approx(roc_auc_score(truth, decision))
    assert curve.average_precision == pytest.approx(average_precision_score(truth, decision))
    share = np.clip((decision + 1) / 2, 0, 1)
    first = np.argsort(share, kind="stable")[:12]
    assert curve.predicted[0] == pytest.approx(share[first].mean())
    assert curve.observed[0] == pytest.approx(truth[first].mean())
    page = to_html(summary)
    for name in ("roc", "recall", "calibration"):
        assert f'id="fig-{name}"' in page
    assert "area under ROC" in to_markdown(summary)


def test_many_classes_against_the_others():
    model, labels = classifier(("a", "b", "c", "d"), cv=StratifiedKFold(4))
    curves = summarise(model, verify=0).classes
    held = model.held_out(alphas=[model.alpha_])
    assert {c.label for c in curves} == {"a", "b", "c", "d"}
    for curve in curves:
        at = list(held.classes).index(curve.label)
        truth = labels[held.rows] == curve.label
        assert curve.auc == pytest.approx(roc_auc_score(truth, held.values[0, :, at]))


# --- more rows, time --------------------------------------------------------------------------


def test_growth_is_the_learning_curve():
    model = fitted()
    found = summarise(model, verify=0).growth["growth"]
    curve = model.learning_curve(found.sizes.astype(int), 4, 0)
    np.testing.assert_allclose(found.score, np.sqrt(-curve.scores).mean(axis=1))
    ahead = curve.extrapolate([160])
    np.testing.assert_allclose(found.expected, np.sqrt(ahead.error[0]))
    assert "With 160 rows instead of 80" in to_markdown(summarise(model, verify=0))


def test_growth_of_basis_rows():
    model = fitted(basis=20, random_state=0)
    found = summarise(model, verify=0).growth["basis"]
    assert found.sizes.tolist() == [5, 10, 20, 40]
    assert np.isfinite(found.score).all()


def test_growth_that_would_take_long_is_left_out(monkeypatch):
    from holdfast.report import growth

    monkeypatch.setattr(growth, "_MOST_WORK", 10.0)
    summary = summarise(fitted(basis=20), verify=0)
    assert summary.growth == {}
    assert sum("Left out because it would take long" in note for note in summary.warnings) == 2


def test_residuals_over_time():
    model = fitted()
    when = np.random.default_rng(0).permutation(80)
    dates = np.datetime64("2024-01-01") + when * np.timedelta64(1, "D")
    found = summarise(model, Context(time="day", moments=dates), verify=0).time
    results = row_results(model)
    order = results.rows[np.argsort(when[results.rows])]
    error = np.empty(80)
    error[results.rows] = results.error
    np.testing.assert_allclose(found.left, error[order])
    first = np.array_split(order, 8)[0]
    assert found.bin_error[0] == pytest.approx(np.sqrt(np.mean(error[first] ** 2)))
    assert found.moment[0].startswith("2024-01-01")
    page = to_html(summarise(model, Context(time="day", moments=dates), verify=0))
    assert json.loads(packed(page, "data"))["figures"]["time"]["layout"]["xaxis"]["type"] == "date"


def test_the_plan_is_that_of_explain():
    model = fitted(basis=20)
    summary = summarise(model, verify=0)
    taken = f"taken: {summary.plan.path} (cheapest that fits)"
    assert str(summary.plan) == str(model.explain())
    assert taken in to_html(summary)
    assert taken in to_markdown(summary).replace("\\", "")
    assert summary.to_dict()["plan"]["path"] == summary.plan.path


def test_the_certificate_says_what_was_found():
    summary = summarise(fitted(basis=20), verify=3)
    words = summary.certificate.words
    assert words.startswith("verified: retrained 3 experiments, largest difference ")
    assert words[1:] in to_markdown(summary)
    assert words[1:] in to_html(summary)


# --- the page ---------------------------------------------------------------------------------


def test_slider_has_the_predictions_of_every_penalty():
    X, y = data()
    groups = np.repeat(["a", "b", "c", "d"], 20)
    model = KernelRidgeCV(alphas=ALPHAS, gamma=0.2, cv=LeaveOneGroupOut()).fit(X, y, groups=groups)
    summary = summarise(model, verify=0)
    linked = json.loads(packed(to_html(summary), "data"))["slider"]
    held = model.held_out()
    steps = np.cumsum(linked["differences"], axis=0) * linked["step"] + linked["low"]
    np.testing.assert_allclose(steps, held.values[:, :, 0], atol=linked["step"])
    np.testing.assert_allclose(linked["y"], y[held.rows], rtol=1e-5)
    assert linked["alphas"][linked["chosen"]] == pytest.approx(model.alpha_, rel=1e-3)
    for i in range(len(ALPHAS)):
        for j, part in enumerate(summary.groups):
            inside = groups[held.rows] == part.label
            error = (y[held.rows] - held.values[i, :, 0])[inside]
            assert linked["groups"][i][j] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-3)
    assert "slider" not in summary.to_dict()


def test_slider_of_classes_counts_the_confusion():
    model, labels = classifier()
    summary = summarise(model, verify=0)
    held = model.held_out()
    for i in range(len(ALPHAS)):
        named = held.labels()[i]
        right = np.mean(named == labels[held.rows])
        counts = np.array(summary.slider.data["confusion"][i])
        assert np.trace(counts) / counts.sum() == pytest.approx(right)
        assert summary.slider.told[i].endswith(f"share of errors {number(1 - right)}")


def test_page_of_many_rows_stays_small():
    rng = np.random.default_rng(0)
    m = 3000
    X, groups = rng.normal(size=(m, 3)), np.repeat(np.arange(300), 10)
    model = KernelRidgeCV(basis=30, cv=GroupKFold(5), random_state=0)
    model.fit(X, rng.normal(size=m), groups=groups)
    context = Context(time="t", moments=np.arange(float(m)))
    page = to_html(summarise(model, context, verify=0))
    assert len(page.encode()) < 700_000


def test_few_experiments_are_retrained_where_that_takes_long(monkeypatch):
    from holdfast.report import checks

    assert summarise(fitted()).certificate.experiments == 5
    monkeypatch.setattr(checks, "_MOST_DENSE", 0.0)
    assert summarise(fitted()).certificate.experiments == 1
    assert summarise(fitted(), verify=3).certificate.experiments == 3
