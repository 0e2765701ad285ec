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

`row_scores` writes scores as means over rows, `folds` solves held-out models for many targets,
`shuffle` permutes. They ask smoothers, experiments and scores; of estimators they know a small
protocol (`question`).
"""

from holdfast.answers.certainty import ScoreInterval
from holdfast.answers.comparison import Comparison, compare
from holdfast.answers.nested import NestedPredictions
from holdfast.answers.permutation import PermutationTest

__all__ = ["Comparison", "NestedPredictions", "PermutationTest", "ScoreInterval", "compare"]
