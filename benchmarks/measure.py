"""Seconds, peak memory, and the facts about machine and versions that a record needs."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

PACKAGES = ("holdfast", "numpy", "scipy", "scikit-learn", "himalaya", "cvmatrix")


def timed(work: Callable[[], Any]) -> tuple[Any, float, float | None]:
    """Call `work` once; return its result, wall seconds, and peak bytes above what was held."""
    before = _reset_peak()
    start = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - start
    peak = _status("VmHWM")
    return result, seconds, None if before is None or peak is None else max(0.0, peak - before)


def _status(field: str) -> float | None:
    """Return a number of bytes from the system's account of this process, where there is one."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return 1024.0 * int(line.split()[1])
    return None


def _reset_peak() -> float | None:
    """Start the system's record of peak memory again; return what is held now, in bytes.

    Free pages that the C library hoards go back to the system first, so that a later call pays
    for its own.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    return _status("VmRSS")


def versions() -> dict[str, str]:
    """Return the versions of Python and of every package that takes part."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def machine() -> dict[str, Any]:
    """Return processor, cores, system, BLAS, and how busy it all is."""
    libraries = [info for info in threadpool_info() if info["user_api"] == "blas"]
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "blas": sorted({f"{info['internal_api']} {info['version']}" for info in libraries}),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown processor"
