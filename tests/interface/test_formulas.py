"""docs/formulas.md: every function that the page names computes the formula beside it.

An example (in the folder `formulas`) is registered under the dotted names that it is about. It
calls them on a small problem and compares what they return with the formula, written naively in
NumPy. The tests fail if the page names a function that has no example, if an example's function is
not on the page, and if an example does not really call the function it is registered under.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from types import CodeType

import numpy as np
import pytest

from interface.formulas import (
    EXAMPLES,
    answers,
    basis,
    held,
    model,
    scores,
    smoother,
    splits,
    tuning,
)
from interface.formulas.problem import E, H, alpha, naive_S, naive_sparse, rng, w

PAGE = Path(__file__).parents[2] / "docs" / "formulas.md"
#: Importing these registers their examples.
MODULES = (model, smoother, splits, held, basis, tuning, scores, answers)


def names_on_the_page() -> list[str]:
    return re.findall(r"`(holdfast(?:\.\w+)+)`", PAGE.read_text("utf-8"))


def find(name: str) -> object:
    """Return what a dotted name stands for, properties and methods as the class holds them."""
    module, rest = name, []
    while True:
        try:
            found: object = importlib.import_module(module)
            break
        except ModuleNotFoundError:
            module, _, last = module.rpartition(".")
            rest.insert(0, last)
    for part in rest:
        found = inspect.getattr_static(found, part)
    return found


def codes(thing: object) -> set[CodeType]:
    """Return the code that runs when a function, a method, a property or a class is used."""
    if isinstance(thing, classmethod | staticmethod):
        return codes(thing.__func__)
    if isinstance(thing, property):
        return codes(thing.fget)
    if isinstance(thing, cached_property):
        return codes(thing.func)
    if inspect.isclass(thing):
        members = [value for base in thing.__mro__ for value in vars(base).values()]
        return {value.__code__ for value in members if inspect.isfunction(value)}
    return {thing.__code__}


def codes_run_by(call: Callable[[], None]) -> set[CodeType]:
    seen: set[CodeType] = set()

    def note(frame, event, _):
        if event == "call":
            seen.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return seen


def test_every_function_of_the_page_has_an_example_and_the_other_way_round():
    names = names_on_the_page()
    assert sorted(names) == sorted(set(names)), "a function belongs to one row"
    assert set(names) == set(EXAMPLES)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_the_function_computes_the_formula(name):
    rng.bit_generator.state = np.random.default_rng(0).bit_generator.state  # in any order the same
    ran = codes_run_by(EXAMPLES[name])
    assert codes(find(name)) & ran, f"the example of {name} does not call it"


def test_the_examples_of_the_problem_are_not_trivial():
    """Weights differ, two unpenalised columns count, and removal changes predictions."""
    assert w.std() > 0.1
    assert np.linalg.norm(naive_sparse(H, E, alpha) - naive_sparse(H, [], alpha)) > 1e-3
    assert np.abs(np.linalg.eigvalsh(naive_S(alpha))).max() <= 1 + 1e-12
