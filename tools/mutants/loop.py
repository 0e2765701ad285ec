"""Where mutants meet tests: a pytest plugin that forks one warm process for each mutant.

The tests are collected once. One child runs them all and records which lines each of them reaches,
and how long it takes. Then, for each mutant, a child exchanges the code of the changed function in
place and runs the tests that reach the changed lines until one fails. Nothing is imported or
collected twice, and no source file is touched.
"""

from __future__ import annotations

import gc
import math
import os
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from tools.mutants.exchange import Live, exchange, live_functions
from tools.mutants.operators import Module, Mutant
from tools.mutants.tests import Tests, in_order

#: Processor seconds that the tests of one mutant may take together.
BUDGET = 30.0
#: A test that takes this many times as long as it should, and these seconds more, hangs.
HANGS, GRACE = 20.0, 5.0
#: Real seconds after which a mutant hangs in any case: it may wait without computing.
PATIENCE = 3600.0
#: Measurements are saved after this many tests.
SAVED_EVERY = 200

#: Outcomes that a test brought about.
SEEN = ("killed", "timeout", "crashed")

T = TypeVar("T")
Told = Callable[[Mutant, str, str, int], None]


class Loop:
    """A pytest plugin that runs mutants in place of the tests.

    Parameters
    ----------
    modules : list of Module
    mutants : list of Mutant
        What to try out.
    folder : Path
        Where lines and times of the tests are kept for the next run.
    told : callable
        Gets each mutant, in the process that tried it, with the outcome ("survived", one of `SEEN`
        or "invalid"), the test that saw it and the number of tests that ran.
    jobs : int
        Processes side by side.
    budget : float
        Processor seconds for the tests of a mutant.
    """

    def __init__(
        self,
        modules: list[Module],
        mutants: list[Mutant],
        folder: Path,
        told: Told,
        jobs: int = 1,
        budget: float = BUDGET,
    ) -> None:
        self._modules = {module.module: module for module in modules}
        self._mutants, self._folder, self._told = mutants, folder, told
        self._jobs, self._budget, self._failed = jobs, budget, False

    def pytest_configure(self) -> None:
        """Make hypothesis repeatable, and without a memory that mutants would fill."""
        from hypothesis import settings  # pytest wants to be the first to import it

        settings.register_profile("mutants", database=None, deadline=None, derandomize=True)
        settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure."""
        self._failed |= report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Measure the tests that are new or changed, then try the mutants out."""
        if session.testsfailed:
            raise session.Interrupted(f"{session.testsfailed} errors while collecting the tests")
        known = Tests(self._folder, [module.path for module in self._modules.values()])
        new = [item for item in session.items if not known.has(item)]
        if new:
            print(f"\nmeasuring {len(new)} of {len(session.items)} tests", flush=True)
            self._share(new, lambda some: self._measure(known, some))
            known.read()
        for name in {mutant.module for mutant in self._mutants}:
            known.load(self._modules[name].path)  # here, so that no child has to
        items = {item.nodeid: item for item in session.items}
        live = live_functions({str(module.path) for module in self._modules.values()})
        gc.collect()
        gc.freeze()  # collections in the children then leave, and copy, nothing of the parent's
        self._share(self._mutants, lambda some: self._try_all(some, items, known, live))
        return True

    def _share(self, things: list[T], work: Callable[[list[T]], None]) -> None:
        """Do some work on all things, shared out among processes."""
        parts = [things[k :: self._jobs] for k in range(self._jobs)]
        children = [_fork(lambda _, part=part: work(part), quiet=False) for part in parts if part]
        try:
            for child in children:
                _outcome(child, patience=math.inf)
        except KeyboardInterrupt:
            for pid, _ in children:
                with suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGTERM)
            raise

    def _measure(self, known: Tests, items: list[pytest.Item]) -> None:
        with known.recording() as announce:
            for n, item in enumerate(items):
                announce(item.nodeid)
                start = time.process_time()
                passed = self._passes(item, items[n + 1 : n + 2])
                known.add(item, time.process_time() - start, passed)
                if n % SAVED_EVERY == SAVED_EVERY - 1:
                    known.save()

    def _passes(self, item: pytest.Item, following: list[pytest.Item]) -> bool:
        self._failed = False
        item.config.hook.pytest_runtest_protocol(
            item=item, nextitem=following[0] if following else None
        )
        return not self._failed

    def _try_all(
        self, mutants: list[Mutant], items: dict[str, pytest.Item], known: Tests, live: Live
    ) -> None:
        killers: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for mutant in mutants:
            module, place = self._modules[mutant.module], (mutant.module, mutant.function)
            tests = known.reaching(module.path, mutant.lines) & items.keys()
            folder = mutant.module.split("/")[0]
            chosen = in_order(tests, known.seconds, killers[place], folder)

            attempt = partial(self._attempt, module, mutant, live, [items[test] for test in chosen])
            limits = [GRACE + HANGS * known.seconds[test] for test in chosen]
            outcome, n = _outcome(_fork(partial(attempt, limits))) if chosen else ("survived", 0)
            seen_by = chosen[n - 1] if outcome in SEEN else ""
            killers[place][seen_by] += 1
            self._told(mutant, outcome, seen_by, n)

    def _attempt(
        self,
        module: Module,
        mutant: Mutant,
        live: Live,
        items: list[pytest.Item],
        limits: list[float],
        pipe: int,
    ) -> None:
        """Run tests until one fails, the budget is spent or none is left; write how it went.

        A plus as each test begins, then an exclamation mark for a failure, an equals sign for none,
        a question mark if the mutant could not be made.
        """
        try:
            exchange(module, mutant, live)
        except (LookupError, ValueError):  # ValueError: it no longer needs a name of its class
            os.write(pipe, b"?")
            return
        start = time.process_time()
        for n, item in enumerate(items):
            os.write(pipe, b"+")
            signal.setitimer(signal.ITIMER_PROF, limits[n])
            if not self._passes(item, items[n + 1 : n + 2]):
                os.write(pipe, b"!")
                return
            if time.process_time() - start > self._budget:
                break
        os.write(pipe, b"=")


def _fork(work: Callable[[int], None], *, quiet: bool = True) -> tuple[int, int]:
    """Do some work in a child; returns its process and where its answer can be read."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    try:
        os.setsid()  # a group of its own, to be killed together
        if quiet:
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1)
            os.dup2(silence, 2)
        work(writing)
        os._exit(0)
    finally:  # whatever comes here is an exception that pytest let through
        os._exit(1)


def _outcome(child: tuple[int, int], patience: float = PATIENCE) -> tuple[str, int]:
    """Return how a mutant fared in its process, and the number of tests that began."""
    pid, reading = child
    stop = time.monotonic() + patience
    done, status = os.waitpid(pid, os.WNOHANG)
    while not done and time.monotonic() < stop:
        time.sleep(0.02)
        done, status = os.waitpid(pid, os.WNOHANG)
    if not done:
        os.killpg(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read().decode()
    n = answer.count("+")
    if os.WIFSIGNALED(status):
        hung = os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGKILL)
        return ("timeout" if hung else "crashed"), n
    return {"!": "killed", "=": "survived", "?": "invalid"}.get(answer[-1:], "crashed"), n
