"""What a report needs to know beyond the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

if TYPE_CHECKING:
    from holdfast.tables.account import ColumnAccount
    from holdfast.tables.inside import InsideOut

__all__ = ["Context"]


@dataclass(frozen=True)
class Context:
    """What the model itself does not know: names, and where the data came from.

    Attributes
    ----------
    title : str
        Heading of the report.
    target : str
        Name of the target.
    feature_names : tuple of str, optional
        Names of the features; by default those the model was fitted with, else x0, x1, …
    group : str
        Name of the grouping.
    cv : str, optional
        The way of holding out, in words that follow "held out by".
    preparation : tuple of str
        What was done to the columns before, one sentence each.
    command, data, checksum : str, optional
        How to repeat it.
    warnings : tuple of str
        What fitting warned of.
    columns : tuple of ColumnAccount
        How each column of a data file was read (`holdfast.tables.account`).
    notes : tuple of str
        What may be wrong with the data or the question (`holdfast.tables.notes`).
    inside : InsideOut, optional
        What the preparation costs (`holdfast.tables.inside`).
    time : str, optional
        Name of the column that puts rows in order of time.
    moments : ndarray of shape (m,), optional
        That column: numbers or datetime64.
    wording : callable, optional
        Puts messages of the library in the words of another interface, such as the command line;
        None for readers who use Python.
    sources : tuple of str, optional
        For each feature the column that it came from, such as that of a 0/1 feature of one level;
        by default each feature is a column of its own.
    """

    title: str = "Held-out report"
    target: str = "y"
    feature_names: tuple[str, ...] | None = None
    group: str = "group"
    cv: str | None = None
    preparation: tuple[str, ...] = ()
    command: str | None = None
    data: str | None = None
    checksum: str | None = None
    warnings: tuple[str, ...] = ()
    columns: tuple[ColumnAccount, ...] = ()
    notes: tuple[str, ...] = ()
    inside: InsideOut | None = None
    time: str | None = None
    moments: NDArray[Any] | None = None
    sources: tuple[str, ...] | None = None
    wording: Callable[[str], str] | None = None
