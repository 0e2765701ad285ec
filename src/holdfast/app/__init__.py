"""The command ``holdfast``: a table in, an answer out.

It stands on what people already use, all in the extra ``app``: pandas and pyarrow read, skrub
encodes text and dates, matplotlib draws, jinja2 makes the page, tqdm shows progress, skops keeps
models. Of holdfast it uses public names only.

| module | does |
|---|---|
| `command` | options, commands, exit codes |
| `reading` | a file as typed columns |
| `columns` | which column is the target, which are used, and what makes an answer doubtful |
| `fitting` | fits within a time budget; what each doubt does to the score |
| `findings` | the answer in words, once, for terminal, page and JSON |
| `page` | the page, with the library's own displays |
| `model_file` | models in files that may be opened without trust |
| `demo` | a study where single held-out rows mislead |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command ``holdfast`` and return its exit code.

    0: answered; 2: the command line asks for something impossible; 3: the data cannot be used;
    130: interrupted.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the process by default.

    Examples
    --------
    >>> from holdfast.app import main
    >>> main(["cv", "no_such_file.csv", "--target", "y"])
    2
    """
    if argv is None:  # the command itself, not a call from Python
        import signal

        signal.signal(signal.SIGINT, _interrupted)
    from holdfast.app.command import run

    return run(argv)


def _interrupted(number: int, frame: object) -> NoReturn:
    """End the process. A library could swallow an exception, or make it one of its own."""
    import os

    os.write(2, b"\nInterrupted.\n" if os.isatty(2) else b"Interrupted.\n")
    os._exit(130)
