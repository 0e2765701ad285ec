"""Questions use what `fit` used: parameters that are set later, and rows that are overwritten."""

import pickle

import numpy as np
import pytest
from sklearn.model_selection import KFold, LeaveOneGroupOut, LeaveOneOut

import holdfast
from holdfast import (
    KernelMixtureCV,
    KernelRidgeClassifierCV,
    KernelRidgeCV,
)
from holdfast.exceptions import HoldfastWarning
from holdfast.kernels import RBF

RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 2))
Y = np.sin(X[:, 0]) + 0.2 * RNG.normal(size=60)
ALPHAS = np.logspace(-3, 1, 5)
GROUPS = np.arange(60) // 6

QUESTIONS = {
    "nested": lambda model: model.nested(KFold(3)).values,
    "optimism": lambda model: model.nested(KFold(3)).optimism,
    "permutations": lambda model: model.permutation_test(20, random_state=0).null_scores,
    "interval": lambda model: model.score_interval(method="asymptotic").standard_error,
    "compare": lambda model: holdfast.compare(model, OTHER).difference,
    "held out": lambda model: model.held_out().values,
    "influence": lambda model: model.influence().cook,
}
OTHER = KernelRidgeCV("linear", alphas=[1.0], cv=KFold(4)).fit(X, Y)


def fitted(**params):
    return KernelRidgeCV(gamma=[0.1, 0.5], alphas=ALPHAS, cv=KFold(4), **params).fit(X, Y)


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
def test_parameters_set_after_fit_are_for_the_next_fit(name):
    model, expected = fitted(), QUESTIONS[name](fitted())
    later = {"gamma": 5.0, "kernel": "linear", "scoring": "neg_mean_absolute_error"}
    model.set_params(cv=2, pooled=False, rule="1se", **later)
    np.testing.assert_allclose(QUESTIONS[name](model), expected, rtol=1e-9, atol=1e-12)
    assert model.get_params()["cv"] == 2  # still what was set
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(QUESTIONS[name](again), expected, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("basis", [None, 20], ids=["dense", "basis"])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
def test_rows_overwritten_after_fit_change_nothing(basis, kernel):
    def answers(model):
        return [
            model.predict_interval(X[:5]),
            model.coef_without([1, 2]).dual_coef,
            model.predict_without([1, 2]),
            model.nested(KFold(3)).values,
            model.predict(X[:5]),
        ]

    params = {"basis": basis, "alphas": [0.1, 1.0], "cv": KFold(4), "random_state": 0}
    rows = X.copy()
    model = KernelRidgeCV(kernel, **params).fit(rows, Y)
    expected = answers(KernelRidgeCV(kernel, **params).fit(X, Y))
    rows[:] = 0.0
    for one, other in zip(answers(model), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def test_one_private_value_is_kept():
    both = {"a": RBF(0.2), "b": RBF(2.0)}
    for model, y in (
        (KernelRidgeCV(alphas=[0.1]), Y),
        (KernelRidgeClassifierCV(alphas=[0.1], calibration="sigmoid"), Y > 0),
        (KernelMixtureCV(both, n_draws=3, alphas=[0.1]), Y),
        (KernelMixtureCV(both, n_draws=3, alphas=[0.1], weights_per_target=True), np.c_[Y, -Y]),
    ):
        assert [name for name in vars(model.fit(X, y)) if name.startswith("_")] == ["_fitted"]


def test_rows_on_disk_are_not_copied(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    model = KernelRidgeCV(basis=20, cv=4, random_state=0).fit(mapped, Y)
    assert np.shares_memory(model._training.X, mapped)
    frugal = KernelRidgeCV(basis=20, cv=4, random_state=0, memory_limit=1000).fit(X, Y)
    assert np.shares_memory(frugal._training.X, X)  # a copy would not fit into the limit


def test_groups_without_cv_are_told():
    with pytest.warns(HoldfastWarning, match=r"cv=LeaveOneGroupOut\(\)"):
        KernelRidgeCV(alphas=[0.1]).fit(X, Y, groups=GROUPS)
    with pytest.warns(HoldfastWarning, match=r"cv=LeaveOneGroupOut\(\)"):
        KernelRidgeClassifierCV(alphas=[0.1]).fit(X, Y > 0, groups=GROUPS)
    for cv in (LeaveOneGroupOut(), LeaveOneOut(), 5):
        KernelRidgeCV(alphas=[0.1], cv=cv).fit(X, Y, groups=GROUPS)
    KernelRidgeCV(alphas=[0.1]).fit(X, Y, groups=np.arange(60))  # every row its own group
