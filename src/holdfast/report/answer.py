"""The answer: what was asked, the score beside a model without features, other ways of holding out.

`answer` gives it in sentences, `key_figures` in numbers, and `beliefs` says what to believe. Every
form of a report begins with these.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import LeaveOneGroupOut, LeaveOneOut

from holdfast.basis import Points
from holdfast.displays.score_scale import number
from holdfast.exceptions import HoldOutError
from holdfast.report.blocks import Bullets, Chart, Facts, KeyFigures, Section, facts, table
from holdfast.report.charts import bars
from holdfast.report.context import Case, feature_names
from holdfast.report.rows import row_results
from holdfast.report.sure import Sureness, chance_words, sure_sentences

__all__ = [
    "Asked",
    "Contrast",
    "Headline",
    "answer",
    "ask_asked",
    "ask_contrasts",
    "ask_headline",
    "asked_facts",
    "beliefs",
    "contrast_section",
    "count",
    "key_figures",
    "percent",
    "shortened",
]

#: Share of errors of naming the most frequent class, below which accuracy misleads.
UNEVEN = 0.25


@dataclass(frozen=True)
class Asked:
    """What was asked."""

    task: str  #: "regression" or "classification"
    rows: int  #: Size of the data
    features: int
    target: str  #: Name of the target
    feature_names: tuple[str, ...]
    group: str | None  #: Name of the grouping
    n_groups: int  #: Number of groups; 0 without
    weighted: bool  #: Whether rows have weights
    kernel: str  #: The model and the experiments in words
    basis: str
    cv: str
    policy: str
    grid: str
    metric: str
    experiments: int  #: How many
    preparation: tuple[str, ...] = ()  #: What was done to the columns before, one sentence each


@dataclass(frozen=True)
class Headline:
    """The answer in numbers."""

    label: str  #: What `value` is, for instance RMSE
    #: Held-out error or score at the chosen penalty, and its standard error (NaN: unknown)
    value: float
    se: float
    lower_is_better: bool  #: Whether it is an error
    error_label: str  #: What `error` is: RMSE or share of errors, whatever the scoring
    #: That error of the model, and of a model without features in the same experiments
    error: float
    baseline: float
    #: 1 − (error/baseline)² for regression, 1 − error/baseline for classes: 1 is perfect, 0
    #: is no better than knowing no features, below 0 is worse
    skill: float
    alpha: float  #: The chosen penalty
    #: Mean over the classes of the share of their rows that is right; None for regression
    balanced: float | None = None

    @property
    def uneven(self) -> bool:
        """Whether one class is so frequent that naming it always would look good."""
        return self.balanced is not None and self.baseline < UNEVEN

    @property
    def plain(self) -> bool:
        """Whether the score is the error itself, or one minus the error."""
        return self.label in ("RMSE", "accuracy")


@dataclass(frozen=True)
class Contrast:
    """What another way of holding out says about the same model class on the same data."""

    name: str  #: The way of holding out
    error: float  #: Its error, at the penalty it would choose itself
    alpha: float  #: That penalty
    asked: bool  #: Whether this is the way that was asked for
    truth: bool = False  #: Whether it is known from new rows: of made-up data


# --- numbers as words -----------------------------------------------------------------------------


def percent(share: float) -> str:
    """Return a share as a percentage."""
    return f"{number(100 * share)} %"


def count(n: int, noun: str) -> str:
    """Return a number of things."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def shortened(text: str) -> str:
    """Return a text with its long decimal numbers cut to four digits."""
    return re.sub(r"\d+\.\d{5,}(e[-+]?\d+)?", lambda m: number(float(m[0]), 4), text)


# --- asking ---------------------------------------------------------------------------------------


def ask_asked(case: Case) -> Asked:
    """Return what was asked, in words."""
    model, context, problem = case.model, case.context, case.model._problem
    m = problem.X.shape[0]
    n_groups = 0 if case.groups is None else len(np.unique(case.groups))
    basis, policy = "all rows (dense)", "remove (dense)"
    if problem.on_basis:
        n, policy = len(model.basis_indices_), model.held_out_basis
        basis = f"{n:,} of {m:,} rows"
        if isinstance(problem.basis, Points):
            basis = f"{n:,} points that are not rows"
        elif hasattr(problem.basis, "select"):
            basis += f", chosen by {type(problem.basis).__name__}"
    low, high = (number(float(problem.alphas[i]), 2) for i in (0, -1))
    return Asked(
        task="classification" if case.classifies else "regression",
        rows=m,
        features=int(getattr(model, "n_features_in_", 0)),
        target=context.target,
        feature_names=feature_names(case),
        group=context.group if n_groups else None,
        n_groups=n_groups,
        weighted=bool((problem.weights != problem.weights[0]).any()),
        kernel=shortened(repr(model.kernel_)),
        basis=basis,
        cv=context.cv or _described(model.cv, context.group),
        policy=policy,
        grid=f"{len(problem.alphas)} penalties from {low} to {high}",
        metric=case.curve.scale.label,
        experiments=len(problem.experiments),
        preparation=context.preparation,
    )


def _described(cv: Any, group: str) -> str:
    """Return a way of holding out in words that follow "held out by"."""
    if cv is None or isinstance(cv, LeaveOneOut):
        return "leave-one-out"
    if isinstance(cv, LeaveOneGroupOut):
        return f"leave-one-{group}-out"
    if isinstance(cv, (int, np.integer)):
        return f"{cv}-fold cross-validation"
    return repr(cv) if hasattr(cv, "split") else "experiments of your own"


def ask_headline(case: Case) -> Headline:
    """Return the answer in numbers."""
    curve, results = case.curve, case.results
    at = curve.chosen_index
    error, baseline = results.score(), results.baseline_score()
    power = 2 if results.classes is None else 1
    return Headline(
        label=curve.scale.label,
        value=float(curve.values[at]),
        se=float(curve.se[at]),
        lower_is_better=curve.scale.lower_is_better,
        error_label=results.label,
        error=error,
        baseline=baseline,
        skill=1 - (error / baseline) ** power if baseline > 0 else float("nan"),
        alpha=curve.chosen[0],
        balanced=results.balanced(),
    )


def ask_contrasts(case: Case, asked: Asked) -> tuple[Contrast, ...]:
    """Return the ways of holding out, the asked one first; () if there is nothing to compare."""
    model = case.model
    if asked.n_groups < 2 or model.held_out_basis == "reselect":
        return ()
    alpha = float(np.atleast_1d(model.alpha_)[0])
    found = [Contrast(asked.cv, case.results.score(), alpha, asked=True)]
    ways: list[tuple[str, Any]] = []
    if not (model.cv is None or isinstance(model.cv, LeaveOneOut)):
        ways.append(("leave-one-out", LeaveOneOut()))
    if not isinstance(model.cv, LeaveOneGroupOut) and asked.experiments != asked.n_groups:
        ways.append((f"leave-one-{asked.group}-out", LeaveOneGroupOut()))
    for name, cv in ways:
        try:
            held = model.held_out(cv)
        except HoldOutError as error:
            case.refused(f"No comparison with {name}", error)
            continue
        best = int(np.nanargmax(held.score(model.scoring, pooled=True)))
        one = dataclasses.replace(held, alphas=held.alphas[[best]], values=held.values[[best]])
        error_there = row_results(model, one, case.target).score()
        found.append(Contrast(name, error_there, float(held.alphas[best]), asked=False))
    return tuple(found) if len(found) > 1 else ()


# --- telling --------------------------------------------------------------------------------------


def key_figures(head: Headline, sure: Sureness | None) -> KeyFigures:
    """Return the numbers to see first."""
    classes = head.balanced is not None
    shown = percent if classes else number
    found = [(shown(head.error), f"held-out {head.error_label}")]
    if head.uneven and head.balanced is not None:
        found.insert(0, (percent(head.balanced), "balanced accuracy"))
    if not head.plain:
        found.append((number(head.value), head.label))
    name = head.error_label if head.plain else head.label
    if sure is not None and sure.method is not None:
        text = f"{number(sure.low)} – {number(sure.high)}"
        if head.label == "accuracy":
            low, high = max(0.0, 1 - sure.high), min(1.0, 1 - sure.low)
            text = f"{number(100 * low, 2)} – {number(100 * high, 2)} %"
        found.append((text, f"{100 * sure.level:.3g} % interval of the {name}"))
    elif math.isfinite(head.se):
        found.append((number(head.se, 2), f"standard error of the {name}"))
    found.append((shown(head.baseline), f"{head.error_label} without features"))
    found.append((percent(head.skill), "fewer errors" if classes else "of the variance explained"))
    if sure is not None and sure.p_value is not None:
        chance = chance_words(sure).replace("at most", "≤")
        found.append((chance, "chance of doing as well by luck"))
    return KeyFigures((*found, (number(head.alpha, 2), "penalty λ")))


def answer(
    asked: Asked, head: Headline, contrasts: Sequence[Contrast], sure: Sureness | None = None
) -> tuple[str, ...]:
    """Return the findings as sentences, the answer first.

    The first has the error, its interval, what choosing the penalty did to it, and luck.
    """
    between = _between(sure, head) if head.plain else ""
    unseen = f"On rows held out by {asked.cv}"
    if asked.task == "regression":
        first = (
            f"{unseen}, predictions of {asked.target} are off by {number(head.error)} (root mean "
            f"squared error{between})"
        )
    elif head.uneven:
        assert head.balanced is not None
        first = (
            f"{unseen}, the balanced accuracy for {asked.target} is {percent(head.balanced)}: the "
            "mean over the classes of the share of their rows that is right"
        )
    else:
        told = f" ({between.removeprefix(', ')})" if between else ""
        first = (
            f"{unseen}, {percent(1 - head.error)} of the predictions of {asked.target} are "
            f"right{told}"
        )
    sentences = [first + _doubted(sure, head) + ".", _verdict(asked, head)]
    if not head.plain:
        better = "lower" if head.lower_is_better else "higher"
        sentences.append(
            f"By the score asked for: {head.label} {number(head.value)}{_between(sure, head)}; "
            f"{better} is better."
        )
    sentences += _contrast_sentences(asked, contrasts)
    if sure is not None:
        sentences += sure_sentences(sure, head.label, head.value)
    return tuple(sentences)


def beliefs(
    asked: Asked, head: Headline, contrasts: Sequence[Contrast], sure: Sureness | None
) -> tuple[Bullets, Bullets]:
    """Return what to believe and what not, for a reader who is new to this."""
    shown = number if asked.task == "regression" else percent
    if math.isfinite(head.skill) and head.skill <= 0:
        believe = "That these columns, with this model, do not predict the target."
        doubt = ["Any prediction of this model."]
    else:
        believe = (
            f"The {head.error_label} of {shown(head.error)}, for rows as new to the model as the "
            f"held-out rows were: {asked.cv}."
        )
        doubt = [
            "Predictions for rows unlike any of these: no held-out row was like that.",
            "That a column causes anything: only prediction was tested.",
        ]
    if sure is not None and sure.method is not None:
        doubt.append(
            f"A more exact figure than the interval allows: the {head.label} may be anywhere from "
            f"{_ends(sure, head)} on other rows of the same kind."
        )
    elif math.isfinite(head.se):
        doubt.append(f"A more exact figure than the standard error of {number(head.se, 2)} allows.")
    for other in contrasts:
        if not other.asked and other.name == f"leave-one-{asked.group}-out":
            doubt.insert(0, f"The same for a new {asked.group}: there it is {shown(other.error)}.")
    if sure is not None and sure.not_asked:
        doubt.append(
            "That choosing λ on the same rows cost nothing, or that luck is ruled out: not asked "
            f"({' and '.join(sure.not_asked)})."
        )
    return (
        Bullets("What to believe", (believe,), "believe"),
        Bullets("What not to believe", tuple(doubt), "doubt"),
    )


def asked_facts(asked: Asked) -> Facts:
    """Return the model and the experiments."""
    names = ", ".join(asked.feature_names[:30])
    if len(asked.feature_names) > 30:
        names += f" and {len(asked.feature_names) - 30} more"
    return facts(
        [
            ("Task", f"{asked.task} of {asked.target}"),
            ("Data", f"{count(asked.rows, 'row')}, {count(asked.features, 'feature')}"),
            ("Features", names),
            ("Groups", f"{asked.group}: {asked.n_groups:,} different" if asked.group else ""),
            ("Weights", "rows have weights" if asked.weighted else ""),
            ("Preparation", " ".join(asked.preparation)),
            ("Model", f"{asked.kernel}; basis: {asked.basis}"),
            ("Held out by", f"{asked.cv}: {count(asked.experiments, 'experiment')}"),
            ("Basis rows held out", asked.policy if "dense" not in asked.policy else ""),
            ("Penalties", f"{asked.grid}, compared by {asked.metric}"),
        ]
    )


def contrast_section(contrasts: Sequence[Contrast], label: str) -> Section:
    """Return what each way of holding out says."""
    rows = [(c.name, number(c.error), number(c.alpha, 2)) for c in contrasts]
    told = "; ".join(f"{name} {error}" for name, error, _ in rows)
    drawn = bars(
        [c.name for c in contrasts],
        [c.error for c in contrasts],
        label,
        colour=["@good" if c.truth else "@accent" if c.asked else "@second" for c in contrasts],
        customdata=[error for _, error, _ in rows],
        texttemplate="%{customdata}",
        textposition="outside",
        cliponaxis=False,
        hover="%{text}: %{customdata}",
        # Room for the number at the end of the longest bar.
        reach=1.2 * max(c.error for c in contrasts) or 1.0,
    )
    chart = Chart(
        "contrast",
        drawn,
        f"Bars of the {label} by way of holding out: {told}.",
        "The same data and model, held out in different ways, each at its own best penalty. Asked "
        f"for: {contrasts[0].name}.",
        table(f"{label} by way of holding out", ("held out by", label, "best λ"), rows),
    )
    return Section("contrast", "What is held out decides the answer", (chart,))


def _between(sure: Sureness | None, head: Headline) -> str:
    if sure is not None and sure.method is not None:
        return f", {100 * sure.level:.3g} % interval {_ends(sure, head)}"
    return f", standard error {number(head.se, 2)}" if math.isfinite(head.se) else ""


def _ends(sure: Sureness, head: Headline) -> str:
    if head.label == "accuracy":
        return f"{percent(max(0.0, sure.low))} to {percent(min(1.0, sure.high))}"
    return f"{number(sure.low)} to {number(sure.high)}"


def _doubted(sure: Sureness | None, head: Headline) -> str:
    """Return what choosing the penalty did and what luck would do, as a part of the sentence."""
    told = ""
    if sure is not None and sure.nested is not None:
        worse = (sure.nested > head.value) == head.lower_is_better
        did = "did not flatter it"
        if number(sure.nested) == number(head.value):
            did = "made no visible difference"
        elif worse:
            did = f"flatters it by {number(abs(sure.nested - head.value), 2)}"
        told += f"; choosing λ on the same rows {did}"
    if sure is not None and sure.p_value is not None:
        told += f"; the chance of doing as well by luck is {chance_words(sure)}"
    return told


def _verdict(asked: Asked, head: Headline) -> str:
    if asked.task == "regression":
        share = "of the variance is explained"
        naive = f"Predicting the training mean would be off by {number(head.baseline)}"
    else:
        share = "fewer errors"
        right = percent(1 - head.baseline)
        naive = f"Always naming the most frequent class would be right for {right}"
        if head.uneven:
            naive = f"{percent(1 - head.error)} of all rows are right. {naive}"
    if not math.isfinite(head.skill):
        return "There is no baseline to compare with."
    if head.skill <= 0:
        return f"{naive}: the model is no better than using no features at all. Do not rely on it."
    if head.skill < 0.1:
        return (
            f"{naive}: the model is hardly better than using no features, {percent(head.skill)} "
            f"{share}."
        )
    return f"{naive}: {percent(head.skill)} {share}."


def _contrast_sentences(asked: Asked, contrasts: Sequence[Contrast]) -> list[str]:
    mine = next((c for c in contrasts if c.asked), None)
    sentences = []
    for other in contrasts:
        if mine is None or other.asked or other.truth:
            continue
        ratio = other.error / mine.error if mine.error > 0 else math.inf
        told = (
            f"right for {percent(1 - other.error)}"
            if asked.task == "classification"
            else f"an error of {number(other.error)}"
        )
        group = asked.group or "group"
        if other.name == "leave-one-out" and ratio < 0.9:
            sentences.append(
                f"Leave-one-out would have claimed {told}, because it leaves other rows of the "
                f"same {group} in the training data: believe that only for new rows of a {group} "
                "that is already in the data."
            )
        elif other.name != "leave-one-out" and ratio > 1.1:
            sentences.append(
                f"Held out by {other.name} it is {told}: expect that for a {group} that is not in "
                "the data."
            )
        else:
            sentences.append(f"Held out by {other.name} it is {told}, about the same.")
    return sentences
