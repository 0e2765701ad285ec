"""Warnings that point at the user's own line."""

from __future__ import annotations

import inspect
import os
import warnings
from pathlib import Path

_PACKAGE = str(Path(__file__).parent) + os.sep


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the innermost line of the call stack that lies outside this package."""
    frame = inspect.currentframe()
    level = 0
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level + 1)
