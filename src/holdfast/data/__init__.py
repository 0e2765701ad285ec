"""What comes from users and what goes to disk, before any algebra.

What NumPy would take silently (`values`), rows in their three forms (`rows`), row numbers
(`indices`, the one check), labels of groups and classes (`labels`), names of files (`paths`), seeds
(`seeds`), numbers from users (`numbers`) and in texts (`texts`), frames in and out (`frames`), Dask
collections (`dask`), how much memory may be taken (`memory`), files that are written whole or not
at all (`atomic`), and such that hold arrays and may come from strangers (`archive`).
"""
