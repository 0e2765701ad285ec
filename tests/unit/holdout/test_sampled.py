"""What a sample of mutants has shown to be missing: doubts, refusals, threads, words."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import holdfast.smoother.base as base
from holdfast.exceptions import KernelError
from holdfast.experiments import Ragged, Tasks
from holdfast.holdout.elimination import Pairs
from holdfast.holdout.plan import make_plan
from holdfast.kernels import RBF, FunctionKernel, Precomputed
from holdfast.kernels.matrix import KernelRows, PrecomputedRows
from holdfast.smoother import FeatureSmoother, KernelSmoother, Unpenalised
from holdfast.smoother.base import Sizes
from holdfast.smoother.features import ColumnFeatures
from holdfast.smoother.make import make_smoother

M = 20
RNG = np.random.default_rng(81)
X = RNG.normal(size=(M, 2))
Y = RNG.normal(size=(M, 2))
ONES = np.ones(M)


def ragged(sets):
    return Ragged.from_arrays([np.array(rows, dtype=np.int64) for rows in sets])


def tasks_of(held, removed=None, test=None):
    removed = [[]] * len(held) if removed is None else removed
    test = held if test is None else test
    return Tasks(ragged(held), ragged(removed), ragged(test), np.arange(len(held)))


def made(kernel, data):
    bias = Unpenalised.bias(ONES, False)
    return make_smoother(
        kernel, data, X, ONES, Y, bias, basis=None, epsilon=0.0, memory=float("inf")
    )


def test_matrices_and_functions_of_the_user_are_checked():
    """An indefinite one is refused also where a large penalty hides it; ours are not looked at."""
    K = np.eye(M)
    K[0, 1] = K[1, 0] = 2.0  # an eigenvalue of −1

    def function(A, B):
        rows = [[K[int(a), int(b)] for b in B[:, 0]] for a in A[:, 0]]
        return np.array(rows)

    numbers = np.arange(float(M))[:, None]
    kernel = FunctionKernel(function)
    for smoother in (
        made(Precomputed(), PrecomputedRows(K)),
        made(kernel, KernelRows(kernel, numbers)),
    ):
        with pytest.raises(KernelError, match="not positive semidefinite"):
            smoother.factor(10.0)
    ours = made(RBF(1.0), KernelRows(RBF(1.0), X))
    assert not ours._unchecked


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_doubts_do_not_depend_on_the_unit_of_targets(unit):
    smoother = KernelSmoother(np.eye(M), ONES, unit * Y, Unpenalised.bias(ONES, False))
    tasks = tasks_of([[0, 1]])
    limit = np.finfo(float).eps * np.abs(Y).max(axis=0)[1] * 0.5 / 1e-12
    for factor, suspected in ((0.9, True), (1.1, False)):
        values = unit * np.array([[[3.0, 0.1 * limit], [2.0, -factor * limit]]])
        found = smoother._suspect(tasks, np.array([float(M)]), values, slice(None))
        assert_allclose(found, unit * np.array([[3.0, factor * limit]]) * suspected)


def test_a_task_that_holds_out_nothing_has_no_answer_among_pairs():
    smoother = KernelSmoother(RBF(0.5)(X), ONES, Y, Unpenalised.bias(ONES, True))
    tasks = tasks_of([[0, 1], [2, 3], [0, 1, 2, 3], []], test=[[0], [2], [3], [1]])
    found = Pairs.of(smoother, 0.5).predict(tasks)
    assert np.isnan(found).all(axis=1).tolist() == [False, False, False, True]


def test_what_a_plan_says_of_models_that_lose_much_of_the_basis():
    tasks = tasks_of([[0], [1], [2]], [[0], [0, 1, 2], [0, 1, 2, 3]])
    plan = make_plan(tasks, Sizes("features", M, 12, 1, 12), 3, "auto")
    assert plan.facts["trained anew"] == "2 experiments that lose much of the basis"
    plan = make_plan(tasks, Sizes("features", M, 12, 1, None), 3, "auto")
    assert plan.facts["trained anew"] == "none"


@pytest.mark.parametrize("together", [True, False])
def test_folds_run_side_by_side_only_where_they_may(monkeypatch, together):
    seen = []
    monkeypatch.setattr(base, "run_pieces", lambda work, pieces, n: seen.append((len(pieces), n)))
    smoother = FeatureSmoother(ColumnFeatures(X), ONES, Y, Unpenalised.bias(ONES, True))
    monkeypatch.setattr(smoother, "_ready_for_folds", lambda: together)
    tasks = tasks_of([[0], [1], [2]])
    smoother.by_fold(None, tasks, np.ones(1), slice(None), np.zeros(3, dtype=bool))
    assert seen == [(3, None if together else 1)]
