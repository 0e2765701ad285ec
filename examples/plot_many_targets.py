"""
One penalty for each of a thousand targets
==========================================

Many responses to the same inputs (voxels, genes, sensors) share everything but the right-hand
side. One factorisation serves all of them, and each may choose its own penalty, under any
cross-validation.
"""

import matplotlib.pyplot as plt
import numpy as np

from holdfast import KernelRidgeCV

rng = np.random.default_rng(0)
rows, targets = 200, 1000
X = rng.normal(size=(rows, 5))
signal = np.sin(X @ rng.normal(size=(5, targets)))
noise = np.geomspace(0.05, 3.0, targets)  # from clean to hopeless
Y = signal + noise * rng.normal(size=(rows, targets))

model = KernelRidgeCV(
    gamma=0.1, alphas=np.logspace(-4, 6, 30), cv=5, scoring="r2", alpha_per_target=True
).fit(X, Y)
print(f"{model.alpha_.size} penalties, from {model.alpha_.min():.2g} to {model.alpha_.max():.2g}")

# %%
# The noisier a target, the larger the penalty that its held-out rows ask for.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), constrained_layout=True)
left.loglog(noise, model.alpha_, ".", markersize=3)
left.set(xlabel="noise of the target", ylabel="chosen penalty")
right.semilogx(noise, model.best_score_, ".", markersize=3)
right.axhline(0, color="grey", linewidth=0.8)
right.set(xlabel="noise of the target", ylabel="held-out R²")
plt.show()

# %%
# One penalty for all is what the average target wants, and costs those at both ends.

shared = KernelRidgeCV(gamma=0.1, alphas=np.logspace(-4, 6, 30), cv=5, scoring="r2").fit(X, Y)
gain = model.best_score_.mean() - shared.best_score_
print(f"mean held-out R²: {shared.best_score_:.3f} with one penalty, {gain:+.3f} with one for each")
