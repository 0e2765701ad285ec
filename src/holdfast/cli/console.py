"""What the commands say, and where: results to the standard output, remarks to the error output."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast import progress
from holdfast.cli.wording import in_options

__all__ = ["bold", "collected_warnings", "fail", "remark", "showing_progress"]


def bold(text: str) -> str:
    """Return the text in bold if the standard output is a terminal that may be coloured."""
    return f"\x1b[1m{text}\x1b[0m" if progress.wants_colour(sys.stdout) else text


def remark(text: str, quiet: bool = False) -> None:
    """Say something beside the result."""
    if not quiet:
        print(text, file=sys.stderr)


def fail(text: str) -> None:
    """Say why it did not work."""
    word = "error:"
    if progress.wants_colour(sys.stderr):
        word = f"\x1b[31m{word}\x1b[0m"
    print(f"holdfast: {word} {text}", file=sys.stderr)


@contextmanager
def showing_progress(quiet: bool) -> Iterator[None]:
    """Show the progress of the enclosed work as a bar."""
    if quiet:
        yield
        return
    with progress.ProgressBar() as bar, progress.listening(bar):
        yield


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect the messages of warnings, each once, instead of printing them at once."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield messages
        finally:
            for warning in caught:
                text = in_options(str(warning.message))
                text = text[:1].upper() + text[1:]
                if text not in messages and not issubclass(
                    warning.category, DeprecationWarning | PendingDeprecationWarning | FutureWarning
                ):
                    messages.append(text)
