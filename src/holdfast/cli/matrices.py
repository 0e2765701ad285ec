"""The option --kernel-matrix: kernel values from a file in place of columns."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace

import numpy as np

from holdfast.exceptions import InvalidInputError
from holdfast.tables import Roles, Source, Table, as_table, read_kernel_matrix, split_names

__all__ = ["check_matrix_options", "roles_beside_a_matrix", "with_places"]

#: What the matrix takes the place of, and what these options say unless they are used.
_INSTEAD = {
    "kernel": "rbf",
    "gamma": "auto",
    "features": None,
    "drop": None,
    "categorical": None,
    "impute": False,
    "no_scale": False,
}


def check_matrix_options(options: argparse.Namespace) -> None:
    """Refuse options that a kernel matrix makes meaningless, and an --id without one."""
    if options.kernel_matrix is None:
        if options.id is not None:
            raise InvalidInputError(
                "--id names the column of the rows' names in a kernel matrix; say --kernel-matrix "
                "K.grm too, or leave it out."
            )
        return
    for name, default in _INSTEAD.items():
        if getattr(options, name) != default:
            raise InvalidInputError(
                f"--{name.replace('_', '-')} and --kernel-matrix exclude each other: the matrix "
                "takes the place of columns and kernel. Leave one of them out."
            )


def roles_beside_a_matrix(options: argparse.Namespace, source: Source) -> Roles:
    """Return the roles of columns where none is a feature but the names of the rows."""
    asked = {n: getattr(options, n) for n in ("target", "group", "weight", "time", "id")}
    for argument, name in asked.items():
        if name is not None:
            split_names(name, source, argument)
    names = asked.pop("id")
    return Roles((names,) if names else (), named=True, **asked)


def with_places(
    options: argparse.Namespace, table: Table, roles: Roles
) -> tuple[Table, Roles, str]:
    """Return the table with the place of each row in the matrix, as the only feature.

    The kernel of the options becomes that of the matrix.
    """
    from holdfast.kernels import Lookup

    label = os.path.basename(options.kernel_matrix)
    found = read_kernel_matrix(options.kernel_matrix)
    size = len(found.values)
    if options.id is not None:
        places = found.places(table.labels(options.id, "id"), options.id)
    elif size != table.n_rows:
        raise InvalidInputError(
            f"--kernel-matrix: {label} has {size:,} rows and the data {table.n_rows:,}. Give "
            "both the same rows in the same order, or name the rows of both and say --id COLUMN."
        )
    else:
        places = np.arange(size)
    options.kernel, options.gamma = Lookup(found.values), "features"
    name = f"row of {label}"
    added = as_table({name: places.astype(float)}).readings[name]
    readings = {key: reading for key, reading in table.readings.items() if key != options.id}
    whole = Table({**readings, name: added}, table.n_rows, table.options)
    matched = f"matched by {options.id!r}" if options.id else "in the order of the data"
    told = f"Kernel values are those of {label} ({size:,} × {size:,}), rows {matched}."
    return whole, replace(roles, features=(name,)), told
