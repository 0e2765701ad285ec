"""Scores of held-out predictions, their errors, and the choice of the penalty by them.

`metrics` has the common scores, as functions of a mean over rows; `probabilities` turns decisions
into class probabilities; `ranking` scores rows within groups; `scorers` makes one object of
whatever a user passes as ``scoring``; `scoring` scores all experiments for every penalty.
`row_means`, `units` (what counts as one observation), `densities` and `standard_errors` are what
intervals, comparisons, permutations and the rule of one standard error have in common. `penalties`
has the grid and `choice` picks from it. Nothing here knows where predictions come from.
"""
