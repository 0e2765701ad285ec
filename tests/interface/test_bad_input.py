"""Bad input: one clear sentence, a specific exception, and nothing is changed."""

import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GroupKFold

from bad_calls.fits import (
    ALPHAS,
    BASES,
    CLASSES,
    DATA,
    GROUPS,
    KERNELS,
    LABELS,
    OPTIONS,
    SPLITS,
    K,
    M,
    X,
    Y,
    put,
)
from bad_calls.questions import HOLD_OUTS, QUESTIONS
from holdfast import HoldOut, KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.exceptions import (
    GridEdgeWarning,
    HoldfastError,
    HoldfastWarning,
    HoldOutError,
    InvalidInputError,
    NotSupportedError,
)
from holdfast.kernels import RBF, Linear


def unchanged(before, after):
    """Whether two states hold the same objects, arrays compared by value."""
    assert before.keys() == after.keys()
    for name, value in before.items():
        assert after[name] is value


def copy_of(value):
    return value.copy() if hasattr(value, "copy") else value


def same(a, b):
    if sp.issparse(a):
        return (a != b).nnz == 0 or np.array_equal(a.data, b.data, equal_nan=True)
    if isinstance(a, np.ndarray):
        kind = a.dtype.kind
        return np.array_equal(a, b, equal_nan=kind in "fc") and a.dtype == b.dtype
    return a == b


def refused(model, X, y, error, words, **fit):
    """Assert that fit refuses, that it says all of `words`, and that nothing has changed."""
    arguments = {"X": X, "y": y, **fit}
    copies = {name: copy_of(value) for name, value in arguments.items()}
    before = dict(vars(model))
    with pytest.raises(error) as caught:
        model.fit(X, y, **fit)
    assert caught.type is error
    assert isinstance(caught.value, HoldfastError)
    message = str(caught.value)
    for word in words:
        assert word in message, message
    # One sentence, perhaps two with the advice; no dump of the data.
    assert "\n" not in message
    assert len(message) < 500
    unchanged(before, dict(vars(model)))
    for name, value in arguments.items():
        assert same(value, copies[name]), name
    return message


@pytest.mark.parametrize(
    ("options", "X", "y", "error", "words", "fit"),
    [*DATA, *ALPHAS, *SPLITS, *KERNELS, *BASES, *OPTIONS],
)
def test_fit_refuses(options, X, y, error, words, fit):
    refused(KernelRidgeCV(**options), X, y, error, words, **fit)


@pytest.mark.parametrize(("options", "X", "y", "error", "words", "fit"), CLASSES)
def test_classifier_refuses(options, X, y, error, words, fit):
    y = LABELS if y is Y else y
    refused(KernelRidgeClassifierCV(**options), X, y, error, words, **fit)


def test_a_fitted_model_survives_a_refused_fit():
    model = KernelRidgeCV(cv=4).fit(X, Y)
    before, predictions = dict(vars(model)), model.predict(X)
    with pytest.raises(InvalidInputError, match="y must be finite"):
        model.fit(X[:, :2], put(Y, 0, np.nan))
    unchanged(before, dict(vars(model)))
    np.testing.assert_array_equal(model.predict(X), predictions)
    assert model.n_features_in_ == 3


def test_a_kernel_that_raises_is_not_hidden():
    def broken(A, B):
        raise ZeroDivisionError("inside the user's own function")

    with pytest.raises(ZeroDivisionError, match="user's own"):
        KernelRidgeCV(kernel=broken).fit(X, Y)


def test_an_iterator_is_used_up_once():
    model = KernelRidgeCV(cv=iter([(np.arange(10), np.arange(10, M))]))
    model.fit(X, Y)
    with pytest.raises(HoldOutError, match="an iterator yields its splits only once: pass a list"):
        model.fit(X, Y)


# -- a held-out experiment by itself -------------------------------------------------------------


@pytest.mark.parametrize(("arguments", "words"), HOLD_OUTS)
def test_hold_out_refuses(arguments, words):
    with pytest.raises(HoldOutError) as caught:
        HoldOut(*arguments)
    for word in words:
        assert word in str(caught.value)


# -- questions to a fitted model ------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    return KernelRidgeCV(basis=6, random_state=0, cv=3).fit(X, Y)


@pytest.mark.parametrize(("question", "error", "words"), QUESTIONS)
def test_questions_refused(fitted, question, error, words):
    before = dict(vars(fitted))
    with pytest.raises(error) as caught:
        question(fitted)
    assert caught.type is error
    for word in words:
        assert word in str(caught.value), str(caught.value)
    unchanged(before, dict(vars(fitted)))


def test_skip_never_tests_a_basis_row():
    model = KernelRidgeCV(basis=[4, 7, 11], held_out_basis="skip").fit(X, Y)
    with pytest.raises(HoldOutError, match="row 4 is a basis row"):
        model.predict_without([4, 15, 16])
    assert model.predict_without([15, 16]).shape == (2,)


def test_reselect_has_nothing_to_verify():
    model = KernelRidgeCV(basis=5, held_out_basis="reselect", cv=3, random_state=0).fit(X, Y)
    with pytest.raises(NotSupportedError, match='"reselect" retrains every experiment already'):
        model.verify()


@pytest.mark.parametrize(
    "question",
    [
        lambda m: m.predict(X),
        lambda m: m.predict_without([1]),
        lambda m: m.held_out(),
        lambda m: m.verify(),
        lambda m: m.explain(),
    ],
)
def test_before_fit(question):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        question(KernelRidgeCV())


@pytest.mark.parametrize("method", ["predict", "decision_function", "predict_proba"])
def test_classifier_before_fit(method):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(KernelRidgeClassifierCV(), method)(X)


# -- what is no bad input ------------------------------------------------------------------------


def test_a_nearly_singular_basis_is_mended_by_jitter_alone_when_asked():
    """ε is part of the model and named in the result; without it the same basis is refused."""
    twice = np.vstack([X[:1], X[:1], X[2:]])
    model = KernelRidgeCV(basis=[0, 1, 2], jitter=1e-8).fit(twice, Y)
    assert model.jitter_ == pytest.approx(1e-8)


def test_inputs_are_not_changed_by_a_fit():
    weights, groups, basis = np.linspace(0, 2, M), GROUPS.copy(), np.array([0, 5, 9, 13])
    alphas = np.logspace(-2, 2, 4)
    arguments = [X.copy(), Y.copy(), weights, groups, basis, alphas]
    copies = [a.copy() for a in arguments]
    for kernel in ("rbf", "linear", "precomputed"):
        rows = K.copy() if kernel == "precomputed" else arguments[0]
        keep = rows.copy()
        for chosen in (None, basis):
            model = KernelRidgeCV(kernel=kernel, basis=chosen, alphas=alphas, cv=GroupKFold(4))
            before = clone(model).get_params()
            model.fit(rows, arguments[1], sample_weight=weights, groups=groups)
            model.predict(rows)
            model.held_out(5)
            model.predict_without([1, 2])
            model.verify(2)
            assert re.sub(r" at 0x\w+", "", repr(model.get_params())) == re.sub(
                r" at 0x\w+", "", repr(before)
            )
        np.testing.assert_array_equal(rows, keep)
    for value, copy in zip(arguments, copies, strict=True):
        np.testing.assert_array_equal(value, copy)


def test_read_only_input():
    rows, targets, weights = X.copy(), Y.copy(), np.linspace(0, 1, M)
    for array in (rows, targets, weights):
        array.flags.writeable = False
    for options in (
        {},
        {"basis": [1, 4, 9]},
        {"kernel": "linear"},
        {"kernel": Linear() + RBF(1.0)},
    ):
        model = KernelRidgeCV(cv=4, **options).fit(rows, targets, sample_weight=weights)
        assert np.isfinite(model.predict(rows)).all()


def test_later_changes_of_the_weights_do_not_reach_the_model():
    weights = np.ones(M)
    model = KernelRidgeCV(cv=4).fit(X, Y, sample_weight=weights)
    expected = model.held_out().values.copy()
    weights[:] = 0.0
    np.testing.assert_array_equal(model.held_out().values, expected)


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
def test_rows_whose_squares_vanish_are_told():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    tiny = 1e-170 * X
    with pytest.warns(HoldfastWarning, match="squares are zero.*Multiply it by") as caught:
        KernelRidgeCV().fit(tiny, y)
    assert caught[0].message.argument == "X"
    with warnings.catch_warnings():
        warnings.simplefilter("error", HoldfastWarning)
        warnings.simplefilter("ignore", GridEdgeWarning)
        model = KernelRidgeCV().fit(1e160 * tiny, y)
        model.predict(tiny)  # new rows may lie anywhere
        KernelRidgeCV("precomputed", alphas=[1e-152, 1e-151]).fit(1e-152 * X @ X.T, y)


def test_targets_beyond_the_range_of_squares_are_refused():
    X, y = np.random.default_rng(0).normal(size=(2, 20, 1))
    y = y[:, 0] / np.abs(y).max()
    with pytest.raises(
        InvalidInputError, match=r"y must lie within ±1e\+100; got 2e\+100"
    ) as error:
        KernelRidgeCV().fit(X, 2e100 * y)
    assert error.value.argument == "y"
    assert np.isfinite(KernelRidgeCV(alphas=[0.1]).fit(X, 1e75 * y).best_score_)


@pytest.mark.parametrize("kind", [KernelRidgeCV, KernelRidgeClassifierCV])
def test_weights_more_than_twelve_decades_apart_are_refused(kind):
    X, y = np.random.default_rng(0).normal(size=(2, 20, 1))
    y = y[:, 0] if kind is KernelRidgeCV else y[:, 0] > 0
    weights = np.ones(20)
    weights[3:5] = 0.0, 2e-12
    kind(alphas=[0.1]).fit(X, y, sample_weight=weights)
    weights[4] = 1e-13
    with pytest.raises(InvalidInputError, match=r"12 decades .* from 1e-13 to 1\. ") as error:
        kind(alphas=[0.1]).fit(X, y, sample_weight=weights)
    assert error.value.argument == "sample_weight"
