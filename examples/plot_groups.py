"""
Rows that belong together
=========================

Six measurements at each of forty sites. Held out one by one, a row is predicted from its
neighbours at the same site, and the estimate says how well a *known* site is predicted. Held out
site by site, it says how well a *new* one is. Only one of them is what you want to know, and both
come from the same fit.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import LeaveOneGroupOut, LeaveOneOut

from holdfast import KernelRidgeCV

rng = np.random.default_rng(0)
sites, per_site = 40, 6
site = np.repeat(np.arange(sites), per_site)
place = rng.uniform(-3, 3, size=(sites, 2))
X = place[site] + 0.05 * rng.normal(size=(site.size, 2))
smooth = np.sin(X[:, 0]) * np.cos(X[:, 1])
y = smooth + 0.4 * rng.normal(size=sites)[site] + 0.1 * rng.normal(size=site.size)

alphas = np.logspace(-4, 2, 40)
model = KernelRidgeCV(gamma=0.5, alphas=alphas, cv=LeaveOneGroupOut()).fit(X, y, groups=site)

# %%
# The same fitted model answers both questions.

by_site = -model.cv_results_["pooled_test_score"]
by_row = -model.held_out(cv=LeaveOneOut()).score("neg_mean_squared_error")

# %%
# And the truth, since the data are artificial: new sites from the same place.

new_place = rng.uniform(-3, 3, size=(2000, 2))
new_y = np.sin(new_place[:, 0]) * np.cos(new_place[:, 1])
new_y += 0.4 * rng.normal(size=2000) + 0.1 * rng.normal(size=2000)
truth = []
for alpha in alphas[::4]:
    one = KernelRidgeCV(gamma=0.5, alphas=[alpha], cv=2).fit(X, y)
    truth.append(((one.predict(new_place) - new_y) ** 2).mean())

# %%

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.semilogx(alphas, by_row, color="0.6", label="one row at a time")
ax.semilogx(alphas, by_site, color="C0", label="one site at a time")
ax.semilogx(alphas[::4], truth, "o", color="C3", mfc="none", label="2,000 new sites")
for curve, color in ((by_row, "0.6"), (by_site, "C0")):
    ax.plot(alphas[curve.argmin()], curve.min(), "v", color=color, ms=9)
ax.set(xlabel="penalty", ylabel="mean squared error", ylim=(0, None))
ax.legend(frameon=False)
plt.show()
