"""Jobs that people have, done by holdfast and by what they would use instead.

`problems` has the jobs and their data, `rivals` one adapter for each library, `worker` runs one
library in a process of its own, `runner` lets all of them take turns and keeps records, `naive`
retrains models to compare with, and `report` writes the table. ``python -m benchmarks --help``.
"""
