"""Answers that follow once the model that never saw some rows is a matrix product away.

A cross-validation score is a random number, and that of the chosen penalty is optimistic. The
modules here say by how much, at the price of more right-hand sides and sums of Gram matrices where
others train hundreds of models again.

| module | the question |
|---|---|
| `nested` | what does the choice of penalty and kernel do to the score |
| `certainty` | how far may the score be from the error on new rows |
| `permutation` | how well would chance have done |
| `comparison` | is one model better than another, and which rows decide |

They ask smoothers, experiments and scores; of estimators they know a small protocol (`question`).
"""
