"""How sure the headline is: an interval, what choosing the penalty did, and chance.

`ask_sureness` asks a model the three questions of `docs/how_sure.md`; the expensive ones only on
request.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

from holdfast.answers.units import held_out_units
from holdfast.displays.score_scale import number
from holdfast.exceptions import HoldfastError
from holdfast.report.blocks import Facts, facts
from holdfast.report.context import Case

if TYPE_CHECKING:
    from holdfast.estimators.base import CrossValidatedKernelRidge

__all__ = ["Sureness", "ask_sureness", "chance_words", "sure_facts", "sure_sentences"]

LEVEL = 0.9
# Rows × features²: up to here random partitions are trained for the interval without being asked;
# basis rows that leave with their folds cost more.
_CHEAP, _CHEAP_BASIS, _PARTITIONS = 1.5e8, 2e7, 10
_OUTER = 10
_WAYS = {
    "nested": "nested cross-validation in random partitions (Bates, Hastie and Tibshirani 2024)",
    "asymptotic": "the standard error over units, right for stable models and many of them (Bayle "
    "et al. 2020)",
    "corrected": "repeated splits with the variance corrected (Nadeau and Bengio 2003)",
}


@dataclass(frozen=True)
class Sureness:
    """How sure the headline is, on the scale that it is shown in; NaN or None where not known."""

    level: float = LEVEL  #: The interval of the score
    low: float = math.nan
    high: float = math.nan
    method: str | None = None  #: How the interval was made: "nested", "asymptotic", "corrected"
    units: str = "rows"  #: What counts as independent: "rows" or "groups"
    #: The score when the penalty is chosen without the rows that are predicted
    nested: float | None = None
    outer: str = ""  #: The outer experiments in words
    #: Smallest and largest penalty that the outer experiments chose
    choices: tuple[float, ...] = ()
    p_value: float | None = None  #: Chance of a score as good from permuted targets
    permutations: int = 0
    null_best: float = math.nan  #: The best score of a permutation
    permuted: str = "rows"  #: What was permuted: "rows" or "groups"
    #: Questions that were not asked: options of the command line, or methods of the model
    not_asked: tuple[str, ...] = ()


def ask_sureness(case: Case) -> Sureness:
    """Return how sure the score of a model is."""
    model, ask = case.model, case.ask
    found: dict[str, Any] = {"level": ask.level or LEVEL}
    several = model._problem.Y.shape[1] > 1 and not case.classifies
    if not several or model.alpha_per_target:
        found |= _interval(case)
    if ask.nested:
        found |= _nested(case)
    if ask.permutations:
        found |= _chance(case)
    shell = case.context.shell
    options = ("--nested", "--permutations 1000") if shell else ("nested", "permutation_test")
    asked = zip((ask.nested, ask.permutations > 0), options, strict=True)
    found["not_asked"] = tuple(option for done, option in asked if not done)
    return Sureness(**found)


def _interval(case: Case) -> dict[str, Any]:
    ask, problem = case.ask, case.model._problem
    most = _CHEAP_BASIS if problem.on_basis else _CHEAP
    partitions = 50 if ask.level is not None else _PARTITIONS
    tries = [("auto", partitions), ("asymptotic", 1), ("corrected", partitions)]
    if ask.level is None and (case.work > most * ask.patience or problem.reselects):
        tries = [("asymptotic", 1)]
    trouble = ""
    for method, count in tries:
        try:
            interval = case.model.score_interval(
                ask.level or LEVEL,
                method,  # type: ignore[arg-type]  # one of them
                n_partitions=count,
                random_state=ask.seed,
            )
        except HoldfastError as error:
            trouble = str(error)
            continue
        low, high = sorted(_shown(case, end) for end in (interval.low, interval.high))
        if math.isfinite(low) and math.isfinite(high):
            return {"low": low, "high": high, "method": interval.method, "units": interval.units}
    case.notes.append(f"No interval of the score: {trouble or 'it is not finite.'}")
    return {}


def _nested(case: Case) -> dict[str, Any]:
    cv, outer = _outer(case.model, case.ask.seed)
    try:
        found = case.model.nested(cv)
    except HoldfastError as error:
        case.refused("No nested choice of the penalty", error)
        return {}
    alphas = found.alphas if found.alphas.ndim == 1 else found.alphas[:, case.target]
    return {
        "nested": _shown(case, found.score()),
        "outer": outer,
        "choices": (float(alphas.min()), float(alphas.max())),
    }


def _outer(model: CrossValidatedKernelRidge, seed: int) -> tuple[Any, str]:
    """Return outer experiments like those of the fit, at most some ten, and their name."""
    problem = model._problem
    if model.cv is not None and not isinstance(model.cv, int) and len(problem.experiments) <= 20:
        return model.cv, "the same experiments outside"
    units = held_out_units(problem.experiments, problem.groups, problem.weights.size)
    if units is not None:
        folds = min(_OUTER, int(units.max()) + 1)
        return GroupKFold(folds), f"{folds} outer folds of whole groups"
    kind = KFold if model._classes is None else StratifiedKFold
    return kind(_OUTER, shuffle=True, random_state=seed), f"{_OUTER} outer folds"


def _chance(case: Case) -> dict[str, Any]:
    problem, ask = case.model._problem, case.ask
    units = held_out_units(problem.experiments, problem.groups, problem.weights.size)
    whole = units is not None and _groups_can_swap(units, problem.Y)
    if units is not None and not whole:
        case.notes.append(
            "Rows were permuted one by one although groups were held out, because groups of one "
            "size are too few to change places: rows of a group that resemble each other make the "
            "chance look smaller than it is."
        )
    try:
        found = case.model.permutation_test(
            ask.permutations, random_state=ask.seed, groups=units if whole else None
        )
    except HoldfastError as error:
        case.refused("No permutation test", error)
        return {}
    null = np.atleast_2d(found.null_scores.T)
    return {
        "p_value": _of(found.p_value, case.target),
        "permutations": ask.permutations,
        "null_best": _shown(case, null.max(axis=1)),
        "permuted": "groups" if whole else "rows",
    }


def _groups_can_swap(units: Any, Y: Any) -> bool:
    """Whether whole groups can change places: constant targets, or many groups of one size."""
    sizes = np.bincount(units)
    first = np.unique(units, return_index=True)[1]
    if bool((Y[first][units] == Y).all()):
        return True
    mates = np.bincount(sizes)[sizes]
    return bool(np.mean(mates >= 5) >= 0.8)


def _of(value: Any, target: int) -> float:
    array = np.atleast_1d(np.asarray(value, dtype=float))
    return float(array[min(target, array.size - 1)])


def _shown(case: Case, score: Any) -> float:
    return float(case.curve.scale.shown(np.array(_of(score, case.target))))


def sure_sentences(sure: Sureness, label: str, value: float) -> list[str]:
    """Return what the choice of the penalty did to the score, and what chance would do.

    Parameters
    ----------
    sure : Sureness
    label : str
        What the score is.
    value : float
        The score of the model, as it is shown.
    """
    told = []
    if sure.nested is not None:
        low, high = (number(a, 2) for a in sure.choices)
        chosen = f"λ = {low} every time" if low == high else f"λ between {low} and {high}"
        told.append(
            f"With λ chosen again without the rows that are predicted ({sure.outer}, {chosen}) the "
            f"{label} is {number(sure.nested)} instead of {number(value)}."
        )
    if sure.p_value is not None:
        what = "whole groups of targets" if sure.permuted == "groups" else "targets"
        told.append(
            f"By luck: {what} were permuted {sure.permutations:,} times and λ chosen again; the "
            f"chance of doing as well is {chance_words(sure)} (best of them: {label} "
            f"{number(sure.null_best)})."
        )
    return told


def chance_words(sure: Sureness) -> str:
    """Return the chance of doing as well by luck; the least that permutations can show as such."""
    assert sure.p_value is not None
    least = 1 / (1 + sure.permutations)
    mark = "at most " if sure.p_value <= least * (1 + 1e-9) else ""
    return f"{mark}{number(sure.p_value, 2)}"


def sure_facts(sure: Sureness) -> Facts:
    """Return how the interval, the nested choice and the chance were found."""
    return facts(
        [
            ("Interval", f"{_WAYS[sure.method]}; independent units: {sure.units}")
            if sure.method
            else ("Interval", ""),
            ("λ chosen again", sure.outer),
            (
                "Luck",
                f"{sure.permutations:,} permutations of {sure.permuted}" if sure.p_value else "",
            ),
            ("Not asked", ", ".join(sure.not_asked)),
        ]
    )
