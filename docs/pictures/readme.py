"""Draw the picture of the README: ``python docs/pictures/readme.py``.

Left: a curve through noisy points and, for each block of them, the model that never saw the block.
Right: the error that cross-validation of those blocks shows for every penalty, and circles where
models were really refitted.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import LeaveOneGroupOut

from holdfast import KernelRidgeCV

TARGET = Path(__file__).parent.parent / "_static" / "readme.png"
INK, BLUE, RED, PALE = "#22313f", "#1f6f8b", "#d1495b", "#b8c4cc"
GAMMA, BLOCKS = 6.0, 18  # the width of the kernel, and how many stretches the line is cut into

rng = np.random.default_rng(12)
x = np.sort(rng.uniform(0, 6, size=150))
y = np.sin(2 * x) * np.exp(-0.25 * x) + 0.35 * np.cos(0.9 * x) + 0.16 * rng.normal(size=x.size)
alphas = np.logspace(-5, 3, 80)

# The grid on which curves are drawn joins the data as rows of weight zero: predicted, never
# trained on.
grid = np.linspace(0, 6, 600)
X = np.r_[x, grid][:, None]
targets = np.r_[y, np.zeros_like(grid)]
weight = np.r_[np.ones_like(x), np.zeros_like(grid)]
groups = np.minimum((X[:, 0] / 6 * BLOCKS).astype(int), BLOCKS - 1)
block = groups[: x.size]

model = KernelRidgeCV(kernel="rbf", gamma=GAMMA, alphas=alphas, cv=LeaveOneGroupOut())
model.fit(X, targets, sample_weight=weight, groups=groups)

plt.rcParams.update({
    "font.family": "DejaVu Sans", "font.size": 10, "axes.edgecolor": INK, "axes.labelcolor": INK,
    "xtick.color": INK, "ytick.color": INK, "text.color": INK, "axes.spines.top": False,
    "axes.spines.right": False,
})  # fmt: skip
fig, (left, right) = plt.subplots(
    1, 2, figsize=(10, 3.7), width_ratios=(1.35, 1), layout="constrained"
)

left.plot(x, y, "o", ms=3.2, color=PALE, zorder=1)
left.plot(
    grid, model.predict(grid[:, None]), color=INK, lw=1.4, zorder=2, label="trained on everything"
)
for b in range(BLOCKS):
    rows = np.flatnonzero(groups == b)
    inside = rows[rows >= x.size]
    never_saw = model.predict_without(rows)[rows >= x.size]
    if b % 2 == 0:
        left.axvspan(6 * b / BLOCKS, 6 * (b + 1) / BLOCKS, color=BLUE, alpha=0.06, lw=0)
    left.plot(
        X[inside, 0], never_saw, color=RED, lw=2.2, solid_capstyle="round", zorder=3,
        label="by the model that never saw this stretch" if b == 0 else None,
    )  # fmt: skip
left.set(xlim=(0, 6), xticks=[], yticks=[], title="Hold out any rows …")
left.legend(frameon=False, loc="upper right")

held_out = np.sqrt(-model.cv_results_["pooled_test_score"])


def naive(alpha: float) -> float:
    """The error of models, each trained from scratch without one stretch."""
    errors = []
    for b in range(BLOCKS):
        kept, out = np.flatnonzero(block != b), np.flatnonzero(block == b)
        K = np.exp(-GAMMA * (x[kept, None] - x[kept]) ** 2) + alpha * np.eye(kept.size)
        one = np.ones((kept.size, 1))
        system = np.block([[K, one], [one.T, np.zeros((1, 1))]])
        a = np.linalg.solve(system, np.r_[y[kept], 0.0])
        errors.append(y[out] - np.exp(-GAMMA * (x[out, None] - x[kept]) ** 2) @ a[:-1] - a[-1])
    return float(np.sqrt((np.concatenate(errors) ** 2).mean()))


checked = np.arange(4, 80, 12)
slow = np.array([naive(alphas[i]) for i in checked])
K = np.exp(-GAMMA * (x[:, None] - x) ** 2)
centre = np.eye(x.size) - 1 / x.size
residuals = [
    a * np.linalg.solve(centre @ K @ centre + a * np.eye(x.size), centre @ y) for a in alphas
]
training = np.sqrt(np.square(residuals).mean(axis=1))

right.semilogx(alphas, training, color=PALE, lw=1.4, label="on the training rows")
right.semilogx(alphas, held_out, color=RED, lw=2.2, label="held out: one fit, every penalty")
right.plot(alphas[checked], slow, "o", ms=8, mfc="none", mec=INK, mew=1.2, label="really refitted")
right.set(
    ylim=(0, None),
    xlabel="penalty",
    ylabel="error",
    title="… for every penalty, exactly",
    yticks=[],
)
right.legend(frameon=False, loc="upper right")
right.minorticks_off()

fig.savefig(TARGET, dpi=160, metadata={"Software": None})
print(f"drawn: docs/_static/{TARGET.name}")
print(
    f"largest relative difference from retraining: {np.abs(slow / held_out[checked] - 1).max():.0e}"
)
