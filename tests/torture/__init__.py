"""Random problems that cost digits, and how far every path stays from the exact answer.

``python -m torture --problems 1000 --seed 7`` (with ``tests`` on the path; ``make torture``) draws
problems from all families, prints those past the ratio as they come, and a table of the worst; with
``--ways`` those of streamed rows, of the cluster and of reselected basis rows too.
``--jobs 2`` takes two processes, and ``--record file`` lets a run that was stopped go on.
``tests/exact/test_torture.py`` runs a few problems and the worst cases that were ever found.
"""
