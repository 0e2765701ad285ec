"""One adaptor per rival; the table of all of them. Registering one here is testing it."""

from __future__ import annotations

from benchmarks.rivals import (
    botorch_loo,
    by_hand,
    himalaya_cv,
    ours,
    papers,
    ridge,
    rlscore_library,
    rlscore_published,
    scikit_learn,
)
from benchmarks.rivals.base import Rival

_MODULES = (
    by_hand,
    ours,
    papers,
    rlscore_library,
    rlscore_published,
    scikit_learn,
    himalaya_cv,
    botorch_loo,
    ridge,
)

RIVALS: dict[str, Rival] = {rival.name: rival for module in _MODULES for rival in module.RIVALS}
YARDSTICK = "plain-fit"
