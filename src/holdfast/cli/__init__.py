"""The command ``holdfast``: from a data file to a trustworthy answer without writing code.

`parser` says what may be asked, `specs` and `fitting` turn options and files into a model,
`commands`, `tuning` and `comparing` do what was asked, `columns` speaks of the data, `console`
prints, `wording` puts options beside the library's messages, `planning` explains without fitting.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code (see ``holdfast --help``).

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; by default those of the process.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        # Files are written aside and renamed when whole, so there is nothing to clean up.
        print("\nInterrupted.", file=sys.stderr)
        # CPython forgets an interruption that came inside exec (a dataclass being made, say) only
        # at the next exec, and would end with the signal in the place of the exit code.
        exec("")
        from holdfast.linalg.interruption import INTERRUPTED, end_at_once

        end_at_once()  # unless LAPACK is still at work somewhere, which nothing waits for
        return INTERRUPTED
    except BrokenPipeError:
        # The reader left (`| head`). Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except MemoryError as error:
        from holdfast.cli.console import fail

        told = f" ({error})" if str(error) else ""
        fail(
            f"there is not enough memory{told}. Fewer basis rows (--basis 200), fewer rows or "
            "fewer columns need less."
        )
        return 3
    except Exception as error:
        code = _exit_code(error)
        if code is None:
            raise
        from holdfast.cli.console import fail
        from holdfast.cli.wording import with_options

        fail(with_options(error, _message(error)))
        return code


def _run(arguments: list[str]) -> int:
    from holdfast.cli.parser import build_parser

    parser = build_parser()
    try:
        options = parser.parse_args(arguments)
    except SystemExit as leaving:  # argparse has said what was wrong, or has shown the help
        return int(leaving.code or 0)
    options.argv = arguments
    if options.version:
        from holdfast import __version__

        print(f"holdfast {__version__}")
        return 0
    explains = getattr(options, "explain_columns", False)
    if getattr(options, "target", "") is None and not explains:
        return _usage_error(parser, options.command, "the option --target is required")
    if options.command is None:
        parser.print_help()
        return 2
    return int(_command(options.command)(options))


def _usage_error(parser: Any, command: str, text: str) -> int:
    """Say what is wrong with a command as argparse does, and return its exit code."""
    import argparse

    (found,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    try:
        found.choices[command].error(text)
    except SystemExit as leaving:
        return int(leaving.code or 0)
    return 2


def _command(name: str) -> Any:
    if name == "demo":
        from holdfast.cli.demo import run_demo

        return run_demo
    if name == "tune":
        from holdfast.cli.tuning import run_tune

        return run_tune
    if name == "compare":
        from holdfast.cli.comparing import run_compare

        return run_compare
    if name == "explain":
        from holdfast.cli.planning import run_explain

        return run_explain
    from holdfast.cli import commands

    return getattr(commands, f"run_{name}")


def _exit_code(error: Exception) -> int | None:
    from holdfast.exceptions import (
        FileFormatError,
        HoldfastError,
        MissingDependencyError,
        WriteError,
    )

    if isinstance(error, MissingDependencyError):
        return 4
    if isinstance(error, FileFormatError):
        return 5
    if isinstance(error, WriteError):
        return 6
    if isinstance(error, HoldfastError):
        return 3
    return 6 if isinstance(error, OSError) else None


def _message(error: Exception) -> str | None:
    """Return what to say of an error of the system; None: what it says itself."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}."
    return None
