"""Scores of held-out predictions, their errors, and the choice of the penalty by them.

`metric` says what a score is: row values, what their weighted mean becomes, and how it is printed.
`scorers` makes a metric of whatever a user passes as ``scoring``, and calls scikit-learn's scorers;
`ranking` has scorers of rows within groups, `probabilities` turns decisions into probabilities.
`scoring` scores all experiments for every penalty. `errors` has the standard errors of scores, over
`units` that count as one observation: intervals, comparisons and the rule of one standard error
have them in common. `choice` has the grid of penalties and picks from it. Nothing here knows where
predictions come from.
"""
