"""The summary says what the model says, and shows it without harm."""

import base64
import gzip
import hashlib
import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut, RepeatedKFold

import holdfast.report
from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.displays.score_scale import score_scale
from holdfast.exceptions import InvalidInputError
from holdfast.report import Context, summarise, to_html, to_markdown, write_report
from holdfast.report.answer import number, shortened
from holdfast.report.blocks import (
    Beside,
    Bullets,
    Chart,
    Facts,
    Heading,
    KeyFigures,
    Note,
    Text,
)
from holdfast.report.page import Html, tag
from holdfast.report.rows import part_scores, row_results
from holdfast.report.sections import told
from holdfast.report.terminal import terminal

pytestmark = [
    pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning"),
    pytest.mark.filterwarnings("ignore:groups were given without cv"),
]

ALPHAS = np.logspace(-3, 3, 7)
HOSTILE = '<script>alert("x")</script>"\'&`|*_\n# $x$ %{y} </script><img src=x onerror=alert(1)>'


def packed(page, name):
    """Return what a packed element of a page holds."""
    text = re.search(rf'<script type="text/plain" id="{name}">([^<]*)</script>', page)[1]
    return gzip.decompress(base64.b85decode(text.replace(".", "<"))).decode()


def data(seed=0, n_groups=10, size=6):
    rng = np.random.default_rng(seed)
    m = n_groups * size
    groups = np.repeat([f"g{i}" for i in range(n_groups)], size)
    offset = np.repeat(rng.normal(size=n_groups), size)
    traits = np.repeat(rng.normal(size=(n_groups, 2)), size, axis=0)
    traits += 0.05 * rng.normal(size=(m, 2))
    x = rng.normal(size=(m, 1))
    return np.hstack([traits, x]), 3 * offset + x[:, 0] + 0.1 * rng.normal(size=m), groups


def fitted(**options):
    X, y, groups = data()
    parameters = {"alphas": ALPHAS, "cv": LeaveOneGroupOut(), "random_state": 0, **options}
    return KernelRidgeCV(**parameters).fit(X, y, groups=groups)


@pytest.fixture(scope="module")
def summary():
    context = Context(
        title="A title",
        target="score",
        feature_names=("age", "height", "dose"),
        group="subject",
        preparation=("Numbers were scaled.",),
        command="holdfast cv data.csv --target score",
        data="data.csv",
        checksum="abc123",
        warnings=("Something to know.",),
    )
    return summarise(fitted(basis=25), context)


# --- the numbers -----------------------------------------------------------------------------


def test_numbers_are_those_of_retrained_models():
    """The naive twin: fit without each group, predict it."""
    X, y, groups = data()
    model = fitted()
    summary = summarise(model, verify=0)
    residual, baseline = np.empty_like(y), np.empty_like(y)
    for g in np.unique(groups):
        out = groups == g
        twin = clone(model).set_params(alphas=[model.alpha_], cv=3).fit(X[~out], y[~out])
        residual[out] = y[out] - twin.predict(X[out])
        baseline[out] = y[out] - y[~out].mean()
    rmse, naive = np.sqrt(np.mean(residual**2)), np.sqrt(np.mean(baseline**2))
    head = summary.headline
    np.testing.assert_allclose(head.error, rmse, rtol=1e-9)
    np.testing.assert_allclose(head.value, rmse, rtol=1e-9)
    np.testing.assert_allclose(head.baseline, naive, rtol=1e-12)
    np.testing.assert_allclose(head.skill, 1 - rmse**2 / naive**2, rtol=1e-9)
    by_group = {part.label: part for part in summary.groups}
    for g in np.unique(groups):
        mine = residual[groups == g]
        np.testing.assert_allclose(by_group[g].score, np.sqrt(np.mean(mine**2)), rtol=1e-9)
        np.testing.assert_allclose(by_group[g].bias, mine.mean(), rtol=1e-7)
    scores = [part.score for part in summary.groups]
    assert scores == sorted(scores, reverse=True)
    order = np.argsort(-np.abs(residual))
    assert [hard.row for hard in summary.hardest] == order[:12].tolist()
    np.testing.assert_allclose(summary.hardest[0].error, residual[order[0]], rtol=1e-9)


def test_weights_count_in_every_score():
    X, y, groups = data()
    weights = np.random.default_rng(1).integers(0, 3, size=len(y)).astype(float)
    rows = np.repeat(np.arange(len(y)), weights.astype(int))
    model = KernelRidgeCV(alphas=ALPHAS, cv=LeaveOneGroupOut())
    one = summarise(model.fit(X, y, sample_weight=weights, groups=groups), verify=0)
    two = summarise(clone(model).fit(X[rows], y[rows], groups=groups[rows]), verify=0)
    for field in ("value", "error", "baseline", "skill"):
        np.testing.assert_allclose(
            getattr(one.headline, field), getattr(two.headline, field), rtol=1e-8
        )
    assert one.asked.weighted
    assert not two.asked.weighted
    assert [p.label for p in one.groups] == [p.label for p in two.groups]


def test_contrasts_are_what_other_models_say():
    X, y, groups = data()
    summary = summarise(fitted(), verify=0)
    asked, other = summary.contrasts
    assert asked.asked
    assert other.name == "leave-one-out"
    loo = KernelRidgeCV(alphas=ALPHAS).fit(X, y)
    np.testing.assert_allclose(other.error, np.sqrt(-loo.best_score_), rtol=1e-9)
    assert other.alpha == loo.alpha_
    assert other.error < 0.8 * asked.error
    assert "Leave-one-out would have claimed" in " ".join(summary.answer)
    loo.fit(X, y, groups=groups)
    turned = summarise(loo, Context(group="subject"), verify=0)
    assert turned.contrasts[1].name == "leave-one-subject-out"
    np.testing.assert_allclose(turned.contrasts[1].error, asked.error, rtol=1e-9)
    assert "expect that for a subject that is not in the data" in " ".join(turned.answer)


def test_no_contrast_without_groups_or_when_not_wanted():
    X, y, _ = data()
    assert summarise(KernelRidgeCV(alphas=ALPHAS, cv=5).fit(X, y), verify=0).contrasts == ()
    assert summarise(fitted(), contrast=False, verify=0).contrasts == ()


def test_basis_row_policies(summary):
    X, y, groups = data()
    model = fitted(basis=25)
    assert [row.name for row in summary.policies] == ["remove", "keep", "train", "skip"]
    for row in summary.policies:
        other = clone(model).set_params(basis=model.basis_indices_, held_out_basis=row.name)
        other.set_params(alphas=[model.alpha_]).fit(X, y, groups=groups)
        assert row.score == pytest.approx(np.sqrt(-other.best_score_))
    assert summary.policies[-1].tested == len(y) - 25
    assert summary.policies[0].score == pytest.approx(summary.headline.value)
    assert "remove (in use)" in to_markdown(summary)
    assert summarise(fitted(), verify=0).policies == ()


def test_reselected_basis_rows():
    summary = summarise(fitted(basis=25, held_out_basis="reselect"))
    assert summary.certificate is None
    assert summary.policies == ()
    assert any("reselect" in note for note in summary.warnings)
    assert "No experiment was retrained for comparison" in to_html(summary)


def test_certificate_and_repeat(summary):
    assert summary.certificate.max_relative_error < 1e-8
    assert summary.certificate.experiments == 5
    assert dict(summary.repeat.versions)["numpy"] == np.__version__
    assert summary.repeat.checksum == "abc123"


def test_folds_are_shown_unless_they_are_the_groups():
    assert summarise(fitted(), verify=0).folds == ()
    folds = summarise(fitted(cv=GroupKFold(3)), verify=0).folds
    assert sorted(part.label for part in folds) == ["fold 1", "fold 2", "fold 3"]
    assert sum(part.count for part in folds) == 60
    assert summarise(fitted(cv=None), verify=0).folds == ()


def test_repeated_tests_of_a_row():
    X, y, _ = data()
    model = KernelRidgeCV(alphas=ALPHAS, cv=RepeatedKFold(n_splits=3, n_repeats=4, random_state=0))
    summary = summarise(model.fit(X, y), verify=0)
    assert summary.rows.total == 240
    rows = [hard.row for hard in summary.hardest]
    assert len(set(rows)) == len(rows) == 12


def test_one_standard_error_and_edge():
    X, y, _ = data()
    model = KernelRidgeCV(alphas=np.logspace(-2, 2, 30), cv=KFold(5), rule="1se").fit(X, y)
    curve = summarise(model, verify=0).curve
    assert curve.chosen == (model.alpha_,)
    assert curve.alphas[curve.one_se] == model.alpha_
    edge = KernelRidgeCV(alphas=[1e3, 1e4], cv=5).fit(X, X[:, 2])
    summary = summarise(edge, verify=0)
    assert summary.curve.edge == "smallest"
    assert "the smallest of the grid" in to_html(summary)
    assert "the smallest of the grid" in to_markdown(summary)


def test_classifier():
    X, y, groups = data()
    labels = np.where(y > 1, "high", np.where(y < -1, "low", "mid"))
    model = KernelRidgeClassifierCV(alphas=ALPHAS, cv=LeaveOneGroupOut())
    summary = summarise(model.fit(X, labels, groups=groups), Context(target="level"))
    found = model.held_out(alphas=[model.alpha_])
    predicted = np.empty(60, dtype=object)
    predicted[found.rows] = found.labels()[0]
    np.testing.assert_array_equal(
        summary.confusion.counts,
        confusion_matrix(labels, predicted.astype(str), labels=["high", "low", "mid"]),
    )
    wrong = np.mean(labels != predicted)
    np.testing.assert_allclose(summary.headline.error, wrong)
    np.testing.assert_allclose(summary.headline.value, 1 - wrong)
    majority = []
    for g in np.unique(groups):
        values, counts = np.unique(labels[groups != g], return_counts=True)
        majority += list(labels[groups == g] != values[counts.argmax()])
    np.testing.assert_allclose(summary.headline.baseline, np.mean(majority))
    assert "of the predictions of level are right" in summary.answer[0]
    # The hardest row is one that is wrong, as long as any is.
    assert summary.hardest[0].y != summary.hardest[0].prediction
    page = to_html(summary)
    assert "fig-actual" not in page
    assert "by predicted class" in page
    to_markdown(summary)


def test_two_classes_and_other_scores():
    X, y, groups = data()
    model = KernelRidgeClassifierCV(alphas=ALPHAS, cv=LeaveOneGroupOut(), scoring="roc_auc")
    summary = summarise(model.fit(X, (y > 0).astype(int), groups=groups), verify=0)
    assert summary.headline.label == "area under the ROC curve"
    np.testing.assert_allclose(summary.headline.value, model.best_score_)
    assert "By the score asked for" in " ".join(summary.answer)


def test_several_targets():
    X, y, groups = data()
    Y = np.column_stack([y, X[:, 2] + 5])
    model = KernelRidgeCV(alphas=ALPHAS, cv=LeaveOneGroupOut(), alpha_per_target=True)
    model.fit(X, Y, groups=groups)
    one, two = (summarise(model, verify=0, target=t) for t in (0, 1))
    alone = KernelRidgeCV(alphas=[model.alpha_[1]], cv=LeaveOneGroupOut())
    alone.fit(X, Y[:, 1], groups=groups)
    np.testing.assert_allclose(two.headline.error, np.sqrt(-alone.best_score_), rtol=1e-9)
    assert one.headline.error != two.headline.error


def test_many_rows_are_thinned_the_same_way_every_time(monkeypatch):
    from holdfast.report import where

    monkeypatch.setattr(where, "MAX_POINTS", 20)
    model = fitted()
    summary = summarise(model, verify=0)
    assert len(summary.rows.row) == 20
    assert summary.rows.total == 60
    assert "(20 of 60 shown)" in to_html(summary)
    assert summarise(model, verify=0).to_json() == summary.to_json()


def test_a_useless_model_is_called_useless():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    summary = summarise(KernelRidgeCV(gamma=0.3, alphas=[1e-6], cv=5).fit(X, y), verify=0)
    assert summary.headline.skill <= 0
    assert "no better than using no features" in summary.answer[1]


def test_row_results_and_parts():
    model = fitted()
    results = row_results(model)
    parts = part_scores(results, results.experiment)
    assert sum(part.count for part in parts) == 60
    with pytest.raises(ValueError, match="not fitted"):
        summarise(KernelRidgeCV())


# --- the forms -------------------------------------------------------------------------------


def test_json(summary):
    text = json.loads(summary.to_json())
    assert text["summary_version"] == 3
    assert text["headline"]["error"] == summary.headline.error
    assert text["curve"]["alphas"] == ALPHAS.tolist()
    assert text["asked"]["target"] == "score"
    assert "NaN" not in summary.to_json()


def test_markdown(summary):
    text = to_markdown(summary)
    assert text.startswith("# A title\n\n**On rows held out by leave-one-subject-out")
    assert "| g" in text
    assert "holdfast cv data.csv --target score" in text
    for part in text.split("\n\n"):
        lines = [line for line in part.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) <= 1


class Structure(HTMLParser):
    """Collects what a screen reader would meet."""

    def __init__(self):
        super().__init__()
        self.tags, self.ids, self.headings, self.scripts = [], [], [], 0
        self.images, self.links, self.stack = [], [], []

    def handle_starttag(self, name, attributes):
        found = dict(attributes)
        self.tags.append(name)
        if "id" in found:
            self.ids.append(found["id"])
        if re.fullmatch("h[1-6]", name):
            self.headings.append(int(name[1]))
        if name == "script":
            self.scripts += 1
        if found.get("role") == "img":
            self.images.append(found.get("aria-label"))
        if name == "a":
            self.links.append(found["href"])
        if name not in ("meta", "br", "input"):
            self.stack.append(name)

    def handle_endtag(self, name):
        assert self.stack.pop() == name


def test_page_is_well_formed_and_accessible(summary):
    page = to_html(summary)
    structure = Structure()
    structure.feed(page)
    assert structure.stack == []
    for landmark in ("header", "nav", "main", "footer"):
        assert structure.tags.count(landmark) == 1
    assert len(set(structure.ids)) == len(structure.ids)
    assert structure.headings[0] == 1
    assert structure.headings.count(1) == 1
    assert all(b - a <= 1 for a, b in zip(structure.headings, structure.headings[1:], strict=False))
    assert len(structure.images) == 11
    assert all(len(alt) > 20 for alt in structure.images)
    assert all(link.startswith("#") and link[1:] in structure.ids for link in structure.links)
    assert '<html lang="en">' in page
    assert structure.scripts == 3


def test_page_is_the_same_every_time(summary):
    assert to_html(summary) == to_html(summary)


def test_page_forbids_requests_and_foreign_scripts(summary):
    page = to_html(summary)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "default-src &#x27;none&#x27;" in policy
    assert policy.count("sha256-") == 2
    assert "unsafe-eval" not in policy
    script = policy.split("script-src")[1].split(";")[0]
    assert "unsafe-inline" not in script


def test_hostile_text_is_escaped():
    X, y, groups = data()
    names = np.array([HOSTILE if g == "g0" else g for g in groups])
    model = KernelRidgeCV(alphas=ALPHAS, cv=LeaveOneGroupOut(), basis=20, random_state=0)
    model.fit(X, y, groups=names)
    context = Context(
        title=HOSTILE,
        target=HOSTILE,
        feature_names=(HOSTILE, "b", "c"),
        group=HOSTILE,
        command=HOSTILE,
        data=HOSTILE,
        preparation=(HOSTILE,),
        warnings=(HOSTILE,),
    )
    summary = summarise(model, context, verify=1)
    page = to_html(summary)
    structure = Structure()
    structure.feed(page)
    assert structure.scripts == 3
    assert "img" not in structure.tags
    assert "<img src=x" not in page
    loaded = json.loads(packed(page, "data"))["figures"]
    labels = loaded["groups"]["data"][0]["text"]
    assert any("&lt;script&gt;" in label for label in labels)
    assert not any("<script" in label for label in labels)
    text = to_markdown(summary)
    assert "\n# $x$" not in text.split("```")[0]
    assert "<img" not in re.sub(r"\\<", "", text.split("```")[0])
    assert json.loads(summary.to_json())["title"] == HOSTILE


#: Of plotly-basic.min.js; changes together with the version in report/plotly/README.md.
PLOTLY = "99784e3abfb07b142a15e521a439e6d9addceadb3f79553fd24c72774f0649ba"


def test_plotly_is_the_file_that_was_published(summary):
    folder = Path(holdfast.report.__file__).parent / "plotly"
    script = gzip.decompress((folder / "plotly-basic.min.js.gz").read_bytes())
    assert hashlib.sha256(script).hexdigest() == PLOTLY
    version = re.search(rb"plotly\.js \(basic - minified\) v([\d.]+)", script)[1].decode()
    assert f"version {version}" in (folder / "README.md").read_text("utf-8")
    assert "MIT License" in (folder / "LICENSE").read_text("utf-8")
    page = to_html(summary)
    assert packed(page, "plotly") == script.decode()
    digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
    assert f"sha256-{digest}" in page


def test_the_basic_bundle_can_draw_every_trace(summary):
    figures = json.loads(packed(to_html(summary), "data"))["figures"].values()
    assert {trace["type"] for figure in figures for trace in figure["data"]} == {"scatter", "bar"}


def test_a_finding_is_worded_once(summary):
    """The same blocks on the page, in Markdown and on a terminal."""
    report = told(summary)
    page = html.unescape(to_html(summary))
    text = to_markdown(summary).replace("\\", "")
    lines = terminal([*report.head, *(b for s in report.sections for b in s.blocks)])
    words = [w for s in report.sections for w in words_of(s.blocks)] + words_of(report.head)
    assert len(words) > 40
    for word in words:
        assert all(word in form for form in (page, text, lines)), word


def words_of(blocks):
    """Return what every renderer has to show of blocks."""
    found = []
    for block in blocks:
        if isinstance(block, Beside):
            found += words_of(block.blocks)
        elif isinstance(block, Text | Note | Heading):
            found.append(block.text)
        elif isinstance(block, Facts | KeyFigures):
            found += [text for pair in block.pairs for text in pair]
        elif isinstance(block, Bullets):
            found += [block.title, *block.items]
        elif isinstance(block, Chart) and block.table:
            found += [block.caption, *(row[0] for row in block.table.rows[:40])]
    return found


def test_written_reports(summary, tmp_path):
    for name, start in (("r.html", "<!DOCTYPE html>"), ("r.md", "# A title"), ("r.json", "{")):
        write_report(summary, tmp_path / name)
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)
    with pytest.raises(InvalidInputError, match=r"\.html, \.md or \.json"):
        write_report(summary, tmp_path / "r.pdf")


# --- words and markup ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1234.5678, "1,235"),
        (0.012345, "0.0123"),
        (1e-6, "1e-6"),
        (1.5e12, "1.5e12"),
        (-3.14159, "-3.14"),
        (float("nan"), "–"),
        (10.0, "10.0"),
    ],
)
def test_numbers_as_words(value, text):
    assert number(value) == text


def test_long_decimals_are_cut():
    assert shortened("RBF(gamma=0.16666666666666666)") == "RBF(gamma=0.1667)"
    assert shortened("Poly(degree=3, coef0=1.0)") == "Poly(degree=3, coef0=1.0)"


def test_score_scales():
    rmse = score_scale(None, classifier=False)
    assert rmse.label == "RMSE"
    np.testing.assert_allclose(rmse.shown(np.array([-4.0])), [2.0])
    # se of a root, against moving the score by its standard error
    low, high = rmse.shown(np.array([-4.01, -3.99]))
    spread = rmse.spread(np.array([-4.0]), np.array([0.02]))
    np.testing.assert_allclose(spread, low - high, rtol=1e-4)
    assert score_scale("neg_mean_absolute_error", False).lower_is_better
    assert not score_scale("r2", False).lower_is_better
    assert score_scale(None, classifier=True).label == "accuracy"
    assert score_scale(test_score_scales, False).label == "score (test_score_scales)"


def test_markup_escapes_text_and_not_elements():
    assert tag("p", "<b>", Html("<b>x</b>"), None, class_="a&b") == (
        '<p class="a&amp;b">&lt;b&gt;<b>x</b></p>'
    )
    assert tag("meta", charset="utf-8") == '<meta charset="utf-8">'
    assert tag("a", hidden=True, title=None) == "<a hidden></a>"
