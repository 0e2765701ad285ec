"""What is promised of digits, from both sides: formulas against numbers worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from holdfast.experiments import Ragged, Tasks
from holdfast.kernels import RBF
from holdfast.kernels.matrix import KernelRows
from holdfast.smoother import FeatureSmoother, KernelSmoother, Unpenalised
from holdfast.smoother.factorise import (
    ENOUGH,
    FLOOR,
    LONGER,
    ROUNDING,
    WEAK,
    held_promise,
    promise,
    settled,
    single_promise,
    subtracted,
    summed,
    weakest,
)
from holdfast.smoother.features import ColumnFeatures, WhitenedFeatures
from holdfast.smoother.kernel_form import MANY, SUSPECT, UNLIKE
from holdfast.smoother.scale import RowScale
from holdfast.smoother.system import carried_by

EPS = np.finfo(np.float64).eps
M, P = 30, 4
RNG = np.random.default_rng(8)


def with_spectrum(eigenvalues, m=M, seed=3):
    """Return rows (m, p) whose Gram matrix has these eigenvalues."""
    rng = np.random.default_rng(seed)
    left = np.linalg.qr(rng.standard_normal((m, len(eigenvalues))))[0]
    right = np.linalg.qr(rng.standard_normal((len(eigenvalues),) * 2))[0]
    return left * np.sqrt(eigenvalues) @ right


def linear(X, bias=False, memory=np.inf, weights=None):
    weights = np.ones(len(X)) if weights is None else weights
    unpenalised = Unpenalised.bias(weights, bias)
    return FeatureSmoother(ColumnFeatures(X), weights, X[:, :2].copy(), unpenalised, memory)


def dense(K, weights=None, bias=False, **options):
    weights = np.ones(len(K)) if weights is None else weights
    Y = np.random.default_rng(5).standard_normal((len(K), 2))
    return KernelSmoother(K, weights, Y, Unpenalised.bias(weights, bias), **options)


# -- formulas ----------------------------------------------------------------------------------


def test_normal_equations_promise_their_condition_over_the_rows():
    assert promise(3.0, 1.0, 1.0, 2.0) == ROUNDING * 4.0 / (2.0 * 2.0)
    assert promise(1e6, 0.5, 0.25, 10.0) == ROUNDING * 1000000.25 / (0.75 * 10.0)
    assert promise(1.0, 0.0, np.inf, 1.0) == 0.0


def test_the_weakest_pivot_grows_with_what_is_lost_already():
    lost = np.array([0.0, 1e-15, 1e-14, 1e-13, 1e-12, 1e-10])
    assert_allclose(weakest(lost), [WEAK, WEAK, WEAK, 1e-2, 1e-1, 10.0], rtol=1e-12)
    assert float(weakest(2e-12)) == pytest.approx(0.2)


def test_holding_rows_out_costs_up_to_the_weakest_pivot():
    lost = np.array([0.0, 5e-15, 1e-12, 1e-10])
    expected = [ROUNDING / WEAK, 5e-15 / WEAK, 1e-11, 1e-10]
    assert_allclose(held_promise(lost), expected, rtol=1e-12)


def test_one_penalty_promises_the_condition_or_by_qr_its_root():
    Lambda, alphas = np.array([2.0, 7.0, 4.0]), np.array([1.0, 3.0])
    expected = ROUNDING * np.array([8.0 / 3.0, 10.0 / 5.0]) / 5.0
    assert_allclose(single_promise(Lambda, alphas, 5.0), expected, rtol=1e-14)
    small = np.array([1e-9, 1.0])
    condition = (1e4 + small) / (0.0 + small)
    found = single_promise(np.array([0.0, 1e4]), small, 2.0)
    assert found[0] == pytest.approx(ROUNDING * np.sqrt(condition[0]) / 2.0)
    assert found[1] == pytest.approx(ROUNDING * np.sqrt(condition[1]) / 2.0)
    assert ROUNDING * condition[1] / 2.0 > ENOUGH
    # Just enough is enough.
    m = 4.0 * ROUNDING / ENOUGH
    assert ROUNDING * 4.0 / m == ENOUGH
    assert single_promise(np.array([1.0, 4.0]), np.zeros(1), m)[0] == ENOUGH
    assert single_promise(np.zeros(0), np.array([2.0]), 1.0)[0] <= ROUNDING


def test_how_well_a_sum_over_rows_is_known():
    gram = np.diag([1.0, 4.0, 9.0]) + 0.1
    n = 10
    far = 9.1 / (n * FLOOR**2)  # a mean so far away that no digit of the third column is left
    mean = np.sqrt(np.array([[0.0, 4.0, 0.6 * far], [0.0, 5.0, 0.6 * far]]))
    alone = summed(gram, mean, n, rotated=False)
    assert_allclose(alone.size, [1.1, 4.1, np.inf])
    assert alone.floor == FLOOR / n
    some = summed(gram, mean * [[0.0, 100.0, 0.5]], n, rotated=False)
    assert_allclose(some.size, [1.1, FLOOR * 9e4, FLOOR * 0.3 * far], rtol=1e-12)
    mixed = summed(gram, np.zeros((0, 3)), n, rotated=True)
    assert_allclose(mixed.size, summed(gram, np.zeros((0, 3)), n, rotated=False).mixed(3).size)
    assert_allclose(mixed.size, [9.1] * 3)


def test_how_many_rows_carry_a_sum():
    assert carried_by(np.array([2.0, 2.0, 2.0, 2.0])) == 4.0
    assert carried_by(np.array([8.0, 1.0, 1.0])) == 1.25
    assert carried_by(np.array([0.25, 0.0])) == 1.0
    assert carried_by(np.array([0.25, 0.25])) == 2.0
    assert carried_by(np.zeros(3)) == 1.0
    assert carried_by(np.zeros(0)) == 1.0


def test_support_is_that_of_the_rows_and_of_those_that_are_left():
    X = np.diag([4.0, 2.0, 2.0, 1.0])[:, :3] + 0.0
    system = linear(X).system
    assert system.support == (16.0 + 4.0 + 4.0) / 16.0
    assert system.support_without(np.array([0])) == 2.0
    assert system.support_without(np.array([0, 1])) == 1.0
    assert system.support == 1.5  # nothing was written into the rows


def test_rows_much_longer_than_others_are_fitted_first():
    X = np.ones((5, 1))
    scale, z = RowScale.of(np.ones(5)), np.array([[7.0, 7.0]])
    system = linear(X[:, [0, 0]]).system

    def of(lengths):
        return replace(system, norms=np.array(lengths))

    beta, known = np.zeros((2, 2)), np.ones((2, 2))
    just = of([1.0, 1.0, 1.0, LONGER**2, 1.0])
    assert settled(just, beta, known, scale, lambda W, b: z) is just
    longer = of([1.0, 1.0, 1.0, 1.01 * LONGER**2, 1.0])
    assert_array_equal(settled(longer, beta, known, scale, lambda W, b: b + 7.0).z, 8.0)
    # Rows that are not trained on do not count.
    part = RowScale.of(np.array([1.0, 1.0, 1.0, 0.0, 1.0]))
    assert settled(longer, beta, known, part, lambda W, b: z) is longer


# -- models of features ------------------------------------------------------------------------


def test_a_path_of_features_promises_what_its_spectrum_says():
    eigenvalues = np.array([9.0, 1.0, 0.5, 0.25])
    smoother = linear(with_spectrum(eigenvalues))
    alphas = np.array([0.25, 1.0])
    assert_array_equal(smoother.path_promise("fold_gram", alphas), [ENOUGH, ENOUGH])
    assert smoother.path_promise("spectral", alphas) is None  # nothing is factorised to tell
    smoother.factor(least=0.25)
    system = smoother.system
    expected = ROUNDING * 9.25 / (0.5 * system.support)
    assert system.promise == pytest.approx(expected, rel=1e-6)
    assert_allclose(smoother.path_promise("spectral", alphas), held_promise(np.full(2, expected)))
    single = np.maximum(single_promise(eigenvalues, alphas, system.support), expected)
    assert_allclose(smoother.path_promise("single", alphas), held_promise(single), rtol=1e-6)
    assert_array_equal(smoother.path_promise("fold_gram", alphas), [ENOUGH, ENOUGH])


def test_a_triangular_factor_promises_for_penalties_from_the_least_on():
    smoother = linear(with_spectrum(np.geomspace(1e8, 1e-8, 6)))
    least = 1e-6
    smoother.factor(least=least)
    assert smoother.system.least == least
    assert not smoother.additive
    assert smoother.path_promise("spectral", np.array([least, 1.0])) is not None
    assert smoother.path_promise("spectral", np.array([1.0, 0.9 * least])) is None
    # Its rows have no sums that may be subtracted, and it promises less than ENOUGH.
    found = smoother.path_promise("fold_gram", np.array([1.0]))
    assert_array_equal(found, smoother.path_promise("spectral", np.array([1.0])))
    first, second = smoother.path_promise("single", np.array([least, 1.0]))
    assert held_promise(np.array(smoother.system.promise)) <= second <= first


@pytest.mark.parametrize("alpha", [1e-7, 1e-3, 10.0])
def test_promises_are_kept_and_not_too_modest(alpha):
    """The error of the factor is below the promise, and the promise below the condition."""
    eigenvalues = np.geomspace(1e3, 1e-7, 5)
    smoother = linear(with_spectrum(eigenvalues, m=40))
    smoother.factor(least=alpha)
    condition = (eigenvalues[0] + alpha) / (eigenvalues[-1] + alpha)
    promised = smoother.system.promise
    assert EPS / 40 < promised <= ROUNDING * max(condition / 40, np.sqrt(condition)) * 40
    if ROUNDING * condition / smoother.system.support <= ENOUGH:
        assert promised == pytest.approx(ROUNDING * condition / smoother.system.support, rel=1e-3)
        assert smoother.additive
    else:
        assert smoother.system.least == alpha


# -- models of a kernel matrix -----------------------------------------------------------------


def test_rows_that_are_unlike_cost_digits():
    diagonal = np.array([1.0, 2.0, 3.0, -500.0, 2.0])
    smoother = dense(np.diag(diagonal), np.array([1.0, 4.0, 0.5, 1.0, 0.0]), definite=False)
    alphas = np.array([0.1, 10.0])
    # Trained rows: |K_ii| = 1, 2, 3, 500 (median 2.5), w K_ii at most 500, the least weight 0.5.
    expected = 4 * EPS * (500.0 + alphas) / (2.5 * 0.5 + alphas)
    assert_allclose(smoother.promise(alphas), expected, rtol=1e-14)
    assert smoother.largest_value == 500.0
    assert_array_equal(smoother.unlike_rows(alphas), smoother.path_promise("spectral", alphas))


def test_just_as_long_as_ordinary_rows_may_be():
    for longest, unlike in ((UNLIKE, False), (1.01 * UNLIKE, True)):
        smoother = dense(np.diag([1.0, 1.0, 1.0, longest, 1e9]), np.array([1.0, 1.0, 1.0, 1.0, 0]))
        found = smoother.unlike_rows(np.array([1.0, 2.0]))
        assert found.shape == (2,)
        assert (found > 0.0).all() if unlike else not found.any()


def test_a_kernel_matrix_promises_its_condition():
    V = np.linalg.qr(RNG.standard_normal((6, 6)))[0]
    Lambda = np.array([4.0, 1.0, 0.5, 1e-3, 1e-5, 0.0])
    K = (V * Lambda) @ V.T
    smoother = dense((K + K.T) / 2)
    alphas = np.array([1e-6, 1e-2, 1e3])
    least = smoother.promise(alphas)
    trace = 4 * EPS * (5.50101 + alphas) / alphas  # without a spectrum
    assert_allclose(smoother.path_promise("single", alphas), np.maximum(trace, least), rtol=1e-9)
    assert not smoother.refines_cheaply(MANY - 1)
    assert smoother.refines_cheaply(MANY)
    smoother.factor()
    condition = 4 * EPS * (4.0 + alphas) / alphas
    assert_allclose(
        smoother.path_promise("single", alphas), np.maximum(condition, least), rtol=1e-7
    )
    assert smoother.refines_cheaply(0)


def test_an_indefinite_kernel_promises_by_its_smallest_eigenvalue_of_any_sign():
    smoother = dense(np.diag([3.0, -5.0, 1.0]), definite=False)
    smoother.factor()
    alphas = np.array([4.0, 0.5])
    expected = 4 * EPS * np.array([(5 + 4.0) / 1.0, (5 + 0.5) / 1.5])
    found = smoother.path_promise("spectral", alphas)
    assert_allclose(found, np.maximum(expected, smoother.promise(alphas)), rtol=1e-12)


def test_the_penalised_spectrum_alone_counts():
    smoother = dense(np.diag([1e-3, 2e-3, 4e-3, 1e-3]), bias=True)
    smoother.factor()
    Lambda = smoother._spectrum.Lambda[:-1]
    alphas = np.array([1e-5])
    expected = 4 * EPS * (Lambda.max() + alphas) / (Lambda.min() + alphas)
    found = smoother.path_promise("spectral", alphas)
    assert_allclose(found, np.maximum(expected, smoother.promise(alphas)), rtol=1e-9)


@pytest.mark.parametrize("bias", [False, True])
def test_length_of_rows_and_shift_of_the_level(bias):
    X = RNG.standard_normal((7, 2))
    weights = np.array([1.0, 2.0, 0.0, 3.0, 0.5, 1.0, 4.0])
    K, root = RBF(0.5)(X), np.sqrt(weights)
    smoother = dense(K, weights, bias)
    Q, U = smoother.unpenalised.Q, smoother.unpenalised.U
    left = np.eye(7) - U @ (Q * root[:, None]).T  # takes the level out of the features
    inner = left @ K @ left.T
    scale = smoother.scale.root
    assert_allclose(smoother.norms, np.diag(inner) * scale**2, rtol=1e-10)
    held = np.array([1, 3, 6])
    along = Q[held].T * root[held] @ inner[np.ix_(held, held)] * root[held] @ Q[held]
    assert smoother.shift(held) == pytest.approx(abs(np.trace(along)), rel=1e-9, abs=1e-15)
    known = WhitenedFeatures.of(KernelRows(RBF(0.5), X), np.arange(7), 1e-14)
    other = FeatureSmoother(known, weights, smoother.targets.Y, smoother.unpenalised)
    assert_allclose(other.norms, smoother.norms, rtol=1e-2)
    assert other.shift(held) == pytest.approx(smoother.shift(held), rel=1e-6, abs=1e-12)


def one_task(held, test):
    return Tasks.one(np.array(held), np.array([], dtype=np.int64), np.array(test))


def test_predictions_are_suspected_where_the_condition_or_rounding_allows_large_errors():
    K = np.diag([1.0, 1.0, 1.0, 1.0])
    smoother = dense(K, np.array([1.0, 4.0, 1.0, 1.0]))
    tasks = one_task([0, 1], [0, 1])
    bound = SUSPECT / (4 * EPS)  # times the root of the largest weight over the smallest
    easy, hard = 7.0 * 2.0 / bound * np.array([1.1, 0.9])
    alphas = np.array([easy, hard])
    values = np.array([[[3.0, -1.0], [2.0, 0.5]]] * 2)
    found = smoother._suspect(tasks, alphas, values, slice(None))
    assert_allclose(found, [[0.0, 0.0], [3.0, 1.0]])
    # Predictions that are tiny beside the targets are suspected, whatever the condition.
    alphas, tiny = np.array([7.0]), values[:1] * [[[1.0, 1e-7]]]
    assert not smoother._suspect(tasks, alphas, values[:1], slice(None)).any()
    largest = np.abs(smoother.targets.Y).max(axis=0)
    limit = EPS * largest[1] * 0.5 / (0.01 * SUSPECT)
    for factor, suspected in ((0.9, True), (1.1, False)):
        tiny = np.array([[[3.0, 0.1 * limit], [2.0, -factor * limit]]])
        found = smoother._suspect(tasks, alphas, tiny, slice(None))
        assert_allclose(found, [[3.0, factor * limit]] if suspected else [[0.0, 0.0]])
    zero = smoother._suspect(tasks, alphas, np.zeros((1, 2, 2)), slice(None))
    assert_array_equal(zero, np.finfo(np.float64).tiny)


def test_lengths_stand_in_for_leverages_that_are_not_known():
    K = RBF(0.5)(RNG.standard_normal((6, 2)))
    smoother = dense(K)
    assert smoother.likely_leverages(0.3) is smoother.norms
    smoother.factor()
    S = K @ np.linalg.inv(K + 0.3 * np.eye(6))
    assert_allclose(smoother.likely_leverages(0.3), np.diag(S), rtol=1e-9)
    X = with_spectrum(np.array([3.0, 1.0]))
    kept, streamed = linear(X), linear(X, memory=0.0)
    assert kept.likely_leverages(0.5) is kept.norms
    expected = np.einsum("ij,jk,ik->i", X, np.linalg.inv(X.T @ X + 0.5 * np.eye(2)), X)
    for smoother in (kept, streamed):
        smoother.factor(least=0.5)
    assert_allclose(kept.likely_leverages(0.5), expected, rtol=1e-9)
    assert streamed.likely_leverages(0.5) is streamed.norms


# -- sums that will come for little ------------------------------------------------------------


def tasks_of(*held):
    rows = Ragged.from_arrays([np.array(h, dtype=np.int64) for h in held])
    return Tasks(rows, Ragged.empty(len(held)), rows, np.arange(len(held)))


def test_what_a_plan_is_told_of_a_system_of_features():
    X = RNG.standard_normal((16, 3))
    smoother = linear(X, bias=True)
    sizes = smoother.sizes(tasks_of([0, 1], [2]))
    assert (sizes.form, sizes.m, sizes.p, sizes.v, sizes.basis) == ("features", 16, 4, 2, None)
    assert (sizes.factorised, sizes.summed, sizes.streamed) == (False, True, False)
    assert smoother.order == 4
    assert smoother.additive is True
    smoother.factor()
    assert smoother.sizes(tasks_of([0])).factorised
    assert not smoother.sizes(tasks_of([0])).summed


@pytest.mark.parametrize(
    ("held", "memory", "come"),
    [
        ([[0, 1], [2, 3], [4]], np.inf, True),  # 3 · 4 numbers, twice, beside 24
        ([[0], [1], [2], [3]], np.inf, False),
        ([[0, 1], [1, 2]], np.inf, False),  # they overlap
        ([[], []], np.inf, True),
        ([[0], [1]], 8.0 * (24 * 4 + 5 * 16), True),  # W and the sums just fit
        ([[0], [1]], 8.0 * (24 * 4 + 5 * 16) - 1, False),
        ([[0], [1]], 8.0 * 24 * 4 - 1, True),  # W does not, so that there is room for the sums
        ([[0]], 8.0 * 24 * 4, False),
    ],
)
def test_sums_that_the_first_pass_will_give(held, memory, come):
    smoother = linear(RNG.standard_normal((24, 3)), bias=True, memory=memory)
    assert smoother._sums_to_come(tasks_of(*held)) is come
    smoother.announce(tasks_of(*held))
    assert (smoother._system is not None and smoother._system.sets is not None) is come
    assert smoother.system is not None
    assert smoother._sums_to_come(tasks_of(*held)) is False


def test_rows_that_do_not_fit_leave_their_room_to_the_sums():
    smoother = linear(RNG.standard_normal((60, 3)), bias=True, memory=8.0 * 5 * 16)
    assert smoother._sums_to_come(tasks_of([0], [1]))
    assert not smoother._sums_to_come(tasks_of([0], [1], [2]))


def test_sets_that_share_rows_are_sums_of_atoms():
    X = RNG.standard_normal((12, 2))
    smoother = linear(X)
    sharing = tasks_of([0, 1, 2], [1, 2, 3], [0, 1, 3])  # 4 rows in 9 places
    pieces = smoother._shared_pieces(sharing)
    assert sorted(np.concatenate([pieces[j] for j in range(len(pieces))]).tolist()) == [0, 1, 2, 3]
    assert smoother._shared_pieces(tasks_of([0, 1], [1, 2])) is None  # 3 rows in 4 places
    assert smoother._shared_pieces(tasks_of([0, 1], [0])) is not None  # 2 in 3: just enough
    small = linear(X, memory=8.0 * (len(pieces) + 3) * 4)
    assert small._shared_pieces(sharing) is not None
    assert linear(X, memory=8.0 * (len(pieces) + 3) * 4 - 1)._shared_pieces(sharing) is None
    assert smoother.sizes(sharing).summed
    smoother.announce(sharing)
    gram, z = smoother.system.sets.find(np.array([0, 1, 3]))
    rows = X[[0, 1, 3]]
    assert_allclose(gram, rows.T @ rows, atol=1e-14)
    assert_allclose(z, rows.T @ rows, atol=1e-14)
    assert smoother.system.sets.find(np.array([0, 1, 4])) is None


def test_a_difference_of_sums_is_known_column_by_column_until_rows_are_rotated():
    diagonal = np.array([4.0, 0.25, 1.0])
    for rotated, size in ((False, diagonal), (True, [4.0, 1.0, 2.0])):
        found = subtracted(diagonal, np.zeros((0, 3)), 1e-4, rotated)
        assert_allclose(found.size, size)
        assert found.floor == 1e-4
    mean = np.array([[0.0, 1.0, 5.0], [0.0, 2.0, 12.0]])
    assert_allclose(subtracted(diagonal, mean, 1e-4, False).size, [4.0, 5.25, 170.0])
