"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from holdfast.data.paths import check_path
from holdfast.exceptions import WriteError

__all__ = ["atomic_write", "write_text"]

#: Bytes of a file for a device that are kept in memory until they are whole.
_SPOOLED = 2**24
#: Seconds without a change after which a temporary file is no longer being written.
STALE = 24 * 3600.0
#: Names that stand for open streams of the process: what is behind them is not ours to replace.
_STREAMS = ("/dev/", "/proc/")


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a binary file that replaces `path` in one step if the block ends without an error.

    `WriteError` says why a file cannot be written there: no folder, no right, no room. The bytes
    are flushed to the disk before the rename, and the folder after it, so that a crash leaves
    either the old file or the new one (and at worst a file `.holdfast-….part`, which is never read
    and which a later write removes after a day). Any exception, Ctrl-C included, removes the
    temporary file and leaves the old one as it was. An existing file keeps its access rights; a new
    one gets those the process would give any new file. A pipe, a device or a stream of the process
    cannot be replaced: the bytes are written into it, once they are all there.
    """
    name = check_path("path", path)
    if _is_stream(name):
        with _into(name) as spool:
            yield spool
        return
    # Through a link, so that the link stays and what it points to is replaced.
    target = Path(os.path.realpath(name))
    if os.path.isdir(target):
        raise WriteError(
            f"cannot write {name}: it is a folder. Name a file in it.", argument="path"
        )
    if not target.parent.is_dir():
        raise WriteError(
            f"cannot write {name}: there is no folder {str(target.parent)!r}. Make it first.",
            argument="path",
        )
    _remove_stale(target.parent)
    with _told(name):
        # Not named after the target, whose name may be as long as names can be.
        handle, part = tempfile.mkstemp(dir=target.parent, prefix=".holdfast-", suffix=".part")
    try:
        with _told(name):
            with os.fdopen(handle, "w+b") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.chmod(part, _mode_of(target))
            os.replace(part, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        raise
    _sync_folder(target.parent)


def _remove_stale(folder: Path) -> None:
    """Remove what killed processes left behind: parts not written to for a day."""
    with contextlib.suppress(OSError):
        for part in folder.glob(".holdfast-*.part"):
            with contextlib.suppress(OSError):
                if time.time() - part.stat().st_mtime > STALE:
                    part.unlink()


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` as UTF-8 to `path`, whole or not at all."""
    with atomic_write(path) as file:
        file.write(text.encode("utf-8"))


def _is_stream(name: str) -> bool:
    if os.path.abspath(name).startswith(_STREAMS):
        return os.path.exists(name) and not os.path.isdir(name)
    try:
        mode = os.stat(name).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextmanager
def _into(name: str) -> Iterator[IO[bytes]]:
    """Yield a file whose bytes go into a pipe or device when the block ends well."""
    with tempfile.SpooledTemporaryFile(_SPOOLED) as spool:
        yield cast("IO[bytes]", spool)
        spool.seek(0)
        # At the end, where the standard output was sent to a file that had something in it.
        with _told(name), os.fdopen(os.open(name, os.O_WRONLY | os.O_APPEND), "wb") as stream:
            shutil.copyfileobj(spool, stream)


@contextmanager
def _told(name: str) -> Iterator[None]:
    """Raise what the system says about a file being written, with the name that was asked for."""
    try:
        yield
    except (WriteError, BrokenPipeError):
        raise
    except OSError as error:
        if error.errno is None:  # not the system: the code that fills the file
            raise
        told = WriteError(
            f"cannot write {name}: {error.strerror}. What was there before is still there.",
            argument="path",
        )
        told.errno = error.errno
        raise told from error


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
