"""How sure the headline is: an interval, what choosing the penalty did, and chance.

`ask_sureness` puts the three questions of `docs/how_sure.md` to a model; the dear ones only when
they were asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

from holdfast.answers.units import held_out_units
from holdfast.displays.curve_data import CVCurve
from holdfast.displays.score_scale import ScoreScale, number
from holdfast.exceptions import HoldfastError

if TYPE_CHECKING:
    from holdfast.estimators.base import CrossValidatedKernelRidge

__all__ = ["Ask", "Sureness", "ask_sureness", "chance_words", "sure_sentences", "work_of"]

LEVEL = 0.9
# Rows × features²: up to here random partitions are trained for the interval without being asked;
# basis rows that leave with their folds cost more.
_CHEAP, _CHEAP_BASIS, _PARTITIONS = 1.5e8, 2e7, 10
_OUTER = 10


@dataclass(frozen=True)
class Ask:
    """What to ask beyond the score itself.

    Attributes
    ----------
    level : float, optional
        Of the interval of the score, from many random partitions however long that takes. None:
        0.9, from partitions if that takes no time, else the asymptotic one.
    nested : bool
        Whether to choose the penalty again without the rows that are predicted.
    permutations : int
        How many permuted targets to try; 0 for none.
    seed : int
        Of partitions, folds and permutations.
    interval : float, optional
        Level of the intervals of single predictions; None: 0.9.
    seconds : float
        About how long everything may take; findings that would take longer are left out.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from holdfast import KernelRidgeCV
    >>> from holdfast.report import Ask, summarise
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelRidgeCV(gamma=10.0, alphas=[0.01, 0.1, 1.0, 10.0], cv=5).fit(X, y)
    >>> summary = summarise(model, verify=0, ask=Ask(permutations=99))
    >>> summary.sure.p_value
    0.01
    """

    level: float | None = None
    nested: bool = False
    permutations: int = 0
    seed: int = 0
    interval: float | None = None
    seconds: float = 60.0

    @property
    def patience(self) -> float:
        """How much longer than by default findings may take."""
        return self.seconds / 60.0


@dataclass(frozen=True)
class Sureness:
    """How sure the headline is, on the scale that it is shown in; NaN or None where not known.

    Attributes
    ----------
    level, low, high : float
        The interval of the score.
    method : str or None
        How the interval was made: "nested", "asymptotic", "corrected".
    units : str
        What counts as independent: "rows" or "groups".
    nested : float or None
        The score when the penalty is chosen without the rows that are predicted.
    outer : str
        The outer experiments in words.
    choices : tuple of float
        Smallest and largest penalty that the outer experiments chose.
    p_value : float or None
        Chance of a score as good from permuted targets.
    permutations : int
    null_best : float
        The best score of a permutation.
    permuted : str
        What was permuted: "rows" or "groups".
    not_asked : tuple of str
        Questions that nobody asked: options of the command line, or methods of the model.
    """

    level: float = LEVEL
    low: float = math.nan
    high: float = math.nan
    method: str | None = None
    units: str = "rows"
    nested: float | None = None
    outer: str = ""
    choices: tuple[float, ...] = ()
    p_value: float | None = None
    permutations: int = 0
    null_best: float = math.nan
    permuted: str = "rows"
    not_asked: tuple[str, ...] = ()


def work_of(model: CrossValidatedKernelRidge) -> float:
    """Return rows × features², what a fit is made of (features of a dense model: rows)."""
    m = int(model._problem.weights.size)
    if model._problem.on_basis:
        return float(m) * len(model.basis_indices_) ** 2
    d = int(getattr(model, "n_features_in_", m))
    return float(m) * (min(m, d) if model.kernel == "linear" else m) ** 2


def ask_sureness(
    model: CrossValidatedKernelRidge,
    curve: CVCurve,
    ask: Ask,
    notes: list[str],
    target: int = 0,
    shell: bool = False,
) -> Sureness:
    """Return how sure the score of a model is.

    Parameters
    ----------
    model : fitted estimator
    curve : CVCurve
        Of the model; it has the scale that scores are shown in.
    ask : Ask
    notes : list of str
        Is told what could not be answered, and why.
    target : int
        Which target, where each has a penalty of its own.
    shell : bool
        Whether to name what was not asked by options of the command line.
    """
    found: dict[str, Any] = {"level": ask.level or LEVEL}
    several = model._problem.Y.shape[1] > 1 and model._classes is None
    if not several or model.alpha_per_target:
        found |= _interval(model, curve.scale, ask, notes, target)
    if ask.nested:
        found |= _nested(model, curve.scale, ask, notes, target)
    if ask.permutations:
        found |= _chance(model, curve.scale, ask, notes, target)
    options = ("--nested", "--permutations 1000") if shell else ("nested", "permutation_test")
    asked = zip((ask.nested, ask.permutations > 0), options, strict=True)
    found["not_asked"] = tuple(option for done, option in asked if not done)
    return Sureness(**found)


def _interval(
    model: CrossValidatedKernelRidge,
    scale: ScoreScale,
    ask: Ask,
    notes: list[str],
    target: int,
) -> dict[str, Any]:
    level = ask.level or LEVEL
    reselects = model._problem.reselects
    most = _CHEAP_BASIS if model._problem.on_basis else _CHEAP
    cheap = work_of(model) <= most * ask.patience and not reselects
    tries: list[tuple[str, int]] = [("asymptotic", 1)]
    if ask.level is not None:
        tries = [("auto", 50), ("asymptotic", 1), ("corrected", 50)]
    elif cheap:
        tries = [("auto", _PARTITIONS), ("asymptotic", 1), ("corrected", _PARTITIONS)]
    trouble = ""
    for method, partitions in tries:
        try:
            interval = model.score_interval(
                level,
                method,  # type: ignore[arg-type]  # one of them
                n_partitions=partitions,
                random_state=ask.seed,
            )
        except HoldfastError as error:
            trouble = str(error)
            continue
        ends = [_of(v, target) for v in (interval.low, interval.high)]
        low, high = sorted(float(scale.shown(np.array(end))) for end in ends)
        if not (math.isfinite(low) and math.isfinite(high)):
            continue
        return {"low": low, "high": high, "method": interval.method, "units": interval.units}
    notes.append(f"No interval of the score: {trouble or 'it is not finite.'}")
    return {}


def _nested(
    model: CrossValidatedKernelRidge,
    scale: ScoreScale,
    ask: Ask,
    notes: list[str],
    target: int,
) -> dict[str, Any]:
    cv, outer = _outer(model, ask.seed)
    try:
        found = model.nested(cv)
    except HoldfastError as error:
        notes.append(f"No nested choice of the penalty: {error}")
        return {}
    alphas = found.alphas if found.alphas.ndim == 1 else found.alphas[:, target]
    return {
        "nested": float(scale.shown(np.array(_of(found.score(), target)))),
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


def _chance(
    model: CrossValidatedKernelRidge,
    scale: ScoreScale,
    ask: Ask,
    notes: list[str],
    target: int,
) -> dict[str, Any]:
    problem = model._problem
    m = problem.weights.size
    units = held_out_units(problem.experiments, problem.groups, m)
    whole = units is not None and _groups_can_swap(units, problem.Y)
    if units is not None and not whole:
        notes.append(
            "Rows were permuted one by one although groups were held out, because groups of one "
            "size are too few to change places: rows of a group that resemble each other make the "
            "chance look smaller than it is."
        )
    try:
        found = model.permutation_test(
            ask.permutations, random_state=ask.seed, groups=units if whole else None
        )
    except HoldfastError as error:
        notes.append(f"No permutation test: {error}")
        return {}
    null = found.null_scores if found.null_scores.ndim == 1 else found.null_scores[:, target]
    return {
        "p_value": float(_of(found.p_value, target)),
        "permutations": ask.permutations,
        "null_best": float(scale.shown(np.array(null.max()))),
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
            f"With λ chosen anew without the rows that are predicted ({sure.outer}, {chosen}) the "
            f"{label} is {number(sure.nested)} instead of {number(value)}."
        )
    if sure.p_value is not None:
        what = "whole groups of targets" if sure.permuted == "groups" else "targets"
        told.append(
            f"By luck: {what} were permuted {sure.permutations:,} times and λ chosen anew; the "
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
