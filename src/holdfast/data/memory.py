"""How much memory a fit may take."""

from __future__ import annotations

import ctypes
import os
import struct
import time
from contextlib import suppress
from functools import cache, lru_cache

from holdfast.exceptions import InvalidInputError

#: Share of the available memory that is used unless the user says otherwise.
DEFAULT_SHARE = 0.5
_UNITS = {"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12}


#: Whatever a system says, a fit may take this many bytes.
LEAST = 2.0**26
_CGROUPS = "/sys/fs/cgroup/memory"
#: Files that tell how much there is, how the line begins that does, its unit in bytes, and the file
#: that tells how much of it is in use.
_TOLD = (
    ("/proc/meminfo", "MemAvailable:", 1024.0, None),
    (f"{_CGROUPS}.max", "", 1.0, f"{_CGROUPS}.current"),
    (f"{_CGROUPS}/memory.limit_in_bytes", "", 1.0, f"{_CGROUPS}/memory.usage_in_bytes"),
)


def available_bytes() -> float:
    """Return how much memory this process may still take, read at most once a second."""
    return _available(int(time.monotonic()))


@lru_cache(maxsize=1)
def _available(_second: int) -> float:
    """Return how much memory there is, according to the system."""
    found = []
    for path, name, unit, used in _told():
        total = _number(path, name)
        if total is not None:
            found.append(unit * total - (_number(used, "") or 0.0 if used else 0.0))
    if not found and hasattr(os, "sysconf"):
        found.append(float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES"))
    return max(min([*found, *_address_space(), *_windows()], default=4e9), LEAST)


@cache
def _told() -> list[tuple[str, str, float, str | None]]:
    """Return the files that tell something here: limits of a container do not come and go."""
    return [line for line in _TOLD if _number(line[0], line[1]) is not None]


def _windows() -> list[float]:
    """Return the free memory that Windows tells of; nothing on other systems."""
    if not hasattr(ctypes, "windll"):
        return []
    # MEMORYSTATUSEX: its own size, the load, then total and available bytes and five more.
    status = ctypes.create_string_buffer(struct.pack("II7Q", 64, *[0] * 8), 64)
    if not ctypes.windll.kernel32.GlobalMemoryStatusEx(status):
        return []
    return [float(struct.unpack("II7Q", status.raw)[3])]


def _number(path: str, name: str) -> float | None:
    """Return the number in the line of a file that begins so; None if there is none."""
    # No such file, or "max" instead of a number.
    with suppress(OSError, ValueError, IndexError), open(path, encoding="ascii") as lines:
        for line in lines:
            if line.startswith(name):
                return float(line.removeprefix(name).split()[0])
    return None


def _address_space() -> list[float]:
    """Return what a resource limit (`ulimit -v`) leaves, if there is one."""
    try:
        import resource
    except ImportError:  # not on this system
        return []
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return []
    used = _number("/proc/self/status", "VmSize:") or 0.0
    return [limit - 1024.0 * used]


def memory_bytes(limit: float | str | None) -> float:
    """Return a limit, bytes or text such as "4GB", in bytes; None: half of what is available."""
    if limit is None:
        return DEFAULT_SHARE * available_bytes()
    try:
        if isinstance(limit, bool):
            raise TypeError
        if isinstance(limit, str):
            text = limit.strip().lower()
            value = float(text[:-2]) * _UNITS[text[-2:]]
        else:
            value = float(limit)
    except (KeyError, TypeError, ValueError):
        value = 0.0
    if not 0 < value < float("inf"):
        raise InvalidInputError(
            f'memory_limit must be a positive number of bytes or text such as "4GB"; got '
            f"{limit!r}.",
            argument="memory_limit",
        )
    return value
