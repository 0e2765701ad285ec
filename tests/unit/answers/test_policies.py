"""Every policy side by side, and how an estimate varies: against models that are retrained."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import KFold

from holdfast import HoldOut, KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.answers.partitions import partitions
from holdfast.answers.policies import MEANINGS, Variation
from holdfast.basis import BalancedOverFolds, Random
from holdfast.displays import PoliciesDisplay, VariationDisplay
from holdfast.exceptions import InvalidInputError, NotSupportedError
from holdfast.experiments import POLICIES
from reference import kernels
from reference.retrain import retrain

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")

SEED = 11
RNG = np.random.default_rng(SEED)
M = 48
X = RNG.normal(size=(M, 3))
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] ** 2]) + 0.2 * RNG.normal(size=(M, 2))
W = RNG.uniform(0.5, 2.0, size=M)
W[[3, 20]] = 0.0  # never trained on, and weightless in scores
GROUPS = np.arange(M) % 12
K = kernels.gram("rbf", X, gamma=0.3)
JITTER = 1e-10
FOLDS = [fold for _, fold in KFold(4, shuffle=True, random_state=SEED).split(X)]


def fitted(y=Y, **options):
    settings = {"gamma": 0.3, "alphas": [0.2], "basis": 12, "random_state": SEED, **options}
    return KernelRidgeCV(**settings).fit(X, y, sample_weight=W, groups=GROUPS)


def squares(held, test, removed, basis, alpha=0.2, columns=slice(None)):
    """Weighted squared errors of a model that is really retrained, and the weights."""
    options = {"basis": basis, "removed": removed, "weights": W, "jitter": JITTER, "bias": True}
    values = retrain(K, Y, held, test, alpha, **options)
    errors = (values - Y[test])[:, columns]
    return W[test][:, None] * errors**2, W[test]


def naive(model, policy, folds):
    """The pooled score under a policy, every model trained again."""
    basis, total, weight = model.basis_indices_, 0.0, 0.0
    for fold in folds:
        inside = np.intersect1d(fold, basis)
        held = np.setdiff1d(fold, basis) if policy in ("train", "skip") else fold
        test = np.setdiff1d(fold, basis) if policy == "skip" else fold
        part, weights = squares(held, test, inside if policy == "remove" else (), basis)
        total, weight = total + part.sum(axis=0), weight + weights.sum()
    return -float(np.mean(total / weight))


def test_every_policy_equals_retraining():
    model = fitted(cv=[HoldOut(fold) for fold in FOLDS], pooled=True)
    found = model.policies()
    assert [one.name for one in found.scores] == [*POLICIES, "groups"]
    for policy in ("remove", "keep", "train", "skip"):
        assert found[policy].score == pytest.approx(naive(model, policy, FOLDS), rel=1e-8)
    groups = [np.flatnonzero(g == GROUPS) for g in range(12)]
    assert found["groups"].score == pytest.approx(naive(model, "remove", groups), rel=1e-8)
    assert found["remove"].tested == M
    assert found["skip"].tested == M - 12
    again = fitted(cv=[HoldOut(fold) for fold in FOLDS], pooled=True, held_out_basis="reselect")
    assert found["reselect"].score == pytest.approx(again.best_score_, rel=1e-10)
    # Asking changes nothing, and the model's own policy does not matter.
    assert model.held_out_basis == "remove"
    other = fitted(cv=[HoldOut(fold) for fold in FOLDS], pooled=True, held_out_basis="keep")
    for policy in POLICIES:
        assert other.policies()[policy].score == pytest.approx(found[policy].score, rel=1e-10)


def test_each_target_keeps_its_penalty():
    noise = np.random.default_rng(SEED).normal(size=M)
    y = np.column_stack([Y[:, 0], noise])
    model = fitted(y, alphas=[1e-3, 0.1, 10.0], cv=4, pooled=True, alpha_per_target=True)
    assert len(set(model.alpha_)) == 2
    found = model.policies(["remove"])["remove"].score
    assert found == pytest.approx(np.mean(model.best_score_), rel=1e-8)


def test_the_table_says_what_each_estimates():
    model = fitted(cv=4)
    found = model.policies()
    printed = repr(found)
    for one in found.scores:
        assert one.name in printed
        assert one.speaks_of in ("predictor", "algorithm", "neither")
    assert "new groups" in printed
    assert found.to_frame("pandas")["policy"].tolist() == list(MEANINGS)
    with pytest.raises(KeyError, match="'nothing' was not computed; there are remove"):
        found["nothing"]


def test_what_cannot_be_asked_is_said():
    dense = KernelRidgeCV(gamma=0.3, alphas=[0.2]).fit(X, Y[:, 0])
    found = dense.policies()
    assert [one.name for one in found.scores] == ["remove"]
    assert "this model is dense" in found.left_out["keep"]
    assert "needs groups" in found.left_out["groups"]
    with pytest.raises(NotSupportedError, match="'keep' needs basis rows"):
        dense.policies(["keep"])
    own = fitted(basis=np.arange(0, M, 4), cv=4)
    assert "user's own" in own.policies().left_out["reselect"]
    needs = fitted(basis=BalancedOverFolds(8), cv=4)
    assert "needs all folds" in needs.policies().left_out["reselect"]
    rows = np.concatenate([np.arange(M)] * 3)
    many = KernelRidgeCV(gamma=0.3, alphas=[0.2], basis=9, random_state=0).fit(
        X[rows] + 0.01 * rows[:, None], Y[rows]
    )
    assert "would train 144 models again" in many.policies().left_out["reselect"]
    assert many.policies(["reselect"], cv=3)["reselect"].tested == 144
    for bad in ("remove", [], ["forget"]):
        with pytest.raises(InvalidInputError, match="names must be a sequence of 'remove'"):
            dense.policies(bad)
    with pytest.raises(InvalidInputError, match="groups must hold one label per row"):
        dense.policies(groups=[1, 2])


def test_groups_may_be_named_later():
    model = KernelRidgeCV(gamma=0.3, alphas=[0.2], basis=12, random_state=SEED)
    model.fit(X, Y, sample_weight=W)
    found = model.policies(["groups"], groups=GROUPS)["groups"].score
    assert found == pytest.approx(fitted().policies(["groups"])["groups"].score, rel=1e-10)


# ---- variation --------------------------------------------------------------------------------


def test_variation_equals_fits_of_other_draws():
    model = fitted(cv=4, pooled=True)
    found = model.variation(n_splits=4, draws=3, partitions=2, random_state=5)
    assert found.scores.shape == (3, 2)
    np.testing.assert_allclose(
        found.scores, model.variation(n_splits=4, draws=3, partitions=2, random_state=5).scores
    )
    # The first draw is the basis of fit, whose folds keep groups together.
    for p in range(2):
        folds = partitions(GROUPS, None, W, 4, [5, p])
        assert all(
            set(GROUPS[fold]).isdisjoint(
                np.delete(GROUPS, fold)[W[np.delete(np.arange(M), fold)] > 0]
            )
            for fold in folds
        )
        assert found.scores[0, p] == pytest.approx(naive(model, "remove", folds), rel=1e-8)
    # The others are other bases: listed by held_out in the same order.
    held = model.held_out([HoldOut(fold) for fold in folds], alphas=[0.2], basis_draws=3)
    rows = np.concatenate(folds)
    for d, values in enumerate(np.split(held.values[0], 3)):
        mse = (W[rows][:, None] * (values - Y[rows]) ** 2).sum(axis=0) / W[rows].sum()
        assert found.scores[d, 1] == pytest.approx(-mse.mean(), rel=1e-10)


@pytest.mark.parametrize("policy", ["keep", "skip", "reselect"])
def test_variation_under_other_policies(policy):
    model = fitted(cv=4, held_out_basis=policy)
    found = model.variation(n_splits=4, draws=2, partitions=2)
    assert np.isfinite(found.scores).all()
    assert not np.allclose(found.scores[0], found.scores[1])


def test_components_are_what_they_say():
    rng = np.random.default_rng(SEED)
    by_draw, by_partition, totals = [], [], []
    for _ in range(300):
        scores = 2.0 * rng.normal(size=(8, 1)) + rng.normal(size=(1, 8))
        result = Variation(scores + 0.5 * rng.normal(size=(8, 8)), 5, "r2", False)
        by_draw.append(result.by_draw**2)
        by_partition.append(result.by_partition**2)
        totals.append(result.total**2)
    assert np.mean(by_draw) == pytest.approx(4.0, rel=0.1)
    assert np.mean(by_partition) == pytest.approx(1.0, rel=0.1)
    assert np.mean(totals) == pytest.approx(5.25, rel=0.1)
    one = Variation(np.array([[1.0, 2.0]]), 5, "r2", False)
    assert np.isnan(one.by_draw)
    assert one.total == one.by_partition == pytest.approx(np.sqrt(0.5))
    assert "the partition by" in repr(one)
    assert "draw of the basis rows moves" not in repr(one)
    assert "nothing varied" in repr(Variation(np.array([[1.0]]), 5, "accuracy", True))


def test_more_basis_rows_vary_less():
    few, many = (fitted(basis=n, cv=4).variation(n_splits=4, draws=8).by_draw for n in (9, 30))
    assert many < few


def test_a_dense_model_has_partitions_only():
    dense = KernelRidgeCV(gamma=0.3, alphas=[0.2]).fit(X, Y[:, 0])
    found = dense.variation(n_splits=3, partitions=4)
    assert found.scores.shape == (1, 4)
    with pytest.raises(NotSupportedError, match="draws is for basis rows that are drawn"):
        dense.variation(draws=2)
    with pytest.raises(InvalidInputError, match="partitions"):
        dense.variation(partitions=0)
    with pytest.raises(InvalidInputError, match="n_splits"):
        dense.variation(n_splits=M + 1)


def test_classifiers_are_asked_too():
    labels = np.where(Y[:, 0] > 0, "up", "down")
    model = KernelRidgeClassifierCV(gamma=0.3, alphas=[0.2], basis=12, cv=4, random_state=0)
    model.fit(X, labels)
    found = model.policies()
    assert found.classifier
    assert found["remove"].score == pytest.approx(model.best_score_)
    assert model.variation(n_splits=4, draws=2, partitions=2).mean > 0.5


def test_displays():
    pytest.importorskip("matplotlib").use("Agg")
    model = fitted(cv=4)
    display = PoliciesDisplay.from_estimator(model, names=["remove", "keep"])
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == [
        "remove\n(algorithm)",
        "keep\n(predictor)",
    ]
    shown = [bar.get_width() for bar in display.bars_]
    scores = model.policies(["remove", "keep"]).scores
    np.testing.assert_allclose(shown, np.sqrt([-one.score for one in scores]))
    found = model.variation(n_splits=4, draws=2, partitions=3)
    display = found.plot()
    assert isinstance(display, VariationDisplay)
    np.testing.assert_allclose(display.points_.get_ydata(), np.sqrt(-found.scores.ravel()))
    assert found.to_frame("pandas").shape == (6, 3)
    assert model.policies(["remove"]).plot().bars_


# ---- n basis rows in each held-out model -------------------------------------------------------


@pytest.mark.parametrize(("n", "folds", "left"), [(27, 10, {27}), (12, 4, {12}), (10, 4, {9, 10})])
def test_basis_rows_of_each_held_out_model(n, folds, left):
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(100, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=100)
    cv = KFold(folds, shuffle=True, random_state=1)
    model = KernelRidgeCV(gamma=0.3, alphas=[0.1], basis=Random(n, per_model=True), cv=cv)
    model.fit(X, y)
    sizes = [np.setdiff1d(model.basis_indices_, held).size for _, held in cv.split(X)]
    assert set(sizes) <= left | {max(left) + 1} - ({max(left) + 1} if len(left) == 1 else set())
    assert abs(np.mean(sizes) - n) < 0.5
    assert len(set(model.basis_indices_.tolist())) == model.basis_indices_.size


def test_per_model_needs_folds_and_enough_rows():
    overlapping = [HoldOut([0, 1]), HoldOut([1, 2])]
    with pytest.raises(InvalidInputError, match="Random needs experiments that partition the rows"):
        fitted(basis=Random(5, per_model=True), cv=overlapping)
    with pytest.raises(InvalidInputError, match=r"n must be at most .* per_model=True; got 44"):
        fitted(basis=Random(44, per_model=True), cv=4)
    with pytest.raises(NotSupportedError, match="which Random does not allow"):
        fitted(basis=Random(5, per_model=True), cv=4, held_out_basis="reselect")
    assert Random(5, per_model=True).get_params() == {"n": 5, "per_model": True}
