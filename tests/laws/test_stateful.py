"""A model through fits, questions, clones and pickles in any order: its answers stay."""

import copy
import pickle
import warnings

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.exceptions import InvalidInputError
from tolerances import assert_close

M = 18
RNG = np.random.default_rng(3)
X = RNG.normal(size=(M, 2))
NEW = RNG.normal(size=(4, 2))
TARGETS = {
    "one": X[:, 0] + 0.2 * RNG.normal(size=M),
    "two": np.c_[X[:, 0], X[:, 1] ** 2] + 0.2 * RNG.normal(size=(M, 2)),
    "classes": np.where(X[:, 0] + X[:, 1] > 0, "up", "down"),
}
WEIGHTS = np.where(np.arange(M) % 5 == 0, 0.0, 1.0 + np.arange(M) % 3)

OPTIONS = st.fixed_dictionaries(
    {
        "kernel": st.sampled_from(["rbf", "linear", "laplacian"]),
        "basis": st.sampled_from([None, 5, [0, 3, 7, 11]]),
        "cv": st.sampled_from([None, 3]),
        "fit_intercept": st.booleans(),
        "held_out_basis": st.sampled_from(["remove", "keep"]),
    }
)


class Answers:
    """What a fitted model says, to be compared with what it says later."""

    def __init__(self, model, classes):
        self.new, self.rows = model.predict(NEW), model.predict(X)
        self.held = model.held_out().values
        self.folds = model.held_out(cv=4).values
        self.without = model.predict_without([1, 2, 6])
        self.alpha, self.classes = model.alpha_, classes

    def compare(self, other):
        assert self.alpha == other.alpha
        for name in ("held", "folds", "without", *(() if self.classes else ("new", "rows"))):
            assert_close(getattr(other, name), getattr(self, name), "law")
        if self.classes:
            np.testing.assert_array_equal(self.new, other.new)
            np.testing.assert_array_equal(self.rows, other.rows)


class Lives(RuleBasedStateMachine):
    """One model, in whatever form it was left by the last rule."""

    @initialize(options=OPTIONS, wanted=st.sampled_from(sorted(TARGETS)))
    def make(self, options, wanted):
        self.target, self.classes = wanted, wanted == "classes"
        kind = KernelRidgeClassifierCV if self.classes else KernelRidgeCV
        self.model = kind(alphas=[0.01, 0.1, 1.0], random_state=0, **options)
        self.expected = None

    def fitted(self):
        return self.expected is not None

    @rule(weighted=st.booleans())
    def fit(self, weighted):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model.fit(X, TARGETS[self.target], sample_weight=WEIGHTS if weighted else None)
            self.expected = Answers(self.model, self.classes)

    @rule()
    def fit_that_is_refused(self):
        before = dict(vars(self.model))
        try:
            self.model.fit(np.full((M, 2), np.nan), TARGETS[self.target])
        except InvalidInputError:
            assert all(vars(self.model)[name] is value for name, value in before.items())
        else:
            raise AssertionError("accepted")

    @rule()
    def pickle(self):
        self.model = pickle.loads(pickle.dumps(self.model))

    @rule()
    def copy(self):
        self.model = copy.deepcopy(self.model)

    @rule()
    def clone(self):
        twin = clone(self.model)
        assert twin.get_params().keys() == self.model.get_params().keys()
        try:
            twin.predict(NEW)
        except NotFittedError:
            return
        raise AssertionError("a clone is not fitted")

    @rule()
    def begin_again_from_a_clone(self):
        self.model, self.expected = clone(self.model), None

    @precondition(fitted)
    @rule(rows=st.sets(st.integers(0, M - 1), min_size=1, max_size=3))
    def hold_out(self, rows):
        basis = self.model.basis_indices_
        if self.model.basis is not None and set(basis.tolist()) <= rows:
            return
        values = self.model.predict_without(sorted(rows))
        assert len(values) == len(rows)
        assert np.isfinite(values).all()

    @precondition(fitted)
    @rule()
    def verify(self):
        assert self.model.verify(2).max_relative_error < 1e-6

    @precondition(fitted)
    @rule()
    def explain_and_predict(self):
        assert str(self.model.explain())
        assert len(self.model.predict(NEW)) == len(NEW)

    @invariant()
    def answers_stay(self):
        if getattr(self, "expected", None) is None:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.expected.compare(Answers(self.model, self.classes))


Lives.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestLives = Lives.TestCase
