"""What the model is made of: its trend, its bands of columns, and the roles of its basis rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.displays.score_scale import number
from holdfast.exceptions import HoldfastError
from holdfast.report.blocks import Block, Heading, Table, Text, table
from holdfast.report.context import Case, feature_names

__all__ = [
    "Band",
    "PolicyRow",
    "TrendTerm",
    "ask_bands",
    "ask_policies",
    "ask_trend",
    "made_of_blocks",
    "policies_table",
]

#: Policies that follow from the factors of the fit; "reselect" would train every model again.
POLICIES = ("remove", "keep", "train", "skip")


@dataclass(frozen=True)
class TrendTerm:
    """A column of the trend, which has no penalty: its coefficient, and the standard error."""

    name: str
    coefficient: float
    standard_error: float


@dataclass(frozen=True)
class Band:
    """Columns with a kernel of their own."""

    name: str
    weight: float  #: Share of the kernel in the sum
    loss: float  #: What held-out R² loses without it


@dataclass(frozen=True)
class PolicyRow:
    """The score, as it is shown, if held-out basis rows were treated in this way."""

    name: str
    score: float
    tested: int  #: How many predictions
    meaning: str


def ask_trend(case: Case) -> tuple[TrendTerm, ...]:
    """Return the coefficients of the trend, in the units of the columns; () without one."""
    model, scales = case.model, case.context.scales
    if model._problem.trend is None or case.classifies:
        return ()
    features = {name: j for j, name in enumerate(feature_names(case))}
    found = (np.atleast_2d(a) for a in (model.trend_coef_, model.trend_coef_std_))
    coefficients, errors = (a[min(case.target, len(a) - 1)].tolist() for a in found)
    names = [str(name) for name in model.trend_names_]
    if model._problem.trend.columns is not None:
        names = [feature_names(case)[j] for j in model._problem.trend.columns]
    units = [scales[features[n]] if scales and n in features else 1.0 for n in names]
    return tuple(
        TrendTerm(name, coefficient / unit, error / unit)
        for name, coefficient, error, unit in zip(names, coefficients, errors, units, strict=True)
    )


def ask_bands(case: Case) -> tuple[Band, ...]:
    """Return the weight of each band and what it adds; () for a single kernel."""
    model: Any = case.model
    if not hasattr(model, "kernel_weights_"):
        return ()
    try:
        found = model.kernel_importance()
    except HoldfastError as error:
        case.refused("It is not known what each band of columns adds", error)
        return ()
    weights = np.reshape(found.weights, (len(found.names), -1))
    at = min(case.target, weights.shape[1] - 1)
    return tuple(
        Band(str(name), float(weight), float(loss))
        for name, weight, loss in zip(
            found.names, weights[:, at], found.delta[:, case.target], strict=True
        )
    )


def ask_policies(case: Case) -> tuple[PolicyRow, ...]:
    """Return the score under each policy for held-out basis rows; () for a dense model."""
    problem = case.model._problem
    if not problem.on_basis or problem.reselects:
        return ()
    try:
        found = case.model.policies(POLICIES)
    except HoldfastError as error:
        case.refused("No comparison of the ways to treat held-out basis rows", error)
        return ()
    shown = case.curve.scale.shown
    return tuple(
        PolicyRow(one.name, float(shown(np.array(one.score))), one.tested, one.meaning)
        for one in found.scores
    )


def made_of_blocks(trend: tuple[TrendTerm, ...], bands: tuple[Band, ...]) -> tuple[Block, ...]:
    """Return the trend and the bands, each under its heading."""
    blocks: list[Block] = []
    if trend:
        rows = [(t.name, number(t.coefficient, 4), number(t.standard_error, 2)) for t in trend]
        header = ("column", "coefficient", "standard error")
        caption = "Columns without a penalty, per unit of the column"
        blocks += [Heading("The trend"), table(caption, header, rows)]
        blocks.append(
            Text("Standard errors are those of generalised least squares, for Gaussian noise.")
        )
    if bands:
        rows = [(b.name, f"{100 * b.weight:.3g} %", number(b.loss)) for b in bands]
        header = ("band", "share of the kernel", "held-out R² lost without it")
        blocks += [Heading("Bands of columns"), table("Bands", header, rows)]
        blocks.append(
            Text("Bands with the same information share it: without either, little may be lost.")
        )
    return tuple(blocks)


def policies_table(policies: tuple[PolicyRow, ...], label: str, used: str) -> Table:
    """Return the policies side by side, at the penalty in use."""
    rows = [
        (p.name + " (in use)" * (p.name == used), number(p.score, 4), f"{p.tested:,}", p.meaning)
        for p in policies
    ]
    caption = f"{label} at the penalty in use"
    return table(caption, ("basis rows", label, "predictions", "what it estimates"), rows)
