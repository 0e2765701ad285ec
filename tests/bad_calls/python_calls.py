"""Calls from Python that are refused, as one table."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from bad_calls import Call, fits, questions, silence
from bad_calls.fits import LABELS, X, Y
from holdfast import HoldOut, KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.exceptions import HoldOutError


def brief(value: Any) -> str:
    """Return a value in a few words, the same in every run."""
    if isinstance(value, np.ma.MaskedArray):
        return f"masked array {value.shape}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype.name} array {value.shape}"
    if sp.issparse(value):
        return f"sparse {value.shape}"
    if hasattr(value, "columns"):
        return f"{type(value).__module__.split('.')[0]} frame of {', '.join(value.columns)}"
    if inspect.isfunction(value) or inspect.isclass(value):
        return value.__name__
    if inspect.isgenerator(value):
        return "a generator"
    if type(value).__module__.startswith("pandas"):
        return f"pandas {type(value).__name__}"
    if isinstance(value, list | tuple):
        parts = [brief(part) for part in value[:4]]
        text = ", ".join(parts) + (", …" if len(value) > 4 else "")
        return f"[{text}]" if isinstance(value, list) else f"({text})"
    text = re.sub(r" at 0x\w+", "", repr(value))
    return text if len(text) < 70 else text[:67] + "…"


def fit_call(group: str, param: Any, kind: type) -> Call:
    """Return a case of `fits` as a call; what is refused must leave the model as it was."""
    options, rows, y, error, words, fit = param.values
    if kind is KernelRidgeClassifierCV and y is Y:
        y = LABELS
    arguments = ", ".join(f"{name}={brief(value)}" for name, value in options.items())
    shown = "X" if rows is X else f"X={brief(rows)}"
    shown += ", y" if y is Y or y is LABELS else f", y={brief(y)}"
    shown += "".join(f", {name}={brief(value)}" for name, value in fit.items())

    def run(folder: Any) -> None:
        model = kind(**options)
        before = dict(vars(model))
        try:
            model.fit(rows, y, **fit)
        finally:
            after = dict(vars(model))
            if "_problem" not in after:
                assert before.keys() == after.keys()
                assert all(after[name] is value for name, value in before.items())

    return Call(group, param.id, f"{kind.__name__}({arguments}).fit({shown})", run, error, words)


@cache
def fitted() -> KernelRidgeCV:
    """Return the model that questions are put to."""
    return KernelRidgeCV(basis=6, random_state=0, cv=3).fit(X, Y)


def source_of(question: Callable[..., Any]) -> str:
    """Return the text of a lambda in a list."""
    text = " ".join(inspect.getsource(question).split())
    text = re.search(r"lambda m: (.*)", text)[1]
    depth = 0
    for i, mark in enumerate(text):
        depth += (mark in "([{") - (mark in ")]}")
        if depth < 0 or (mark == "," and depth == 0):
            return text[:i].replace("m.", "model.", 1)
    return text


def question_call(entry: tuple[Any, Any, Iterable[str]]) -> Call:
    """Return a question to a fitted model as a call."""
    question, error, words = entry
    shown = source_of(question)
    return Call(
        "Questions to a fitted model",
        shown,
        shown,
        lambda _: question(fitted()),
        error,
        tuple(words),
    )


def hold_out_call(entry: tuple[Any, Iterable[str]]) -> Call:
    """Return the making of an experiment as a call."""
    arguments, words = entry
    shown = f"HoldOut({', '.join(brief(part) for part in arguments)})"
    return Call(
        "Experiments", shown, shown, lambda _: HoldOut(*arguments), HoldOutError, tuple(words)
    )


_REGRESSION = {
    "Rows": silence.ROWS,
    "Rows, targets, weights": [*fits.DATA, *silence.TARGETS],
    "Penalties": fits.ALPHAS,
    "Experiments and groups": [*fits.SPLITS, *silence.NUMBERS_OF_ROWS],
    "Kernels": fits.KERNELS,
    "Basis rows": fits.BASES,
    "Options": [*fits.OPTIONS, *silence.NUMBERS],
}

CALLS = [
    *(
        fit_call(group, param, KernelRidgeCV)
        for group, params in _REGRESSION.items()
        for param in params
    ),
    *(
        fit_call("Classes", param, KernelRidgeClassifierCV)
        for param in [*fits.CLASSES, *silence.LABELS_OF_ROWS]
    ),
    *(hold_out_call(entry) for entry in questions.HOLD_OUTS),
    *(question_call(entry) for entry in questions.QUESTIONS),
]
