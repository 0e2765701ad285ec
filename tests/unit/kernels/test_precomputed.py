"""Kernel matrices that users bring, and which values of a kernel function are asked for."""

import numpy as np
import pytest

from holdfast import KernelRidgeCV
from holdfast.exceptions import InvalidInputError, KernelError
from reference import kernels as naive

M = 17
X = np.random.default_rng(0).normal(size=(M, 5))
NEW = np.random.default_rng(5).normal(size=(6, 5))
Y = X[:, 0] + 0.2 * np.random.default_rng(1).normal(size=M)
K, K_NEW = naive.gram("rbf", X, gamma=0.2), naive.gram("rbf", NEW, X, gamma=0.2)
BASIS = np.array([8, 2, 11, 5])


def fitted(matrix, **options):
    return KernelRidgeCV("precomputed", alphas=[0.1], **options).fit(matrix, Y)


@pytest.mark.parametrize("basis", [None, BASIS], ids=["dense", "basis"])
def test_a_matrix_is_the_kernel_that_made_it(basis):
    twin = KernelRidgeCV(gamma=0.2, alphas=[0.1], basis=basis).fit(X, Y)
    matrices = [K, K.tolist(), K.astype(object), np.asfortranarray(K)]
    for matrix in matrices if basis is None else [K, K[:, BASIS]]:
        model = fitted(matrix, basis=basis)
        new = K_NEW[:, BASIS] if np.shape(matrix)[1] == BASIS.size else K_NEW
        np.testing.assert_allclose(model.predict(new), twin.predict(NEW), rtol=1e-9)
        without = model.predict_without([2, 3], new)
        np.testing.assert_allclose(without, twin.predict_without([2, 3], NEW), rtol=1e-9)
        with pytest.raises(InvalidInputError):
            model.predict(K_NEW[:, :3])


def test_the_asymmetric_pair_is_named():
    fitted(5.0 * K + 4e-8 * np.triu(np.ones((M, M)), 1))  # within 1e-8 of the largest, 5
    for i, j in [(0, 1), (12, 3), (15, 16)]:
        bad = 5.0 * K
        bad[i, j] += 1e-6
        with pytest.raises(KernelError, match=f"rows {min(i, j)} and {max(i, j)} that differ"):
            fitted(bad)
    bad = 5.0 * K[:, BASIS]
    bad[2, 0] += 1e-3
    with pytest.raises(KernelError, match="rows 8 and 2 that differ"):
        fitted(bad, basis=BASIS)


def test_float32_may_be_as_asymmetric_as_its_digits():
    noisy = (K + np.eye(M)).astype(np.float32)
    noisy[2, 5] = np.nextafter(noisy[2, 5], np.float32(2))
    fitted(noisy)
    noisy[2, 5] += np.float32(1e-4)
    with pytest.raises(KernelError, match="rows 2 and 5"):
        fitted(noisy)


def test_only_the_columns_of_the_basis_are_computed():
    shapes = set()

    def spy(A, B):
        shapes.add((len(A), len(B)))
        return A @ B.T

    model = KernelRidgeCV(spy, alphas=[0.1], basis=[1, 2, 3]).fit(X, Y)
    model.predict(NEW)
    assert {(M, 3), (len(NEW), 3)} <= shapes
    assert (len(NEW), M) not in shapes


def test_missing_values_of_a_kernel_are_counted():
    def broken(A, B):
        values = A @ B.T
        values[0, 1] = np.nan
        return values

    with pytest.raises(KernelError, match=r"broken must return finite values; got 1 NaN"):
        KernelRidgeCV(broken).fit(X, Y)
