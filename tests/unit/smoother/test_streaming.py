"""Feature rows that are computed whenever they are needed, instead of kept."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, ShuffleSplit, TimeSeriesSplit

import holdfast.holdout.identity
import holdfast.smoother.rows
from holdfast import HoldOut, KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.data.memory import available_bytes, memory_bytes
from holdfast.exceptions import InvalidInputError
from holdfast.experiments import Ragged, Tasks
from holdfast.holdout.plan import make_plan
from holdfast.smoother import Sizes
from holdfast.smoother.rows import StreamedRows

SEED = 5
RNG = np.random.default_rng(SEED)
M, D = 90, 4
X = RNG.normal(size=(M, D))
Y = np.c_[np.sin(X[:, 0]) + 0.1 * RNG.normal(size=M), X[:, 1] * X[:, 2]]
WEIGHTS = RNG.integers(0, 3, size=M).astype(float)
GROUPS = RNG.permutation(M) % 7
ALPHAS = np.logspace(-4, 2, 4)

SPLITS = {
    "loo": LeaveOneOut(),
    "folds": KFold(4),
    "groups": GroupKFold(5),
    "shuffle": ShuffleSplit(3, test_size=0.3, random_state=1),
    "time": TimeSeriesSplit(4, gap=2),
    "large": KFold(2),
    "overlapping": [HoldOut(np.arange(j, j + 9), [j + 4]) for j in range(0, 80, 7)],
}

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")


def pair(y=Y, fit=None, **options):
    """Return the same model fitted with its feature rows in memory and streamed."""
    options = {"alphas": ALPHAS, "random_state": 0, "gamma": 0.3, **options}
    kept = KernelRidgeCV(**options).fit(X, y, **(fit or {}))
    streamed = KernelRidgeCV(memory_limit=1, **options).fit(X, y, **(fit or {}))
    assert not isinstance(kept._fitted_model().smoother.system().W, StreamedRows)
    assert isinstance(streamed._fitted_model().smoother.system().W, StreamedRows)
    return kept, streamed


def same(a, b):
    scale = np.abs(a).max()
    np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-10 * scale)


def same_models(kept, streamed):
    same(kept.held_out().values, streamed.held_out().values)
    for key in ("pooled_test_score", "mean_test_score"):
        same(kept.cv_results_[key], streamed.cv_results_[key])
    np.testing.assert_array_equal(kept.alpha_, streamed.alpha_)
    same(kept.dual_coef_, streamed.dual_coef_)
    same(kept.predict(X), streamed.predict(X))
    np.testing.assert_allclose(streamed.intercept_, kept.intercept_, rtol=1e-9)


@pytest.mark.parametrize("policy", ["remove", "keep", "train", "skip"])
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("path", ["spectral", "fold_gram", "single"])
def test_streamed_equals_kept(path, split, policy):
    kept, streamed = pair(
        basis=15,
        cv=SPLITS[split],
        path=path,
        held_out_basis=policy,
        fit={"groups": GROUPS, "sample_weight": WEIGHTS},
    )
    same_models(kept, streamed)


@pytest.mark.parametrize("path", ["spectral", "fold_gram", "single"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("split", ["loo", "folds"])
def test_streamed_with_and_without_weights_and_bias(path, fit_intercept, weights, split):
    kept, streamed = pair(
        basis=15,
        cv=SPLITS[split],
        path=path,
        fit_intercept=fit_intercept,
        fit={"sample_weight": weights},
    )
    same_models(kept, streamed)
    same(
        kept.predict_without([3, 50, 51], alpha=0.1),
        streamed.predict_without([3, 50, 51], alpha=0.1),
    )


@pytest.mark.parametrize("path", ["spectral", "fold_gram", "single"])
@pytest.mark.parametrize("split", ["loo", "folds", "shuffle"])
def test_a_linear_kernel_is_streamed_too(path, split):
    kept, streamed = pair(kernel="linear", cv=SPLITS[split], path=path)
    same_models(kept, streamed)


@pytest.mark.parametrize("path", ["auto", "spectral", "fold_gram", "single"])
def test_streamed_against_retraining(path):
    model = KernelRidgeCV(
        basis=20, cv=6, alphas=ALPHAS, gamma=0.3, path=path, memory_limit=1, random_state=0
    ).fit(X, Y, sample_weight=WEIGHTS)
    assert model.verify(6).max_relative_error < 1e-10


def test_blocks_of_any_size_give_the_same(monkeypatch):
    """Rows arrive in blocks: of 64 rows here, of all rows before."""
    whole = pair(basis=15, cv=5)
    monkeypatch.setattr(holdfast.smoother.rows, "BLOCK_BYTES", 1)
    monkeypatch.setattr(holdfast.smoother.rows, "LEAST_ROWS", 64)
    for limit in (None, 1):
        blocks = KernelRidgeCV(
            basis=15, cv=5, alphas=ALPHAS, gamma=0.3, random_state=0, memory_limit=limit
        ).fit(X, Y)
        same(whole[0].held_out().values, blocks.held_out().values)
        same(whole[0].predict(X), blocks.predict(X))


def test_rows_are_streamed_exactly_when_they_do_not_fit():
    n = 15
    needed = 8 * M * (n + 1)  # with the column of the bias; rotation takes no more
    for limit, streamed in ((needed, False), (needed - 1, True)):
        model = KernelRidgeCV(basis=n, cv=5, memory_limit=limit, random_state=0).fit(X, Y)
        assert isinstance(model._fitted_model().smoother.system().W, StreamedRows) is streamed


def test_reselect_and_data_dependent_questions_when_streamed():
    kept, streamed = pair(basis=15, cv=5, held_out_basis="reselect")
    same(kept.held_out().values, streamed.held_out().values)
    kept, streamed = pair(basis=15, cv=5)
    same(kept.held_out(cv=3).values, streamed.held_out(cv=3).values)
    same(kept.held_out(alphas=[0.5]).values, streamed.held_out(alphas=[0.5]).values)


def test_a_streamed_classifier():
    labels = np.array(["a", "b", "c"])[np.digitize(Y[:, 0], [-0.5, 0.5])]
    options = {"basis": 15, "cv": 4, "alphas": ALPHAS, "random_state": 0}
    kept = KernelRidgeClassifierCV(**options).fit(X, labels)
    streamed = KernelRidgeClassifierCV(memory_limit=1, **options).fit(X, labels)
    same(kept.held_out().values, streamed.held_out().values)
    same(kept.decision_function(X), streamed.decision_function(X))


def test_streamed_sparse_and_float32_rows():
    rows = sp.random_array((M, 300), density=0.05, rng=np.random.default_rng(2), format="csr")
    options = {"basis": 15, "cv": 4, "alphas": ALPHAS, "random_state": 0, "gamma": 0.2}
    kept = KernelRidgeCV(**options).fit(rows, Y)
    same(
        kept.held_out().values,
        KernelRidgeCV(memory_limit=1, **options).fit(rows, Y).held_out().values,
    )
    single = X.astype(np.float32)
    kept = KernelRidgeCV(**options).fit(single, Y)
    same(
        kept.held_out().values,
        KernelRidgeCV(memory_limit=1, **options).fit(single, Y).held_out().values,
    )


@pytest.mark.parametrize("options", [{"basis": 15}, {"kernel": "linear"}, {"basis": 15, "cv": 5}])
def test_rows_in_a_file(tmp_path, options):
    file = np.lib.format.open_memmap(tmp_path / "rows.npy", mode="w+", dtype=float, shape=X.shape)
    file[:] = X
    file.flush()
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    options = {"alphas": ALPHAS, "random_state": 0, **options}
    stored = KernelRidgeCV(memory_limit=1, **options).fit(rows, Y)
    assert np.shares_memory(stored._problem.X, rows)  # not a copy
    plain = KernelRidgeCV(**options).fit(X, Y)
    same(plain.held_out().values, stored.held_out().values)
    same(plain.predict(X), stored.predict(rows))
    np.testing.assert_array_equal(rows, X)


def peak(m, n, memory_limit, **options):
    """Return the bytes that a fit takes at most beyond its arguments."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(m, 3))
    y = np.sin(rows[:, 0]) + 0.1 * rng.normal(size=m)
    model = KernelRidgeCV(
        gamma=0.3,
        basis=n,
        alphas=[0.1, 1.0, 10.0],
        memory_limit=memory_limit,
        random_state=0,
        **options,
    )
    tracemalloc.start()
    try:
        model.fit(rows, y)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("path", "cv"),
    [
        ("spectral", None),
        ("spectral", 100),
        ("fold_gram", 5),
        ("single", None),
        ("auto", None),
        ("auto", 5),
    ],
)
def test_memory_does_not_grow_like_m_times_n(monkeypatch, path, cv):
    """Streamed, a row more costs some vectors of length m, not n numbers, whatever n is."""
    monkeypatch.setattr(holdfast.smoother.rows, "BLOCK_BYTES", 2**17)
    monkeypatch.setattr(holdfast.holdout.identity, "STACK_DOUBLES", 2**15)
    monkeypatch.setattr(holdfast.smoother.rows, "KEEP_BYTES", 2**17)
    n, small, large = 200, 4000, 12_000
    options = {"path": path, "cv": cv}
    kept = peak(large, n, None, **options)
    assert kept > 8 * large * n
    streamed = peak(large, n, 1, **options)
    # Three penalties, splits, scores, temporaries: 50 doubles for each row are plenty.
    assert streamed - peak(small, n, 1, **options) < 8 * 50 * (large - small)
    assert streamed < 0.5 * kept


@pytest.mark.parametrize(
    ("parts", "memory", "path"),
    [
        (10, np.inf, "fold_gram"),
        (10, 150e6, "fold_gram"),
        (10, 60e6, "fold_gram"),  # rows of a fold and of its test are 96 MB
        (10, 1, "fold_gram"),
        (6_000, 1, "spectral"),
        (60_000, 1, "spectral"),  # fold_gram would take less memory, and days
    ],
)
def test_planned_memory(parts, memory, path):
    m, p = 60_000, 1_001
    folds = Ragged.from_arrays(np.array_split(np.arange(m), parts))
    tasks = Tasks(folds, Ragged.empty(parts), folds, np.arange(parts))
    sizes = Sizes(form="features", m=m, p=p, v=1, basis=1_000, memory=memory)
    plan = make_plan(tasks, sizes, 30, "auto")
    assert plan.path == path, str(plan)


# -- how much memory -------------------------------------------------------------------------------


def test_memory_limits():
    assert memory_bytes(1000) == 1000.0
    assert memory_bytes("4GB") == 4e9
    assert memory_bytes(" 1.5 mb ") == 1.5e6
    assert memory_bytes("2kB") == 2e3
    assert memory_bytes("0.001TB") == 1e9
    assert 0 < memory_bytes(None) < available_bytes()
    for nonsense in ("4", "GB", "", "4XB", "-1GB", "nanGB", float("inf"), -3, True, object()):
        with pytest.raises(InvalidInputError, match="memory_limit must be a positive number"):
            memory_bytes(nonsense)
