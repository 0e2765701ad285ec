"""What comes from users and what goes to disk, before any algebra.

Rows in their three forms (`rows`), row numbers (`indices`, the one check), numbers from users
(`numbers`), frames in and out (`frames`), Dask collections (`dask`), how much memory may be taken
(`memory`), and files that are written whole or not at all (`atomic`).
"""
