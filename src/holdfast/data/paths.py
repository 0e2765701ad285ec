"""Names of files and folders from users: one check for all of them."""

from __future__ import annotations

import os
from typing import Any

from holdfast.exceptions import InputTypeError, InvalidInputError

__all__ = ["check_path"]


def check_path(name: str, path: Any) -> str:
    """Return the path as text, if it is text or a path and not empty; `name` is for errors."""
    try:
        text = os.fspath(path)
    except TypeError:
        text = None
    if not isinstance(text, str):
        raise InputTypeError(
            f"{name} must be the name of a file or folder, text or a pathlib.Path; got "
            f"{type(path).__name__}. Pass a name such as 'model.holdfast'.",
            argument=name,
        )
    if not text or "\0" in text:
        raise InvalidInputError(
            f"{name} must be the name of a file or folder; got {text!r}. Pass a name, '.' for the "
            "current folder, or None where that is allowed.",
            argument=name,
        )
    return text
