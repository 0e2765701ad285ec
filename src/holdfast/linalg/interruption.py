"""Ctrl-C while LAPACK works.

Python hears a signal between two of its own instructions, and a factorisation of a large matrix is
one instruction that takes minutes. So the main thread leaves such a call to another one and waits,
which Ctrl-C can end at once. The call itself cannot be stopped: it goes on behind the scenes, on
memory that nobody else looks at, until it is done or the process ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from holdfast.exceptions import HoldfastWarning, warn

__all__ = ["LONG", "answering"]

#: Size of a matrix from which its factorisation may take seconds; another thread costs 0.1 ms.
LONG = 2000
#: Seconds after which waiting is taken up anew: some systems answer signals only then.
_STEP = 0.5


def answering(work: Callable[[], None]) -> None:
    """Do some work that leaves the interpreter lock alone, and let Ctrl-C end the wait for it.

    Parameters
    ----------
    work : callable
        Keeps all memory that it works on.

    Raises
    ------
    KeyboardInterrupt
        At once on Ctrl-C, after a word about what goes on.
    """
    if threading.current_thread() is not threading.main_thread():
        work()  # signals go to the main thread anyway
        return
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="holdfast-lapack", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_STEP)
    except KeyboardInterrupt:
        warn(
            "interrupted while LAPACK was at work: its last call cannot be stopped, and goes on in "
            "the background until it is done or the process ends.",
            HoldfastWarning,
        )
        raise
    if failed:
        raise failed[0]
