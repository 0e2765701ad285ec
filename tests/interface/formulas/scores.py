"""Scores of held-out predictions, their standard errors, and the choice of the penalty."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from holdfast.scores.choice import choose
from holdfast.scores.metrics import METRICS, ScoredRows, moment_scores
from holdfast.scores.ranking import concordance, kendall_tau, ndcg
from holdfast.scores.scorers import decision_to_proba
from holdfast.scores.scoring import combine, resolve_scoring, score_experiments
from interface.formulas import example, same
from interface.formulas.problem import Y, alphas, m, rng, v, w

PTR = np.array([0, 10, 19, m])
GUESS = Y[None] + np.array([0.1, 0.5, 0.3])[:, None, None] * rng.normal(size=(3, m, v))


def mse(p, rows) -> np.ndarray:
    return (w[rows, None] * (p[rows] - Y[rows]) ** 2).sum(axis=0) / w[rows].sum()


@example("scores.scoring.score_experiments")
def _():
    scoring = resolve_scoring("neg_mean_squared_error")
    found = score_experiments(scoring, GUESS, np.arange(m), PTR, Y, w)
    folds = [np.arange(*pair) for pair in pairwise(PTR)]
    for a, p in enumerate(GUESS):
        splits = np.array([-mse(p, fold).mean() for fold in folds])
        same(found.pooled[a], -mse(p, np.arange(m)).mean())
        same(found.splits[a], splits)
        same(found.mean[a], splits.mean())
        same(found.se[a], splits.std(ddof=1) / np.sqrt(3))


@example("scores.metrics.moment_scores")
def _():
    rows = ScoredRows(Y, w, np.arange(m + 1))  # one row in each experiment: R² needs a jackknife
    ((pooled, _, replicates),) = moment_scores(METRICS["r2"], rows, lambda alphas: GUESS[alphas], 1)
    spread = (w[:, None] * (Y - w @ Y / w.sum()) ** 2).sum(axis=0) / w.sum()
    same(pooled[0], 1 - mse(GUESS[0], np.arange(m)) / spread)
    scoring = resolve_scoring("r2")
    scores = score_experiments(scoring, GUESS[:1], np.arange(m), rows.ptr, Y, w)
    theta = replicates[0].mean(axis=1)
    g = theta.size
    same(scores.se[0], np.sqrt((g - 1) / g * ((theta - theta.mean()) ** 2).sum()))


@example("scores.scoring.combine")
def _():
    scoring = resolve_scoring("neg_mean_squared_error")
    whole = score_experiments(scoring, GUESS, np.arange(m), PTR, Y, w)
    one = [
        score_experiments(scoring, GUESS[:, :, [t]], np.arange(m), PTR, Y[:, [t]], w)
        for t in range(v)
    ]
    found = combine(one, [1, 1])
    same(found.pooled, whole.pooled)
    same(found.se, whole.se)


@example("scores.ranking.kendall_tau", "scores.ranking.concordance", "scores.ranking.ndcg")
def _():
    y, f = np.array([1.0, 3, 2, 2, 0, 1, 5]), np.array([0.5, 2, 2, 1, 1, 0, 3])
    groups = np.array([0, 0, 0, 0, 1, 1, 1])
    tau, share, gain = [], [], []
    for group in (0, 1):
        t, p = y[groups == group], f[groups == group]
        i, j = np.triu_indices(t.size, 1)
        sign, guess = np.sign(t[i] - t[j]), np.sign(p[i] - p[j])
        tau.append((sign * guess).sum() / np.sqrt((sign**2).sum() * (guess**2).sum()))
        share.append(np.where(guess == 0, 0.5, sign == guess)[sign != 0].mean())
        discount, ideal = 1 / np.log2(np.arange(t.size) + 2), np.sort(t)[::-1]
        shared = np.array([np.mean(discount[np.flatnonzero(np.sort(p)[::-1] == x)]) for x in p])
        gain.append((t * shared).sum() / (ideal * discount).sum())
    assert kendall_tau(y, f, groups) == pytest.approx(np.mean(tau))
    assert concordance(y, f, groups) == pytest.approx(np.mean(share))
    assert ndcg(y, f, groups) == pytest.approx(np.mean(gain))


@example("scores.choice.choose")
def _():
    scoring = resolve_scoring("neg_mean_squared_error")
    scores = score_experiments(scoring, GUESS[[1, 0, 2]], np.arange(m), PTR, Y, w)
    best = choose(scores, alphas, pooled=True, rule="best", per_target=False)
    assert best.alpha == alphas[np.argmax(scores.pooled)]
    within = scores.pooled >= scores.pooled.max() - scores.se[np.argmax(scores.pooled)]
    careful = choose(scores, alphas, pooled=True, rule="1se", per_target=False)
    assert careful.alpha == alphas[within].max()


@example("scores.scorers.decision_to_proba")
def _():
    f = np.array([[0.2, -0.4, -1.3], [-0.5, 0.9, 0.1]])
    raw = np.maximum((1 + f) / 2, 0)
    same(decision_to_proba(f, 3), raw / raw.sum(axis=1, keepdims=True))
