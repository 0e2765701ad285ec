"""Numbers and findings as words."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from holdfast.displays.score_scale import number
from holdfast.report.summary import Asked, Contrast, Headline

__all__ = ["answer", "count", "number", "percent", "shortened", "size"]


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


def answer(asked: Asked, head: Headline, contrasts: Sequence[Contrast]) -> tuple[str, ...]:
    """Return the findings as sentences, the answer first."""
    unseen = _unseen(asked)
    if asked.task == "regression":
        first = (
            f"On {unseen}, predictions of {asked.target} are off by {number(head.error)} "
            f"(root mean squared error{_se(head)}); predicting the training mean would be off by "
            f"{number(head.baseline)}."
        )
    else:
        first = (
            f"On {unseen}, {percent(1 - head.error)} of the predictions of {asked.target} are "
            f"right; always naming the most frequent class would be right for "
            f"{percent(1 - head.baseline)}."
        )
    sentences = [first, _verdict(asked, head)]
    if head.label not in ("RMSE", "accuracy"):
        better = "lower" if head.lower_is_better else "higher"
        se = f" (standard error {number(head.se, 2)})" if math.isfinite(head.se) else ""
        sentences.append(
            f"By the score asked for: {head.label} {number(head.value)}{se}, {better} is better."
        )
    sentences += _contrast(asked, contrasts)
    return tuple(sentences)


def _unseen(asked: Asked) -> str:
    # What "unseen" means depends on what leaves together, which the words for cv carry.
    return f"rows held out by {asked.cv}"


def _se(head: Headline) -> str:
    if head.label != "RMSE" or not math.isfinite(head.se):
        return ""
    return f", standard error {number(head.se, 2)}"


def _verdict(asked: Asked, head: Headline) -> str:
    share = "of the variance is explained" if asked.task == "regression" else "fewer errors"
    if not math.isfinite(head.skill):
        return "There is no baseline to compare with."
    if head.skill <= 0:
        return "That is no better than using no features at all: do not rely on this model."
    if head.skill < 0.1:
        return f"That is hardly better than using no features: {percent(head.skill)} {share}."
    return f"That is better than using no features: {percent(head.skill)} {share}."


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
