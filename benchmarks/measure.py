"""Seconds, peak memory, and the facts about machine and versions that a record needs."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from holdfast import __version__

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
#: Seconds between pieces of work: threads of BLAS wait for more by spinning, beside what follows.
REST = 0.15
PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "himalaya",
    "botorch",
    "torch",
    "cvmatrix",
    "dask",
)


@dataclass(frozen=True, eq=False)
class Timing:
    """What one call returned, and what it took.

    Attributes
    ----------
    result : object
    seconds, cpu_seconds : float
        Wall time, and time of all threads together.
    peak_bytes : float
        Peak of resident memory above what was held before; nan where the system does not tell.
    """

    result: Any
    seconds: float
    cpu_seconds: float
    peak_bytes: float


def timed(work: Callable[[], Any]) -> Timing:
    """Call `work` once and measure it."""
    before = reset_peak()
    cpu, start = time.process_time(), time.perf_counter()
    result = work()
    seconds, used = time.perf_counter() - start, time.process_time() - cpu
    return Timing(result, seconds, used, max(0.0, peak_bytes() - before))


def _status(field: str) -> float:
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return 1024.0 * int(line.split()[1])
    except OSError:
        pass
    return float("nan")


def reset_peak() -> float:
    """Start the system's record of peak memory again; return what is held now, in bytes.

    Free pages that the C library hoards go back to the system first, so that a later call pays
    for its own.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return float("nan")
    return _status("VmRSS")


def peak_bytes() -> float:
    """Return the peak of resident memory since `reset_peak`, in bytes."""
    return _status("VmHWM")


def dgemm_rate(n: int = 1000, rows: int = 4000, repeats: int = 5) -> float:
    """Return the operations per second of a bare matrix product, the best of a few."""
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((rows, n)), rng.standard_normal((n, n))
    out = np.empty((rows, n))
    seconds = min(timed(lambda: np.matmul(A, B, out=out)).seconds for _ in range(repeats))
    return 2.0 * rows * n**2 / seconds


def environment(threads: int | None = None) -> dict[str, str]:
    """Return the environment of a child process that finds this package from any folder."""
    root = os.fspath(Path(__file__).parent.parent)
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    if threads is not None:
        found.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    return found


def versions() -> dict[str, str]:
    """Return the versions of Python and of every package that takes part."""
    found = {"python": platform.python_version(), "holdfast": __version__}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """Return processor, cores, memory, system, BLAS and its threads, and how busy it all is."""
    libraries = [info for info in threadpool_info() if info["user_api"] == "blas"]
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_gb": round(_memory() / 1e9, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "blas": sorted({f"{info['internal_api']} {info['version']}" for info in libraries}),
        "threads": max((info["num_threads"] for info in libraries), default=1),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _memory() -> float:
    if not hasattr(os, "sysconf"):
        return float("nan")
    return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
