"""Laws that held-out predictions obey whatever the data: found false, Hypothesis prints the case.

A case is a seed and a few sizes; ``@reproduce_failure`` and the drawn ``Case`` in the output repeat
it. Examples are derandomised, so that a run is the same everywhere.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, LeaveOneOut

from holdfast import HoldOut, KernelRidgeCV
from reference.retrain import PATHS
from tolerances import assert_close

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
# The same cases every time; HOLDFAST_LAWS=2000 draws that many fresh ones and prints their seeds.
FRESH = int(os.environ.get("HOLDFAST_LAWS", "0"))
law = settings(
    max_examples=FRESH or 25,
    deadline=None,
    derandomize=not FRESH,
    print_blob=True,
    database=None,
)

ALPHAS = np.array([1e-2, 1.0, 30.0])
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A model, data and experiments; the arrays follow from the seed."""

    seed: int
    X: Floats
    y: Floats
    weights: Floats
    basis: NDArray[np.int64] | None
    experiments: list[HoldOut]
    policy: str
    bias: bool
    path: str
    kernel: str = "laplacian"

    def __repr__(self) -> str:
        n = None if self.basis is None else self.basis.tolist()
        return (
            f"Case(seed={self.seed}, X{self.X.shape}, y{self.y.shape}, basis={n}, "
            f"zero weights={np.flatnonzero(self.weights == 0).tolist()}, {self.policy}, "
            f"bias={self.bias}, {self.path}, {self.kernel}, {self.experiments})"
        )

    def estimator(self, **changes):
        params = {
            "kernel": self.kernel,
            "gamma": 0.4,
            "alphas": ALPHAS,
            "basis": self.basis,
            "held_out_basis": self.policy,
            "fit_intercept": self.bias,
            "path": self.path,
        }
        return KernelRidgeCV(**{**params, **changes})

    def predictions(self, **changes) -> Floats:
        """Return (alphas, test rows, targets) for the experiments."""
        model = self.estimator(**changes).fit(self.X, self.y, sample_weight=self.weights)
        return model.held_out(self.experiments).values


@st.composite
def cases(draw, sparse=None, policies=("remove", "keep", "train"), kernel=None):
    """Draw a case. Two rows, one of them in the basis, always train, so that no split is empty."""
    seed = draw(st.integers(0, 2**32 - 1))
    m, d = draw(st.integers(8, 24)), draw(st.integers(1, 4))
    v, bias, path = draw(st.integers(1, 3)), draw(st.booleans()), draw(st.sampled_from(PATHS))
    is_sparse = draw(st.booleans()) if sparse is None else sparse
    # A large basis that loses less than a quarter of itself: removal by algebra, not by training.
    large = is_sparse and draw(st.booleans())
    m = 4 * m if large else m
    weighting = draw(st.sampled_from(["ones", "random", "zeros"]))
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d))
    y = 2.0 + X @ rng.normal(size=(d, v)) + rng.normal(size=(m, v))
    order = rng.permutation(m)
    basis = order[: draw(st.integers(2, m // 2))] if is_sparse else None
    always = order[[0, -1]]
    weights = np.ones(m) if weighting == "ones" else rng.uniform(0.3, 3.0, m)
    if weighting == "zeros":
        weights[np.setdiff1d(rng.permutation(m)[: m // 4], always)] = 0.0
    others = np.setdiff1d(np.arange(m), always)
    experiments = []
    for _ in range(draw(st.integers(1, 4))):
        held = rng.permutation(others)[: draw(st.integers(1, m // 6 if large else m - 2))]
        experiments.append(HoldOut(held, held[: rng.integers(1, held.size + 1)]))
    return Case(
        seed=seed,
        X=X,
        y=y,
        weights=weights,
        basis=basis,
        experiments=experiments,
        policy=draw(st.sampled_from(policies)) if is_sparse else "remove",
        bias=bias,
        path=path,
        kernel=kernel or draw(st.sampled_from(["laplacian", "matern12"])),
    )


def moved(experiments, place):
    """Return the experiments with row i renamed to place[i]."""
    return [HoldOut(place[e.held_out], place[e.test]) for e in experiments]


# -- symmetries -----------------------------------------------------------------------------------


@law
@given(cases(), st.integers(0, 2**32 - 1))
def test_the_order_of_rows_does_not_matter(case, seed):
    order = np.random.default_rng(seed).permutation(len(case.X))
    place = np.argsort(order)  # row i moves to place[i]
    permuted = replace(
        case,
        X=case.X[order],
        y=case.y[order],
        weights=case.weights[order],
        basis=None
        if case.basis is None
        else np.random.default_rng(seed).permutation(place[case.basis]),
        experiments=moved(case.experiments, place),
    )
    assert_close(permuted.predictions(), case.predictions(), "law", case)


@law
@given(cases(), st.integers(0, 2**32 - 1))
def test_the_order_of_held_out_rows_and_of_experiments_does_not_matter(case, seed):
    rng = np.random.default_rng(seed)
    shuffled = [HoldOut(rng.permutation(e.held_out), e.test) for e in reversed(case.experiments)]
    parts = np.split(case.predictions(), np.cumsum([e.test.size for e in case.experiments]), axis=1)
    expected = np.concatenate(parts[:-1][::-1], axis=1)
    assert_close(replace(case, experiments=shuffled).predictions(), expected, "law", case)


@law
@given(cases(), st.integers(0, 2**32 - 1))
def test_the_order_of_targets_does_not_matter(case, seed):
    order = np.random.default_rng(seed).permutation(case.y.shape[1])
    permuted = replace(case, y=case.y[:, order])
    assert_close(permuted.predictions(), case.predictions()[:, :, order], "law", case)


@law
@given(cases())
def test_every_path_gives_the_same_predictions(case):
    spectral, *others = (case.predictions(path=path) for path in (*PATHS, "auto"))
    for other in others:
        assert_close(other, spectral, "law", case)


# -- what the model cannot know -------------------------------------------------------------------


@law
@given(cases(policies=("remove", "keep")), st.floats(-1e3, 1e3))
def test_targets_of_held_out_rows_do_not_matter(case, value):
    case = replace(case, experiments=case.experiments[:1])
    y = case.y.copy()
    y[case.experiments[0].held_out] = value
    assert_close(replace(case, y=y).predictions(), case.predictions(), "law", case)


@law
@given(cases(policies=("remove",)), st.integers(0, 2**32 - 1))
def test_rows_that_are_held_out_and_not_tested_do_not_matter(case, seed):
    experiment = case.experiments[0]
    case = replace(case, experiments=[experiment])
    X, rng = case.X.copy(), np.random.default_rng(seed)
    gone = np.setdiff1d(experiment.held_out, experiment.test)
    X[gone] = 3.0 * rng.normal(size=(gone.size, X.shape[1]))
    assert_close(replace(case, X=X).predictions(), case.predictions(), "law", case)


@law
@given(cases(sparse=False), st.floats(-1e3, 1e3))
def test_rows_of_weight_zero_are_absent_from_training(case, value):
    weights = case.weights.copy()
    tested = np.unique(np.concatenate([e.test for e in case.experiments]))
    held = np.unique(np.concatenate([e.held_out for e in case.experiments]))
    trains = np.setdiff1d(np.flatnonzero(weights > 0), held)  # never held out: at least two
    weights[np.append(trains[3:], held[::3])] = 0.0
    case = replace(case, weights=weights)
    expected = case.predictions()
    y = case.y.copy()
    y[weights == 0] = value
    assert_close(replace(case, y=y).predictions(), expected, "law", case)
    # Without the rows that neither train nor are tested, the rest is the same data set.
    stay = np.flatnonzero((weights > 0) | np.isin(np.arange(len(weights)), tested))
    place = np.full(len(weights), -1)
    place[stay] = np.arange(stay.size)
    smaller = replace(
        case,
        X=case.X[stay],
        y=case.y[stay],
        weights=weights[stay],
        experiments=[
            HoldOut(place[np.intersect1d(e.held_out, stay)], place[e.test])
            for e in case.experiments
        ],
    )
    assert_close(smaller.predictions(), expected, "law", case)


# -- linearity, shifts, scales --------------------------------------------------------------------


@law
@given(cases(), st.floats(-10, 10), st.floats(-10, 10))
def test_predictions_are_linear_in_the_targets(case, a, b):
    other = np.random.default_rng(case.seed + 1).normal(size=case.y.shape)
    one, two = case.predictions(), replace(case, y=other).predictions()
    mixed = replace(case, y=a * case.y + b * other + 1e-3 * other)
    expected = a * one + (b + 1e-3) * two
    scale = np.abs(a * one).max() + np.abs(b * two).max() + np.abs(two).max()
    assert_close((mixed.predictions() - expected) / scale + 1.0, np.ones_like(one), "law", case)


@law
@given(cases(), st.floats(-100, 100))
def test_a_constant_added_to_the_targets_is_added_to_the_predictions(case, constant):
    case = replace(case, bias=True)
    shifted = replace(case, y=case.y + constant)
    assert_close(shifted.predictions(), case.predictions() + constant, "law", case)


@law
@given(cases(), st.sampled_from([1e-3, 0.5, 7.0, 1e4]))
def test_scaling_kernel_and_penalty_together_changes_nothing(case, c):
    K = laplacian(case.X)
    one = replace(case, X=K, kernel="precomputed")
    two = replace(case, X=c * K, kernel="precomputed")
    assert_close(two.predictions(alphas=c * ALPHAS), one.predictions(), "law", case)


@law
@given(cases(), st.sampled_from([1e-3, 0.5, 7.0, 1e4]))
def test_scaling_weights_and_penalty_together_changes_nothing(case, c):
    scaled = replace(case, weights=c * case.weights)
    assert_close(scaled.predictions(alphas=c * ALPHAS), case.predictions(), "law", case)


@law
@given(cases())
def test_an_endless_penalty_predicts_the_weighted_mean(case):
    got = replace(case, bias=True).predictions(alphas=[1e14])
    start = 0
    for experiment in case.experiments:
        held = experiment.held_out
        if case.policy == "train":
            held = np.setdiff1d(held, case.basis)
        train = np.setdiff1d(np.arange(len(case.X)), held)
        mean = np.average(case.y[train], axis=0, weights=case.weights[train])
        stop = start + experiment.test.size
        assert_close(got[0, start:stop], np.tile(mean, (stop - start, 1)), "law", case)
        start = stop


def laplacian(X):
    return np.exp(-0.4 * np.abs(X[:, None] - X[None]).sum(axis=2))


# -- weights and repeated rows --------------------------------------------------------------------


@law
@given(cases(), st.integers(0, 2**32 - 1))
def test_integer_weights_are_repeated_rows(case, seed):
    counts = np.random.default_rng(seed).integers(1, 4, size=len(case.X))
    case = replace(case, weights=counts.astype(float))
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])  # of the copies of each row
    copies = [np.arange(start, start + n) for start, n in zip(first, counts, strict=True)]
    if case.policy == "train":  # the copies of a basis row would be held out, the row itself not
        case = replace(case, policy="keep")
    repeated = replace(
        case,
        X=np.repeat(case.X, counts, axis=0),
        y=np.repeat(case.y, counts, axis=0),
        weights=np.ones(counts.sum()),
        basis=None if case.basis is None else first[case.basis],
        experiments=[
            HoldOut(np.concatenate([copies[i] for i in e.held_out]), first[e.test])
            for e in case.experiments
        ],
    )
    assert_close(repeated.predictions(), case.predictions(), "law", case)


@law
@given(cases())
def test_twins_are_predicted_alike(case):
    m = len(case.X)
    twins = replace(
        case,
        X=np.vstack([case.X, case.X]),
        y=np.vstack([case.y, case.y]),
        weights=np.ones(2 * m),
        policy="keep",
        experiments=[HoldOut([i]) for i in range(2 * m)],
    )
    got = twins.predictions()
    assert_close(got[:, :m], got[:, m:], "law", case)


# -- the same model by another road ---------------------------------------------------------------


@law
@given(cases())
def test_folds_of_one_row_are_leave_one_out(case):
    m = len(case.X)
    model = case.estimator(cv=None).fit(case.X, case.y, sample_weight=case.weights)
    expected = model.held_out().values
    for cv in (LeaveOneOut(), KFold(m), m, [HoldOut([i]) for i in range(m)]):
        assert_close(model.held_out(cv).values, expected, "law", case)


@law
@given(cases(sparse=False, kernel="linear"))
def test_the_linear_kernel_in_primal_form_is_its_dual_form(case):
    dual = replace(case, X=case.X @ case.X.T, kernel="precomputed")
    primal = case.predictions()
    assert_close(dual.predictions(), primal, "law", case)
    start = 0
    for e in case.experiments:
        train = np.setdiff1d(np.arange(len(case.X)), e.held_out)
        stop = start + e.test.size
        for alpha, values in zip(ALPHAS, primal, strict=True):
            ridge = Ridge(alpha, fit_intercept=case.bias, solver="svd")
            ridge.fit(case.X[train], case.y[train], sample_weight=case.weights[train])
            expected = ridge.predict(case.X[e.test]).reshape(e.test.size, -1)
            scale = np.abs(case.y).max()
            assert_close(values[start:stop] / scale + 1, expected / scale + 1, "law", case)
        start = stop


@law
@given(cases(), st.floats(-5, 5))
def test_a_constant_column_changes_nothing(case, value):
    wider = replace(case, X=np.column_stack([case.X, np.full(len(case.X), value)]))
    assert_close(wider.predictions(), case.predictions(), "law", case)


@law
@given(cases(sparse=False, kernel="linear"), st.floats(-5, 5))
def test_a_constant_column_is_no_news_to_a_linear_kernel_with_bias(case, value):
    case = replace(case, bias=True)
    wider = replace(case, X=np.column_stack([case.X, np.full(len(case.X), value)]))
    assert_close(wider.predictions(), case.predictions(), "law", case)


@law
@given(cases(sparse=True))
def test_streamed_rows_are_rows_in_memory(case):
    assert_close(case.predictions(memory_limit=1.0), case.predictions(), "law", case)


@law
@given(cases())
def test_held_out_answers_as_fit_does(case):
    case = replace(case, weights=np.maximum(case.weights, 0.1))  # something to score
    model = case.estimator(cv=case.experiments).fit(case.X, case.y, sample_weight=case.weights)
    assert_close(model.held_out().values, case.predictions(), "law", case)
    truth = np.concatenate([case.y[e.test] for e in case.experiments])
    weights = np.concatenate([case.weights[e.test] for e in case.experiments])
    squared = ((truth - model.held_out().values) ** 2).mean(axis=2)
    score = -np.average(squared, axis=1, weights=weights)
    assert_close(model.cv_results_["pooled_test_score"], score, "law", case)


# -- policies for held-out basis rows -------------------------------------------------------------


@law
@given(cases(sparse=False))
def test_keep_is_remove_for_a_dense_model(case):
    keep = replace(case, policy="keep").predictions()
    assert_close(keep, case.predictions(), "law", case)


@law
@given(cases(sparse=True))
def test_policies_agree_where_no_basis_row_is_held_out(case):
    outside = [np.setdiff1d(e.held_out, case.basis) for e in case.experiments]
    experiments = [HoldOut(held) for held in outside if held.size]
    if not experiments:
        experiments = [HoldOut(np.setdiff1d(np.arange(len(case.X)), case.basis)[:1])]
    case = replace(case, experiments=experiments)
    removed = case.predictions(held_out_basis="remove")
    for policy in ("keep", "train", "skip"):
        assert_close(case.predictions(held_out_basis=policy), removed, "law", (policy, case))


@law
@given(cases(sparse=True))
def test_skip_is_train_without_the_basis_rows(case):
    outside = np.setdiff1d(np.arange(len(case.X)), case.basis)
    extra = HoldOut(outside[:1])  # so that something is left to test
    case = replace(case, experiments=[*case.experiments, extra])
    tested = np.concatenate([e.test for e in case.experiments])
    expected = case.predictions(held_out_basis="train")[:, ~np.isin(tested, case.basis)]
    assert_close(case.predictions(held_out_basis="skip"), expected, "law", case)


# -- manners --------------------------------------------------------------------------------------


@law
@given(cases(), st.booleans())
def test_inputs_stay_unchanged(case, precomputed):
    if precomputed:
        case = replace(case, X=laplacian(case.X), kernel="precomputed")
    arrays = {"X": case.X, "y": case.y, "weights": case.weights, "alphas": ALPHAS.copy()}
    if case.basis is not None:
        arrays["basis"] = case.basis
    before = {name: array.copy() for name, array in arrays.items()}
    for array in arrays.values():
        array.flags.writeable = False
    groups = np.arange(len(case.X))
    model = case.estimator(alphas=arrays["alphas"])
    params = model.get_params()
    model.fit(case.X, case.y, sample_weight=case.weights, groups=groups)
    model.held_out()
    model.predict_without(case.experiments[0].held_out, alpha=0.5)
    model.verify(1)
    model.predict(case.X)
    assert all(model.get_params()[name] is value for name, value in params.items())
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


@law
@given(cases(sparse=True, policies=("keep", "reselect")), st.integers(0, 2**31 - 1))
def test_the_same_seed_gives_the_same_result(case, seed):
    first, second = (
        case.estimator(basis=0.3, cv=KFold(3), random_state=seed).fit(
            case.X, case.y, sample_weight=case.weights
        )
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.basis_indices_, second.basis_indices_)
    np.testing.assert_array_equal(first.held_out().values, second.held_out().values)
    np.testing.assert_array_equal(first.dual_coef_, second.dual_coef_)
    assert first.alpha_ == second.alpha_
