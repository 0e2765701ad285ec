"""The estimators, as scikit-learn expects them, and how a fit works.

`base` turns arguments into `TrainingData`, which are data and nothing else; `search` compares
kernels over the whole grid of penalties. The result is a value, `holdfast.answers.fitted.Fitted`,
and `answers` has one method for each answer from it. `regression` and `classification` add the
targets.
"""
