"""
Kriging with a trend
====================

Temperature at 120 stations: it falls with height, and what is left varies smoothly over the map.
The stations are in the valleys, but the map should cover the mountains too. A kernel on place and
height alone returns to its mean up there. With the height as a trend (universal kriging with an
external drift) the fall is estimated, and continues above the highest station.

The data are made up: a smooth field over a square of 100 km, −6.5 °C per 1,000 m, 0.4 °C of noise.
"""

import matplotlib.pyplot as plt
import numpy as np

from holdfast import KernelRidgeCV
from holdfast.kernels import RBF, OnColumns
from holdfast.splitters import LeaveNeighbourhoodOut

rng = np.random.default_rng(0)


def field(place):
    return 1.5 * np.sin(place[:, 0] / 12) * np.cos(place[:, 1] / 15)


def temperature(place, height):
    return 14 - 6.5 * height + field(place) + 0.4 * rng.normal(size=len(place))


stations, peaks = 120, 400
place = rng.uniform(0, 100, size=(stations, 2))
height = rng.beta(1.5, 4, size=stations)  # km; most of them low
y = temperature(place, height)
new_place = rng.uniform(0, 100, size=(peaks, 2))
new_height = rng.uniform(0, 3, size=peaks)
new_y = temperature(new_place, new_height)

# %%
# One kernel sees place and height; the other the place, with the height as a trend. Both models
# hold out the stations within 10 km of the one that is tested.

X, X_new = np.c_[place / 10, height], np.c_[new_place / 10, new_height]
cv = LeaveNeighbourhoodOut(place, radius=10)
plain = KernelRidgeCV(gamma=0.3, cv=cv).fit(X, y)
kriging = KernelRidgeCV(OnColumns(RBF(gamma=0.3), [0, 1]), cv=cv, trend=[2]).fit(X, y)
print(f"{kriging.trend_coef_[0]:.2f} °C per km")

# %%
# The held-out residuals over their standard deviations are close to standard normal, so that the
# kriging variance can be relied on, and the map above the stations is as good as below.

held_out = kriging.held_out(alphas=[kriging.alpha_])
z = (y - held_out.matrix()[0, :, 0]) / held_out.std.ravel()
_, std = kriging.predict(X_new, return_std=True)
inside = np.abs(new_y - kriging.predict(X_new)) < 1.64 * std
print(f"z-scores: mean {z.mean():.2f}, standard deviation {z.std():.2f}")
print(f"{inside.mean():.0%} of the new places within bounds that should hold 90 %")

# %%

fig, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for model, name, color in ((plain, "kernel alone", "0.6"), (kriging, "with a trend", "C0")):
    axes[0].plot(new_height, new_y - model.predict(X_new), ".", color=color, ms=4, label=name)
axes[0].axvline(height.max(), color="C3", lw=1)
axes[0].annotate("highest station", (height.max(), -12), color="C3", xytext=(4, 0),
                 textcoords="offset points")  # fmt: skip
axes[0].set(xlabel="height [km]", ylabel="error at new places [°C]")
axes[0].legend(frameon=False)
axes[1].hist(z, bins=20, density=True, color="C0", alpha=0.5)
grid = np.linspace(-3.5, 3.5, 100)
axes[1].plot(grid, np.exp(-0.5 * grid**2) / np.sqrt(2 * np.pi), color="k", lw=1)
axes[1].set(xlabel="z-score of held-out residuals", ylabel="density")
plt.show()
