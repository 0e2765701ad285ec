"""What the commands say, and where: results to the standard output, remarks to the error output."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdfast import progress
from holdfast.cli.wording import with_options

if TYPE_CHECKING:
    from holdfast.report.blocks import Block

__all__ = ["bold", "collected_warnings", "fail", "remark", "say", "showing_progress"]

_OF_DEVELOPERS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)


def bold(text: str) -> str:
    """Return the text in bold if the standard output is a terminal that may be coloured."""
    return f"\x1b[1m{text}\x1b[0m" if progress.wants_colour(sys.stdout) else text


def say(*told: Block | str) -> None:
    """Print the result of a command: blocks of a report, and lines of text."""
    from holdfast.report.blocks import Text
    from holdfast.report.terminal import terminal

    blocks = [Text(item) if isinstance(item, str) else item for item in told]
    print(terminal(blocks, colour=progress.wants_colour(sys.stdout)), flush=True)


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
    """Show the progress of the enclosed work as a bar, or as lines where there is no terminal."""
    if quiet:
        yield
        return
    shown = progress.ProgressBar if sys.stderr.isatty() else progress.ProgressLines
    with shown() as listener, progress.listening(listener):
        yield


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect the messages of warnings, each once and as they come, instead of printing them."""
    messages: list[str] = []

    def collect(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = with_options(message) if isinstance(message, Warning) else message
        text = text[:1].upper() + text[1:]
        if text not in messages and not issubclass(category, _OF_DEVELOPERS):
            messages.append(text)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = collect
        yield messages
