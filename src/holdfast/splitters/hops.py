"""Hold out all nodes near a node of a graph, and test that node."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from holdfast.data.numbers import whole_number
from holdfast.exceptions import HoldOutError, InvalidInputError
from holdfast.experiments.experiment import Experiments
from holdfast.experiments.ragged import Ragged
from holdfast.experiments.splitter import Splitter, count_rows, plain

#: Nodes whose neighbourhoods grow together.
BLOCK_ROWS = 1024


class LeaveHopsOut(Splitter):
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
        """Return the number of nodes.

        Parameters
        ----------
        X : array-like of shape (m, ...), optional
            The rows; an adjacency matrix has their number.
        y : array-like of shape (m,), optional
            Counted if X is None.
        groups : ignored
        """
        return int(self.graph.shape[0]) if self._is_matrix else count_rows(X, y)

    @property
    def _is_matrix(self) -> bool:
        """Whether the graph is an adjacency matrix; two columns are pairs of row numbers."""
        shape = np.shape(self.graph) if isinstance(self.graph, np.ndarray) else ()
        return sp.issparse(self.graph) or (len(shape) == 2 and shape[0] == shape[1] != 2)

    def _experiments(self, n_rows: int) -> Experiments:
        hops = whole_number("hops", self.hops, 0)
        step = self._steps(n_rows)
        near, sizes = [], []
        for start in range(0, n_rows, BLOCK_ROWS):
            stop = min(n_rows, start + BLOCK_ROWS)
            reached = sp.eye_array(n_rows, format="csr", dtype=bool)[start:stop]
            for _ in range(hops):
                wider = reached @ step
                if wider.nnz == reached.nnz:
                    break  # whole components are reached
                reached = wider
            reached.sort_indices()
            size = np.diff(reached.indptr)
            if (size == n_rows).any():
                raise HoldOutError(
                    f"hops={hops} reaches every one of the {n_rows} nodes from node "
                    f"{start + int(np.argmax(size == n_rows))}: nothing is left to train on. "
                    "Choose fewer hops."
                )
            near.append(reached.indices.astype(np.int64))
            sizes.append(size)
        ptr = np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64)
        centres = Ragged(np.arange(n_rows), np.arange(n_rows + 1))
        return Experiments(Ragged(np.concatenate(near), ptr), centres)

    def _steps(self, n_rows: int) -> Any:
        """Return the matrix of at most one step: true for an edge, either way, and for staying."""
        if self._is_matrix:
            if self.graph.shape != (n_rows, n_rows):
                raise InvalidInputError(
                    f"graph must have one row and one column for each of the {n_rows} rows; got "
                    f"shape {self.graph.shape}. Give rows without edges an empty row and column."
                )
            values = sp.coo_array(self.graph).data if sp.issparse(self.graph) else self.graph
            if self.graph.dtype.kind not in "biuf" or np.isnan(values).any():
                raise InvalidInputError(
                    "graph must hold numbers, 0 where two rows are not connected; got entries of "
                    f"dtype {self.graph.dtype} that are none. Put 0 in their place."
                )
            entries = sp.coo_array(self.graph)
            edge = entries.data != 0
            a, b = entries.row[edge], entries.col[edge]
        else:
            a, b = self._edges(n_rows).T
        rows = np.arange(n_rows)
        i, j = np.concatenate([a, b, rows]), np.concatenate([b, a, rows])
        # Booleans add to booleans: an edge that is named twice is an edge.
        return sp.csr_array((np.ones(i.size, dtype=bool), (i, j)), shape=(n_rows, n_rows))

    def _edges(self, n_rows: int) -> Any:
        try:
            edges = np.asarray(self.graph)
        except ValueError:  # ragged
            edges = np.empty(0, dtype=object)
        if edges.ndim == 2 and edges.shape[1] == 2 and not edges.size:
            return np.empty((0, 2), dtype=np.int64)
        if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
            raise InvalidInputError(
                "graph must be an adjacency matrix, dense or sparse, or pairs of row numbers of "
                f"shape (edges, 2); got {type(self.graph).__name__} of shape {edges.shape} and "
                f"dtype {edges.dtype}. Name each edge by the numbers of its two rows."
            )
        if edges.min() < 0 or edges.max() >= n_rows:
            wrong = edges[((edges < 0) | (edges >= n_rows)).any(axis=1)][0]
            raise InvalidInputError(
                f"graph must name rows from 0 to {n_rows - 1}; got the edge {tuple(wrong.tolist())}"
                ". Count rows from 0, in the order of X."
            )
        return edges.astype(np.int64)
