"""Text made small enough to carry along in a page: gzip, then base 85.

Base 64 spends a third on top, base 85 a quarter; with Plotly's script that is the difference
between a page of more and one of less than two megabytes. `page.js` undoes it.
"""

from __future__ import annotations

import base64
import gzip

__all__ = ["pack"]


def pack(text: str) -> str:
    """Return text as characters that neither end a script element nor begin a comment in it."""
    packed = base64.b85encode(gzip.compress(text.encode("utf-8"), 9, mtime=0))
    return packed.decode("ascii").replace("<", ".")
