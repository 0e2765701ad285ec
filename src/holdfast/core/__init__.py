r"""The model that never saw some rows, from the model that saw all of them: the theory in a page.

**One smoother.** A penalised least-squares model is ŷ = S(α) y. Take the features W of all rows,
weighted, centred, and in coordinates where the penalty is α times the identity. With the
eigenvectors T of WᵀW = T Λ Tᵀ and V = W T,

    S(α) = V D Vᵀ,   D = 1/(Λ + α)        and the unpenalised columns Q add QQᵀ

**One identity.** Leave the rows H out and refit. The errors of the new model f₋H on them are

    r_H = y_H − f₋H(X_H) = (I − S_HH)⁻¹ (y_H − ŷ_H)

*Proof.* Replace y_H by the new model's own predictions. Then f₋H fits the held-out rows without
error and is optimal on the others, so it is also the model of all rows with these targets
(Pahikkala et al. 2006, Lemma 1): ŷ_H − S_HH r_H = f₋H(X_H) = y_H − r_H. Solve for r_H. ∎

It follows that f₋H is the model of all rows with the targets y − r on H, so that for *any* row

    f₋H(x) = v(x)ᵀ β₋H,        β₋H = D (z − V_Hᵀ r_H),   z = Vᵀy

**Removed basis rows.** A sparse model on B∖E is the same problem under the constraint N_E β = 0.
With O an orthonormal basis of the rows N_E, M_E = D − D O (OᵀDO)⁻¹ OᵀD takes the place of D.

**A worked example.** One feature, no bias, α = 1, x = (1, 2), y = (1, 1): S = xxᵀ/6, ŷ = (½, 1).
Hold the second row out: r = (1 − 4/6)⁻¹ (1 − 1) = 0, so f₋₂(2) = 1; and indeed the model of the
first row alone is θ = x₁y₁/(x₁² + 1) = ½, which predicts 2θ = 1.

| module | what it holds, from the data to the answers |
|---|---|
| `experiments` | rows held out and tested; policies for held-out basis rows, as data |
| `data` | weights, unpenalised columns (the bias is one), targets |
| `features`, `rows` | φ(x) by chunks; rows of W, kept or recomputed |
| `source` | where the rows are, and the one pass over them |
| `coordinates`, `factor` | where the penalty is diagonal; the smoother there |
| `block` | I − S_HH, e_H and probes on held-out rows |
| `residuals` | the identity, solved |
| `folds` | equations of each experiment's own training rows |
| `refit` | models refitted from scratch |
| `smoother` | the interface, and its two forms `feature_smoother` and `kernel_smoother` |
| `accuracy`, `predict` | the promise and its rule; four paths, one door |
| `models`, `gaussian` | held-out models as coefficients; how widely targets scatter |
| `plan`, `verify` | which path is cheapest; refits, when asked |
| `cluster` | a source of rows that live on a Dask cluster |
| `lapack` | the door to LAPACK and threads, and the sizes of chunks and samples |
"""
