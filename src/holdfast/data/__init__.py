"""What arrives from users and what leaves for disks, before any algebra: the ground floor.

Rows in their three forms (`rows`), row numbers (`indices`, the one check), numbers from users
(`numbers`), frames in and out (`frames`), Dask collections (`dask`), how much memory may be taken
(`memory`), and files that are written whole or not at all (`atomic`).
"""
