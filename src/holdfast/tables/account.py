"""How each column was read and how it is used: a table in every answer."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.tables.preparation import TablePreparation
from holdfast.tables.table import Roles, Table
from holdfast.tables.values import Reading

__all__ = ["ColumnAccount", "account", "shown"]

#: Of more columns than this, those of numbers that are like all others are counted instead.
MOST = 200


@dataclass(frozen=True)
class ColumnAccount:
    """One column of the data."""

    name: str
    role: str  #: "feature", "target", "group", "weight", "time", "left out" or "not used"
    kind: str  #: "number", "yes/no", "category", "date" or "empty"
    missing: int  #: How many values are missing
    levels: int  #: How many different values there are
    became: str  #: How it is used


def account(
    table: Table,
    roles: Roles,
    preparation: TablePreparation | None,
    others: tuple[str, ...] = (),
    *,
    classify: bool = False,
) -> tuple[ColumnAccount, ...]:
    """Return how each column that has a role was read, and the `others`, which were not.

    The preparation is fitted; None if the features cannot be prepared.
    """
    special = {
        roles.target: ("target", "classes to predict" if classify else "to predict"),
        roles.group: ("group", "rows that belong together"),
        roles.weight: ("weight", "weight of each row"),
    }
    left_out = {} if preparation is None else preparation.left_out_
    features = {} if preparation is None else preparation.features_of()
    chosen = set(roles.features)
    found = []
    for name, reading in table.readings.items():
        timed = name == roles.time
        role, became = special.get(name, ("time, feature" if timed else "feature", ""))
        if name in special:
            pass
        elif name in left_out:
            role, became = "time" if timed else "left out", left_out[name]
        elif name not in chosen:
            role, became = "time", "puts rows in order"
        elif preparation is not None and name in features:
            became = _became(name, reading, len(features[name]), preparation)
        if reading.trouble:
            became = f"cannot be used: it {reading.trouble}"
        became = "; ".join(filter(None, (became, *reading.notes)))
        found.append(
            ColumnAccount(name, role, reading.kind, reading.missing, reading.n_different, became)
        )
    found += [ColumnAccount(name, "not used", "", 0, 0, "not read") for name in others]
    return tuple(found)


def _became(name: str, reading: Reading, n: int, preparation: TablePreparation) -> str:
    filled = ", missing ones filled in" if reading.missing else ""
    if reading.kind == "category":
        return f"{n} features, 0 or 1, one for each level{filled}"
    if reading.kind == "date":
        return f"{n} numbers: {', '.join(preparation.learned_.dates[name].parts)}{filled}"
    return ("centred and scaled" if preparation.scale else "as it is") + filled


def shown(columns: tuple[ColumnAccount, ...]) -> tuple[tuple[ColumnAccount, ...], str]:
    """Return the columns to show one by one, and a sentence on the others."""
    if len(columns) <= MOST:
        return columns, ""
    plain = ("number", "feature", 0)
    odd = [c for c in columns if (c.kind, c.role, c.missing) != plain or ";" in c.became]
    chosen = {id(column) for column in [*odd, *columns[: MOST // 4]][:MOST]}
    kept = tuple(column for column in columns if id(column) in chosen)
    return kept, f"and {len(columns) - len(kept):,} more columns"
