"""Sigmoid probabilities of decision values, the slow way: a logistic regression for each class."""

import numpy as np
from sklearn.linear_model import LogisticRegression


def sigmoid(f, positive, w):
    """Return slope and intercept that are most likely for Platt's targets, the slope not negative.

    A row whose target is t counts t as one of the class and 1 − t as one of the others.
    """
    n = w @ positive, w @ ~positive
    t = np.where(positive, (n[0] + 1) / (n[0] + 2), 1 / (n[1] + 2))
    scale = np.std(f[w > 0]) or 1.0
    model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-13, max_iter=1000)
    rows, labels = np.r_[f, f][:, None] / scale, np.r_[np.ones(f.size), np.zeros(f.size)]
    model.fit(rows, labels, sample_weight=np.r_[w * t, w * (1 - t)])
    if model.coef_[0, 0] <= 0:
        share = w @ t / w.sum()
        return 0.0, np.log(share / (1 - share))
    return model.coef_[0, 0] / scale, model.intercept_[0]


def probabilities(f, index, w):
    """Return probabilities (k, classes) of decisions (k, v) of rows of class `index`."""
    v = f.shape[1]
    each = []
    for j in range(v):
        slope, intercept = sigmoid(f[:, j], index == (1 if v == 1 else j), w)
        each.append(1 / (1 + np.exp(-slope * f[:, j] - intercept)))
    p = np.array(each).T
    return np.c_[1 - p, p] if v == 1 else p / p.sum(axis=1, keepdims=True)
