"""Random problems that cost digits, and how far every path stays from the exact answer.

``python -m torture --problems 1000 --seed 7`` (with ``tests`` on the path; ``make torture``) draws
problems from all families and prints the worst, with ``--ways`` those of the cluster, of reselected
basis rows and of tuning too; ``tests/exact/test_torture.py`` runs a few and the
worst cases that were ever found.
"""
