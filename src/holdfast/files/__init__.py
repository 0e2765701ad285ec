"""Models as files that can be kept, sent and opened without trust."""

from holdfast.data.atomic import atomic_write, write_text
from holdfast.files.archive import FORMAT_VERSION, Archive, read_archive, write_archive
from holdfast.files.models import load, load_with_extras, save

__all__ = [
    "FORMAT_VERSION",
    "Archive",
    "atomic_write",
    "load",
    "load_with_extras",
    "read_archive",
    "save",
    "write_archive",
    "write_text",
]
