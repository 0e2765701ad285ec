"""Checks of what users pass: values, numbers, words, labels, seeds; each error is one sentence.

`numpy.asarray` drops the mask of a masked array, turns dates into counts of some unit, reads the
text "1_000" as a thousand and, on the way to float64, drops imaginary parts. Everything that a user
passes as numbers is checked here first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, time, timedelta
from numbers import Real
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from holdfast._typing import AnyArray, BoolArray
from holdfast.exceptions import HoldfastWarning, InputTypeError, InvalidInputError, warn

__all__ = [
    "LARGEST",
    "check_choice",
    "check_labels",
    "check_level",
    "check_positive",
    "is_number",
    "refuse_large",
    "refuse_masked",
    "require_numbers",
    "seed_of",
    "warn_of_small",
    "whole_number",
]

#: The largest size of a number: the sum of a hundred million squares of such is still finite.
LARGEST = 1e150
#: Squares of smaller numbers lose accuracy, and soon are zero.
SMALLEST = 1e-150

_TEXT = "Encode text as numbers first."
_ADVICE = {
    "m": "Turn times into numbers in the unit that you want.",
    "M": "Turn times into numbers in the unit that you want.",
    "V": "Take the fields apart: one column of numbers for each.",
    "c": "Complex data not supported: pass real and imaginary parts by themselves.",
    "U": _TEXT,
    "category": "Encode them (pandas.get_dummies), or convert them with .astype(float) if they are "
    "numbers.",
}


def refuse_masked(
    name: str, values: Any, error: Callable[..., InvalidInputError] = InvalidInputError
) -> None:
    """Refuse a masked array that hides values, also as an item of a list; one without is as any."""
    parts = values if isinstance(values, list | tuple) else (values,)
    for part in parts:
        if isinstance(part, np.ma.MaskedArray) and (hidden := int(np.ma.getmaskarray(part).sum())):
            raise error(
                f"{name} must not hide values; got a masked array with {hidden} of {part.size} "
                "values masked. Leave those rows out, or fill the values in (numpy.ma.filled).",
                argument=name.split()[-1],
            )


def require_numbers(name: str, values: Any) -> Any:
    """Return values that are real numbers in some form: array, list, frame, sparse matrix, number.

    Lists come back as arrays, everything else as it is. Dates, text, complex numbers, structured
    and masked arrays, and what is no sequence, are refused; float16 is answered by a warning.
    """
    refuse_masked(name, values)
    if hasattr(values, "columns") and hasattr(values, "dtypes"):
        for column, kind, part in _columns(values):
            _require_kind(f"the column {column!r} of {name}", kind, part)
        return values
    if isinstance(values, list | tuple):
        values = _array(name, values)
    dtype = getattr(values, "dtype", None)
    if dtype is None and not hasattr(values, "__array__"):
        if not isinstance(values, int | float | np.generic):
            raise InputTypeError(
                f"{name} must hold numbers, in an array, a list or a frame; got "
                f"{_named(values)}. Pass numpy.array([...]).",
                argument=name,
            )
        return values
    kind, part = _kind_of(dtype), values
    if kind == "O" and sp.issparse(values):
        part = values.data
    _require_kind(name, kind, part)
    if dtype is not None and kind == "f" and dtype.itemsize > 8 and values.size:
        # Before it overflows on its way to float64.
        refuse_large(name, float(values.min()), float(values.max()))
    if dtype == np.float16:
        warn(
            f"{name} is float16, which keeps three digits and ends at 65504: its numbers are used "
            "as they are, in double precision.",
            HoldfastWarning,
            argument=name,
        )
    return values


def _array(name: str, values: Any) -> AnyArray:
    try:
        return np.asarray(values)
    except ValueError:
        lengths = sorted({np.size(item) for item in values})
        raise InvalidInputError(
            f"{name} must hold rows of one length; got rows of "
            f"{' and '.join(map(str, lengths[:3]))} values. Pass the same columns for every row.",
            argument=name,
        ) from None
    except TypeError as error:  # an item whose own conversion fails
        raise InputTypeError(f"{name} must hold numbers; {error}. {_TEXT}", argument=name) from None


def _named(values: Any) -> str:
    if values is None:
        return "None"
    if isinstance(values, str | bytes):
        return f"the text {values[:40]!r}"
    return f"a {type(values).__name__}"


def _kind_of(dtype: Any) -> str:
    """Return NumPy's letter for a data type; "O" for those of other libraries that need a look."""
    if isinstance(dtype, np.dtype):
        return dtype.kind
    kind = getattr(dtype, "kind", "O")  # pandas' own types
    name = str(dtype)
    if name.startswith("period"):
        return "M"
    return "category" if name == "category" else str(kind)


def _columns(frame: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield name, kind and values of the columns of a pandas or polars frame."""
    if hasattr(frame, "iloc"):
        for j, (column, dtype) in enumerate(zip(frame.columns, frame.dtypes, strict=True)):
            yield str(column), _kind_of(dtype), frame.iloc[:, j]
    elif hasattr(frame, "get_columns"):
        for part in frame.get_columns():
            yield part.name, _polars_kind(part.dtype), part


def _polars_kind(dtype: Any) -> str:
    name = str(dtype)
    if dtype.is_temporal():
        return "M"
    if dtype.is_numeric() or name in ("Boolean", "Null"):
        return "f"
    return "category" if name.startswith(("Categorical", "Enum")) else "O"


def _require_kind(name: str, kind: str, values: Any) -> None:
    """Refuse values of a kind that is not one of numbers."""
    if kind == "O":
        _require_objects(name, values)
    elif kind in ("U", "S", "T"):
        _refuse(name, "U", *np.asarray(values).ravel()[:1].tolist())
    elif kind in _ADVICE:
        _refuse(name, kind, getattr(values, "dtype", None))


def _require_objects(name: str, values: Any) -> None:
    """Refuse anything in a column of objects except numbers, True, False and None."""
    for value in np.asarray(values, dtype=object).ravel():
        if isinstance(value, float | int | None):
            continue
        if isinstance(value, str | bytes):
            _refuse(name, "U", value)
        if isinstance(value, np.datetime64 | np.timedelta64 | date | time | timedelta):
            _refuse(name, "M", type(value).__name__)
        if isinstance(value, complex | np.complexfloating):
            _refuse(name, "c")
        try:
            float(value)
        except (TypeError, ValueError) as error:
            told = "missing values (NA)" if type(value).__name__ == "NAType" else str(error)
            raise InputTypeError(
                f"{name} must hold numbers; {told}. Fill missing values in, encode the others.",
                argument=name,
            ) from None


def _refuse(name: str, kind: str, example: Any = None) -> NoReturn:
    """Raise, with the advice for values of a kind and one of them, or their type."""
    got = {
        "category": "categories",
        "c": "complex numbers",
        "U": "text" if example is None else f"text such as {example!r}",
    }.get(kind, f"values of type {example}")
    must = "be real" if kind == "c" else "hold numbers"
    raise InvalidInputError(f"{name} must {must}; got {got}. {_ADVICE[kind]}", argument=name)


def refuse_large(name: str, low: float, high: float) -> None:
    """Refuse numbers whose squares overflow, given the smallest and the largest of them."""
    size = max(-low, high)
    if size > LARGEST:
        raise InvalidInputError(
            f"{name} must hold numbers of size up to {LARGEST:g}, whose squares can still be "
            f"added; got {size:.3g}. Divide {name} by a constant.",
            argument=name,
        )


def warn_of_small(name: str, size: float) -> None:
    """Warn of numbers of at most this size, whose squares vanish."""
    warn(
        f"{name} holds numbers of size up to {size:.3g} only, whose squares are zero in double "
        "precision: most kernels see all rows as one. Multiply it by a constant such as "
        f"{10.0 ** -np.ceil(np.log10(size)):.0e}.",
        HoldfastWarning,
        argument=name,
    )


# -- numbers, words, labels and seeds --------------------------------------------------------------


def is_number(value: object) -> bool:
    """Return whether ``value`` is a real number; True and False are not."""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def whole_number(name: str, value: object, least: int = 1) -> int:
    """Return ``value`` as an int, or raise unless it is a whole number of at least ``least``."""
    if isinstance(value, int | np.integer) and is_number(value) and value >= least:
        return int(value)
    raise InvalidInputError(
        f"{name} must be a whole number, at least {least}; got {value!r}.", argument=name
    )


def check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raise unless ``value`` is one of the allowed words."""
    if value not in allowed:
        words = ", ".join(repr(word) for word in allowed)
        raise InvalidInputError(f"{name} must be one of {words}; got {value!r}.", argument=name)


def check_positive(name: str, value: object, *, zero: bool = False) -> float:
    """Return ``value`` as a float, or raise unless it is a finite number above zero (or zero)."""
    if is_number(value):
        number = float(value)  # type: ignore[arg-type]  # is_number says so
        if np.isfinite(number) and (number > 0 or (zero and number == 0)):
            return number
    bound = "zero or positive" if zero else "positive"
    raise InvalidInputError(
        f"{name} must be a finite {bound} number, got {value!r}.", argument=name
    )


def check_level(level: object) -> float:
    """Return a confidence level as a float, or raise unless it lies between 0 and 1."""
    if is_number(level) and 0.0 < level < 1.0:  # type: ignore[operator]  # a number
        return float(level)  # type: ignore[arg-type]  # is_number says so
    raise InvalidInputError(
        f"level must lie between 0 and 1, such as 0.9; got {level!r}.", argument="level"
    )


def check_labels(name: str, labels: ArrayLike, n_rows: int) -> AnyArray:
    """Return labels as an array with one comparable, known label per row.

    Numbers, text, truth values, dates, or objects that can be sorted, called `name` in errors.
    """
    refuse_masked(name, labels)
    try:
        array = np.asarray(labels)
    except ValueError:  # ragged
        array = np.empty((0, 0), dtype=object)
    if array.shape != (n_rows,):
        raise InvalidInputError(
            f"{name} must hold one label per row, shape ({n_rows},); got shape {array.shape}.",
            argument=name,
        )
    if array.dtype.kind in "cV":
        raise InvalidInputError(
            f"{name} must hold labels that can be sorted; got dtype {array.dtype}. Use whole "
            "numbers or text.",
            argument=name,
        )
    missing = _missing(array)
    if missing.any():
        raise InvalidInputError(
            f"{name} must hold a label for every row; got {int(missing.sum())} missing, the first "
            f"in row {int(np.argmax(missing))}. Leave those rows out, or give them a label of "
            "their own.",
            argument=name,
        )
    if array.dtype.kind == "O":
        _require_sortable(name, array)
    return array


def _missing(labels: AnyArray) -> BoolArray:
    if labels.dtype.kind == "f":
        return np.isnan(labels)
    if labels.dtype.kind in "mM":
        return np.isnat(labels)
    if labels.dtype.kind == "O":
        return np.array([_is_missing(label) for label in labels], dtype=bool)
    return np.zeros(labels.shape, dtype=bool)


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except (TypeError, ValueError):  # pandas.NA has no truth value
        return True


def _require_sortable(name: str, labels: AnyArray) -> None:
    try:
        np.unique(labels)
    except TypeError as error:
        raise InvalidInputError(
            f"{name} must hold labels that can be sorted; got labels of several types ({error}). "
            "Use numbers or text throughout.",
            argument=name,
        ) from None


def seed_of(random_state: Any) -> int:
    """Return a seed from what scikit-learn's ``check_random_state`` takes, or a NumPy generator.

    None: the next number of NumPy's global generator, which ``np.random.seed`` sets.
    """
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        if random_state >= 0:
            return int(random_state)
    elif random_state is None or isinstance(random_state, np.random.RandomState):
        from sklearn.utils import check_random_state

        return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    raise InvalidInputError(
        "random_state must be None, a whole number from 0 up, a RandomState or a NumPy generator; "
        f"got {random_state!r}.",
        argument="random_state",
    )
