"""gamma="search": widths around the median distance, finer about the best of them."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold

from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.exceptions import GridEdgeWarning, InvalidInputError
from holdfast.kernels import RBF
from holdfast.kernels.typical import MULTIPLES, fine_widths, typical_widths


def skewed_rows(m, seed):
    """Counters of a busy machine: 21 skewed columns that follow a few loads, in standard units."""
    rng = np.random.default_rng(seed)
    loads = rng.normal(size=(m, 4))
    X = np.exp(loads @ rng.normal(size=(4, 21)) / 2 + 0.2 * rng.normal(size=(m, 21)))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = 100 / (1 + np.exp(-loads[:, 0] - 0.5 * loads[:, 1])) + rng.normal(size=m)
    return X, y


def widths_of(model):
    return sorted({params["gamma"] for params in model.cv_results_["params"]})


@pytest.fixture(scope="module")
def rows():
    return skewed_rows(300, seed=2)


def test_a_chosen_width_clearly_beats_the_default_on_skewed_columns(rows):
    X, y = rows
    chosen = KernelRidgeCV(gamma="search", cv=5).fit(X, y)
    default = KernelRidgeCV(cv=5).fit(X, y)
    assert chosen.best_score_ > 0.5 * default.best_score_  # negative: less than half the error


def test_it_is_the_grid_of_these_widths(rows):
    X, y = rows
    found = KernelRidgeCV(gamma="search", cv=5).fit(X, y)
    middle = 1.0 / np.median(pdist(X, "sqeuclidean"))
    widths = np.array(widths_of(found))
    near = np.abs(widths[:, None] / (middle * np.array(MULTIPLES)) - 1.0).min(axis=0)
    assert (near < 1e-10).all()
    best = found.best_params_["gamma"]
    for neighbour in (best / 2, best * 2):  # finer steps about the best
        assert np.abs(widths / neighbour - 1.0).min() < 1e-10
    assert widths.size <= 9
    same = KernelRidgeCV(gamma=widths_of(found), cv=5).fit(X, y)
    assert found.best_params_["gamma"] == same.best_params_["gamma"]
    assert found.best_score_ == pytest.approx(same.best_score_, rel=1e-3)  # penalties may differ
    assert found.cv_results_["params"][found.best_index_] == found.best_params_


def test_the_widths_go_on_where_the_best_lies_at_an_end():
    X = np.linspace(0.0, 1.0, 150)[:, None]
    y = np.sin(12 * np.pi * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=150)
    found = KernelRidgeCV(gamma="search", cv=KFold(5, shuffle=True, random_state=0)).fit(X, y)
    middle = 1.0 / np.median(pdist(X, "sqeuclidean"))
    assert widths_of(found)[-1] > 10.0 * middle  # beyond the coarse widths
    assert found.best_params_["gamma"] < widths_of(found)[-1]


def test_a_best_width_at_an_end_is_told():
    X = np.repeat(np.linspace(0.0, 1.0, 75), 2)[:, None]
    y = np.repeat(np.random.default_rng(0).normal(size=75), 2)  # a row tells of its twin alone
    model = KernelRidgeCV(gamma="search", cv=KFold(5, shuffle=True, random_state=0))
    with pytest.warns(GridEdgeWarning, match="best gamma is the largest of those that were tried"):
        model.fit(X, y)
    assert model.best_params_["gamma"] == widths_of(model)[-1]
    assert len(widths_of(model)) <= 9


def test_the_winner_scores_what_retraining_says(rows):
    X, y = rows
    model = KernelRidgeCV(gamma="search", cv=KFold(4)).fit(X, y)
    alone = KernelRidgeCV(gamma=model.best_params_["gamma"], cv=KFold(4), path="refit")
    alone.set_params(alphas=[model.alpha_]).fit(X, y)
    assert alone.best_score_ == pytest.approx(model.best_score_, rel=1e-8)


@pytest.mark.parametrize("kernel", ["rbf", "matern32", "laplacian", "poly"])
def test_every_kernel_with_a_width_has_widths_of_its_own_kind(kernel, rows):
    X, _ = rows
    ones = np.ones(len(X))
    found = typical_widths(kernel, X, ones)
    power = 1 if kernel == "laplacian" else 2
    np.testing.assert_allclose(
        typical_widths(kernel, 10 * X, ones), np.array(found) / 10**power, rtol=1e-10
    )
    np.testing.assert_allclose(typical_widths(kernel, sp.csr_matrix(X), ones), found, rtol=1e-8)


def test_rows_without_weight_take_no_part(rows):
    X, y = rows
    weights = np.ones(len(X))
    weights[::3] = 0
    far = X.copy()
    far[::3] *= 100
    kept = weights > 0
    some = KernelRidgeCV(gamma="search", cv=5).fit(far, y, sample_weight=weights)
    coarse = np.array(typical_widths("rbf", X[kept], np.ones(kept.sum())))
    near = np.abs(np.array(widths_of(some))[:, None] / coarse - 1.0).min(axis=0)
    assert (near < 1e-10).all()


def test_many_rows_are_sampled_the_same_way_each_time():
    X = np.random.default_rng(0).normal(size=(2000, 3))
    first = typical_widths("rbf", X, np.ones(2000))
    assert first == typical_widths("rbf", X, np.ones(2000))
    np.testing.assert_allclose(
        first, np.array(MULTIPLES) / np.median(pdist(X, "sqeuclidean")), rtol=0.1
    )


def test_rows_that_are_all_the_same_leave_the_kernel_its_own_width():
    X = np.ones((8, 2))
    assert typical_widths("rbf", X, np.ones(8)) is None
    model = KernelRidgeCV(gamma="search", cv=2).fit(X, np.arange(8.0))
    assert model.kernel_ == RBF(0.5)


def test_with_basis_groups_classes_and_sparse_rows(rows):
    X, y = rows
    groups = np.arange(len(X)) % 10
    model = KernelRidgeCV(gamma="search", basis=40, cv=GroupKFold(5), random_state=0)
    model.fit(sp.csr_matrix(X), y, groups=groups)
    assert len(widths_of(model)) > len(MULTIPLES)
    assert model.verify(3).max_relative_error < 1e-6
    classes = KernelRidgeClassifierCV(gamma="search", cv=4).fit(X, y > np.median(y))
    assert classes.best_params_["gamma"] in widths_of(classes)


def test_pickles_and_clones(rows):
    X, y = rows
    model = KernelRidgeCV(gamma="search", cv=5).fit(X, y)
    assert clone(model).fit(X, y).best_score_ == model.best_score_
    again = pickle.loads(pickle.dumps(model))
    assert again.gamma == "search"
    np.testing.assert_array_equal(again.alphas_, model.alphas_)
    np.testing.assert_allclose(again.nested(3).values, model.nested(3).values, rtol=1e-8)


def test_nested_chooses_the_width_inside_every_outer_experiment(rows):
    X, y = rows
    model = KernelRidgeCV(gamma="search", cv=KFold(3)).fit(X, y)
    found = model.nested(KFold(4))
    for number, (train, _) in enumerate(KFold(4).split(X)):
        # Widths of the training rows alone, with the penalties of the fit.
        widths = fine_widths("rbf", X[train], np.ones(train.size))
        best = KernelRidgeCV(gamma=widths, alphas=model.alphas_, cv=KFold(3))
        best.fit(X[train], y[train])
        assert found.kernels[number]["gamma"] == pytest.approx(best.best_params_["gamma"])
        assert found.alphas[number] == pytest.approx(best.alpha_)


@pytest.mark.parametrize("kernel", ["precomputed", RBF(1.0), [RBF(1.0), "rbf"]])
def test_kernels_with_a_width_of_their_own_are_refused(kernel):
    K = np.eye(6)
    with pytest.raises(InvalidInputError, match='gamma="search" chooses the width of kernels that'):
        KernelRidgeCV(kernel, gamma="search").fit(K, np.arange(6.0))


def test_kernels_without_a_width_do_not_mind(rows):
    X, y = rows
    model = KernelRidgeCV("linear", gamma="search", cv=5).fit(X, y)
    assert model.best_score_ == KernelRidgeCV("linear", cv=5).fit(X, y).best_score_


def test_dask_rows(rows):
    da = pytest.importorskip("dask.array")
    X, y = rows
    lazy = da.from_array(X, chunks=(75, -1))
    model = KernelRidgeCV(gamma="search", basis=20, cv=3, random_state=0).fit(lazy, y)
    local = KernelRidgeCV(gamma="search", basis=20, cv=3, random_state=0).fit(X, y)
    assert model.best_params_ == local.best_params_
    assert model.best_score_ == pytest.approx(local.best_score_, rel=1e-6)


def test_more_basis_rows_than_a_part_has():
    """A search begins on some of the rows; a basis that they cannot hold begins on all."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(720, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=720)
    for basis in (250, 600):
        model = KernelRidgeCV(gamma="search", basis=basis, random_state=0).fit(X, y)
        assert model.basis_indices_.size == basis


@pytest.mark.parametrize("basis", [None, 60])
def test_many_rows_walk_from_what_a_part_of_them_found(basis):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 2))
    y = np.sin(4 * X[:, 0]) + 0.1 * rng.normal(size=500)
    found = KernelRidgeCV(gamma="search", basis=basis, cv=5, random_state=0).fit(X, y)
    assert len(widths_of(found)) <= 3  # fits of all rows
    grid = fine_widths("rbf", X, np.ones(500))
    best = KernelRidgeCV(gamma=grid, basis=basis, cv=5, random_state=0).fit(X, y)
    assert found.best_score_ > 1.05 * best.best_score_  # negative: at most 5 % more error
