"""Rows that live in a Dask cluster: the source of a smoother of features.

X stays where it is (a `dask.array` or a `dask.dataframe`). Targets, weights and groups are small
and stay on the client; each task gets those of its rows. `rows` presents such rows as rows with a
kernel, `features` makes features of them, `work` holds the pure functions that workers run, and
`source` sends the work to them.
"""

from holdfast.cluster.features import cluster_features
from holdfast.cluster.rows import DaskRows
from holdfast.cluster.source import DaskSource

__all__ = ["DaskRows", "DaskSource", "cluster_features"]
