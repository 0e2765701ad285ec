"""Fitted models to files and back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.data.archive import Archive, read_archive, write_archive
from holdfast.data.texts import briefly
from holdfast.exceptions import FileFormatError, InvalidInputError
from holdfast.files.codec import MALFORMED, Decoder, Encoder
from holdfast.files.early import of_early_versions

if TYPE_CHECKING:
    from holdfast.estimators.base import CrossValidatedKernelRidge

__all__ = ["load", "load_with_extras", "save"]

# What `kind` may say, and where that class lives.
_CLASSES = {
    "KernelRidgeCV": "holdfast.estimators.regression",
    "KernelRidgeClassifierCV": "holdfast.estimators.classification",
    "KernelMixtureCV": "holdfast.estimators.mixture",
}


def save(
    model: CrossValidatedKernelRidge,
    path: str | os.PathLike[str],
    *,
    extras: Mapping[str, Any] | None = None,
) -> str:
    """Write a model to a file that `load` reads, whole or not at all; return its checksum.

    Parameters
    ----------
    model : KernelRidgeCV, KernelRidgeClassifierCV or KernelMixtureCV
        Fitted or not, in which case its parameters are those of `fit`. The training rows are part
        of a fitted model: after loading, `held_out` and `verify` work as before. Send such a file
        only to people who may see the data.
    path : path
        Where to write; ".holdfast" is the usual ending.
    extras : mapping, optional
        More to keep beside the model, of types that `holdfast.files.codec` knows.

    Notes
    -----
    Parameters, rows, experiments, penalties and coefficients are written as arrays and JSON
    (`holdfast.data.archive` describes the layout, `holdfast.files.codec` the types). Whatever
    follows from them is made again: the model is rebuilt through the checks of `fit`. A kernel that
    is a function is written by its import name.
    """
    from holdfast.estimators.saved import parts_of

    cls = type(model)
    if _CLASSES.get(cls.__name__) != cls.__module__:
        known = ", ".join(_CLASSES)
        raise InvalidInputError(
            f"model must be one of holdfast's estimators, {known}; got {cls.__module__}."
            f"{cls.__qualname__}. Use joblib for your own subclasses.",
            argument="model",
        )
    encoder = Encoder()
    content = {
        section: {name: encoder.encode(value, name) for name, value in values.items()}
        for section, values in parts_of(model).items()
    }
    content["extras"] = {k: encoder.encode(v, f"extras.{k}") for k, v in (extras or {}).items()}
    return write_archive(path, cls.__name__, content, encoder.arrays)


def load(
    path: str | os.PathLike[str], *, allow_callables: bool = False
) -> CrossValidatedKernelRidge:
    """Read a model that `save` wrote.

    Parameters
    ----------
    path : path
        The file. It may come from a stranger: nothing in it is run.
    allow_callables : bool, default False
        Whether functions that the file names (a kernel of your own, a scorer) may be imported.
        That runs the module they are in and, in use, the function: allow it for files you trust.

    Raises
    ------
    FileFormatError
        When the file is damaged, foreign, of an unknown version, or names functions without
        permission.
    """
    model: CrossValidatedKernelRidge
    model = _loaded(path, read_archive(path), allow_callables)
    return model


def load_with_extras(
    path: str | os.PathLike[str], *, allow_callables: bool = False
) -> tuple[CrossValidatedKernelRidge, dict[str, Any]]:
    """Return the model of a file, as `load` does, and the extras that were saved with it."""
    archive = read_archive(path)
    model = _loaded(path, archive, allow_callables)
    decoder = Decoder(archive.arrays, allow_callables)
    try:
        return model, _decoded(archive.content, "extras", decoder)
    except FileFormatError as error:
        told = briefly(error).rstrip(".")
        raise FileFormatError(
            f"{_place(path, archive)}: what was saved beside the model cannot be used by this "
            f"version ({told}). Fit the model again, and save it; holdfast.load reads the model "
            "alone."
        ) from error


def _loaded(path: str | os.PathLike[str], archive: Archive, allow_callables: bool) -> Any:
    """Return the model of a file, made of its parts as `fit` would have made it."""
    from holdfast.estimators.saved import rebuilt

    if archive.kind not in _CLASSES:
        raise FileFormatError(
            f"{os.fspath(path)} holds a {archive.kind!r}; expected one of {', '.join(_CLASSES)}."
        )
    cls = getattr(import_module(_CLASSES[archive.kind]), archive.kind)
    decoder = Decoder(archive.arrays, allow_callables)
    try:
        content = of_early_versions(archive.content)
        names = ("parameters", "data", "found") if "data" in content else ("parameters",)
        parts = {name: _decoded(content, name, decoder) for name in names}
        return rebuilt(cls, parts)
    except FileFormatError as error:
        raise FileFormatError(f"{_place(path, archive)}: {error}") from error
    except MALFORMED as error:
        told = briefly(error).rstrip(".")
        raise FileFormatError(
            f"{_place(path, archive)}: the model cannot be rebuilt from its parts: {told}. Fit it "
            "again, and save it."
        ) from error


def _place(path: str | os.PathLike[str], archive: Archive) -> str:
    return f"{os.fspath(path)} (written by holdfast {archive.written_by.get('holdfast')})"


def _decoded(content: Mapping[str, Any], name: str, decoder: Decoder) -> dict[str, Any]:
    section = content.get(name)
    if not isinstance(section, dict):
        raise FileFormatError(f"The section {name!r} is missing.")
    return {key: decoder.decode(value) for key, value in section.items()}
