"""One table of what is refused: the call, the class of the error and the argument that it names.

A refused call changes nothing: neither the model nor what was passed.
"""

import pickle
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut, ShuffleSplit

from holdfast import HoldOut, KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.basis import BalancedOverFolds, PerGroup, Random
from holdfast.exceptions import (
    GridEdgeWarning,
    HoldfastError,
    HoldfastWarning,
    HoldOutError,
    InputTypeError,
    InvalidInputError,
    KernelError,
    NotSupportedError,
    SingularBasisError,
)
from holdfast.kernels import RBF

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

INVALID, TYPE, HOLD_OUT = InvalidInputError, InputTypeError, HoldOutError
KERNEL, SINGULAR, UNSUPPORTED = KernelError, SingularBasisError, NotSupportedError

M = 20
RNG = np.random.default_rng(0)
X = RNG.normal(size=(M, 3))
Y = X[:, 0] + RNG.normal(size=M)
LABELS = np.where(Y > 0, "up", "down")
GROUPS = np.arange(M) % 4
K = X @ X.T + np.eye(M)
WEIGHTS = np.ones(M)
HALF = (np.arange(M) < 10) * 1.0
HIDDEN = np.ma.array(X, mask=X > 1)
SOME = np.ma.array(Y, mask=Y > 1)
DATES = np.array(["2020-01-01", "2021-01-01"] * (M // 2), dtype="M8[D]")
NOT_A_TIME = DATES.copy()
NOT_A_TIME[3] = "NaT"
FIELDS = np.zeros(M, dtype=[("a", float), ("b", int)])
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
NUMBERS_AS_TEXT = np.array([["1_000"] * 3] * M)
PRE = {"kernel": "precomputed"}


def put(array, index, value):
    """Return a float copy with one value replaced."""
    copy = np.array(array, dtype=float)
    copy.flat[index] = value
    return copy


def one_missing(labels, missing):
    return np.array([missing, *labels[1:]], dtype=object)


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


def masked_values(A, B):
    return np.ma.array(A @ B.T, mask=A @ B.T > 1)


def case(name, model, error, argument, X=X, y=Y, **fit):
    return pytest.param(model, X, y, error, argument, fit, id=name)


# fmt: off
FITS = [
    case("X-nan", {}, INVALID, "X", X=put(X, 4, np.nan)),
    case("X-inf", {}, INVALID, "X", X=put(X, 4, np.inf)),
    case("X-sparse-nan", {}, INVALID, "X", X=sp.csr_array(put(X, 4, np.nan))),
    case("X-empty", {}, INVALID, "X", X=np.empty((0, 3)), y=np.empty(0)),
    case("X-no-features", {}, INVALID, "X", X=np.empty((M, 0))),
    case("X-1d", {}, INVALID, "X", X=X[:, 0]),
    case("X-3d", {}, INVALID, "X", X=X[:, :, None]),
    case("X-text", {}, INVALID, "X", X=[["red", "blue"]] * M),
    case("X-mixed", {}, INVALID, "X", X=np.array([[1.0, "red"]] * M, dtype=object)),
    case("X-complex", {}, INVALID, "X", X=X * 1j),
    case("X-dates", {}, INVALID, "X", X=np.full((M, 1), "2020-01-01", dtype="datetime64[D]")),
    case("y-nan", {}, INVALID, "y", y=put(Y, 4, np.nan)),
    case("y-inf", {}, INVALID, "y", y=put(Y, 4, -np.inf)),
    case("y-empty", {}, INVALID, "y", y=[]),
    case("y-short", {}, INVALID, "y", y=Y[:5]),
    case("y-scalar", {}, INVALID, "y", y=3.0),
    case("y-none", {}, INVALID, "y", y=None),
    case("y-no-columns", {}, INVALID, "y", y=np.empty((M, 0))),
    case("y-3d", {}, INVALID, "y", y=np.zeros((M, 1, 1))),
    case("y-text", {}, INVALID, "y", y=LABELS),
    case("y-complex", {}, INVALID, "y", y=Y * 1j),
    case("y-dates", {}, INVALID, "y", y=Y.astype("timedelta64[s]")),
    case("one-row", {}, HOLD_OUT, "cv", X=X[:1], y=Y[:1]),
    case("one-row-folds", {"cv": 2}, HOLD_OUT, "cv", X=X[:1], y=Y[:1]),
    case("weight-negative", {}, INVALID, "sample_weight", sample_weight=put(WEIGHTS, 3, -1)),
    case("weight-nan", {}, INVALID, "sample_weight", sample_weight=put(WEIGHTS, 3, np.nan)),
    case("weight-inf", {}, INVALID, "sample_weight", sample_weight=put(WEIGHTS, 3, np.inf)),
    case("weight-text", {}, INVALID, "sample_weight", sample_weight=["a"] * M),
    case("weight-short", {}, INVALID, "sample_weight", sample_weight=np.ones(3)),
    case("weight-zero", {}, INVALID, "sample_weight", sample_weight=np.zeros(M)),
    case("weight-zero-in-training", {"cv": 2}, HOLD_OUT, "cv", sample_weight=HALF),
    case("weight-zero-in-test", {"cv": [(np.arange(10), np.arange(10, 20))]}, INVALID, "sample_weight", sample_weight=HALF),
    case("alphas-zero", {"alphas": [0.0, 1.0]}, INVALID, "alphas"),
    case("alphas-negative", {"alphas": -1}, INVALID, "alphas"),
    case("alphas-nan", {"alphas": [1.0, np.nan]}, INVALID, "alphas"),
    case("alphas-inf", {"alphas": [1.0, np.inf]}, INVALID, "alphas"),
    case("alphas-duplicate", {"alphas": [1.0, 1.0]}, INVALID, "alphas"),
    case("alphas-empty", {"alphas": []}, INVALID, "alphas"),
    case("alphas-text", {"alphas": "small"}, INVALID, "alphas"),
    case("alphas-objects", {"alphas": [None]}, INVALID, "alphas"),
    case("alphas-complex", {"alphas": [1j]}, INVALID, "alphas"),
    case("alphas-2d", {"alphas": [[1.0, 2.0]]}, INVALID, "alphas"),
    case("cv-all-rows", {"cv": [([], np.arange(M))]}, HOLD_OUT, "cv"),
    case("cv-all-rows-held", {"cv": [HoldOut(np.arange(M))]}, HOLD_OUT, "cv"),
    case("cv-all-basis-rows", {"basis": [0, 1], "cv": [HoldOut([5]), HoldOut([0, 1, 2])]}, HOLD_OUT, "cv"),
    case("cv-out-of-range", {"cv": [([0], [M])]}, HOLD_OUT, "cv"),
    case("cv-held-range", {"cv": [HoldOut([2]), HoldOut([25])]}, HOLD_OUT, "cv"),
    case("cv-negative", {"cv": [([0], [-1])]}, HOLD_OUT, "cv"),
    case("cv-repeated", {"cv": [([0], [3, 3])]}, HOLD_OUT, "cv"),
    case("cv-float", {"cv": [([0.0, 1.0], [3])]}, HOLD_OUT, "cv"),
    case("cv-mask", {"cv": [(np.ones(M, bool), [3])]}, HOLD_OUT, "cv"),
    case("cv-overlap", {"cv": [([0, 1, 2], [2, 3])]}, HOLD_OUT, "cv"),
    case("cv-no-test", {"cv": [([0, 1], [])]}, HOLD_OUT, "cv"),
    case("cv-no-experiments", {"cv": []}, HOLD_OUT, "cv"),
    case("cv-text", {"cv": "loo"}, INVALID, "cv"),
    case("cv-float-folds", {"cv": 2.5}, INVALID, "cv"),
    case("cv-one-fold", {"cv": 1}, HOLD_OUT, "cv"),
    case("cv-many-folds", {"cv": 99}, HOLD_OUT, "cv"),
    case("cv-item", {"cv": [3]}, INVALID, "cv"),
    case("cv-triple", {"cv": [([0], [1], [2])]}, INVALID, "cv"),
    case("cv-groups-length", {"cv": GroupKFold(2)}, INVALID, "groups", groups=[0] * 5),
    case("cv-groups-2d", {}, INVALID, "groups", groups=GROUPS[:, None]),
    case("cv-groups-none", {"cv": GroupKFold(2)}, HOLD_OUT, "cv"),
    case("cv-groups-none-logo", {"cv": LeaveOneGroupOut()}, HOLD_OUT, "cv"),
    case("cv-groups-nan", {"cv": GroupKFold(2)}, INVALID, "groups", groups=put(GROUPS, 2, np.nan)),
    case("cv-groups-missing", {}, INVALID, "groups", groups=np.array([None, *"ab" * 9, "a"], dtype=object)),
    case("cv-groups-mixed", {}, INVALID, "groups", groups=np.array([1, *"ab" * 9, "a"], dtype=object)),
    case("cv-groups-one", {"cv": LeaveOneGroupOut()}, HOLD_OUT, "cv", groups=np.ones(M)),
    case("cv-groups-few", {"cv": GroupKFold(9)}, HOLD_OUT, "cv", groups=GROUPS),
    case("kernel-asymmetric", PRE, KERNEL, "X", X=K + np.triu(K, 1)),
    case("kernel-indefinite", PRE, KERNEL, "kernel", X=K - 3 * np.eye(M)),
    case("kernel-indefinite-per_fold", {**PRE, "path": "per_fold", "cv": 4}, KERNEL, "kernel", X=K - 3 * np.eye(M)),
    case("kernel-indefinite-cholesky", {**PRE, "path": "cholesky", "cv": 4}, KERNEL, "kernel", X=K - 3 * np.eye(M)),
    case("kernel-indefinite-basis", {**PRE, "basis": [0, 3, 5, 7]}, SINGULAR, "basis", X=K - 3 * np.eye(M)),
    case("kernel-not-square", PRE, INVALID, "X", X=K[:, :5]),
    case("kernel-not-square-random", {**PRE, "basis": 5}, INVALID, "X", X=K[:, :5]),
    case("kernel-columns", {**PRE, "basis": [1, 2]}, INVALID, "basis", X=K[:, :5]),
    case("kernel-sparse", PRE, INVALID, "X", X=sp.csr_array(K)),
    case("kernel-matrix-nan", PRE, INVALID, "X", X=put(K, 3, np.nan)),
    case("kernel-shape", {"kernel": wrong_shape}, KERNEL, "kernel"),
    case("kernel-values-nan", {"kernel": not_a_number}, KERNEL, "kernel"),
    case("kernel-values-complex", {"kernel": complex_values}, KERNEL, "kernel"),
    case("kernel-values-text", {"kernel": text}, KERNEL, "kernel"),
    case("kernel-values-asymmetric", {"kernel": asymmetric}, KERNEL, "kernel"),
    case("kernel-values-negative", {"kernel": negative}, KERNEL, "kernel"),
    case("kernel-values-negative-basis", {"kernel": negative, "basis": [1, 2]}, SINGULAR, "basis"),
    case("kernel-name", {"kernel": "rbff"}, INVALID, "kernel"),
    case("kernel-number", {"kernel": 3}, INVALID, "kernel"),
    case("kernel-class", {"kernel": RBF}, INVALID, "kernel"),
    case("kernel-none", {"kernel": []}, INVALID, "kernel"),
    case("kernel-grid", {"kernel": ["rbf", "precomputed"]}, INVALID, "kernel", X=K),
    case("kernel-params", {"kernel_params": {"a": 1}}, INVALID, "kernel_params"),
    case("kernel-gamma", {"gamma": -1.0}, INVALID, "gamma"),
    case("kernel-gamma-nan", {"gamma": np.nan}, INVALID, "gamma"),
    case("kernel-gamma-text", {"gamma": "scale"}, INVALID, "gamma"),
    case("kernel-gamma-list", {"gamma": [1.0, -1.0]}, INVALID, "gamma"),
    case("kernel-gamma-repeated", {"gamma": [1.0, 1.0]}, INVALID, "gamma"),
    case("kernel-gamma-empty", {"gamma": []}, INVALID, "gamma"),
    case("kernel-gamma-2d", {"gamma": [[1.0]]}, INVALID, "gamma"),
    case("kernel-degree", {"kernel": "poly", "degree": -1}, INVALID, "degree"),
    case("kernel-coef0", {"kernel": "poly", "coef0": np.nan}, INVALID, "coef0"),
    case("kernel-ard-width", {"kernel": RBF(gamma=(1.0, 2.0))}, INVALID, "gamma"),
    case("basis-too-many", {"basis": 50}, INVALID, "basis"),
    case("basis-zero", {"basis": 0}, INVALID, "basis"),
    case("basis-negative", {"basis": -2}, INVALID, "basis"),
    case("basis-fraction", {"basis": 1.5}, INVALID, "basis"),
    case("basis-nan", {"basis": np.nan}, INVALID, "basis"),
    case("basis-bool", {"basis": True}, INVALID, "basis"),
    case("basis-repeated", {"basis": [1, 1]}, INVALID, "basis"),
    case("basis-out-of-range", {"basis": [1, M]}, INVALID, "basis"),
    case("basis-mask", {"basis": np.ones(5, bool)}, INVALID, "basis"),
    case("basis-floats", {"basis": [1.5, 2.0]}, INVALID, "basis"),
    case("basis-empty", {"basis": []}, INVALID, "basis"),
    case("basis-2d", {"basis": [[1, 2]]}, INVALID, "basis"),
    case("basis-text", {"basis": "all"}, INVALID, "basis"),
    case("basis-class", {"basis": Random}, INVALID, "basis"),
    case("basis-object", {"basis": {1, 2}}, INVALID, "basis"),
    case("basis-groups", {"basis": PerGroup(1)}, INVALID, "groups"),
    case("basis-singular", {"basis": [0, 1, 2], "jitter": 0.0}, SINGULAR, "basis", X=np.vstack([X[:1], X[:1], X[2:]])),
    case("policy", {"held_out_basis": "drop"}, INVALID, "held_out_basis"),
    case("rule", {"rule": "2se"}, INVALID, "rule"),
    case("path", {"path": "fast"}, INVALID, "path"),
    case("scoring", {"scoring": "r3"}, INVALID, "scoring"),
    case("scoring-3", {"scoring": 3}, INVALID, "scoring"),
    case("pooled", {"pooled": "yes"}, INVALID, "pooled"),
    case("intercept", {"fit_intercept": 2}, INVALID, "fit_intercept"),
    case("jitter", {"jitter": -1.0, "basis": 5}, INVALID, "jitter"),
    case("jitter-nan", {"jitter": np.nan, "basis": 5}, INVALID, "jitter"),
    case("jitter-inf", {"jitter": np.inf, "basis": 5}, INVALID, "jitter"),
    case("seed", {"random_state": "a"}, INVALID, "random_state"),
    case("memory", {"memory_limit": "lots"}, INVALID, "memory_limit"),
    case("memory-0", {"memory_limit": 0}, INVALID, "memory_limit"),
    case("memory-nan", {"memory_limit": np.nan}, INVALID, "memory_limit"),
    case("memory-bool", {"memory_limit": True}, INVALID, "memory_limit"),
    case("dense-too-large", {"memory_limit": "1kB"}, INVALID, "basis"),
    case("train-dense", {"held_out_basis": "train"}, UNSUPPORTED, "held_out_basis"),
    case("skip-dense", {"held_out_basis": "skip"}, UNSUPPORTED, "held_out_basis"),
    case("reselect-fixed", {"held_out_basis": "reselect", "basis": [1, 2, 3]}, UNSUPPORTED, "held_out_basis"),
    case("reselect-folds", {"held_out_basis": "reselect", "basis": BalancedOverFolds(4), "cv": 4}, UNSUPPORTED, "held_out_basis"),
    case("skip-all", {"held_out_basis": "skip", "basis": np.arange(M)}, HOLD_OUT, "held_out_basis"),
    case("1se", {"rule": "1se", "cv": [HoldOut([1])]}, INVALID, "rule"),
    case("X-masked", {}, INVALID, "X", X=HIDDEN),
    case("X-masked-rows", {}, INVALID, "X", X=list(HIDDEN)),
    case("X-huge", {}, INVALID, "X", X=X * 1e200),
    case("X-huge-linear", {"kernel": "linear"}, INVALID, "X", X=X * 1e200),
    case("X-huge-poly", {"kernel": "poly"}, INVALID, "X", X=X * 1e200),
    case("X-large-linear", {"kernel": "linear"}, INVALID, "X", X=X * 1e154),
    case("X-longdouble", {}, INVALID, "X", X=X * np.longdouble("1e4000")),
    case("X-structured", {}, INVALID, "X", X=FIELDS),
    case("X-dict", {}, TYPE, "X", X={}),
    case("X-generator", {}, TYPE, "X", X=(row for row in X)),
    case("X-none", {}, TYPE, "X", X=None),
    case("X-one-text", {}, TYPE, "X", X="abc"),
    case("X-ragged", {}, INVALID, "X", X=[[1.0, 2.0], [3.0]] * 10),
    case("X-bytes", {}, INVALID, "X", X=np.array([[b"1"]] * M)),
    case("X-1_000", {}, INVALID, "X", X=NUMBERS_AS_TEXT),
    case("X-1_000-objects", {}, INVALID, "X", X=NUMBERS_AS_TEXT.astype(object)),
    case("X-text-column", {}, INVALID, "the column 't' of X", X=FRAME.assign(t="a")),
    case("X-NA", {}, INVALID, "X", X=FRAME.assign(t=pd.array([1] * 19 + [None]))),
    case("X-NA-object", {}, TYPE, "X", X=np.array([[1.0, pd.NA]] * M, dtype=object)),
    case("X-None-object", {}, INVALID, "X", X=np.array([[1.0, None]] * M, dtype=object)),
    case("X-dict-object", {}, TYPE, "X", X=np.array([[1.0, {}]] * M, dtype=object)),
    case("X-date-column", {}, INVALID, "the column 't' of X", X=FRAME.assign(t=DATES)),
    case("X-zoned", {}, INVALID, "the column 't' of X", X=FRAME.assign(t=pd.Timestamp(0, tz="UTC"))),
    case("X-categories", {}, INVALID, "the column 't' of X", X=FRAME.assign(t=pd.Categorical([1] * M))),
    case("X-complex-column", {}, INVALID, "the column 't' of X", X=FRAME.assign(t=1j)),
    case("X-repeated-names", {}, INVALID, "X", X=pd.DataFrame(X, columns=[*"aab"])),
    case("X-polars-date", {}, INVALID, "the column 't' of X", X=pl.DataFrame({"t": DATES.tolist()})),
    case("X-polars-text", {}, INVALID, "the column 't' of X", X=pl.DataFrame({"t": ["a"] * M})),
    case("K-masked", {"kernel": "precomputed"}, INVALID, "X", X=np.ma.array(K, mask=K > 1)),
    case("kernel-masked", {"kernel": masked_values}, KERNEL, "masked_values"),
    case("y-masked", {}, INVALID, "y", y=SOME),
    case("y-huge", {}, INVALID, "y", y=Y * 1e120),
    case("y-tiny", {}, INVALID, "y", y=Y * 1e-80),
    case("y-dict", {}, TYPE, "y", y={}),
    case("y-generator", {}, TYPE, "y", y=(v for v in Y)),
    case("y-one-text", {}, TYPE, "y", y="abc"),
    case("y-structured", {}, INVALID, "y", y=FIELDS),
    case("y-numbers-as-text", {}, INVALID, "y", y=Y.astype(str)),
    case("y-text-objects", {}, INVALID, "y", y=Y.astype(str).astype(object)),
    case("y-series-of-dates", {}, INVALID, "y", y=pd.Series(DATES)),
    case("y-NA", {}, TYPE, "y", y=one_missing(Y, pd.NA)),
    case("weight-masked", {}, INVALID, "sample_weight", sample_weight=np.ma.array(WEIGHTS, mask=Y > 1)),
    case("weight-complex", {}, INVALID, "sample_weight", sample_weight=WEIGHTS * 1j),
    case("weight-complex-list", {}, INVALID, "sample_weight", sample_weight=[1j] * M),
    case("weight-1_000", {}, INVALID, "sample_weight", sample_weight=["1_000"] * M),
    case("weight-dates", {}, INVALID, "sample_weight", sample_weight=DATES),
    case("weight-dict", {}, TYPE, "sample_weight", sample_weight={}),
    case("weight-huge", {}, INVALID, "sample_weight", sample_weight=WEIGHTS * 1e200),
    case("weight-NA", {}, INVALID, "sample_weight", sample_weight=pd.array([1] * 19 + [None])),
    case("groups-masked", {"cv": GroupKFold(2)}, INVALID, "groups", groups=np.ma.array(GROUPS, mask=Y > 1)),
    case("groups-NaT", {"cv": LeaveOneGroupOut()}, INVALID, "groups", groups=NOT_A_TIME),
    case("groups-NaT-series", {}, INVALID, "groups", groups=pd.Series(NOT_A_TIME)),
    case("groups-NA", {}, INVALID, "groups", groups=one_missing(GROUPS, pd.NA)),
    case("groups-complex", {}, INVALID, "groups", groups=GROUPS * 1j),
    case("groups-ragged", {}, INVALID, "groups", groups=[[1], [1, 2]]),
    case("basis-negative", {"basis": [-1, 2]}, INVALID, "basis"),
    case("basis-masked", {"basis": np.ma.array([1, 3], mask=[0, 1])}, INVALID, "basis"),
    case("cv-masked", {"cv": [(np.ma.array([1, 3], mask=[0, 1]), [0])]}, HOLD_OUT, "cv"),
    case("cv-negative-train", {"cv": [([-1], [3])]}, HOLD_OUT, "cv"),
    case("cv-bool", {"cv": True}, HOLD_OUT, "cv"),
    case("cv-dict", {"cv": {}}, HOLD_OUT, "cv"),
    case("cv-none-items", {"cv": [None]}, INVALID, "cv"),
    case("cv-outside-later", {"cv": [HoldOut([0]), HoldOut([M])]}, HOLD_OUT, "cv"),
    case("alphas-masked", {"alphas": np.ma.array([0.1, 1], mask=[0, 1])}, INVALID, "alphas"),
    case("alphas-dict", {"alphas": {}}, INVALID, "alphas"),
    case("alphas-generator", {"alphas": (a for a in (1.0, 2.0))}, INVALID, "alphas"),
    case("alphas-NA", {"alphas": [1.0, pd.NA]}, INVALID, "alphas"),
    case("alphas-bool", {"alphas": True}, INVALID, "alphas"),
    case("alphas-ragged", {"alphas": [[1.0], [1.0, 2.0]]}, INVALID, "alphas"),
    case("gamma-masked", {"gamma": np.ma.array([0.1, 1], mask=[0, 1])}, INVALID, "gamma"),
    case("gamma-complex", {"gamma": [1j]}, INVALID, "gamma"),
    case("gamma-inf", {"gamma": np.inf}, INVALID, "gamma"),
    case("degree-text", {"kernel": "poly", "degree": "3"}, INVALID, "degree"),
    case("coef0-none", {"kernel": "poly", "coef0": None}, INVALID, "coef0"),
    case("jitter-text", {"jitter": "a"}, INVALID, "jitter"),
    case("kernel_params-list", {"kernel_params": []}, INVALID, "kernel_params"),
    case("seed-negative", {"random_state": -1}, INVALID, "random_state"),
    case("memory-negative", {"memory_limit": "-1GB"}, INVALID, "memory_limit"),
    case("memory-empty", {"memory_limit": ""}, INVALID, "memory_limit"),
    case("basis-1_0", {"basis": "1_0"}, INVALID, "basis"),
    case("scoring-empty", {"scoring": ""}, INVALID, "scoring"),
]

LABELLED = [  # classifiers
    case("per-target", {"alpha_per_target": True}, UNSUPPORTED, "alpha_per_target"),
    case("one-class", {}, INVALID, "y", y=["a"] * M),
    case("one-class-of-weight", {}, INVALID, "y", sample_weight=(LABELS == "up") * 1.0),
    case("continuous", {}, INVALID, "y", y=Y + 0.5),
    case("nan", {}, INVALID, "y", y=put(GROUPS, 3, np.nan)),
    case("2d", {}, INVALID, "y", y=np.c_[GROUPS, GROUPS]),
    case("calibration", {"calibration": "platt"}, INVALID, "calibration"),
    case("class-weight-of-nobody", {"class_weight": {"nobody": 2.0}}, INVALID, "class_weight"),
    case("class-weight-zero", {"class_weight": {"up": 0.0}}, INVALID, "class_weight"),
    case("class-weight-negative", {"class_weight": {"up": -1.0}}, INVALID, "class_weight"),
    case("class-weight-inf", {"class_weight": {"up": np.inf}}, INVALID, "class_weight"),
    case("class-weight-text", {"class_weight": "even"}, INVALID, "class_weight"),
    case("class-weight-number", {"class_weight": 3.0}, INVALID, "class_weight"),
    case("short", {}, INVALID, "y", y=LABELS[:4]),
    case("none", {}, INVALID, "y", y=None),
    case("scoring", {"scoring": "roc_auc"}, INVALID, "scoring", y=GROUPS),
    case("masked", {}, INVALID, "y", y=np.ma.array(LABELS, mask=Y > 1)),
    case("NA", {}, INVALID, "y", y=one_missing(LABELS, pd.NA)),
    case("NA-text", {}, INVALID, "y", y=pd.array([None, *LABELS[1:]], dtype="string")),
    case("NA-integers", {}, INVALID, "y", y=pd.array([None, *[0, 1] * 9, 1], dtype="Int64")),
    case("None", {}, INVALID, "y", y=one_missing(LABELS, None)),
    case("nan-object", {}, INVALID, "y", y=one_missing(LABELS, np.nan)),
    case("NaT", {}, INVALID, "y", y=NOT_A_TIME),
    case("missing-category", {}, INVALID, "y", y=pd.Categorical([None, *LABELS[1:]])),
    case("mixed", {}, INVALID, "y", y=one_missing(LABELS, 1)),
    case("complex", {}, INVALID, "y", y=np.sign(Y) * 1j),
    case("dict", {}, INVALID, "y", y={}),
    case("lists", {}, INVALID, "y", y=[["a"], ["b", "c"]] * (M // 2)),
]

#: Of a fitted model.
QUESTIONS = [
    (lambda m: m.predict_without(3), HOLD_OUT, "rows"),
    (lambda m: m.predict_without([99]), HOLD_OUT, "rows"),
    (lambda m: m.predict_without([-1]), HOLD_OUT, "rows"),
    (lambda m: m.predict_without([]), HOLD_OUT, "rows"),
    (lambda m: m.predict_without([1, 1]), HOLD_OUT, "rows"),
    (lambda m: m.predict_without([1.5]), HOLD_OUT, "rows"),
    (lambda m: m.predict_without(np.arange(M)), HOLD_OUT, "rows"),
    (lambda m: m.predict_interval(X, "wide"), INVALID, "level"),
    (lambda m: m.predict_interval(X, method="fuller"), INVALID, "method"),
    (lambda m: m.predict_without(m.basis_indices_), HOLD_OUT, "cv"),
    (lambda m: m.predict_without([1], alpha=-1.0), INVALID, "alpha"),
    (lambda m: m.predict_without([1], alpha=np.nan), INVALID, "alpha"),
    (lambda m: m.predict_without([1], alpha="a"), INVALID, "alpha"),
    (lambda m: m.predict_without([1], alpha=[1.0, 2.0]), INVALID, "alpha"),
    (lambda m: m.held_out(groups=GROUPS), INVALID, "groups"),
    (lambda m: m.held_out(GroupKFold(2)), HOLD_OUT, "cv"),
    (lambda m: m.held_out(GroupKFold(2), GROUPS[:3]), INVALID, "groups"),
    (lambda m: m.held_out(alphas=[1.0, 1.0]), INVALID, "alphas"),
    (lambda m: m.held_out().labels(), HOLD_OUT, None),
    (lambda m: m.held_out().score("r3"), INVALID, "scoring"),
    (lambda m: m.held_out(ShuffleSplit(2, random_state=0)).matrix(), HOLD_OUT, None),
    (lambda m: m.verify(0), INVALID, "n_experiments"),
    (lambda m: m.verify("all"), INVALID, "n_experiments"),
    (lambda m: m.predict(X[:, :2]), INVALID, "X"),
    (lambda m: m.predict(put(X, 0, np.nan)), INVALID, "X"),
    (lambda m: m.predict(X[0]), INVALID, "X"),
    (lambda m: m.predict(None), TYPE, "X"),
    (lambda m: m.predict({}), TYPE, "X"),
    (lambda m: m.predict(X * 1e200), INVALID, "X"),
    (lambda m: m.predict(X * 1j), INVALID, "X"),
    (lambda m: m.predict(np.ma.array(X, mask=X > 1)), INVALID, "X"),
    (lambda m: m.predict(np.array([["1_000"] * 3])), INVALID, "X"),
    (lambda m: m.predict(np.zeros(3, "M8[s]")), INVALID, "X"),
    (lambda m: m.predict(np.empty((0, 3))), INVALID, "X"),
    (lambda m: m.verify(random_state="x"), INVALID, "random_state"),
    (lambda m: m.verify(random_state=-1), INVALID, "random_state"),
    (lambda m: m.verify(random_state=1.5), INVALID, "random_state"),
    (lambda m: m.verify(random_state=True), INVALID, "random_state"),
    (lambda m: m.verify(random_state=[1, 2]), INVALID, "random_state"),
    (lambda m: m.verify(True), INVALID, "n_experiments"),
    (lambda m: m.verify(1.5), INVALID, "n_experiments"),
    (lambda m: m.verify(None), INVALID, "n_experiments"),
    (lambda m: m.predict_without(slice(0, 3)), HOLD_OUT, "rows"),
    (lambda m: m.predict_without([True] * M), HOLD_OUT, "rows"),
    (lambda m: m.predict_without(["a"]), HOLD_OUT, "rows"),
    (lambda m: m.predict_without([2**64 - 1]), HOLD_OUT, "rows"),
    (lambda m: m.predict_without(np.ma.array([1, 2], mask=[0, 1])), HOLD_OUT, "rows"),
    (lambda m: m.predict_without([1], alpha=np.ma.array([1.0], mask=True)), INVALID, "alpha"),
    (lambda m: m.predict_without([1], alpha=0.0), INVALID, "alpha"),
    (lambda m: m.predict_without([1], alpha=1j), INVALID, "alpha"),
    (lambda m: m.predict_without([1], alpha=True), INVALID, "alpha"),
    (lambda m: m.predict_without([1], X=X[:, :2]), INVALID, "X"),
    (lambda m: m.predict_without([1], X="a"), TYPE, "X"),
    (lambda m: m.held_out(cv="loo"), INVALID, "cv"),
    (lambda m: m.held_out(cv=1), HOLD_OUT, "cv"),
    (lambda m: m.held_out(cv=[([0], [-1])]), HOLD_OUT, "cv"),
    (lambda m: m.held_out(cv=[HoldOut([M])]), HOLD_OUT, "cv"),
    (lambda m: m.held_out(alphas=[0.0]), INVALID, "alphas"),
    (lambda m: m.held_out(alphas=[]), INVALID, "alphas"),
    (lambda m: m.held_out().to_frame("arrow"), INVALID, "library"),
]

#: Arguments of HoldOut.
HOLD_OUTS = [
    (([-1],), "held_out"),
    (([1, 1],), "held_out"),
    (([1.0],), "held_out"),
    ((np.ones(3, bool),), "held_out"),
    ((3,), "held_out"),
    (([[1], [2, 3]],), "held_out"),
    (([],), "held_out"),
    (([1, 2], []), "test"),
    (([1, 2], [3]), "test"),
    (([1, 2], ["a"]), "test"),
    (([None],), "held_out"),
    (({},), "held_out"),
    ((np.array([2**64 - 1], dtype=np.uint64),), "held_out"),
    ((np.ma.array([1, 2], mask=[0, 1]),), "held_out"),
    (([1, 2], np.ma.array([1, 2], mask=[0, 1])), "test"),
]
# fmt: on


def unchanged(before, after):
    """Whether two states hold the same objects, arrays compared by value."""
    assert before.keys() == after.keys()
    for name, value in before.items():
        assert after[name] is value


def frozen(value):
    """Return what a value holds, for comparison; an iterator cannot be looked at."""
    return None if isinstance(value, Iterator) else str(value)


def refused(model, X, y, error, argument, fit):
    """Assert that fit refuses with this error, which names the argument, and changes nothing."""
    arguments = {"X": X, "y": y, **fit}
    copies = {name: frozen(value) for name, value in arguments.items()}
    before = dict(vars(model))
    with pytest.raises(HoldfastError) as caught:
        model.fit(X, y, **fit)
    assert caught.type is error
    assert caught.value.argument == argument
    message = str(caught.value)
    # One sentence, perhaps two with the advice; no dump of the data.
    assert "\n" not in message
    assert len(message) < 500
    unchanged(before, dict(vars(model)))
    for name, value in arguments.items():
        assert frozen(value) == copies[name], name


@pytest.mark.parametrize(("options", "X", "y", "error", "argument", "fit"), FITS)
def test_fit_refuses(options, X, y, error, argument, fit):
    refused(KernelRidgeCV(**options), X, y, error, argument, fit)


@pytest.mark.parametrize(("options", "X", "y", "error", "argument", "fit"), LABELLED)
def test_classifier_refuses(options, X, y, error, argument, fit):
    y = LABELS if y is Y else y
    refused(KernelRidgeClassifierCV(**options), X, y, error, argument, fit)


@pytest.mark.parametrize(("arguments", "argument"), HOLD_OUTS)
def test_hold_out_refuses(arguments, argument):
    with pytest.raises(HoldOutError) as caught:
        HoldOut(*arguments)
    assert caught.value.argument == argument


@pytest.fixture(scope="module")
def fitted():
    return KernelRidgeCV(basis=6, random_state=0, cv=3).fit(X, Y)


@pytest.mark.parametrize(("question", "error", "argument"), QUESTIONS)
def test_questions_refused(fitted, question, error, argument):
    before = dict(vars(fitted))
    with pytest.raises(HoldfastError) as caught:
        question(fitted)
    assert caught.type is error
    assert caught.value.argument == argument
    unchanged(before, dict(vars(fitted)))


def test_a_fitted_model_survives_a_refused_fit():
    model = KernelRidgeCV(cv=4).fit(X, Y)
    before, predictions = dict(vars(model)), model.predict(X)
    with pytest.raises(InvalidInputError):
        model.fit(X[:, :2], put(Y, 0, np.nan))
    unchanged(before, dict(vars(model)))
    np.testing.assert_array_equal(model.predict(X), predictions)
    assert model.n_features_in_ == 3


def test_a_kernel_that_raises_is_not_hidden():
    def broken(A, B):
        raise ZeroDivisionError("inside the user's own function")

    with pytest.raises(ZeroDivisionError):
        KernelRidgeCV(kernel=broken).fit(X, Y)


def test_an_iterator_is_used_up_once():
    model = KernelRidgeCV(cv=iter([(np.arange(10), np.arange(10, M))]))
    model.fit(X, Y)
    with pytest.raises(HoldOutError):
        model.fit(X, Y)


def test_skip_never_tests_a_basis_row():
    model = KernelRidgeCV(basis=[4, 7, 11], held_out_basis="skip").fit(X, Y)
    with pytest.raises(HoldOutError):
        model.predict_without([4, 15, 16])
    assert model.predict_without([15, 16]).shape == (2,)


def test_reselect_has_nothing_to_verify():
    model = KernelRidgeCV(basis=5, held_out_basis="reselect", cv=3, random_state=0).fit(X, Y)
    with pytest.raises(NotSupportedError):
        model.verify()


@pytest.mark.parametrize(
    "question",
    [
        lambda m: m.predict(X),
        lambda m: m.predict_without([1]),
        lambda m: m.held_out(),
        lambda m: m.verify(),
        lambda m: m.explain(),
        lambda m: m.decision_function(X),
        lambda m: m.predict_proba(X),
    ],
)
def test_before_fit(question):
    with pytest.raises(NotFittedError):
        question(KernelRidgeClassifierCV())


# -- what is no bad input ------------------------------------------------------------------------


def test_a_nearly_singular_basis_is_mended_by_jitter_alone_when_asked():
    """ε is part of the model and named in the result; without it the same basis is refused."""
    twice = np.vstack([X[:1], X[:1], X[2:]])
    model = KernelRidgeCV(basis=[0, 1, 2], jitter=1e-8).fit(twice, Y)
    assert model.jitter_ == pytest.approx(1e-8)


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
    with pytest.warns(HoldfastWarning) as caught:
        KernelRidgeCV().fit(tiny, y)
    assert caught[0].message.argument == "X"
    with warnings.catch_warnings():
        warnings.simplefilter("error", HoldfastWarning)
        warnings.simplefilter("ignore", GridEdgeWarning)
        model = KernelRidgeCV().fit(1e160 * tiny, y)
        model.predict(tiny)  # new rows may lie anywhere
        KernelRidgeCV("precomputed", alphas=[1e-152, 1e-151]).fit(1e-152 * X @ X.T, y)


@pytest.mark.parametrize("kind", [KernelRidgeCV, KernelRidgeClassifierCV])
def test_weights_more_than_twelve_decades_apart_are_refused(kind):
    X, y = np.random.default_rng(0).normal(size=(2, 20, 1))
    y = y[:, 0] if kind is KernelRidgeCV else y[:, 0] > 0
    weights = np.ones(20)
    weights[3:5] = 0.0, 2e-12
    kind(alphas=[0.1]).fit(X, y, sample_weight=weights)
    weights[4] = 1e-13
    with pytest.raises(InvalidInputError) as error:
        kind(alphas=[0.1]).fit(X, y, sample_weight=weights)
    assert error.value.argument == "sample_weight"


# -- what errors and warnings carry -----------------------------------------------------------------

LINE = np.linspace(0.0, 1.0, 12)[:, None]


@pytest.mark.parametrize(
    ("options", "argument", "remedies"),
    [
        ({"held_out_basis": "skip"}, "held_out_basis", ("basis",)),
        ({"memory_limit": 1000}, "basis", ("memory_limit",)),
    ],
)
def test_errors_name_other_arguments_that_help(options, argument, remedies):
    with pytest.raises(HoldfastError) as caught:
        KernelRidgeCV(**options).fit(LINE, LINE[:, 0] ** 2)
    assert caught.value.argument == argument
    assert caught.value.remedies == remedies


def test_warnings_carry_their_argument():
    with pytest.warns(GridEdgeWarning) as caught:
        KernelRidgeCV(alphas=[1e3, 1e4], gamma=1.0).fit(LINE, LINE[:, 0] ** 2)
    assert caught[0].message.argument == "alphas"


def test_an_error_keeps_its_argument_when_it_is_pickled():
    error = InvalidInputError("cv must be a number.", argument="cv", remedies=("groups",))
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.argument, copied.remedies) == (str(error), "cv", ("groups",))
