"""Splitters that hold out what is near the test row: in space, in time, in a graph.

Rows near a test row often have a similar target, and a random split then answers the wrong
question. These splitters hold out the neighbourhood as well and test its centre, or whole blocks.

| splitter | holds out | tests |
|---|---|---|
| `LeaveNeighbourhoodOut` | all rows within a radius of a row, in any metric | that row |
| `HBlock` | the h rows before and after a row | that row |
| `LeaveHopsOut` | all nodes within some hops of a node | that node |
| `LeaveCorrelatedOut` | the rows most similar to a row by a kernel | that row |
| `TimeSteps` | everything from a moment on | what comes next |
| `PurgedKFold` | a block of time, some rows before and after it | the block |
| `SpatialBlocks` | a cell of a grid, or several | the cell |

They work wherever scikit-learn takes ``cv``. `holdfast.KernelRidgeCV` asks them for their
experiments directly, so that no list of training rows is ever written. Neighbours are found by
trees and sparse products, never by a matrix of all distances.
"""

from holdfast.experiments.splitter import Splitter
from holdfast.splitters.blocks import SpatialBlocks
from holdfast.splitters.correlated import LeaveCorrelatedOut
from holdfast.splitters.hops import LeaveHopsOut
from holdfast.splitters.neighbourhood import LeaveNeighbourhoodOut
from holdfast.splitters.time_order import HBlock, PurgedKFold, TimeSteps

__all__ = [
    "HBlock",
    "LeaveCorrelatedOut",
    "LeaveHopsOut",
    "LeaveNeighbourhoodOut",
    "PurgedKFold",
    "SpatialBlocks",
    "Splitter",
    "TimeSteps",
]
