"""Which columns of a table play which role."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.data.texts import quoted
from holdfast.exceptions import InvalidInputError
from holdfast.tables.sources import Source

__all__ = ["Roles", "check_columns", "split_names"]


@dataclass(frozen=True)
class Roles:
    """Which columns are features, target, group, weight and time.

    Attributes
    ----------
    features : tuple of str
        The columns the model sees, before they are prepared.
    target, group, weight, time : str or None
        Their columns, where asked for.
    named : bool
        Whether the features were named one by one.
    """

    features: tuple[str, ...]
    target: str | None = None
    group: str | None = None
    weight: str | None = None
    time: str | None = None
    named: bool = False

    @classmethod
    def choose(
        cls,
        source: Source,
        *,
        target: str | None = None,
        group: str | None = None,
        weight: str | None = None,
        time: str | None = None,
        features: str | None = None,
        drop: str | None = None,
    ) -> Roles:
        """Return the roles that the options of a command give the columns of `source`.

        Parameters
        ----------
        source : Source
            The table.
        target, group, weight, time : str, optional
            Names of columns. Time is a feature as well, unless it is dropped.
        features : str, optional
            Names separated by commas; by default all columns without another role.
        drop : str, optional
            Names, separated by commas, of columns that are not features.
        """
        asked = {"target": target, "group": group, "weight": weight, "time": time}
        for argument, name in asked.items():
            if name is not None:
                _check_known(name, source, argument)
        taken = {target, group, weight} - {None}
        dropped = set(split_names(drop, source, "drop")) if drop else set()
        if features is not None:
            chosen = split_names(features, source, "features")
            for name in chosen:
                if name in taken:
                    raise InvalidInputError(
                        f"features: {name!r} is already the target, group or weight column.",
                        argument="features",
                    )
        else:
            chosen = [name for name in source.names if name not in taken]
        chosen = [name for name in chosen if name not in dropped]
        if not chosen:
            raise InvalidInputError(f"No column of {source.label} is left to be a feature.")
        return cls(tuple(chosen), target, group, weight, time, features is not None)

    def all(self) -> tuple[str, ...]:
        """Return every column that has a role, each once."""
        names = [*self.features, self.target, self.group, self.weight, self.time]
        return tuple(dict.fromkeys(name for name in names if name is not None))


def split_names(text: str, source: Source, argument: str) -> list[str]:
    """Return the columns in a list separated by commas; a column's own commas are tried first."""
    known = set(source.names)
    if text in known:
        return [text]
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            _check_known(name, source, argument)
    if len(set(names)) != len(names):
        raise InvalidInputError(f"{argument} names a column twice: {text!r}.", argument=argument)
    return names


def check_columns(names: Sequence[str], source: Source) -> None:
    """Raise unless the table has every one of the columns that a model needs."""
    known = set(source.names)
    missing = [name for name in names if name not in known]
    if missing:
        raise InvalidInputError(
            f"{source.label} lacks columns that the model was fitted on: "
            f"{', '.join(map(quoted, missing[:12]))}."
        )


def _check_known(name: str, source: Source, argument: str) -> None:
    if name in source.names:
        return
    near = difflib.get_close_matches(name, source.names, n=1)
    hint = f" Did you mean {quoted(near[0])}?" if near else ""
    shown = ", ".join(map(quoted, source.names[:12]))
    more = f" and {len(source.names) - 12} more" if len(source.names) > 12 else ""
    raise InvalidInputError(
        f"{argument}: {source.label} has no column {quoted(name)}.{hint} It has {shown}{more}.",
        argument=argument,
    )
