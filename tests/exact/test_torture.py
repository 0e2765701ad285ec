"""Every family of hard problems, every path: within 30 times of retraining by QR, or said aloud.

`make torture` draws as many as you like; here each family has a few, and the worst that were ever
found keep their seeds.
"""

from __future__ import annotations

import numpy as np
import pytest

from torture.families import FAMILIES, problem
from torture.measure import FACTOR, measure

#: Problems that once were past the ratio.
FOUND = [
    ("units", 0),
    ("rare_columns", 1),
    ("rare_columns", 2),
    ("smooth_kernel", 2),
    ("cubic_with_outlier", 0),
    ("time_stamps", 1),
    ("correlated_units", 3),
    ("sparse_wild_weights", 4),
    ("target_sizes", 0),
]

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.mark.parametrize(("family", "seed"), [*((name, 100) for name in FAMILIES), *FOUND])
def test_no_path_is_silently_worse_than_qr(family, seed):
    found = measure(problem(family, seed))
    for path in found.paths:
        assert found.excess(path) <= FACTOR, f"{family} seed {seed} {path}: {found.paths[path]}"


def test_a_time_stamp_costs_nothing():
    """One column of seconds since 1970: scikit-learn's RidgeCV is wrong by 0.09 here."""
    from sklearn.linear_model import Ridge

    from holdfast import KernelRidgeCV

    rng = np.random.default_rng(0)
    m = 200
    X = np.c_[rng.normal(size=(m, 3)), 1.7e9 + 1e7 * rng.normal(size=m)]
    y = X[:, :3] @ [1, -1, 0.5] + 0.1 * rng.normal(size=m)
    model = KernelRidgeCV(kernel="linear").fit(X, y)
    ridge = Ridge(alpha=model.alpha_).fit(X, y)
    np.testing.assert_allclose(model.predict(X), ridge.predict(X), atol=1e-7)
    assert model.verify().max_relative_error < 1e-11


@pytest.mark.parametrize("unit", [1e-170, 1e-100, 1e100, 1e149])
def test_targets_of_any_size_choose_the_same_penalty(unit):
    from holdfast import KernelRidgeCV

    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 3))
    y = X @ [1.0, 2.0, -1.0] + 0.3 * rng.normal(size=40)
    plain, other = (KernelRidgeCV(gamma=0.1).fit(X, y * factor) for factor in (1.0, unit))
    assert other.alpha_ == plain.alpha_
    np.testing.assert_allclose(other.predict(X) / unit, plain.predict(X), rtol=1e-9)
