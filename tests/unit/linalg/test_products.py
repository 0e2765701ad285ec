"""Products of stacks in every way they may go, and matrices in several blocks of rows."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from holdfast.exceptions import KernelError, SingularBasisError
from holdfast.linalg import constraint, products, symmetric, threads
from holdfast.linalg.constraint import Complement, orthonormal_rows, orthonormal_stacks
from holdfast.linalg.definite import Definite
from holdfast.linalg.products import weighted_products, whitened_products
from holdfast.linalg.symmetric import mirror, shifted_inverse, solve_small, subtract_outer

RNG = np.random.default_rng(3)


def diagonals(a, p):
    return RNG.uniform(0.1, 2.0, size=(a, p))


@pytest.mark.parametrize("tile", [1, 60, 2**20])
@pytest.mark.parametrize(("g", "h", "p", "a"), [(3, 1, 4, 2), (2, 5, 3, 8), (1, 7, 2, 6)])
def test_pairs_of_rows(monkeypatch, tile, g, h, p, a):
    monkeypatch.setattr(products, "_TILE_DOUBLES", tile)
    monkeypatch.setattr(products, "_PAIRS_UP_TO", 100)
    monkeypatch.setattr(products, "_PAIR_ROWS_PER_ALPHA", 100)
    V, D = RNG.standard_normal((g, h, p)), diagonals(a, p)
    assert_allclose(weighted_products(V, D), np.einsum("ghp,ap,gkp->gahk", V, D, V), rtol=1e-12)


@pytest.mark.parametrize("strips", [0, 1000])
@pytest.mark.parametrize("rows", [1, 8, 16])
@pytest.mark.parametrize(("g", "h", "p", "a"), [(2, 9, 4, 2), (1, 40, 3, 3), (2, 16, 5, 1)])
def test_scaled_rows(monkeypatch, strips, rows, g, h, p, a):
    monkeypatch.setattr(products, "_STRIPS_UP_TO", strips)
    monkeypatch.setattr(products, "_STRIP", rows)
    monkeypatch.setattr(products, "_PAIRS_UP_TO", 0)
    V, D = RNG.standard_normal((g, h, p)), diagonals(a, p)
    expected = np.einsum("ghp,ap,gkp->gahk", V, D, V)
    assert_allclose(weighted_products(V, D), expected, rtol=1e-10, atol=1e-12)
    plain = weighted_products(V, None)
    assert_allclose(plain, np.einsum("ghp,gkp->ghk", V, V)[:, None], rtol=1e-10, atol=1e-12)
    assert_array_equal(plain, plain.swapaxes(2, 3))


@pytest.mark.parametrize("eliminated", [0, 100])
@pytest.mark.parametrize("a", [2, 9])
@pytest.mark.parametrize(("e", "k"), [(1, 3), (3, 20), (4, 0)])
def test_whitened_products(monkeypatch, eliminated, a, e, k):
    monkeypatch.setattr(products, "_ELIMINATED_UP_TO", eliminated)
    monkeypatch.setattr(products, "_SMALL_PRODUCT", 1)
    g, p = 2, 7
    O, B, D = RNG.standard_normal((g, e, p)), RNG.standard_normal((g, k, p)), diagonals(a, p)  # noqa: E741
    found = whitened_products(O, B, D)
    for i, j in itertools.product(range(g), range(a)):
        L = np.linalg.cholesky((O[i] * D[j]) @ O[i].T)
        expected = np.linalg.solve(L, (O[i] * D[j]) @ B[i].T)
        assert_allclose(found[i, j], expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("rows", [1, 3, 7, 100])
def test_blocks_of_rows(monkeypatch, rows):
    monkeypatch.setattr(symmetric, "_ROWS", rows)
    A = RNG.standard_normal((8, 8))
    upper = np.triu(A)
    mirror(A)
    assert_array_equal(A, upper + np.triu(upper, 1).T)
    u, v, B = RNG.standard_normal(8), RNG.standard_normal(5), RNG.standard_normal((8, 5))
    expected = B - np.outer(u, v)
    subtract_outer(B, u, v)
    assert_allclose(B, expected, rtol=1e-14)
    M = A @ A.T + np.eye(8)
    assert_allclose(shifted_inverse(M.copy(), 0.5), np.linalg.inv(M + 0.5 * np.eye(8)), rtol=1e-9)
    assert shifted_inverse(np.empty((0, 0)), 1.0).shape == (0, 0)
    with pytest.raises(KernelError, match=r"alpha=0.5 is not .* \(pivot 2 of 2\)"):
        shifted_inverse(np.diag([1.0, -2.0]), 0.5)


@pytest.mark.parametrize("block", [1, 3, 1000])
@pytest.mark.parametrize("e", [0, 1, 3])
def test_a_complement_in_blocks(monkeypatch, block, e):
    monkeypatch.setattr(constraint, "_BLOCK", block)
    p = 7
    N = RNG.standard_normal((e, p))
    A = RNG.standard_normal((p, p))
    A = A + A.T
    found = Complement(N)
    basis = found.lift(np.eye(p - e))
    assert_allclose(basis.T @ basis, np.eye(p - e), atol=1e-13)
    assert_allclose(N @ basis, 0.0, atol=1e-13)
    assert_allclose(found.reduce(A), basis.T @ A @ basis, atol=1e-12)
    small = basis.T @ A @ basis
    assert_allclose(found.lift_symmetric(small), basis @ small @ basis.T, atol=1e-12)
    z = RNG.standard_normal((2, p, 3))
    assert_allclose(found.project(z), basis.T @ z, atol=1e-12)
    assert found.n_removed == e


def test_stacks_of_constraints_that_nearly_depend_on_each_other():
    N = RNG.standard_normal((6, 5))
    N[1] = N[0] + 1e-9 * RNG.standard_normal(5)
    N[5] = N[4]
    E = np.array([[0, 1, 2], [2, 3, 4]])
    found = orthonormal_stacks(N, E)
    for j in range(2):
        O = found[j]  # noqa: E741
        assert_allclose(O.T @ O, np.eye(3), atol=1e-12)
        inside = O @ (O.T @ N[E[j]].T)
        assert_allclose(inside, N[E[j]].T, atol=1e-10)
    with pytest.raises(SingularBasisError, match="linearly dependent"):
        orthonormal_stacks(N, np.array([[2, 3], [4, 5]]))
    zero = N.copy()
    zero[3] = 0.0
    with pytest.raises(SingularBasisError, match="row 1 of 2 has length 0"):
        orthonormal_stacks(zero, np.array([[2, 3], [0, 4]]))


def test_stacks_ask_for_the_span_of_rows_that_nearly_depend_on_each_other():
    """Only of those, by their numbers; coordinates that it does not know are zero."""
    N = RNG.standard_normal((5, 6))
    N[:, 4:] = 0.0
    N[1] = N[0] + 1e-5 * N[1]
    E, d = np.array([[1, 0, 3], [2, 4, 3]]), RNG.uniform(0.5, 1.0, size=6)
    other, asked = RNG.standard_normal((4, 3)), []

    def span(rows):
        asked.append(rows.tolist())
        return other

    for under in (None, d):
        O = orthonormal_stacks(N, E, under, span)  # noqa: E741
        assert_allclose(O[0].T @ O[0], np.eye(3), atol=1e-13)
        assert not O[0][4:].any()
        mapped = other if under is None else under[:4, None] * other
        assert_allclose(mapped @ np.linalg.lstsq(mapped, O[0][:4])[0], O[0][:4], atol=1e-12)
        plain = orthonormal_stacks(N, E[1:], under)
        assert_allclose(O[1], plain[0], atol=1e-13)
    assert asked == [[1, 0, 3]] * 2


def test_rank_is_judged_by_the_number_of_unknowns():
    eps = np.finfo(float).eps
    for gap, dependent in ((100.0 * eps, False), (0.5 * eps, True)):
        N = np.zeros((2, 4))
        N[0, 0], N[1, 0], N[1, 1] = 1.0, 1.0, gap
        if dependent:
            with pytest.raises(SingularBasisError):
                orthonormal_rows(N)
        else:
            assert_allclose(np.abs(orthonormal_rows(N)[:2]), np.eye(2), atol=1e-9)


# -- definite systems --------------------------------------------------------------------------


@pytest.mark.parametrize("h", [1, 3, 60])
def test_limits_of_pivots(h):
    eps = np.finfo(float).eps
    M = np.repeat(np.eye(h)[None], 4, axis=0)
    M[1, -1, -1] = 2.0 * h * eps
    M[2, -1, -1] = 0.5 * h * eps
    M[3] *= 10.0
    M[3, -1, -1] = 2.0 * h * eps if h > 1 else 10.0
    system = Definite(M.copy())
    failed = [False, False, h > 1, False]
    if h == 1:
        failed[2] = False  # beside itself it is large
    assert system.failed.tolist() == failed
    assert_allclose(system.log_det[1], np.log(2.0 * h * eps), rtol=1e-9)
    x = system.solve(np.ones((4, h, 2)))
    assert_array_equal(~x.any(axis=(1, 2)), failed)
    assert_allclose(x[0], 1.0)


@pytest.mark.parametrize("h", [3, 60])
def test_a_matrix_that_is_not_definite_among_others(h):
    M = np.repeat(np.eye(h)[None], 3, axis=0)
    M[1, 0, 0] = -1.0
    M[2] *= 4.0
    system = Definite(M.copy())
    assert system.failed.tolist() == [False, True, False]
    assert_allclose(system.log_det, [0.0, -np.inf, h * np.log(4.0)])
    x = system.solve(np.ones((3, h, 1)))
    assert_allclose(x[0], 1.0)
    assert not x[1].any()
    assert_allclose(x[2], 0.25)


def test_one_number_is_divided_by():
    assert_allclose(solve_small(np.array([[4.0]]), np.array([[8.0, 2.0]])), [[2.0, 0.5]])
    with pytest.raises(np.linalg.LinAlgError):
        solve_small(np.zeros((1, 1)), np.ones((1, 1)))


# -- pieces of work ----------------------------------------------------------------------------


def test_pieces_of_pieces_have_one_thread():
    seen = []
    threads.run_pieces(lambda _: seen.append(threads.piece_threads()), range(3), 1)
    threads.run_pieces(lambda _: seen.append(threads.piece_threads()), range(1), 4)
    assert seen == [1, 1, 1, 1]


def test_pieces_run_side_by_side():
    import threading

    both = threading.Barrier(2, timeout=20)
    threads.run_pieces(lambda _: both.wait(), range(2), 2)
    names = set()
    threads.run_pieces(lambda _: names.add(threading.current_thread().name), range(3), 1)
    assert names == {threading.current_thread().name}


def test_all_threads_are_left_to_the_pieces(monkeypatch):
    monkeypatch.setattr(threads, "blas_threads", lambda: 7)
    with threads.pieces_alone(threads.SMALL - 1):
        assert threads._kept.get() == 7
        with threads.pieces_alone(1):
            assert threads.piece_threads() == 7
    with threads.pieces_alone(threads.SMALL):
        assert threads._kept.get() is None
    assert threads._kept.get() is None
