"""Ctrl-C while LAPACK works.

Python hears a signal between two of its own instructions, and a factorisation of a large matrix is
one instruction that takes minutes. So the main thread leaves such a call to another one and waits,
which Ctrl-C, or any signal handler that raises, can end at once. The call itself cannot be stopped:
it goes on behind the scenes, on memory that nothing else uses, until it is done or the process
ends. A process that ended while a thread is inside OpenBLAS would crash or hang, so at exit what is
left is waited for, or, where Ctrl-C ended the program, the process ends without further ado.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable

from holdfast.exceptions import HoldfastWarning, warn

__all__ = ["LONG", "answering", "end_at_once"]

#: Size of a matrix from which its factorisation may take seconds; another thread costs 0.1 ms.
LONG = 2000
#: Seconds after which waiting is taken up again: some systems answer signals only then.
_STEP = 0.5
#: What a shell expects of a program that Ctrl-C has ended.
INTERRUPTED = 130

#: Calls that nothing waits for any more; set when they are done. (A thread whose `join` was
#: interrupted is not asked: CPython then takes it for ended.)
_left_behind: list[threading.Event] = []


def answering(work: Callable[[], None]) -> None:
    """Do some work that leaves the interpreter lock alone, and let Ctrl-C end the wait for it.

    Parameters
    ----------
    work : callable
        Keeps all memory that it works on.

    Raises
    ------
    KeyboardInterrupt
        At once on Ctrl-C, after a warning about the call that continues; likewise whatever a signal
        handler raises.
    """
    if threading.current_thread() is not threading.main_thread():
        work()  # signals go to the main thread anyway
        return
    failed: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()

    try:
        threading.Thread(target=run, name="holdfast-lapack", daemon=True).start()
        while not done.wait(_STEP):
            pass
    except BaseException:
        if not done.is_set():
            if not _left_behind:
                atexit.register(_leave)
            _left_behind.append(done)
            warn(
                "interrupted while LAPACK was at work: its last call cannot be stopped, and goes "
                "on in the background until it is done or the process ends.",
                HoldfastWarning,
            )
        raise
    if failed:
        raise failed[0]


def _leave() -> None:
    """End the process if Ctrl-C has ended the program; else wait for what is left behind."""
    if getattr(sys, "last_type", None) is KeyboardInterrupt:
        end_at_once()
    for done in _left_behind:
        done.wait()


def end_at_once(code: int = INTERRUPTED) -> None:
    """End the process without waiting for calls that were left behind; return if there are none."""
    if not all(done.is_set() for done in _left_behind):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)
