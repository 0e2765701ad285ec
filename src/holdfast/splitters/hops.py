"""Hold out all nodes near a node of a graph, and test that node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from holdfast.data.numbers import whole_number
from holdfast.exceptions import InvalidInputError
from holdfast.experiments.ragged import Ragged
from holdfast.experiments.splitter import plain
from holdfast.splitters.around import AroundRows, blocks, gathered


class LeaveHopsOut(AroundRows):
    """Hold out all nodes within some hops of a node and test that node, for every node.

    For rows that are nodes of a graph: people who know each other, papers that cite each other,
    regions that share a border.

    Parameters
    ----------
    graph : array or sparse matrix of shape (m, m), or array-like of int, shape (edges, 2)
        What is connected: an adjacency matrix, of which every entry that is not zero is an edge,
        or a list of pairs of row numbers. An edge counts in both directions.
    hops : int
        Nodes at most this many edges away are held out. Zero is leave-one-out.

    Examples
    --------
    >>> from holdfast.splitters import LeaveHopsOut
    >>> chain = [(0, 1), (1, 2), (2, 3)]
    >>> for experiment in LeaveHopsOut(chain, hops=1).experiments(4):
    ...     print(experiment)
    HoldOut(held_out=[0, 1], test=[0])
    HoldOut(held_out=[0, 1, 2], test=[1])
    HoldOut(held_out=[1, 2, 3], test=[2])
    HoldOut(held_out=[2, 3], test=[3])
    """

    def __init__(self, graph: Any, hops: int) -> None:
        self.graph = graph if sp.issparse(graph) else plain(graph)
        self.hops = hops

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of nodes: of an adjacency matrix, otherwise of X, or of y."""
        return int(self.graph.shape[0]) if self._is_matrix else super().get_n_splits(X, y)

    @property
    def _is_matrix(self) -> bool:
        """Whether the graph is an adjacency matrix; two columns are pairs of row numbers."""
        shape = np.shape(self.graph) if isinstance(self.graph, np.ndarray) else ()
        return sp.issparse(self.graph) or (len(shape) == 2 and shape[0] == shape[1] != 2)

    def _held_out(self, n_rows: int) -> Ragged:
        return gathered(self._near(n_rows), n_rows, f"hops={self.hops}")

    def _near(self, n_rows: int) -> Iterator[sp.csr_array]:
        hops = whole_number("hops", self.hops, 0)
        a, b = (self._entries if self._is_matrix else self._pairs)(n_rows)
        rows = np.arange(n_rows)
        i, j = np.concatenate([a, b, rows]), np.concatenate([b, a, rows])
        # One step along an edge, either way, or none. Booleans add to booleans: an edge that is
        # named twice is an edge.
        step = sp.csr_array((np.ones(i.size, dtype=bool), (i, j)), shape=(n_rows, n_rows))
        for _, reached in blocks(n_rows):
            for _ in range(hops):
                before, reached = reached.nnz, reached @ step
                if reached.nnz == before:
                    break  # whole components are reached
            yield reached

    def _entries(self, n_rows: int) -> tuple[Any, Any]:
        """Return the two ends of each edge of an adjacency matrix."""
        if self.graph.shape != (n_rows, n_rows):
            raise InvalidInputError(
                f"graph must have one row and one column for each of the {n_rows} rows; got "
                f"shape {self.graph.shape}. Give rows without edges an empty row and column.",
                argument="graph",
            )
        numbers = self.graph.dtype.kind in "biuf"
        if not numbers or np.isnan(sp.coo_array(self.graph).data).any():
            raise InvalidInputError(
                "graph must hold numbers, 0 where two rows are not connected; got entries of "
                f"dtype {self.graph.dtype} that are not. Put 0 in their place.",
                argument="graph",
            )
        entries = sp.coo_array(self.graph)
        edge = entries.data != 0
        return entries.row[edge], entries.col[edge]

    def _pairs(self, n_rows: int) -> tuple[Any, Any]:
        """Return the two ends of each edge of a list of pairs."""
        try:
            edges = np.asarray(self.graph)
        except ValueError:  # ragged
            edges = np.empty(0, dtype=object)
        pairs = edges.ndim == 2 and edges.shape[1] == 2
        if not pairs or (edges.size and edges.dtype.kind not in "iu"):
            raise InvalidInputError(
                "graph must be an adjacency matrix, dense or sparse, or pairs of row numbers of "
                f"shape (edges, 2); got {type(self.graph).__name__} of shape {edges.shape} and "
                f"dtype {edges.dtype}. Name each edge by the numbers of its two rows.",
                argument="graph",
            )
        wrong = edges[((edges < 0) | (edges >= n_rows)).any(axis=1)]
        if wrong.size:
            raise InvalidInputError(
                f"graph must name rows from 0 to {n_rows - 1}; got the edge "
                f"{tuple(wrong[0].tolist())}. Count rows from 0, in the order of X.",
                argument="graph",
            )
        first, second = edges.astype(np.int64).T
        return first, second
