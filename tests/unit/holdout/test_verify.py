"""What a certificate forgives, and what it does not."""

import numpy as np
import pytest

from holdfast import KernelRidgeCV
from holdfast.holdout.verify import Verification


def certificate(errors, rounding, chosen):
    errors = np.array([errors])
    alphas = np.logspace(-9, 0, errors.size)
    return Verification(
        float(errors.max()), errors, np.array([4]), alphas, np.array([chosen]), np.array(rounding)
    )


@pytest.mark.parametrize(
    ("errors", "rounding", "chosen", "well"),
    [
        ([1e-9, 1e-12], [0.0, 0.0], 1, True),
        ([1e-9, 2e-8], [0.0, 0.0], 1, False),  # more than is promised
        ([1e-9, 2e-8], [0.0, 1e-8], 1, True),  # what double precision cannot represent
        ([1e-9, 5e-8], [0.0, 1e-8], 1, False),  # but not by more than that
        ([2e-6, 1e-12], [1e-7, 0.0], 1, True),  # a penalty that nobody uses
        ([2e-6, 1e-12], [1e-7, 0.0], 0, False),
        ([1e-9, np.nan], [0.0, 0.0], 1, False),
        ([1e-9, np.inf], [0.0, 1e-12], 1, False),
    ],
)
def test_what_is_verified(errors, rounding, chosen, well):
    found = certificate(errors, rounding, chosen)
    assert found.verified is well
    assert ("NOT verified" in found.words()) is not well
    assert ("NOT verified" in repr(found)) is not well
    assert "Do not rely on these numbers" in found.words() or well


def test_words_name_the_penalties_where_rounding_errors_are_large():
    words = certificate([2e-6, 1e-12], [1e-7, 3e-13], 1).words()
    assert "largest difference 1e-12 of the spread of y (double precision allows 3e-13)" in words
    assert "At alpha = 1e-09 and below, which was not chosen" in words
    assert "errors reach 2e-06" in words
    assert "At alpha" not in certificate([1e-9, 1e-12], [0.0, 0.0], 1).words()


@pytest.mark.parametrize("level", [0.0, 1e6])
def test_a_row_that_is_predicted_to_be_the_mean_is_no_alarm(level):
    """Differences are over the spread of y, or over how far a prediction lies from its mean."""
    x = np.linspace(-2, 2, 41)  # odd targets: the model without the row in the middle is odd too
    model = KernelRidgeCV(gamma=0.5, alphas=[1e-3])
    model.fit(x[:, None], np.sin(x) + level)
    middle = model.predict_without([20])
    assert abs(middle[0] - level) < 1e-9
    found = model.verify(41)
    assert found.max_relative_error < 1e-10 * max(level, 1.0)
    assert found.verified
    assert found.relative_errors.shape == (41, 1)
    assert found.rounding.shape == (1,)
