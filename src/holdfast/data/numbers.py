"""Numbers and words from users: one check for each kind, and one sentence when it fails."""

from __future__ import annotations

from numbers import Real

import numpy as np

from holdfast.exceptions import InvalidInputError

__all__ = ["check_choice", "check_level", "check_positive", "is_number", "whole_number"]


def is_number(value: object) -> bool:
    """Return whether ``value`` is a real number; True and False are not."""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def whole_number(name: str, value: object, least: int = 1) -> int:
    """Return ``value`` as an int, or raise unless it is a whole number of at least ``least``."""
    if isinstance(value, int | np.integer) and is_number(value) and value >= least:
        return int(value)
    raise InvalidInputError(
        f"{name} must be a whole number, at least {least}; got {value!r}.", argument=name
    )


def check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raise unless ``value`` is one of the allowed words."""
    if value not in allowed:
        words = ", ".join(repr(word) for word in allowed)
        raise InvalidInputError(f"{name} must be one of {words}; got {value!r}.", argument=name)


def check_positive(name: str, value: object, *, zero: bool = False) -> float:
    """Return ``value`` as a float, or raise unless it is a finite number above zero (or zero)."""
    if is_number(value):
        number = float(value)  # type: ignore[arg-type]  # is_number says so
        if np.isfinite(number) and (number > 0 or (zero and number == 0)):
            return number
    bound = "zero or positive" if zero else "positive"
    raise InvalidInputError(
        f"{name} must be a finite {bound} number, got {value!r}.", argument=name
    )


def check_level(level: object) -> float:
    """Return a confidence level as a float, or raise unless it lies between 0 and 1."""
    if is_number(level) and 0.0 < level < 1.0:  # type: ignore[operator]  # a number
        return float(level)  # type: ignore[arg-type]  # is_number says so
    raise InvalidInputError(
        f"level must lie between 0 and 1, such as 0.9; got {level!r}.", argument="level"
    )
