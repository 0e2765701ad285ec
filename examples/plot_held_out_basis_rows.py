"""
What happens to basis rows that are held out
============================================

A sparse model uses some training rows as its basis. When such a row is held out, it may leave the
basis too (``"remove"``), stay in it without being trained on (``"keep"``), or stay in both
(``"train"``). On data in groups the choice matters a great deal: this is the experiment of
Pahikkala, Suominen and Boberg (2012, section 6.4) on a small scale, with one basis row per group.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import LeaveOneGroupOut

from holdfast import KernelRidgeCV
from holdfast.exceptions import GridEdgeWarning

# "train" prefers no penalty at all and ends at the edge of the grid: that is the point.
warnings.simplefilter("ignore", GridEdgeWarning)

rng = np.random.default_rng(2)
n_groups, per_group, n_features = 300, 5, 500
slope = rng.normal(size=n_features) / np.sqrt(n_features)


def draw(groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows around one centre for each group, and a target that has a part of its own in each."""
    label = np.repeat(np.arange(groups), per_group)
    centre, scatter = (
        rng.normal(size=(groups, n_features)),
        rng.normal(size=(label.size, n_features)),
    )
    X = centre[label] + 0.7 * scatter
    y = X @ slope + 0.5 * rng.normal(size=groups)[label] + 0.3 * rng.normal(size=label.size)
    return X, y, label


X, y, group = draw(n_groups)
X_new, y_new, _ = draw(400)
basis = np.arange(0, y.size, per_group)  # the first row of each group
alphas = np.logspace(-4, 3, 30)
kernel = {"kernel": "rbf", "gamma": 1 / n_features}


# %%
# Three policies, and the error on 400 groups that no model has seen. ``"train"`` has seen a row of
# each held-out group and promises far too much. ``"keep"`` gives a large coefficient to the basis
# row that is most unlike the training rows, just where it is tested, and falls apart as the
# penalty shrinks. ``"remove"`` tells the truth.


def error_on_new_groups(alpha: float) -> float:
    model = KernelRidgeCV(**kernel, alphas=[alpha], basis=basis, cv=2).fit(X, y)
    return ((model.predict(X_new) - y_new) ** 2).mean()


new = [error_on_new_groups(alpha) for alpha in alphas[::3]]

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for policy, color in (("keep", "C1"), ("remove", "C0"), ("train", "C2")):
    model = KernelRidgeCV(
        **kernel, alphas=alphas, basis=basis, cv=LeaveOneGroupOut(), held_out_basis=policy
    )
    model.fit(X, y, groups=group)
    ax.semilogx(alphas, -model.cv_results_["pooled_test_score"], color=color, label=f'"{policy}"')

ax.semilogx(alphas[::3], new, "o", color="C3", mfc="none", label="new groups")
ax.set(xlabel="penalty", ylabel="mean squared error", ylim=(0, 4))
ax.legend(frameon=False, title="held_out_basis")
plt.show()
