"""How a table is written, as far as the user said."""

from __future__ import annotations

import codecs
import dataclasses
from dataclasses import dataclass
from typing import Any

from holdfast.exceptions import InvalidInputError

__all__ = ["ReadOptions"]


@dataclass(frozen=True)
class ReadOptions:
    """How a table is written; what is None is guessed from the file.

    Attributes
    ----------
    delimiter : str, optional
        The character between the cells of a text file.
    header : bool
        Whether the first line names the columns; otherwise they are c0, c1, …
    decimal : {".", ","}, optional
        The decimal mark.
    encoding : str, optional
        Of a text file.
    na : tuple of str
        Further marks of missing values.
    dayfirst : bool, optional
        Whether 03/04/2021 is the third of April (True) or the fourth of March (False).
    """

    delimiter: str | None = None
    header: bool = True
    decimal: str | None = None
    encoding: str | None = None
    na: tuple[str, ...] = ()
    dayfirst: bool | None = None

    def __post_init__(self) -> None:
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise InvalidInputError(
                f"delimiter must be one character; got {self.delimiter!r}.", argument="delimiter"
            )
        if self.decimal not in (None, ".", ","):
            raise InvalidInputError(
                f"decimal must be '.' or ','; got {self.decimal!r}.", argument="decimal"
            )
        for name in ("header", "dayfirst"):
            value = getattr(self, name)
            if not isinstance(value, bool) and not (name == "dayfirst" and value is None):
                raise InvalidInputError(
                    f"{name} must be True or False; got {value!r}.", argument=name
                )
        na: Any = self.na
        if isinstance(na, str) or not all(isinstance(mark, str) for mark in na):
            raise InvalidInputError(f"na must be a list of texts; got {na!r}.", argument="na")
        object.__setattr__(self, "na", tuple(na))
        if self.encoding is not None:
            object.__setattr__(self, "encoding", _known_encoding(self.encoding))

    def said(self) -> dict[str, object]:
        """Return the options that differ from their defaults, by name."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: v for name, v in values.items() if v != getattr(ReadOptions, name)}

    def over(self, before: ReadOptions) -> ReadOptions:
        """Return the options of `before`, each replaced where this one says something."""
        return dataclasses.replace(before, **self.said())  # type: ignore[arg-type]

    def kept_in(self, later: ReadOptions) -> dict[str, object]:
        """Return those of these options that another one has kept."""
        return {name: v for name, v in self.said().items() if getattr(later, name) == v}


def _known_encoding(encoding: str) -> str:
    try:
        return codecs.lookup(encoding).name
    except (LookupError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"encoding must be the name of one, such as utf-8, latin-1, cp1252 or utf-16; got "
            f"{encoding!r}.",
            argument="encoding",
        ) from error
