"""Numbers and findings as words."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from holdfast.displays.score_scale import number
from holdfast.report.summary import Asked, Certificate, Contrast, Headline
from holdfast.report.sure import Sureness, chance_words, sure_sentences

__all__ = [
    "answer",
    "beliefs",
    "count",
    "left_out",
    "number",
    "percent",
    "promise",
    "shortened",
    "size",
]


def percent(share: float) -> str:
    """Return a share as a percentage."""
    return f"{number(100 * share)} %"


def count(n: int, noun: str) -> str:
    """Return a number of things."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def size(megabytes: float) -> str:
    """Return a size in memory."""
    if megabytes >= 1000:
        return f"{megabytes / 1000:.3g} GB"
    return f"{megabytes:.3g} MB" if megabytes >= 1 else f"{megabytes * 1000:.3g} kB"


def shortened(text: str) -> str:
    """Return a text with its long decimal numbers cut to four digits."""
    return re.sub(r"\d+\.\d{5,}(e[-+]?\d+)?", lambda m: number(float(m[0]), 4), text)


def answer(
    asked: Asked, head: Headline, contrasts: Sequence[Contrast], sure: Sureness | None = None
) -> tuple[str, ...]:
    """Return the findings as sentences, the answer first.

    The first has the error, its interval, what choosing the penalty did to it, and luck.
    """
    plain = head.label in ("RMSE", "accuracy")
    between = _between(sure, head) if plain else ""
    if asked.task == "regression":
        first = (
            f"On {_unseen(asked)}, predictions of {asked.target} are off by {number(head.error)} "
            f"(root mean squared error{between})"
        )
    elif head.uneven:
        assert head.balanced is not None
        first = (
            f"On {_unseen(asked)}, the balanced accuracy for {asked.target} is "
            f"{percent(head.balanced)}: the mean over the classes of the share of their rows that "
            "is right"
        )
    else:
        told = f" ({between.removeprefix(', ')})" if between else ""
        first = (
            f"On {_unseen(asked)}, {percent(1 - head.error)} of the predictions of {asked.target} "
            f"are right{told}"
        )
    sentences = [first + _doubted(sure, head) + ".", _verdict(asked, head)]
    if not plain:
        better = "lower" if head.lower_is_better else "higher"
        spread = _between(sure, head)
        if not spread and math.isfinite(head.se):
            spread = f", standard error {number(head.se, 2)}"
        sentences.append(
            f"By the score asked for: {head.label} {number(head.value)}{spread}; {better} is "
            "better."
        )
    sentences += _contrast(asked, contrasts)
    if sure is not None:
        sentences += sure_sentences(sure, head.label, head.value)
    return tuple(sentences)


def left_out(what: str, shell: bool) -> str:
    """Return a note on a finding that would take long, and how to get it.

    Parameters
    ----------
    what : str
        The finding.
    shell : bool
        Whether the reader uses the command line.
    """
    more = "--seconds 600" if shell else "ask=Ask(seconds=600)"
    return f"Left out because it would take long: {what} ({more} gives it more time)."


def promise(found: Certificate | None) -> str:
    """Return what the numbers are, as far as they were checked by retraining."""
    exact = "that of a model retrained without the held-out rows, to rounding"
    if found is None:
        return f"By its algebra every held-out number here is {exact}; none was checked."
    if found.verified:
        return f"Every held-out number here is {exact}; {found.experiments:,} were checked."
    return "The check against retraining failed: do not rely on the numbers here."


def beliefs(
    asked: Asked, head: Headline, contrasts: Sequence[Contrast], sure: Sureness | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what may be believed and what may not, for a reader who is new to this."""
    if math.isfinite(head.skill) and head.skill <= 0:
        believe = ["That these columns, with this model, do not predict the target."]
        doubt = ["Any prediction of this model."]
    else:
        error = number(head.error) if asked.task == "regression" else percent(head.error)
        believe = [
            f"The {head.error_label} of {error}, for new rows that are to these rows "
            f"what held-out rows were to the others: {asked.cv}."
        ]
        doubt = [
            "Predictions for rows unlike any of these: no held-out row was like that.",
            "That a column causes anything: only prediction was tested.",
        ]
    if sure is not None and sure.method is not None:
        doubt.append(
            f"More digits than the interval allows: the {head.label} may be anywhere from "
            f"{_ends(sure, head)} on other rows of the same kind."
        )
    elif math.isfinite(head.se):
        doubt.append(f"More digits than the standard error allows: ± {number(head.se, 2)}.")
    for other in contrasts:
        if not other.asked and other.name == f"leave-one-{asked.group}-out":
            error = number(other.error) if asked.task == "regression" else percent(other.error)
            doubt.insert(0, f"The same for a new {asked.group}: there it is {error}.")
    if sure is not None and sure.not_asked:
        missing = " and ".join(sure.not_asked)
        doubt.append(
            f"That choosing λ on the same rows cost nothing, or that luck is ruled out: not asked "
            f"({missing})."
        )
    return tuple(believe), tuple(doubt)


def _unseen(asked: Asked) -> str:
    # What "unseen" means depends on what leaves together, which the words for cv carry.
    return f"rows held out by {asked.cv}"


def _between(sure: Sureness | None, head: Headline) -> str:
    if sure is not None and sure.method is not None:
        return f", {100 * sure.level:.3g} % interval {_ends(sure, head)}"
    if not math.isfinite(head.se):
        return ""
    return f", standard error {number(head.se, 2)}"


def _ends(sure: Sureness, head: Headline) -> str:
    if head.label == "accuracy":
        return f"{percent(max(0.0, sure.low))} to {percent(min(1.0, sure.high))}"
    return f"{number(sure.low)} to {number(sure.high)}"


def _doubted(sure: Sureness | None, head: Headline) -> str:
    """Return what choosing the penalty did and what luck would do, as a part of the sentence."""
    if sure is None:
        return ""
    told = ""
    if sure.nested is not None:
        worse = (sure.nested > head.value) == head.lower_is_better
        if number(sure.nested) == number(head.value):
            told += "; choosing λ on the same rows did nothing to it that shows"
        elif worse:
            change = number(abs(sure.nested - head.value), 2)
            told += f"; choosing λ on the same rows flatters it by {change}"
        else:
            told += "; choosing λ on the same rows did not flatter it"
    if sure.p_value is not None:
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


def _contrast(asked: Asked, contrasts: Sequence[Contrast]) -> list[str]:
    mine = next((c for c in contrasts if c.asked), None)
    sentences = []
    for other in contrasts:
        if mine is None or other.asked:
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
