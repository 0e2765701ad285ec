"""What follows from held-out models: intervals, densities, influence, pairs, nested choices."""

from __future__ import annotations

import warnings
from itertools import combinations
from math import ceil, floor

import numpy as np
import pytest
from numpy.linalg import inv, solve

from holdfast import KernelRidgeCV, compare
from holdfast.answers.gaussian import crps, crps_slopes
from holdfast.answers.intervals import Quantiles
from holdfast.answers.learning import _power_laws
from holdfast.answers.partitions import partitions
from holdfast.exceptions import GridEdgeWarning
from holdfast.experiments import as_experiments
from holdfast.scores.standard_errors import mean_and_variance, nadeau_bengio
from interface.formulas import example, same
from interface.formulas.problem import H, K, X, Y, alphas, m, rng, root, w

X_new = rng.normal(size=(4, 3))
K_new = np.exp(-0.4 * ((X_new[:, None] - X[None]) ** 2).sum(axis=2))
y = Y[:, 0]
ALPHA = 0.3


def model(**options) -> KernelRidgeCV:
    """A dense model with a bias, at one penalty unless told otherwise."""
    settings = {"kernel": "rbf", "gamma": 0.4, "alphas": [ALPHA], **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)  # three penalties are no real grid
        return KernelRidgeCV(**settings).fit(X, y, sample_weight=w)


def trained(rows, a: float = ALPHA, targets=y):
    """Predictions for all rows and new rows of a model trained on some rows: the definition."""
    k = len(rows)
    system = np.ones((k + 1, k + 1))
    system[:k, :k] = K[np.ix_(rows, rows)] + a * np.diag(1 / w[rows])
    system[k, k] = 0.0
    c = solve(system, np.r_[targets[rows], 0.0])
    return K[:, rows] @ c[:k] + c[k], K_new[:, rows] @ c[:k] + c[k]


def without(held, a: float = ALPHA):
    return trained(np.setdiff1d(np.arange(m), held), a)


def smoother(a: float = ALPHA) -> np.ndarray:
    """S of weighted rows, column by column."""
    every = np.arange(m)
    S = np.column_stack([trained(every, a, row / root)[0] for row in np.eye(m)])
    return root[:, None] * S


@example("answers.without.predict_without", "holdout.models.predict_with")
def _():
    same(model().predict_without(H, X_new), without(H)[1])


@example(
    "answers.intervals.bounds",
    "answers.intervals.Quantiles.upper",
    "answers.intervals.Quantiles.lower",
    "holdout.models.HeldOutModels.predict",
)
def _():
    r = np.array([abs(y[i] - without([i])[0][i]) for i in range(m)])
    f = np.array([without([i])[1] for i in range(m)]).T  # (new rows, held-out models)
    a = 0.2
    lower = np.sort(f - r, axis=1)[:, floor(a * (m + 1)) - 1]
    upper = np.sort(f + r, axis=1)[:, ceil((1 - a) * (m + 1)) - 1]
    same(model().predict_interval(X_new, level=0.8), np.c_[lower, upper])
    two = Quantiles((0.5,), 3)
    assert two.upper(np.array([[3.0, 1.0, 2.0]])).tolist() == [[2.0]]


@example(
    "answers.full_conformal.full_bounds",
    "smoother.kernel_smoother.KernelSmoother.covariances",
)
def _():
    """With the target at an end of the set, the new row's residual is as large as another."""
    equal = KernelRidgeCV("rbf", gamma=0.4, alphas=[ALPHA]).fit(X, y)
    ends = equal.predict_interval(X_new, level=0.8, method="full")
    for x, k, two in zip(X_new, K_new, ends, strict=True):
        system = np.ones((m + 2, m + 2))
        system[: m + 1, : m + 1] = np.block([[K, k[:, None]], [k[None], np.ones((1, 1))]])
        system[: m + 1, : m + 1] += ALPHA * np.eye(m + 1)
        system[-1, -1] = 0.0
        for end in two:
            e = np.abs(ALPHA * solve(system, np.r_[y, end, 0.0])[: m + 1])
            assert np.sort(e[:-1])[-floor(0.2 * (m + 1))] == pytest.approx(e[-1], rel=1e-9), x


@example("answers.held_out.residual_covariance")
def _():
    G = np.eye(m) - smoother()
    parts = [H, np.setdiff1d(np.arange(m), H)]
    found = model().held_out(cv=[(np.setdiff1d(np.arange(m), part), part) for part in parts])
    own = [inv(G[np.ix_(part, part)]) @ G[part] for part in parts]
    rows = np.concatenate(parts)
    C = np.vstack(own) @ np.linalg.pinv(G) @ np.vstack(own).T / np.outer(root[rows], root[rows])
    same(found.residual_covariance(ALPHA), C)


@example(
    "holdout.spread.spread",
    "holdout.spread.Spread.noise",
    "answers.gaussian.standard_deviations",
    "answers.gaussian.log_densities",
)
def _():
    S = smoother()
    gap = 1 - np.diag(S)
    r = (root * y - S @ (root * y)) / gap
    noise = (r**2 * gap).sum() / m
    fitted = model()
    assert fitted.noise_variance_ == pytest.approx(noise)
    found = fitted.held_out()
    std = np.sqrt(noise / gap) / root
    same(found.std[0, :, 0], std)
    errors = r / root
    density = -0.5 * (np.log(2 * np.pi * std**2) + (errors / std) ** 2)
    same(found.log_density(), [density.sum()])
    # A group: the covariance of its held-out targets is σ²(I − S_HH)⁻¹ in units of √w y.
    groups = [(np.setdiff1d(np.arange(m), part), part) for part in (H, np.setdiff1d(range(m), H))]
    held = fitted.held_out(cv=groups[:1])
    C = inv(np.eye(H.size) - S[np.ix_(H, H)])
    r_H = root[H] * (y - without(H)[0])[H]
    sigma = r_H @ inv(C) @ r_H / H.size
    C = sigma * C / np.outer(root[H], root[H])
    e = r_H / root[H]
    joint = -0.5 * (np.log(np.linalg.det(2 * np.pi * C)) + e @ inv(C) @ e)
    same(held.log_density(), [joint])


@example("answers.intervals.standard_deviation")
def _():
    fitted = model()
    C = K / ALPHA + np.diag(1 / w)
    inside = K_new / ALPHA
    u = 1 - np.ones(m) @ inv(C) @ inside.T
    variance = 1 / ALPHA - np.einsum("ij,jk,ik->i", inside, inv(C), inside)
    variance += u**2 / (np.ones(m) @ inv(C) @ np.ones(m)) + 1.0
    same(fitted.predict(X_new, return_std=True)[1], np.sqrt(fitted.noise_variance_ * variance))


@example("answers.gaussian.crps")
def _():
    from scipy.stats import norm

    t = np.linspace(-12.0, 12.0, 480_001)
    for error, std in ((0.7, 1.3), (-2.0, 0.5)):
        gap = (norm.cdf(t, scale=std) - (t >= error)) ** 2
        found = crps(np.array([error]), np.array([std]))[0]
        assert found == pytest.approx(np.trapezoid(gap, t), rel=1e-4)


@example("answers.gaussian.crps_slopes")
def _():
    h = 1e-6
    for error, std in ((0.7, 1.3), (-2.0, 0.5)):
        by_error, by_std = crps_slopes(np.array([error]), np.array([std]))
        ahead, behind = (crps(np.array([error + t]), np.array([std])) for t in (h, -h))
        same(by_error, (ahead - behind) / (2 * h), digits=8)
        ahead, behind = (crps(np.array([error]), np.array([std + t])) for t in (h, -h))
        same(by_std, (ahead - behind) / (2 * h), digits=8)


@example("answers.influence.influence")
def _():
    S, f = smoother(), trained(np.arange(m))[0]
    freedom = np.trace(S)
    s2 = w @ (y - f) ** 2 / (m - freedom)
    cook, dffits, residual = [], [], []
    for i in range(m):
        f_i = without([i])[0]
        cook.append(w @ (f - f_i) ** 2 / (freedom * s2))
        dffits.append(root[i] * (f - f_i)[i] / np.sqrt(freedom * s2))
        residual.append(root[i] * (y - f_i)[i] * np.sqrt((1 - S[i, i]) / s2))
    found = model().influence()
    same(found.leverage, np.diag(S))
    same(found.cook, cook)
    same(found.dffits, dffits)
    same(found.residual, residual)


@example("answers.pairs.leave_pair_out")
def _():
    right = total = 0.0
    for i, j in combinations(range(m), 2):
        f = without([i, j])[0]
        total += w[i] * w[j]
        right += w[i] * w[j] * ((f[i] - f[j]) * (y[i] - y[j]) > 0)
    assert model().leave_pair_out().concordance[0] == pytest.approx(right / total)


@example("answers.nested.nested")
def _():
    folds = [np.arange(k, m, 3) for k in range(3)]
    outer = [(np.setdiff1d(np.arange(m), fold), fold) for fold in folds]
    found = model(alphas=alphas).nested(outer)  # leave-one-out inside
    for fold, (train, _), chosen, values in zip(
        folds, outer, found.alphas, found.predictions, strict=True
    ):
        errors = []
        for a in alphas:
            r = [y[i] - trained(np.setdiff1d(train, [i]), a)[0][i] for i in train]
            errors.append(w[train] @ np.square(r))
        best = alphas[np.argmin(errors)]
        assert chosen == best
        same(values[:, 0], trained(train, best)[0][fold])


@example("answers.permutation.permutation_test")
def _():
    found = model(alphas=alphas).permutation_test(n_permutations=30, random_state=0)
    assert found.p_value == (1 + (found.null_scores >= found.score).sum()) / (1 + 30)


@example("scores.standard_errors.mean_and_variance", "scores.standard_errors.nadeau_bengio")
def _():
    values, unit = rng.normal(size=(m, 1)), np.arange(m) // 4
    mean, variance = mean_and_variance(values, w, unit)
    same(mean, w @ values / w.sum())
    parts = np.array([(w * (values - mean)[:, 0])[unit == g].sum() for g in range(unit[-1] + 1)])
    G = parts.size
    same(variance, [G / (G - 1) * (parts**2).sum() / w.sum() ** 2])
    splits, folds = rng.normal(size=(1, 5)), as_experiments(5, m)
    se, _ = nadeau_bengio(splits, folds, w)
    ratio = np.mean([len(e.test) / (m - len(e.test)) for e in folds])
    same(se, [np.sqrt((1 / 5 + ratio) * splits.var(ddof=1))])


@example("answers.partitions.nested_estimate")
def _():
    k = 4
    folds = partitions(np.arange(m), None, w, k, [0, 0])
    found = model().score_interval(method="nested", n_splits=k, n_partitions=1, random_state=0)

    def mean(errors, rows):
        return -(w[rows] @ np.square(errors)) / w[rows].sum()

    def variance(errors, rows):
        part = w[rows] * (-np.square(errors) - mean(errors, rows))
        return rows.size / (rows.size - 1) * (part**2).sum() / w[rows].sum() ** 2

    def errors(held, rows):
        return (y - without(held)[0])[rows]

    inner, plain, excess = [], [], []
    for i in range(k):
        others = [j for j in range(k) if j != i]
        rows = np.concatenate([folds[j] for j in others])
        e = np.concatenate([errors(np.r_[folds[i], folds[j]], folds[j]) for j in others])
        own = errors(folds[i], folds[i])
        inner.append(mean(e, rows))
        plain.append(variance(e, rows))
        excess.append((mean(e, rows) - mean(own, folds[i])) ** 2 - variance(own, folds[i]))
    rows = np.concatenate(folds)
    cv = mean(np.concatenate([errors(fold, fold) for fold in folds]), rows)
    bias = (1 + (k - 2) / k) * (np.mean(inner) - cv)
    ratio = max(np.mean(excess), 0.0) / np.mean(plain)
    wide = np.clip(np.sqrt(ratio), 1.0, np.sqrt(k))
    assert found.score == pytest.approx(np.mean(inner) - bias)
    assert found.standard_error == pytest.approx(np.sqrt(np.mean(plain) * (k - 1) / k) * wide)


@example("answers.comparison.compare")
def _():
    found = compare(model(), model(alphas=[3.0]), method="asymptotic")
    e = [np.array([(y - without([i], a)[0])[i] for i in range(m)]) for a in (ALPHA, 3.0)]
    values = np.square(e[1]) - np.square(e[0])
    mean = w @ values / w.sum()
    assert found.difference == pytest.approx(mean)
    variance = m / (m - 1) * ((w * (values - mean)) ** 2).sum() / w.sum() ** 2
    assert found.standard_error == pytest.approx(np.sqrt(variance))


@example("answers.learning._power_laws")
def _():
    sizes, at = np.array([10.0, 20, 40, 80]), np.array([160.0, 320])
    error = 0.3 + 2.0 * sizes**-0.5
    same(_power_laws(sizes, error[None], at, error)[0], 0.3 + 2.0 * at**-0.5)
