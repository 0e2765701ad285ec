"""
Banded regression with runs
===========================

A hundred voxels answer to a film: some to its sound, some to its pictures, some to both. The
features of the sound are many and the features of the pictures few, so that one ridge penalty for
all columns favours the sound. With a kernel for each band, and weights chosen for each voxel, the
held-out score of the pictures' voxels rises, and the weights say which band a voxel answers to.

The data are made up: eight runs of 40 volumes; features and noise drift slowly, so that whole runs
are held out; 200 columns of sound, 20 of pictures.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import LeaveOneGroupOut

from holdfast import KernelMixtureCV, KernelRidgeCV
from holdfast.kernels import Linear, OnColumns

rng = np.random.default_rng(0)
runs, length, voxels = 8, 40, 100
run = np.repeat(np.arange(runs), length)


def drifting(columns):
    """Columns that change slowly within a run."""
    steps = rng.normal(size=(runs, length, columns))
    for t in range(1, length):
        steps[:, t] = 0.7 * steps[:, t - 1] + 0.7 * steps[:, t]
    return steps.reshape(runs * length, columns)


sound, pictures = drifting(200), drifting(20)
X = np.hstack([sound, pictures])
kind = np.repeat(["sound", "pictures", "both", "neither"], voxels // 4)
heard = sound @ rng.normal(size=(200, voxels)) / 14 * np.isin(kind, ["sound", "both"])
seen = pictures @ rng.normal(size=(20, voxels)) / 4.5 * np.isin(kind, ["pictures", "both"])
Y = heard + seen + 1.5 * drifting(voxels)

# %%
# One kernel for all columns, and one for each band with weights for each voxel. Both hold out
# whole runs and choose a penalty for each voxel.

alphas = np.logspace(-2, 6, 17)
shared = {"alphas": alphas, "cv": LeaveOneGroupOut(), "alpha_per_target": True}
plain = KernelRidgeCV("linear", scoring="r2", **shared).fit(X, Y, groups=run)
bands = {
    "sound": OnColumns(Linear(), range(200)),
    "pictures": OnColumns(Linear(), range(200, 220)),
}
banded = KernelMixtureCV(
    bands, n_draws=20, weights_per_target=True, scoring="r2", random_state=0, **shared
).fit(X, Y, groups=run)
for name in ("sound", "pictures", "both", "neither"):
    of = kind == name
    print(f"{name:9} R² {plain.best_score_[of].mean():.2f} → {banded.best_score_[of].mean():.2f}")

# %%

fig, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for name, color in (("sound", "C0"), ("pictures", "C1"), ("both", "C2"), ("neither", "0.6")):
    of = kind == name
    axes[0].plot(plain.best_score_[of], banded.best_score_[of], ".", color=color, label=name)
    axes[1].plot(banded.kernel_weights_[of, 1], banded.best_score_[of], ".", color=color)
low, high = axes[0].get_xlim()
axes[0].plot([low, high], [low, high], color="k", lw=0.8)
axes[0].set(xlabel="R², one kernel", ylabel="R², a kernel for each band")
axes[0].legend(frameon=False)
axes[1].set(xlabel="weight of the pictures", ylabel="R², a kernel for each band")
plt.show()
