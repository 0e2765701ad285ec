"""Models on rows that live in a Dask cluster."""
