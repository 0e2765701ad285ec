"""Basis rows: what every selector promises, the simple ones, and what users may pass."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import KFold, ShuffleSplit

from holdfast import KernelRidgeCV
from holdfast.basis import (
    BalancedOverFolds,
    FeatureVectors,
    Fixed,
    Greedy,
    PerGroup,
    Random,
    RandomlyPivotedCholesky,
    Selector,
)
from holdfast.basis.random import even_shares
from holdfast.basis.resolve import as_selector, resolve_basis
from holdfast.exceptions import HoldfastWarning, InvalidInputError
from holdfast.kernels import RBF, FunctionKernel, Linear
from holdfast.kernels.matrix import KernelRows, PrecomputedRows
from holdfast.splitters.cv import as_experiments

M = 40
SELECTORS = [
    Random(8),
    PerGroup(2),
    BalancedOverFolds(8),
    Greedy(8, candidates=5),
    Greedy(8, candidates=5, criterion="loo", fit_intercept=False),
    Greedy(8, candidates=5, criterion="group"),
    FeatureVectors(8),
    FeatureVectors(8, sample=5),
    FeatureVectors(8, sample=5, evaluate=12),
    RandomlyPivotedCholesky(8),
]


def overlap(X, Z):
    """Kernel of strings: common letters, plus one for equal strings."""
    return np.array([[len(set(x) & set(z)) + float(x == z) for z in Z] for x in X], dtype=float)


def data_kinds():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(M, 4))
    words = ["".join(rng.choice(list("abcdefghijkl"), size=5)) for _ in range(M)]
    K = RBF(0.3)(X)
    sparse = sp.csr_array(np.where(rng.random((M, 12)) < 0.5, rng.normal(size=(M, 12)), 0.0))
    return {
        "dense": KernelRows(RBF(0.3), X),
        "sparse": KernelRows(Linear(), sparse),
        "callable": KernelRows(FunctionKernel(overlap), words),
        "precomputed": PrecomputedRows(K),
    }


def inputs():
    rng = np.random.default_rng(12)
    return {
        "y": rng.normal(size=(M, 2)),
        "weights": rng.uniform(0.5, 2.0, size=M),
        "groups": np.repeat(["d", "b", "a", "c"], 10),
        "experiments": as_experiments(KFold(4), M),
    }


@pytest.mark.parametrize("kind", ["dense", "sparse", "callable", "precomputed"])
@pytest.mark.parametrize("selector", SELECTORS, ids=repr)
def test_every_selector_works_for_every_kernel(selector, kind):
    data = data_kinds()[kind]
    given = inputs()
    before = {name: np.array(given[name], copy=True) for name in ("y", "weights", "groups")}
    rows = selector.select(data, **given, rng=3)
    assert rows.dtype == np.int64
    assert rows.shape == (8,)
    assert len(set(rows.tolist())) == 8
    assert rows.min() >= 0
    assert rows.max() < M
    np.testing.assert_array_equal(rows, selector.select(data, **given, rng=3))
    for name, value in before.items():
        np.testing.assert_array_equal(value, given[name])


def indefinite(X, Z):
    return np.tanh(0.5 * X @ Z.T + 0.1)


@pytest.mark.parametrize("selector", SELECTORS, ids=repr)
def test_indefinite_kernels_are_survived_or_refused(selector):
    X = np.random.default_rng(1).normal(size=(M, 4))
    data = KernelRows(FunctionKernel(indefinite), X)
    assert np.linalg.eigvalsh(data.block(slice(None), slice(None)))[0] < -0.1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HoldfastWarning)  # fewer rows may come back
        rows = selector.select(data, **inputs(), rng=0)
    assert 1 <= len(rows) <= 8
    # Selectors that factorise the kernel stop before its negative part makes them divide by it.
    if isinstance(selector, Greedy | FeatureVectors | RandomlyPivotedCholesky):
        assert np.linalg.eigvalsh(data.block(rows, rows))[0] > 0


@pytest.mark.parametrize("selector", SELECTORS, ids=repr)
def test_rows_of_weight_zero_are_as_if_absent(selector):
    given, data = inputs(), data_kinds()["dense"]
    idle = np.array([0, 7, 13, 26, 39])
    kept = np.setdiff1d(np.arange(M), idle)
    given["weights"][idle] = 0.0
    given["y"][idle] = 1e6  # must not be looked at
    rows = selector.select(data, **given, rng=5)
    assert not np.isin(rows, idle).any()
    given["y"], given["weights"] = given["y"][kept], given["weights"][kept]
    given["groups"] = given["groups"][kept]
    fold = np.repeat(np.arange(4), 10)[kept]
    folds = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(4)]
    given["experiments"] = as_experiments(folds, len(kept))
    np.testing.assert_array_equal(rows, kept[selector.select(data.take(kept), **given, rng=5)])


class Spy(KernelRows):
    """Remembers the largest block of the kernel matrix that was asked for."""

    largest = 0

    def block(self, rows, columns):
        part = super().block(rows, columns)
        self.largest = max(self.largest, min(part.shape))
        return part


@pytest.mark.parametrize("selector", SELECTORS, ids=repr)
def test_only_exact_feature_vectors_builds_the_whole_matrix(selector):
    data = Spy(RBF(0.3), np.random.default_rng(0).normal(size=(M, 4)))
    selector.select(data, **inputs(), rng=0)
    exact = isinstance(selector, FeatureVectors) and selector.sample is None
    assert (data.largest == M) == exact
    assert ("whole" in selector.explain(M)) == exact


@pytest.mark.parametrize("selector", SELECTORS, ids=repr)
def test_selectors_are_scikit_learn_objects(selector):
    twin = clone(selector)
    assert repr(twin) == repr(selector)
    chance = isinstance(selector, Random | PerGroup | BalancedOverFolds)
    assert selector.data_dependent is not chance


@pytest.mark.parametrize("selector", SELECTORS, ids=repr)
def test_what_is_needed_and_missing_is_named(selector):
    for name in selector.needs:
        given = {**inputs(), name: None}
        with pytest.raises(InvalidInputError, match=f"needs {name}"):
            selector.select(data_kinds()["dense"], **given, rng=0)


# --- what users may pass ------------------------------------------------------------------------


def test_resolve_basis_none_is_dense():
    assert resolve_basis(None, data_kinds()["dense"]) is None
    assert as_selector(None) is None


@pytest.mark.parametrize(
    ("basis", "n"), [(5, 5), (np.int32(5), 5), (0.25, 10), (1.0, 40), (0.001, 1), (M, M)]
)
def test_resolve_basis_numbers(basis, n):
    rows = resolve_basis(basis, data_kinds()["dense"], rng=1)
    assert rows is not None
    assert len(np.unique(rows)) == n
    expected = np.random.default_rng(1).choice(M, size=n, replace=False)
    np.testing.assert_array_equal(rows, expected)


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_resolve_basis_positions_keep_their_order(kind):
    rows = resolve_basis(kind([7, 3, 39]), data_kinds()["dense"])
    assert rows is not None
    assert rows.tolist() == [7, 3, 39]
    assert rows.dtype == np.int64


def test_resolve_basis_mask():
    mask = np.arange(M) % 10 == 4
    rows = resolve_basis(mask, data_kinds()["dense"])
    assert rows is not None
    assert rows.tolist() == [4, 14, 24, 34]


@pytest.mark.parametrize(
    ("basis", "message"),
    [
        (0, "at least 1"),
        (-3, "at least 1"),
        (M + 1, "only 40 rows"),
        (0.0, r"\(0, 1\]"),
        (1.5, r"\(0, 1\]"),
        (float("nan"), r"\(0, 1\]"),
        (True, "number of rows"),
        ([], "no rows"),
        (np.zeros(M, bool), "no rows"),
        ([1, 1, 2], "row 1 2 times"),
        ([39, -1], "from 0 to 39.*got -1"),
        ([1, 40], "from 0 to 39.*got 40"),
        ([-41], "from 0 to 39.*got -41"),
        ([0.5], "integer row numbers"),
        (["a"], "integer row numbers"),
        ([[1, 2]], "one-dimensional"),
        ([True, False], "one value for each of the 40 rows"),
        ("random", "not understood"),
        (Random, "instance"),
    ],
)
def test_resolve_basis_refuses(basis, message):
    with pytest.raises(InvalidInputError, match=message):
        resolve_basis(basis, data_kinds()["dense"], rng=0)


def test_resolve_basis_checks_what_a_users_selector_returns():
    class Twice(Selector):
        data_dependent = False

        def _choose(self, pool):
            return np.array([2, 2])

    with pytest.raises(InvalidInputError, match="row 2 2 times"):
        resolve_basis(Twice(), data_kinds()["dense"])


def test_users_rows_may_have_weight_zero_but_random_ones_may_not():
    weights = np.r_[np.zeros(30), np.ones(10)]
    data = data_kinds()["dense"]
    assert Fixed([3]).select(data, weights=weights).tolist() == [3]
    assert Random(10).select(data, weights=weights, rng=0).min() == 30
    assert len(Random(0.5).select(data, weights=weights, rng=0)) == 5
    with pytest.raises(InvalidInputError, match="only 10 rows"):
        Random(11).select(data, weights=weights)
    with pytest.raises(InvalidInputError, match="every weight is zero"):
        Random(1).select(data, weights=np.zeros(M))
    with pytest.raises(InvalidInputError, match="not negative"):
        Random(1).select(data, weights=-np.ones(M))
    with pytest.raises(InvalidInputError, match="one value per row"):
        Random(1).select(data, weights=np.ones(3))


# --- groups and folds ---------------------------------------------------------------------------


def test_per_group_takes_k_of_each_and_all_of_small_groups():
    groups = np.repeat(["x", "y", "z"], [1, 4, 35])
    rows = PerGroup(3).select(data_kinds()["dense"], groups=groups, rng=0)
    assert [np.sum(groups[rows] == g) for g in "xyz"] == [1, 3, 3]
    with pytest.raises(InvalidInputError, match="k must be a whole number"):
        PerGroup(0).select(data_kinds()["dense"], groups=groups)


@pytest.mark.parametrize(("n", "counts"), [(8, [2, 2, 2, 2]), (10, [2, 2, 3, 3])])
def test_balanced_over_folds(n, counts):
    experiments = as_experiments(KFold(4, shuffle=True, random_state=0), M)
    rows = BalancedOverFolds(n).select(
        data_kinds()["dense"], experiments=experiments, rng=np.random.default_rng(2)
    )
    assert sorted(np.isin(rows, e.held_out).sum() for e in experiments) == counts


def test_balanced_over_folds_needs_a_partition():
    experiments = as_experiments(ShuffleSplit(4, random_state=0), M)
    with pytest.raises(InvalidInputError, match="partition the rows"):
        BalancedOverFolds(8).select(data_kinds()["dense"], experiments=experiments)


def test_even_shares_fill_up_where_folds_are_small():
    rng = np.random.default_rng(0)
    assert even_shares(11, np.array([1, 10, 2, 10]), rng).tolist() == [1, 4, 2, 4]
    shares = np.array([even_shares(5, np.full(3, 9), rng) for _ in range(600)])
    assert (shares.sum(axis=1) == 5).all()
    # The two extra rows go anywhere: each fold gets one in two thirds of the cases.
    np.testing.assert_allclose(shares.mean(axis=0), 5 / 3, atol=0.1)


# --- too few distinct rows ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "selector",
    [
        RandomlyPivotedCholesky(6),
        Greedy(6, jitter=0.0),
        FeatureVectors(6),
    ],
    ids=repr,
)
def test_selectors_stop_at_the_distinct_rows(selector):
    corners = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0], [3.0, 3.0]])
    X = np.repeat(corners, 5, axis=0)
    y = np.arange(20.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = selector.select(KernelRows(RBF(0.5), X), y, rng=0)
    assert sorted(X[rows].tolist()) == sorted(corners.tolist())
    if isinstance(selector, FeatureVectors):
        assert selector.stopped_ == "rank"
    else:
        assert [w.category for w in caught] == [HoldfastWarning]
        assert "4 basis rows instead of 6" in str(caught[0].message)


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (Greedy(8, candidates=0), "candidates"),
        (Greedy(8, alpha=0.0), "alpha"),
        (Greedy(8, jitter=-1.0), "jitter"),
        (Greedy(8, criterion="aic"), "criterion must be one of 'train', 'loo', 'group'"),
        (Greedy(41), "only 40 rows"),
        (FeatureVectors(tol=-1.0), "tol"),
        (FeatureVectors(sample=0), "sample"),
        (FeatureVectors(sample=5, evaluate=1.5), "evaluate"),
        (FeatureVectors(max_size=0), "max_size"),
        (RandomlyPivotedCholesky(0), "at least 1"),
        (RandomlyPivotedCholesky("many"), "number of rows"),
    ],
    ids=repr,
)
def test_nonsense_is_refused(selector, message):
    with pytest.raises(InvalidInputError, match=message):
        selector.select(data_kinds()["dense"], **inputs(), rng=0)


def test_a_share_of_the_rows_is_the_nearest_number():
    X, y = np.random.default_rng(0).normal(size=(2, 100, 2))
    for share, count in ((0.29, 29), (0.57, 57), (0.001, 1), (1.0, 100)):
        model = KernelRidgeCV(basis=share, alphas=[1.0], held_out_basis="keep", random_state=0).fit(
            X, y[:, 0]
        )
        assert model.basis_indices_.size == count
