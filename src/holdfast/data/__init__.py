"""What comes from users, before any algebra.

Values, numbers, labels and seeds, each checked once (`values`), rows in their three forms (`rows`)
and their numbers (`indices`), frames in and out (`frames`), Dask collections (`dask`), and how much
memory may be taken (`memory`).
"""
