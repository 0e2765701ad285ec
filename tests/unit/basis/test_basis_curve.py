"""Held-out error against the number of basis rows."""

import warnings

import numpy as np
import pytest

from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.basis import (
    BalancedOverFolds,
    FeatureVectors,
    Fixed,
    Greedy,
    PerGroup,
    Random,
    RandomlyPivotedCholesky,
    basis_curve,
)
from holdfast.exceptions import HoldfastWarning, InvalidInputError, SelectionBiasWarning

ALPHAS = np.logspace(-4, 1, 6)


def problem(m=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=m)


def quietly(**kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HoldfastWarning)
        return basis_curve(**kwargs)


@pytest.mark.parametrize("pooled", [True, False])
def test_scores_are_those_of_separate_fits(pooled):
    X, y = problem()
    w = np.random.default_rng(1).uniform(0.5, 2.0, size=60)
    model = KernelRidgeCV(gamma=0.5, alphas=ALPHAS, cv=5, pooled=pooled)
    curve = basis_curve(
        model, X, y, [6, 12], [Random()], policies=("keep", "remove"), sample_weight=w
    )
    assert curve.scores.shape == (1, 2, 1, 2)
    seed = np.random.SeedSequence([0, 0]).generate_state(1)[0]
    rows = np.random.default_rng(seed).choice(60, size=12, replace=False)
    for p, policy in enumerate(curve.policies):
        for k, n in enumerate((6, 12)):
            fit = KernelRidgeCV(
                gamma=0.5, alphas=ALPHAS, cv=5, pooled=pooled, basis=rows[:n], held_out_basis=policy
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", HoldfastWarning)
                fit.fit(X, y, sample_weight=w)
            np.testing.assert_allclose(curve.scores[0, p, 0, k], fit.best_score_, rtol=1e-10)
            assert curve.alphas[0, p, 0, k] == fit.alpha_


def test_beginnings_of_nested_selections_are_selections():
    X, y = problem()
    model = KernelRidgeCV(gamma=0.5, alphas=ALPHAS, cv=5)
    given = {"estimator": model, "X": X, "y": y, "selectors": [Greedy(candidates=5)]}
    both, small = quietly(sizes=[4, 10], **given), quietly(sizes=[4], **given)
    np.testing.assert_allclose(both.scores[..., 0], small.scores[..., 0], rtol=1e-10)


def test_all_kinds_of_selectors_policies_and_repeats():
    X, y = problem()
    selectors = {
        "a": Random(),
        "b": RandomlyPivotedCholesky(),
        "c": BalancedOverFolds(),
        "d": FeatureVectors(),
    }
    curve = quietly(
        estimator=KernelRidgeCV(gamma=0.5, alphas=ALPHAS, cv=5),
        X=X,
        y=y,
        sizes=[0.1, 0.2],
        selectors=selectors,
        policies=("remove", "keep", "train", "skip"),
        repeats=2,
    )
    assert curve.selectors == ("a", "b", "c", "d")
    assert curve.sizes.tolist() == [6, 12]
    assert np.isfinite(curve.scores).all()
    assert (curve.seconds > 0).all()
    assert not np.array_equal(curve.scores[0, :, 0], curve.scores[0, :, 1])
    frame = curve.to_frame()
    assert len(frame) == 4 * 4 * 2 * 2
    row = frame.query("selector == 'b' and policy == 'keep' and repeat == 1 and size == 12")
    assert row["score"].item() == curve.scores[1, 1, 1, 1]


def test_reselect_chooses_anew_for_every_experiment():
    X, y = problem()
    curve = basis_curve(
        KernelRidgeCV(gamma=0.5, alphas=ALPHAS, cv=5),
        X,
        y,
        [8],
        [Greedy(candidates=5)],
        policies=("reselect",),
    )
    seed = int(np.random.SeedSequence([0, 0]).generate_state(1)[0] % 2**31)
    fit = KernelRidgeCV(
        gamma=0.5,
        alphas=ALPHAS,
        cv=5,
        basis=Greedy(8, candidates=5),
        held_out_basis="reselect",
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HoldfastWarning)
        fit.fit(X, y)
    np.testing.assert_allclose(curve.scores.item(), fit.best_score_, rtol=1e-10)


def test_bias_is_said_once_and_not_for_random_rows():
    X, y = problem()
    model = KernelRidgeCV(gamma=0.5, alphas=ALPHAS, cv=5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        basis_curve(model, X, y, [5, 10], repeats=2)
    assert [w.category for w in caught] == [SelectionBiasWarning]
    assert "RandomlyPivotedCholesky, Greedy choose" in str(caught[0].message)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        basis_curve(model, X, y, [5, 10], [Random()])
    assert caught == []


def test_sizes_beyond_the_rank_are_missing():
    X, y = problem()
    curve = quietly(
        estimator=KernelRidgeCV("linear", alphas=ALPHAS, cv=5),
        X=X,
        y=y,
        sizes=[1, 2, 3],
        selectors=[FeatureVectors(), RandomlyPivotedCholesky()],
        policies=("keep",),
    )
    assert np.isnan(curve.scores[:, 0, 0]).tolist() == [[False, False, True]] * 2


def test_classifier_and_groups():
    X, y = problem()
    groups = np.repeat(np.arange(10), 6)
    curve = quietly(
        estimator=KernelRidgeClassifierCV(gamma=0.5, alphas=ALPHAS, cv=3),
        X=X,
        y=np.where(y > np.median(y), "high", "low"),
        sizes=[10],
        selectors=[Random(), Greedy(candidates=5, criterion="group")],
        groups=groups,
    )
    assert curve.classifier
    assert ((curve.scores > 0.5) & (curve.scores <= 1.0)).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": []}, "sizes"),
        ({"sizes": [0]}, "at least 1"),
        ({"sizes": [61]}, "only 60 rows"),
        ({"sizes": "many"}, "sizes"),
        ({"policies": "remove"}, "policies"),
        ({"policies": ()}, "policies"),
        ({"policies": ("forget",)}, "policies"),
        ({"selectors": []}, "selectors"),
        ({"selectors": [3]}, "selectors"),
        ({"selectors": [Fixed([1, 2])]}, "no parameter n"),
        ({"selectors": [PerGroup(2)], "groups": np.arange(60) % 5}, "no parameter n"),
        ({"repeats": 0}, "repeats"),
    ],
)
def test_nonsense_is_refused(change, message):
    X, y = problem()
    model = KernelRidgeCV(gamma=0.5, alphas=ALPHAS, cv=5)
    given = {"estimator": model, "X": X, "y": y, "sizes": [5], "selectors": [Random()]}
    with pytest.raises(InvalidInputError, match=message):
        quietly(**{**given, **change})


def test_display():
    pytest.importorskip("matplotlib").use("Agg")
    from holdfast.displays import BasisSizeDisplay

    X, y = problem()
    model = KernelRidgeCV(gamma=0.5, alphas=ALPHAS, cv=5)
    display = BasisSizeDisplay.from_estimator(
        model, X, y, [5, 10], selectors={"chance": Random()}, repeats=2
    )
    assert set(display.lines_) == {("chance", "remove"), ("chance", "keep")}
    drawn = display.lines_["chance", "keep"].get_ydata()
    expected = np.sqrt(-display.curve.scores[0, 1]).mean(axis=0)  # RMSE, mean over repeats
    np.testing.assert_allclose(drawn, expected)
    assert display.ax_.get_ylabel() == "held-out RMSE"
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == [
        "chance",
        "held out: remove",
        "held out: keep",
    ]
    assert set(display.bands_) == set(display.lines_)
    display.figure_.clear()


@pytest.mark.parametrize(("m", "last"), [(3, 1), (30, 15), (300, 150), (10_000, 1000)])
def test_sizes_have_a_default(m, last):
    from holdfast.estimators.basis_curve import SIZES, _counts

    sizes = _counts(None, m)
    assert sizes[-1] == last
    assert 1 <= sizes[0] <= 10
    assert len(sizes) <= SIZES
    if m >= 300:
        ratios = sizes[1:] / sizes[:-1]
        np.testing.assert_allclose(ratios, ratios[0], rtol=0.1)


def test_a_curve_can_be_read_and_plotted():
    pytest.importorskip("matplotlib").use("Agg")
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(60, 2))
    y = X[:, 0] ** 2 + 0.1 * rng.normal(size=60)
    model = KernelRidgeCV(gamma=0.5, cv=3)
    curve = basis_curve(model, X, y, selectors=[Random()], policies=["remove"])
    text = repr(curve)
    assert text.startswith("<held-out neg_mean_squared_error by number of basis rows")
    lines = text.splitlines()
    assert lines[1].split() == ["selector", "policy", *map(str, curve.sizes)]
    assert lines[2].split()[:3] == ["Random", "remove", f"{curve.scores[0, 0, 0, 0]:.4g}"]
    shown = curve.plot()
    np.testing.assert_array_equal(shown.lines_["Random", "remove"].get_xdata(), curve.sizes)
