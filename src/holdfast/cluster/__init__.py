"""The smoother of features on rows that live in a Dask cluster.

X stays where it is (`dask.array`, or a `dask.dataframe`); targets, weights and groups are small and
live on the client, each task gets those of its rows. `rows` shows such rows as rows with a kernel,
`work` holds the pure functions that workers run, `smoother` the smoother that sends them there.
"""

from holdfast.cluster.rows import DaskRows
from holdfast.cluster.smoother import ClusterSmoother

__all__ = ["ClusterSmoother", "DaskRows"]
