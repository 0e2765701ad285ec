"""How much memory a fit may take."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.data.texts import as_float
from holdfast.exceptions import InvalidInputError

#: Share of the available memory that is used unless the user says otherwise.
DEFAULT_SHARE = 0.5
_UNITS = {"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12}


def available_bytes() -> float:
    """Return how much memory this process may still take, according to the system."""
    found = []
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                found.append(1024.0 * int(line.split()[1]))
        for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
            text = Path(limit).read_text().strip() if Path(limit).exists() else "max"
            if text != "max":
                found.append(float(text))
    except (OSError, ValueError, IndexError):
        pass
    if not found and hasattr(os, "sysconf"):
        found.append(float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES"))
    return min(found, default=4e9)


def memory_bytes(limit: float | str | None) -> float:
    """Return a memory limit in bytes.

    Parameters
    ----------
    limit : float, str or None
        Bytes, or text such as "4GB"; None: half of what is available.
    """
    if limit is None:
        return DEFAULT_SHARE * available_bytes()
    try:
        if isinstance(limit, bool):
            raise TypeError
        if isinstance(limit, str):
            text = limit.strip().lower()
            value = as_float(text[:-2]) * _UNITS[text[-2:]]
        else:
            value = float(limit)
    except (KeyError, TypeError, ValueError):
        value = 0.0
    if not 0 < value < float("inf"):
        raise InvalidInputError(
            f'memory_limit must be a positive number of bytes or text such as "4GB"; got {limit!r}.'
        )
    return value
