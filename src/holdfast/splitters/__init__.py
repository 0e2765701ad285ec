"""Splitters that hold out what is near the test row, in space or in time.

Rows near a test row often have a similar target, and a random split then answers the wrong
question. These splitters hold out the neighbourhood as well and test its centre, or whole blocks.

| splitter | holds out | tests |
|---|---|---|
| `LeaveNeighbourhoodOut` | all rows within a radius of a row, in any metric | that row |
| `HBlock` | the h rows before and after a row | that row |
| `TimeSteps` | everything from a moment on | what comes next |
| `PurgedKFold` | a block of time, some rows before and after it | the block |

They work wherever scikit-learn takes ``cv``. `holdfast.KernelRidgeCV` asks them for their
experiments directly, so that no list of training rows is ever written. Neighbours are found by
trees, never by a matrix of all distances.
"""

from holdfast.splitters.base import Splitter
from holdfast.splitters.neighbourhood import LeaveNeighbourhoodOut
from holdfast.splitters.time_order import HBlock, PurgedKFold, TimeSteps

__all__ = [
    "HBlock",
    "LeaveNeighbourhoodOut",
    "PurgedKFold",
    "Splitter",
    "TimeSteps",
]
