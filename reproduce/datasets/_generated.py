"""Generated data sets by name, with their fixed seeds."""

from __future__ import annotations

from collections.abc import Callable

from reproduce.datasets._dataset import Dataset
from reproduce.datasets._parses import make_parses
from reproduce.datasets._sinusoid import make_sinusoid


def _parse_stand_in() -> Dataset:
    """Return 501 training sentences (2,354 parses) and 600 test sentences, as in paper 000 §6.4."""
    return make_parses(
        "parse_stand_in", n_train=501, n_test=600, train_size=5, test_size=20, n_train_rows=2354
    )


def _parse_stand_in_100() -> Dataset:
    """Return 100 + 100 sentences of at most twenty parses, as in paper 004 §4."""
    return make_parses("parse_stand_in_100", n_train=100, n_test=100, train_size=20, test_size=20)


GENERATED: dict[str, Callable[[], Dataset]] = {
    "sinusoid": make_sinusoid,
    "parse_stand_in": _parse_stand_in,
    "parse_stand_in_100": _parse_stand_in_100,
}
