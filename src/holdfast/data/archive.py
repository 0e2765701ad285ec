"""The container of a `.holdfast` file: named arrays and one JSON document in a zip.

Layout, format version 1
------------------------
A zip archive in which every member is *stored*, never compressed:

``manifest.json``
    UTF-8 JSON with `format` ("holdfast"), `format_version`, `kind` (what the file holds),
    `written_by` (library versions), `content` (the caller's document) and `arrays`
    (for each name: member, sha256 of the member's bytes, and dtype and shape for a reader's eyes).
``arrays/<number>.npy``
    One array each, in NumPy's own format, without pickles.

The zip comment is ``holdfast <format_version> sha256:<digest of manifest.json>``, so that one
digest covers the whole file.

Why not safetensors? It would be one more dependency, has no text arrays (class labels, feature
names) and no place for a nested document. Why not a plain `.npz`? It has no checksum, no
version, and NumPy allocates what a hostile header declares. A file here can be opened with
`unzip` and `numpy.load` when holdfast is long gone.

Safety
------
`read_archive` treats the file as coming from a stranger. Members must be stored, so a declared
size cannot exceed the bytes in the file (no zip bombs); names are compared with the manifest and
never used as paths; each array's header must agree with the number of bytes present *before*
anything is allocated; object arrays do not exist in the format; every digest is checked. Whatever
is wrong raises `FileFormatError`. Checksums find damage, not forgery: a stranger can compute them
too, and the point is that a forged file can do no more than give wrong numbers.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.metadata
import io
import json
import math
import os
import platform
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

import holdfast
from holdfast.data.atomic import atomic_write
from holdfast.data.memory import available_bytes
from holdfast.data.paths import check_path
from holdfast.data.texts import briefly
from holdfast.exceptions import FileFormatError, InvalidInputError

__all__ = [
    "FORMAT_VERSION",
    "HEADER_ERRORS",
    "ZIP_ERRORS",
    "Archive",
    "library_versions",
    "read_archive",
    "write_archive",
]

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
# Numbers, booleans and text; no objects, no structured types, no dates.
_KINDS = frozenset("biufcUS")
_ONLY = "a holdfast file holds numbers, booleans and text only"
# Enough for a million numbers of JSON, far from exhausting memory.
_MAX_MANIFEST_BYTES = 64 * 2**20
# Values in it: a list of empty lists takes thirty times as much memory as text.
_MAX_VALUES = 5_000_000
_MAX_HEADER_BYTES = 10_000
#: What the standard library raises for archives that are damaged, and for members that it cannot
#: read (unknown method, encryption, places outside the file). RecursionError is a RuntimeError.
ZIP_ERRORS = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    OverflowError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    MemoryError,
)
#: What NumPy's header parser lets through for headers that are not one; MemoryError and
#: RecursionError come from deeply nested brackets, TokenError from its Python 2 repair.
HEADER_ERRORS = (
    ValueError,
    SyntaxError,
    TypeError,
    MemoryError,
    RecursionError,
    EOFError,
    tokenize.TokenError,
)


@dataclass(frozen=True)
class Archive:
    """What a `.holdfast` file holds."""

    kind: str  #: What the content describes, for instance a class name
    content: dict[str, Any]  #: The JSON document
    arrays: dict[str, NDArray[Any]]
    written_by: dict[str, str]  #: Versions of the libraries that wrote the file
    checksum: str  #: sha256 of the manifest, which holds that of every array


def library_versions() -> dict[str, str]:
    """Versions of Python, holdfast and the libraries its numbers depend on."""
    versions = {"python": platform.python_version(), "holdfast": holdfast.__version__}
    for name in ("numpy", "scipy", "scikit-learn"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:  # run from a source tree
            versions[name] = "unknown"
    return versions


# --- writing --------------------------------------------------------------------------------------


def write_archive(
    path: str | os.PathLike[str],
    kind: str,
    content: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> str:
    """Write arrays and a JSON document to one file, whole or not at all; return its checksum.

    The arrays hold numbers, booleans or text. An existing file is replaced in one step.
    """
    members = {
        name: (f"arrays/{i}.npy", *_npy(name, array))
        for i, (name, array) in enumerate(arrays.items())
    }
    manifest = {
        "format": "holdfast",
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "written_by": library_versions(),
        "content": dict(content),
        "arrays": {
            name: {
                "member": member,
                "dtype": np.asarray(arrays[name]).dtype.str,
                "shape": list(np.shape(arrays[name])),
                "sha256": _digest(header, data),
            }
            for name, (member, header, data) in members.items()
        },
    }
    try:
        text = json.dumps(manifest, ensure_ascii=False, indent=1, allow_nan=False)
        document = text.encode("utf-8")
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"content cannot be written as JSON: {error}.") from error
    if trouble := _too_much(document):
        raise InvalidInputError(
            f"content {trouble}, and could not be read back. Use arrays in the place of lists."
        )
    digest = _digest(document)
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.comment = _comment(digest)
        _add(archive, MANIFEST, document)
        for member, header, data in members.values():
            _add(archive, member, header, data)
    return digest


def _npy(name: str, array: NDArray[Any]) -> tuple[bytes, memoryview]:
    """Return an array as NumPy would write it, header and data; the data are not copied."""
    array = np.asarray(array)
    if array.dtype.kind not in _KINDS:
        raise InvalidInputError(
            f"array {name!r} has dtype {array.dtype}; {_ONLY}. Convert it first, for instance "
            "with .astype(str)."
        )
    array = np.ascontiguousarray(array).reshape(array.shape)  # which would lift 0-d to 1-d
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, np.lib.format.header_data_from_array_1_0(array))
    data = array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")
    return buffer.getvalue(), data


def _digest(*parts: bytes | memoryview) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _add(archive: zipfile.ZipFile, name: str, *parts: bytes | memoryview) -> None:
    # A fixed date keeps equal content equal to the byte.
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.external_attr = 0o644 << 16
    with archive.open(info, "w", force_zip64=True) as member:
        for part in parts:
            member.write(part)


def _comment(digest: str) -> bytes:
    return f"holdfast {FORMAT_VERSION} sha256:{digest}".encode("ascii")


def _too_much(document: bytes) -> str:
    """Return in words why a manifest is too large to be read, or nothing."""
    if len(document) > _MAX_MANIFEST_BYTES:
        return f"takes {len(document):,} bytes of JSON; at most {_MAX_MANIFEST_BYTES:,} are read"
    values = sum(document.count(mark) for mark in (b",", b"[", b"{"))
    if values > _MAX_VALUES:
        return f"holds about {values:,} values; at most {_MAX_VALUES:,} are read"
    return ""


# --- reading --------------------------------------------------------------------------------------


def read_archive(path: str | os.PathLike[str]) -> Archive:
    """Read and check a file that `write_archive` wrote, or a stranger.

    Raises `FileFormatError` when it is damaged, foreign, or of an unknown version.
    """
    with open(check_path("path", path), "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                return _read(archive)
        except FileFormatError as error:
            raise FileFormatError(f"{os.fspath(path)!s}: {error}") from error
        except ZIP_ERRORS as error:
            if isinstance(error, OSError) and error.errno != errno.EINVAL:
                raise  # the disk, not the file
            raise FileFormatError(
                f"{os.fspath(path)!s} is not a readable holdfast file ({briefly(error)}). It may "
                "be truncated or damaged: copy it again, or save the model again."
            ) from error


def _require(good: object, what: str) -> None:
    if not good:
        raise FileFormatError(what)


def _read(archive: zipfile.ZipFile) -> Archive:
    words = archive.comment[:200].split(b" ")
    known = len(words) == 3 and words[0] == b"holdfast" and words[1].isdigit()
    _require(known, "it is a zip archive, but not a holdfast file.")
    _require(
        int(words[1]) == FORMAT_VERSION,
        f"it has format version {int(words[1])}; this holdfast reads version {FORMAT_VERSION}. "
        "Upgrade holdfast, or save the model again with this version.",
    )
    members = _checked_members(archive)
    _require(MANIFEST in members, f"it has no {MANIFEST}: it is not a holdfast file.")
    size = members[MANIFEST].file_size
    _require(size <= _MAX_MANIFEST_BYTES, f"the manifest takes {size:,} bytes, which is too much.")
    document = archive.read(MANIFEST)
    if trouble := _too_much(document):
        raise FileFormatError(f"the manifest {trouble}.")
    digest = _digest(document)
    right = archive.comment == _comment(digest)
    _require(right, "the checksum of the manifest is wrong; it was changed.")
    manifest = _parsed(document)
    entries = manifest["arrays"]
    listed = {MANIFEST, *(entry["member"] for entry in entries.values())}
    fits = listed == set(members) and len(listed) == len(entries) + 1
    _require(fits, "the members of the file are not those the manifest lists.")
    arrays = {}
    for name, entry in entries.items():
        data = _bytes_of(archive, members[entry["member"]])
        _require(_digest(data.data) == entry["sha256"], f"the checksum of array {name!r} is wrong.")
        arrays[name] = _array(data, name)
    kind, content, written_by = (manifest[key] for key in ("kind", "content", "written_by"))
    return Archive(kind, content, arrays, written_by, digest)


def _checked_members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the members of a file, none of which can take more memory than the file itself."""
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        _require(info.filename not in members, f"the member {info.filename!r} occurs twice.")
        _require(
            info.compress_type == zipfile.ZIP_STORED and info.compress_size == info.file_size,
            f"the member {info.filename!r} is compressed; holdfast stores its members as they "
            "are, so that none is larger than the file.",
        )
        members[info.filename] = info
    size = os.fstat(cast("IO[bytes]", archive.fp).fileno()).st_size
    total = sum(info.file_size for info in members.values())
    _require(total <= size, f"the members declare {total:,} bytes, the file has {size:,}.")
    free = available_bytes()
    _require(total <= free, f"the model takes {total:,} bytes; {free:,.0f} are free.")
    return members


def _parsed(document: bytes) -> dict[str, Any]:
    """Return the manifest, whose parts are of the kinds that they should be."""
    try:
        manifest = json.loads(document.decode("utf-8"))
    except ValueError as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise FileFormatError(f"the manifest is not JSON ({error}).") from error
    kinds = {"kind": str, "written_by": dict, "content": dict, "arrays": dict}
    good = isinstance(manifest, dict)
    good = good and all(type(manifest.get(key)) is kind for key, kind in kinds.items())
    _require(good, f"the manifest lacks one of {', '.join(kinds)}.")
    format, version = manifest.get("format"), manifest.get("format_version")
    _require(
        format == "holdfast" and version == FORMAT_VERSION,
        f"the manifest is of format {format!r}, version {version!r}; expected holdfast, version "
        f"{FORMAT_VERSION}.",
    )
    for name, entry in manifest["arrays"].items():
        good = isinstance(entry, dict)
        good = good and all(type(entry.get(key)) is str for key in ("member", "sha256"))
        _require(good, f"the manifest's entry of array {name!r} is malformed.")
    return cast("dict[str, Any]", manifest)


def _bytes_of(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[np.uint8]:
    # file_size is at most the size of the file on the disk (_checked_members).
    data = np.empty(info.file_size, np.uint8)
    with archive.open(info) as member:
        view, filled = data.data, 0
        while filled < data.size:
            step = member.readinto(view[filled:])  # type: ignore[attr-defined]  # BufferedIOBase
            if not step:
                raise EOFError(f"{info.filename} ends early")
            filled += step
        member.read(1)  # at the end zipfile compares the CRC
    return data


def _array(data: NDArray[np.uint8], name: str) -> NDArray[Any]:
    """Return the array that the bytes of a .npy file hold, if they are as many as it declares."""
    # Magic, version and length come before the header itself.
    buffer = io.BytesIO(data[: _MAX_HEADER_BYTES + 16].tobytes())
    try:
        if np.lib.format.read_magic(buffer) != (1, 0):
            raise ValueError("version")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(
            buffer, max_header_size=_MAX_HEADER_BYTES
        )
    except HEADER_ERRORS as error:
        raise FileFormatError(f"the header of array {name!r} is malformed.") from error
    usable = dtype.kind in _KINDS and dtype.itemsize and not dtype.shape and not fortran
    _require(usable, f"array {name!r} has dtype {dtype}; {_ONLY}.")
    data = data[buffer.tell() :]
    # Python integers: a declared shape cannot overflow, and nothing is allocated before this.
    expected = math.prod(shape) * dtype.itemsize
    _require(
        expected == data.size,
        f"array {name!r} declares shape {shape}, {expected:,} bytes; {data.size:,} are there.",
    )
    try:
        array = data.view(dtype).reshape(shape)
    except (ValueError, OverflowError) as error:  # such as (0, 2**70)
        raise FileFormatError(f"array {name!r} cannot have shape {shape}.") from error
    # Bytes that are no value of their type would make trouble later and elsewhere.
    truths = dtype.kind != "b" or not data.size or data.max() <= 1
    _require(truths, f"array {name!r} has boolean values other than 0 and 1.")
    if dtype.kind == "U" and data.size:
        points = data.view(np.dtype("u4").newbyteorder(dtype.byteorder))
        _require(points.max() <= 0x10FFFF, f"array {name!r} has characters outside Unicode.")
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))
