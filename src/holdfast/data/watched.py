"""Dask work that ends: with its result, or with an error that says what happened to the cluster.

A client whose scheduler is gone, or whose workers all are, waits forever, in case they come back.
Here it waits for a limited time, ``dask.config.set({"holdfast.timeout": "60s"})``, and then says
so. The clock runs only while no worker can work; a worker that is lost and replaced costs time and
nothing else.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from holdfast.exceptions import ClusterError

__all__ = ["DEFAULT_TIMEOUT", "compute"]

#: How long a cluster may be lost or idle before it is given up.
DEFAULT_TIMEOUT = "60s"
#: Seconds between two looks at it.
_STEP = 1.0


def compute(*values: Any) -> tuple[Any, ...]:
    """Return Dask collections and delayed values as what they hold.

    Raises
    ------
    ClusterError
        When the cluster is lost, or had no workers for longer than the time limit.
    """
    from dask.base import compute as at_once

    client = _client()
    try:
        if client is None:
            return tuple(at_once(*values))  # type: ignore[no-untyped-call]  # dask is partly typed
        return _watched(client, values)
    except ValueError as error:
        if "Missing dependency" not in str(error):
            raise
        raise ClusterError(
            "the rows were kept by a Dask cluster that is gone, or whose client is closed. Make "
            "the Dask array again, from the data themselves, and fit again."
        ) from error


def _client() -> Any:
    """Return the client that Dask would compute with, or None."""
    if "distributed" not in sys.modules:
        return None
    from dask.base import get_scheduler
    from distributed import Client

    found = getattr(get_scheduler(), "__self__", None)  # type: ignore[no-untyped-call]  # dask is partly typed
    return found if isinstance(found, Client) else None


def _watched(client: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
    from concurrent.futures import CancelledError

    from dask.base import unpack_collections
    from distributed import KilledWorker, wait
    from distributed.comm.core import CommClosedError

    limit, since = _limit(), None
    try:
        collections, repack = unpack_collections(*values)  # type: ignore[no-untyped-call]  # dask is partly typed
        futures = client.compute(collections)
        while True:
            try:
                wait(futures, timeout=_STEP)  # type: ignore[no-untyped-call]  # partly typed
                return tuple(repack(client.gather(futures)))
            except TimeoutError:
                trouble = _trouble(client)
            now = time.monotonic()
            since = None if trouble is None else since or now
            if since is not None and now - since >= limit:
                _give_up(client, futures)
                raise ClusterError(_sentence(f"{trouble} for {limit:g} s"))
    except ClusterError:
        raise
    except Exception as error:
        # What a closed client raises differs from one version of distributed to the next.
        lost = isinstance(error, (CancelledError, CommClosedError, KilledWorker))
        if not lost and client.status == "running":
            raise
        told = " ".join(str(error).split())[:200] or type(error).__name__
        raise ClusterError(_sentence(f"it gave up the work ({told})")) from error


def _limit() -> float:
    from dask import config
    from dask.utils import parse_timedelta

    return float(parse_timedelta(config.get("holdfast.timeout", DEFAULT_TIMEOUT)))


def _trouble(client: Any) -> str | None:
    """Return in words why no worker can work now, or None."""
    if client.status != "running":
        return f"its scheduler could not be reached (the client is {client.status})"
    try:
        known = client.sync(client.scheduler.identity, callback_timeout=2 * _STEP)["workers"]
    except (OSError, TimeoutError, AttributeError):  # CommClosedError is an OSError
        return "its scheduler did not answer"
    if not known:
        return "it had no workers"
    if not any(worker.get("status", "running") == "running" for worker in known.values()):
        return f"none of its {len(known)} workers was running (perhaps paused for lack of memory)"
    return None


def _give_up(client: Any, futures: list[Any]) -> None:
    if client.status == "running":
        client.cancel(futures, force=True)


def _sentence(what: str) -> str:
    return (
        f"the Dask cluster cannot do the work: {what}. Start workers with enough memory, or a new "
        'cluster and Client, and fit again; dask.config.set({"holdfast.timeout": "10min"}) waits '
        "longer."
    )
