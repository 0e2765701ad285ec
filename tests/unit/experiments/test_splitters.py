"""Every splitter of scikit-learn, against splitting and retraining by hand."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    LeavePGroupsOut,
    LeavePOut,
    PredefinedSplit,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TimeSeriesSplit,
)

from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from reference.retrain import policy_experiment, retrain

SEED = 6
RNG = np.random.default_rng(SEED)
M = 24
X = RNG.normal(size=(M, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=M)
LABELS = RNG.permutation(np.repeat([0, 1, 2], 8))
GROUPS = RNG.permutation(np.repeat(np.arange(6), 4))
WEIGHTS = RNG.integers(1, 4, size=M).astype(float)
ALPHAS = np.array([1e-2, 1.0, 30.0])
BASIS = np.array([1, 4, 8, 11, 15, 19, 22])
K = rbf_kernel(X, gamma=0.4)

SPLITTERS = [
    KFold(4),
    KFold(5, shuffle=True, random_state=1),
    GroupKFold(3),
    LeaveOneOut(),
    LeavePOut(2),
    LeaveOneGroupOut(),
    LeavePGroupsOut(2),
    RepeatedKFold(n_splits=3, n_repeats=3, random_state=2),
    ShuffleSplit(5, test_size=0.3, random_state=3),
    ShuffleSplit(4, test_size=0.2, train_size=0.5, random_state=3),  # some rows in neither
    GroupShuffleSplit(4, test_size=0.4, random_state=4),
    TimeSeriesSplit(4),
    TimeSeriesSplit(3, gap=2, test_size=3, max_train_size=8),
    PredefinedSplit(np.array([-1, 0, 1, 2] * 6)),  # -1: always in the training set
]
STRATIFIED = [
    StratifiedKFold(4, shuffle=True, random_state=5),
    StratifiedGroupKFold(3),
    StratifiedShuffleSplit(4, test_size=0.3, random_state=6),
    RepeatedStratifiedKFold(n_splits=4, n_repeats=2, random_state=7),
]


pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")


def pairs(splitter, y):
    """Return (train, test) pairs, with groups for those splitters that use them."""
    return list(splitter.split(X, y, GROUPS if "Group" in type(splitter).__name__ else None))


def by_hand(splitter, y, basis, jitter, policy="remove", labels=None):
    """Yield (test rows, predictions (alphas, rows, targets)) of models really retrained."""
    for train, test in pairs(splitter, y if labels is None else labels):
        outside = np.setdiff1d(np.arange(M), train)
        H, T, removed = policy_experiment(outside, test, basis, policy)
        predictions = [
            retrain(K, y, H, T, alpha, basis, removed, WEIGHTS, bias=True, jitter=jitter)
            for alpha in ALPHAS
        ]
        yield T, np.array(predictions)


def compare(found, expected):
    expected = list(expected)
    assert len(found.predictions) == len(expected)
    for experiment, prediction, (test, values) in zip(
        found.experiments, found.predictions, expected, strict=True
    ):
        np.testing.assert_array_equal(experiment.test, test)
        np.testing.assert_allclose(prediction, values, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("splitter", SPLITTERS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("basis", [None, BASIS], ids=["dense", "basis"])
def test_regression(splitter, basis):
    # Two of the basis rows may be all that is left of small training sets: keep them then.
    smallest = min(len(train) for train, _ in pairs(splitter, Y))
    policy = "remove" if basis is None or smallest > 12 else "keep"
    model = KernelRidgeCV(gamma=0.4, alphas=ALPHAS, basis=basis, cv=splitter, held_out_basis=policy)
    model.fit(X, Y, sample_weight=WEIGHTS, groups=GROUPS)
    expected = list(by_hand(splitter, Y, basis, model.jitter_, policy))
    compare(model.held_out(), expected)
    assert model.n_splits_ == len(expected)
    # A model fitted by leave-one-out says the same when it is asked, with the groups of its fit.
    plain = model.set_params(cv=LeaveOneOut()).fit(X, Y, sample_weight=WEIGHTS, groups=GROUPS)
    compare(plain.held_out(splitter), expected)
    compare(plain.held_out(splitter, groups=GROUPS), expected)


@pytest.mark.parametrize("splitter", STRATIFIED, ids=lambda s: type(s).__name__)
def test_classification(splitter):
    model = KernelRidgeClassifierCV(gamma=0.4, alphas=ALPHAS, cv=splitter)
    model.fit(X, LABELS, sample_weight=WEIGHTS, groups=GROUPS)
    targets = np.where(LABELS[:, None] == np.arange(3), 1.0, -1.0)
    compare(model.held_out(), by_hand(splitter, targets, None, 0.0, labels=LABELS))


def test_lists_generators_and_index_types():
    splits = list(KFold(4).split(X))
    expected = list(by_hand(KFold(4), Y, None, 0.0))
    for cv in (
        splits,
        tuple(splits),
        iter(splits),
        [(train.tolist(), test.tolist()) for train, test in splits],
        [(train.astype(np.int32), test.astype(np.uint8)) for train, test in splits],
    ):
        model = KernelRidgeCV(gamma=0.4, alphas=ALPHAS, cv=cv)
        model.fit(X, Y, sample_weight=WEIGHTS, groups=GROUPS)
        compare(model.held_out(), expected)


def test_a_splitter_of_ones_own():
    class EvenAndOdd:
        def get_n_splits(self, X=None, y=None, groups=None):
            return 2

        def split(self, X, y=None, groups=None):
            rows = np.arange(len(X))
            for rest in (0, 1):
                yield rows[rows % 2 != rest], rows[rows % 2 == rest]

    model = KernelRidgeCV(gamma=0.4, alphas=ALPHAS, cv=EvenAndOdd())
    model.fit(X, Y, sample_weight=WEIGHTS, groups=GROUPS)
    compare(model.held_out(), by_hand(EvenAndOdd(), Y, None, 0.0))
