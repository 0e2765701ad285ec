"""Python values to JSON and arrays, and back, for a closed list of types.

JSON's own types pass as they are. Everything else becomes an object with one key that starts
with ``$``:

| JSON | value |
|---|---|
| ``{"$array": name}`` | a NumPy array, kept outside the document |
| ``{"$objects": [...], "shape": [...]}`` | a NumPy array of Python objects |
| ``{"$number": "inf"}`` | a float that JSON does not know |
| ``{"$tuple": [...]}`` | a tuple |
| ``{"$pairs": [[key, value], ...]}`` | a dict whose keys are not all plain strings |
| ``{"$sparse": {...}}`` | a scipy.sparse matrix in CSR form |
| ``{"$object": "module:Name", "fields": {...}}`` | an object of a class on the list below |
| ``{"$random": {...}}`` | a numpy.random.RandomState |
| ``{"$function": "module:name"}`` | a function or class, by its import name |

The classes that may be built are holdfast's own dataclasses and parameter objects (kernels,
selectors, splitters, experiments) and scikit-learn's splitters and Gaussian-process kernels. They
are built through their constructors with checked parameters: no `__setstate__`, no `__reduce__`.
Functions are imported only when the caller allows it, because importing a module runs it.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import math
import os
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from holdfast.data.texts import briefly
from holdfast.exceptions import FileFormatError, HoldfastError, InvalidInputError
from holdfast.experiments import Experiments

__all__ = ["MALFORMED", "Decoder", "Encoder"]

# Modules whose parameter objects and dataclasses only keep what they are given.
_OWN_MODULES = (
    "holdfast.basis",
    "holdfast.experiments.experiment",
    "holdfast.kernels",
    "holdfast.splitters",
    "holdfast.tables.learned",
    "holdfast.tables.options",
)
# Where classes that older files name are now.
_MOVED = {
    "holdfast.basis.grouped:BalancedOverFolds": "holdfast.basis.random:BalancedOverFolds",
    "holdfast.basis.grouped:PerGroup": "holdfast.basis.random:PerGroup",
    "holdfast.basis.points:Points": "holdfast.basis.resolve:Points",
    "holdfast.basis.random:Fixed": "holdfast.basis.resolve:Fixed",
    "holdfast.experiments:HoldOut": "holdfast.experiments.experiment:HoldOut",
    "holdfast.kernels.resolve:Precomputed": "holdfast.kernels.grid:Precomputed",
}
#: How deep values may lie inside each other: a sum of many kernels, and no attack on the stack.
MAX_DEPTH = 100
#: What constructors, conversions and NumPy raise for wrong values.
MALFORMED = (
    HoldfastError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    MemoryError,
    RecursionError,
)
_SPLITTERS = "sklearn.model_selection._split"
_GP_KERNELS = "sklearn.gaussian_process.kernels"


class Encoder:
    """Turns values into a JSON document; `arrays` has the arrays met so far, each stored once."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self._names: dict[int, str] = {}
        # Keeps every array alive, so that an id in _names stays its own.
        self._kept: list[NDArray[Any]] = []
        self._depth = 0

    def encode(self, value: Any, where: str) -> Any:
        """Return the JSON form of `value`; `where` names it in errors and names its arrays."""
        if self._depth >= MAX_DEPTH:
            raise InvalidInputError(
                f"{where[:200]} is nested more than {MAX_DEPTH} deep, which a holdfast file cannot "
                "hold. Use fewer parts inside each other."
            )
        self._depth += 1
        try:
            return self._encode(value, where)
        finally:
            self._depth -= 1

    def _encode(self, value: Any, where: str) -> Any:
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, (int, np.integer)):
            return int(value)
        if isinstance(value, np.bool_):
            return bool(value)
        if isinstance(value, (float, np.floating)):
            number = float(value)
            return number if math.isfinite(number) else {"$number": repr(number)}
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if scipy.sparse.issparse(value):
            return self._sparse(value, where)
        if isinstance(value, list):
            return self._list(value, where)
        if type(value) is tuple:
            return {"$tuple": self._list(list(value), where)}
        if isinstance(value, Mapping):
            return self._mapping(value, where)
        if isinstance(value, Experiments):  # each is checked when it is made again
            return self._list(list(value), where)
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if isinstance(value, np.random.RandomState):
            return {"$random": self._mapping(value.get_state(legacy=False), where)}
        if inspect.isroutine(value) or inspect.isclass(value):
            return {"$function": _import_name(value, where)}
        return self._object(value, where)

    def _list(self, values: list[Any], where: str) -> list[Any]:
        return [self.encode(item, f"{where}[{i}]") for i, item in enumerate(values)]

    def _array(self, array: NDArray[Any], where: str) -> Any:
        if array.dtype == object:
            items = self._list(array.ravel().tolist(), where)
            return {"$objects": items, "shape": list(array.shape)}
        if array.dtype.kind not in "biufcUS":
            raise InvalidInputError(
                f"{where} is an array of {array.dtype}, which a holdfast file cannot hold."
            )
        name = self._names.get(id(array))
        if name is None:
            name = where if where not in self.arrays else f"{where}#{len(self.arrays)}"
            self._names[id(array)] = name
            self._kept.append(array)
            self.arrays[name] = array
        return {"$array": name}

    def _sparse(self, value: Any, where: str) -> Any:
        matrix = value.tocsr()
        parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
        fields: dict[str, Any] = {k: self._array(v, f"{where}.{k}") for k, v in parts.items()}
        fields["shape"] = [int(n) for n in matrix.shape]
        fields["is_array"] = isinstance(value, scipy.sparse.sparray)
        return {"$sparse": fields}

    def _mapping(self, value: Mapping[Any, Any], where: str) -> Any:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: self.encode(item, f"{where}.{key}") for key, item in value.items()}
        pairs = [
            [self.encode(key, f"{where} key"), self.encode(item, f"{where}[{key!r}]")]
            for key, item in value.items()
        ]
        return {"$pairs": pairs}

    def _object(self, value: Any, where: str) -> Any:
        cls = type(value)
        name = f"{cls.__module__}:{cls.__qualname__}"
        if _trusted_class(cls.__module__, cls) is None:
            raise InvalidInputError(
                f"{where} is a {name.replace(':', '.')}, which a holdfast file cannot hold. "
                "Allowed are numbers, text, arrays, functions that can be imported, holdfast's "
                "kernels, selectors and experiments, and scikit-learn's splitters and "
                "Gaussian-process kernels. Use joblib or skops for this model."
            )
        fields = {
            key: self.encode(item, f"{where}.{key}") for key, item in _parameters(value).items()
        }
        return {"$object": name, "fields": fields}


class Decoder:
    """Turns a JSON document of `Encoder`, and the arrays of its file, back into values."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]], allow_callables: bool) -> None:
        self.arrays = arrays
        self.allow_callables = allow_callables
        self._depth = 0

    def decode(self, document: Any) -> Any:
        """Return the value that `document` describes."""
        if not isinstance(document, list | dict):
            return document
        if self._depth >= MAX_DEPTH:
            raise FileFormatError(
                f"Its values are nested more than {MAX_DEPTH} deep, which no model needs."
            )
        self._depth += 1
        try:
            return self._decode(document)
        finally:
            self._depth -= 1

    def _decode(self, document: list[Any] | dict[str, Any]) -> Any:
        if isinstance(document, list):
            return [self.decode(item) for item in document]
        tags = self._TAGS.keys() & document.keys()
        if not tags:
            return {key: self.decode(item) for key, item in document.items()}
        tag = min(tags)
        try:
            more = {key: item for key, item in document.items() if key != tag}
            return self._TAGS[tag](self, document[tag], **more)
        except FileFormatError:
            raise
        except MALFORMED as error:
            told = briefly(error).rstrip(".")
            raise FileFormatError(f"A {tag} entry of the file is malformed: {told}.") from error

    def _array(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    def _tuple(self, items: list[Any]) -> tuple[Any, ...]:
        return tuple(self.decode(item) for item in items)

    def _pairs(self, pairs: list[Any]) -> dict[Any, Any]:
        return {self.decode(key): self.decode(item) for key, item in pairs}

    def _objects(self, items: list[Any], shape: list[int]) -> NDArray[Any]:
        if math.prod(shape) != len(items):
            raise ValueError("the shape of an array does not fit its items")
        array = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):  # one by one: NumPy would unpack sequences
            array[i] = self.decode(item)
        return array.reshape(shape)

    def _sparse(self, body: dict[str, Any]) -> Any:
        parts = tuple(self.decode(body[key]) for key in ("data", "indices", "indptr"))
        rows, columns = (int(n) for n in body["shape"])
        make = scipy.sparse.csr_array if body["is_array"] else scipy.sparse.csr_matrix
        # A row costs memory even when empty, but indptr, which is in the file, pays for it.
        if parts[2].shape != (rows + 1,):
            raise ValueError("indptr does not fit the number of rows")
        matrix = make(parts, shape=(rows, columns))
        matrix.check_format(full_check=True)
        return matrix

    def _function(self, name: str) -> Callable[..., Any]:
        if not self.allow_callables:
            raise FileFormatError(
                f"The file refers to the function {name!r}. Loading it imports its module, which "
                "runs that module's code. If you trust it, load with allow_callables=True."
            )
        module, _, path = name.partition(":")
        try:
            found = _find(importlib.import_module(module), path)
        except (ImportError, AttributeError, ValueError) as error:
            raise FileFormatError(
                f"The file refers to the function {name!r}, which cannot be imported here: {error}."
            ) from error
        if not callable(found):
            raise FileFormatError(f"The file refers to {name!r}, which is not a function.")
        return found  # type: ignore[no-any-return]  # callable() does not narrow Any

    def _object(self, name: str, fields: dict[str, Any]) -> Any:
        name = _MOVED.get(name, name)
        module, _, path = name.partition(":")
        cls = None
        if _own(module) or module in (_SPLITTERS, _GP_KERNELS):
            # Only modules of holdfast and two of scikit-learn are ever imported here.
            try:
                cls = _trusted_class(module, _find(importlib.import_module(module), path))
            except (ImportError, AttributeError, ValueError):
                cls = None
        if cls is None:
            raise FileFormatError(
                f"The file asks for a {name!r}; it is not among the classes that a file may hold."
            )
        return cls(**{key: self.decode(item) for key, item in fields.items()})

    def _random(self, body: Any) -> np.random.RandomState:
        return _random_state(self.decode(body))

    def _number(self, text: str) -> float:
        return float(text)

    _TAGS: ClassVar[dict[str, Callable[..., Any]]] = {
        "$array": _array,
        "$objects": _objects,
        "$number": _number,
        "$tuple": _tuple,
        "$pairs": _pairs,
        "$sparse": _sparse,
        "$random": _random,
        "$function": _function,
        "$object": _object,
    }


def _random_state(body: Any) -> np.random.RandomState:
    """Return the generator, whose state NumPy itself would believe, even outside its own memory."""
    key, place = np.asarray(body["state"]["key"]), body["state"]["pos"]
    good = body["bit_generator"] == "MT19937" and key.shape == (624,) and key.dtype.kind in "iu"
    if not good or type(place) is not int or not 0 <= place <= 624:
        raise ValueError("the state of a random generator is not valid")
    made = np.random.RandomState()
    made.set_state(("MT19937", key, place, int(body["has_gauss"]), float(body["gauss"])))
    return made


def _own(module: str) -> bool:
    return "__" not in module and any(
        module == name or module.startswith(f"{name}.") for name in _OWN_MODULES
    )


def _trusted_class(module: str, cls: Any) -> Callable[..., Any] | None:
    """Return `cls` if files may hold its instances, else None."""
    if not inspect.isclass(cls) or cls.__module__ != module:
        return None
    if _own(module) and cls is not Experiments:
        parameters = hasattr(cls, "get_params")
        return cls if dataclasses.is_dataclass(cls) or parameters else None
    if module == _SPLITTERS:
        return cls if hasattr(cls, "get_n_splits") and not cls.__name__.startswith("_") else None
    if module == _GP_KERNELS:
        return cls if hasattr(cls, "get_params") else None
    return None


def _parameters(value: Any) -> dict[str, Any]:
    """Return what `value`'s class must be given to make an equal object."""
    if dataclasses.is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
    if hasattr(value, "get_params"):
        return dict(value.get_params(deep=False))
    if hasattr(value, "cvargs"):  # scikit-learn's repeated splitters keep the inner arguments here
        own = {"n_repeats": value.n_repeats, "random_state": value.random_state}
        return {**own, **value.cvargs}
    names = inspect.signature(type(value)).parameters
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _import_name(value: Any, where: str) -> str:
    module, path = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    try:
        found = _find(importlib.import_module(str(module)), path)
    except (ImportError, AttributeError, ValueError):
        found = None
    if found is not value or module == "__main__":
        raise InvalidInputError(
            f"{where} is the function {value!r}, which cannot be found again by an import name "
            "(a lambda, a local function, or one defined in __main__). Define it at the top of "
            "a module that can be imported where the file is loaded."
        )
    return f"{module}:{path}"


def _find(module: Any, path: str) -> Any:
    found = module
    for part in path.split("."):
        if part.startswith("__"):
            raise AttributeError(part)
        found = getattr(found, part)
    return found
