"""Labels and class probabilities that decision values imply: the latter by sigmoids, or as such.

Scores of probabilities, and the probabilities that a fitted classifier gives, both come from here:
what is promised is what is delivered.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from holdfast._typing import AnyArray, BoolArray, FloatArray, IntArray
from holdfast.core.lapack import CACHED

__all__ = [
    "Sigmoids",
    "class_index",
    "decision_to_label_index",
    "decision_to_proba",
    "happened",
    "of_classes",
    "of_own_class",
    "shares",
    "sigmoids",
]

#: Passes over the decisions; ten are many.
MOST_PASSES = 200


@dataclass(frozen=True, eq=False)
class Sigmoids:
    """Sigmoids 1 / (1 + exp(−sf − c)) of every penalty and target.

    Attributes
    ----------
    slope, intercept : ndarray of shape (a, v)
        s ≥ 0 and c. Where the decisions are not finite, nan.
    """

    slope: FloatArray
    intercept: FloatArray

    def of(self, decision: FloatArray) -> FloatArray:
        """Return the probabilities (a, k, classes) of decision values (a, k, v)."""
        z = decision * self.slope[:, None]
        z += self.intercept[:, None]
        return of_classes(expit(z, out=z))


def of_classes(p: FloatArray) -> FloatArray:
    """Return probabilities (…, classes) that sum to one, from those of each class by itself.

    A single one is that of the second of two classes. As scikit-learn's ``CalibratedClassifierCV``:
    divided by their sum, or all the same where every one is zero.
    """
    if p.shape[-1] == 1:
        return np.concatenate([1.0 - p, p], axis=-1)
    total = p.sum(axis=-1, keepdims=True)
    even = np.full_like(p, 1.0 / p.shape[-1])
    return np.asarray(np.divide(p, total, out=even, where=total != 0))


def class_index(labels: AnyArray, classes: AnyArray) -> IntArray:
    """Return the index of each label among the classes, -1 for a label that is not one of them."""
    index = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    return np.where(classes[index] == labels, index, -1)


def decision_to_label_index(decision: FloatArray) -> IntArray:
    """Return the class of each row of decision values (…, k, v): sign of one column, else argmax.

    One column is that of two classes, where positive means the second.
    """
    if decision.shape[-1] == 1:
        return (decision[..., 0] > 0).astype(np.int64)
    return np.asarray(decision.argmax(axis=-1), dtype=np.int64)


def decision_to_proba(decision: FloatArray, n_classes: int) -> FloatArray:
    """Return the probabilities (k, n_classes) that least-squares decision values (k, v) imply.

    Notes
    -----
    Least squares on targets -1 and +1 estimates ``f_k(x) = 2 P(k | x) - 1``. Hence
    ``p_k ∝ max((1 + f_k) / 2, 0)``; two classes use ``[-f, f]``. Where every term vanishes there
    is nothing to normalise and the row falls back to the softmax of its decision values.
    """
    f = np.hstack([-decision, decision]) if n_classes == 2 else decision
    proba = np.maximum((1.0 + f) / 2.0, 0.0)
    empty = proba.sum(axis=1) == 0
    if empty.any():
        proba[empty] = np.exp(f[empty] - f[empty].max(axis=1, keepdims=True))
    return np.asarray(proba / proba.sum(axis=1, keepdims=True), dtype=np.float64)


def happened(index: AnyArray, n_targets: int) -> BoolArray:
    """Return whether rows (k,) of class `index` are of each target's class, (k, v)."""
    index = np.asarray(index).reshape(-1, 1)
    return np.asarray(index == (1 if n_targets == 1 else np.arange(n_targets)))


def of_own_class(p: FloatArray, index: AnyArray) -> FloatArray:
    """Return the probability (b, k, 1) of the class that each row has, from (b, k, classes)."""
    own = np.asarray(index).reshape(1, -1, 1).astype(np.int64)
    return np.take_along_axis(p, np.broadcast_to(own, (len(p), own.size, 1)), axis=2)


def shares(rows: IntArray, weights: FloatArray) -> FloatArray:
    """Return the weights (k,) of tested rows, of `weights` (k,): those tested n times count 1/n."""
    return np.asarray(weights / np.bincount(rows)[rows])


def sigmoids(decision: FloatArray, positive: BoolArray, weights: FloatArray) -> Sigmoids:
    """Return the most likely sigmoid of every penalty and target, among those that never fall.

    Parameters
    ----------
    decision : ndarray of shape (a, k, v)
        Held-out decision values.
    positive : ndarray of bool, shape (k, v)
        Whether a row has the class of each target.
    weights : ndarray of shape (k,)
        Not negative, some positive.

    Notes
    -----
    Platt 2000: targets are (n₊ + 1)/(n₊ + 2) and 1/(n₋ + 2) instead of 1 and 0, so that the most
    likely sigmoid exists whatever the decisions are. Newton's method for all penalties and targets
    at once, O(a k v) for each of about seven passes.

    The slope is not negative; where the likelihood would have it so, the probability is the share
    of the class. Without one row, the mean of the others leans away from its label: at a huge
    penalty held-out decisions are anti-correlated with the labels, perfectly so if rows leave one
    by one, and a sigmoid that may fall would turn that into a score that no new row has.
    """
    a, k, v = decision.shape
    n = np.stack([weights @ ~positive, weights @ positive])
    targets = np.where(positive, (n[1] + 1.0) / (n[1] + 2.0), 1.0 / (n[0] + 2.0)).T
    values = decision.transpose(0, 2, 1).reshape(a * v, k)
    found = np.empty((a * v, 2))
    step = max(4, CACHED // 4 // k)
    for start in range(0, a * v, step):
        part = slice(start, min(start + step, a * v))
        found[part] = _of_rows(values[part], targets[np.arange(*part.indices(a * v)) % v], weights)
    return Sigmoids(*found.T.reshape(2, a, v))


def _of_rows(f: FloatArray, target: FloatArray, weights: FloatArray) -> FloatArray:
    """Return slope and intercept (n, 2) of n problems: values and targets (n, k)."""
    total = weights.sum()
    share = target @ weights / total
    found = np.stack([np.zeros(len(f)), logit(share)], axis=1)
    finite = np.isfinite(f.sum(axis=1))
    with np.errstate(all="ignore"):  # values that are not finite
        centre = f @ weights / total
        f = f - centre[:, None]
        width = np.sqrt(np.square(f) @ weights / total)
        rises = np.einsum("nk,nk,k->n", f, target - share[:, None], weights) > 0
    rises &= finite & (width > 0)
    found[~finite] = np.nan
    if rises.any():
        scale, middle = width[rises], centre[rises]
        f, target, start = f[rises] / scale[:, None], target[rises], found[rises]
        theta = _newton(f, target, weights, start)
        slope = theta[:, 0] / scale
        found[rises] = np.stack([slope, theta[:, 1] - slope * middle], axis=1)
    return found


def _newton(
    f: FloatArray, target: FloatArray, weights: FloatArray, start: FloatArray
) -> FloatArray:
    """Return slope and intercept (n, 2) that are most likely, for scaled values (n, k).

    A step that does not lower the loss by a tenth of what it promises is halved.
    """
    n, total, theta = len(f), weights.sum(), start.copy()
    before = np.full(n, np.inf)  # the loss that the last steps started from
    step, promise = np.zeros_like(theta), np.zeros(n)
    going, room = np.arange(n), np.empty((3, *f.shape))
    for _ in range(MOST_PASSES):
        loss, slopes, (h00, h01, h11) = _likelihood(
            f, target, weights, theta[going], room[:, : len(going)]
        )
        first, second = slopes
        newton = np.stack([h11 * first - h01 * second, h00 * second - h01 * first], axis=1)
        newton /= np.maximum(h00 * h11 - h01 * h01, 1e-300)[:, None]
        fine = loss <= before[going] - 0.1 * promise[going] + 1e-13 * total
        ahead, back = going[fine], going[~fine]
        step[back] /= 2.0
        promise[back] /= 2.0
        theta[back] += step[back]
        step[ahead], before[ahead] = newton[fine], loss[fine]
        promise[ahead] = np.einsum("jn,nj->n", slopes[:, fine], newton[fine])
        theta[ahead] -= step[ahead]
        more = ~fine | (promise[going] > 1e-15 * total)
        if not more.all():
            going, f, target = going[more], f[more], target[more]
        if not going.size:
            break
    return theta


def _likelihood(
    f: FloatArray, target: FloatArray, weights: FloatArray, theta: FloatArray, room: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return minus the log likelihood (n,), its gradient (2, n) and its curvatures (3, n).

    The latter along the slope, both, and the intercept; `room` (3, n, k) is for temporaries: new
    memory would cost more than what is computed in it.
    """
    z, small, other = room
    np.multiply(theta[:, :1], f, out=z)
    z += theta[:, 1:]
    np.negative(np.abs(z, out=small), out=small)
    np.exp(small, out=small)
    loss = np.log1p(small, out=other) @ weights + np.maximum(z, 0.0, out=other) @ weights
    loss -= np.multiply(target, z, out=other) @ weights
    small /= np.add(small, 1.0, out=other)  # the less likely of both probabilities
    p = np.abs(np.subtract(np.greater(z, 0.0, out=z), small, out=z), out=z)
    p -= target
    p *= weights
    slopes = np.stack([np.einsum("nk,nk->n", p, f), p.sum(axis=1)])
    small -= np.square(small, out=other)
    small *= weights
    np.multiply(small, f, out=other)
    curvatures = [np.einsum("nk,nk->n", other, f), other.sum(axis=1), small.sum(axis=1)]
    return loss, slopes, np.stack(curvatures) * np.array([[1.0 + 1e-14], [1.0], [1.0 + 1e-14]])
