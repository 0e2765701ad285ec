"""An answer does not depend on what was asked before.

Every ordered pair of public questions: the second answer is that of a fresh model that was asked
nothing. Models whose columns have different units are those that once answered otherwise.
"""

from __future__ import annotations

import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
from sklearn.model_selection import KFold

from holdfast import KernelRidgeCV
from holdfast.exceptions import HoldfastWarning

M, D = 60, 5
RNG = np.random.default_rng(17)
#: Columns in units from thousandths to billions, some far from zero.
X = RNG.normal(size=(M, D)) * [1e-3, 1.0, 1e3, 1e6, 1e9] + [0.0, 5.0, 2e4, 0.0, 3e9]
Z = (X - X.mean(axis=0)) / X.std(axis=0)
Y = Z @ [1.0, -0.5, 0.3, 0.2, 0.1] + np.sin(2.0 * Z[:, 0]) + 0.2 * RNG.normal(size=M)
WEIGHTS = RNG.uniform(0.2, 3.0, size=M)
SPREAD = Y.std()
ROWS = np.array([3, 17, 40, 41])
TOLERANCE = 1e-8

#: Rows, and what the model is.
MODELS = {
    "linear": (X, {"kernel": "linear", "alphas": np.logspace(-2, 4, 5)}),
    "dense": (Z, {"kernel": "rbf", "gamma": 0.1, "alphas": np.logspace(-3, 1, 5)}),
    "basis": (Z, {"kernel": "rbf", "gamma": 0.1, "alphas": np.logspace(-3, 1, 5),
                  "basis": np.arange(0, M, 3)}),
}  # fmt: skip

LIVES = ("auto", "per_fold", "cholesky", "pickled")

#: The questions: from a model and its rows to numbers. Predictions are over the spread of y.
QUESTIONS = {
    "held_out": lambda model, X: model.held_out().values / SPREAD,
    "leave one out": lambda model, X: model.held_out(cv=M).values / SPREAD,
    "five folds": lambda model, X: model.held_out(cv=KFold(5)).values / SPREAD,
    "smaller penalties": lambda model, X: (
        model.held_out(alphas=model.alphas_[:2] / 30.0).values / SPREAD
    ),
    "predict_without": lambda model, X: model.predict_without(ROWS, X[::7]) / SPREAD,
    "coef_without": lambda model, X: predicted_by(model.coef_without(ROWS), model, X) / SPREAD,
    "predict_interval": lambda model, X: model.predict_interval(X[::9] * 1.001) / SPREAD,
    "influence": lambda model, X: np.stack(
        [(found := model.influence()).leverage, found.residual, found.cook]
    ),
    "nested": lambda model, X: np.concatenate(model.nested(KFold(4)).predictions) / SPREAD,
    "permutation_test": lambda model, X: np.append(
        (found := model.permutation_test(9, random_state=0)).null_scores, found.score
    ) / SPREAD**2,
    "std": lambda model, X: np.append(
        model.predict(X[::8], return_std=True)[1], np.sqrt(model.noise_variance_)
    ) / SPREAD,
    "score_interval": lambda model, X: np.array(
        [(found := model.score_interval(n_splits=4, n_partitions=2, random_state=0)).low,
         found.high, found.score]
    ) / SPREAD**2,
    "verify": lambda model, X: model.verify(3).relative_errors,
}  # fmt: skip


def predicted_by(found, model, X):
    """Return predictions by published coefficients: columns of different units become one."""
    if found.coef is not None:
        return X[::7] @ found.coef + found.intercept
    return model.kernel_(X[::7], X[model.basis_indices_]) @ found.dual_coef + found.intercept


def fitted(name, weighted, life):
    """Return a fitted model."""
    rows, options = MODELS[name]
    path = life if life in ("per_fold", "cholesky") else "auto"
    cv = KFold(6) if life == "per_fold" else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HoldfastWarning)
        model = KernelRidgeCV(**options, path=path, cv=cv)
        return model.fit(rows, Y, sample_weight=WEIGHTS if weighted else None)


@cache
def as_bytes(name, weighted):
    return pickle.dumps(fitted(name, weighted, "auto"))


def fresh(name, weighted, life):
    """Return a model that was asked nothing yet."""
    if life == "pickled":
        return pickle.loads(as_bytes(name, weighted))
    return fitted(name, weighted, life)


def answered(question, model, name):
    return np.asarray(QUESTIONS[question](model, MODELS[name][0]), dtype=float)


def ask(question, model, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HoldfastWarning)
        return answered(question, model, name)


@pytest.fixture(scope="module")
def alone():
    """Answers of models that were asked nothing else."""

    @cache
    def answer(name, weighted, life, question):
        return ask(question, fresh(name, weighted, life), name)

    return answer


def seconds(name, life, first):
    """Return which questions come second: all for linear models, else a Latin square's share."""
    asked = list(QUESTIONS)
    if name == "linear":
        return asked
    return asked[(asked.index(first) + LIVES.index(life)) % len(LIVES) :: len(LIVES)]


@pytest.mark.parametrize("first", QUESTIONS)
@pytest.mark.parametrize("life", LIVES)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weights"])
@pytest.mark.parametrize("name", MODELS)
def test_the_second_answer_is_that_of_a_fresh_model(name, weighted, life, first, alone):
    wrong = {}
    for second in seconds(name, life, first):
        model = fresh(name, weighted, life)
        ask(first, model, name)
        error = np.abs(ask(second, model, name) - alone(name, weighted, life, second)).max()
        if not error <= TOLERANCE:
            wrong[second] = f"{error:.1e}"
    assert not wrong, f"after {first}"


@pytest.mark.parametrize("life", ["auto", "pickled"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weights"])
@pytest.mark.parametrize("name", MODELS)
def test_two_threads_ask_one_model(name, weighted, life, alone):
    asked = list(QUESTIONS)
    model = fresh(name, weighted, life)
    # Filters of warnings belong to the process, so they are set once for both threads.
    with warnings.catch_warnings(), ThreadPoolExecutor(2) as pool:
        warnings.simplefilter("ignore", HoldfastWarning)
        found = list(pool.map(lambda question: answered(question, model, name), asked))
    for question, answer in zip(asked, found, strict=True):
        error = np.abs(answer - alone(name, weighted, life, question)).max()
        assert error <= TOLERANCE, f"{question}: {error:.1e}"


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weights"])
@pytest.mark.parametrize("name", MODELS)
def test_lives_differ_in_nothing_but_rounding(name, weighted, alone):
    """Saving and pickling change nothing; paths that retrain or factorise give the same numbers."""
    for question in ("leave one out", "five folds", "predict_without", "coef_without", "influence"):
        expected = alone(name, weighted, "auto", question)
        for life in ("pickled", "cholesky"):
            error = np.abs(alone(name, weighted, life, question) - expected).max()
            assert error <= TOLERANCE, f"{question}, {life}: {error:.1e}"
