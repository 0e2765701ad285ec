"""What follows once the model that never saw some rows is only a matrix product away.

These questions cost hundreds to thousands of refits elsewhere. They all start from the fitted model
as a value: `Fitted` (`fitted`) is a `Problem` with a `Goal` (`problem`), a kernel on its rows with
its smoother (`model`, `rows`), and a choice. Each module above is one answer: a small frozen
result, and a function of `Fitted` that returns it. The estimators have a method for each. All score
held-out predictions by one function (`scored`).

| module | answers |
|---|---|
| `held_out` | what do models that never saw some rows predict for them? |
| `without` | what would the model predict without some rows, with which coefficients? |
| `intervals` | within which bounds will a new row's target lie? |
| `calibration` | how probable is each class for a new row? |
| `gaussian` | how likely were the held-out targets? |
| `influence` | which rows, or groups, move the model most? |
| `nested` | what does the choice of penalty and kernel do to the score? |
| `certainty` | how far may the score be from the error on new rows? |
| `permutation` | how well would chance have done? |
| `comparison` | is one model better than another, and which rows decide? |
"""

from holdfast.answers.calibration import Calibration, CalibrationScores
from holdfast.answers.influence import Influence

__all__ = [
    "Calibration",
    "CalibrationScores",
    "Influence",
]
