"""From feature rows to systems and factors, each step against its formula."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import holdfast.smoother.rows as blocks
from holdfast.exceptions import InvalidInputError, KernelError
from holdfast.experiments import Ragged
from holdfast.smoother import FeatureSmoother, Unpenalised
from holdfast.smoother.factorise import (
    reduced,
    ridge_of_triangle,
    stacked_triangle,
    unpenalised_first,
)
from holdfast.smoother.features import ColumnFeatures
from holdfast.smoother.moments import Moments, SetSums, moments, sample_level
from holdfast.smoother.rows import (
    RowBlocks,
    StreamedRows,
    fitted,
    gram_and_rhs,
    vector_blocks,
)
from holdfast.smoother.scale import Centre, RowScale, Targets, target_unit
from holdfast.smoother.system import penalty_mask, solve_each, without_rows

M, P = 30, 4
RNG = np.random.default_rng(14)
X = RNG.normal(size=(M, P)) + np.array([0.0, 3.0, -1.0, 10.0])
Y = RNG.normal(size=(M, 2)) + 5.0
WEIGHTS = RNG.uniform(0.5, 2.0, size=M)
WEIGHTS[[3, 17]] = 0.0
Z = {0: np.empty((M, 0)), 1: np.ones((M, 1)), 2: np.c_[np.ones(M), np.linspace(-1, 1, M)]}
every_number = pytest.mark.parametrize("s", [0, 1, 2])


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1)
    monkeypatch.setattr(blocks, "CACHE_BYTES", 1)
    monkeypatch.setattr(blocks, "LEAST_ROWS", 7)


def problem(s, weights=WEIGHTS, memory=np.inf):
    return FeatureSmoother(ColumnFeatures(X), weights, Y, Unpenalised.of(Z[s], weights), memory)


def plain(s, weights=WEIGHTS):
    """Return W (m, p + s) and √w y without the level, from their definitions."""
    root = np.where(weights > 0, np.sqrt(weights), 1.0)
    trained = (weights > 0)[:, None]
    Q, R = np.linalg.qr(np.sqrt(weights)[:, None] * Z[s])
    U = Z[s] @ np.linalg.inv(R) if s else Z[s]
    B = Q.T @ (np.sqrt(weights)[:, None] * X)
    level = Q.T @ (np.sqrt(weights)[:, None] * Y)
    W = np.hstack([root[:, None] * (X - U @ B), root[:, None] * U])
    return W, root[:, None] * (Y - U @ level) * trained, trained


@pytest.mark.usefixtures("small_blocks")
@every_number
@pytest.mark.parametrize("memory", [np.inf, 0.0])
def test_the_system_of_all_rows(s, memory):
    smoother = problem(s, memory=memory)
    system = smoother.system()
    W, Ys, trained = plain(s)
    assert isinstance(system.W, StreamedRows) is (memory == 0.0)
    rows = system.W[np.arange(M)]
    sign = np.sign(np.einsum("ij,ij->j", rows, W))  # QR leaves the sign of a column open
    assert_allclose(rows * sign, W, atol=1e-12)
    W, live = rows, trained[:, 0]
    assert_allclose(system.gram, W[live].T @ W[live], atol=1e-11)
    assert_allclose(system.z, W.T @ Ys, atol=1e-11)
    assert_allclose(system.norms, np.square(W[:, :P]).sum(axis=1), rtol=0.5)
    assert system.p == P
    assert_array_equal(system.N, np.hstack([np.eye(P), np.zeros((P, s))]))


@pytest.mark.usefixtures("small_blocks")
@every_number
def test_sums_over_some_rows(s):
    W, Ys, _ = plain(s)
    index = np.array([5, 1, 9, 20, 22, 23, 29, 0, 2])
    for rows in (index, np.arange(4, 20)):
        some = RowBlocks(W, rows)
        assert some.shape == (rows.size, P + s)
        gram, rhs = gram_and_rhs(some, Ys[rows])
        assert_allclose(gram, W[rows].T @ W[rows], rtol=1e-12, atol=1e-12)
        assert_allclose(rhs, W[rows].T @ Ys[rows], rtol=1e-12, atol=1e-12)
        theta, root = RNG.standard_normal((3, P + s, 2)), RNG.uniform(1, 2, rows.size)
        expected = (W[rows] @ theta) / root[:, None]
        assert_allclose(fitted(some, root, theta), expected, atol=1e-12)


def test_rows_are_kept_for_their_second_use(monkeypatch):
    made = []

    class Counted:
        shape = (M, P)

        def __getitem__(self, index):
            made.append(1)
            return X[index]

    monkeypatch.setattr(blocks, "KEEP_BYTES", 8 * 5 * P)
    for rows, once, times in ((5, False, 1), (5, True, 2), (6, False, 2)):
        made.clear()
        some = RowBlocks(Counted(), np.arange(rows), once=once)
        for _ in range(2):
            ((_, block),) = some
            assert block.shape == (rows, P)
        assert len(made) == times


def test_blocks_of_bytes(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 8 * 3 * 10)
    monkeypatch.setattr(blocks, "LEAST_ROWS", 4)

    def spans(found):
        return [(part.start, part.stop) for part in found]

    assert spans(blocks.row_blocks(25, 3)) == [(0, 10), (10, 20), (20, 25)]
    assert spans(blocks.row_blocks(25, 3, 12)) == [(12, 22), (22, 25)]
    assert spans(blocks.row_blocks(25, 30)) == [(k, min(k + 4, 25)) for k in range(0, 25, 4)]
    assert spans(blocks.row_blocks(25, 3, n_bytes=8 * 3 * 20)) == [(0, 20), (20, 25)]
    assert spans(blocks.row_blocks(25, 0)) == [(0, 25)]
    monkeypatch.setattr(blocks, "piece_threads", lambda: 2)
    assert spans(blocks.even_blocks(30, 3)) == [(0, 7), (7, 15), (15, 22), (22, 30)]
    assert spans(blocks.even_blocks(20, 3)) == [(0, 10), (10, 20)]
    assert spans(blocks.even_blocks(1, 3)) == [(0, 1)]
    index = np.arange(50)[::2]
    assert [part.tolist() for part in blocks.index_blocks(index, 3)] == [
        part.tolist() for part in (index[:10], index[10:20], index[20:])
    ]
    assert spans(blocks.index_blocks(slice(5, 30), 3)) == [(5, 15), (15, 25), (25, 30)]
    assert [len(part) for part in blocks.cut(index, 4)] == [7, 6, 6, 6]
    assert [len(part) for part in blocks.cut(index[:2], 4)] == [1, 1]
    assert spans(blocks.cut(slice(3, 10), 2)) == [(3, 6), (6, 10)]
    monkeypatch.setattr(blocks, "CACHE_BYTES", 8 * 3 * 5)
    assert spans(vector_blocks(np.zeros((12, 3)))) == [(0, 5), (5, 10), (10, 12)]


@pytest.mark.usefixtures("small_blocks")
@every_number
def test_moments_of_all_rows_and_of_sets(s):
    smoother = problem(s)
    Ys, Q, U = smoother.targets.Ys, smoother.unpenalised.Q, smoother.unpenalised.U
    B0 = RNG.standard_normal((s, P))
    W = np.empty((M, P + s))
    sets = [np.array([0, 4, 5]), slice(6, 16), np.array([20, 29])]
    features, scale = ColumnFeatures(X), smoother.scale
    total, parts, norms = moments(features, B0, scale, smoother.unpenalised, Ys, W=W, sets=sets)
    rows = scale.root[:, None] * (X - U @ B0)
    live = scale.trained
    assert_allclose(W[:, :P], rows, atol=1e-13)
    assert_allclose(norms, np.square(rows).sum(axis=1))
    for found, index in zip([total, *parts], [slice(None), *sets], strict=True):
        mine, trained = rows[index], live[index]
        expected = np.zeros((P + s, P + s))
        expected[:P, :P] = mine[trained].T @ mine[trained]
        assert_allclose(found.gram, expected, atol=1e-11)
        assert_allclose(found.z, mine.T @ Ys[index], atol=1e-11)
        assert_allclose(found.drift, Q[index].T @ mine, atol=1e-11)
    gram, z = total.settle(Q, Ys)
    exact = np.hstack([rows - scale.root[:, None] * (U @ total.drift), scale.root[:, None] * U])
    assert_allclose(gram, exact[live].T @ exact[live], atol=1e-10)
    assert_allclose(z, exact.T @ Ys, atol=1e-10)
    for part, index in zip(parts, sets, strict=True):
        gram, z = part.settle_part(total.drift, Q[index], Ys[index])
        mine = exact[index] * live[index][:, None]
        assert_allclose(gram, mine.T @ mine, atol=1e-10)
        assert_allclose(z, mine.T @ Ys[index], atol=1e-10)


def test_moments_add_up():
    one, other = (Moments(*RNG.standard_normal((3, 2, 2))) for _ in range(2))
    both = one + other
    kept = one.copy()
    kept.add(other)
    for name in ("gram", "z", "drift"):
        expected = getattr(one, name) + getattr(other, name)
        assert_array_equal(getattr(both, name), expected)
        assert_array_equal(getattr(kept, name), expected)
    zero = Moments.zeros(3, 1, 2)
    assert (zero.gram.shape, zero.z.shape, zero.drift.shape) == ((4, 4), (3, 2), (1, 3))


def test_sets_and_unions_of_sets_are_found():
    rows = Ragged.from_arrays([np.array([0, 2]), np.array([5]), np.array([7, 8, 9])])
    sums = [(np.full((2, 2), 10.0**j), np.full((2, 1), -(10.0**j))) for j in range(3)]
    found = SetSums.settled(rows, sums, 12)
    for held, value in (([0, 2], 1.0), ([2, 0], 1.0), ([5, 0, 2], 11.0), ([9, 8, 7, 5], 110.0)):
        gram, z = found.find(np.array(held))
        assert_array_equal(gram, value)
        assert_array_equal(z, -value)
    for held in ([0], [0, 5], [1], [0, 2, 1], [0, 2, 7], []):
        assert found.find(np.array(held, dtype=np.int64)) is None
    assert_array_equal(found.gram[0], 1.0)  # nothing was added to it


@every_number
def test_the_level_of_a_sample(s):
    smoother = problem(s)
    found = sample_level(ColumnFeatures(X), smoother.scale, smoother.unpenalised)
    live = WEIGHTS > 0
    root, U = np.sqrt(WEIGHTS[live])[:, None], smoother.unpenalised.U[live]
    assert found.shape == (s, P)
    if s:  # few rows: all of them are the sample
        expected = np.linalg.lstsq(root * U, root * X[live], rcond=None)[0]
        assert_allclose(found, expected, atol=1e-10)


def test_a_sample_of_many_rows():
    m = 1000
    rows = RNG.normal(size=(m, 2))
    seen = []

    class Seen(ColumnFeatures):
        def rows(self, index):
            seen.append(index)
            return super().rows(index)

    weights = np.ones(m)
    weights[0] = 0.0
    sample_level(Seen(rows), RowScale.of(weights), Unpenalised.bias(weights, True))
    assert (seen[0].size, seen[0][0], seen[0][-1]) == (128, 1, 999)


# -- the model on all rows ---------------------------------------------------------------------


@every_number
@pytest.mark.parametrize("factorised", [False, True])
def test_the_model_on_all_rows(s, factorised):
    smoother, alphas = problem(s), np.array([0.3, 4.0])
    if factorised:
        smoother.factor(0.1)
    fit = smoother.fit(alphas)
    values = X @ fit.linear + Z[s] @ fit.unpenalised
    for t, alpha in enumerate(alphas):  # optimality
        left = WEIGHTS * (Y[:, t] - values[:, t])
        assert_allclose(X.T @ left, alpha * fit.linear[:, t], atol=1e-8)
        assert_allclose(Z[s].T @ left, 0.0, atol=1e-8)
        assert_allclose(fit.dual[:, t], left / alpha, atol=1e-8)


@every_number
def test_the_equations_of_the_rows_that_are_left(s):
    """All rows less some, the unpenalised columns eliminated."""
    smoother, held = problem(s), np.array([5, 0, 9, 21])
    system, Ys = smoother.system(), smoother.targets.Ys
    W = system.W[held]
    left = np.setdiff1d(np.flatnonzero(WEIGHTS > 0), held)
    Q = system.W[left][:, P:]
    sums, lengths = (W.T @ W, (W.T @ Ys[held])[:, :1]), np.linalg.norm(Ys[:, :1], axis=0)
    equations = without_rows(system, sums, Q.T @ Q, slice(0, 1), np.zeros((0, P)), lengths)
    x = np.linalg.solve(equations.A + 0.7 * np.eye(P), equations.rhs)
    rows = system.W[left]
    A = rows.T @ rows + 0.7 * np.diag(penalty_mask(P, s))
    theta = np.linalg.solve(A, rows.T @ Ys[left, :1])
    assert_allclose(equations.complete(x[None])[0], theta, rtol=1e-7, atol=1e-9)
    assert equations.lengths.shape == (P,)


def test_a_system_that_is_not_definite():
    system = replace(problem(0).system(), gram=-np.eye(P))
    with pytest.raises(KernelError, match=r"alpha=0.5 .*pivot 1 of 4"):
        solve_each(system, np.array([0.5, 0.5]))


@every_number
@pytest.mark.parametrize("single", [False, True])
def test_factors(s, single):
    smoother = problem(s)
    factor = smoother.single(0.7) if single else smoother.factor(0.1)
    W, _, trained = plain(s)
    live = trained[:, 0]
    A = W[live].T @ W[live] + 0.7 * np.diag(penalty_mask(P, s))
    S = W @ np.linalg.solve(A, W.T)
    D = factor.D(np.array([0.7]))[0]
    assert_allclose((factor.V * D) @ factor.V.T, S, atol=1e-11)
    assert_allclose(factor.leverages(0.7), np.where(live, np.diag(S), 0.0), atol=1e-11)
    assert_allclose(factor.z, factor.V.T @ smoother.targets.Ys, atol=1e-10)
    assert (factor.unit(np.array([0.7])) < 1e-12).all()


def test_a_factor_is_a_value():
    """Nobody's rows change when a factor for a smaller penalty is made."""
    smoother = problem(1)
    first, system = smoother.factor(10.0), smoother.system()
    rows, kept = np.array(system.W), np.array(first.V)
    assert smoother.factor(1e-3).least <= 1e-3
    assert smoother.factor(1.0).least <= 1.0
    assert_array_equal(system.W, rows)
    assert_array_equal(first.V, kept)
    assert first.least == 10.0


# -- by QR -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_blocks")
@every_number
def test_ridge_regression_by_qr(s):
    W, Ys, trained = plain(s)
    W, Ys = W * trained, Ys
    alphas = np.array([0.1, 3.0])
    first = np.roll(np.arange(P + s), s)
    assert unpenalised_first(P, s).tolist() == first.tolist()
    for given in (first, None):
        R, order = reduced(RowBlocks(W, once=True), Ys, given)
        assert R.shape == (P + s, P + s + 2)
        assert given is None or order is given
        assert_allclose(R[:, : P + s].T @ R[:, : P + s], (W.T @ W)[np.ix_(order, order)], atol=1e-9)
        assert_allclose(R[:, : P + s].T @ R[:, P + s :], (W.T @ Ys)[order], atol=1e-9)
        found = ridge_of_triangle(R, alphas, P, order)
        for a, alpha in enumerate(alphas):
            A = W.T @ W + alpha * np.diag(penalty_mask(P, s))
            assert_allclose(found[a], np.linalg.solve(A, W.T @ Ys), rtol=1e-8, atol=1e-10)


def test_longest_columns_come_first():
    W = RNG.standard_normal((30, 4)) * [1.0, 1e3, 1e-3, 1e2]
    _, order = reduced(RowBlocks(W), np.ones((30, 1)))
    assert order.tolist() == [1, 3, 0, 2]


def test_rows_of_tiny_weight_stay_accurate():
    """Longest rows first: small ones are not added to the rounding errors of large ones."""
    small = 1e-9 * RNG.standard_normal((6, 3))
    large = 1e9 * RNG.standard_normal((2, 3))
    R = stacked_triangle([small, large], 2)
    assert R.shape == (2, 3)
    exact = np.linalg.qr(np.vstack([large, small]), mode="r")[:2]
    assert_allclose(np.abs(R), np.abs(exact), rtol=1e-12)


# -- weights, columns, targets -----------------------------------------------------------------


def test_units_of_targets():
    for ordinary in (0.0, 1e-69, 1.0, 1e69):
        assert target_unit(np.array([[ordinary, -ordinary / 2]])) == 1.0
    for extreme in (1e-70, 1e70, 1e-200, -1e300, 5e-324, 1e308):
        unit = target_unit(np.array([[extreme, 0.0]]))
        assert np.log2(unit) == np.round(np.log2(unit))
        assert 2.0**-1000 <= unit <= 2.0**1000
        if 1e-290 < abs(extreme) < 1e290:
            assert 0.5 < abs(extreme) / unit < 2.0
    assert target_unit(np.empty((0, 1))) == 1.0


@every_number
def test_targets_without_their_level(s):
    scale, columns = RowScale.of(WEIGHTS), Unpenalised.of(Z[s], WEIGHTS)
    for unit in (1.0, 2.0**300):
        found = Targets.of(Y * unit, scale, columns)
        assert found.count == 2
        level = columns.U @ found.level
        assert_allclose((found.Y + level) * found.unit, Y * unit, rtol=1e-12)
        assert_allclose(columns.Q.T @ found.Ys, 0.0, atol=1e-10)
        assert_array_equal(found.Ys[WEIGHTS == 0], 0.0)
        assert (found.unit == 1.0) is (unit == 1.0)


def test_weights():
    scale = RowScale.of(np.array([4.0, 0.0, 1.0]))
    assert scale.root.tolist() == [2.0, 1.0, 1.0]
    assert scale.trained.tolist() == [True, False, True]
    assert not scale.uniform
    assert not scale.everything
    assert RowScale.of(np.ones(2)).uniform
    assert not RowScale.of(np.array([2.0, 2.0])).uniform
    assert RowScale.of(np.array([2.0, 2.0])).everything
    found = scale.targets(np.ones((3, 1)))
    assert found[:, 0].tolist() == [2.0, 0.0, 1.0]
    same = np.ones((2, 1))
    assert RowScale.of(np.ones(2)).targets(same) is same


def test_a_centre_of_two_parts():
    centre = Centre(np.full((1, 3), 2.0), np.full((1, 3), 0.5))
    assert centre.shape == (1, 3)
    assert_array_equal(centre.total, 2.5)
    assert_array_equal(Centre.of(np.ones((2, 1))).rest, 0.0)


def test_columns_that_the_rest_determines():
    """How little of a column may be left: 1,000 rows' rounding errors."""
    weights = np.ones(10)
    base = np.r_[np.ones(9), 0.0]
    eps = np.finfo(float).eps
    trend = np.c_[base, np.r_[np.zeros(9), 1.0]]
    columns = Unpenalised.of(trend, weights, ("base", "last"))
    columns.require_determined(Ragged.from_arrays([np.array([0, 1]), np.array([0])]))
    with pytest.raises(InvalidInputError, match="unpenalised last"):
        columns.require_determined(Ragged.from_arrays([np.array([2]), np.array([9])]))
    with pytest.raises(InvalidInputError, match="unpenalised base"):
        columns.require_determined(Ragged.from_arrays([np.array([2]), np.arange(9)]))
    with pytest.raises(InvalidInputError, match="unpenalised base"):
        columns.require_determined(Ragged.from_arrays([np.array([2]), np.arange(10)]))
    for gap, lost in ((1e5 * eps, False), (1e3 * eps, True)):
        near = np.c_[np.ones(10), 1.0 + gap * np.arange(10)]
        if lost:
            with pytest.raises(InvalidInputError, match="column 1"):
                Unpenalised.of(near, weights)
        else:
            assert Unpenalised.of(near, weights).count == 2
