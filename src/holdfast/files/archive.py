"""The container of a `.holdfast` file: named arrays and one JSON document in a zip.

Layout, format version 1
------------------------
A zip archive in which every member is *stored*, never compressed:

``manifest.json``
    UTF-8 JSON with `format` ("holdfast"), `format_version`, `kind` (what the file holds),
    `written_by` (library versions), `content` (the caller's document) and `arrays`
    (for each name: member, dtype, shape, sha256 of the member's bytes).
``arrays/<number>.npy``
    One array each, in NumPy's own format, without pickles.

The zip comment is ``holdfast <format_version> sha256:<digest of manifest.json>``, so that one
digest vouches for the whole file.

Why not safetensors? It would be one more dependency, has no text arrays (class labels, feature
names) and no place for a nested document. Why not a plain `.npz`? It has no checksum, no
version, and NumPy allocates what a hostile header declares. A file here can be opened with
`unzip` and `numpy.load` when holdfast is long gone.

Safety
------
`read_archive` treats the file as coming from a stranger. Members must be stored, so a declared
size cannot exceed the bytes in the file (no zip bombs); names are compared with the manifest and
never used as paths; each array's header must agree with the manifest and with the number of
bytes present *before* anything is allocated; object arrays do not exist in the format; every
digest is checked. Whatever is wrong raises `FileFormatError`. Checksums find damage, not
forgery: a stranger can compute them too, and the point is that a forged file can do no more than
give wrong numbers.
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
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from holdfast.data.atomic import atomic_write
from holdfast.data.memory import available_bytes
from holdfast.data.npz import HEADER_ERRORS, MAX_HEADER_BYTES, ZIP_ERRORS
from holdfast.data.paths import check_path
from holdfast.exceptions import FileFormatError, InvalidInputError

__all__ = ["FORMAT_VERSION", "Archive", "read_archive", "write_archive"]

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
# Numbers, booleans and text; no objects, no structured types, no dates.
_KINDS = frozenset("biufcUS")
# Enough for a million numbers of JSON, far from exhausting memory.
_MAX_MANIFEST_BYTES = 64 * 2**20
# Values in it: a list of empty lists takes thirty times as much memory as text.
_MAX_VALUES = 5_000_000
_MAX_DIMENSIONS = 32


@dataclass(frozen=True)
class Archive:
    """What a `.holdfast` file holds.

    Attributes
    ----------
    kind : str
        What the content describes, for instance a class name.
    content : dict
        The JSON document.
    arrays : dict of ndarray
        The arrays by name.
    written_by : dict of str
        Versions of the libraries that wrote the file.
    checksum : str
        sha256 of the manifest, which holds that of every array.
    """

    kind: str
    content: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    written_by: dict[str, str]
    checksum: str


def write_archive(
    path: str | os.PathLike[str],
    kind: str,
    content: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> str:
    """Write arrays and a JSON document to one file, whole or not at all; returns its checksum.

    Parameters
    ----------
    path : path
        Where to write. An existing file is replaced in one step.
    kind : str
        What the content describes.
    content : mapping
        A document of JSON's types.
    arrays : mapping of str to ndarray
        Arrays of numbers, booleans or text.
    """
    prepared = {name: _storable(name, array) for name, array in arrays.items()}
    headers = {name: _npy_header(array) for name, array in prepared.items()}
    members = {name: f"arrays/{i}.npy" for i, name in enumerate(prepared)}
    manifest = {
        "format": "holdfast",
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "written_by": library_versions(),
        "content": dict(content),
        "arrays": {
            name: {
                "member": members[name],
                "dtype": array.dtype.str,
                "shape": list(array.shape),
                "sha256": _digest(headers[name], _bytes_of(array)),
            }
            for name, array in prepared.items()
        },
    }
    try:
        text = json.dumps(manifest, ensure_ascii=False, indent=1, allow_nan=False)
        document = text.encode("utf-8")
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"content cannot be written as JSON: {error}.") from error
    trouble = _too_much(document)
    if trouble:
        raise InvalidInputError(
            f"content {trouble}, and could not be read back. Use arrays in the place of lists."
        )
    digest = _digest(document)
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.comment = _comment(digest)
        _add(archive, MANIFEST, document)
        for name, array in prepared.items():
            _add(archive, members[name], headers[name], _bytes_of(array))
    return digest


def read_archive(path: str | os.PathLike[str]) -> Archive:
    """Read and check a file that `write_archive` wrote.

    Parameters
    ----------
    path : path
        The file, possibly from a stranger.

    Raises
    ------
    FileFormatError
        When the file is damaged, foreign, or of an unknown version.
    """
    with open(check_path("path", path), "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                return _read(archive, os.fspath(path))
        except FileFormatError:
            raise
        except ZIP_ERRORS as error:
            if isinstance(error, OSError) and error.errno != errno.EINVAL:
                raise  # the disk, not the file
            raise FileFormatError(
                f"{os.fspath(path)!s} is not a readable holdfast file ({error}). It may be "
                "truncated or damaged: copy it again, or save the model again."
            ) from error


def library_versions() -> dict[str, str]:
    """Versions of Python, holdfast and the libraries its numbers depend on."""
    names = ("holdfast", "numpy", "scipy", "scikit-learn")
    versions = {"python": platform.python_version()}
    for name in names:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:  # run from a source tree
            versions[name] = "unknown"
    return versions


def _too_much(document: bytes) -> str:
    """Return in words why a manifest is too large to be read, or nothing."""
    if len(document) > _MAX_MANIFEST_BYTES:
        return f"takes {len(document):,} bytes of JSON; at most {_MAX_MANIFEST_BYTES:,} are read"
    values = sum(document.count(mark) for mark in (b",", b"[", b"{"))
    if values > _MAX_VALUES:
        return f"holds about {values:,} values; at most {_MAX_VALUES:,} are read"
    return ""


def _storable(name: str, array: NDArray[Any]) -> NDArray[Any]:
    array = np.asarray(array)
    if array.dtype.kind not in _KINDS:
        raise InvalidInputError(
            f"array {name!r} has dtype {array.dtype}; a holdfast file holds numbers, booleans "
            "and text only. Convert it first, for instance with .astype(str)."
        )
    return np.ascontiguousarray(array).reshape(array.shape)  # which would lift 0-d to 1-d


def _npy_header(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, np.lib.format.header_data_from_array_1_0(array))
    return buffer.getvalue()


def _bytes_of(array: NDArray[Any]) -> memoryview:
    # A view, so that a large model is not copied in memory to be written.
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


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


def _read(archive: zipfile.ZipFile, path: str) -> Archive:
    _check_version_in_comment(archive.comment, path)
    members = _checked_members(archive, path)
    if MANIFEST not in members:
        raise FileFormatError(f"{path} has no {MANIFEST}: it is not a holdfast file.")
    if members[MANIFEST].file_size > _MAX_MANIFEST_BYTES:
        raise FileFormatError(
            f"{path}: the manifest is {members[MANIFEST].file_size:,} bytes long; at most "
            f"{_MAX_MANIFEST_BYTES:,} are read."
        )
    document = archive.read(MANIFEST)
    trouble = _too_much(document)
    if trouble:
        raise FileFormatError(f"{path}: the manifest {trouble}.")
    digest = _digest(document)
    if archive.comment != _comment(digest):
        raise FileFormatError(f"{path}: the checksum of the manifest is wrong; it was changed.")
    manifest = _parse_manifest(document, path)
    entries = manifest["arrays"]
    listed = {MANIFEST, *(entry["member"] for entry in entries.values())}
    if listed != set(members) or len(listed) != len(entries) + 1:
        raise FileFormatError(f"{path}: the members of the file are not those the manifest lists.")
    arrays = {
        name: _read_array(_member_bytes(archive, members[entry["member"]]), name, entry, path)
        for name, entry in entries.items()
    }
    return Archive(
        kind=manifest["kind"],
        content=manifest["content"],
        arrays=arrays,
        written_by=manifest["written_by"],
        checksum=digest,
    )


def _check_version_in_comment(comment: bytes, path: str) -> None:
    words = comment[:200].split(b" ")
    if len(words) != 3 or words[0] != b"holdfast" or not words[1].isdigit():
        raise FileFormatError(f"{path} is a zip archive, but not a holdfast file.")
    version = int(words[1])
    if version != FORMAT_VERSION:
        raise FileFormatError(
            f"{path} has format version {version}; this holdfast reads version {FORMAT_VERSION}. "
            "Upgrade holdfast, or save the model again with this version."
        )


def _checked_members(archive: zipfile.ZipFile, path: str) -> dict[str, zipfile.ZipInfo]:
    members: dict[str, zipfile.ZipInfo] = {}
    file = cast("IO[bytes]", archive.fp)
    size = os.fstat(file.fileno()).st_size
    total = 0
    for info in archive.infolist():
        if info.filename in members:
            raise FileFormatError(f"{path}: the member {info.filename!r} occurs twice.")
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            raise FileFormatError(
                f"{path}: the member {info.filename!r} is compressed; holdfast stores its "
                "members as they are, so that none is larger than the file."
            )
        total += info.file_size
        members[info.filename] = info
    if total > size:
        raise FileFormatError(
            f"{path}: the members declare {total:,} bytes, the file has {size:,}."
        )
    if total > available_bytes():
        raise FileFormatError(
            f"{path}: the model takes {total:,} bytes; {available_bytes():,.0f} are free."
        )
    return members


def _parse_manifest(document: bytes, path: str) -> dict[str, Any]:
    try:
        manifest = json.loads(document.decode("utf-8"))
    except ValueError as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise FileFormatError(f"{path}: the manifest is not JSON ({error}).") from error
    shapes = {
        "format": str,
        "format_version": int,
        "kind": str,
        "written_by": dict,
        "content": dict,
        "arrays": dict,
    }
    if not isinstance(manifest, dict) or any(
        type(manifest.get(key)) is not kind for key, kind in shapes.items()
    ):
        raise FileFormatError(f"{path}: the manifest lacks one of {', '.join(shapes)}.")
    if manifest["format"] != "holdfast" or manifest["format_version"] != FORMAT_VERSION:
        raise FileFormatError(
            f"{path}: the manifest is of format {manifest['format']!r}, version "
            f"{manifest['format_version']}; expected holdfast, version {FORMAT_VERSION}."
        )
    for name, entry in manifest["arrays"].items():
        if not (
            isinstance(entry, dict)
            and all(type(entry.get(key)) is str for key in ("member", "dtype", "sha256"))
            and type(entry.get("shape")) is list
            and all(type(n) is int and n >= 0 for n in entry["shape"])
            and len(entry["shape"]) <= _MAX_DIMENSIONS
        ):
            raise FileFormatError(f"{path}: the manifest's entry of array {name!r} is malformed.")
    return cast("dict[str, Any]", manifest)


def _member_bytes(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[np.uint8]:
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


def _read_array(
    data: NDArray[np.uint8], name: str, entry: Mapping[str, Any], path: str
) -> NDArray[Any]:
    if _digest(data.data) != entry["sha256"]:
        raise FileFormatError(f"{path}: the checksum of array {name!r} is wrong.")
    # Magic, version and length come before the header itself.
    buffer = io.BytesIO(data[: MAX_HEADER_BYTES + 16].tobytes())
    try:
        if np.lib.format.read_magic(buffer) != (1, 0):
            raise ValueError("version")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(
            buffer, max_header_size=MAX_HEADER_BYTES
        )
    except HEADER_ERRORS as error:
        raise FileFormatError(f"{path}: the header of array {name!r} is malformed.") from error
    if dtype.kind not in _KINDS or dtype.itemsize == 0 or dtype.shape:
        raise FileFormatError(
            f"{path}: array {name!r} has dtype {dtype}; a holdfast file holds numbers, booleans "
            "and text only."
        )
    if fortran or dtype.str != entry["dtype"] or list(shape) != entry["shape"]:
        raise FileFormatError(f"{path}: the header of array {name!r} contradicts the manifest.")
    # Python integers: a declared shape cannot overflow, and nothing is allocated before this.
    expected, present = math.prod(shape) * dtype.itemsize, data.size - buffer.tell()
    if expected != present:
        raise FileFormatError(
            f"{path}: array {name!r} declares shape {tuple(shape)} ({expected:,} bytes); "
            f"{present:,} bytes are there."
        )
    return _as_array(data[buffer.tell() :], dtype, shape, name, path)


def _as_array(
    data: NDArray[np.uint8], dtype: np.dtype[Any], shape: tuple[int, ...], name: str, path: str
) -> NDArray[Any]:
    try:
        array = data.view(dtype).reshape(shape)
    except (ValueError, OverflowError) as error:  # such as (0, 2**70)
        raise FileFormatError(f"{path}: array {name!r} cannot have shape {shape}.") from error
    # Bytes that are no value of their type would make trouble later and elsewhere.
    if dtype.kind == "b" and data.size and data.max() > 1:
        raise FileFormatError(f"{path}: array {name!r} has truth values other than 0 and 1.")
    if dtype.kind == "U" and data.size:
        points = data.view(np.dtype("u4").newbyteorder(dtype.byteorder))
        if points.max() > 0x10FFFF:
            raise FileFormatError(f"{path}: array {name!r} has characters outside Unicode.")
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))
