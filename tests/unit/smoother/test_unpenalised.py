"""Columns without a penalty: none, the bias, a trend; by themselves and in held-out predictions."""

from functools import cache

import numpy as np
import pytest

from holdfast.exceptions import InvalidInputError
from holdfast.experiments import Ragged, Tasks
from holdfast.holdout import PATHS, predict
from holdfast.kernels import RBF
from holdfast.kernels.matrix import KernelRows
from holdfast.smoother import (
    ColumnFeatures,
    FeatureSmoother,
    KernelSmoother,
    Unpenalised,
    WhitenedFeatures,
)
from holdfast.smoother.rows import StreamedRows
from holdfast.smoother.scale import RowScale, Targets
from tolerances import relative_difference

RNG = np.random.default_rng(17)
M = 48
X = RNG.normal(size=(M, 3))
x = X[:, 0]
Y = np.c_[np.sin(2 * x) + 3.0, 50.0 - 4.0 * x + x**2 + X[:, 1]] + 0.1 * RNG.normal(size=(M, 2))
WEIGHTS = {"none": np.ones(M), "weights": RNG.uniform(0.2, 3.0, M)}
WEIGHTS["zeros"] = WEIGHTS["weights"].copy()
WEIGHTS["zeros"][[0, 5, 20, 33, 47]] = 0.0
LARGE = np.isin(np.arange(M), [4, 9, 13, 14, 22, 29, 36, 40])  # a group with a level of its own
NAMES = {
    "no column": (),
    "bias": ("intercept",),
    "slope alone": ("slope",),
    "trend": ("intercept", "slope", "curvature"),
    "trend and group": ("intercept", "slope", "curvature", "group"),
}
COLUMNS = {
    "no column": np.empty((M, 0)),
    "bias": np.ones((M, 1)),
    "slope alone": x[:, None],
    "trend": np.c_[np.ones(M), x, x**2],
    "trend and group": np.c_[np.ones(M), x, x**2, LARGE],
}
ALPHAS = np.array([1e-3, 0.03, 0.3, 3.0, 100.0])  # more than are factorised one by one
KERNEL = RBF(0.8)
BASIS = np.array([20, 2, 31, 5, 14, 27, 11, 33, 8, 40, 17, 45])
EPSILON = 1e-8

every_column = pytest.mark.parametrize("columns", COLUMNS)
every_weight = pytest.mark.parametrize("weights", WEIGHTS)


def unpenalised_of(columns, weights):
    return Unpenalised.of(COLUMNS[columns], WEIGHTS[weights], NAMES[columns])


# -- the columns and the targets by themselves -----------------------------------------------------


@every_weight
@every_column
def test_columns_are_made_orthonormal(columns, weights):
    Z, w = COLUMNS[columns], WEIGHTS[weights]
    found = unpenalised_of(columns, weights)
    s, root = Z.shape[1], np.sqrt(w)
    assert found.count == s
    assert found.names == NAMES[columns]
    assert found.constant is (columns in ("no column", "bias"))
    np.testing.assert_allclose(found.Q.T @ found.Q, np.eye(s), atol=1e-14)
    np.testing.assert_allclose(found.Q, root[:, None] * found.U, atol=1e-15)
    np.testing.assert_array_equal(found.Q[w == 0], 0.0)
    # Also where a row is not trained on: its columns are known.
    np.testing.assert_allclose(found.U @ found.R, Z, atol=1e-13 * np.abs(Z).max(initial=1.0))
    np.testing.assert_array_equal(found.R, np.triu(found.R))


@every_weight
@every_column
def test_what_the_columns_answer(columns, weights):
    found, w = unpenalised_of(columns, weights), WEIGHTS[weights]
    s, rows = found.count, np.array([7, 0, 47, 7])
    rng = np.random.default_rng(1)
    B, values, along = rng.normal(size=(s, 6)), rng.normal(size=(M, 4)), rng.normal(size=(s, 2))
    for index in (rows, slice(10, 14)):
        level = np.broadcast_to(found.level(index, B), (4, 6))
        np.testing.assert_allclose(level, found.U[index] @ B, atol=1e-14)
        part = found.take(index)
        np.testing.assert_array_equal(part.U, found.U[index])
        np.testing.assert_array_equal(part.Q, found.Q[index])
        assert (part.constant, part.names) == (found.constant, found.names)
    left = found.project_out(values.copy())
    np.testing.assert_allclose(found.Q.T @ left, 0.0, atol=1e-13)
    np.testing.assert_allclose(values - left, found.Q @ (found.Q.T @ values), atol=1e-13)
    # Coordinates along Q, and coefficients of the columns Z, are the same function.
    gamma = found.coefficients(along)
    assert gamma.shape == (s, 2)
    np.testing.assert_allclose(COLUMNS[columns] @ gamma, found.U @ along, atol=1e-12)
    other = w.copy()
    other[[1, 2, 3]] = 0.0
    again = found.retrained(other)
    same = Unpenalised.of(COLUMNS[columns], other, NAMES[columns])
    signs = np.sign(np.diag(again.R) * np.diag(same.R))  # a QR factorisation is free to choose
    for name, turned in (("U", signs), ("Q", signs), ("R", signs[:, None])):
        np.testing.assert_allclose(getattr(again, name) * turned, getattr(same, name), atol=1e-12)
    assert (again.constant, again.names[:s]) == (found.constant, found.names)


@every_weight
def test_the_bias_is_the_column_of_ones(weights):
    w = WEIGHTS[weights]
    bias, none = Unpenalised.bias(w, True), Unpenalised.bias(w, False)
    assert (bias.count, none.count) == (1, 0)
    assert bias.names == ("intercept",)
    np.testing.assert_allclose(bias.Q[:, 0], np.sqrt(w / w.sum()), rtol=1e-14)
    np.testing.assert_allclose(bias.coefficients(np.array([[2.0]])), [[2.0 / np.sqrt(w.sum())]])
    # As a column like any other it spans the same.
    other = Unpenalised.of(np.c_[np.full(M, -7.0)], w)
    assert not other.constant
    np.testing.assert_allclose(np.abs(other.Q), bias.Q, rtol=1e-13)


@every_weight
@every_column
def test_targets_without_their_part_along_the_columns(columns, weights):
    w, Z = WEIGHTS[weights], COLUMNS[columns]
    found, scale = unpenalised_of(columns, weights), RowScale.of(w)
    kept = Y.copy()
    targets = Targets.of(Y, scale, found)
    assert np.array_equal(Y, kept)
    assert targets.count == 2
    s, root = found.count, np.sqrt(w)[:, None]
    gamma = np.linalg.lstsq(root * Z, root * Y, rcond=None)[0]
    np.testing.assert_allclose(targets.Y, Y - Z @ gamma, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(targets.Ys, root * targets.Y, atol=1e-14)
    np.testing.assert_array_equal(targets.Ys[w == 0], 0.0)
    assert targets.level.shape == (s, 2)
    np.testing.assert_allclose(found.Q.T @ targets.Ys, 0.0, atol=1e-12)
    np.testing.assert_allclose(found.coefficients(targets.level), gamma, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(targets.Y + found.U @ targets.level, Y, rtol=1e-13)


def test_a_large_offset_costs_no_digits():
    """With a bias y + c is predicted as y is, plus c."""
    found = unpenalised_of("bias", "none")
    small = Targets.of(Y, RowScale.of(np.ones(M)), found)
    large = Targets.of(Y + 2.0**20, RowScale.of(np.ones(M)), found)
    np.testing.assert_allclose(large.Ys, small.Ys, atol=1e-9)


@pytest.mark.parametrize(
    ("Z", "name"),
    [
        (np.c_[np.ones(M), x, 2 * x - 3], "third"),
        (np.c_[np.ones(M), np.zeros(M), x], "second"),
        (np.c_[np.zeros(M)], "first"),
        (np.c_[np.ones(M), np.full(M, 4.0)], "second"),
        (np.c_[x, np.arange(M) == 5, np.arange(M) == 20], "second"),  # weight zero at both
    ],
    ids=["combination", "zeros", "zeros alone", "two constants", "rows without weight"],
)
def test_a_column_that_the_rows_do_not_determine_is_an_error(Z, name):
    names = ("first", "second", "third")[: Z.shape[1]]
    message = f"do not determine the unpenalised {name}: .*Leave it out"
    with pytest.raises(InvalidInputError, match=message):
        Unpenalised.of(Z, WEIGHTS["zeros"], names)
    number = ("first", "second", "third").index(name)
    with pytest.raises(InvalidInputError, match=f"unpenalised column {number}"):
        Unpenalised.of(Z, WEIGHTS["zeros"])


def test_fewer_rows_than_columns_are_an_error():
    with pytest.raises(InvalidInputError, match="unpenalised curvature"):
        Unpenalised.of(COLUMNS["trend"][:2], np.ones(2), NAMES["trend"])
    with pytest.raises(InvalidInputError, match="unpenalised curvature"):
        Unpenalised.of(COLUMNS["trend"], (np.arange(M) < 2).astype(float), NAMES["trend"])


def test_columns_of_any_scale_are_determined():
    Z = COLUMNS["trend"] * np.array([1e-9, 1.0, 1e9])
    found = Unpenalised.of(Z, WEIGHTS["zeros"])
    np.testing.assert_allclose(found.Q.T @ found.Q, np.eye(3), atol=1e-13)


# -- the naive twin --------------------------------------------------------------------------------


K = np.exp(-0.8 * np.square(X[:, None] - X).sum(axis=2))


def features_of(model, basis=BASIS):
    """Return Φ of all rows, so that the penalty is α‖θ‖², by plain NumPy."""
    if model == "linear":
        return X
    if model == "dense":  # K = ΦΦᵀ
        Lambda, V = np.linalg.eigh(K)
        return V * np.sqrt(np.maximum(Lambda, 0.0))
    C = np.linalg.cholesky(K[np.ix_(basis, basis)] + EPSILON * np.eye(len(basis)))
    return np.linalg.solve(C, K[:, basis].T).T


def naive(model, columns, weights, held, removed, alpha):
    """Return predictions of all rows, and γ, by stacked least squares on the rows that are left.

    Minimises Σ w (y − φθ − zγ)² + α‖θ‖² over θ and γ: the columns Z have no penalty rows.
    """
    return _naive(TWINS[model], columns, weights, tuple(held), tuple(removed), float(alpha))


@cache
def _naive(model, columns, weights, held, removed, alpha):
    Z, w = COLUMNS[columns], WEIGHTS[weights].copy()
    w[list(held)] = 0.0
    train = np.flatnonzero(w > 0)
    Phi = features_of(model, np.delete(BASIS, np.array(removed, dtype=int)))
    root, p, s = np.sqrt(w[train])[:, None], Phi.shape[1], Z.shape[1]
    stacked = np.block(
        [[root * Phi[train], root * Z[train]], [np.sqrt(alpha) * np.eye(p), np.zeros((p, s))]]
    )
    right = np.vstack([root * Y[train], np.zeros((p, 2))])
    solution = np.linalg.lstsq(stacked, right, rcond=None)[0]
    return Phi @ solution[:p] + Z @ solution[p:], solution[p:]


def smoother_of(model, columns, weights):
    """Return the smoother of the package for the same model."""
    w, unpenalised = WEIGHTS[weights], unpenalised_of(columns, weights)
    if model == "dense":
        return KernelSmoother(KernelRows(KERNEL, X), w, Y, unpenalised)
    if model == "dense matrix":
        return KernelSmoother(KERNEL(X), w, Y, unpenalised)
    if model == "linear":
        return FeatureSmoother(ColumnFeatures(X), w, Y, unpenalised)
    features = WhitenedFeatures.of(KernelRows(KERNEL, X), BASIS, EPSILON)
    memory = 0.0 if model == "streamed" else np.inf
    return FeatureSmoother(features, w, Y, unpenalised, memory)


TWINS = {
    "sparse": "sparse",
    "streamed": "sparse",
    "linear": "linear",
    "dense": "dense",
    "dense matrix": "dense",
}
every_model = pytest.mark.parametrize("model", TWINS)

FOLDS = np.array_split(np.random.default_rng(3).permutation(M), 8)
#: (held out, tested): the held-out rows themselves, some of them, others, none held out.
EXPERIMENTS = {
    "folds": [(fold, fold) for fold in FOLDS],
    "single rows": [([i], [i]) for i in range(M)],
    "others tested": [
        ([3], [4]),
        ([7, 8, 9], [0, 8, 47]),
        ([10], [10, 5]),
        ([], [6]),
        ([], [1, 0]),
    ],
    "removed": [([6], [6]), ([20, 3, 4], [3, 20]), ([2], [2]), (BASIS[:2], [9]), (BASIS[2:8], [1])],
    "large": [(np.arange(0, 24), np.arange(0, 24)), (np.arange(6, 44), [7, 45])],
}


def tasks_of(kind, model, weights, remove):
    """Return tasks, with the held-out basis rows removed from the basis if that is asked for."""
    trained = WEIGHTS[weights] > 0
    held, removed, test = [], [], []
    for rows, tested in EXPERIMENTS[kind]:
        rows = np.asarray(rows, dtype=np.int64)
        held.append(rows[trained[rows]])
        gone = np.flatnonzero(np.isin(BASIS, rows)) if remove else np.empty(0, dtype=np.int64)
        removed.append(gone)
        test.append(np.asarray(tested, dtype=np.int64))
    return Tasks(*map(Ragged.from_arrays, (held, removed, test)), np.arange(len(held)))


@pytest.mark.parametrize("path", PATHS)
@every_weight
@every_column
@every_model
@pytest.mark.parametrize("kind", EXPERIMENTS)
def test_held_out_predictions_are_those_of_real_retraining(path, model, columns, weights, kind):
    """With basis rows removed where there are any: some tasks lose few of them, some many."""
    tasks = tasks_of(kind, model, weights, remove=TWINS[model] == "sparse")
    check(path, model, columns, weights, tasks)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("columns", ["no column", "trend and group"])
@pytest.mark.parametrize("kind", EXPERIMENTS)
def test_basis_rows_that_stay_although_they_are_held_out(path, columns, kind):
    tasks = tasks_of(kind, "sparse", "zeros", remove=False)
    check(path, "sparse", columns, "zeros", tasks)


def check(path, model, columns, weights, tasks):
    smoother = smoother_of(model, columns, weights)
    assert (model == "streamed") is (
        isinstance(smoother, FeatureSmoother) and isinstance(smoother.system().W, StreamedRows)
    )
    smoother = smoother_of(model, columns, weights)  # nothing was asked of this one before
    values = predict(smoother, tasks, ALPHAS, path)
    assert values.shape == (len(ALPHAS), tasks.test.values.size, 2)
    for j in range(len(tasks)):
        for a in (0, 2, 4):
            whole, _ = naive(
                TWINS[model], columns, weights, tasks.held[j], tasks.removed[j], ALPHAS[a]
            )
            expected = whole[tasks.test[j]]
            found = values[a, tasks.test.ptr[j] : tasks.test.ptr[j + 1]]
            context = f"task {j}, alpha {ALPHAS[a]}"
            assert relative_difference(found, expected) < 1e-9, context
    one = predict(smoother, tasks, ALPHAS[:1], path, slice(1, 2))
    assert relative_difference(one, values[:1, :, 1:]) < 1e-10


@pytest.mark.parametrize("alphas", [ALPHAS[[1, 3]], ALPHAS], ids=["few penalties", "many"])
def test_some_removed_basis_rows_take_the_algebra(alphas):
    """Tasks of every kind, few basis rows removed and many, with few penalties and many."""
    tasks = tasks_of("removed", "sparse", "zeros", remove=True)
    shares = tasks.removed.sizes / BASIS.size
    assert (shares == 0).any()
    assert ((shares > 0) & (shares < 0.25)).any()
    assert (shares >= 0.25).any()
    for path in PATHS:
        smoother = smoother_of("sparse", "trend", "zeros")
        values = predict(smoother, tasks, alphas, path)
        for j in range(len(tasks)):
            where = slice(tasks.test.ptr[j], tasks.test.ptr[j + 1])
            for a, alpha in enumerate(alphas):
                args = ("sparse", "trend", "zeros", tasks.held[j], tasks.removed[j], alpha)
                whole, _ = naive(*args)
                assert relative_difference(values[a, where], whole[tasks.test[j]]) < 1e-9


@every_weight
@every_column
@every_model
def test_the_model_on_all_rows(model, columns, weights):
    w, Z, alphas = WEIGHTS[weights], COLUMNS[columns], np.array([0.3, 0.03])
    both = [naive(model, columns, weights, (), (), alpha) for alpha in alphas]
    expected = np.column_stack([both[j][0][:, j] for j in range(2)])
    gamma = np.column_stack([both[j][1][:, j] for j in range(2)])
    asked_first = (None, "factor") if model.startswith("dense") else (None, "factor", "sets")
    for first in asked_first:
        smoother = smoother_of(model, columns, weights)
        if first == "factor":
            smoother.factor(0.03)
        elif first == "sets":
            tasks = tasks_of("folds", model, weights, remove=False).select(np.arange(3))
            predict(smoother, tasks, alphas, "fold_gram")
        fit = smoother.fit(alphas)
        assert fit.unpenalised.shape == gamma.shape
        np.testing.assert_allclose(fit.unpenalised, gamma, rtol=1e-8, atol=1e-8)
        along = Z @ fit.unpenalised
        if model == "linear":
            np.testing.assert_allclose(X @ fit.linear + along, expected, rtol=1e-9, atol=1e-9)
            found = X @ (X.T @ fit.dual) + along
        else:
            assert fit.linear is None
            rows = BASIS if TWINS[model] == "sparse" else np.arange(M)
            found = K[:, rows] @ fit.dual + along
        assert relative_difference(found, expected) < 1e-9
        if TWINS[model] != "sparse":  # c = w (y − f) / α, orthogonal to the columns
            dual = w[:, None] * (Y - expected) / alphas
            assert relative_difference(fit.dual, dual) < 1e-8
            np.testing.assert_allclose(Z.T @ fit.dual, 0.0, atol=1e-7 * np.abs(dual).max())


@every_weight
@every_column
@every_model
def test_leverages_are_derivatives_of_the_fit(model, columns, weights):
    w, Z = WEIGHTS[weights], COLUMNS[columns]
    root = np.sqrt(w)[:, None]
    Phi, alpha = features_of(TWINS[model]), 0.3
    W, Q = root * Phi, np.linalg.qr(root * Z)[0]
    W = W - Q @ (Q.T @ W)
    S = W @ np.linalg.solve(W.T @ W + alpha * np.eye(W.shape[1]), W.T) + Q @ Q.T
    for first in (False, True):
        smoother = smoother_of(model, columns, weights)
        if first:
            smoother.factor(0.03)
        np.testing.assert_allclose(smoother.leverages(alpha), np.diag(S), atol=1e-9)
    one = smoother.single(alpha)
    np.testing.assert_allclose(one.leverages(alpha), np.diag(S), atol=1e-9)


# -- hold-outs that leave a column undetermined ----------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("weights", ["none", "zeros"])
@every_model
def test_holding_a_whole_group_out_is_an_error_that_names_its_column(path, model, weights):
    """Without the group's rows nothing tells its level: no path makes one up."""
    group = np.flatnonzero(LARGE & (WEIGHTS[weights] > 0))
    other = np.array([1, 2, 3])
    for sets in ([group], [other, group], [np.append(group, [1, 2])]):
        held = Ragged.from_arrays(sets)
        tasks = Tasks(held, Ragged.empty(len(sets)), held, np.arange(len(sets)))
        smoother = smoother_of(model, "trend and group", weights)
        with pytest.raises(InvalidInputError, match="do not determine the unpenalised group"):
            predict(smoother, tasks, ALPHAS, path)
    held = Ragged.from_arrays([group[1:]])  # one row tells it
    tasks = Tasks(held, Ragged.empty(1), held, np.arange(1))
    check(path, model, "trend and group", weights, tasks)


@pytest.mark.parametrize("path", PATHS)
@every_model
def test_a_single_row_that_alone_determines_a_column(monkeypatch, path, model):
    Z = np.c_[np.ones(M), np.arange(M) == 9]
    monkeypatch.setitem(COLUMNS, "outlier", Z)
    monkeypatch.setitem(NAMES, "outlier", ("intercept", "outlier"))
    rows = Ragged.from_arrays([np.array([i]) for i in (3, 9, 12)])
    tasks = Tasks(rows, Ragged.empty(3), rows, np.arange(3))
    smoother = smoother_of(model, "outlier", "none")
    with pytest.raises(InvalidInputError, match="do not determine the unpenalised outlier"):
        predict(smoother, tasks, ALPHAS, path)


@pytest.mark.parametrize("path", PATHS)
@every_model
def test_too_few_rows_for_a_trend(path, model):
    held = Ragged.from_arrays([np.arange(2, M)])
    tasks = Tasks(held, Ragged.empty(1), held, np.arange(1))
    smoother = smoother_of(model, "trend", "none")
    with pytest.raises(InvalidInputError, match="do not determine the unpenalised curvature"):
        predict(smoother, tasks, ALPHAS, path)
