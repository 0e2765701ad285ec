"""Fitted models to files and back."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.exceptions import FileFormatError, InvalidInputError
from holdfast.files.archive import Archive, read_archive, write_archive
from holdfast.files.codec import Decoder, Encoder

if TYPE_CHECKING:
    from holdfast.estimators.base import CrossValidatedKernelRidge

__all__ = ["load", "load_with_extras", "save"]

# What `kind` may say, and where that class lives.
_CLASSES = {
    "KernelRidgeCV": "holdfast.estimators.regression",
    "KernelRidgeClassifierCV": "holdfast.estimators.classification",
}
# Attributes that files of version 0.1.0 have under other names, and such that are no more.
_RENAMED = {"_training": "_problem"}
_GONE = ("_engine", "_model")
_ATTRIBUTE = re.compile(r"_?[a-z][a-z0-9]*(_[a-z0-9]+)*_?", re.IGNORECASE)


def save(
    model: CrossValidatedKernelRidge,
    path: str | os.PathLike[str],
    *,
    extras: Mapping[str, Any] | None = None,
) -> str:
    """Write a model to a file that `load` reads, whole or not at all; return its checksum.

    Parameters
    ----------
    model : KernelRidgeCV or KernelRidgeClassifierCV
        Fitted or not, in which case its parameters are those of `fit`. The training rows are part
        of a fitted model: after loading, `held_out` and `verify` work as before. Send such a file
        only to people who may see the data.
    path : path
        Where to write; ".holdfast" is the usual ending.
    extras : mapping, optional
        More to keep beside the model, of types that `holdfast.files.codec` knows.

    Notes
    -----
    The parameters and fitted attributes are written as arrays and JSON (`holdfast.files.archive`
    describes the layout, `holdfast.files.codec` the types). Factorisations are not written: they
    are made again when a held-out question is asked. A kernel that is a function is written by
    its import name.
    """
    cls = type(model)
    if _CLASSES.get(cls.__name__) != cls.__module__:
        known = " and ".join(_CLASSES)
        raise InvalidInputError(
            f"model must be one of holdfast's estimators, {known}; got {cls.__module__}."
            f"{cls.__qualname__}. Use joblib for your own subclasses.",
            argument="model",
        )
    parameters = getattr(model, "_fitted_with", None) or model.get_params(deep=False)
    state = {k: v for k, v in vars(model).items() if k not in parameters}
    for name in ("_fitted_with", "_fitted"):  # the last is made of the others
        state.pop(name, None)
    encoder = Encoder()
    content = {
        "parameters": {k: encoder.encode(v, k) for k, v in parameters.items()},
        "fitted": {k: encoder.encode(v, k) for k, v in state.items()},
        "extras": {k: encoder.encode(v, f"extras.{k}") for k, v in (extras or {}).items()},
    }
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
    return load_with_extras(path, allow_callables=allow_callables)[0]


def load_with_extras(
    path: str | os.PathLike[str], *, allow_callables: bool = False
) -> tuple[CrossValidatedKernelRidge, dict[str, Any]]:
    """Return the model of a file, as `load` does, and the extras that were saved with it."""
    from holdfast.files.checks import check_model

    archive = read_archive(path)
    if archive.kind not in _CLASSES:
        raise FileFormatError(
            f"{os.fspath(path)} holds a {archive.kind!r}; expected one of {', '.join(_CLASSES)}."
        )
    cls = getattr(import_module(_CLASSES[archive.kind]), archive.kind)
    decoder = Decoder(archive.arrays, allow_callables)
    try:
        parameters, fitted, extras = (
            _section(archive, name, decoder) for name in ("parameters", "fitted", "extras")
        )
        model = cls(**parameters)
        for name in fitted:
            # Data may not shadow methods or properties.
            if not _ATTRIBUTE.fullmatch(name) or hasattr(cls, name):
                raise FileFormatError(
                    f"The file sets an attribute {name!r}, which is not a result."
                )
        fitted = {
            _RENAMED.get(name, name): value for name, value in fitted.items() if name not in _GONE
        }
        check_model(model, fitted, archive.kind == "KernelRidgeClassifierCV")
    except FileFormatError as error:
        written = archive.written_by.get("holdfast", "unknown")
        raise FileFormatError(
            f"{os.fspath(path)} (written by holdfast {written}): {error}"
        ) from error
    except TypeError as error:  # parameters that this version does not have
        raise FileFormatError(
            f"{os.fspath(path)} was written by holdfast {archive.written_by.get('holdfast')}, "
            f"whose parameters differ: {error}."
        ) from error
    vars(model).update(fitted)
    return model, extras


def _section(archive: Archive, name: str, decoder: Decoder) -> dict[str, Any]:
    section = archive.content.get(name)
    if not isinstance(section, dict):
        raise FileFormatError(f"The section {name!r} is missing.")
    return {key: decoder.decode(value) for key, value in section.items()}
