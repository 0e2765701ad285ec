"""Progress of long work: reports that anyone can listen to, and a bar or lines that show them.

The library calls `report(done, total, text)` wherever work has countable steps. ``verbose=1`` of an
estimator shows the reports; `listening` sends those of a block of code to any callable:

>>> from holdfast.progress import listening
>>> with listening(lambda done, total, text: None):
...     pass  # model.fit(X, y)
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeAlias, TypeVar, cast

__all__ = ["Counter", "Progress", "ProgressBar", "listening", "report", "showing", "shows_progress"]

#: Called with the steps done, the steps in all (0: unknown), and what is being done.
Progress: TypeAlias = Callable[[int, int, str], None]
F = TypeVar("F", bound=Callable[..., Any])

#: Seconds before the first sign of some work, and between lines where there is no bar.
DELAY, BETWEEN = 1.0, 5.0

_listener: ContextVar[Progress | None] = ContextVar("holdfast_progress", default=None)


def report(done: int, total: int, text: str) -> None:
    """Tell the current listener, if there is one, how far the work is."""
    listener = _listener.get()
    if listener is not None:
        listener(done, total, text)


class Counter:
    """Steps of work that several threads do, reported as they add up."""

    def __init__(self, total: int, text: str) -> None:
        self._done, self._total, self._text = 0, total, text
        self._lock, self._listener = threading.Lock(), _listener.get()

    def add(self, steps: int) -> None:
        """Report that more steps are done."""
        if self._listener is not None:
            with self._lock:
                self._done += steps
                self._listener(self._done, self._total, self._text)


@contextmanager
def listening(listener: Progress | None) -> Iterator[None]:
    """Send the reports of the enclosed code to `listener` (None: nowhere)."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def showing(verbose: int) -> Iterator[None]:
    """Show the progress of the enclosed code if asked to, unless someone listens already."""
    if not verbose or _listener.get() is not None:
        yield
        return
    with ProgressBar() as bar, listening(bar):
        yield


def shows_progress(method: F) -> F:
    """Return a method that shows its progress where its object has a `verbose` that asks for it."""

    @wraps(method)
    def shown(self: Any, *args: Any, **kwargs: Any) -> Any:
        verbose = getattr(self, "verbose", 0)
        if not verbose:
            return method(self, *args, **kwargs)
        with showing(verbose):
            return method(self, *args, **kwargs)

    return cast(F, shown)


class ProgressBar:
    """Bars of tqdm on the standard error; lines, one in five seconds, where it is not installed."""

    def __init__(self, delay: float = DELAY) -> None:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            tqdm = None
        self._bar: Any = tqdm
        self._bars: dict[str, Any] = {}
        self._delay, self._next = delay, time.monotonic() + delay

    def __call__(self, done: int, total: int, text: str) -> None:
        """Show how far the work is."""
        if self._bar is None:
            self._line(done, total, text)
            return
        if text not in self._bars:
            self._bars[text] = self._bar(
                total=total or None, desc=text, delay=self._delay, leave=False
            )
        bar = self._bars[text]
        bar.total = total or None
        bar.update(done - bar.n)
        if total and done >= total:
            self._bars.pop(text).close()

    def _line(self, done: int, total: int, text: str) -> None:
        if time.monotonic() >= self._next:
            counted = f"{done:,} of {total:,}" if total else f"{done:,}"
            print(f"{text}: {counted}", file=sys.stderr, flush=True)
            self._next = time.monotonic() + BETWEEN

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        for bar in self._bars.values():
            bar.close()
        self._bars.clear()
