"""The smoother of features on rows that live in a Dask cluster.

X stays where it is (a `dask.array` or a `dask.dataframe`). Targets, weights and groups are small
and stay on the client; each task gets those of its rows. `rows` presents such rows as rows with a
kernel, `features` makes features of them, `work` holds the pure functions that workers run, and
`smoother` sends the work to them.
"""

from holdfast.cluster.features import cluster_features
from holdfast.cluster.rows import DaskRows
from holdfast.cluster.smoother import ClusterSmoother

__all__ = ["ClusterSmoother", "DaskRows", "cluster_features"]
