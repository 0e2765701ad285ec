"""Fits that once went through without a word, or ended in somebody else's exception."""

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut

from bad_calls.fits import GROUPS, LABELS, WEIGHTS, K, M, X, Y, case
from holdfast import Experiments, HoldOut
from holdfast.core.experiments import Ragged
from holdfast.exceptions import HoldOutError, InputTypeError, InvalidInputError, KernelError

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

HIDDEN = np.ma.array(X, mask=X > 1)
SOME = np.ma.array(Y, mask=Y > 1)
DATES = np.array(["2020-01-01", "2021-01-01"] * (M // 2), dtype="M8[D]")
NOT_A_TIME = DATES.copy()
NOT_A_TIME[3] = "NaT"
FIELDS = np.zeros(M, dtype=[("a", float), ("b", int)])
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
NUMBERS_AS_TEXT = np.array([["1_000"] * 3] * M)
OUTSIDE = Ragged(np.array([-1]), np.array([0, 1]))


def masked_values(A, B):
    return np.ma.array(A @ B.T, mask=A @ B.T > 1)


def one_missing(labels, missing):
    return np.array([missing, *labels[1:]], dtype=object)


INVALID, TYPE = InvalidInputError, InputTypeError

ROWS = [
    case("X-masked", {}, INVALID, "X must not hide values", "masked", "filled", X=HIDDEN),
    case("X-masked-rows", {}, INVALID, "X must not hide values", X=list(HIDDEN)),
    case("X-huge", {}, INVALID, "X must hold numbers of size up to 1e+150", "e+200", X=X * 1e200),
    case("X-huge-linear", {"kernel": "linear"}, INVALID, "X", "1e+150", X=X * 1e200),
    case("X-huge-poly", {"kernel": "poly"}, INVALID, "X", "1e+150", X=X * 1e200),
    case("X-large-linear", {"kernel": "linear"}, INVALID, "X", "1e+150", X=X * 1e154),
    case("X-huge-basis", {"basis": 5}, INVALID, "X", "1e+150", X=X * 1e200),
    case("X-longdouble", {}, INVALID, "X", "1e+150", X=X * np.longdouble("1e4000")),
    case("X-structured", {}, INVALID, "X must hold numbers", "fields", X=FIELDS),
    case("X-void", {}, INVALID, "X must hold numbers", "V8", X=np.zeros((M, 2), dtype="V8")),
    case("X-dict", {}, TYPE, "X must hold numbers", "got a dict", X={}),
    case("X-set", {}, TYPE, "X must hold numbers", "got a set", X={1, 2}),
    case("X-generator", {}, TYPE, "X must hold numbers", "generator", X=(row for row in X)),
    case("X-none", {}, TYPE, "X must hold numbers", "got None", X=None),
    case("X-one-text", {}, TYPE, "X must hold numbers", "got the text 'abc'", X="abc"),
    case("X-ragged", {}, INVALID, "X must hold rows of one length", X=[[1.0, 2.0], [3.0]] * 10),
    case("X-bytes", {}, INVALID, "X must hold numbers", "text", X=np.array([[b"1"]] * M)),
    case("X-1_000", {}, INVALID, "X must hold numbers", "'1_000'", X=NUMBERS_AS_TEXT),
    case("X-1_000-objects", {}, INVALID, "'1_000'", X=NUMBERS_AS_TEXT.astype(object)),
    case("X-text-column", {}, INVALID, "column 't' of X", "'a'", X=FRAME.assign(t="a")),
    case(
        "X-NA",
        {},
        INVALID,
        "X must be finite",
        "row 19",
        X=FRAME.assign(t=pd.array([1] * 19 + [None])),
    ),
    case(
        "X-NA-object", {}, TYPE, "X must hold numbers", X=np.array([[1.0, pd.NA]] * M, dtype=object)
    ),
    case(
        "X-None-object",
        {},
        INVALID,
        "X must be finite",
        X=np.array([[1.0, None]] * M, dtype=object),
    ),
    case(
        "X-dict-object",
        {},
        TYPE,
        "X must hold",
        "'dict'",
        X=np.array([[1.0, {}]] * M, dtype=object),
    ),
    case(
        "X-date-objects", {}, INVALID, "datetime64", X=np.array([[1.0, DATES[0]]] * M, dtype=object)
    ),
    case(
        "X-complex-objects",
        {},
        INVALID,
        "X must be real",
        X=np.array([[1.0, 1j]] * M, dtype=object),
    ),
    case("X-date-column", {}, INVALID, "column 't' of X", "datetime64", X=FRAME.assign(t=DATES)),
    case(
        "X-zoned",
        {},
        INVALID,
        "column 't' of X",
        "UTC",
        X=FRAME.assign(t=pd.Timestamp(0, tz="UTC")),
    ),
    case(
        "X-duration", {}, INVALID, "'t' of X", "timedelta64", X=FRAME.assign(t=pd.Timedelta("1s"))
    ),
    case("X-period", {}, INVALID, "'t' of X", "period", X=FRAME.assign(t=pd.Period("2020"))),
    case(
        "X-categories",
        {},
        INVALID,
        "'t' of X",
        "categories",
        X=FRAME.assign(t=pd.Categorical([1] * M)),
    ),
    case("X-complex-column", {}, INVALID, "'t' of X must be real", X=FRAME.assign(t=1j)),
    case(
        "X-repeated-names",
        {},
        INVALID,
        "X",
        "unique column names",
        X=pd.DataFrame(X, columns=[*"aab"]),
    ),
    case("X-polars-date", {}, INVALID, "'t' of X", "Date", X=pl.DataFrame({"t": DATES.tolist()})),
    case("X-polars-text", {}, INVALID, "'t' of X", "'a'", X=pl.DataFrame({"t": ["a"] * M})),
    case(
        "K-masked",
        {"kernel": "precomputed"},
        INVALID,
        "X must not hide",
        X=np.ma.array(K, mask=K > 1),
    ),
    case("kernel-masked", {"kernel": masked_values}, KernelError, "masked_values", "hide values"),
]

TARGETS = [
    case("y-masked", {}, INVALID, "y must not hide values", "masked", y=SOME),
    case("y-huge", {}, INVALID, "y must lie within ±1e+100", y=Y * 1e120),
    case("y-dict", {}, TYPE, "y must hold numbers", "got a dict", y={}),
    case("y-set", {}, TYPE, "y must hold numbers", "got a set", y={1, 2}),
    case("y-generator", {}, TYPE, "y must hold numbers", "generator", y=(v for v in Y)),
    case("y-one-text", {}, TYPE, "y must hold numbers", "text 'abc'", y="abc"),
    case("y-structured", {}, INVALID, "y must hold numbers", "fields", y=FIELDS),
    case("y-numbers-as-text", {}, INVALID, "y must hold numbers", "text", y=Y.astype(str)),
    case(
        "y-text-objects", {}, INVALID, "y must hold numbers", "text", y=Y.astype(str).astype(object)
    ),
    case("y-series-of-dates", {}, INVALID, "y must hold numbers", y=pd.Series(DATES)),
    case("y-NA", {}, TYPE, "y must hold numbers", y=one_missing(Y, pd.NA)),
    case(
        "weight-masked",
        {},
        INVALID,
        "sample_weight must not hide",
        sample_weight=np.ma.array(WEIGHTS, mask=Y > 1),
    ),
    case("weight-complex", {}, INVALID, "sample_weight must be real", sample_weight=WEIGHTS * 1j),
    case("weight-complex-list", {}, INVALID, "sample_weight must be real", sample_weight=[1j] * M),
    case(
        "weight-1_000", {}, INVALID, "sample_weight must hold numbers", sample_weight=["1_000"] * M
    ),
    case("weight-dates", {}, INVALID, "sample_weight", "datetime64", sample_weight=DATES),
    case(
        "weight-durations",
        {},
        INVALID,
        "sample_weight",
        "timedelta64",
        sample_weight=WEIGHTS.astype("m8[s]"),
    ),
    case("weight-structured", {}, INVALID, "sample_weight", "fields", sample_weight=FIELDS),
    case("weight-dict", {}, TYPE, "sample_weight must hold numbers", sample_weight={}),
    case("weight-huge", {}, INVALID, "sample_weight", "1e+150", sample_weight=WEIGHTS * 1e200),
    case(
        "weight-NA",
        {},
        INVALID,
        "sample_weight must be finite",
        sample_weight=pd.array([1] * 19 + [None]),
    ),
]

NUMBERS_OF_ROWS = [
    case(
        "groups-masked",
        {"cv": GroupKFold(2)},
        INVALID,
        "groups must not hide",
        groups=np.ma.array(GROUPS, mask=Y > 1),
    ),
    case(
        "groups-NaT",
        {"cv": LeaveOneGroupOut()},
        INVALID,
        "groups",
        "1 missing",
        "row 3",
        groups=NOT_A_TIME,
    ),
    case("groups-NaT-series", {}, INVALID, "groups", "1 missing", groups=pd.Series(NOT_A_TIME)),
    case(
        "groups-NA", {}, INVALID, "groups", "1 missing", "row 0", groups=one_missing(GROUPS, pd.NA)
    ),
    case("groups-complex", {}, INVALID, "groups", "sorted", "complex128", groups=GROUPS * 1j),
    case("groups-structured", {}, INVALID, "groups", "sorted", groups=FIELDS),
    case("groups-dict", {}, INVALID, "groups", "one label per row", groups={}),
    case("groups-ragged", {}, INVALID, "groups", "one label per row", groups=[[1], [1, 2]]),
    case("basis-negative", {"basis": [-1, 2]}, INVALID, "basis", "got -1", "from the end"),
    case(
        "basis-masked", {"basis": np.ma.array([1, 3], mask=[0, 1])}, INVALID, "basis must not hide"
    ),
    case(
        "cv-masked",
        {"cv": [(np.ma.array([1, 3], mask=[0, 1]), [0])]},
        HoldOutError,
        "train",
        "hide",
    ),
    case(
        "cv-negative-train", {"cv": [([-1], [3])]}, HoldOutError, "train", "got -1", "from the end"
    ),
    case("cv-negative-built", {"cv": Experiments(OUTSIDE, OUTSIDE)}, HoldOutError, "got -1"),
    case("cv-bool", {"cv": True}, HoldOutError, "cv", "between 2", "got True"),
    case("cv-dict", {"cv": {}}, HoldOutError, "cv", "at least one experiment"),
    case("cv-none-items", {"cv": [None]}, INVALID, "cv must yield", "NoneType"),
    case("cv-outside-later", {"cv": [HoldOut([0]), HoldOut([M])]}, HoldOutError, "got 20"),
]

NUMBERS = [
    case(
        "alphas-masked",
        {"alphas": np.ma.array([0.1, 1], mask=[0, 1])},
        INVALID,
        "alphas must not hide",
    ),
    case("alphas-dict", {"alphas": {}}, INVALID, "alphas", "real numbers"),
    case(
        "alphas-generator", {"alphas": (a for a in (1.0, 2.0))}, INVALID, "alphas", "real numbers"
    ),
    case("alphas-NA", {"alphas": [1.0, pd.NA]}, INVALID, "alphas", "real numbers"),
    case("alphas-bool", {"alphas": True}, INVALID, "alphas", "bool"),
    case("alphas-ragged", {"alphas": [[1.0], [1.0, 2.0]]}, INVALID, "alphas", "one-dimensional"),
    case(
        "gamma-masked",
        {"gamma": np.ma.array([0.1, 1], mask=[0, 1])},
        INVALID,
        "gamma must not hide",
    ),
    case("gamma-bool", {"gamma": True}, INVALID, "gamma", "got True"),
    case("gamma-complex", {"gamma": [1j]}, INVALID, "gamma", "1j"),
    case("gamma-inf", {"gamma": np.inf}, INVALID, "gamma", "inf"),
    case("degree-text", {"kernel": "poly", "degree": "3"}, INVALID, "'degree'", "'3'"),
    case("coef0-none", {"kernel": "poly", "coef0": None}, INVALID, "'coef0'", "None"),
    case("jitter-text", {"jitter": "a"}, INVALID, "'jitter'", "'a'"),
    case("kernel_params-list", {"kernel_params": []}, INVALID, "'kernel_params'", "[]"),
    case("seed-negative", {"random_state": -1}, INVALID, "'random_state'", "-1"),
    case("seed-float", {"random_state": 1.5}, INVALID, "'random_state'", "1.5"),
    case("memory-negative", {"memory_limit": "-1GB"}, INVALID, "memory_limit", "'-1GB'"),
    case("memory-empty", {"memory_limit": ""}, INVALID, "memory_limit", "''"),
    case("basis-1_0", {"basis": "1_0"}, INVALID, "basis='1_0'"),
    case("scoring-empty", {"scoring": ""}, INVALID, "scoring=''"),
]

LABELS_OF_ROWS = [
    case("masked", {}, INVALID, "y must not hide values", y=np.ma.array(LABELS, mask=Y > 1)),
    case("NA", {}, INVALID, "y", "1 missing", "row 0", y=one_missing(LABELS, pd.NA)),
    case("NA-text", {}, INVALID, "y", "1 missing", y=pd.array([None, *LABELS[1:]], dtype="string")),
    case(
        "NA-integers",
        {},
        INVALID,
        "y must be finite",
        y=pd.array([None, *[0, 1] * 9, 1], dtype="Int64"),
    ),
    case("None", {}, INVALID, "y", "1 missing", y=one_missing(LABELS, None)),
    case("nan-object", {}, INVALID, "y", "1 missing", y=one_missing(LABELS, np.nan)),
    case("NaT", {}, INVALID, "y", "1 missing", "row 3", y=NOT_A_TIME),
    case("missing-category", {}, INVALID, "y", "1 missing", y=pd.Categorical([None, *LABELS[1:]])),
    case("mixed", {}, INVALID, "y", "several types", y=one_missing(LABELS, 1)),
    case("complex", {}, INVALID, "y must be real", y=np.sign(Y) * 1j),
    case("structured", {}, INVALID, "y", "sorted", y=FIELDS),
    case("dict", {}, INVALID, "y", "1d array", y={}),
    case("lists", {}, INVALID, "y", y=[["a"], ["b", "c"]] * (M // 2)),
]
