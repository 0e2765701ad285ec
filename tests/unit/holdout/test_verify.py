"""What a certificate forgives, and what it does not."""

import numpy as np
import pytest

from holdfast import KernelRidgeCV
from holdfast.holdout.verify import Verification


def certificate(errors, promised, chosen):
    errors = np.array([errors])
    alphas = np.logspace(-9, 0, errors.size)
    return Verification(
        float(errors.max()), errors, np.array([4]), alphas, np.array([chosen]), np.array(promised)
    )


@pytest.mark.parametrize(
    ("errors", "promised", "chosen", "well"),
    [
        ([1e-9, 1e-12], [0.0, 0.0], 1, True),
        ([2e-6, 1e-12], [0.0, 0.0], 1, False),  # a penalty where all digits should be there
        ([2e-6, 1e-12], [1e-7, 0.0], 1, True),  # one where training itself has seven
        ([2e-6, 1e-12], [1e-7, 0.0], 0, False),  # but not if the model uses it
        ([4e-6, 1e-12], [1e-7, 0.0], 1, False),  # nor by more than that
        ([1e-9, np.nan], [0.0, 0.0], 1, False),
    ],
)
def test_only_penalties_without_digits_are_forgiven(errors, promised, chosen, well):
    found = certificate(errors, promised, chosen)
    assert found.verified is well
    assert ("NOT verified" in found.words()) is not well
    assert ("NOT verified" in repr(found)) is not well


def test_words_name_the_penalty_where_digits_end():
    words = certificate([2e-6, 1e-12], [1e-7, 0.0], 1).words()
    assert "1.0e-12 at the chosen λ, 2.0e-06 over the grid" in words
    assert "At λ = 1e-09 double precision has no more digits" in words


def test_a_row_that_is_predicted_to_be_zero_is_no_alarm():
    """Deviations are relative to the largest prediction, not to that of the row itself."""
    x = np.linspace(-2, 2, 41)  # odd targets: the model without the row in the middle is odd too
    model = KernelRidgeCV(gamma=0.5, alphas=[1e-3], fit_intercept=False)
    model.fit(x[:, None], np.sin(x))
    middle = model.predict_without([20])
    assert abs(middle[0]) < 1e-12
    assert model.verify(41).max_relative_error < 1e-10
