"""Numbers as people read them."""

from __future__ import annotations

import math

__all__ = ["number"]


def number(value: float, digits: int = 3) -> str:
    """Return a number with about so many digits, without an exponent where it is short."""
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    if not -4 <= exponent < 7:
        mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
        return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(power)}"
    return f"{value:,.{max(0, digits - 1 - exponent)}f}"
