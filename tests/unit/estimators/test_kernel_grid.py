"""A grid of kernels: shared work, one table, progress, interruption."""

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics import make_scorer, mean_squared_error
from sklearn.model_selection import RepeatedKFold

from holdfast import KernelRidgeCV
from holdfast.basis import FeatureVectors, Random
from holdfast.exceptions import GridEdgeWarning, InvalidInputError, KernelError
from holdfast.kernels import RBF, Linear, Matern
from holdfast.progress import listening

SEED = 20
RNG = np.random.default_rng(SEED)
M, D = 60, 3
X = RNG.normal(size=(M, D))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * RNG.normal(size=M)
ALPHAS = np.logspace(-3, 1, 5)
GAMMAS = [0.01, 0.1, 0.5, 2.0]

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")


def model(**options):
    return KernelRidgeCV(**{"alphas": ALPHAS, "cv": 5, "random_state": 3, **options})


# -- the grid is separate fits ---------------------------------------------------------------------


@pytest.mark.parametrize("basis", [None, 12, [0, 5, 9, 17, 33, 48]])
@pytest.mark.parametrize("kernel", ["rbf", "matern32", "laplacian"])
def test_a_grid_of_widths_is_separate_fits(kernel, basis):
    grid = model(kernel=kernel, gamma=GAMMAS, basis=basis).fit(X, Y)
    fits = [model(kernel=kernel, gamma=gamma, basis=basis).fit(X, Y) for gamma in GAMMAS]
    for key in ("mean", "std", "se", "pooled"):
        expected = np.concatenate([fit.cv_results_[f"{key}_test_score"] for fit in fits])
        np.testing.assert_allclose(
            grid.cv_results_[f"{key}_test_score"], expected, rtol=1e-9, atol=1e-12
        )
    best = max(fits, key=lambda fit: fit.best_score_)
    assert grid.best_params_ == {"kernel": kernel, "gamma": best.gamma, "alpha": best.alpha_}
    assert grid.kernel_ == best.kernel_
    assert grid.alpha_ == best.alpha_
    np.testing.assert_allclose(grid.predict(X[:7]), best.predict(X[:7]), rtol=1e-8)
    np.testing.assert_allclose(grid.held_out().values, best.held_out().values, rtol=1e-7)
    np.testing.assert_array_equal(grid.basis_indices_, best.basis_indices_)
    assert grid.verify().max_relative_error < 1e-9


def test_a_grid_of_kernels_and_their_parameters():
    grid = model(kernel=["linear", "rbf", "poly"], gamma=[0.1, 0.5], degree=[2, 3], coef0=1.0)
    grid.fit(X, Y)
    # linear takes none of them, rbf takes gamma, poly takes all.
    a = ALPHAS.size
    assert len(grid.cv_results_["alpha"]) == (1 + 2 + 4) * a
    assert list(grid.cv_results_["param_kernel"][::a]) == ["linear", "rbf", "rbf"] + ["poly"] * 4
    assert list(grid.cv_results_["param_gamma"][::a]) == [None, 0.1, 0.5, 0.1, 0.1, 0.5, 0.5]
    assert list(grid.cv_results_["param_degree"][::a]) == [None] * 3 + [2, 3, 2, 3]
    poly = model(kernel="poly", gamma=0.5, degree=2).fit(X, Y)
    np.testing.assert_allclose(
        grid.cv_results_["pooled_test_score"][5 * a : 6 * a],
        poly.cv_results_["pooled_test_score"],
        rtol=1e-9,
    )


def test_a_list_of_kernel_objects_and_callables():
    def inner(A, B):
        return A @ B.T

    kernels = [RBF(0.5), Matern(1.5, 0.5), Linear() + RBF(0.1), inner, gp.RBF(1.2)]
    grid = model(kernel=kernels).fit(X, Y)
    fits = [model(kernel=kernel).fit(X, Y) for kernel in kernels]
    expected = np.concatenate([fit.cv_results_["pooled_test_score"] for fit in fits])
    np.testing.assert_allclose(grid.cv_results_["pooled_test_score"], expected, rtol=1e-8)
    assert grid.best_params_["kernel"] is kernels[int(np.argmax([f.best_score_ for f in fits]))]


def test_the_table():
    grid = model(gamma=GAMMAS, pooled=False).fit(X, Y)
    results, a = grid.cv_results_, ALPHAS.size
    assert all(len(column) == len(GAMMAS) * a for column in results.values())
    assert {f"split{i}_test_score" for i in range(5)} <= results.keys()
    np.testing.assert_array_equal(results["alpha"], np.tile(ALPHAS, len(GAMMAS)))
    assert results["params"][a] == {"kernel": "rbf", "gamma": 0.1, "alpha": ALPHAS[0]}
    splits = np.array([results[f"split{i}_test_score"] for i in range(5)])
    np.testing.assert_allclose(splits.mean(axis=0), results["mean_test_score"], rtol=1e-12)
    order = results["mean_test_score"]
    expected = [1 + sum(other > value for other in order) for value in order]
    assert results["rank_test_score"].tolist() == expected
    # best_index_ counts in this table, as in scikit-learn's searches.
    assert results["rank_test_score"][grid.best_index_] == 1
    assert results["mean_test_score"][grid.best_index_] == grid.best_score_
    assert results["params"][grid.best_index_] == grid.best_params_
    assert results["param_alpha"][grid.best_index_] == grid.best_params_["alpha"] == grid.alpha_
    assert results["param_gamma"][grid.best_index_] == grid.best_params_["gamma"]
    import pandas as pd

    assert len(pd.DataFrame(results)) == len(GAMMAS) * a


def test_undefined_scores_come_last():
    def loss(y, p):
        return np.nan if p.var() > 0.3 else -np.var(p)

    grid = model(gamma=[0.01, 0.5], scoring=make_scorer(loss)).fit(X, Y)
    shown, ranks = grid.cv_results_["pooled_test_score"], grid.cv_results_["rank_test_score"]
    undefined = np.isnan(shown)
    assert 0 < undefined.sum() < shown.size
    assert ranks[~undefined].max() < ranks[undefined].min()


def test_one_standard_error_is_counted_within_the_best_kernel():
    """The kernel by its best score; then the largest penalty within one standard error."""
    best, grid = (model(gamma=GAMMAS, rule=rule).fit(X, Y) for rule in ("best", "1se"))
    assert grid.best_params_["gamma"] == best.best_params_["gamma"]
    assert grid.alpha_ >= best.alpha_
    single = model(gamma=best.best_params_["gamma"], rule="1se").fit(X, Y)
    assert grid.alpha_ == single.alpha_
    assert grid.best_score_ == pytest.approx(single.best_score_, rel=1e-9)


def test_one_penalty_per_target_on_a_grid():
    Y2 = np.c_[Y, RNG.normal(size=M), X[:, 1] ** 2]
    grid = model(gamma=GAMMAS, alpha_per_target=True).fit(X, Y2)
    fits = [model(gamma=gamma, alpha_per_target=True).fit(X, Y2) for gamma in GAMMAS]
    best = max(fits, key=lambda fit: fit.best_score_.mean())
    assert grid.best_params_["gamma"] == best.gamma
    np.testing.assert_array_equal(grid.alpha_, best.alpha_)
    shown = grid.cv_results_["target_test_score"]
    np.testing.assert_allclose(shown[grid.best_index_, np.arange(3)], grid.best_score_, rtol=1e-12)


def test_the_edge_of_the_grid_is_said_once_and_of_the_winner():
    with pytest.warns(GridEdgeWarning) as caught:
        model(gamma=GAMMAS, alphas=[1e2, 1e3]).fit(X, Y)
    assert len(caught) == 1
    assert caught[0].filename == __file__


# -- what is shared --------------------------------------------------------------------------------


def test_room_for_the_distances_changes_nothing():
    small = model(gamma=GAMMAS, basis=15, memory_limit=8 * M * 16).fit(X, Y)
    large = model(gamma=GAMMAS, basis=15).fit(X, Y)
    np.testing.assert_allclose(
        small.cv_results_["pooled_test_score"], large.cv_results_["pooled_test_score"], rtol=1e-9
    )


def test_random_basis_rows_are_chosen_once():
    chosen = []

    class Counting(Random):
        def _choose(self, pool):
            rows = super()._choose(pool)
            chosen.append(rows)
            return rows

    grid = model(gamma=GAMMAS, basis=Counting(9)).fit(X, Y)
    assert len(chosen) == 1
    np.testing.assert_array_equal(grid.basis_indices_, chosen[0])


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.SelectionBiasWarning")
def test_a_selector_that_looks_at_the_kernel_chooses_for_each_and_the_winner_is_shown():
    selector = FeatureVectors(max_size=8)
    grid = model(gamma=GAMMAS, basis=selector).fit(X, Y)
    alone = model(gamma=grid.best_params_["gamma"], basis=FeatureVectors(max_size=8)).fit(X, Y)
    np.testing.assert_array_equal(grid.basis_indices_, alone.basis_indices_)
    others = [
        model(gamma=gamma, basis=FeatureVectors(max_size=8)).fit(X, Y).basis_indices_.tolist()
        for gamma in GAMMAS
    ]
    assert len({tuple(rows) for rows in others}) > 1
    # The selector of the winner, with what it learned; the user's own is as it was.
    assert vars(grid.basis_selector_).keys() == vars(alone.basis_selector_).keys()
    for name, value in vars(alone.basis_selector_).items():
        np.testing.assert_array_equal(getattr(grid.basis_selector_, name), value)
    assert vars(selector) == vars(FeatureVectors(max_size=8))


def test_the_scores_of_very_many_experiments_are_not_kept():
    grid = model(gamma=GAMMAS, cv=RepeatedKFold(n_splits=5, n_repeats=21)).fit(X, Y)
    assert "split0_test_score" not in grid.cv_results_
    assert np.isfinite(grid.cv_results_["std_test_score"]).all()


# -- progress and interruption ---------------------------------------------------------------------


def test_progress_counts_kernels():
    heard = []
    with listening(lambda done, total, text: heard.append((done, total, text))):
        model(gamma=GAMMAS).fit(X, Y)
    assert [(d, t) for d, t, text in heard if text == "kernels"] == [(k, 4) for k in range(5)]


def interrupt_after(k):
    """A listener that presses Ctrl-C, once, when k kernels are finished."""
    pressed = []

    def listener(done, total, text):
        if text == "kernels" and done == k and not pressed:
            pressed.append(done)
            raise KeyboardInterrupt

    return listener


@pytest.mark.parametrize("k", [0, 2])
def test_ctrl_c_ends_the_fit(k):
    unfitted = model(gamma=GAMMAS)
    with pytest.raises(KeyboardInterrupt), listening(interrupt_after(k)):
        unfitted.fit(X, Y)
    assert not hasattr(unfitted, "alpha_")


# -- what a grid refuses ---------------------------------------------------------------------------


def test_a_kernel_of_the_grid_that_fails_is_named():
    def broken(A, B):
        return np.full((len(A), len(B)), np.nan)

    grid = model(kernel=["rbf", broken])
    with pytest.raises(KernelError, match="kernel broken must return finite values"):
        grid.fit(X, Y)
    assert not hasattr(grid, "alpha_")


def test_objects_need_kernels_that_take_them():
    words = np.array(["ab", "bc", "cd", "da"] * 5, dtype=object)

    def letters(A, B):
        return np.array([[float(len(set(a) & set(b))) for b in B] for a in A])

    with pytest.raises(InvalidInputError, match="number of features is unknown"):
        model(kernel=[letters, "rbf"]).fit(words, np.arange(20.0))
    fitted = model(kernel=[letters, lambda A, B: letters(A, B) ** 2]).fit(words, np.arange(20.0))
    assert fitted.predict(words).shape == (20,)
    assert mean_squared_error(np.arange(20.0), fitted.predict(words)) < np.var(np.arange(20.0))
