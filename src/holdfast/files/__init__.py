"""Models as files that can be kept, sent and opened without trust."""

from holdfast.files.archive import FORMAT_VERSION, Archive, read_archive, write_archive
from holdfast.files.atomic import atomic_write, write_text

__all__ = [
    "FORMAT_VERSION",
    "Archive",
    "atomic_write",
    "read_archive",
    "write_archive",
    "write_text",
]
