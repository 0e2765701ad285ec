"""
Leave-one-out for a whole grid of penalties
===========================================

One fit gives the leave-one-out predictions of every row under every penalty: here 221 rows and 60
penalties, so 13,260 models that were never fitted. The circles are the slow way, by
scikit-learn.
"""

# %%
# The data: progression of diabetes, ten measurements for each patient. Every second patient is
# enough here, for the sake of the slow way.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import LeaveOneOut, cross_val_predict

from holdfast import KernelRidgeCV

X, y = load_diabetes(return_X_y=True)
X, y = X[::2] / X.std(axis=0), y[::2] - y[::2].mean()
alphas = np.logspace(-3, 3, 60)

# %%
# One fit. ``fit_intercept=False`` because scikit-learn's ``KernelRidge`` has no bias, and we want
# to compare.

model = KernelRidgeCV(kernel="rbf", gamma=0.02, alphas=alphas, cv=None, fit_intercept=False)
model.fit(X, y)
held_out = model.held_out().matrix()[:, :, 0]  # (penalties, rows)

# %%
# Fitted on all rows, a model knows the answers, and looks better the smaller the penalty.

fitted = [KernelRidge(alpha=a, kernel="rbf", gamma=0.02).fit(X, y).predict(X) for a in alphas]

# %%
# The slow way, for three of the penalties: 221 models, each without one row. They agree.

checked = [5, 30, 55]
refitted = [
    cross_val_predict(KernelRidge(alpha=a, kernel="rbf", gamma=0.02), X, y, cv=LeaveOneOut())
    for a in alphas[checked]
]
np.testing.assert_allclose(held_out[checked], refitted, rtol=1e-8, atol=1e-6)


# %%
def error(predictions):
    return np.sqrt(((np.asarray(predictions) - y) ** 2).mean(axis=1))


fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.semilogx(alphas, error(fitted), color="0.6", label="on the rows it was trained on")
ax.semilogx(alphas, error(held_out), color="C0", label="leave-one-out, all from one fit")
ax.plot(
    alphas[checked], error(refitted), "o", color="C3", mfc="none", ms=9, label="really refitted"
)
ax.axvline(model.alpha_, color="C0", lw=0.8, ls=":")
ax.set(xlabel="penalty", ylabel="root mean squared error")
ax.legend(frameon=False)
plt.show()

# %%
# ``verify`` does such a check for you, with naive code of its own.

print(model.verify(n_experiments=5))
