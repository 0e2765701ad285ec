"""Rows in Dask give the numbers of rows in memory, whatever becomes of the workers."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import uuid
from collections import Counter
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import KFold, LeaveOneGroupOut, LeaveOneOut, ShuffleSplit

from holdfast import HoldOut, KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.basis import Greedy, RandomlyPivotedCholesky
from holdfast.exceptions import (
    GridEdgeWarning,
    InvalidInputError,
    MissingDependencyError,
    NotSupportedError,
    SelectionBiasWarning,
)
from holdfast.kernels import RBF
from tolerances import assert_close, relative_difference

dask = pytest.importorskip("dask", reason="dask is not installed (extra holdfast[dask])")
da = pytest.importorskip("dask.array", reason="dask.array is not installed")

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{GridEdgeWarning.__module__}.{name}")
    for name in (GridEdgeWarning.__name__, SelectionBiasWarning.__name__)
]

ALPHAS = [1e-3, 0.1, 10.0]
#: Uneven, a single row, none at all, and the columns cut in two.
CHUNKS = ((50, 1, 0, 79, 40), (2, 1))
M = sum(CHUNKS[0])


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(M, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=M) + 3.0
    weights = rng.uniform(0.5, 2.0, M)
    weights[::7] = 0.0
    return SimpleNamespace(
        X=X,
        y=y,
        Y=np.column_stack([y, X[:, 1] ** 2, rng.normal(size=M)]),
        weights=weights,
        groups=rng.integers(0, 17, M),  # every group lies in several chunks
        dX=da.from_array(X, chunks=CHUNKS),
    )


@pytest.fixture(autouse=True)
def _synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


def pair(data, X=None, y=None, estimator=KernelRidgeCV, weights=None, groups=None, **options):
    """Return the same model fitted in memory and on Dask rows."""
    options = {"basis": 20, "alphas": ALPHAS, "random_state": 0, "gamma": 0.3, **options}
    y = data.y if y is None else y
    rows = data.dX if X is None else X
    here = estimator(**options).fit(local(rows), local(y), sample_weight=weights, groups=groups)
    there = estimator(**options).fit(rows, y, sample_weight=weights, groups=groups)
    return here, there


def local(values):
    return values.compute() if hasattr(values, "compute") else values


def assert_same(here, there, data):
    assert_close(there.held_out().values, here.held_out().values, "law")
    shown = here.cv_results_["pooled_test_score"]
    assert_close(there.cv_results_["pooled_test_score"], shown, "law")
    assert np.array_equal(here.basis_indices_, there.basis_indices_)
    assert_close(there.predict(data.X), here.predict(data.X), "law")


SPLITS = {
    "leave-one-out": LeaveOneOut(),
    "folds": KFold(4, shuffle=True, random_state=0),
    "groups": LeaveOneGroupOut(),
    "most-held-out": ShuffleSplit(2, test_size=0.6, random_state=0),
}
#: Fold Grams of leave-one-out are a p × p system for each row: the code of folds, and slow.
RUNS = [
    (split, path)
    for split in SPLITS
    for path in ("spectral", "per_fold", "cholesky")
    if (split, path) != ("leave-one-out", "per_fold")
]


@pytest.mark.parametrize(("split", "path"), RUNS)
@pytest.mark.parametrize("policy", ["remove", "keep", "train", "skip"])
@pytest.mark.parametrize(("weighted", "bias"), [(False, False), (True, True)], ids=str)
def test_same_numbers_as_in_memory(data, path, policy, split, weighted, bias):
    here, there = pair(
        data,
        weights=data.weights if weighted else None,
        groups=data.groups,
        cv=SPLITS[split],
        held_out_basis=policy,
        path=path,
        fit_intercept=bias,
    )
    assert_same(here, there, data)


@pytest.mark.parametrize(("split", "path"), RUNS)
def test_linear_kernel_without_basis(data, path, split):
    options = {"kernel": "linear", "basis": None, "path": path, "cv": SPLITS[split]}
    here, there = pair(data, weights=data.weights, groups=data.groups, **options)
    assert_same(here, there, data)
    assert_close(there.dual_coef_, here.dual_coef_, "law")
    assert_close(there.predict(data.dX).compute(), here.predict(data.X), "law")
    assert there.verify(2).max_relative_error < 1e-10


def a_kernel(X, Z):
    return np.exp(-np.abs(X[:, None] - Z[None]).sum(axis=2))


@pytest.mark.parametrize(
    "kernel",
    ["laplacian", "poly", "matern32", "cosine", RBF([0.1, 2.0, 0.5]), a_kernel],
    ids=lambda kernel: getattr(kernel, "__name__", str(kernel)),  # no address in a test's name
)
def test_kernels(data, kernel):
    assert_same(*pair(data, kernel=kernel, cv=4), data)


def test_a_grid_of_kernels(data):
    here, there = pair(data, kernel=["rbf", "laplacian"], gamma=[0.1, 1.0], cv=4)
    assert there.best_params_ == here.best_params_
    assert_same(here, there, data)


def test_targets(data):
    here, there = pair(data, y=data.Y, cv=4, alpha_per_target=True)
    assert np.array_equal(there.alpha_, here.alpha_)
    assert_same(here, there, data)
    assert there.predict(data.dX).shape == (M, 3)


@pytest.mark.parametrize("names", [["low", "high"], ["a", "b", "c"]], ids=len)
def test_classifier(data, names):
    labels = np.array(names)[np.searchsorted(np.quantile(data.y, [0.3, 0.6]), data.y) % len(names)]
    here, there = pair(data, y=labels, estimator=KernelRidgeClassifierCV, cv=4)
    assert there.best_score_ == pytest.approx(here.best_score_, rel=1e-9)
    lazy = there.predict(data.dX), there.predict_proba(data.dX), there.decision_function(data.dX)
    assert all(isinstance(values, da.Array) for values in lazy)
    assert (lazy[0].compute() == here.predict(data.X)).all()
    assert_close(lazy[1].compute(), here.predict_proba(data.X), "law")
    assert_close(lazy[2].compute(), here.decision_function(data.X), "law")


def test_float32_rows(data):
    assert_same(*pair(data, X=data.dX.astype(np.float32), cv=4), data)


def test_targets_weights_and_groups_as_dask_collections(data):
    here, _ = pair(data, weights=data.weights, groups=data.groups, cv=LeaveOneGroupOut())
    there = KernelRidgeCV(**here.get_params()).fit(
        data.dX,
        da.from_array(data.y, chunks=33),
        sample_weight=da.from_array(data.weights, chunks=50),
        groups=da.from_array(data.groups, chunks=70),
    )
    assert_same(here, there, data)


def test_frames(data):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    dd = pytest.importorskip("dask.dataframe", reason="dask.dataframe is not installed")
    frame = pd.DataFrame(data.X, columns=["a", "b", "c"])
    rows = dd.from_pandas(frame, npartitions=4)
    y = dd.from_pandas(pd.Series(data.y), npartitions=3)
    options = {"basis": 20, "gamma": 0.3, "alphas": ALPHAS, "cv": 4, "random_state": 0}
    here = KernelRidgeCV(**options).fit(frame, data.y)
    there = KernelRidgeCV(**options).fit(rows, y)
    assert list(there.feature_names_in_) == ["a", "b", "c"]
    with dask.config.set(scheduler=refuse):
        lazy = there.predict(rows)
    assert_close(lazy.compute(), here.predict(frame), "law")
    assert_close(there.held_out().values, here.held_out().values, "law")
    with pytest.raises(InvalidInputError):
        there.predict(rows[["b", "a", "c"]])
    with pytest.raises(InvalidInputError):
        there.fit(rows.assign(c="text"), y)


def refuse(*args, **kwargs):
    raise AssertionError("something was computed")


def test_predictions_are_lazy(data):
    here, there = pair(data, cv=4)
    with dask.config.set(scheduler=refuse):
        lazy = [model.predict(data.dX) for model in (here, there)]
        there.predict(data.X)  # the basis rows are here: no cluster is needed
    for values in lazy:
        assert_close(values.compute(), here.predict(data.X), "law")


def test_questions_to_a_fitted_model(data):
    here, there = pair(data, weights=data.weights, cv=5)
    cv = [HoldOut([3, 60, 61, 160]), HoldOut([0, 1, 2], test=[1]), HoldOut(np.arange(40, 140))]
    assert_close(there.held_out(cv).values, here.held_out(cv).values, "law")
    assert_close(there.predict_without([5, 120, 8]), here.predict_without([5, 120, 8]), "law")
    assert there.verify(3).max_relative_error < 1e-10
    assert "streamed" in str(there.explain())


def test_reselected_basis(data):
    here, there = pair(data, cv=3, held_out_basis="reselect", weights=data.weights)
    assert_same(here, there, data)


@pytest.mark.parametrize(
    "selector", [RandomlyPivotedCholesky(12), Greedy(8, candidates=10)], ids=repr
)
def test_selectors_that_look_at_the_kernel(data, selector):
    assert_same(*pair(data, basis=selector, cv=4, weights=data.weights), data)


def test_pickle(data):
    _, there = pair(data, cv=4)
    again = pickle.loads(pickle.dumps(there))
    with dask.config.set(scheduler=refuse):
        assert_close(again.predict(data.X), there.predict(data.X), "law")
    assert_close(again.held_out().values, there.held_out().values, "law")


# -- columns without a penalty ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"kernel": "linear", "basis": None}], ids=["rbf", "linear"]
)
@pytest.mark.parametrize("path", ["spectral", "per_fold", "cholesky"])
def test_a_trend(data, options, path):
    """Folds, single rows, other rows tested; rows of weight zero among them."""
    sets = [HoldOut([4]), HoldOut([60], [60]), HoldOut(np.arange(40, 70), [41, 66])]
    sets += [HoldOut(np.arange(0, M, 11)), HoldOut(np.arange(30, M))]
    options = {"trend": [0], "cv": sets, "path": path, "weights": data.weights, **options}
    here, there = pair(data, y=data.Y, **options)
    assert_same(here, there, data)
    assert_close(there.trend_coef_, here.trend_coef_, "law")
    assert_close(there.influence().leverage, here.influence().leverage, "law")


# -- what is refused -------------------------------------------------------------------------------


def thin(rows):
    return rows.rechunk((50, 3)).map_blocks(sp.csr_matrix, meta=sp.csr_matrix((0, 0)))


def with_a_gap(rows):
    return da.where(da.arange(M, chunks=CHUNKS[0])[:, None] == 60, np.nan, rows)


@pytest.mark.parametrize(
    ("options", "change", "error", "argument"),
    [
        ({"basis": None}, lambda rows: rows, InvalidInputError, "basis"),
        ({"kernel": "precomputed"}, lambda rows: rows @ rows.T, NotSupportedError, "kernel"),
        ({}, lambda rows: rows[:, 0], InvalidInputError, "X"),
        ({}, lambda rows: rows[:0], InvalidInputError, "X"),
        ({}, lambda rows: rows[:-1], InvalidInputError, "y"),
        ({}, with_a_gap, InvalidInputError, "X"),
        ({}, thin, InvalidInputError, "X"),
    ],
    ids=["no basis", "precomputed", "1d", "empty", "short", "nan", "sparse chunks"],
)
def test_refusals(data, options, change, error, argument):
    with pytest.raises(error) as caught:
        KernelRidgeCV(**{"basis": 5, **options}).fit(change(data.dX), data.y)
    assert caught.value.argument == argument


def test_dask_missing(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "dask.array", None)
    with pytest.raises(MissingDependencyError):
        KernelRidgeCV(basis=5).fit(data.dX, data.y)


# -- how often chunks are read ---------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"basis": 20}, {"kernel": "linear"}], ids=["basis", "linear"])
@pytest.mark.parametrize("cv", [None, KFold(3)], ids=str)
def test_a_chunk_is_read_a_few_times(data, options, cv):
    reads = Counter()

    def read(block, block_info=None):
        reads[block_info[0]["chunk-location"]] += 1
        return block

    rows = da.from_array(data.X, chunks=(10, 3)).map_blocks(read, meta=np.empty((0, 3)))
    KernelRidgeCV(**options, cv=cv, alphas=ALPHAS).fit(rows, data.y)
    assert max(reads.values()) <= 6


# -- clusters of processes -------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[1, 2])
def cluster(request):
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    settings = {
        "n_workers": request.param,
        "threads_per_worker": 1,
        "processes": True,
        "host": "127.0.0.1",
        "dashboard_address": "127.0.0.1:0",  # None means port 8787, which others may have taken
        "silence_logs": 50,
    }
    patient = {
        "distributed.worker.use-file-locking": False,
        "distributed.comm.timeouts.connect": "180s",  # a busy machine starts slowly
        "distributed.comm.timeouts.tcp": "180s",
    }
    with dask.config.set(patient):
        local = distributed.LocalCluster(**settings)
        try:
            with distributed.Client(local, set_as_default=False) as client:
                yield client
        finally:
            with suppress(TimeoutError):  # … and ends slowly
                local.close()


@pytest.mark.parametrize(
    ("split", "path"),
    [("leave-one-out", "spectral"), ("folds", "per_fold"), ("groups", "spectral")],
)
def test_cluster_gives_the_same_numbers(data, cluster, split, path):
    options = {"cv": SPLITS[split], "path": path, "basis": 20, "gamma": 0.3, "alphas": ALPHAS}
    arguments = {"sample_weight": data.weights, "groups": data.groups}
    here = KernelRidgeCV(**options, random_state=0).fit(data.X, data.y, **arguments)
    with cluster.as_current(), dask.config.set(scheduler="distributed"):
        there = KernelRidgeCV(**options, random_state=0).fit(data.dX, data.y, **arguments)
        assert_same(here, there, data)
        assert_close(there.predict(data.dX).compute(), here.predict(data.X), "law")


def test_a_killed_worker_changes_nothing(data, cluster, tmp_path):
    """A worker is killed in the pass over held-out rows; another one takes over."""
    client, calls = os.getpid(), tmp_path / "calls"
    victim, pipe = tmp_path / "victim", tmp_path / "pipe"
    calls.mkdir()
    os.mkfifo(pipe)

    def kernel(X, Z):
        if os.getpid() != client:
            (calls / uuid.uuid4().hex).touch()
            # The first pass takes five calls: the fourth chunk of the next one is never finished.
            if len(list(calls.iterdir())) >= 8 and not victim.exists():
                victim.write_text(str(os.getpid()))
                pipe.write_text(str(os.getpid()))
                threading.Event().wait(60)
        return np.exp(-0.3 * ((X[:, None] - Z[None]) ** 2).sum(axis=2))

    def kill():
        os.kill(int(pipe.read_text()), signal.SIGKILL)  # waits for the worker that writes it

    options = {"kernel": kernel, "basis": 20, "alphas": ALPHAS, "random_state": 0}
    here = KernelRidgeCV(**options).fit(data.X, data.y)
    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    with cluster.as_current(), dask.config.set(scheduler="distributed"):
        there = KernelRidgeCV(**options).fit(data.dX, data.y)
        killer.join()
        assert victim.exists(), "no worker was killed: the test tests nothing"
        assert int(victim.read_text()) not in cluster.run(os.getpid).values()
        assert relative_difference(there.held_out().values, here.held_out().values) < 1e-10
        assert there.alpha_ == here.alpha_
