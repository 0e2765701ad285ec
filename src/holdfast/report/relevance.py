"""Which columns does the model use? How far the held-out error rises when one is shuffled."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtrit

from holdfast._typing import FloatArray
from holdfast.answers.units import held_out_units
from holdfast.displays.score_scale import number
from holdfast.exceptions import HoldfastError, InvalidInputError
from holdfast.report.markup import table, tag
from holdfast.report.parts import Section, figure_element, section
from holdfast.report.plots import Figure, escape, figure, numbers
from holdfast.report.shuffling import plan_shuffle, rises, shuffled_losses
from holdfast.report.sure import Ask
from holdfast.report.words import left_out

if TYPE_CHECKING:
    from holdfast.estimators.base import CrossValidatedKernelRidge
    from holdfast.estimators.results import HeldOutPredictions

__all__ = [
    "MEANING",
    "Relevance",
    "ask_relevance",
    "relevance_figure",
    "relevance_header",
    "relevance_rows",
    "relevance_section",
    "relevance_title",
    "relevance_words",
]

#: Of the intervals. They are over rows, or groups, as if the models were given; but the rows train
#: each other's models. Hence such a high level, at which about this share of columns that mean
#: nothing looks relevant.
LEVEL, BY_CHANCE = 0.99, 0.025
#: Rises, as shares of the error: what stays below, doubt included, does not matter; what is below
#: is rounding.
NEGLIGIBLE, ROUNDING = 0.01, 1e-9
#: Columns that are drawn, and that are asked about.
MAX_SHOWN, MAX_ASKED = 25, 2000
MEANING = (
    "This is what the model uses to predict, not what causes the target. Columns that tell the "
    "same share their relevance: each may look small although the model needs one of them."
)


@dataclass(frozen=True, eq=False)
class Relevance:
    """How far the held-out error rises when the values of a column change rows.

    Attributes
    ----------
    noun : str
        What is shuffled: "column" of a file, or "feature" of the model.
    names : tuple of str
        The largest rise first.
    rise, standard_error : ndarray of shape (n,)
    low, high : ndarray of shape (n,)
        Of the rise, a 99 % interval.
    verdicts : tuple of str
        "relevant": the interval lies above zero. "irrelevant": it ends below 1 % of the error.
        "cannot be told": neither.
    error : float
        The error as it is, on the rows that were shuffled.
    label : str
        What the error is: "RMSE" or "share of errors".
    unit : str
        What counts as independent: "rows" or "groups".
    shuffled, predictions : int
        How many held-out predictions were looked at, and how many there are.
    shuffles : int
        How often each column was shuffled.
    """

    noun: str
    names: tuple[str, ...]
    rise: FloatArray
    standard_error: FloatArray
    low: FloatArray
    high: FloatArray
    verdicts: tuple[str, ...]
    error: float
    label: str
    unit: str
    shuffled: int
    predictions: int
    shuffles: int


def ask_relevance(
    model: CrossValidatedKernelRidge,
    held: HeldOutPredictions,
    names: Sequence[str],
    sources: Sequence[str] | None,
    notes: list[str],
    ask: Ask | None = None,
    target: int = 0,
    shell: bool = False,
) -> Relevance | None:
    """Return how far the held-out error rises when each column is shuffled.

    Parameters
    ----------
    model : fitted estimator
    held : HeldOutPredictions
        Of the model's own experiments, at one penalty.
    names : sequence of str
        Of the features.
    sources : sequence of str or None
        The column that each feature came from: its features are shuffled together. None: each
        feature by itself.
    notes : list of str
        Is told why there is no answer.
    ask : Ask, optional
        The seed of the shuffles, and of the rows where not all are taken; the time there is.
    target : int
        Which of several targets.
    shell : bool
        Whether the reader uses the command line.
    """
    problem = model._problem
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
    ask = ask or Ask()
    if len(features) > MAX_ASKED:
        notes.append(
            f'Left out: "which columns does the model use?" Of {len(features):,} columns some '
            f"would look relevant by chance; up to {MAX_ASKED:,} are asked about."
        )
        return None
    shuffle = plan_shuffle(model, features, ask.seed, ask.patience)
    if shuffle is None:
        notes.append(left_out('"which columns does the model use?"', shell))
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            before, after = shuffled_losses(model, held, shuffle, target)
    except HoldfastError as trouble:
        notes.append(f"It is not known which columns the model uses: {trouble}")
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
    return "irrelevant" if high <= NEGLIGIBLE * error else "cannot be told"


def relevance_title(found: Relevance) -> str:
    """Return the heading."""
    return f"Which {found.noun}s does the model use?"


def relevance_words(found: Relevance) -> str:
    """Return what matters most, and how many columns matter at all."""
    top = (
        f"When the values of {found.names[0]} change rows, the {found.label} of held-out rows "
        f"rises from {number(found.error)} to {number(found.error + float(found.rise[0]))}"
    )
    if "relevant" not in found.verdicts:
        top = f"No {found.noun} raises the {found.label} beyond doubt when its values change rows"
    elif len(found.names) > 1:
        top += f", more than for any other {found.noun}"
    counts = (
        f"{verdict}: {found.verdicts.count(verdict):,}"
        for verdict in ("relevant", "irrelevant", "cannot be told")
    )
    return f"{top}. Of {len(found.names):,} {found.noun}s, {', '.join(counts)}."


def relevance_header(found: Relevance) -> tuple[str, ...]:
    """Return the heads of the table."""
    return found.noun, f"{found.label} rises by", "standard error", "99 % interval", "verdict"


def relevance_rows(found: Relevance) -> list[tuple[str, ...]]:
    """Return the rows of the table."""
    numbers_of = zip(found.rise, found.standard_error, found.low, found.high, strict=True)
    return [
        (name, number(rise), number(se, 2), f"{number(low)} to {number(high)}", verdict)
        for name, (rise, se, low, high), verdict in zip(
            found.names, numbers_of, found.verdicts, strict=True
        )
    ]


def relevance_figure(found: Relevance) -> Figure:
    """Return one bar per column with its interval, the largest rise on top."""
    shown = slice(min(MAX_SHOWN, len(found.names)) - 1, None, -1)
    rise, reach = found.rise[shown], (found.high - found.rise)[shown]
    verdicts = found.verdicts[shown]
    trace = {
        "type": "bar",
        "orientation": "h",
        # Two columns of one long name stay two bars: they are told apart by their places.
        "y": list(range(rise.size)),
        "x": numbers(rise),
        "text": [escape(name) for name in found.names[shown]],
        "textposition": "none",
        "customdata": list(verdicts),
        "error_x": {
            "type": "data",
            "array": numbers(reach),
            "width": 3,
            "thickness": 1.5,
            "color": "@text",
        },
        "marker": {"color": ["@accent" if v == "relevant" else "@muted" for v in verdicts]},
        "hovertemplate": "%{text}<br>%{x:+.4g}: %{customdata}<extra></extra>",
    }
    names = [escape(n if len(n) <= 20 else n[:19] + "…") for n in found.names[shown]]
    axis = {"tickvals": list(range(rise.size)), "ticktext": names, "automargin": True}
    made = figure([trace], {"title": {"text": f"rise of the {found.label}"}}, axis)
    made["layout"]["height"] = 120 + 22 * max(rise.size, 4)
    return made


def relevance_section(found: Relevance) -> Section:
    """Return the section on what the model uses."""
    whole = found.shuffled == found.predictions
    of = "all" if whole else f"{found.shuffled:,} of {found.predictions:,}"
    told = (
        f"Rise of the {found.label} when a {found.noun} is shuffled among held-out rows, each "
        f"predicted by the model that never saw it: {found.shuffles} shuffles of {of} held-out "
        f"predictions, 99 % intervals over {found.unit}, the models taken as they are."
    )
    if by_chance := round(len(found.names) * BY_CHANCE):
        told += f" Of so many {found.noun}s, about {by_chance:,} would look relevant by chance."
    if len(found.names) > MAX_SHOWN:
        told += f" The {MAX_SHOWN} largest of {len(found.names):,} are drawn."
    heading = f"Rise of the {found.label} by {found.noun}"
    return section(
        "relevance",
        relevance_title(found),
        tag("p", relevance_words(found)),
        figure_element(
            "relevance",
            f"{heading}. {relevance_words(found)}",
            told,
            table(heading, relevance_header(found), relevance_rows(found)),
        ),
        tag("p", MEANING),
    )
