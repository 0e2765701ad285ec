"""Scores of held-out predictions, and the choice of the penalty by them.

`metrics` computes the common scores from sums, for a million experiments at once; `ranking` scores
the order of the rows within groups; `scorers` turns whatever a user passes as ``scoring`` into one
object; `scoring` scores all experiments for every penalty; `standard_errors` has every standard
error; `choice` picks the penalty and lays out ``cv_results_``. Nothing here knows where predictions
come from.
"""
