"""From the options of a command to data and a fitted model."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.cli.specs import CvSpec, parse_basis, parse_cv, parse_gammas, parse_grid
from holdfast.exceptions import InvalidInputError
from holdfast.tables import Encoded, Roles, Table, TableEncoder, open_source, read_columns
from holdfast.tables.opening import split_names

__all__ = ["Data", "fit_model", "make_model", "read_data"]


@dataclass(frozen=True, eq=False)
class Data:
    """A data file, ready to fit.

    Attributes
    ----------
    X, y : ndarray
        Features and target (class labels when classifying).
    groups : ndarray of str or None
    weights : ndarray or None
    encoder : TableEncoder
    roles : Roles
    label, checksum : str
        Of the file.
    preparation : tuple of str
        What was done to the columns, one sentence each.
    """

    X: NDArray[np.float64]
    y: NDArray[Any]
    groups: NDArray[np.str_] | None
    weights: NDArray[np.float64] | None
    encoder: TableEncoder
    roles: Roles
    label: str
    checksum: str
    preparation: tuple[str, ...]


def read_data(options: argparse.Namespace) -> Data:
    """Return the data that the options name."""
    with open_source(
        options.data, delimiter=options.delimiter, header=not options.no_header
    ) as source:
        roles = Roles.choose(
            source,
            target=options.target,
            group=options.group,
            weight=options.weight,
            features=options.features,
            drop=options.drop,
        )
        categorical = (
            split_names(options.categorical, source, "--categorical") if options.categorical else []
        )
        table = read_columns(source, roles.all(), tuple(categorical))
        label, checksum = source.label, source.checksum
    assert roles.target is not None
    y = _target(table, roles.target, options.classify)
    groups = table.labels(roles.group, "group") if roles.group else None
    weights = table.numbers(roles.weight, "weight") if roles.weight else None
    encoder = TableEncoder.learn(
        table, roles.features, scale=not options.no_scale, impute=options.impute
    )
    encoded = encoder.transform(table)
    notes = _preparation(encoder, encoded)
    return Data(encoded.X, y, groups, weights, encoder, roles, label, checksum, notes)


def _target(table: Table, name: str, classify: bool) -> NDArray[Any]:
    if not classify:
        try:
            return table.numbers(name, "target")
        except InvalidInputError as error:
            if "must hold numbers" not in str(error):
                raise
            raise InvalidInputError(f"{error} To predict classes, say --classify.") from error
    labels = table.labels(name, "target")
    if len(np.unique(labels)) > max(20, len(labels) // 2):
        raise InvalidInputError(
            f"The target column {name!r} has {len(np.unique(labels)):,} different values in "
            f"{len(labels):,} rows: too many for classes. For a number, leave out --classify."
        )
    return labels


def _preparation(encoder: TableEncoder, encoded: Encoded) -> tuple[str, ...]:
    notes = []
    if encoder.scaled:
        notes.append(
            "Columns of numbers were centred and scaled to standard deviation 1, over all rows "
            "(--no-scale leaves them as they are)."
        )
    if encoder.categories:
        names = ", ".join(repr(name) for name in encoder.categories[:8])
        more = " and others" if len(encoder.categories) > 8 else ""
        notes.append(f"Columns of text became one 0/1 feature per level: {names}{more}.")
    if encoded.imputed:
        told = ", ".join(f"{name!r} {count:,}" for name, count in encoded.imputed.items())
        notes.append(
            "Missing values were filled in with the median or most frequent level of all rows "
            f"({told})."
        )
    return tuple(notes)


def make_model(options: argparse.Namespace, cv: CvSpec) -> Any:
    """Return the unfitted estimator that the options describe."""
    from holdfast import KernelRidgeClassifierCV, KernelRidgeCV

    kind = KernelRidgeClassifierCV if options.classify else KernelRidgeCV
    gammas = parse_gammas(options.gamma)
    return kind(
        options.kernel,
        gamma=gammas[0] if len(gammas) == 1 else list(gammas),
        degree=options.degree,
        coef0=options.coef0,
        alphas=parse_grid(options.alphas, "--alphas"),
        basis=parse_basis(options.basis),
        cv=cv.cv,
        held_out_basis=options.held_out_basis,
        fit_intercept=not options.no_intercept,
        scoring=options.scoring,
        rule=options.rule,
        path=options.path,
        memory_limit=options.memory,
        random_state=options.seed,
    )


def cv_of(options: argparse.Namespace) -> CvSpec:
    """Return the way of holding out that the options describe."""
    return parse_cv(options.cv, group=options.group, classify=options.classify, seed=options.seed)


def fit_model(options: argparse.Namespace, data: Data, cv: CvSpec) -> tuple[Any, tuple[str, ...]]:
    """Return the fitted model, of the best width if there are several, and remarks on it."""
    model = make_model(options, cv)
    model.fit(data.X, data.y, sample_weight=data.weights, groups=data.groups)
    gammas = parse_gammas(options.gamma)
    if len(gammas) == 1:
        return model, ()
    chosen = model.best_params_.get("gamma")
    remarks = [
        f"gamma = {chosen:.3g} was chosen among {len(gammas)} values by the same held-out score, "
        "which makes that score a little optimistic."
    ]
    if chosen in (gammas[0], gammas[-1]):
        end = "smallest" if chosen == gammas[0] else "largest"
        remarks.append(f"The best gamma is the {end} of those tried: a better one may lie beyond.")
    return model, tuple(remarks)
