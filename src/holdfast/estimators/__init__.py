"""The estimators, as scikit-learn expects them, and how a fit works.

`inputs` checks what was passed; `base` turns it into `TrainingData`, an `Objective` and kernels to
compare; `search` compares each at all its penalties, and `widths` names further kernels for
``gamma="search"``. The result is a value, `holdfast.answers.fitted.Fitted`, from which the answers
are given. `regression`, `classification` and `mixture` add targets and kernels, `state` is what
pickle keeps.
"""
