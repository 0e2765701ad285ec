"""scikit-learn's own tests of model selection, run through the functions of holdfast.

    python tools/their_tests.py            # counts, and each test that fails with ours alone

Each test of `sklearn.model_selection.tests` runs twice, once as it is and once with the drop-ins in
the place of scikit-learn's functions, so that its module imports them. Warnings that a job is
left to scikit-learn are switched off; how many of the tests had at least one answer in closed form
is counted, since most of these tests are about estimators that have none.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import sklearn.model_selection

import holdfast.model_selection
from holdfast.exceptions import HoldfastWarning
from holdfast.model_selection.problem import Problem

MODULES = ("test_validation", "test_search")


class Plugin:
    """Keeps the outcome of each test, and whether it had an answer in closed form."""

    def __init__(self) -> None:
        self.outcomes: dict[str, tuple[str, str]] = {}
        self.closed: set[str] = set()
        self._current = ""

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[None]:
        """Run a test without a word about refits."""
        self._current = item.nodeid
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HoldfastWarning)
            yield

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep what became of a test."""
        if report.when == "call":
            self.outcomes[report.nodeid] = (report.outcome, str(report.longrepr or ""))

    def counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that notes which test it was called in."""

        def call(*args: Any, **kwargs: Any) -> Any:
            found = real(*args, **kwargs)
            self.closed.add(self._current)
            return found

        return call


@contextmanager
def drop_ins() -> Iterator[None]:
    """Put the functions of holdfast in the place of scikit-learn's, inside a block."""
    with pytest.MonkeyPatch.context() as patched:
        for name in holdfast.model_selection.__all__:
            patched.setattr(sklearn.model_selection, name, getattr(holdfast.model_selection, name))
        yield


def run(*, ours: bool) -> Plugin:
    """Return what became of all tests."""
    plugin, real = Plugin(), Problem.held_out
    for name in [name for name in sys.modules if name.startswith("sklearn.model_selection.tests")]:
        del sys.modules[name]  # imported again, with the names of this run
    Problem.held_out = plugin.counted(real)
    options = ["-q", "-p", "no:cacheprovider", "--no-header", "--tb=short", "-c", "/dev/null"]
    names = [f"sklearn.model_selection.tests.{name}" for name in MODULES]
    try:
        with drop_ins() if ours else nullcontext():
            pytest.main([*options, "--pyargs", *names], plugins=[plugin])
    finally:
        Problem.held_out = real
    return plugin


def main() -> int:
    """Print how many tests pass, and which do not."""
    theirs, ours = run(ours=False), run(ours=True)
    passed = {name for name, (outcome, _) in theirs.outcomes.items() if outcome == "passed"}
    broken = sorted(name for name in passed if ours.outcomes.get(name, ("",))[0] != "passed")
    closed = ours.closed & passed - set(broken)
    print(
        f"\n{len(passed)} tests of scikit-learn pass as they are; {len(passed) - len(broken)} with"
    )
    print(f"the functions of holdfast, {len(closed)} of them with answers in closed form.")
    for name in broken:
        lines = ours.outcomes.get(name, ("", "not run"))[1].strip().splitlines() or [""]
        print(f"  {name.split('/')[-1]}: {lines[-1][:150]}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
