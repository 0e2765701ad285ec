"""A cluster that is lost, closed, empty or paused ends in a sentence, within the time limit."""

from __future__ import annotations

import time

import numpy as np
import pytest

from holdfast import KernelRidgeCV
from holdfast.exceptions import ClusterError

dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed", reason="distributed is not installed")

pytestmark = pytest.mark.filterwarnings("ignore:Running on a single-machine scheduler")

LIMIT, ALPHAS = 2.0, [1e-6, 1e-3, 0.1, 100.0]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.sin(X[:, 0]) + 0.3 * RNG.normal(size=60)


@pytest.fixture
def local():
    """A cluster of one worker inside this process, with a short time limit."""
    quiet = {
        "holdfast.timeout": f"{LIMIT}s",
        "distributed.comm.timeouts.connect": "2s",
        "distributed.comm.retry.count": 0,
    }
    with (
        dask.config.set(quiet),
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=False,
            memory_limit=0,  # nobody wakes a paused worker
            dashboard_address=None,
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        client.as_current(),
        dask.config.set(scheduler="distributed"),
    ):
        yield cluster, client


def rows(client=None):
    made = da.from_array(X, chunks=(20, 3))
    return made if client is None else client.persist(made)


def fit(made):
    return KernelRidgeCV(gamma=0.3, alphas=ALPHAS, basis=10, random_state=0).fit(made, Y)


def pause(dask_worker):
    dask_worker.status = distributed.core.Status.paused


def refused(made):
    start = time.monotonic()
    with pytest.raises(ClusterError) as caught:
        fit(made)
    assert time.monotonic() - start < LIMIT + 60.0  # a busy machine; without a limit: for ever
    assert "\n" not in str(caught.value)


def test_a_cluster_that_works(local):
    _, client = local
    np.testing.assert_allclose(fit(rows(client)).predict(X), fit(X).predict(X), rtol=1e-9)


def test_all_workers_are_gone(local):
    _, client = local
    client.retire_workers(list(client.scheduler_info()["workers"]))
    refused(rows())


def test_all_workers_are_paused(local):
    _, client = local
    client.run(pause)
    refused(rows())


def test_the_scheduler_is_lost(local):
    cluster, _ = local
    cluster.close()
    refused(rows())


def test_a_fault_of_the_work_itself_is_told_as_it_is(local):
    """A user's own kernel fails on a worker: that has nothing to do with the cluster."""

    def kernel(A, B):
        raise ZeroDivisionError("in the kernel")

    with pytest.raises(ZeroDivisionError):
        KernelRidgeCV(kernel, alphas=ALPHAS, basis=10, random_state=0).fit(rows(), Y)


def test_rows_of_a_client_that_is_closed(local):
    _, client = local
    kept = rows(client)
    distributed.wait(kept)
    client.close()
    with dask.config.set(scheduler="synchronous"):
        refused(kept)
