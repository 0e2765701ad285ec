"""Predictions that lose their digits are trained anew; where that costs too much, it is said."""

import numpy as np
import pytest

from holdfast import KernelRidgeCV, holdout
from holdfast.exceptions import DigitsWarning

RNG = np.random.default_rng(2)
X = np.c_[RNG.normal(size=(40, 3)), np.zeros(40)]
X[7, 3] = 1e3  # a column that is non-zero in one row: its leverage is nearly 1
Y = RNG.normal(size=40)
GIVEN = {"kernel": "linear", "alphas": [1e-6, 1e6]}


def held_out(path):
    return KernelRidgeCV(**GIVEN, path=path).fit(X, Y).held_out().values


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
@pytest.mark.parametrize("path", ["spectral", "single", "fold_gram"])
def test_trained_anew(path):
    np.testing.assert_allclose(held_out(path), held_out("retrain"), rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
def test_the_digits_that_are_left_with_a_warning(monkeypatch):
    monkeypatch.setattr(holdout, "affordable", lambda *_: False)
    with pytest.warns(DigitsWarning, match="at alpha = 1e-06 .* 1 experiments"):
        found = held_out("spectral")
    assert np.isfinite(found).all()
    others = np.arange(40) != 7
    np.testing.assert_allclose(found[:, others], held_out("retrain")[:, others], rtol=1e-7)
