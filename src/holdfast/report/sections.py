"""The parts of the page, each a heading, a few words, figures and tables."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.displays.curve_data import CVCurve
from holdfast.report import words
from holdfast.report.classes import class_section
from holdfast.report.columns import columns_table, notes_list
from holdfast.report.figures import MAX_BARS
from holdfast.report.growth import growth_section
from holdfast.report.markup import Html, join, table, tag
from holdfast.report.moments import time_section
from holdfast.report.parts import Section, figure_element, section
from holdfast.report.relevance import relevance_section
from holdfast.report.rows import PartScore
from holdfast.report.spread import coverage_section
from holdfast.report.summary import Summary
from holdfast.report.sure import chance_words
from holdfast.report.words import beliefs, count, number, percent, size

__all__ = ["all_sections", "colophon", "header"]


def header(summary: Summary, parts: Sequence[Section]) -> Html:
    """Return the top of the page: the answer, the numbers, warnings, and the way around."""
    head = summary.headline
    shown = number if summary.confusion is None else percent
    cards = [(shown(head.error), f"held-out {head.error_label}")]
    if head.uneven and head.balanced is not None:
        cards.insert(0, (percent(head.balanced), "balanced accuracy"))
    cards += _interval_card(summary)
    if head.label not in ("RMSE", "accuracy"):
        cards.append((number(head.value), head.label))
    cards.append((shown(head.baseline), f"{head.error_label} without features"))
    explained = "of the variance explained" if summary.confusion is None else "fewer errors"
    cards.append((percent(head.skill), explained))
    sure = summary.sure
    if sure is not None and sure.p_value is not None:
        chance = chance_words(sure).replace("at most", "≤")
        cards.append((chance, "chance of doing as well by luck"))
    cards.append((number(head.alpha, 2), "penalty λ"))
    believe, doubt = beliefs(summary.asked, head, summary.contrasts, sure)
    grid = "cards three" if len(cards) == 6 else "cards"
    links = (tag("li", tag("a", part.title, href=f"#{part.id}")) for part in parts)
    return tag(
        "header",
        tag("h1", summary.title),
        tag("p", summary.answer[0], class_="answer"),
        *(tag("p", sentence) for sentence in summary.answer[1:]),
        tag("ul", *(tag("li", tag("strong", a), tag("span", b)) for a, b in cards), class_=grid),
        tag(
            "div",
            _list_box("What to believe", believe, "believe"),
            _list_box("What not to believe", doubt, "doubt"),
            class_="side beliefs",
        ),
        notes_list(summary),
        *(tag("p", warning, class_="note", role="note") for warning in summary.warnings),
        tag("nav", tag("ul", *links), aria_label="Sections"),
    )


def _interval_card(summary: Summary) -> list[tuple[str, str]]:
    sure, head = summary.sure, summary.headline
    if sure is None or sure.method is None:
        return []
    if head.label == "accuracy":
        low, high = max(0.0, 1 - sure.high), min(1.0, 1 - sure.low)
        text = f"{number(100 * low, 2)} – {number(100 * high, 2)} %"
    else:
        text = f"{number(sure.low)} – {number(sure.high)}"
    name = head.error_label if head.label in ("RMSE", "accuracy") else head.label
    return [(text, f"{100 * sure.level:.3g} % interval of the {name}")]


def _list_box(title: str, items: Sequence[str], kind: str) -> Html:
    return tag(
        "div", tag("h2", title), tag("ul", *(tag("li", text) for text in items)), class_=kind
    )


def all_sections(summary: Summary, drawn: set[str]) -> list[Section]:
    """Return the sections in order; `drawn` are the figures that exist."""
    found = [_contrast(summary)] if summary.contrasts else []
    found += [_curve(summary), _rows(summary, drawn)]
    if summary.folds or summary.groups:
        found.append(_parts(summary))
    if summary.coverage:
        found.append(coverage_section(summary.coverage))
    if summary.classes:
        found.append(class_section(summary.classes))
    if summary.relevance:
        found.append(relevance_section(summary.relevance))
    if summary.time:
        found.append(time_section(summary.time))
    if summary.growth:
        found.append(growth_section(summary.growth))
    found.append(_hard(summary))
    found.append(_asked(summary))
    if summary.columns:
        found.append(section("columns", "How each column was read", *columns_table(summary)))
    if summary.policies:
        found.append(_policies(summary))
    found += [_sure(summary)] if summary.sure and summary.sure.method else []
    found += [_plan(summary), _certificate(summary), _repeat(summary)]
    return found


def colophon(summary: Summary) -> Html:
    """Return the foot of the page."""
    version = dict(summary.repeat.versions).get("holdfast", "")
    return tag("p", f"Made by holdfast {version}. {words.promise(summary.certificate)}")


def _asked(summary: Summary) -> Section:
    asked = summary.asked
    names = ", ".join(asked.feature_names[:30])
    if len(asked.feature_names) > 30:
        names += f" and {len(asked.feature_names) - 30} more"
    facts = [
        ("Task", f"{asked.task} of {asked.target}"),
        ("Data", f"{count(asked.rows, 'row')}, {count(asked.features, 'feature')}"),
        ("Features", names),
        ("Groups", f"{asked.group}: {asked.n_groups:,} different" if asked.group else "none"),
        ("Weights", "rows have weights" if asked.weighted else "all rows weigh the same"),
        ("Kernel", asked.kernel),
        ("Basis", asked.basis),
        ("Held out by", f"{asked.cv} ({count(asked.experiments, 'experiment')})"),
        ("Basis rows held out", asked.policy),
        ("Penalties", f"{asked.grid}, compared by {asked.metric}"),
    ]
    items = join(part for name, text in facts for part in (tag("dt", name), tag("dd", text)))
    notes = [tag("p", sentence) for sentence in asked.preparation]
    return section("asked", "What was asked", tag("dl", items), *notes)


def _contrast(summary: Summary) -> Section:
    label = summary.headline.error_label
    rows = [(c.name, number(c.error), number(c.alpha, 2)) for c in summary.contrasts]
    told = "; ".join(f"{name} {error}" for name, error, _ in rows)
    return section(
        "contrast",
        "What is held out decides the answer",
        figure_element(
            "contrast",
            f"Bars of the {label} by way of holding out: {told}.",
            f"The same data and model, held out in different ways, each at its own best penalty. "
            f"Asked for: {summary.contrasts[0].name}.",
            table(f"{label} by way of holding out", ("held out by", label, "best λ"), rows),
        ),
    )


def _curve(summary: Summary) -> Section:
    curve = summary.curve
    best, at = curve.best, curve.chosen_index
    label = curve.scale.label
    alt = (
        f"Curve of {label} over {len(curve.alphas)} penalties from {number(curve.alphas[0], 2)} to "
        f"{number(curve.alphas[-1], 2)}; best {number(curve.values[best])} at "
        f"{number(curve.alphas[best], 2)}."
    )
    text = f"Best: λ = {number(curve.alphas[best], 2)} with {label} {number(curve.values[best])}."
    if curve.one_se is not None and curve.one_se != best:
        text += (
            f" The simplest model within one standard error: λ = "
            f"{number(curve.alphas[curve.one_se], 2)} with {number(curve.values[curve.one_se])}."
        )
    text += f" In use: λ = {', '.join(number(a, 2) for a in curve.chosen[:5])}."
    note = None
    if curve.edge:
        note = tag(
            "p",
            f"The best penalty is the {curve.edge} of the grid: a better one may lie beyond. "
            f"Widen the grid with {'--alphas' if summary.shell else 'alphas='}.",
            class_="note",
            role="note",
        )
    rows = [
        (number(a, 3), number(v, 4), number(s, 2), _mark(curve, i, at))
        for i, (a, v, s) in enumerate(zip(curve.alphas, curve.values, curve.se, strict=True))
    ]
    data = table(f"{label} by penalty", ("λ", label, "standard error", ""), rows)
    return section(
        "curve",
        "The penalty, and what it does",
        note,
        figure_element("curve", alt, text, data),
    )


def _mark(curve: CVCurve, i: int, chosen: int) -> str:
    marks = []
    if i == curve.best:
        marks.append("best")
    if i == curve.one_se:
        marks.append("1 SE")
    if i == chosen:
        marks.append("in use")
    return ", ".join(marks)


def _policies(summary: Summary) -> Section:
    label = summary.curve.scale.label
    told = "; ".join(
        f"{name}: best {number(c.values[c.best])} at λ = {number(c.alphas[c.best], 2)}"
        for name, c in summary.policies.items()
    )
    names = list(summary.policies)
    curves = list(summary.policies.values())
    rows = [
        (number(alpha, 3), *(number(curve.values[i], 4) for curve in curves))
        for i, alpha in enumerate(curves[0].alphas)
    ]
    return section(
        "policies",
        "Held-out basis rows: kept or removed",
        figure_element(
            "policies",
            f"Curves of {label} over the penalty, held-out basis rows kept and removed. {told}.",
            f"A basis row that is held out may stay in the basis (keep) or leave it with its row "
            f"(remove); only removing it hides the row from the model altogether. {told}.",
            table(f"{label} by penalty and policy", ("λ", *names), rows),
        ),
    )


def _rows(summary: Summary, drawn: set[str]) -> Section:
    rows = summary.rows
    part = f" ({len(rows.row):,} of {rows.total:,} shown)" if len(rows.row) < rows.total else ""
    if "actual" not in drawn:
        assert summary.confusion is not None
        classes = summary.confusion.classes
        cells = [
            (name, *(f"{n:,}" for n in counts))
            for name, counts in zip(classes, summary.confusion.counts, strict=True)
        ]
        made = table("Rows of each class (down) by predicted class (across)", ("", *classes), cells)
        return section("rows", "Held-out predictions", tag("div", made, id="confusion"))
    head = summary.headline
    actual = figure_element(
        "actual",
        f"Scatter of held-out prediction over actual {summary.asked.target}: RMSE "
        f"{number(head.error)}, {percent(head.skill)} of the variance explained.",
        f"Each point is a row, predicted by the model that never saw it{part}.",
    )
    residuals = figure_element(
        "residuals",
        "Scatter of actual minus held-out prediction over the prediction.",
        f"What is left over{part}. A pattern here means there is more to learn.",
    )
    return section("rows", "Held-out predictions", tag("div", actual, residuals, class_="side"))


def _parts(summary: Summary) -> Section:
    label = summary.headline.error_label
    children = []
    if summary.folds:
        children += [
            tag("h3", "By experiment"),
            _part_figure("folds", summary.folds, label, "experiment"),
        ]
    if summary.groups:
        name = summary.asked.group or "group"
        worst = ", ".join(part.label for part in summary.groups[:3])
        children += [
            tag("h3", f"By {name}"),
            tag("p", f"Hardest: {worst}."),
            _part_figure("groups", summary.groups, label, name),
        ]
    return section("parts", "Where it goes wrong", *children)


def _part_figure(name: str, parts: Sequence[PartScore], label: str, noun: str) -> Html:
    biased = parts[0].bias is not None
    header = (
        noun,
        "predictions",
        label,
        "90 % interval",
        *(("mean of actual − prediction",) if biased else ()),
    )
    rows = [
        (
            part.label,
            f"{part.count:,}",
            number(part.score),
            f"{number(part.low)} to {number(part.high)}",
            *((number(part.bias),) if part.bias is not None else ()),
        )
        for part in parts
    ]
    alt = (
        f"Bars of the {label} by {noun}, from {number(parts[0].score)} ({parts[0].label}) to "
        f"{number(parts[-1].score)} ({parts[-1].label})."
    )
    shown = min(len(parts), MAX_BARS)
    caption = f"{label[0].upper()}{label[1:]} by {noun}, the hardest first" + (
        f" ({shown} of {len(parts)} drawn)." if shown < len(parts) else "."
    )
    caption += " Bars are 90 % intervals, if the rows of a part are independent."
    return figure_element(name, alt, caption, table(f"{label} by {noun}", header, rows))


def _hard(summary: Summary) -> Section:
    leverage = summary.leverage
    alt = (
        f"Histogram of leverages; the largest is {number(leverage.largest)}, their sum "
        f"{number(leverage.effective_parameters)}."
    )
    caption = (
        "Leverage: how much a row's own target moves its fitted value, from 0 to 1. The sum, "
        f"{number(leverage.effective_parameters)}, is the model's effective number of parameters."
    )
    edges = leverage.edges
    bins = [
        (f"{number(edges[i], 2)} to {number(edges[i + 1], 2)}", f"{n:,}")
        for i, n in enumerate(leverage.counts.tolist())
        if n
    ]
    grouped = summary.asked.group is not None
    columns = (
        "row",
        *((summary.asked.group or "",) if grouped else ()),
        "actual",
        "held-out prediction",
        "actual − prediction" if summary.confusion is None else "margin of the wrong class",
        "leverage",
    )
    rows = [
        (
            f"{hard.row}",
            *((hard.group or "",) if grouped else ()),
            _value(hard.y),
            _value(hard.prediction),
            number(hard.error),
            number(hard.leverage, 2),
        )
        for hard in summary.hardest
    ]
    return section(
        "hard",
        "Influential and hard rows",
        figure_element(
            "leverage", alt, caption, table("Rows by leverage", ("leverage", "rows"), bins)
        ),
        tag("h3", "Rows that are hardest to predict"),
        table("Rows are counted from 0.", columns, rows),
    )


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else number(value, 4)


def _sure(summary: Summary) -> Section:
    sure = summary.sure
    assert sure is not None
    ways = {
        "nested": "models without pairs of folds, in random partitions (Bates, Hastie and "
        "Tibshirani 2024)",
        "asymptotic": "the standard error over units, right for stable models and many of them "
        "(Bayle et al. 2020)",
        "corrected": "repeated splits with the variance corrected (Nadeau and Bengio 2003)",
    }
    assert sure.method is not None
    facts = [("Interval", f"{ways[sure.method]}; independent units: {sure.units}")]
    if sure.nested is not None:
        facts.append(("λ chosen anew", sure.outer))
    if sure.p_value is not None:
        facts.append(("Luck", f"{sure.permutations:,} permutations of {sure.permuted}"))
    facts += [("Not asked", option) for option in sure.not_asked]
    items = join(part for name, text in facts for part in (tag("dt", name), tag("dd", text)))
    return section("sure", "How the certainty was found", tag("dl", items))


def _plan(summary: Summary) -> Section:
    plan = summary.plan
    facts = join(part for k, v in plan.facts for part in (tag("dt", k), tag("dd", v)))
    rows = [
        (
            cost.path + (" (taken)" if cost.taken else ""),
            number(cost.seconds),
            f"{cost.ratio:.2f}",
            size(cost.megabytes),
        )
        for cost in plan.costs
    ]
    header = ("path", "seconds, estimated", "times the cheapest", "memory")
    return section(
        "plan",
        "The plan and its cost",
        tag("dl", facts),
        table("Estimated cost of each way to the same numbers", header, rows),
        tag("p", f"Taken: {plan.why}."),
    )


def _certificate(summary: Summary) -> Section:
    found = summary.certificate
    if found is None:
        text = "No experiment was retrained for comparison."
    else:
        text = (
            f"{found.words[0].upper()}{found.words[1:]} The experiments were drawn at random (seed "
            f"{found.seed}) and compared at {count(found.alphas, 'penalty value')}."
        )
    inside = summary.inside
    told = tag("p", inside.words(summary.headline.error_label)) if inside else None
    return section("certificate", "Checked against real retraining", tag("p", text), told)


def _repeat(summary: Summary) -> Section:
    repeat = summary.repeat
    facts = [("Seed", str(repeat.seed))]
    if repeat.data:
        facts.append(("Data", repeat.data))
    if repeat.checksum:
        facts.append(("sha256 of the data", repeat.checksum))
    facts.append(("Versions", ", ".join(f"{name} {v}" for name, v in repeat.versions)))
    items = join(part for name, text in facts for part in (tag("dt", name), tag("dd", text)))
    command = tag("pre", tag("code", repeat.command)) if repeat.command else None
    return section("repeat", "How to repeat it", command, tag("dl", items))
