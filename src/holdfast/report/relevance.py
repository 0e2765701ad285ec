"""Which columns does the model use? How far the held-out error rises when one is shuffled."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from holdfast._typing import FloatArray
from holdfast.answers.units import held_out_units
from holdfast.displays.score_scale import number
from holdfast.exceptions import HoldfastError, InvalidInputError
from holdfast.report.blocks import Chart, Section, Text, table
from holdfast.report.charts import Figure, bars
from holdfast.report.context import Case, feature_names
from holdfast.report.shuffling import plan_shuffle, rises, shuffled_losses

__all__ = ["Relevance", "ask_relevance", "relevance_section"]

#: Of the intervals. They are over rows, or groups, as if the models were given; but the rows train
#: each other's models. Hence such a high level, at which about this share of columns that mean
#: nothing looks relevant.
LEVEL, BY_CHANCE = 0.99, 0.025
#: Rises, as shares of the error: what stays below, uncertainty included, does not matter; what is
#: below is rounding.
NEGLIGIBLE, ROUNDING = 0.01, 1e-9
#: Columns that are drawn, and that are asked about.
MAX_SHOWN, MAX_ASKED = 25, 2000
MEANING = (
    "This is what the model uses to predict, not what causes the target. Columns with the same "
    "information share their relevance: each may look small although the model needs one of them."
)


@dataclass(frozen=True, eq=False)
class Relevance:
    """How far the held-out error rises when the values of a column change rows."""

    noun: str  #: What is shuffled: "column" of a file, or "feature" of the model
    names: tuple[str, ...]  #: The largest rise first
    rise: FloatArray
    standard_error: FloatArray
    low: FloatArray  #: Of the rise, a 99 % interval
    high: FloatArray
    #: "relevant": the interval lies above zero. "irrelevant": it ends below 1 % of the error.
    #: "unclear": neither
    verdicts: tuple[str, ...]
    error: float  #: The error as it is, on the rows that were shuffled
    label: str  #: What the error is: "RMSE" or "share of errors"
    unit: str  #: What counts as independent: "rows" or "groups"
    shuffled: int  #: How many held-out predictions were looked at, and how many there are
    predictions: int
    shuffles: int  #: How often each column was shuffled


def ask_relevance(case: Case) -> Relevance | None:
    """Return how far the held-out error rises when each column is shuffled."""
    model, held, ask, problem = case.model, case.held, case.ask, case.model._problem
    names, sources = feature_names(case), case.context.sources
    if model.kernel == "precomputed" or not isinstance(problem.X, np.ndarray):
        return None  # there are no columns, or they are elsewhere
    if problem.X.ndim != 2 or np.count_nonzero(problem.weights[held.rows]) < 4:
        return None
    d = problem.X.shape[1]
    keys = names if len(names) == d else [f"x{j}" for j in range(d)]
    features = [np.array([j]) for j in range(d)]
    if sources is not None:
        if len(sources) != d:
            raise InvalidInputError(
                f"sources must name the column of each of {d:,} features; it has {len(sources):,} "
                "names. Leave it out to look at each feature by itself.",
                argument="sources",
            )
        places: dict[str, list[int]] = {}
        for j, key in enumerate(sources):
            places.setdefault(key, []).append(j)
        keys, features = list(places), [np.array(found) for found in places.values()]
    if len(features) > MAX_ASKED:
        case.notes.append(
            f'Left out: "which columns does the model use?" Of {len(features):,} columns some '
            f"would look relevant by chance; up to {MAX_ASKED:,} are asked about."
        )
        return None
    shuffle = plan_shuffle(model, features, ask.seed, ask.patience)
    if shuffle is None:
        case.left_out('"which columns does the model use?"')
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            before, after = shuffled_losses(model, held, shuffle, case.target)
    except HoldfastError as trouble:
        case.refused("It is not known which columns the model uses", trouble)
        return None
    units = held_out_units(problem.experiments, problem.groups, problem.weights.size)
    groups = shuffle.rows if units is None else units[shuffle.rows]
    unit = np.unique(groups, return_inverse=True)[1]
    root = held.classes is None
    error, rise, se = rises(before, after, problem.weights[shuffle.rows], unit, root=root)
    reach = float(stdtrit(max(1, int(unit.max())), (1 + LEVEL) / 2)) * se
    by = np.argsort(-rise, kind="stable")
    rise, se, low, high = rise[by], se[by], (rise - reach)[by], (rise + reach)[by]
    return Relevance(
        noun="feature" if sources is None else "column",
        names=tuple(str(keys[j]) for j in by),
        rise=rise,
        standard_error=se,
        low=low,
        high=high,
        verdicts=tuple(_verdict(*ends, error) for ends in zip(low, high, strict=True)),
        error=error,
        label="RMSE" if root else "share of errors",
        unit="rows" if units is None else "groups",
        shuffled=shuffle.rows.size,
        predictions=int(np.count_nonzero(problem.weights[held.rows])),
        shuffles=len(shuffle.donors),
    )


def _verdict(low: float, high: float, error: float) -> str:
    if low > ROUNDING * error:
        return "relevant"
    return "irrelevant" if high <= NEGLIGIBLE * error else "unclear"


def relevance_section(found: Relevance) -> Section:
    """Return what the model uses."""
    told = _words(found)
    whole = found.shuffled == found.predictions
    of = "all" if whole else f"{found.shuffled:,} of {found.predictions:,}"
    caption = (
        f"Rise of the {found.label} when a {found.noun} is shuffled among held-out rows, each "
        f"predicted by the model that never saw it: {found.shuffles} shuffles of {of} held-out "
        f"predictions, 99 % intervals over {found.unit}, the models taken as they are."
    )
    if by_chance := round(len(found.names) * BY_CHANCE):
        caption += f" Of so many {found.noun}s, about {by_chance:,} would look relevant by chance."
    if len(found.names) > MAX_SHOWN:
        caption += f" The {MAX_SHOWN} largest of {len(found.names):,} are drawn."
    heading = f"Rise of the {found.label} by {found.noun}"
    header = (found.noun, f"{found.label} rises by", "standard error", "99 % interval", "verdict")
    values = zip(found.rise, found.standard_error, found.low, found.high, strict=True)
    rows = [
        (name, number(rise), number(se, 2), f"{number(low)} to {number(high)}", verdict)
        for name, (rise, se, low, high), verdict in zip(
            found.names, values, found.verdicts, strict=True
        )
    ]
    chart = Chart(
        "relevance", _figure(found), f"{heading}. {told}", caption, table(heading, header, rows)
    )
    title = f"Which {found.noun}s does the model use?"
    return Section("relevance", title, (Text(told), chart, Text(MEANING)))


def _words(found: Relevance) -> str:
    """Return what matters most, and how many columns matter at all."""
    some = "" if found.shuffled == found.predictions else f"{found.shuffled:,} "
    top = (
        f"When the values of {found.names[0]} change rows, the {found.label} of {some}held-out "
        f"rows rises from {number(found.error)} to {number(found.error + float(found.rise[0]))}"
    )
    if "relevant" not in found.verdicts:
        top = f"No {found.noun} clearly raises the {found.label} when its values change rows"
    elif len(found.names) > 1:
        top += f", more than for any other {found.noun}"
    counts = (
        f"{verdict}: {found.verdicts.count(verdict):,}"
        for verdict in ("relevant", "irrelevant", "unclear")
    )
    return f"{top}. Of {len(found.names):,} {found.noun}s, {', '.join(counts)}."


def _figure(found: Relevance) -> Figure:
    """Return one bar per column with its interval, the largest rise on top."""
    top = slice(MAX_SHOWN)
    verdicts = found.verdicts[top]
    return bars(
        found.names[top],
        found.rise[top],
        f"rise of the {found.label}",
        low=found.low[top],
        high=found.high[top],
        colour=["@accent" if v == "relevant" else "@muted" for v in verdicts],
        customdata=list(verdicts),
        hover="%{text}<br>%{x:+.4g}: %{customdata}",
    )
