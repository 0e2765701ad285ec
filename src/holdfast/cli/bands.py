"""The options --trend and --band: columns that have a part of their own in the model."""

from __future__ import annotations

import argparse
from typing import Any

from holdfast.cli.specs import parse_gamma
from holdfast.exceptions import InvalidInputError
from holdfast.tables import TablePreparation

__all__ = ["band_kernels", "check_model_options", "scales_of", "trend_columns"]


def check_model_options(options: argparse.Namespace) -> None:
    """Refuse combinations of options for other models that mean nothing."""
    if options.calibration and not options.classify:
        raise InvalidInputError(
            "--calibration is for probabilities of classes; say --classify too, or leave it out."
        )
    if options.kernel_matrix and (options.trend or options.band):
        raise InvalidInputError(
            f"{'--trend' if options.trend else '--band'} and --kernel-matrix exclude each other: "
            "the matrix takes the place of columns. Leave one of them out."
        )
    if options.band and (options.classify or isinstance(parse_gamma(options.gamma), list)):
        raise InvalidInputError(
            "--band is for targets that are numbers, and takes one width for all bands, such as "
            "--gamma 0.1 (default: 1 / number of features of a band). Leave out --classify and "
            "lists of widths."
        )
    for text in options.band or ():
        name, equals, columns = text.partition("=")
        if not (name.strip() and equals and columns.strip()):
            raise InvalidInputError(
                f"--band must be a name and its columns, such as --band sound=a,b,c; got {text!r}."
            )


def trend_columns(options: argparse.Namespace, preparation: TablePreparation) -> list[int] | None:
    """Return the features of --trend; of levels all but the first, which the bias stands for."""
    if options.trend is None:
        return None
    places, kinds = _places(preparation), preparation.kinds_
    linear = options.trend == "linear" and "linear" not in places
    names = list(places) if linear else _named(options.trend, places, "--trend")
    first = {name: int(kinds[name] == "category" and not options.no_intercept) for name in names}
    return [j for name in names for j in places[name][first[name] :]]


def band_kernels(options: argparse.Namespace, preparation: TablePreparation) -> dict[str, Any]:
    """Return the kernel of each band, and of the columns that are in none."""
    from holdfast.kernels import Kernel, OnColumns
    from holdfast.kernels.grid import kernel_grid

    places = _places(preparation)
    bands: dict[str, list[str]] = {}
    for text in options.band:
        name, _, columns = text.partition("=")
        bands.setdefault(name.strip(), []).extend(_named(columns, places, "--band"))
    used = [column for columns in bands.values() for column in columns]
    if len(set(used)) < len(used):
        twice = next(column for column in used if used.count(column) > 1)
        raise InvalidInputError(f"--band: the column {twice!r} is in two bands. Name it once.")
    if others := [column for column in places if column not in used]:
        bands["other columns"] = others
    if len(bands) < 2:
        raise InvalidInputError(
            "--band: one band holds all columns, so there is nothing to weigh. Say --band for each "
            "of several."
        )
    gamma = parse_gamma(options.gamma)
    made = {}
    for name, columns in bands.items():
        features = [j for column in columns for j in places[column]]
        found = kernel_grid(
            [options.kernel],
            gamma=None if isinstance(gamma, str) else gamma,
            degree=options.degree,
            coef0=options.coef0,
            kernel_params=None,
            n_features=len(features),
        )
        kernel = found[0].kernel
        assert isinstance(kernel, Kernel)
        made[name] = OnColumns(kernel, tuple(features))
    return made


def scales_of(preparation: TablePreparation) -> tuple[float, ...]:
    """Return for each feature by what the numbers of its column were divided."""
    learned = preparation.learned_
    made = dict(zip(learned.numbers.names, learned.numbers.spread.tolist(), strict=True))
    made |= {f"{name} position": dates.spread for name, dates in learned.dates.items()}
    return tuple(made.get(name, 1.0) for name in map(str, preparation.get_feature_names_out()))


def _places(preparation: TablePreparation) -> dict[str, list[int]]:
    """Return, for each column, where its features are."""
    places, at = {}, 0
    for column, made in preparation.features_of().items():
        places[column] = list(range(at, at + len(made)))
        at += len(made)
    return places


def _named(text: str, places: dict[str, list[int]], option: str) -> list[str]:
    names = [text] if text in places else [name.strip() for name in text.split(",")]
    for name in names:
        if name not in places:
            raise InvalidInputError(
                f"{option}: {name!r} is not one of the columns that are features: "
                f"{', '.join(map(repr, list(places)[:12]))}{', …' if len(places) > 12 else ''}."
            )
    return names
