"""
Time series: everything later is held out
=========================================

A forecast is made from the past alone. With scikit-learn's ``TimeSeriesSplit`` everything that is
not in the training part is held out, and the rows that follow it are tested. Random folds let the
model look at both sides of every row.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import KFold, TimeSeriesSplit

from holdfast import KernelRidgeCV

rng = np.random.default_rng(0)
t = np.arange(400)
level = np.cumsum(0.15 * rng.normal(size=t.size))  # a slow random walk
y = level + np.sin(2 * np.pi * t / 50) + 0.2 * rng.normal(size=t.size)
lags = 8
X = np.column_stack([y[lags - k - 1 : -k - 1] for k in range(lags)])  # the last eight values
target = y[lags:]
X = np.column_stack([X, np.arange(target.size) / 50.0])  # and the time itself

alphas = np.logspace(-3, 3, 40)
splitter = TimeSeriesSplit(n_splits=10, test_size=30)
model = KernelRidgeCV(gamma=0.02, alphas=alphas, cv=splitter).fit(X, target)

# %%
# One fit answers for both ways of holding out.

forward = -model.cv_results_["pooled_test_score"]
random = -model.held_out(cv=KFold(10, shuffle=True, random_state=0)).score()

figure, axes = plt.subplots(figsize=(6.4, 3.8), constrained_layout=True)
axes.semilogx(alphas, forward, label="the rows that follow")
axes.semilogx(alphas, random, label="rows at random")
axes.set(xlabel="penalty", ylabel="held-out mean squared error")
axes.legend(frameon=False)
plt.show()
print(f"error of forecasts: {forward.min():.3f}; random folds promise {random.min():.3f}")

# %%
# Each experiment says what it held out: the last one trains on all but the last thirty rows.

last = model.held_out().experiments[-1]
print(last.held_out.size, "rows held out,", last.test.size, "tested")
