"""Errors and warnings carry the argument that they speak of."""

from __future__ import annotations

import ast
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import holdfast
from holdfast import KernelRidgeCV, exceptions
from holdfast.exceptions import GridEdgeWarning, HoldfastError, InvalidInputError

SOURCE = Path(holdfast.__file__).parent
#: These speak of files, packages and clusters.
OTHERS = ("MissingDependencyError", "ClusterError")
ERRORS = [
    name
    for name, kind in vars(exceptions).items()
    if isinstance(kind, type) and issubclass(kind, HoldfastError) and name not in OTHERS
]


def text_of(node: ast.expr) -> str:
    """Return the text that an expression makes, with {} around what is not known."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return f"{{{ast.unparse(node.value)}}}"
    return text_of(node.left) + text_of(node.right) if isinstance(node, ast.BinOp) else ""


def raised(path: Path) -> list[tuple[int, str, str | None]]:
    """Return the line, text and argument of every error that a module makes."""
    return [
        (
            node.lineno,
            text_of(node.args[0]),
            next((ast.unparse(key.value) for key in node.keywords if key.arg == "argument"), None),
        )
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ERRORS
        and node.args
    ]


def parameters() -> set[str]:
    """Return the names of all arguments of public functions and methods of the package."""
    return {
        argument.arg
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
        and (not node.name.startswith("_") or node.name == "__init__")
        for argument in (*node.args.args, *node.args.kwonlyargs)
    }


def test_a_text_that_begins_with_an_argument_carries_it():
    known, lacking = parameters(), []
    for path in sorted(SOURCE.rglob("*.py")):
        if path.parent.name in ("linalg", "cli"):  # arrays of the package itself; options
            continue
        for line, text, argument in raised(path):
            found = re.match(r"(\w+)(?:=| must )", text)
            named = bool(found) and found[1] in known
            if argument is None and (named or text.startswith("{name} must")):
                lacking.append(f"{path.relative_to(SOURCE)}:{line}: {text[:60]}")
    assert not lacking


X, Y = np.linspace(0.0, 1.0, 12)[:, None], np.linspace(0.0, 1.0, 12) ** 2


@pytest.mark.parametrize(
    ("options", "argument", "remedies"),
    [
        ({"alphas": [-1.0]}, "alphas", ()),
        ({"basis": "many"}, "basis", ()),
        ({"cv": 40}, "cv", ()),
        ({"gamma": -1.0}, "gamma", ()),
        ({"kernel": "none"}, "kernel", ()),
        ({"scoring": "none"}, "scoring", ()),
        ({"memory_limit": -3}, "memory_limit", ()),
        ({"held_out_basis": "skip"}, "held_out_basis", ("basis",)),
        ({"memory_limit": 1000}, "basis", ("memory_limit",)),
    ],
)
def test_errors_carry_their_argument(options, argument, remedies):
    with pytest.raises(HoldfastError) as caught:
        KernelRidgeCV(**options).fit(X, Y)
    assert caught.value.argument == argument
    assert caught.value.remedies == remedies


def test_warnings_carry_their_argument():
    with pytest.warns(GridEdgeWarning) as caught:
        KernelRidgeCV(alphas=[1e3, 1e4], gamma=1.0).fit(X, Y)
    assert caught[0].message.argument == "alphas"


def test_an_error_keeps_its_argument_when_it_is_pickled():
    error = InvalidInputError("cv must be a number.", argument="cv", remedies=("groups",))
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.argument, copied.remedies) == (str(error), "cv", ("groups",))
