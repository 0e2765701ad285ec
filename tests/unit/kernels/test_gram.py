"""Blocks of the kernel matrix: every way of asking gives the same numbers, or a clear error."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import holdfast.kernels.matrix as gram_module
from holdfast.exceptions import InvalidInputError, KernelError
from holdfast.kernels import RBF, FunctionKernel, Matern, Polynomial
from holdfast.kernels.matrix import (
    KernelData,
    KernelRows,
    PrecomputedRows,
)
from reference import kernels as naive

ROUNDING = 1e-13
M, D = 17, 5


def rows(m=M, d=D, seed=0):
    return np.random.default_rng(seed).normal(size=(m, d))


def shared_letters(X, Z):
    return [[len(set(x) & set(z)) for z in Z] for x in X]


def make(form):
    """Return data of that form and its whole kernel matrix, computed apart."""
    X = rows()
    K = naive.gram("rbf", X, gamma=0.2)
    if form == "dense":
        return KernelRows(RBF(0.2), X), K
    if form == "float32":
        X = X.astype(np.float32)
        return KernelRows(RBF(0.2), X), naive.gram("rbf", X, gamma=0.2)
    if form == "sparse":
        return KernelRows(RBF(0.2), sp.csr_matrix(X)), K
    if form == "objects":
        words = ["ab", "bc", "xyz", "az", "q", "abcdef", "x", "yx", "c"]
        return KernelRows(FunctionKernel(shared_letters), words), np.array(
            shared_letters(words, words), dtype=float
        )
    if form == "precomputed":
        return PrecomputedRows(K), K
    assert form == "taken"
    order = np.random.default_rng(1).permutation(M)[:11]
    return PrecomputedRows(K).take(order), K[np.ix_(order, order)]


FORMS = ["dense", "float32", "sparse", "objects", "precomputed", "taken"]
forms = pytest.mark.parametrize("form", FORMS)

INDICES = [
    slice(None),
    slice(2, 6),
    slice(7, 1, -2),
    np.array([3, 0, 5]),
    [4, 5, 6],
    np.array([2, 2, 1], dtype=np.int32),
    np.array([1, 2], dtype=np.uint8),
    np.array([], dtype=np.intp),
    [],
]


@forms
@pytest.mark.parametrize("i", range(len(INDICES)))
def test_block_is_a_cut_of_the_matrix(form, i):
    data, K = make(form)
    for columns in INDICES:
        check_block(data, K, INDICES[i], columns)


def check_block(data, K, rows_index, columns_index):
    everything = np.arange(len(data))
    block = data.block(rows_index, columns_index)
    as_index = [
        everything[k] if isinstance(k, slice) else np.asarray(k, dtype=np.intp)
        for k in (rows_index, columns_index)
    ]
    expected = K[np.ix_(*as_index)]
    np.testing.assert_allclose(block, expected, rtol=ROUNDING, atol=ROUNDING)
    assert type(block) is np.ndarray
    assert block.shape == expected.shape
    assert block.dtype == np.float64
    assert block.flags.c_contiguous


@forms
def test_blocks_are_fresh(form):
    data, _ = make(form)
    before = data.block(slice(None), slice(None))
    data.block(slice(None), slice(None))[...] = np.nan
    data.block(slice(0, 3), slice(1, 4))[...] = np.nan
    data.diag()[...] = np.nan
    np.testing.assert_array_equal(data.block(slice(None), slice(None)), before)


@forms
def test_diagonals_and_masks(form):
    data, K = make(form)
    mask = np.arange(len(data)) % 3 == 0
    for rows_index in (slice(None), slice(2, 4), [3, 1], mask):
        expected = K.diagonal()[rows_index]
        np.testing.assert_allclose(data.diag(rows_index), expected, rtol=ROUNDING)
    np.testing.assert_array_equal(data.diag(), data.diag(slice(None)))
    np.testing.assert_allclose(data.block(mask, ~mask), K[mask][:, ~mask], rtol=ROUNDING)
    assert len(data.take(mask)) == mask.sum()


@forms
def test_take_renumbers(form):
    data, K = make(form)
    chosen = np.array([5, 1, 1, 7])
    taken = data.take(chosen)
    assert isinstance(taken, KernelData)
    assert len(taken) == 4
    expected = K[np.ix_(chosen, chosen)]
    np.testing.assert_allclose(taken.block(slice(None), slice(None)), expected, rtol=ROUNDING)
    np.testing.assert_allclose(taken.diag([0, 3]), K.diagonal()[[5, 7]], rtol=ROUNDING)
    again = taken.take(slice(1, None)).block([2, 0], [1])
    np.testing.assert_allclose(again, K[np.ix_([7, 1], [1])], rtol=ROUNDING)
    assert len(data) == K.shape[0]  # the whole is as it was


@forms
def test_data_survive_pickling(form):
    data, _ = make(form)
    copy = pickle.loads(pickle.dumps(data))
    np.testing.assert_array_equal(copy.block([1, 2], [0]), data.block([1, 2], [0]))
    assert repr(copy) == repr(data)


@forms
@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([0, 99], "between 0 and .*; got 99"),
        ([-1], "between 0 and .*; got -1"),
        ([0.5], "1-D array of integers.*dtype float64"),
        ([[0, 1]], r"shape \(1, 2\)"),
        (3, r"shape \(\)"),
        (np.array([True, False]), "boolean mask of length"),
    ],
)
def test_bad_index(form, index, message):
    data, _ = make(form)
    calls = [
        lambda: data.block(index, slice(None)),
        lambda: data.block(slice(None), index),
        lambda: data.diag(index),
        lambda: data.take(index),
    ]
    for call in calls:
        with pytest.raises(InvalidInputError, match=message):
            call()


# rows with a kernel -----------------------------------------------------------------------------


def test_block_of_the_same_rows_is_exactly_symmetric():
    data = KernelRows(Matern(0.5, 0.3), rows(40, 12, 2) + 1e4)
    for index in (slice(3, 30), np.array([5, 1, 30, 2])):
        K = data.block(index, index.copy() if isinstance(index, np.ndarray) else index)
        np.testing.assert_array_equal(K, K.T)
        np.testing.assert_array_equal(K.diagonal(), 1.0)


def test_rows_that_are_also_columns_have_the_diagonals_value():
    # basis rows sit among all rows: the blocks must agree about them to the last digits
    data = KernelRows(Matern(0.5, 0.3), rows(40, 12, 3) + 1e4)
    columns = np.array([7, 20, 33])
    block = data.block(slice(None), columns)
    np.testing.assert_array_equal(block[columns, range(3)], 1.0)
    np.testing.assert_allclose(block[columns], data.block(columns, columns), rtol=1e-11)


def test_predict_block_of_new_rows():
    X, new = rows(), rows(6, D, 4)
    expected = naive.gram("rbf", new, X, gamma=0.2)[:, [3, 9]]
    for data in (KernelRows(RBF(0.2), X), KernelRows(RBF(0.2), sp.csr_array(X))):
        np.testing.assert_allclose(data.predict_block(new, [3, 9]), expected, rtol=ROUNDING)
        block = data.predict_block(sp.csr_array(new), np.array([3, 9]))
        np.testing.assert_allclose(block, expected, rtol=ROUNDING)
        with pytest.raises(InvalidInputError, match="same number of features; got 3 and 5"):
            data.predict_block(new[:, :3], [3, 9])
    words = KernelRows(FunctionKernel(shared_letters), ["ab", "bc", "cd"])
    np.testing.assert_array_equal(
        words.predict_block(["b", "cd"], [0, 2]), [[1.0, 0.0], [0.0, 2.0]]
    )


def test_only_the_asked_columns_are_computed():
    shapes = []

    def spy(X, Z):
        shapes.append((len(X), len(Z)))
        return X @ Z.T

    data = KernelRows(FunctionKernel(spy), rows())
    data.block(slice(0, 10), [1, 2, 3])
    data.predict_block(rows(4), [1, 2])
    data.take([0, 1, 2, 3]).block([0], [3])
    assert shapes == [(10, 3), (4, 2), (1, 1)]


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (FunctionKernel(lambda X, Z: np.ones((len(X), 1))), r"must return shape \(17, 17\)"),
        (FunctionKernel(lambda X, Z: np.full((len(X), len(Z)), np.nan)), "got 289 NaN"),
    ],
)
def test_wrong_kernel_values(kernel, message):
    with pytest.raises(KernelError, match=message):
        KernelRows(kernel, rows()).block(slice(None), slice(None))


@pytest.mark.parametrize("d", [2, 6])
def test_missing_values_are_counted(d):
    X = rows(9, d)
    X[4, 1] = np.nan
    data = KernelRows(RBF(0.5), X)
    with pytest.raises(KernelError, match=r"RBF\(gamma=0\.5\).*got 3 NaN and 0 infinite of 27"):
        data.block(slice(None), [0, 1, 2])
    data.block([0, 1], [2, 3])  # what does not touch that row is fine


def test_overflow_is_an_error_without_a_warning():
    data = KernelRows(Polynomial(9, 1.0), rows() * 1e60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(KernelError, match=r"Polynomial\(.*infinite"):
            data.block(slice(None), slice(None))
        with pytest.raises(KernelError, match=r"Polynomial\(.*infinite"):
            data.diag()


# precomputed kernels ----------------------------------------------------------------------------


def test_only_some_columns():
    K = naive.gram("rbf", rows(), gamma=0.2)
    columns = np.array([8, 2, 11, 5])
    data = PrecomputedRows(K[:, columns], columns=columns)
    assert len(data) == M
    np.testing.assert_array_equal(data.block(slice(None), columns), K[:, columns])
    np.testing.assert_array_equal(data.block([1, 9], [2, 8]), K[np.ix_([1, 9], [2, 8])])
    np.testing.assert_array_equal(data.diag([2, 11]), K.diagonal()[[2, 11]])
    with pytest.raises(InvalidInputError, match=r"no column for row 3 \(2 rows missing\)"):
        data.block([1], [2, 3, 4])
    with pytest.raises(InvalidInputError, match=r"no column for row 0 \(13 rows missing\)"):
        data.diag()
    taken = data.take([5, 0, 8])
    np.testing.assert_array_equal(taken.block([1], [0, 2]), K[np.ix_([0], [5, 8])])
    with pytest.raises(InvalidInputError, match="no column for row 1"):
        taken.block([0], [1])
    new = naive.gram("rbf", rows(6, D, 5), rows(), gamma=0.2)
    for given in (new, new[:, columns]):  # both widths are understood
        np.testing.assert_array_equal(data.predict_block(given, [11, 8]), new[:, [11, 8]])
    # those who have the whole row of new values may ask for any column
    np.testing.assert_array_equal(data.predict_block(new, [3]), new[:, [3]])
    with pytest.raises(InvalidInputError, match="no column for row 3"):
        data.predict_block(new[:, columns], [3])


def test_predict_block_checks_the_width():
    K = naive.gram("rbf", rows(), gamma=0.2)
    data = PrecomputedRows(K)
    new = naive.gram("rbf", rows(6, D, 5), rows(), gamma=0.2)
    np.testing.assert_array_equal(data.predict_block(new, slice(2, 4)), new[:, 2:4])
    with pytest.raises(InvalidInputError, match="17 columns wide; got 5 columns"):
        data.predict_block(new[:, :5], [0])
    with pytest.raises(InvalidInputError, match="4 or 17 columns wide; got 5 columns"):
        PrecomputedRows(K[:, :4], columns=range(4)).predict_block(new[:, :5], [0])
    with pytest.raises(KernelError, match="1 NaN"):
        data.predict_block(np.where(new == new[0, 3], np.nan, new), [3])
    # after take, either of the layouts
    taken = data.take([4, 1, 9])
    np.testing.assert_array_equal(taken.predict_block(new, [2, 0]), new[:, [9, 4]])
    np.testing.assert_array_equal(taken.predict_block(new[:, [4, 1, 9]], [2, 0]), new[:, [9, 4]])


def test_lists_and_integers_and_float32_are_matrices():
    K = np.array([[2, 1], [1, 2]])
    for given in (K, K.tolist(), K.astype(np.float32), K.astype(object), np.asfortranarray(K)):
        block = PrecomputedRows(given).block([1, 0], [0])
        assert block.dtype == np.float64
        np.testing.assert_array_equal(block, [[1.0], [2.0]])


@pytest.mark.parametrize(
    ("K", "columns", "error", "message"),
    [
        (np.ones((3, 2)), None, InvalidInputError, r"square; got shape \(3, 2\)"),
        (np.ones(3), None, InvalidInputError, r"2-D array of real numbers; got shape \(3,\)"),
        (np.eye(3) * 1j, None, InvalidInputError, "dtype complex128"),
        (sp.eye_array(3), None, InvalidInputError, r"dense 2-D array.*K\.toarray"),
        (np.array([["a"]], dtype=object), None, InvalidInputError, "must hold numbers"),
        (np.diag([1.0, np.nan]), None, KernelError, "precomputed .*got 1 NaN"),
        (np.diag([1.0, np.inf]), None, KernelError, "precomputed .*1 infinite"),
        (np.ones((3, 2)), [0], InvalidInputError, "2 columns of K; got 1 numbers, 1 of them"),
        (np.ones((3, 2)), [0, 0], InvalidInputError, "got 2 numbers, 1 of them different"),
        (np.ones((3, 2)), [0, 3], InvalidInputError, "between 0 and 2; got 3"),
        (
            np.array([[1.0, 0.5], [0.4, 1.0], [0.0, 0.0]]),
            [0, 1],
            KernelError,
            "rows 0 and 1 that differ by 0.1",
        ),
    ],
)
def test_bad_matrices(K, columns, error, message):
    with pytest.raises(error, match=message):
        PrecomputedRows(K, columns=columns)


@pytest.mark.parametrize("entries", [1, 100, 2**20])
def test_asymmetry_is_found_and_placed(entries, monkeypatch):
    monkeypatch.setattr(gram_module, "_BLOCK_ENTRIES", entries)
    K = 5.0 * naive.gram("rbf", rows(), gamma=0.2)
    PrecomputedRows(K + 4e-8 * np.triu(np.ones((M, M)), 1))  # within 1e-8 of the largest, 5
    for i, j in [(0, 1), (3, 12), (12, 3), (16, 0), (15, 16)]:
        bad = K.copy()
        bad[i, j] += 1e-7
        low, high = min(i, j), max(i, j)
        with pytest.raises(KernelError, match=f"rows {low} and {high} that differ by 1e-07"):
            PrecomputedRows(bad)
    bad = K.copy()
    bad[16, 2] = np.nan  # below the diagonal
    with pytest.raises(KernelError, match="1 NaN"):
        PrecomputedRows(bad)


def test_float32_may_be_as_asymmetric_as_its_digits():
    K = naive.gram("rbf", rows(), gamma=0.2)
    noisy = K.astype(np.float32)
    noisy[2, 5] = np.nextafter(noisy[2, 5], np.float32(2))
    PrecomputedRows(noisy)
    noisy[2, 5] += np.float32(1e-4)
    with pytest.raises(KernelError, match="rows 2 and 5"):
        PrecomputedRows(noisy)
    with pytest.raises(KernelError, match="rows 0 and 1"):
        PrecomputedRows(np.array([[2, 1], [0, 2]]))
