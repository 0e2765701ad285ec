"""The summary: everything a report says, asked of the model once.

`summarise` asks; a `Summary` is plain frozen data, and JSON as it is (`to_json`). `sections` puts
it in blocks, which the page, the Markdown and the terminal show.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.data.archive import library_versions
from holdfast.displays.curve_data import CVCurve
from holdfast.report import answer as answers
from holdfast.report import checks, penalty, where
from holdfast.report.answer import Asked, Contrast, Headline
from holdfast.report.blocks import Slider
from holdfast.report.classes import (
    ClassCurve,
    Probabilities,
    ask_classes,
    ask_probabilities,
)
from holdfast.report.context import Ask, Context, make_case
from holdfast.report.growth import Growth, ask_basis_growth, ask_growth
from holdfast.report.made_of import (
    Band,
    PolicyRow,
    TrendTerm,
    ask_bands,
    ask_policies,
    ask_trend,
)
from holdfast.report.moments import OverTime, ask_time
from holdfast.report.relevance import Relevance, ask_relevance
from holdfast.report.rows import PartScore
from holdfast.report.spread import Coverage, ask_coverage
from holdfast.report.sure import Sureness, ask_sureness

if TYPE_CHECKING:
    from holdfast.estimators.base import CrossValidatedKernelRidge
    from holdfast.holdout.plan import Plan
    from holdfast.tables.account import ColumnAccount
    from holdfast.tables.inside import InsideOut

__all__ = ["Summary", "summarise"]


@dataclass(frozen=True, eq=False)
class Summary:
    """Everything a report says."""

    title: str
    asked: Asked
    answer: tuple[str, ...]  #: The answer in sentences, the first of them the answer in one
    headline: Headline
    curve: CVCurve  #: Held-out error over the penalties
    #: The score by what happens to held-out basis rows; empty for a dense model
    policies: tuple[PolicyRow, ...]
    contrasts: tuple[Contrast, ...]  #: Other ways of holding out; empty without groups
    rows: where.RowSample
    #: Worst first; empty where there are none (or too many to show one by one)
    folds: tuple[PartScore, ...]
    groups: tuple[PartScore, ...]
    confusion: where.Confusion | None
    leverage: where.Leverage
    hardest: tuple[where.HardRow, ...]
    plan: Plan  #: What each way to the held-out predictions costs, and which one was taken
    certificate: checks.Certificate | None
    repeat: checks.Repeat
    warnings: tuple[str, ...]
    #: How each column of the data was read; empty if the data were no table
    columns: tuple[ColumnAccount, ...] = ()
    notes: tuple[str, ...] = ()  #: What may be wrong with the data or the question
    #: What changes when the preparation is learned inside the training rows
    inside: InsideOut | None = None
    sure: Sureness | None = None  #: How sure the headline is
    slider: Slider | None = None  #: What the slider of the page moves; not part of the JSON
    coverage: Coverage | None = None  #: Intervals of held-out predictions; None for classes
    classes: tuple[ClassCurve, ...] = ()  #: Curves of each class; empty for a regression
    probabilities: Probabilities | None = None  #: What calibration did, if the model has one
    trend: tuple[TrendTerm, ...] = ()  #: Coefficients of columns without a penalty
    bands: tuple[Band, ...] = ()  #: Kernels of several bands of columns
    #: "growth" over the number of rows or groups, "basis" over that of basis rows
    growth: dict[str, Growth] = field(default_factory=dict)
    time: OverTime | None = None  #: Residuals over time
    relevance: Relevance | None = None  #: Which columns the model uses
    #: Whether the reader uses the command line: the report then speaks of options
    shell: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the summary in JSON's types; numbers that JSON lacks become None."""
        plain = _plain(self)
        assert isinstance(plain, dict)
        plain["curve"]["edge"] = self.curve.edge
        del plain["slider"]
        return {"summary_version": 3, **plain}

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


def summarise(
    model: CrossValidatedKernelRidge,
    context: Context | None = None,
    *,
    contrast: bool = True,
    verify: int | None = None,
    target: int = 0,
    ask: Ask | None = None,
) -> Summary:
    """Return everything a report says about a fitted model.

    Parameters
    ----------
    model : fitted KernelRidgeCV or KernelRidgeClassifierCV
    context : Context, optional
        Names and provenance.
    contrast : bool, default True
        Whether to ask, when the model was fitted with groups, what other ways of holding out
        (leave-one-out, leave-one-group-out) would have said.
    verify : int, optional
        How many experiments to retrain for the certificate; 0 for none. None: five, or fewer where
        that would take long.
    target : int, default 0
        Which of several targets the rows, parts and errors are of.
    ask : Ask, optional
        How sure the score is: level of its interval, nested choice, permutations.
    """
    case = make_case(model, context, ask, target)
    context = case.context
    asked, head = answers.ask_asked(case), answers.ask_headline(case)
    contrasts = answers.ask_contrasts(case, asked) if contrast else ()
    sure = ask_sureness(case)
    leverage, groups = model._leverages(), where.ask_groups(case)
    growth = {"growth": ask_growth(case), "basis": ask_basis_growth(case)}
    problem = model._problem
    return Summary(
        title=context.title,
        asked=asked,
        answer=answers.answer(asked, head, contrasts, sure),
        headline=head,
        curve=case.curve,
        policies=ask_policies(case),
        contrasts=contrasts,
        rows=where.ask_rows(case),
        folds=where.ask_folds(case),
        groups=groups,
        confusion=where.ask_confusion(case),
        leverage=where.ask_leverage(leverage, problem.weights),
        hardest=where.ask_hardest(case, leverage),
        plan=model.explain(),
        certificate=checks.certificate(case, verify),
        repeat=checks.Repeat(
            command=context.command,
            versions=tuple(library_versions().items()),
            seed=problem.seed,
            data=context.data,
            checksum=context.checksum,
        ),
        columns=context.columns,
        notes=context.notes,
        inside=context.inside,
        sure=sure,
        slider=penalty.ask_slider(case, where.picked(case.results), groups),
        coverage=ask_coverage(case),
        classes=ask_classes(case.held),
        probabilities=ask_probabilities(model),
        trend=ask_trend(case),
        bands=ask_bands(case),
        relevance=ask_relevance(case),
        growth={name: found for name, found in growth.items() if found is not None},
        time=ask_time(case),
        warnings=tuple(case.notes),
        shell=context.shell,
    )
