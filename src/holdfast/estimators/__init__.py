"""The two estimators, as scikit-learn expects them, and what stands behind a fit.

`base` turns arguments into a `Problem`, which is data and nothing else; `search` compares kernels
over the whole grid of penalties, with `checkpoint` to go on where it stopped. What comes out is a
value, `holdfast.answers.fitted.Fitted`, and `questions` has one method for each answer to it.
`regression` and `classification` add the targets.
"""
