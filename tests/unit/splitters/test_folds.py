"""A number of folds is scikit-learn's KFold, without its splits."""

import numpy as np
import pytest
from sklearn.model_selection import KFold

from holdfast import KernelRidgeCV
from holdfast.splitters.cv import as_experiments


@pytest.mark.parametrize(("m", "k"), [(60, 5), (61, 5), (7, 7), (13, 4), (5, 2)])
def test_folds_are_those_of_kfold(m, k):
    found = as_experiments(k, m)
    for j, (_, test) in enumerate(KFold(k).split(np.zeros((m, 1)))):
        np.testing.assert_array_equal(found.held_out[j], test)
        np.testing.assert_array_equal(found.test[j], test)
    assert len(found) == k


@pytest.mark.parametrize("cv", [3, np.int64(3), KFold(3)])
def test_a_fit_takes_either(cv):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(31, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=31)
    model = KernelRidgeCV(gamma=0.5, cv=cv, alphas=[1e-6, 0.1, 1e3]).fit(X, y)
    same = KernelRidgeCV(gamma=0.5, cv=list(KFold(3).split(X)), alphas=[1e-6, 0.1, 1e3]).fit(X, y)
    np.testing.assert_allclose(model.held_out().values, same.held_out().values, rtol=1e-12)
