"""The default grid of penalties follows the data, and goes on where the best lies at an end."""

import warnings

import numpy as np
import pytest
from sklearn.model_selection import KFold

from holdfast import KernelMixtureCV, KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.exceptions import GridEdgeWarning
from holdfast.kernels import RBF, Linear
from holdfast.kernels.matrix import KernelRows
from holdfast.kernels.typical import total_eigenvalue
from holdfast.scores.choice import ABOVE, BELOW, COUNT, default_penalties
from reference.retrain import retrain


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 3)) + 5
    return X, X[:, 0] + np.sin(X[:, 1]) + 0.3 * rng.normal(size=80)


@pytest.mark.parametrize("unit", [1e-6, 1e-3, 1e4])
def test_the_unit_of_linear_features_changes_nothing(unit, rows):
    X, y = rows
    one = KernelRidgeCV("linear", cv=5).fit(X, y)
    other = KernelRidgeCV("linear", cv=5).fit(unit * X, y)
    assert other.best_index_ == one.best_index_
    np.testing.assert_allclose(other.alphas_, unit**2 * one.alphas_, rtol=1e-9)
    assert other.best_score_ == pytest.approx(one.best_score_, rel=1e-9)
    np.testing.assert_allclose(other.predict(unit * X), one.predict(X), rtol=1e-7)


@pytest.mark.parametrize("factor", [1e-4, 1e5])
def test_neither_does_that_of_the_weights(factor, rows):
    X, y = rows
    weights = np.random.default_rng(0).uniform(0.5, 2, size=len(X))
    one = KernelRidgeCV(gamma=0.3, cv=5).fit(X, y, sample_weight=weights)
    other = KernelRidgeCV(gamma=0.3, cv=5).fit(X, y, sample_weight=factor * weights)
    assert other.best_score_ == pytest.approx(one.best_score_, rel=1e-9)
    np.testing.assert_allclose(other.alphas_, factor * one.alphas_, rtol=1e-9)


def test_a_kernel_that_is_scaled_changes_nothing(rows):
    X, y = rows
    one = KernelRidgeCV(RBF(0.3), cv=5).fit(X, y)
    other = KernelRidgeCV(1000.0 * RBF(0.3), cv=5).fit(X, y)
    assert other.best_score_ == pytest.approx(one.best_score_, rel=1e-9)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kernel", [Linear(), RBF(0.2)])
def test_the_total_is_the_sum_of_the_eigenvalues(kernel, bias, rows):
    X, _ = rows
    w = np.random.default_rng(1).uniform(0, 2, size=len(X))
    K = kernel(X)
    root = np.sqrt(w)
    A = root[:, None] * K * root
    if bias:
        q = root / np.linalg.norm(root)
        P = np.eye(len(X)) - np.outer(q, q)
        A = P @ A @ P
    total = total_eigenvalue(KernelRows(kernel, X), w, centred=bias)
    assert total == pytest.approx(np.linalg.eigvalsh(A).sum(), rel=1e-10)


def test_every_kernel_has_its_own_part_of_one_sequence(rows):
    X, y = rows
    parts = default_penalties(np.array([1.0, 1e4, 1e-7]))
    for total, part in zip([1.0, 1e4, 1e-7], parts, strict=True):
        assert part.alphas.size == COUNT
        assert part.alphas[-1] == pytest.approx(total, rel=0.5)
    common = np.intersect1d(np.log10(parts[0].alphas).round(9), np.log10(parts[1].alphas).round(9))
    assert common.size > 10
    model = KernelRidgeCV(["linear", "poly", "rbf"], cv=5).fit(X, y)
    for kernel in ("linear", "poly", "rbf"):
        alone = KernelRidgeCV(kernel, cv=5).fit(X, y)
        scores = [
            score
            for score, params in zip(
                model.cv_results_["pooled_test_score"], model.cv_results_["params"], strict=True
            )
            if params["kernel"] == kernel
        ]
        assert max(scores) == pytest.approx(alone.best_score_, rel=0.05)


def noise(m=60):
    rng = np.random.default_rng(1)
    return rng.normal(size=(m, 2)), rng.normal(size=m)


def test_the_grid_goes_on_above_where_nothing_can_be_learned():
    X, y = noise()
    with pytest.warns(GridEdgeWarning, match="largest of the grid"):
        model = KernelRidgeCV(gamma=1.0).fit(X, y)
    assert model.alphas_.size == COUNT + ABOVE
    assert f"{ABOVE} above" in str(model.explain())
    ratios = model.alphas_[1:] / model.alphas_[:-1]
    np.testing.assert_allclose(ratios, ratios[0])
    assert model.cv_results_["alpha"].size == model.alphas_.size
    assert model.alpha_ == model.cv_results_["alpha"][model.best_index_]


def test_the_grid_goes_on_below_where_there_is_no_noise():
    X = np.linspace(0, 1, 40)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        model = KernelRidgeCV(gamma=2.0, cv=KFold(4, shuffle=True, random_state=0))
        model.fit(X, np.sin(6 * X[:, 0]))
    assert model.alphas_.size == COUNT + BELOW
    assert f"{BELOW} below" in str(model.explain())
    assert model.best_index_ < BELOW


def test_added_penalties_score_what_retraining_says():
    X, y = noise()
    with pytest.warns(GridEdgeWarning):
        model = KernelRidgeCV(gamma=1.0, cv=KFold(4)).fit(X, y)
    K = RBF(1.0)(X)
    for index in (-ABOVE, -1):
        alpha = model.alphas_[index]
        errors = []
        for _, test in KFold(4).split(X):
            held = retrain(K, y[:, None], test, test, alpha)
            errors.append(y[test] - held[:, 0])
        assert model.cv_results_["pooled_test_score"][index] == pytest.approx(
            -np.mean(np.concatenate(errors) ** 2), rel=1e-9
        )


def test_a_grid_of_ones_own_is_never_extended():
    X, y = noise()
    with pytest.warns(GridEdgeWarning):
        model = KernelRidgeCV(gamma=1.0, alphas=[0.1, 1.0]).fit(X, y)
    np.testing.assert_array_equal(model.alphas_, [0.1, 1.0])
    assert "penalties added" not in str(model.explain())


def test_targets_that_choose_for_themselves_extend_both_ends():
    rng = np.random.default_rng(5)
    X = np.linspace(0, 1, 40)[:, None]
    Y = np.c_[np.sin(6 * X[:, 0]), rng.normal(size=40)]
    with pytest.warns(GridEdgeWarning):
        model = KernelRidgeCV(gamma=2.0, alpha_per_target=True).fit(X, Y)
    assert model.alphas_.size == BELOW + COUNT + ABOVE
    np.testing.assert_array_equal(model.alpha_, model.cv_results_["alpha"][model.best_index_])


def test_penalties_come_in_any_order():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2, 40, 1))
    y = X[:, 0] + y[:, 0]
    one, two = (
        KernelRidgeCV(alphas=alphas, cv=4).fit(X, y) for alphas in ([0.1, 1, 9], (9, 0.1, 1))
    )
    np.testing.assert_array_equal(one.alphas_, two.alphas_)
    assert one.best_index_ == two.best_index_
    # Answers come in the order of the question.
    asked = one.held_out(alphas=[9, 0.1])
    np.testing.assert_array_equal(asked.alphas, [9, 0.1])
    np.testing.assert_allclose(asked.values, one.held_out().values[[2, 0]])
    np.testing.assert_allclose(asked.std, one.held_out().std[[2, 0]])
    np.testing.assert_allclose(asked.log_density(), one.held_out().log_density()[[2, 0]])


def test_unknown_parameters_are_refused_by_the_class_that_the_user_wrote():
    for kind in (KernelRidgeCV, KernelRidgeClassifierCV, KernelMixtureCV):
        with pytest.raises(TypeError, match=rf"^{kind.__name__}.*'gama'"):
            kind("rbf", gama=1.0)
