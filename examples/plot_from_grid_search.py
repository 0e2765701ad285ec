"""
From GridSearchCV to holdfast
=============================

The same model, folds and grid as ``GridSearchCV(KernelRidge())``: the same numbers, from one
factorisation for each kernel width instead of one fit for each fold, width and penalty.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, KFold

from holdfast import KernelRidgeCV

X, y = load_diabetes(return_X_y=True)
y = y - y.mean()  # KernelRidge has no intercept
gammas, alphas = [1.0, 3.0, 10.0, 30.0], np.logspace(-3, 2, 30)
folds = KFold(10, shuffle=True, random_state=0)

start = time.perf_counter()
grid = GridSearchCV(
    KernelRidge(kernel="rbf"),
    {"gamma": gammas, "alpha": alphas},
    cv=folds,
    scoring="neg_mean_squared_error",
).fit(X, y)
slow = time.perf_counter() - start

start = time.perf_counter()
model = KernelRidgeCV(gamma=gammas, alphas=alphas, cv=folds, fit_intercept=False, pooled=False).fit(
    X, y
)
fast = time.perf_counter() - start
print(f"GridSearchCV took {slow / fast:.0f} times as long")

# %%
# Both choose the same, by the same scores.

table = grid.cv_results_["mean_test_score"].reshape(alphas.size, len(gammas)).T
ours = model.cv_results_["mean_test_score"].reshape(len(gammas), alphas.size)
print("largest relative difference", f"{np.abs(ours / table - 1).max():.0e}")
print(grid.best_params_, "and", model.best_params_["gamma"], model.alpha_)

figure, axes = plt.subplots(figsize=(6.4, 3.8), constrained_layout=True)
for gamma, curve, dots in zip(gammas, ours, table, strict=True):
    (line,) = axes.semilogx(alphas, -curve, label=f"gamma {gamma:g}")
    axes.semilogx(alphas, -dots, "o", markersize=3, color=line.get_color())
axes.set(xlabel="penalty", ylabel="held-out mean squared error")
axes.legend(frameon=False, title="lines: holdfast, dots: GridSearchCV")
plt.show()
