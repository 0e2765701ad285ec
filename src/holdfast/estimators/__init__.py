"""The two estimators, as scikit-learn expects them, and what stands behind a fit.

`base` turns arguments into a `Problem`, which is data and nothing else; `model` turns a problem and
a kernel into a smoother; `search` compares kernels over the whole grid of penalties, with
`checkpoint` to go on where it stopped; `questions`, `without` and `answers` hold what a fitted
model can be asked about rows that it never saw, `certainty` how sure its score is, and `results`
what comes back. `regression` and `classification` add the targets.
"""
