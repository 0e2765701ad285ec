"""
Several parameters at once
==========================

A grid has a direction for each parameter: two kernels with a width and a share each would take
thousands of points. ``tune`` walks to the best held-out score instead (Nelder and Mead's simplex,
as Cawley and Talbot 2004 did), and every step is an exact cross-validation.

The data are made up: a slow wave over ten years of months, and a season of twelve months.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import r2_score

from holdfast import KernelRidgeCV, tune
from holdfast.kernels import RBF, OnColumns

rng = np.random.default_rng(0)
month = np.arange(120)
angle = 2 * np.pi * month / 12
X = np.c_[month / 12, np.cos(angle), np.sin(angle)]  # years, and the place in the season


def truth(rows):
    season = 2 * np.exp(4 * (rows[:, 1] - 1)) - np.exp(3 * (rows[:, 2] - 1))  # two short peaks
    return np.sin(1.5 * rows[:, 0]) + 0.5 * np.sin(4 * rows[:, 0]) + season


y = truth(X) + 0.3 * rng.normal(size=month.size)

# %%
# A slow kernel of the years and one of the season. Three numbers besides the penalty: two widths,
# and how much the season matters.

kernel = RBF(0.1) + 1.0 * OnColumns(RBF(1.0), [1, 2])
model = KernelRidgeCV(kernel, cv=10)
before = model.fit(X, y)
tuned = tune(model, X, y)
print(tuned)
print(tuned.params)

# %%
# The score was chosen, so it promises a little too much. New measurements of the same months say
# how much.

new = truth(X) + 0.3 * rng.normal(size=month.size)
print(f"before: held-out MSE {-before.best_score_:.3f}, R² {r2_score(new, before.predict(X)):.3f}")
print(f"after:  held-out MSE {-tuned.score:.3f}, R² {r2_score(new, tuned.model.predict(X)):.3f}")

# %%

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.plot(X[:, 0], y, ".", color="0.6", label="measured")
axes.plot(X[:, 0], truth(X), color="k", lw=0.8, label="without noise")
axes.plot(X[:, 0], tuned.model.predict(X), color="C0", label="tuned")
axes.set(xlabel="year", ylabel="y")
axes.legend(frameon=False)
plt.show()
