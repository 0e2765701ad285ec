"""NumPy's .npy and .npz files from strangers: nothing is allocated before it is known to fit.

`numpy.load` allocates what a header declares, and unpacks what a zip holds, before anything is
known to be there. Here the header of each array is read first; its shape must agree with the bytes
that the archive declares, and all of them together with the memory that may be taken.
"""

from __future__ import annotations

import math
import struct
import tokenize
import zipfile
import zlib
from typing import IO, Any

import numpy as np

from holdfast._typing import AnyArray
from holdfast.exceptions import FileFormatError

__all__ = ["HEADER_ERRORS", "ZIP_ERRORS", "briefly", "read_npy_header", "read_npz"]

MAX_HEADER_BYTES = 10_000
#: Arrays in one archive.
MAX_MEMBERS = 10_000
_KINDS = frozenset("biufcUSmM")
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


def briefly(error: BaseException) -> str:
    """Return what an error says in one line, without the whole of a hostile header."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def read_npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, Fortran order and data type of an array, or raise one of `HEADER_ERRORS`."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        read = np.lib.format.read_array_header_1_0
    elif version == (2, 0):
        read = np.lib.format.read_array_header_2_0
    else:
        raise ValueError(f"the version {version} of the format is not known")
    shape, fortran, dtype = read(file, max_header_size=MAX_HEADER_BYTES)
    if any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"the shape {shape} is not one")
    return shape, fortran, dtype


def read_npz(file: IO[bytes], most: float) -> dict[str, AnyArray]:
    """Return the arrays of an .npz file, of which no pickle is ever run.

    Parameters
    ----------
    file : binary file
        Seekable.
    most : float
        Bytes that the arrays may take together.

    Raises
    ------
    FileFormatError
        When the file is damaged, holds objects, or its arrays do not fit.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if len(members) > MAX_MEMBERS:
                raise FileFormatError(
                    f"it holds {len(members):,} members; at most {MAX_MEMBERS:,} are read"
                )
            total = sum(info.file_size for info in members)
            if total > most:
                raise FileFormatError(
                    f"its arrays take {total:,} bytes when unpacked; {most:,.0f} may be taken"
                )
            return {
                info.filename.removesuffix(".npy"): _array(archive, info)
                for info in members
                if info.filename.endswith(".npy")
            }
    except FileFormatError:
        raise
    except ZIP_ERRORS as error:
        raise FileFormatError(f"it is damaged ({briefly(error)})") from error


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> AnyArray:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise FileFormatError(f"its member {info.filename!r} is packed in a way that NumPy is not")
    with archive.open(info) as member:
        try:
            shape, fortran, dtype = read_npy_header(member)
        except HEADER_ERRORS as error:
            raise FileFormatError(
                f"the header of its array {info.filename!r} is malformed ({briefly(error)})"
            ) from error
        if dtype.kind not in _KINDS or dtype.shape:
            raise FileFormatError(
                f"its array {info.filename!r} is of dtype {dtype}; numbers, text and dates are "
                "read, Python objects (pickles) never"
            )
        expected = math.prod(shape) * dtype.itemsize
        if expected > info.file_size:
            raise FileFormatError(
                f"its array {info.filename!r} declares the shape {shape}, {expected:,} bytes; "
                f"{info.file_size:,} are there"
            )
        data = member.read(expected + 1)
    if len(data) != expected:
        raise FileFormatError(
            f"its array {info.filename!r} declares {expected:,} bytes; {len(data):,} are there"
        )
    if dtype.itemsize == 0:
        return np.zeros(shape, dtype) if math.prod(shape) <= info.file_size else _empty(info)
    array = np.frombuffer(bytearray(data), dtype=dtype)
    if dtype.kind == "U" and array.size and array.view(f"{dtype.byteorder}u4").max() > 0x10FFFF:
        raise FileFormatError(f"its array {info.filename!r} has characters outside Unicode")
    return array.reshape(shape, order="F" if fortran else "C")


def _empty(info: zipfile.ZipInfo) -> AnyArray:
    raise FileFormatError(f"its array {info.filename!r} declares more empty texts than bytes")
