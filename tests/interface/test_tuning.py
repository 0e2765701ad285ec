"""tune: the best of all its trials, each of which has the score of real refits."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import GroupKFold, KFold

from holdfast import KernelRidgeClassifierCV, KernelRidgeCV, tune
from holdfast.basis import Random
from holdfast.exceptions import GridEdgeWarning, InvalidInputError, NotSupportedError
from holdfast.kernels import RBF, Linear, OnColumns, Polynomial
from reference.retrain import retrain_all

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")

M = 60
RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(M, 2))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * RNG.normal(size=M)
GROUPS, WEIGHTS = np.arange(M) // 5, RNG.integers(1, 4, size=M).astype(float)


def test_the_score_is_that_of_refits():
    """By refitting each fold in plain NumPy, with the parameters that were found."""
    result = tune(KernelRidgeCV(cv=KFold(5)), X, Y, random_state=0)
    gamma, alpha = result.params["gamma"], result.params["alpha"]
    K = np.exp(-gamma * ((X[:, None] - X) ** 2).sum(axis=2))
    squares = 0.0
    for train, test in KFold(5).split(X):
        system = np.block([
            [K[np.ix_(train, train)] + alpha * np.eye(train.size), np.ones((train.size, 1))],
            [np.ones((1, train.size)), np.zeros((1, 1))],
        ])  # fmt: skip
        found = np.linalg.solve(system, np.append(Y[train], 0.0))
        squares += ((Y[test] - K[np.ix_(test, train)] @ found[:-1] - found[-1]) ** 2).sum()
    assert result.score == pytest.approx(-squares / M, rel=1e-8)
    assert result.model.best_score_ == result.score


def test_it_beats_every_point_of_a_fine_grid():
    grid = KernelRidgeCV(gamma=np.logspace(-2, 1.5, 12), alphas=np.logspace(-5, 1, 25), cv=5)
    best = grid.fit(X, Y).best_score_
    assert tune(KernelRidgeCV(cv=5), X, Y, random_state=0).score >= best


@pytest.mark.parametrize(
    "model",
    [
        KernelRidgeCV(basis=20, cv=6, scoring="neg_mean_absolute_error"),
        KernelRidgeCV(basis=Random(15), cv=GroupKFold(4), random_state=1, scoring="r2"),
        KernelRidgeCV("matern52", cv=KFold(4, shuffle=True), pooled=False),
        KernelRidgeCV(RBF(0.5) * Linear() + 2.0 * OnColumns(RBF(1.0), [0]), cv=4),
        KernelRidgeCV("linear", standardize=True),
        KernelRidgeCV(scoring="log_density", cv=4),
        KernelRidgeClassifierCV(basis=20, cv=4, calibration="sigmoid"),
    ],
    ids=["basis", "groups", "mean of folds", "expression", "penalty only", "density", "classes"],
)
def test_any_model_score_and_way_of_holding_out(model):
    y = Y > 0 if isinstance(model, KernelRidgeClassifierCV) else Y
    options = {"n_starts": 1, "max_trials": 60, "random_state": 3}
    before = model.get_params()
    result = tune(model, X, y, WEIGHTS, GROUPS, **options)
    assert model.get_params() == before
    assert not hasattr(model, "alpha_")
    again = type(model)(**result.model.get_params(deep=False)).fit(X, y, WEIGHTS, GROUPS)
    assert again.best_score_ == result.score == result.trials["score"].max()
    scores = result.trials["score"]
    assert result.score > scores[0] or scores.size < 60
    assert result.model.alpha_ == result.params["alpha"]
    assert tune(model, X, y, WEIGHTS, GROUPS, **options).params == result.params
    assert result.model.predict(X).shape == y.shape


def test_names_and_bounds():
    kernel = 3.0 * RBF(0.5) + 2.0 * (RBF(1.0) + 1.0)
    names = {"alpha", "k1__kernel__gamma", "k2__factor", "k2__kernel__k1__gamma"}
    result = tune(KernelRidgeCV(kernel, cv=3), X, Y, max_trials=20)
    assert set(result.params) == names | {"k2__kernel__k2__value"}
    assert result.model.kernel_.kernels[0].factor == 3.0  # the penalty does the same
    inside = tune(KernelRidgeCV(cv=3), X, Y, bounds={"gamma": (2.0, 3.0)}, max_trials=40)
    assert all(2.0 <= gamma <= 3.0 + 1e-12 for gamma in inside.trials["gamma"])
    fixed = tune(KernelRidgeCV(cv=3), X, Y, bounds={"gamma": (0.5, 0.5)}, max_trials=40)
    assert set(fixed.trials["gamma"].round(12)) == {0.5}
    power = KernelRidgeCV(Polynomial(2, 0.5, coef0=1.0), cv=3)
    assert "coef0" in tune(power, X, Y, bounds={"coef0": (0.1, 10.0)}, max_trials=20).params
    penalty = KernelRidgeCV(lambda A, B: A @ B.T, cv=3)
    assert set(tune(penalty, X, Y, max_trials=20).params) == {"alpha"}
    matrix = KernelRidgeCV("precomputed", cv=3)
    assert set(tune(matrix, X @ X.T, Y, max_trials=20).params) == {"alpha"}


def test_a_bound_that_was_met_is_told():
    with pytest.warns(GridEdgeWarning):
        tune(KernelRidgeCV(cv=3), X, Y, bounds={"gamma": (20.0, 30.0)})


def test_sparse_rows_and_several_targets():
    dense = tune(KernelRidgeCV(cv=4), X, np.c_[Y, X[:, 0]], n_starts=1)
    rows = tune(KernelRidgeCV(cv=4), sp.csr_array(X), np.c_[Y, X[:, 0]], n_starts=1)
    assert rows.score == pytest.approx(dense.score, rel=1e-4)
    assert dense.model.predict(X).shape == (M, 2)


def test_an_iterator_of_splits_serves_every_trial():
    pairs = ((np.delete(np.arange(M), rows), rows) for rows in np.array_split(np.arange(M), 3))
    assert tune(KernelRidgeCV(cv=pairs), X, Y, max_trials=20).model.n_splits_ == 3


def test_trials_are_a_table():
    result = tune(KernelRidgeCV(cv=4), X, Y, max_trials=30)
    assert {len(column) for column in result.trials.values()} == {result.trials["score"].size}
    assert "gamma=" in repr(result)


@pytest.mark.parametrize(
    ("model", "more", "error", "argument"),
    [
        (KernelRidgeCV(gamma=[0.1, 1.0]), {}, NotSupportedError, "gamma"),
        (KernelRidgeCV(["rbf", "linear"]), {}, NotSupportedError, "kernel"),
        (KernelRidgeCV(alpha_per_target=True), {}, NotSupportedError, "alpha_per_target"),
        (KernelRidgeCV, {}, InvalidInputError, "model"),
        (KernelRidgeCV(), {"bounds": {"nu": (1, 2)}}, InvalidInputError, "bounds"),
        (KernelRidgeCV(), {"bounds": {"gamma": (2, 1)}}, InvalidInputError, "bounds"),
        (KernelRidgeCV(), {"bounds": {"gamma": (0, 1)}}, InvalidInputError, "bounds"),
        (KernelRidgeCV(), {"n_starts": 0}, InvalidInputError, "n_starts"),
    ],
)
def test_refusals(model, more, error, argument):
    with pytest.raises(error) as caught:
        tune(model, X, Y, **more)
    assert caught.value.argument == argument


def test_the_sparse_lssvm_of_cawley_and_talbot():
    """Paper 002 §3.1: 15 basis vectors, ten folds, penalty and width by Nelder and Mead's simplex.

    On data like the motorcycle's: flat, then a swing whose noise grows.
    """
    time = np.sort(RNG.uniform(2.0, 57.0, size=133))[:, None]
    swing = -120.0 * np.exp(-((time[:, 0] - 22.0) ** 2) / 30.0) + 40.0 * np.exp(
        -((time[:, 0] - 32.0) ** 2) / 40.0
    )
    head = swing + RNG.normal(size=133) * np.where(time[:, 0] < 14.0, 1.0, 20.0)
    folds, basis = KFold(10, shuffle=True, random_state=0), np.arange(4, 133, 9)
    model = KernelRidgeCV(basis=basis, cv=folds, held_out_basis="keep")
    result = tune(model, time, head, random_state=0)
    grid = {"gamma": np.logspace(-3.5, -0.5, 10), "alphas": np.logspace(-5, 1, 13)}
    assert result.score >= model.set_params(**grid).fit(time, head).best_score_
    K = np.exp(-result.params["gamma"] * (time - time.T) ** 2)
    tests = [test for _, test in folds.split(time)]
    predicted = retrain_all(
        K,
        head,
        [(test, test) for test in tests],
        [result.params["alpha"]],
        basis,
        "keep",
        jitter=result.model.jitter_,
    )
    errors = [head[test] - one[0, :, 0] for test, one in zip(tests, predicted, strict=True)]
    assert result.score == pytest.approx(-(np.concatenate(errors) ** 2).mean(), rel=1e-7)
