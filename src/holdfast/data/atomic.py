"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

__all__ = ["atomic_write", "write_text"]


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a binary file that replaces `path` in one step if the block ends without an error.

    Parameters
    ----------
    path : path
        The file to write. Its folder must exist.

    Yields
    ------
    file : binary file
        A temporary file in the same folder.

    Notes
    -----
    The bytes are flushed to the disk before the rename, and the folder after it, so that a
    crash leaves either the old file or the new one. Any exception, Ctrl-C included, removes
    the temporary file and leaves the old one as it was. An existing file keeps its access
    rights; a new one gets the usual rights of a new file.
    """
    # Through a link, so that the link stays and what it points to is replaced.
    target = Path(os.path.realpath(path))
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, _mode_of(target))
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise
    _sync_folder(target.parent)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` as UTF-8 to `path`, whole or not at all."""
    with atomic_write(path) as file:
        file.write(text.encode("utf-8"))


def _mode_of(target: Path) -> int:
    try:
        return target.stat().st_mode & 0o777
    except FileNotFoundError:
        # mkstemp gives 0600; the only portable way to read the umask is to set it.
        mask = os.umask(0o077)
        os.umask(mask)
        return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    # Not every file system can sync a folder (and Windows cannot open one). The rename has
    # happened already; only its surviving a power cut is less certain.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
