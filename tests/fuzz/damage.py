"""Ways to spoil a file."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

_NUMBERS = (0, 1, 2, 127, 128, 255, 2**15, 2**31 - 1, 2**31, 2**32 - 1)


def spoil(data: bytes, rng: np.random.Generator) -> bytes:
    """Return the bytes with a few changes: bits, bytes, lengths, pieces cut out, doubled, moved."""
    spoilt = bytearray(data)
    for _ in range(rng.integers(1, 5)):
        if not spoilt:
            break
        at, how = int(rng.integers(len(spoilt))), rng.integers(8)
        size = int(rng.integers(1, 33))
        if how == 0:
            spoilt[at] ^= 1 << int(rng.integers(8))
        elif how == 1:
            spoilt[at] = int(rng.integers(256))
        elif how == 2:
            spoilt[at : at + 4] = rng.bytes(4)
        elif how == 3:
            spoilt[at : at + 4] = int(rng.choice(_NUMBERS)).to_bytes(4, "little")
        elif how == 4:
            spoilt[at : at + 8] = int(rng.choice(_NUMBERS)).to_bytes(8, "little")
        elif how == 5:
            del spoilt[at : at + size]
        elif how == 6:
            spoilt[at:at] = spoilt[at : at + size]
        else:
            del spoilt[at:]
    return bytes(spoilt)


_LEAVES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 3, 10**6, 2**63, 10**30, 0.5, -2.5, 1e308),
    *("", "a", "remove", "$array", [], {}, [[]]),
    {"$tuple": []},
    {"$number": "nan"},
    {"$number": "inf"},
    {"$slice": [0, 1, 2]},
    {"$complex": ["1", "2"]},
    {"$objects": [1, 2], "shape": [2]},
    {"$objects": [], "shape": [0, 2**62]},
    {"$pairs": [[1, 2]]},
    {"$object": "holdfast.kernels.dot:Linear", "fields": {}},
    {"$object": "holdfast.kernels.stationary:RBF", "fields": {"gamma": 1e300}},
)


def _places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(document, dict):
        items = list(document.items())
    elif isinstance(document, list):
        items = list(enumerate(document))
    else:
        items = []
    for key, value in items:
        found += _places(value, (*path, key))
    return found


def forge_document(content: dict[str, Any], names: list[str], rng: np.random.Generator) -> Any:
    """Return the document of a file with some values replaced, left out, or exchanged."""
    content = copy.deepcopy(content)
    for _ in range(rng.integers(0, 4)):
        places = _places(content)
        if not places:
            break
        *way, key = places[rng.integers(len(places))]
        parent = content
        for step in way:
            parent = parent[step]
        how = rng.integers(4)
        if how == 0:
            del parent[key]
        elif how == 1:
            parent[key] = {"$array": names[rng.integers(len(names))]}
        elif how == 2:
            other: Any = content
            for step in places[rng.integers(len(places))]:
                other = other[step]
            parent[key] = copy.deepcopy(other)
        else:
            parent[key] = copy.deepcopy(_LEAVES[rng.integers(len(_LEAVES))])
    return content


def forge_array(array: Any, rng: np.random.Generator) -> Any:
    """Return an array that a forger might put in the place of another."""
    how = rng.integers(9)
    if how == 0:
        return array[:-1] if array.ndim else array
    if how == 1:
        return np.concatenate([array, array]) if array.ndim else array
    if how == 2:
        return array.reshape(-1)
    if how == 3:
        kind = rng.choice(
            ["U3", "U9"] if array.dtype.kind == "U" else ["f4", "i2", "U3", "c16", "?"]
        )
        with np.errstate(all="ignore"):
            return array.astype(kind)
    if how == 4:
        return array[..., None]
    if how == 5:
        return array.reshape(-1)[:0]
    changed = array.copy()
    if changed.size and changed.dtype.kind in "iuf":
        value = rng.choice([0, -1, 1, 5, 100, 2**31 - 1])
        if changed.dtype.kind == "f":
            value = rng.choice([0.0, -1.0, np.nan, np.inf, 1e308, 1e-320])
        changed.flat[rng.integers(changed.size)] = value
    return changed
