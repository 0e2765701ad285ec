"""The summary: everything a report says, as plain frozen data.

`summarise` asks a fitted model once; `Summary` then renders as JSON (`to_json`), Markdown and
HTML (`holdfast.report.markdown`, `holdfast.report.page`) without asking again.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast._typing import FloatArray
from holdfast.displays.curve_data import CVCurve
from holdfast.report.rows import PartScore

if TYPE_CHECKING:
    from holdfast.report.classes import ClassCurve
    from holdfast.report.growth import Growth
    from holdfast.report.linked import Linked
    from holdfast.report.moments import OverTime
    from holdfast.report.relevance import Relevance
    from holdfast.report.spread import Coverage
    from holdfast.report.sure import Sureness
    from holdfast.tables.account import ColumnAccount
    from holdfast.tables.inside import InsideOut

__all__ = [
    "Asked",
    "Certificate",
    "Confusion",
    "Contrast",
    "HardRow",
    "Headline",
    "Leverage",
    "PathCost",
    "PlanTable",
    "Repeat",
    "RowSample",
    "Summary",
]


#: Share of errors of naming the most frequent class, below which accuracy misleads.
UNEVEN = 0.25


@dataclass(frozen=True)
class Asked:
    """What was asked.

    Attributes
    ----------
    task : str
        "regression" or "classification".
    rows, features : int
        Size of the data.
    target : str
        Name of the target.
    feature_names : tuple of str
        Names of the features.
    group : str or None
        Name of the grouping, and `n_groups` how many there are.
    n_groups : int
        Number of groups; 0 without.
    weighted : bool
        Whether rows have weights.
    kernel, basis, cv, policy, grid, metric : str
        The model and the experiments in words.
    experiments : int
        How many.
    preparation : tuple of str
        What was done to the columns before, one sentence each.
    """

    task: str
    rows: int
    features: int
    target: str
    feature_names: tuple[str, ...]
    group: str | None
    n_groups: int
    weighted: bool
    kernel: str
    basis: str
    cv: str
    policy: str
    grid: str
    metric: str
    experiments: int
    preparation: tuple[str, ...] = ()


@dataclass(frozen=True)
class Headline:
    """The answer in numbers.

    Attributes
    ----------
    label : str
        What `value` is, for instance RMSE.
    value, se : float
        Held-out error or score at the chosen penalty, and its standard error (NaN: unknown).
    lower_is_better : bool
        Whether it is an error.
    error_label : str
        What `error` is: RMSE or share of errors, whatever the scoring.
    error, baseline : float
        That error of the model, and of a model without features in the same experiments.
    skill : float
        1 − (error/baseline)² for regression, 1 − error/baseline for classes: 1 is perfect, 0 is
        no better than knowing no features, below 0 is worse.
    alpha : float
        The chosen penalty.
    balanced : float or None
        Mean over the classes of the share of their rows that is right; None for regression.
    """

    label: str
    value: float
    se: float
    lower_is_better: bool
    error_label: str
    error: float
    baseline: float
    skill: float
    alpha: float
    balanced: float | None = None

    @property
    def uneven(self) -> bool:
        """Whether one class is so frequent that naming it always would look good."""
        return self.balanced is not None and self.baseline < UNEVEN


@dataclass(frozen=True)
class Contrast:
    """What another way of holding out says of the same model class on the same data.

    Attributes
    ----------
    name : str
        The way of holding out.
    error : float
        Its error, at the penalty it would choose itself.
    alpha : float
        That penalty.
    asked : bool
        Whether this is the way that was asked for.
    truth : bool
        Whether it is known from new rows: of made-up data.
    """

    name: str
    error: float
    alpha: float
    asked: bool
    truth: bool = False


@dataclass(frozen=True, eq=False)
class RowSample:
    """Held-out predictions for the plots: all rows, or a regular part of many.

    Attributes
    ----------
    row : ndarray of int
    y, prediction : ndarray
        Numbers, or texts for classes.
    group : tuple of str
        Group of each row; empty without groups.
    total : int
        How many predictions there are in all.
    """

    row: NDArray[np.int64]
    y: NDArray[Any]
    prediction: NDArray[Any]
    group: tuple[str, ...]
    total: int


@dataclass(frozen=True)
class Confusion:
    """Held-out predictions of a classifier: counts[i][j] rows of class i called class j."""

    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class Leverage:
    """Distribution of the leverages S_ii.

    Attributes
    ----------
    edges, counts : ndarray
        A histogram.
    effective_parameters : float
        Their sum.
    largest : float
        The largest.
    """

    edges: FloatArray
    counts: NDArray[np.int64]
    effective_parameters: float
    largest: float


@dataclass(frozen=True)
class HardRow:
    """A row that the models which never saw it predict badly."""

    row: int
    group: str | None
    y: float | str
    prediction: float | str
    error: float
    leverage: float


@dataclass(frozen=True)
class PathCost:
    """Estimated cost of one path of the planner."""

    path: str
    seconds: float
    ratio: float
    megabytes: float
    taken: bool


@dataclass(frozen=True)
class PlanTable:
    """The plan: sizes that decided, the costs of every path, and why one was taken."""

    facts: tuple[tuple[str, str], ...]
    costs: tuple[PathCost, ...]
    why: str


@dataclass(frozen=True)
class Certificate:
    """What `verify` found.

    Attributes
    ----------
    experiments, alphas : int
        How many experiments were retrained, at how many penalties.
    chosen_relative_error, max_relative_error : float
        The largest deviation of a fast prediction from a retrained one, at the chosen penalty and
        at any.
    seed : int
        Seed of the draw of experiments.
    verified : bool
        Whether the deviations are small enough.
    words : str
        The same in a sentence or two.
    """

    experiments: int
    alphas: int
    chosen_relative_error: float
    max_relative_error: float
    seed: int
    verified: bool
    words: str


@dataclass(frozen=True)
class Repeat:
    """How to do it again.

    Attributes
    ----------
    command : str or None
        The command line.
    versions : tuple of (str, str)
        Libraries.
    seed : int
        Seed of the choice of basis rows.
    data : str or None
        The file.
    checksum : str or None
        Its sha256.
    """

    command: str | None
    versions: tuple[tuple[str, str], ...]
    seed: int
    data: str | None
    checksum: str | None


@dataclass(frozen=True, eq=False)
class Summary:
    """Everything a report says.

    Attributes
    ----------
    title : str
    asked : Asked
    answer : tuple of str
        The answer in sentences, the first of them the answer in one.
    headline : Headline
    curve : CVCurve
        Held-out error over the penalties.
    policies : dict of str to CVCurve
        Curves with held-out basis rows kept and removed; empty for a dense model.
    contrasts : tuple of Contrast
        Other ways of holding out; empty without groups.
    rows : RowSample
    folds, groups : tuple of PartScore
        Worst first; empty where there are none (or too many to show one by one).
    confusion : Confusion or None
    leverage : Leverage
    hardest : tuple of HardRow
    plan : PlanTable
    certificate : Certificate or None
    repeat : Repeat
    warnings : tuple of str
    columns : tuple of ColumnAccount
        How each column of the data was read; empty if the data were no table.
    notes : tuple of str
        What may be wrong with the data or the question.
    inside : InsideOut or None
        What changes when the preparation is learned inside the training rows.
    sure : Sureness or None
        How sure the headline is.
    linked : Linked or None
        What the slider of the page moves; not part of the JSON.
    coverage : Coverage or None
        Intervals of held-out predictions; None for classes.
    classes : tuple of ClassCurve
        Curves of each class; empty for a regression.
    growth : dict of str to Growth
        "growth" over the number of rows or groups, "basis" over that of basis rows.
    time : OverTime or None
        Residuals over time.
    relevance : Relevance or None
        Which columns the model uses.
    shell : bool
        Whether the reader uses the command line: the report then speaks of options.
    """

    title: str
    asked: Asked
    answer: tuple[str, ...]
    headline: Headline
    curve: CVCurve
    policies: dict[str, CVCurve]
    contrasts: tuple[Contrast, ...]
    rows: RowSample
    folds: tuple[PartScore, ...]
    groups: tuple[PartScore, ...]
    confusion: Confusion | None
    leverage: Leverage
    hardest: tuple[HardRow, ...]
    plan: PlanTable
    certificate: Certificate | None
    repeat: Repeat
    warnings: tuple[str, ...]
    columns: tuple[ColumnAccount, ...] = ()
    notes: tuple[str, ...] = ()
    inside: InsideOut | None = None
    sure: Sureness | None = None
    linked: Linked | None = None
    coverage: Coverage | None = None
    classes: tuple[ClassCurve, ...] = ()
    growth: dict[str, Growth] = field(default_factory=dict)
    time: OverTime | None = None
    relevance: Relevance | None = None
    shell: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the summary in JSON's types; numbers that JSON lacks become None."""
        plain = _plain(self)
        assert isinstance(plain, dict)
        plain["curve"]["edge"] = self.curve.edge
        del plain["linked"]
        return {"summary_version": 1, **plain}

    def to_json(self) -> str:
        """Return the summary as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.tolist()]
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
