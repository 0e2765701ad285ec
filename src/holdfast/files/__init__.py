"""Models as files that can be kept, sent and opened without trust.

`holdfast.data.archive` is the container (a checked zip of JSON and arrays), `codec` the closed list
of types that it may hold, `models` the way of a fitted estimator into it and back (`early`: of the
files of version 0.1.0). Nothing in a file is ever run.
"""

from holdfast.data.archive import FORMAT_VERSION, Archive, read_archive, write_archive
from holdfast.data.atomic import atomic_write, write_text
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
