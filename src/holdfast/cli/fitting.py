"""From the options of a command to data and a fitted model."""

from __future__ import annotations

import argparse
import dataclasses
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.cli.bands import band_kernels, check_model_options, trend_columns
from holdfast.cli.matrices import check_matrix_options, roles_beside_a_matrix, with_places
from holdfast.cli.specs import CvSpec, parse_alphas, parse_basis, parse_cv, parse_gamma
from holdfast.exceptions import InvalidInputError
from holdfast.progress import report
from holdfast.tables import (
    ReadOptions,
    Roles,
    Source,
    Table,
    TablePreparation,
    open_source,
    read_columns,
    split_names,
)

if TYPE_CHECKING:
    from holdfast.tables.account import ColumnAccount

MOST_COLUMNS = 100_000
#: Weights of bands to compare.
DRAWS = 30
#: Up to here every model is quick; what fitting takes of all the time there is; seconds of fitting
#: one width, per m³ of a dense model and per m n² of n basis rows.
_QUICK_ROWS, _SHARE, DENSE_SECONDS, BASIS_SECONDS = 1000, 1 / 6, 2e-10, 4e-10

__all__ = [
    "BASIS_SECONDS",
    "DENSE_SECONDS",
    "Data",
    "check_seed",
    "cv_of",
    "explain_columns",
    "fit_model",
    "make_model",
    "opened",
    "read_data",
    "timely_model",
]


@dataclass(frozen=True, eq=False)
class Data:
    """A data file, ready to fit."""

    X: NDArray[np.float64]  #: Features and target (class labels when classifying)
    y: NDArray[Any]
    groups: NDArray[np.str_] | None
    weights: NDArray[np.float64] | None
    moments: NDArray[np.float64] | None  #: The time of each row
    rows: NDArray[np.intp]  #: Where these rows stand in the file
    table: Table  #: The columns of these rows as they were read
    #: The other rows of the file, which have no target; None if there are none
    without_target: Table | None
    preparation: TablePreparation  #: Fitted
    roles: Roles
    label: str  #: Of the file
    checksum: str
    sentences: tuple[str, ...]  #: How the file was read and what was done to the columns
    columns: tuple[ColumnAccount, ...]  #: How each column was read


def opened(
    options: argparse.Namespace, path: str, before: ReadOptions | None = None
) -> AbstractContextManager[Source]:
    """Open a file as the options say, and as `before` says where they say nothing."""
    said = ReadOptions(
        delimiter={"tab": "\t", "\\t": "\t"}.get(options.delimiter or "", options.delimiter),
        header=not options.no_header,
        decimal=options.decimal,
        encoding=options.encoding,
        na=tuple(mark for text in options.na or () for mark in text.split(",") if mark),
        dayfirst=options.dayfirst,
    )
    return open_source(path, **vars(said.over(before or ReadOptions())))


def read_data(options: argparse.Namespace) -> Data:
    """Return the data that the options name."""
    from holdfast.tables.account import account

    report(0, 0, "reading")
    check_matrix_options(options)
    whole, roles, source, categorical = _read(options, matrix=options.kernel_matrix is not None)
    matrix: list[str] = []
    if options.kernel_matrix is not None:
        whole, roles, *matrix = with_places(options, whole, roles)
    assert roles.target is not None
    rows = whole.known(roles.target)
    others = np.setdiff1d(np.arange(whole.n_rows), rows)
    table = whole.rows(rows) if others.size else whole
    y = _target(table, roles.target, options.classify)
    groups = table.labels(roles.group, "group") if roles.group else None
    weights = table.numbers(roles.weight, "weight") if roles.weight else None
    moments = table.moments(roles.time) if roles.time else None
    preparation = _preparation(options, roles, categorical)
    features = table.columns(roles.features)
    X = preparation.fit(features).transform(features)
    unread = tuple(n for n in source.names if n not in table.readings and n != options.id)
    return Data(
        X,
        y,
        groups,
        weights,
        moments,
        rows,
        table,
        whole.rows(others) if others.size else None,
        preparation,
        roles,
        source.label,
        source.checksum,
        (
            *source.notes,
            *_left_out_rows(others.size, whole.n_rows, roles.target),
            *(matrix or _sentences(preparation, features)),
        ),
        account(table, roles, preparation, unread, classify=options.classify),
    )


def explain_columns(options: argparse.Namespace) -> tuple[tuple[ColumnAccount, ...], Source, int]:
    """Return how each column is read, without a fit, including columns that cannot be used."""
    from holdfast.tables.account import account

    table, roles, source, categorical = _read(options)
    preparation = _preparation(options, roles, categorical).set_params(impute=True, keep=False)
    usable = [name for name in roles.features if not table.readings[name].trouble]
    fitted = preparation.fit(table.columns(usable)) if usable else None
    others = tuple(name for name in source.names if name not in table.readings)
    roles = dataclasses.replace(roles, features=tuple(table.readings))
    found = account(table, roles, fitted, others, classify=options.classify)
    return found, source, table.n_rows


def _read(
    options: argparse.Namespace, *, matrix: bool = False
) -> tuple[Table, Roles, Source, list[str]]:
    with opened(options, options.data) as source:
        if len(source.names) > MOST_COLUMNS:
            raise InvalidInputError(
                f"{source.label} has {len(source.names):,} columns; at most {MOST_COLUMNS:,} are "
                "read. If its rows and columns changed places, turn it around; otherwise leave "
                "columns out of the file."
            )
        if matrix:
            roles = roles_beside_a_matrix(options, source)
            return read_columns(source, roles.all(), roles.features), roles, source, []
        roles = Roles.choose(
            source,
            target=options.target,
            group=options.group,
            weight=options.weight,
            time=options.time,
            features=options.features,
            drop=options.drop,
        )
        categorical = (
            split_names(options.categorical, source, "categorical") if options.categorical else []
        )
        table = read_columns(source, roles.all(), tuple(categorical))
    return table, roles, source, categorical


def _preparation(
    options: argparse.Namespace, roles: Roles, categorical: list[str]
) -> TablePreparation:
    return TablePreparation(
        scale=not options.no_scale and options.kernel_matrix is None,
        impute=options.impute,
        categorical=tuple(categorical),
        # A feature that was asked for by name is given whole.
        time=None if roles.named else roles.time,
        keep=roles.named,
    )


def _target(table: Table, name: str, classify: bool) -> NDArray[Any]:
    if not classify:
        return table.numbers(name, "target")
    labels = table.labels(name, "target")
    if len(np.unique(labels)) > max(20, len(labels) // 2):
        raise InvalidInputError(
            f"The target column {name!r} has {len(np.unique(labels)):,} different values in "
            f"{len(labels):,} rows: too many for classes. For a number, leave out --classify."
        )
    return labels


def _left_out_rows(count: int, total: int, target: str) -> tuple[str, ...]:
    if not count:
        return ()
    return (
        f"{count:,} of {total:,} rows have no value of {target!r} and were left out; --predictions "
        "predicts them.",
    )


def _sentences(preparation: TablePreparation, table: Table) -> tuple[str, ...]:
    notes = []
    if preparation.scale and any(k in ("number", "yes/no") for k in preparation.kinds_.values()):
        notes.append(
            "Columns of numbers were centred and scaled to standard deviation 1, over all rows "
            "(--no-scale leaves them as they are)."
        )
    if preparation.learned_.categories:
        names = _names(tuple(preparation.learned_.categories))
        notes.append(f"Columns of text became one 0/1 feature per level: {names}.")
    dates = tuple(name for name, kind in preparation.kinds_.items() if kind == "date")
    if dates:
        notes.append(f"Columns of dates became a few numbers each: {_names(dates)}.")
    imputed = table.missing(preparation.columns_)
    if imputed:
        told = ", ".join(f"{name!r} {count:,}" for name, count in list(imputed.items())[:12])
        notes.append(
            "Missing values were filled in with the median or most frequent level of all rows "
            f"({told})."
        )
    return tuple(notes)


def _names(names: tuple[str, ...]) -> str:
    more = " and others" if len(names) > 8 else ""
    return ", ".join(repr(name) for name in names[:8]) + more


def make_model(
    options: argparse.Namespace, cv: CvSpec, preparation: TablePreparation | None = None
) -> Any:
    """Return the unfitted estimator that the options describe.

    Without a preparation it knows no columns: good enough to find nonsense in the options.
    """
    from holdfast import KernelMixtureCV, KernelRidgeClassifierCV, KernelRidgeCV

    _check_numbers(options)
    check_model_options(options)
    common: dict[str, Any] = {
        "trend": None if preparation is None else trend_columns(options, preparation),
        "alphas": parse_alphas(options.alphas),
        "basis": parse_basis(options.basis),
        "cv": cv.cv,
        "held_out_basis": options.held_out_basis,
        "fit_intercept": not options.no_intercept,
        "scoring": options.scoring,
        "rule": options.rule,
        "memory_limit": options.memory,
        "random_state": options.seed,
    }
    if options.band and preparation is not None:
        return KernelMixtureCV(band_kernels(options, preparation), n_draws=DRAWS, **common)
    if options.classify:
        common["calibration"] = options.calibration
    kind = KernelRidgeClassifierCV if options.classify else KernelRidgeCV
    return kind(
        options.kernel,
        gamma=parse_gamma(options.gamma),
        degree=options.degree,
        coef0=options.coef0,
        **common,
    )


def check_seed(seed: int) -> None:
    """Refuse a seed that no generator takes."""
    if not 0 <= seed < 2**32:
        raise InvalidInputError(f"--seed must be a whole number from 0 to 2³² − 1; got {seed}.")


def _check_numbers(options: argparse.Namespace) -> None:
    check_seed(options.seed)
    if not options.seconds > 0:
        raise InvalidInputError(f"--seconds must be greater than 0; got {options.seconds:g}.")
    if not (options.degree >= 1 and float(options.degree).is_integer()):
        raise InvalidInputError(
            f"--degree must be a whole number from 1 up, such as 3; got {options.degree:g}."
        )


def cv_of(options: argparse.Namespace, data: Data | None = None) -> CvSpec:
    """Return the way of holding out that the options describe; with data, for their rows."""
    check_seed(options.seed)
    made = parse_cv(
        options.cv,
        group=options.group,
        classify=options.classify,
        seed=options.seed,
        time=options.time,
        gap=options.gap,
    )
    if data is not None:
        _check_folds(made, data)
    if data is None or data.moments is None or not made.by_time:
        return made
    from holdfast.splitters import TimeSteps

    steps = TimeSteps(data.moments, made.cv.n_splits, made.cv.gap)
    return dataclasses.replace(made, cv=steps)


def _check_folds(made: CvSpec, data: Data) -> None:
    """Refuse more folds than there is to put into them, before scikit-learn does."""
    folds = getattr(made.cv, "n_splits", None) or 0
    needed = folds + 1 if made.by_time else folds
    things = data.groups if made.needs_groups and data.groups is not None else data.rows
    there, kind = len(np.unique(things)), "groups" if made.needs_groups else "rows"
    if needed > there:
        raise InvalidInputError(
            f"--cv: {folds:,} {'steps' if made.by_time else 'folds'} need at least {needed:,} "
            f"{kind}; there are {there:,}."
        )


def timely_model(options: argparse.Namespace, data: Data, cv: CvSpec) -> tuple[Any, list[str]]:
    """Return the unfitted model, with so few basis rows that fitting takes no longer than asked."""
    from holdfast.estimators.automatic import NUMBERS
    from holdfast.smoother.make import is_primal

    model = make_model(options, cv, data.preparation)
    if options.basis != "auto" or len(data.X) <= _QUICK_ROWS:
        return model, []
    problem, candidates = model._prepare(data.X, data.y, data.weights, data.groups)
    m, seconds = len(data.X), _SHARE * options.seconds
    if all(is_primal(candidate.kernel, problem.X) for candidate in candidates):
        return model, []
    widths = len(candidates)
    if problem.basis is None and DENSE_SECONDS * widths * float(m) ** 3 <= seconds:
        return model, []
    fits = (n for n in NUMBERS if BASIS_SECONDS * widths * float(m) * n * n <= seconds)
    n = min(m, next(fits, NUMBERS[-1]), problem.basis or m)
    if n == problem.basis:
        return model, []  # memory allows no more, which is told elsewhere
    return model.set_params(basis=n), [
        f"Basis rows: {n:,} of {m:,} rows, drawn at random, to answer within about "
        f"{options.seconds:g} s (--seconds 300 takes more of them, --basis says how many)."
    ]


def fit_model(options: argparse.Namespace, data: Data, cv: CvSpec) -> tuple[Any, tuple[str, ...]]:
    """Return the fitted model, of the best width if there are several, and remarks on it."""
    y = np.asarray(data.y)
    numbers = y.ndim == 1 and y.dtype.kind in "iuf" and y.size > 1
    if numbers and abs(y[0]) < 1e150 and (y == y[0]).all():  # `fit` refuses larger ones
        raise InvalidInputError(
            f"y must vary over the rows; every value is {y[0]:g}, so there is nothing to learn. "
            "Name another column with --target."
        )
    model, remarks = timely_model(options, data, cv)
    report(0, 0, "fitting")
    model.fit(data.X, data.y, sample_weight=data.weights, groups=data.groups)
    if model.basis_indices_.size < len(data.X) and model.basis == "auto":
        remarks.append(f"Basis rows: {model.explain().facts['basis']} (--basis says how many).")
    added = model.explain().facts.get("penalties added")
    if added:
        remarks.append(f"Penalties were added to the default grid, {added}.")
    if options.band:
        remarks.append(
            f"The weights of the bands were chosen among {DRAWS} by the same held-out score, which "
            "makes that score a little optimistic."
        )
    tried = sorted({params["gamma"] for params in model.cv_results_["params"] if "gamma" in params})
    if len(tried) < 2:
        return model, tuple(remarks)
    chosen = model.best_params_["gamma"]
    remarks.append(
        f"gamma = {chosen:.3g} was chosen among {len(tried)} values by the same held-out score, "
        "which makes that score a little optimistic."
    )
    return model, tuple(remarks)
