"""Files that are damaged, forged, foreign, or cannot be written."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bad_calls import Call
from bad_calls.forgery import FORGERIES, forge, raw_manifest, saved
from holdfast import load
from holdfast.exceptions import (
    FileFormatError,
    InputTypeError,
    InvalidInputError,
    WriteError,
)
from holdfast.files import save, write_text
from holdfast.tables import open_source, read_columns

pa = pytest.importorskip("pyarrow")
MODELS, TABLES, WRITING = "Model files", "Tables", "Writing"


def model_call(name: str, make: Callable[[Path], Any], *words: str) -> Call:
    """Return the loading of a model file that `make` spoils."""

    def run(folder: Path) -> None:
        path = saved(folder / "m.holdfast")
        make(path)
        load(path)

    return Call(MODELS, name, f"load(a file with {name})", run, FileFormatError, words)


def cut(share: float) -> Callable[[Path], Any]:
    def change(path: Path) -> None:
        data = path.read_bytes()
        path.write_bytes(data[: int(share * len(data))])

    return change


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))


def compressed(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        members, comment = (
            {i.filename: archive.read(i) for i in archive.infolist()},
            archive.comment,
        )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = comment
        for name, data in members.items():
            archive.writestr(name, data)


def later_version(path: Path) -> None:
    data = path.read_bytes()
    at = data.rindex(b"holdfast 1 sha256")
    path.write_bytes(data[:at] + b"holdfast 2 sha256" + data[at + 17 :])


def forged_call(name: str) -> Call:
    """Return the loading of a model file with right checksums and wrong contents."""
    change, word = FORGERIES[name]
    return model_call(f"right checksums, but {name}", lambda path: forge(path, change), word)


# -- tables ----------------------------------------------------------------------------------------


def npz(**members: bytes) -> bytes:
    """Return an .npz file with these bytes as its arrays."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return buffer.getvalue()


def npy(shape: Any, dtype: str = "<f8", data: bytes = b"") -> bytes:
    """Return a .npy file whose header says this."""
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape!r}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


def of_a_later_zip(data: bytes) -> bytes:
    """Return an archive that asks for version 25.5 of the format."""
    at = data.rindex(b"PK\x01\x02") + 6
    return data[:at] + b"\xff" + data[at + 1 :]


def bomb(path: Path) -> None:
    """Write an .npz of a few kilobytes that says it unpacks to 10 TB."""
    data = bytearray(npz(X=npy((2**37, 10), data=bytes(10_000))))
    at = data.rindex(b"PK\x01\x02")
    size = (2**32 - 2).to_bytes(4, "little")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(3000):
            archive.writestr(f"a{i}.npy", npy((4,), data=bytes(32)))
    data = bytearray(path.read_bytes())
    at = -1
    while (at := data.find(b"PK\x01\x02", at + 1)) >= 0:
        data[at + 24 : at + 28] = size
    path.write_bytes(bytes(data))


def feather(damage: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        import pyarrow.feather

        texts = pa.table({"a": [1.0, 2.0, 3.0], "t": ["first", "second", "third"]})
        buffer = io.BytesIO()
        pyarrow.feather.write_feather(texts, buffer, compression="uncompressed")
        path.write_bytes(damage(buffer.getvalue()))

    return write


def far_offset(data: bytes) -> bytes:
    """Let a text begin far outside its buffer: the offsets 0, 5, 11, 16."""
    offsets = np.array([0, 5, 11, 16], dtype="<i4").tobytes()
    assert data.count(offsets) == 1
    return data.replace(offsets, np.array([0, 2**30, 2**30 + 1, 16], dtype="<i4").tobytes())


def parquet(path: Path) -> None:
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({"a": [1.0, 2.0]}), path)


def text(content: str | bytes) -> Callable[[Path], None]:
    data = content.encode() if isinstance(content, str) else content
    return lambda path: path.write_bytes(data)


def table_call(
    name: str, suffix: str, make: Callable[[Path], Any], error: type[Exception], *words: str
) -> Call:
    """Return the reading of a table that `make` writes."""

    def run(folder: Path) -> None:
        path = folder / f"t{suffix}"
        make(path)
        with open_source(str(path)) as source:
            read_columns(source, source.names)

    return Call(TABLES, name, f"reading t{suffix}: {name}", run, error, words)


def shorter(make: Callable[[Path], Any], by: int) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        make(path)
        path.write_bytes(path.read_bytes()[:-by])

    return write


# -- writing ---------------------------------------------------------------------------------------


def write_call(
    name: str, write: Callable[[Path], Any], error: type[Exception], *words: str
) -> Call:
    return Call(WRITING, name, name, write, error, words)


def _lambda_kernel(folder: Path) -> None:
    from holdfast import KernelRidgeCV

    KernelRidgeCV(kernel=lambda A, B: A @ B.T).save(folder / "m")


def _own_subclass(folder: Path) -> None:
    from holdfast import KernelRidgeCV

    class Mine(KernelRidgeCV):
        pass

    save(Mine(), folder / "m")


def _full(folder: Path) -> None:
    write_text("/dev/full", "x" * 100_000)


def _deep(folder: Path) -> None:
    from holdfast import KernelRidgeCV

    value: Any = 1
    for _ in range(400):
        value = (value,)
    KernelRidgeCV(kernel_params={"a": value}).save(folder / "m")


CALLS = [
    Call(MODELS, "no such file", "load('nowhere')", lambda f: load(f / "no"), FileNotFoundError),
    Call(MODELS, "a folder", "load(folder)", load, IsADirectoryError),
    Call(MODELS, "None", "load(None)", lambda f: load(None), InputTypeError, ("path", "NoneType")),
    Call(MODELS, "a number", "load(3.5)", lambda f: load(3.5), InputTypeError, ("path", "float")),
    Call(MODELS, "no name", "load('')", lambda f: load(""), InvalidInputError, ("path", "''")),
    model_call("nothing in it", text(""), "not a readable holdfast file"),
    model_call("noise in it", text(bytes(range(256)) * 9), "not a readable holdfast file"),
    model_call("half of it missing", cut(0.5), "not a readable holdfast file"),
    model_call("its end missing", cut(0.99), "not a readable holdfast file"),
    model_call("one byte changed", flipped, "damaged"),
    model_call("members that are packed", compressed, "compressed"),
    model_call("a later version", later_version, "format version 2"),
    model_call("arrays of a table in it", lambda p: p.write_bytes(npz(X=npy((0,)))), "not a holdfast"),
    model_call("a manifest that is a list", lambda p: raw_manifest(p, lambda m: [m]), "lacks"),
    model_call(
        "another kind in it", lambda p: raw_manifest(p, lambda m: m.update(kind="Rocket")), "Rocket"
    ),
    *(forged_call(name) for name in FORGERIES),
    # -- tables
    table_call("empty", ".csv", text(""), InvalidInputError, "is empty"),
    table_call("names alone", ".csv", text("a,b\n"), InvalidInputError, "no rows"),
    table_call("numbers as names", ".csv", text("1,2\n3,4\n"), InvalidInputError, "header=False"),
    table_call("two columns of one name", ".csv", text("a,a\n1,2\n"), InvalidInputError, "'a'"),
    table_call("a line too short", ".csv", text("a,b\n1,2\n3\n"), InvalidInputError, "line 3"),
    table_call("an endless quote", ".csv", text('a,b\n1,"' + "x" * 200_000), InvalidInputError, "never closed"),
    table_call("a quote never closed", ".csv", text('a,b\n1,"x\n2,y\n'), InvalidInputError, "never closed"),
    table_call("a line of 17 million", ".csv", text("a" * 2**24 + "b"), InvalidInputError, "131,072"),
    table_call("broken gzip", ".csv.gz", text(b"\x1f\x8b\x08" + bytes(40)), InvalidInputError, "read"),
    table_call("NPZ", ".npz", text(npz(a=npy((1,)))), InvalidInputError, "NumPy archive", "CSV"),
    table_call("NPZ cut short", ".npz", text(npz(a=npy((1,)))[:-9]), InvalidInputError, "damaged"),
    table_call("NPZ of a later zip", ".npz", text(of_a_later_zip(npz(a=npy((1,))))), InvalidInputError, "version 25.5"),
    table_call("NPZ of 12 TB", ".npz", bomb, InvalidInputError, "NumPy archive"),
    table_call("a text far outside Feather", ".feather", feather(far_offset), InvalidInputError, "damaged"),
    table_call("Feather cut short", ".feather", feather(lambda d: d[:-30]), InvalidInputError, "damaged"),
    table_call("Feather of noise", ".feather", text(b"ARROW1" + bytes(60)), InvalidInputError, "damaged"),
    table_call("Parquet cut short", ".parquet", shorter(parquet, 20), InvalidInputError, "damaged"),
    table_call("no such file", ".csv", lambda p: None, FileNotFoundError),
    # -- writing
    write_call("save(model, folder)", lambda f: saved(f), WriteError, "it is a folder"),
    write_call("save(model, 'no/m')", lambda f: saved(f / "no" / "m"), WriteError, "no folder"),
    write_call("save(a kernel that is a lambda)", _lambda_kernel, InvalidInputError, "lambda"),
    write_call("save(a class of your own)", _own_subclass, InvalidInputError, "joblib"),
    write_call("save(400 tuples in each other)", _deep, InvalidInputError, "deep"),
    write_call("save(model, a name of 300 letters)", lambda f: saved(f / ("m" * 300)), WriteError, "too long"),
    write_call("writing to a full device", _full, WriteError, "No space left"),
]  # fmt: skip
if os.name == "nt" or not os.path.exists("/dev/full"):
    CALLS.pop()
