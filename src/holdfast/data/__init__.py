"""What comes from users, before any algebra.

What NumPy would take silently (`values`), rows in their three forms (`rows`), row numbers
(`indices`, the one check), labels of groups and classes (`labels`), seeds (`seeds`), numbers from
users (`numbers`), frames in and out (`frames`), Dask collections (`dask`),
and how much memory may be taken (`memory`).
"""
