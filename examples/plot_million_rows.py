"""
A million rows
==============

With a few hundred basis rows the cost grows with the number of rows and not with its square, and
feature rows that do not fit in memory are computed again when they are needed. Leave-one-out of a
million rows for thirty penalties takes two passes over the data.
"""

import matplotlib.pyplot as plt
import numpy as np

from holdfast import KernelRidgeCV

rng = np.random.default_rng(0)
rows = 1_000_000
X = rng.uniform(-3, 3, size=(rows, 3)).astype(np.float32)
y = np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.2 * X[:, 2] + 0.5 * rng.normal(size=rows)

model = KernelRidgeCV(
    gamma=0.5, basis=100, alphas=np.logspace(-4, 4, 30), memory_limit="400MB", random_state=0
).fit(X, y)
print(f"leave-one-out mean squared error {-model.best_score_:.4f}; the noise alone has 0.25")

# %%
# What it took:

print(model.explain())

# %%
# A few of the million experiments, really retrained:

print(model.verify(2))

# %%
# The held-out errors of all rows are there to be looked at, for instance over the plane.

residual = y - model.held_out(alphas=[model.alpha_]).matrix()[0, :, 0]
figure, axes = plt.subplots(figsize=(5.2, 4.2), constrained_layout=True)
picture = axes.hexbin(
    X[:, 0], X[:, 1], C=residual, reduce_C_function=np.mean, gridsize=40, cmap="RdBu"
)
figure.colorbar(picture, label="mean held-out residual")
axes.set(xlabel="first feature", ylabel="second feature")
plt.show()
