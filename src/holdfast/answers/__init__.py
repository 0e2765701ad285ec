"""What follows when each held-out model costs one matrix product.

These questions cost hundreds to thousands of refits elsewhere. They all start from the fitted model
as a value, `Fitted`: a kernel on all rows of the `TrainingData` (`Model`), the `Objective`, and the
`SearchResult`, which has the penalty that was chosen. Each module is one answer: a small frozen
result, printed as a sentence, and a function that returns it, with the documentation that users
see: the estimators have it as a method. All score held-out predictions by `holdfast.scores`.

| module | answers |
|---|---|
| `held_out` | what do models that never saw some rows predict for them? |
| `without` | what would the model predict without some rows, with which coefficients? |
| `intervals` | within which bounds will a new row's target lie? |
| `calibration` | how probable is each class for a new row? |
| `influence` | which rows, or groups, move the model most? |
| `nested` | what does the choice of penalty and kernel do to the score? |
| `certainty` | how far may the score be from the error on new rows? |
| `permutation` | how well would chance have done? |
| `comparison` | is one model better than another? |
| `checks` | how was the model fitted, and are its predictions those of refitted models? |
"""

from holdfast.answers import certainty as certainty
from holdfast.answers import checks as checks
from holdfast.answers import held_out as held_out
from holdfast.answers import influence as influence
from holdfast.answers import intervals as intervals
from holdfast.answers import nested as nested
from holdfast.answers import permutation as permutation
from holdfast.answers import without as without
from holdfast.answers.calibration import Calibration, CalibrationScores
from holdfast.answers.certainty import ScoreInterval
from holdfast.answers.comparison import Comparison
from holdfast.answers.influence import Influence
from holdfast.answers.nested import NestedPredictions
from holdfast.answers.permutation import PermutationTest
from holdfast.answers.without import HeldOutCoefficients

__all__ = [
    "Calibration",
    "CalibrationScores",
    "Comparison",
    "HeldOutCoefficients",
    "Influence",
    "NestedPredictions",
    "PermutationTest",
    "ScoreInterval",
]
