"""Several draws of the basis rows in one sequence of experiments (Pahikkala et al. 2012 (6))."""

import numpy as np
import pytest
from sklearn.model_selection import KFold

from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.basis import PerGroup, Points, Random
from holdfast.exceptions import InvalidInputError, NotSupportedError
from holdfast.kernels import RBF
from reference.retrain import policy_experiment, retrain
from tolerances import assert_close

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")

M, DRAWS = 40, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(M, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=M)
ALPHAS = np.array([0.01, 1.0])
FOLDS = [test for _, test in KFold(4).split(X)]
DRAWN: list[np.ndarray] = []


class Watched(Random):
    """Random rows that are written down, in the numbers of all rows."""

    def select(self, data, *args, **kwargs):
        rows = super().select(data, *args, **kwargs)
        places = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in data.X[rows]]
        DRAWN.append(np.array(places))
        return rows


def fitted(policy, **options):
    DRAWN.clear()
    options = {"gamma": 0.3, "alphas": ALPHAS, "cv": 4, "basis": Watched(8), **options}
    return KernelRidgeCV(held_out_basis=policy, random_state=1, **options).fit(X, Y)


@pytest.mark.parametrize("policy", ["remove", "keep", "train", "skip"])
def test_every_draw_is_retrained_on_its_basis(policy):
    model = fitted(policy)
    found = model.held_out(basis_draws=DRAWS)
    assert len(DRAWN) == DRAWS
    assert len({tuple(rows) for rows in DRAWN}) == DRAWS
    np.testing.assert_array_equal(DRAWN[0], model.basis_indices_)
    assert len(found.experiments) == DRAWS * 4
    K, at = RBF(0.3)(X), 0
    for basis in DRAWN:
        for fold in FOLDS:
            H, T, removed = policy_experiment(fold, fold, basis, policy)
            np.testing.assert_array_equal(found.experiments[at].test, T)
            got = found.predictions[at]
            for a, alpha in enumerate(ALPHAS):
                expected = retrain(K, Y, H, T, alpha, basis, removed, jitter=model.jitter_)
                assert_close(got[a], expected, "retraining", (policy, alpha))
            at += 1


def test_every_experiment_draws_for_itself():
    model = fitted("reselect")
    DRAWN.clear()
    experiments = model._problem.experiments  # named, so that nothing kept by `fit` is used
    found = model.held_out(experiments, basis_draws=DRAWS)
    assert len({tuple(rows) for rows in DRAWN}) == DRAWS * 4
    K = RBF(0.3)(X)
    for j, basis in enumerate(DRAWN):
        fold = FOLDS[j % 4]
        assert not np.isin(basis, fold).any()
        expected = retrain(K, Y, fold, fold, ALPHAS[0], basis, jitter=1e-10)
        assert_close(found.predictions[j][0], expected, "retraining", j)


@pytest.mark.parametrize("policy", ["remove", "reselect"])
def test_one_draw_is_that_of_the_fit_and_scores_average(policy):
    model = fitted(policy)
    one, several = model.held_out(), model.held_out(basis_draws=DRAWS)
    np.testing.assert_array_equal(several.values[:, :M], one.values)
    np.testing.assert_array_equal(model.held_out(basis_draws=DRAWS).values, several.values)
    errors = np.square(np.tile(Y, DRAWS) - several.values[:, :, 0])
    assert_close(several.score(), -errors.mean(axis=1), "law")
    assert several.to_frame()["experiment"].nunique() == DRAWS * 4
    with pytest.raises(NotSupportedError, match="one draw of the basis"):
        several.std  # noqa: B018  # asking is the point


def test_classes_groups_and_another_split():
    labels, groups = np.where(Y > 0, "up", "down"), np.arange(M) % 10
    judge = KernelRidgeClassifierCV(
        gamma=0.3, alphas=ALPHAS, basis=PerGroup(1), cv=4, held_out_basis="keep", random_state=0
    ).fit(X, labels, groups=groups)
    found = judge.held_out(cv=KFold(5), basis_draws=3)
    assert found.values.shape == (2, 3 * M, 1)
    assert found.score("accuracy").shape == (2,)


def test_what_is_not_drawn():
    for basis in (None, [1, 2, 3, 4, 5, 12, 25, 33], Points(X[:5] + 0.1)):
        model = fitted("keep", basis=basis)
        with pytest.raises(NotSupportedError, match="basis rows that are drawn"):
            model.held_out(basis_draws=2)
    with pytest.raises(InvalidInputError, match="basis_draws"):
        model.held_out(basis_draws=0)
