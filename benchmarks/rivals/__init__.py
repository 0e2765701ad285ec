"""One adapter for each library: which jobs it does, how, and where its numbers are."""

from benchmarks.rivals import (
    by_cvmatrix,
    by_hand,
    by_himalaya,
    by_rlscore,
    by_scikit_learn,
    by_theorem,
    ours,
)
from benchmarks.rivals.base import Done, Rival

__all__ = ["OURS", "RIVALS", "Done", "Rival"]

OURS = ours.RIVAL.name

#: In the order of the table's columns.
RIVALS = {
    module.RIVAL.name: module.RIVAL
    for module in (
        ours,
        by_scikit_learn,
        by_himalaya,
        by_rlscore,
        by_cvmatrix,
        by_theorem,
        by_hand,
    )
}
