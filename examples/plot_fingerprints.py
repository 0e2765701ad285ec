"""
Molecules with new scaffolds
============================

A model of activity from fingerprints looks good when molecules are held out one by one: each has
siblings with the same scaffold among the training molecules. Chemists ask about scaffolds that they
have not made yet. Holding out whole scaffolds answers that, from the same fit.

The fingerprints are made by a stated recipe: 120 scaffolds of 8 molecules, 256 bits. A scaffold
sets 40 bits at random, and a molecule adds 10 of its own and loses 5. Activity is the sum of small
effects of all bits, a value of the scaffold as such, which no bit encodes, and noise.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import LeaveOneGroupOut, LeaveOneOut

from holdfast import KernelRidgeCV
from holdfast.kernels import Tanimoto

rng = np.random.default_rng(1)
bits, per_scaffold = 256, 8
effects = rng.normal(size=bits) / np.sqrt(40)


def molecules(scaffolds):
    """Sparse fingerprints, activities and scaffolds."""
    rows, values = [], []
    for _ in range(scaffolds):
        core = rng.choice(bits, 40, replace=False)
        own = 0.5 * rng.normal()
        for _ in range(per_scaffold):
            kept = rng.choice(core, 35, replace=False)
            row = np.zeros(bits)
            row[np.append(kept, rng.choice(bits, 10, replace=False))] = 1.0
            rows.append(row)
            values.append(row @ effects + own + 0.8 * rng.normal())
    scaffold = np.repeat(np.arange(scaffolds), per_scaffold)
    return sp.csr_array(np.array(rows)), np.array(values), scaffold


X, activity, scaffold = molecules(120)
X_new, activity_new, _ = molecules(200)

# %%
# The Tanimoto kernel is the share of bits that two molecules have in common; sparse rows stay
# sparse.

model = KernelRidgeCV(
    Tanimoto(), alphas=np.logspace(-2, 2, 20), cv=LeaveOneGroupOut(), scoring="r2"
).fit(X, activity, groups=scaffold)
by_scaffold = model.cv_results_["pooled_test_score"]
by_molecule = model.held_out(cv=LeaveOneOut()).score()

# %%
# The truth, since the recipe can make 1,600 further molecules, all with scaffolds of their own.

truth = []
for alpha in model.alphas_:
    one = KernelRidgeCV(Tanimoto(), alphas=[alpha], cv=2).fit(X, activity)
    truth.append(1 - np.mean((one.predict(X_new) - activity_new) ** 2) / activity_new.var())
at = int(model.best_index_)
print(f"one molecule at a time: R² {by_molecule.max():.2f}")
print(f"one scaffold at a time: R² {by_scaffold[at]:.2f}")
print(f"200 new scaffolds:      R² {truth[at]:.2f}")

# %%

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.semilogx(model.alphas_, by_molecule, color="0.6", label="one molecule at a time")
axes.semilogx(model.alphas_, by_scaffold, color="C0", label="one scaffold at a time")
axes.semilogx(model.alphas_, truth, "o", color="C3", mfc="none", label="200 new scaffolds")
axes.axhline(0, color="grey", lw=0.8)
axes.set(xlabel="penalty", ylabel="R²")
axes.legend(frameon=False)
plt.show()
