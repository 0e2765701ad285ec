"""Calls that look bad and are accepted, each with the reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import KFold, LeaveOneGroupOut

from bad_calls import Call
from bad_calls.command_line import STUDY, run_command
from bad_calls.fits import GROUPS, LABELS, M, X, Y
from bad_calls.forgery import saved
from bad_calls.silence import DATES, FRAME
from holdfast import HoldOut, KernelRidgeClassifierCV, KernelRidgeCV, load
from holdfast.exceptions import HoldfastWarning
from holdfast.files import write_text
from holdfast.tables import open_source, read_columns

pd = pytest.importorskip("pandas")
GROUP = "Accepted"


def yes(shown: str, run: Callable[[], Any], why: str, warning: type[Warning] | None = None) -> Call:
    return Call(GROUP, shown, shown, lambda _: run(), None, (), why, warning)


def in_folder(shown: str, run: Callable[[Path], Any], why: str) -> Call:
    return Call(GROUP, shown, shown, run, None, (), why)


def typed(line: str, why: str) -> Call:
    shown = f"holdfast {line}"
    return Call(GROUP, shown, shown, lambda folder: run_command(folder, line), 0, (), why)


def fit(X: Any = X, y: Any = Y, fit: dict[str, Any] | None = None, **options: Any) -> Any:
    options = {"alphas": [0.1, 1.0, 10.0], "cv": 4, "random_state": 0, **options}
    model = KernelRidgeCV(**options).fit(X, y, **(fit or {}))
    assert np.isfinite(model.predict(X)).all()
    assert np.isfinite(model.held_out().values).all()
    return model


def classify(y: Any, X: Any = X) -> Any:
    model = KernelRidgeClassifierCV(alphas=[0.1, 1.0, 10.0], cv=2).fit(X, y)
    assert set(model.predict(X)) <= set(model.classes_)
    return model


def _read(name: str, content: bytes) -> Callable[[Path], Any]:
    def run(folder: Path) -> Any:
        (folder / name).write_bytes(content)
        with open_source(str(folder / name)) as source:
            return read_columns(source, source.names)

    return run


def _one_split() -> Any:
    return fit(cv=iter([(np.arange(10), np.arange(10, M))])).n_splits_


def _unfitted(folder: Path) -> Any:
    KernelRidgeCV(gamma=3.0).save(folder / "m")
    assert load(folder / "m").gamma == 3.0


def _other_numbers(folder: Path) -> Any:
    """A forger's model predicts what the forger likes: nothing in it can be told from another."""
    from bad_calls.forgery import array, forge

    path = saved(folder / "m")
    before = load(path).dual_coef_
    forge(path, array("coefficients", lambda a: a + 1.0))
    np.testing.assert_array_equal(load(path).dual_coef_, before + 1.0)


ONES = np.ones(M)

CALLS = [
    yes("fit(masked array that hides nothing, y)", lambda: fit(np.ma.array(X)), "No value is hidden, so there is nothing to lose."),
    yes("fit(float16 array, y)", lambda: fit(X.astype(np.float16)), "The numbers are taken as they are, with three or four significant figures; a warning says so.", HoldfastWarning),
    yes("fit(X, float16 array)", lambda: fit(y=Y.astype(np.float16)), "As above.", HoldfastWarning),
    yes("fit(float32 array, y)", lambda: fit(X.astype(np.float32)), "Kept as it is, to save memory; kernels compute in double precision."),
    yes("fit(longdouble array, y)", lambda: fit(X.astype(np.longdouble)), "Rounded to double precision, in which everything is computed."),
    yes("fit(integers, y)", lambda: fit((10 * X).astype(int)), "Whole numbers are numbers."),
    yes("fit(truth values, y)", lambda: fit(X > 0), "False and True are 0 and 1, as in a table of yes and no."),
    yes("fit(objects that are numbers, y)", lambda: fit(X.astype(object)), "Every object is a number; one that is not is refused."),
    yes("fit(list of lists, y)", lambda: fit(X.tolist()), "A list is an array in other words."),
    yes("fit(sparse matrix, y)", lambda: fit(sp.csr_array(X)), "Kept sparse."),
    yes("fit(frame with truth values, y)", lambda: fit(FRAME.assign(t=Y > 0)), "As for arrays."),
    yes("fit(X * 1e-200, y)", lambda: fit(X * 1e-200), "To this kernel all rows are alike, and the mean is the answer; a warning says so and names the scale of X.", HoldfastWarning),
    yes("fit(X * 1e140, y)", lambda: fit(X * 1e140), "Squares do not overflow; every row is far from every other."),
    yes("fit(X with a constant column, y)", lambda: fit(np.c_[X, ONES]), "It changes no distance."),
    yes("fit(X with repeated rows, y)", lambda: fit(np.r_[X, X], np.r_[Y, Y]), "The penalty keeps the model unique."),
    yes("fit(X, y * 1e70)", lambda: fit(y=Y * 1e70), "Squares of squares do not overflow."),
    yes("fit(X, y as a column)", lambda: fit(y=Y[:, None]), "One target, and predictions of one column."),
    yes("fit(X, whole numbers)", lambda: fit(y=np.arange(M)), "Whole numbers are numbers."),
    yes("fit(X, truth values)", lambda: fit(y=Y > 0), "A regression on 0 and 1."),
    yes("fit(X, y, sample_weight=2.0)", lambda: fit(fit={"sample_weight": 2.0}), "One weight for every row."),
    yes("fit(X, y, sample_weight=truth values)", lambda: fit(fit={"sample_weight": np.arange(M) % 3 > 0}), "True: train on this row; False: only predict it."),
    yes("fit(X, y, groups=dates)", lambda: fit(fit={"groups": DATES}, cv=LeaveOneGroupOut()), "Dates are labels like any other."),
    yes("fit(X, y, groups=...) with cv that needs none", lambda: fit(fit={"groups": GROUPS}, cv=KFold(4)), "Kept for later questions, such as held_out(LeaveOneGroupOut())."),
    yes("KernelRidgeCV(alphas=1.0)", lambda: fit(alphas=1.0), "A grid of one penalty."),
    yes("KernelRidgeCV(alphas=float16 array)", lambda: fit(alphas=np.array([0.1, 1, 10], np.float16)), "The penalties are the numbers in the array, 0.09998 and so on; alpha_ shows them."),
    yes("KernelRidgeCV(cv=an iterator)", _one_split, "Its splits are used once and kept; a second fit needs a list, and says so."),
    yes("KernelRidgeCV(basis=1.0)", lambda: fit(basis=1.0, alphas=[1.0]), "All of the rows, as a fraction."),
    yes("KernelRidgeCV(jitter=0.0)", lambda: fit(jitter=0.0, basis=5), "The model as defined; a singular basis is refused, never mended."),
    yes("HoldOut([5, 3])", lambda: HoldOut([5, 3]), "The order of held-out rows means nothing."),
    yes("model.verify(10**6)", lambda: fit().verify(10**6), "All experiments there are."),
    yes("model.verify(random_state=None)", lambda: fit().verify(1, random_state=None), "Drawn by chance, as asked."),
    yes("classifier.fit(X, truth values)", lambda: classify(Y > 0), "Two classes."),
    yes("classifier.fit(X, categories)", lambda: classify(pd.Categorical(LABELS)), "Categories are what classes are."),
    yes("classifier.fit(X, dates)", lambda: classify(DATES), "Dates can be told apart and sorted."),
    yes("classifier.fit(X, 1.0 and 2.0)", lambda: classify(np.where(Y > 0, 1.0, 2.0)), "Whole numbers, if written with a point."),
    in_folder("load(a model that was never fitted)", _unfitted, "Its parameters are the content; predict says that it is not fitted."),
    in_folder("load(right checksums, but other finite coefficients)", _other_numbers, "A model that somebody made up is a model: a file can lie about numbers, and do nothing else."),
    in_folder("write_text('/dev/null', …)", lambda f: write_text("/dev/null", "x"), "Written into the device, which stays one."),
    in_folder("reading 1_000 from CSV", _read("t.csv", b"a\n1_000\n"), "A text, as a label; it is no number anywhere but in a program."),
    in_folder("reading CSV with a byte-order mark", _read("t.csv", b"\xef\xbb\xbfa\n1\n"), "Spreadsheets write it; it is no part of the first name."),
    in_folder("reading CSV that is not UTF-8", _read("t.csv", "a\né\n".encode("latin1")), "Read as Windows-1252, and a note says so."),
    in_folder("reading CSV with an inch mark in a cell", _read("t.csv", b'a,b\n5" pipe,1\n'), "A quotation mark inside a cell opens nothing."),
    in_folder("reading CSV with empty lines", _read("t.csv", b"a\n\n1\n\n"), "Empty lines are not rows."),
    typed(f"cv {STUDY} --target y --features a,b --alphas 1", "A grid of one penalty."),
    typed(f"cv {STUDY} --target y --features a,b --alphas 1,0.1,1", "Sorted, and repeated numbers once."),
    typed(f"cv {STUDY} --target y --features a,b,same", "A constant column is centred to zero and changes nothing."),
    typed(f"cv {STUDY} --target gap --features a", "Rows without a target are left out, and the output says how many."),
    typed(f"cv {STUDY} --target y --features a,gap --impute", "Asked for; the output says how many values were filled in."),
    typed(f"cv {STUDY} --target y --features big,a", "Scaled to standard deviation 1 first; a constant column is zero."),
    typed(f"cv {STUDY} --target y --features a,w --categorical w", "Columns of numbers may be names, when asked."),
    typed(f"cv {STUDY} --target y --features a,b --verify 0", "Nothing retrained, and nothing claimed."),
    typed("verify python.holdfast -n 99", "All experiments there are."),
]  # fmt: skip
