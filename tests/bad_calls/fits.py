"""Fits that are refused: options of the estimator, what is passed to fit, the error, its words."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut

from holdfast import HoldOut
from holdfast.basis import BalancedOverFolds, PerGroup, Random
from holdfast.exceptions import (
    HoldOutError,
    InvalidInputError,
    KernelError,
    NotSupportedError,
    SingularBasisError,
)
from holdfast.kernels import RBF

M = 20
RNG = np.random.default_rng(0)
X = RNG.normal(size=(M, 3))
Y = X[:, 0] + RNG.normal(size=M)
LABELS = np.where(Y > 0, "up", "down")
GROUPS = np.arange(M) % 4
K = X @ X.T + np.eye(M)


def put(array, index, value):
    """Return a float copy with one value replaced."""
    copy = np.array(array, dtype=float)
    copy.flat[index] = value
    return copy


def case(name, model, error, *words, X=X, y=Y, **fit):
    return pytest.param(model, X, y, error, words, fit, id=name)


WEIGHTS = np.ones(M)
HALF = (np.arange(M) < 10) * 1.0
NO_ROWS: list[int] = []

DATA = [
    case("X-nan", {}, InvalidInputError, "X", "finite", "1 NaN", "row 1", X=put(X, 4, np.nan)),
    case("X-inf", {}, InvalidInputError, "X", "finite", "1 infinite", X=put(X, 4, np.inf)),
    case(
        "X-sparse-nan",
        {},
        InvalidInputError,
        "X must be finite",
        "1 NaN",
        "row 1",
        X=sp.csr_array(put(X, 4, np.nan)),
    ),
    case("X-empty", {}, InvalidInputError, "X", "0 sample(s)", X=np.empty((0, 3)), y=np.empty(0)),
    case("X-no-features", {}, InvalidInputError, "X", "0 feature(s)", X=np.empty((M, 0))),
    case("X-1d", {}, InvalidInputError, "X must be two-dimensional", "reshape", X=X[:, 0]),
    case("X-3d", {}, InvalidInputError, "X", "dim 3", X=X[:, :, None]),
    case("X-text", {}, InvalidInputError, "X must hold numbers", "red", X=[["red", "blue"]] * M),
    case(
        "X-mixed",
        {},
        InvalidInputError,
        "X must hold numbers",
        "red",
        X=np.array([[1.0, "red"]] * M, dtype=object),
    ),
    case("X-complex", {}, InvalidInputError, "X must be real", "complex", X=X * 1j),
    case(
        "X-dates",
        {},
        InvalidInputError,
        "X must hold numbers",
        "datetime64",
        X=np.full((M, 1), "2020-01-01", dtype="datetime64[D]"),
    ),
    case("y-nan", {}, InvalidInputError, "y must be finite", "row 4", y=put(Y, 4, np.nan)),
    case("y-inf", {}, InvalidInputError, "y must be finite", "1 infinite", y=put(Y, 4, -np.inf)),
    case("y-empty", {}, InvalidInputError, "y must hold one value for each", "got 0", y=NO_ROWS),
    case("y-short", {}, InvalidInputError, "y must hold one value for each", "got 5", y=Y[:5]),
    case("y-scalar", {}, InvalidInputError, "y must hold one value for each", "single", y=3.0),
    case("y-none", {}, InvalidInputError, "y is None", "one value per row", y=None),
    case("y-no-columns", {}, InvalidInputError, "y", "0 feature(s)", y=np.empty((M, 0))),
    case("y-3d", {}, InvalidInputError, "y", "dim 3", y=np.zeros((M, 1, 1))),
    case("y-text", {}, InvalidInputError, "y must hold numbers", "down", y=LABELS),
    case("y-complex", {}, InvalidInputError, "y must be real", y=Y * 1j),
    case("y-dates", {}, InvalidInputError, "y must hold numbers", y=Y.astype("timedelta64[s]")),
    case("one-row", {}, HoldOutError, "leave-one-out", "two rows", "n_samples=1", X=X[:1], y=Y[:1]),
    case("one-row-folds", {"cv": 2}, HoldOutError, "cv", "n_samples=1", X=X[:1], y=Y[:1]),
    case(
        "weight-negative",
        {},
        InvalidInputError,
        "sample_weight must not be negative",
        "got -1",
        "Use 0",
        sample_weight=put(WEIGHTS, 3, -1),
    ),
    case(
        "weight-nan",
        {},
        InvalidInputError,
        "sample_weight must be finite",
        "1 value",
        sample_weight=put(WEIGHTS, 3, np.nan),
    ),
    case(
        "weight-inf",
        {},
        InvalidInputError,
        "sample_weight must be finite",
        sample_weight=put(WEIGHTS, 3, np.inf),
    ),
    case(
        "weight-text",
        {},
        InvalidInputError,
        "sample_weight must hold numbers",
        sample_weight=["a"] * M,
    ),
    case(
        "weight-short",
        {},
        InvalidInputError,
        "sample_weight",
        "(20,)",
        "(3,)",
        sample_weight=np.ones(3),
    ),
    case(
        "weight-zero",
        {},
        InvalidInputError,
        "sample_weight must be positive",
        "zero for every row",
        sample_weight=np.zeros(M),
    ),
    case(
        "weight-zero-in-training",
        {"cv": 2},
        HoldOutError,
        "experiment 0 of cv leaves no row with positive weight",
        sample_weight=HALF,
    ),
    case(
        "weight-zero-in-test",
        {"cv": [(np.arange(10), np.arange(10, 20))]},
        InvalidInputError,
        "sample_weight is zero for every test row",
        sample_weight=HALF,
    ),
]

ALPHAS = [
    case("zero", {"alphas": [0.0, 1.0]}, InvalidInputError, "alphas", "greater than 0", "got 0"),
    case("negative", {"alphas": -1}, InvalidInputError, "alphas", "greater than 0", "got -1"),
    case("nan", {"alphas": [1.0, np.nan]}, InvalidInputError, "alphas must be finite", "got nan"),
    case("inf", {"alphas": [1.0, np.inf]}, InvalidInputError, "alphas must be finite", "got inf"),
    case(
        "unsorted",
        {"alphas": [0.5, 1.0, 0.1]},
        InvalidInputError,
        "alphas must be in increasing order",
        "got 1 before 0.1",
        "np.sort",
    ),
    case("duplicate", {"alphas": [1.0, 1.0]}, InvalidInputError, "alphas", "got 1", "np.unique"),
    case("empty", {"alphas": NO_ROWS}, InvalidInputError, "alphas", "at least one", "got none"),
    case("text", {"alphas": "small"}, InvalidInputError, "alphas", "real numbers"),
    case("objects", {"alphas": [None]}, InvalidInputError, "alphas", "real numbers", "object"),
    case("complex", {"alphas": [1j]}, InvalidInputError, "alphas", "real numbers", "complex"),
    case("2d", {"alphas": [[1.0, 2.0]]}, InvalidInputError, "alphas", "one-dimensional", "(1, 2)"),
]

SPLITS = [
    case("all-rows", {"cv": [([], np.arange(M))]}, HoldOutError, "experiment 0", "every row"),
    case("all-rows-held", {"cv": [HoldOut(np.arange(M))]}, HoldOutError, "cv", "every row"),
    case(
        "all-basis-rows",
        {"basis": [0, 1], "cv": [HoldOut([5]), HoldOut([0, 1, 2])]},
        HoldOutError,
        "experiment 1 of cv holds out every basis row",
        "all 2",
        'held_out_basis="keep"',
    ),
    case("out-of-range", {"cv": [([0], [M])]}, HoldOutError, "test of experiment 0", "got 20"),
    case("held-range", {"cv": [HoldOut([2]), HoldOut([25])]}, HoldOutError, "1 of cv", "got 25"),
    case("negative", {"cv": [([0], [-1])]}, HoldOutError, "test of experiment 0", "got -1"),
    case("repeated", {"cv": [([0], [3, 3])]}, HoldOutError, "test", "twice", "row 3"),
    case("repeated-train", {"cv": [([4, 4], [3])]}, HoldOutError, "train", "twice", "row 4"),
    case("float", {"cv": [([0.0, 1.0], [3])]}, HoldOutError, "train", "integer", "float64"),
    case("mask", {"cv": [(np.ones(M, bool), [3])]}, HoldOutError, "train", "masks"),
    case("overlap", {"cv": [([0, 1, 2], [2, 3])]}, HoldOutError, "experiment 0", "row 2"),
    case("no-test", {"cv": [([0, 1], [])]}, HoldOutError, "experiment 0", "test row", "got none"),
    case("no-experiments", {"cv": []}, HoldOutError, "cv", "at least one", "got none"),
    case("text", {"cv": "loo"}, InvalidInputError, "cv must be", "leave-one-out", "got 'loo'"),
    case("float-folds", {"cv": 2.5}, InvalidInputError, "cv must be", "got 2.5"),
    case("one-fold", {"cv": 1}, HoldOutError, "cv", "between 2 and", "got 1"),
    case("many-folds", {"cv": 99}, HoldOutError, "cv", "between 2 and", "20", "got 99"),
    case("item", {"cv": [3]}, InvalidInputError, "cv must yield (train, test)", "item 0 is int"),
    case("triple", {"cv": [([0], [1], [2])]}, InvalidInputError, "cv must yield", "tuple"),
    case(
        "groups-length", {"cv": GroupKFold(2)}, InvalidInputError, "groups", "(5,)", groups=[0] * 5
    ),
    case("groups-2d", {}, InvalidInputError, "groups", "(20, 1)", groups=GROUPS[:, None]),
    case("groups-none", {"cv": GroupKFold(2)}, HoldOutError, "'groups'", "Pass groups"),
    case("groups-none-logo", {"cv": LeaveOneGroupOut()}, HoldOutError, "'groups'", "Pass groups"),
    case(
        "groups-nan",
        {"cv": GroupKFold(2)},
        InvalidInputError,
        "groups",
        "1 missing",
        "row 2",
        groups=put(GROUPS, 2, np.nan),
    ),
    case(
        "groups-missing",
        {},
        InvalidInputError,
        "groups",
        "1 missing",
        groups=np.array([None, *"ab" * 9, "a"], dtype=object),
    ),
    case(
        "groups-mixed",
        {},
        InvalidInputError,
        "groups",
        "several types",
        groups=np.array([1, *"ab" * 9, "a"], dtype=object),
    ),
    case("groups-one", {"cv": LeaveOneGroupOut()}, HoldOutError, "every row", groups=np.ones(M)),
    case("groups-few", {"cv": GroupKFold(9)}, HoldOutError, "n_splits=9", "4", groups=GROUPS),
]


def wrong_shape(A, B):
    return np.ones((3, 3))


def not_a_number(A, B):
    return np.full((len(A), len(B)), np.nan)


def complex_values(A, B):
    return (A @ B.T) * 1j


def text(A, B):
    return np.full((len(A), len(B)), "a")


def asymmetric(A, B):
    return A @ B.T + A[:, :1]


def negative(A, B):
    return -(A @ B.T)


PRE = {"kernel": "precomputed"}
KERNELS = [
    case("asymmetric", PRE, KernelError, "symmetric", "(K + K.T) / 2", X=K + np.triu(K, 1)),
    case("indefinite", PRE, KernelError, "positive semidefinite", "-2", X=K - 3 * np.eye(M)),
    *(
        case(
            f"indefinite-{path}",
            {**PRE, "path": path, "cv": 4},
            KernelError,
            "positive semidefinite",
            X=K - 3 * np.eye(M),
        )
        for path in ("per_fold", "cholesky")
    ),
    case(
        "indefinite-basis",
        {**PRE, "basis": [0, 3, 5, 7]},
        SingularBasisError,
        "4 basis rows",
        "smallest pivot",
        X=K - 3 * np.eye(M),
    ),
    case("not-square", PRE, InvalidInputError, "square", "(20, 5)", "basis=", X=K[:, :5]),
    case("not-square-random", {**PRE, "basis": 5}, InvalidInputError, "square", X=K[:, :5]),
    case("columns", {**PRE, "basis": [1, 2]}, InvalidInputError, "basis", "5", "2", X=K[:, :5]),
    case("sparse", PRE, InvalidInputError, "precomputed", "dense", X=sp.csr_array(K)),
    case("matrix-nan", PRE, InvalidInputError, "X must be finite", X=put(K, 3, np.nan)),
    case("shape", {"kernel": wrong_shape}, KernelError, "wrong_shape", "(20, 20)", "(3, 3)"),
    case("values-nan", {"kernel": not_a_number}, KernelError, "not_a_number", "400 NaN"),
    case("values-complex", {"kernel": complex_values}, KernelError, "complex_values", "real"),
    case("values-text", {"kernel": text}, KernelError, "kernel text", "real numbers"),
    case("values-asymmetric", {"kernel": asymmetric}, KernelError, "symmetric", "asymmetric"),
    case("values-negative", {"kernel": negative}, KernelError, "positive semidefinite"),
    case(
        "values-negative-basis", {"kernel": negative, "basis": [1, 2]}, SingularBasisError, "pivot"
    ),
    case("name", {"kernel": "rbff"}, InvalidInputError, "kernel must be one of", "got 'rbff'"),
    case("number", {"kernel": 3}, InvalidInputError, "kernel must be one of", "got 3"),
    case("class", {"kernel": RBF}, InvalidInputError, "kernel must be one of", "RBF"),
    case("none", {"kernel": []}, InvalidInputError, "kernel", "at least one", "empty"),
    case("grid", {"kernel": ["rbf", "precomputed"]}, InvalidInputError, "precomputed", X=K),
    case("params", {"kernel_params": {"a": 1}}, InvalidInputError, "kernel_params", "callable"),
    case("gamma", {"gamma": -1.0}, InvalidInputError, "'gamma'", "(0.0, inf)", "Got -1.0"),
    case("gamma-nan", {"gamma": np.nan}, InvalidInputError, "'gamma'", "Got nan"),
    case("gamma-text", {"gamma": "scale"}, InvalidInputError, "'gamma'", "Got 'scale'"),
    case("gamma-list", {"gamma": [1.0, -1.0]}, InvalidInputError, "gamma", "positive", "got -1.0"),
    case("gamma-repeated", {"gamma": [1.0, 1.0]}, InvalidInputError, "gamma", "repeat"),
    case("gamma-empty", {"gamma": []}, InvalidInputError, "gamma", "(0,)"),
    case("gamma-2d", {"gamma": [[1.0]]}, InvalidInputError, "gamma", "(1, 1)", "RBF(gamma="),
    case("degree", {"kernel": "poly", "degree": -1}, InvalidInputError, "'degree'", "Got -1"),
    case("coef0", {"kernel": "poly", "coef0": np.nan}, InvalidInputError, "coef0", "finite"),
    case("ard-width", {"kernel": RBF(gamma=(1.0, 2.0))}, InvalidInputError, "gamma", "2", "3"),
]

BASES = [
    case("too-many", {"basis": 50}, InvalidInputError, "basis", "50", "only 20 rows"),
    case("zero", {"basis": 0}, InvalidInputError, "basis", "at least 1", "got 0", "basis=None"),
    case("negative", {"basis": -2}, InvalidInputError, "basis", "at least 1", "got -2"),
    case("fraction", {"basis": 1.5}, InvalidInputError, "basis", "(0, 1]", "got 1.5"),
    case("nan", {"basis": np.nan}, InvalidInputError, "basis", "(0, 1]", "got nan"),
    case("bool", {"basis": True}, InvalidInputError, "basis", "got True"),
    case("repeated", {"basis": [1, 1]}, InvalidInputError, "basis", "twice", "row 1"),
    case("out-of-range", {"basis": [1, M]}, InvalidInputError, "basis", "19", "20"),
    case("mask", {"basis": np.ones(5, bool)}, InvalidInputError, "basis", "mask", "got 5"),
    case("floats", {"basis": [1.5, 2.0]}, InvalidInputError, "basis", "integer", "float64"),
    case("empty", {"basis": []}, InvalidInputError, "basis", "at least one", "basis=None"),
    case("2d", {"basis": [[1, 2]]}, InvalidInputError, "basis", "one-dimensional", "(1, 2)"),
    case("text", {"basis": "all"}, InvalidInputError, "basis='all'", "Pass None"),
    case("class", {"basis": Random}, InvalidInputError, "basis is the class Random", "instance"),
    case("object", {"basis": {1, 2}}, InvalidInputError, "basis", "one-dimensional"),
    case("groups", {"basis": PerGroup(1)}, InvalidInputError, "PerGroup", "groups"),
    case(
        "singular",
        {"basis": [0, 1, 2], "jitter": 0.0},
        SingularBasisError,
        "3 basis rows",
        "smallest pivot",
        "jitter",
        "drop duplicate",
        X=np.vstack([X[:1], X[:1], X[2:]]),
    ),
]

OPTIONS = [
    case("policy", {"held_out_basis": "drop"}, InvalidInputError, "'held_out_basis'", "'drop'"),
    case("rule", {"rule": "2se"}, InvalidInputError, "'rule'", "1se", "Got '2se'"),
    case("path", {"path": "fast"}, InvalidInputError, "'path'", "spectral", "Got 'fast'"),
    case("scoring", {"scoring": "r3"}, InvalidInputError, "scoring='r3'", "'r2'"),
    case("scoring-3", {"scoring": 3}, InvalidInputError, "scoring must be", "got 3"),
    case("pooled", {"pooled": "yes"}, InvalidInputError, "'pooled'", "Got 'yes'"),
    case("intercept", {"fit_intercept": 2}, InvalidInputError, "'fit_intercept'", "Got 2"),
    case("jitter", {"jitter": -1.0, "basis": 5}, InvalidInputError, "'jitter'", "Got -1.0"),
    case("jitter-nan", {"jitter": np.nan, "basis": 5}, InvalidInputError, "'jitter'", "Got nan"),
    case("jitter-inf", {"jitter": np.inf, "basis": 5}, InvalidInputError, "'jitter'", "Got inf"),
    case("seed", {"random_state": "a"}, InvalidInputError, "'random_state'", "Got 'a'"),
    case("memory", {"memory_limit": "lots"}, InvalidInputError, "memory_limit", "got 'lots'"),
    case("memory-0", {"memory_limit": 0}, InvalidInputError, "memory_limit", "positive", "got 0"),
    case("memory-nan", {"memory_limit": np.nan}, InvalidInputError, "memory_limit", "got nan"),
    case("memory-list", {"memory_limit": [1]}, InvalidInputError, "memory_limit", "got [1]"),
    case("memory-bool", {"memory_limit": True}, InvalidInputError, "memory_limit", "got True"),
    case(
        "dense-too-large",
        {"memory_limit": "1kB"},
        InvalidInputError,
        "dense model of 20 rows",
        "1.28e-05 GB",
        "basis=",
        "memory_limit",
    ),
    case("train-dense", {"held_out_basis": "train"}, NotSupportedError, '"train"', "basis=..."),
    case("skip-dense", {"held_out_basis": "skip"}, NotSupportedError, '"skip"', "basis=..."),
    case(
        "reselect-fixed",
        {"held_out_basis": "reselect", "basis": [1, 2, 3]},
        NotSupportedError,
        '"reselect"',
        "Fixed",
        "number of rows",
    ),
    case(
        "reselect-folds",
        {"held_out_basis": "reselect", "basis": BalancedOverFolds(4), "cv": 4},
        NotSupportedError,
        '"reselect"',
        "BalancedOverFolds",
    ),
    case(
        "skip-all",
        {"held_out_basis": "skip", "basis": np.arange(M)},
        HoldOutError,
        '"skip"',
        "no test rows",
    ),
    case("1se", {"rule": "1se", "cv": [HoldOut([1])]}, InvalidInputError, "rule='1se'", "'best'"),
]


CLASSES = [
    case("per-target", {"alpha_per_target": True}, NotSupportedError, "alpha_per_target"),
    case("one-class", {}, InvalidInputError, "two classes", "got 1 class", y=["a"] * M),
    case(
        "one-class-of-weight",
        {},
        InvalidInputError,
        "two classes",
        "got 1 class",
        sample_weight=(LABELS == "up") * 1.0,
    ),
    case("continuous", {}, InvalidInputError, "y", "Unknown label type", y=Y + 0.5),
    case("nan", {}, InvalidInputError, "y must be finite", y=put(GROUPS, 3, np.nan)),
    case("2d", {}, InvalidInputError, "y", "1d", "(20, 2)", y=np.c_[GROUPS, GROUPS]),
    case("calibration", {"calibration": "platt"}, InvalidInputError, "calibration", "'platt'"),
    case("short", {}, InvalidInputError, "y must hold one value for each", "got 4", y=LABELS[:4]),
    case("none", {}, InvalidInputError, "y is None", y=None),
    case("scoring", {"scoring": "roc_auc"}, InvalidInputError, "scoring='roc_auc'", y=GROUPS),
]
