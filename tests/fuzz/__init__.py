"""Damaged and forged files by the thousand, read where a crash is only a number.

`seeds` makes whole files of each kind, `damage` spoils them, `reading` reads them the way a user
would, and ``python -m fuzz KIND FIRST COUNT`` does so for many seeds in a process of its own, which
`files/test_fuzz.py` starts, and whose end by a signal it counts as a failure.
"""
