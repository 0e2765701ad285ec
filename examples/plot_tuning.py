"""
One width for each feature
===========================

Ten features, five of which matter. A kernel with one width for all of them cannot ignore the
others; one width per feature can, and the gradient of the exact held-out error finds all of them
at once.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1

from holdfast import KernelRidgeCV
from holdfast.kernels import RBF
from holdfast.tuning import tune

X, y = make_friedman1(n_samples=250, n_features=10, noise=1.0, random_state=0)
model = KernelRidgeCV("rbf", cv=10)

# %%
# The best that one width can do, on a grid and by descent. The grid takes one fit per width, which
# serves all penalties.

gammas, alphas = np.logspace(-3, 1, 17), np.logspace(-5, 2, 29)
grid = KernelRidgeCV("rbf", gamma=gammas, alphas=alphas, cv=10).fit(X, y)
surface = -grid.cv_results_["pooled_test_score"].reshape(gammas.size, alphas.size)
one = tune(model, X, y)
one

# %%
# One width per feature. The noise in these data has variance 1: no model can get below that.

many = tune(model, X, y, ard=True)
many

# %%
# New rows agree.

X_new, y_new = make_friedman1(n_samples=2000, n_features=10, noise=1.0, random_state=1)
errors = {
    name: np.mean((result.estimator().fit(X, y).predict(X_new) - y_new) ** 2)
    for name, result in (("one width", one), ("one per feature", many))
}
errors

# %%
# Left: the error over width and penalty, and the path of the descent. Right: by how much the
# held-out error would rise without each feature, give or take two standard errors.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
filled = left.contourf(alphas, gammas, surface, np.quantile(surface, np.linspace(0, 1, 16)))
fig.colorbar(filled, ax=left, label="held-out mean squared error")
left.set(xscale="log", yscale="log", xlabel="penalty λ (alpha)", ylabel="gamma")
path = one.trials.start == 0
left.plot(one.trials.alpha[path], one.trials.gamma[path, 0], "o-", color="C1", ms=3, lw=1)
rest = many.relevance
colors = np.where(rest.irrelevant, "0.7", "C0")
right.bar(np.arange(10), rest.rise, yerr=2 * rest.standard_error, color=colors)
right.axhline(0, color="black", lw=0.8)
right.set(xlabel="feature", ylabel="rise of the error without it", xticks=np.arange(10))
right.set_yscale("symlog", linthresh=0.01)
plt.show()

# %%
# The kernel is an ordinary kernel object and can be used anywhere.

isinstance(many.kernel, RBF), np.round(many.gamma, 4)
