"""Progress of long work: a callback anyone can listen to, and a bar for terminals.

The library calls `report(done, total, text)` wherever work has countable steps. Without a listener
this costs one dictionary look-up. A listener is any callable with that signature; it is installed
for a block of code with `listening`:

>>> from holdfast.progress import listening
>>> with listening(lambda done, total, text: None):
...     pass  # model.fit(X, y)

The listener lives in a context variable, so threads and asynchronous tasks that copy their
context inherit it and two fits side by side do not mix their bars.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Protocol, TextIO

__all__ = [
    "Counter",
    "Progress",
    "ProgressBar",
    "ProgressLines",
    "duration",
    "listening",
    "report",
    "wants_colour",
]


class Progress(Protocol):
    """A listener: called with the steps done, the total steps (0: unknown) and what is done."""

    def __call__(self, done: int, total: int, text: str) -> None:
        """Take note of the progress."""


_listener: ContextVar[Progress | None] = ContextVar("holdfast_progress", default=None)


def report(done: int, total: int, text: str) -> None:
    """Tell the current listener, if there is one, how far the work is.

    Parameters
    ----------
    done : int
        Steps finished.
    total : int
        Steps in all; 0 when unknown.
    text : str
        What is being done, in a few words.
    """
    listener = _listener.get()
    if listener is not None:
        listener(done, total, text)


class Counter:
    """Steps of work that several threads do, reported as they add up.

    Parameters
    ----------
    total : int
        Steps in all.
    text : str
        What is being done.
    """

    def __init__(self, total: int, text: str) -> None:
        self._done, self._total, self._text = 0, total, text
        self._lock, self._listener = threading.Lock(), _listener.get()

    def add(self, steps: int) -> None:
        """Report that more steps are done."""
        if self._listener is None:
            return
        with self._lock:
            self._done += steps
            self._listener(self._done, self._total, self._text)


@contextmanager
def listening(listener: Progress | None) -> Iterator[None]:
    """Send the progress reports of the enclosed code to `listener` (None: nowhere)."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def wants_colour(stream: TextIO) -> bool:
    """Whether colour codes may be written to `stream`: a capable terminal and no NO_COLOR."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


class ProgressBar:
    """A one-line bar with rate and remaining time, for work that takes over a second.

    Parameters
    ----------
    stream : text stream, default sys.stderr
        Where the bar is drawn. Nothing is written unless it is a terminal.
    delay : float, default 1.0
        Seconds of work before the bar appears.
    interval : float, default 0.1
        Least number of seconds between two drawings.
    clock : callable, default time.monotonic
        Gives the time in seconds.

    Notes
    -----
    Used as a context manager, it removes itself from the screen at the end, even after an
    exception, so that the text that follows starts on a clean line.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        delay: float = 1.0,
        interval: float = 0.1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.delay = delay
        self.interval = interval
        self.clock = clock
        self.active = self.stream.isatty()
        self._text: str | None = None
        self._started = 0.0
        self._drawn_at = -float("inf")
        self._on_screen = False

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __call__(self, done: int, total: int, text: str) -> None:
        """Draw the bar if it is due."""
        if not self.active:
            return
        now = self.clock()
        if text != self._text or done == 0:
            # A new piece of work: its rate has nothing to do with the last one's.
            self._text, self._started = text, now
        elapsed = now - self._started
        due = elapsed >= self.delay and now - self._drawn_at >= self.interval
        if due or (self._on_screen and total and done >= total):
            self._draw(done, total, elapsed)
            self._drawn_at = now

    def close(self) -> None:
        """Remove the bar from the screen."""
        if self._on_screen:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
            self._on_screen = False

    def _draw(self, done: int, total: int, elapsed: float) -> None:
        columns = shutil.get_terminal_size((80, 24)).columns
        line = bar_line(self._text or "", done, total, elapsed, columns - 1)
        if wants_colour(self.stream):
            line = line.replace("█", "\x1b[36m█", 1).replace("▏ ", "\x1b[0m▏ ", 1)
        self.stream.write(f"\r\x1b[K{line}")
        self.stream.flush()
        self._on_screen = True


class ProgressLines:
    """An occasional line on what is being done, for output that is not a terminal.

    Parameters
    ----------
    stream : text stream, default sys.stderr
    delay : float, default 3.0
        Seconds before the first line.
    interval : float, default 10.0
        Seconds between lines.

    Notes
    -----
    A separate thread writes, so that work without countable steps is reported too.
    """

    def __init__(
        self, stream: TextIO | None = None, *, delay: float = 3.0, interval: float = 10.0
    ) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.delay, self.interval = delay, interval
        self._state, self._ended = (0, 0, ""), threading.Event()
        self._thread = threading.Thread(target=self._speak, daemon=True)

    def __enter__(self) -> ProgressLines:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def __call__(self, done: int, total: int, text: str) -> None:
        """Take note of the progress."""
        self._state = (done, total, text)

    def _speak(self) -> None:
        started, wait = time.monotonic(), self.delay
        while not self._ended.wait(wait):
            done, total, text = self._state
            share = f" {min(done / total, 1.0):.0%}" if total else ""
            if text:
                passed = duration(time.monotonic() - started)
                print(f"{text}{share} ({passed})", file=self.stream, flush=True)
            wait = self.interval


def bar_line(text: str, done: int, total: int, elapsed: float, width: int) -> str:
    """One line of at most `width` characters: text, bar, share, rate, remaining time."""
    rate = done / elapsed if elapsed > 0 else 0.0
    if total <= 0:
        return f"{text}: {done:,} ({_rate(rate)})"[:width]
    share = min(max(done / total, 0.0), 1.0)
    left = duration((total - done) / rate) if rate > 0 else "?"
    tail = f"▏ {share:4.0%}  {_rate(rate)}  {left} left"
    room = width - len(text) - len(tail) - 2
    if room < 5:
        return f"{text} {tail[2:].strip()}"[:width]
    room = min(room, 40)
    filled = round(share * room)
    return f"{text} {'█' * filled}{'░' * (room - filled)}{tail}"


def _rate(rate: float) -> str:
    if rate <= 0:
        return "–"
    return f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s"


def duration(seconds: float) -> str:
    """Return a length of time in words."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
