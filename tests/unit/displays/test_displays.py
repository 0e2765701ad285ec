"""Displays, tested by the artists they draw."""

import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import LeaveOneGroupOut

from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.displays import (
    CVCurveDisplay,
    Display,
    GroupScoresDisplay,
    HeldOutDisplay,
    InfluenceDisplay,
    PermutationDisplay,
)
from holdfast.exceptions import InvalidInputError, MissingDependencyError, NotSupportedError

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

DISPLAYS = [
    CVCurveDisplay,
    HeldOutDisplay,
    GroupScoresDisplay,
    InfluenceDisplay,
    PermutationDisplay,
]
ALPHAS = np.logspace(-4, 3, 12)


@pytest.fixture(autouse=True)
def close_figures():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


def data(seed=0, m=80):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 2))
    return X, np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=m), np.arange(m) // 8


@pytest.fixture(scope="module")
def model():
    X, y, groups = data()
    model = KernelRidgeCV(basis=30, cv=LeaveOneGroupOut(), alphas=ALPHAS, random_state=0)
    return model.fit(X, y, groups=groups)


@pytest.fixture(scope="module")
def classifier():
    X, y, groups = data()
    model = KernelRidgeClassifierCV(cv=LeaveOneGroupOut(), alphas=ALPHAS)
    return model.fit(X, np.where(y > 0, "yes", "no"), groups=groups)


@pytest.mark.parametrize("display", DISPLAYS)
def test_plots_on_given_axes_and_keeps_them(model, display):
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(1, 2)
    made = display.from_estimator(model, ax=axes[1])
    assert isinstance(made, display)
    assert isinstance(made, Display)
    assert made.ax_ is axes[1]
    assert made.figure_ is axes[0].figure
    assert not axes[0].has_data()
    assert axes[1].get_xlabel()
    again = made.plot()
    assert again is made
    assert again.ax_ is not axes[1]


@pytest.mark.parametrize("display", DISPLAYS)
def test_without_matplotlib(model, display, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingDependencyError, match=r"holdfast\[plot\]"):
        display.from_estimator(model)


@pytest.mark.parametrize("display", DISPLAYS)
def test_wrong_estimators(display):
    from sklearn.linear_model import Ridge

    with pytest.raises(InvalidInputError, match="got Ridge"):
        display.from_estimator(Ridge())
    with pytest.raises(ValueError, match="not fitted"):
        display.from_estimator(KernelRidgeCV())


def test_cv_curve(model):
    made = CVCurveDisplay.from_estimator(model, linewidth=3)
    rmse = np.sqrt(-model.cv_results_["pooled_test_score"])
    np.testing.assert_array_equal(made.line_.get_xdata(), ALPHAS)
    np.testing.assert_allclose(made.line_.get_ydata(), rmse)
    assert made.line_.get_linewidth() == 3
    assert made.ax_.get_ylabel() == "RMSE"
    assert made.ax_.get_xscale() == "log"
    assert made.best_.get_xdata()[0] == model.alpha_
    band = made.band_.get_paths()[0].vertices
    assert band[:, 1].max() > rmse.max()
    assert band[:, 1].min() < rmse.min()


def test_cv_curve_one_standard_error():
    X, y, _ = data()
    model = KernelRidgeCV(cv=5, alphas=np.logspace(-4, 3, 40), rule="1se").fit(X, y)
    made = CVCurveDisplay.from_estimator(model)
    assert made.one_se_.get_xdata()[0] == model.alpha_
    assert made.best_.get_xdata()[0] < model.alpha_


def test_cv_curve_of_other_scores(classifier):
    made = CVCurveDisplay.from_estimator(classifier)
    assert made.ax_.get_ylabel() == "log loss"
    np.testing.assert_allclose(made.line_.get_ydata(), -classifier.cv_results_["pooled_test_score"])
    X, y, _ = data()
    other = KernelRidgeCV(cv=5, alphas=ALPHAS, scoring="neg_mean_absolute_error").fit(X, y)
    made = CVCurveDisplay.from_estimator(other)
    assert made.ax_.get_ylabel() == "mean absolute error"
    np.testing.assert_allclose(made.line_.get_ydata(), -other.cv_results_["pooled_test_score"])


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
def test_cv_curve_shows_every_kernel_that_was_compared(model):
    X, y, groups = data()
    gammas = [0.1, 0.01, 1.0, 10.0]
    wide = clone(model).set_params(gamma=gammas).fit(X, y, groups=groups)
    made = CVCurveDisplay.from_estimator(wide, label="mine")
    assert made.best_.get_xdata()[0] == wide.alpha_
    chosen = gammas.index(wide.best_params_["gamma"])
    lines = [*made.others_[:chosen], made.line_, *made.others_[chosen:]]
    for gamma, line in zip(gammas, lines, strict=True):
        one = clone(model).set_params(gamma=gamma).fit(X, y, groups=groups)
        rmse = np.sqrt(-one.cv_results_["pooled_test_score"])
        np.testing.assert_allclose(line.get_ydata(), rmse)
    names = [text.get_text() for text in made.ax_.get_legend().get_texts()]
    assert names[:3] == ["other kernels", "mine", "best"]
    assert CVCurveDisplay.from_result(made.curve).plot().others_ == []


def test_cv_curve_of_one_bad_end_is_logarithmic():
    X, y, _ = data()
    steep = KernelRidgeCV(alphas=np.logspace(-12, 3, 12), gamma=0.3, cv=5).fit(X, y)
    assert CVCurveDisplay.from_estimator(steep).ax_.get_yscale() == "log"


def test_held_out(model):
    _, y, _ = data()
    made = HeldOutDisplay.from_estimator(model)
    points = np.asarray(made.scatter_.get_offsets())
    matrix = model.held_out(alphas=model.alpha_).matrix()[0, :, 0]
    order = np.lexsort(points.T)
    expected = np.column_stack([y, matrix])
    np.testing.assert_allclose(points[order], expected[np.lexsort(expected.T)])
    low, high = made.line_.get_xdata()
    assert low == points.min()
    assert high == points.max()


def test_held_out_residuals_and_other_cv(model):
    made = HeldOutDisplay.from_estimator(model, cv=5, kind="residual_vs_predicted")
    points = np.asarray(made.scatter_.get_offsets())
    expected = model.held_out(cv=5, alphas=model.alpha_).matrix()[0, :, 0]
    np.testing.assert_allclose(np.sort(points[:, 0]), np.sort(expected))
    np.testing.assert_allclose(np.sort(points.sum(axis=1)), np.sort(data()[1]))
    with pytest.raises(InvalidInputError, match="kind must be one of"):
        HeldOutDisplay.from_estimator(model, kind="pie")
    same = HeldOutDisplay.from_result(model.held_out(cv=5, alphas=model.alpha_))
    np.testing.assert_array_equal(np.sort(same.y_pred), np.sort(expected))
    assert not hasattr(same, "ax_")
    with pytest.raises(InvalidInputError, match="one length"):
        HeldOutDisplay(y_true=[1, 2], y_pred=[1])


def test_held_out_of_classifier(classifier):
    with pytest.raises(NotSupportedError, match="ConfusionMatrixDisplay"):
        HeldOutDisplay.from_estimator(classifier)


def test_group_scores(model):
    _, y, groups = data()
    made = GroupScoresDisplay.from_estimator(model, n_groups=4)
    matrix = model.held_out(alphas=model.alpha_).matrix()[0, :, 0]
    rmse = [np.sqrt(np.mean((y - matrix)[groups == g] ** 2)) for g in range(10)]
    order = np.argsort(rmse)[::-1]
    assert [t.get_text() for t in made.ax_.get_yticklabels()] == [str(g) for g in order[:4]]
    np.testing.assert_allclose(
        [bar.get_width() for bar in made.bars_], np.sort(rmse)[::-1][:4], rtol=1e-12
    )
    np.testing.assert_allclose(made.line_.get_xdata()[0], np.sqrt(np.mean((y - matrix) ** 2)))
    same = GroupScoresDisplay.from_predictions(y, matrix, groups)
    np.testing.assert_allclose(same.scores, np.sort(rmse)[::-1])


def test_group_scores_need_groups(model):
    X, y, _ = data()
    bare = KernelRidgeCV(alphas=ALPHAS, cv=5).fit(X, y)
    with pytest.raises(InvalidInputError, match="fitted without groups"):
        GroupScoresDisplay.from_estimator(bare)
    made = GroupScoresDisplay.from_estimator(bare, groups=np.array(["$a", "b"] * 40))
    assert sorted(made.labels) == ["$a", "b"]
    made.figure_.canvas.draw()
    with pytest.raises(InvalidInputError, match="one label per row"):
        GroupScoresDisplay.from_estimator(bare, groups=["a"])


def test_group_scores_of_classifier(classifier):
    made = GroupScoresDisplay.from_estimator(classifier)
    assert made.score_name == "share of errors"
    hits = classifier.held_out(alphas=classifier.alpha_).score("accuracy")[0]
    np.testing.assert_allclose(made.overall, 1 - hits)


def test_influence_has_leverage_and_labels(model, classifier):
    made = InfluenceDisplay.from_estimator(model, n_labels=3)
    points, found = np.asarray(made.scatter_.get_offsets()), model.influence()
    np.testing.assert_allclose(points[:, 0], found.leverage)
    most = np.argsort(-found.cook)[:3]
    assert [label.get_text() for label in made.labels_] == [str(row) for row in most]
    assert InfluenceDisplay.from_estimator(classifier).labels_


def test_notebook_shows_the_curve(model, classifier):
    import xml.etree.ElementTree as ElementTree

    for fitted in (model, classifier):
        page = fitted._repr_mimebundle_()["text/html"]
        picture = page[page.index("<figure") : page.index("</figure>") + len("</figure>")]
        tree = ElementTree.fromstring(picture)
        line = next(tree.iter("polyline")).get("points").split()
        assert len(line) == len(ALPHAS)
        assert "Held-out" in next(tree.iter("svg")).get("aria-label")
        heights = np.array([float(point.split(",")[1]) for point in line])
        values = CVCurveDisplay.from_estimator(fitted).curve.values
        # Downwards is smaller on the screen: the picture is the curve turned and scaled.
        assert np.corrcoef(heights, values)[0, 1] < -0.999
        assert fitted._repr_html_().endswith("</figure>")
    assert "<svg viewBox" not in KernelRidgeCV()._repr_mimebundle_()["text/html"]
    X, y, _ = data()
    one = KernelRidgeCV(alphas=[1.0], cv=3).fit(X, y)
    assert "<circle" in one._repr_mimebundle_()["text/html"]
