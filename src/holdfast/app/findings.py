"""The findings: one wording of the answer, for the terminal, the page and JSON."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.app.fitting import Answer, Contrast
from holdfast.app.words import count, listed, percent, quoted, safe, seconds
from holdfast.displays.words import number

__all__ = ["Findings", "Note", "TableOf", "findings_of", "terminal"]

#: From this share on another way of holding out is another answer.
_DIFFERENT = 0.05


@dataclass(frozen=True)
class Note:
    """Something about the data or the model, and the option that changes it."""

    text: str
    option: str = ""

    def __str__(self) -> str:
        return f"{self.text} ({self.option})" if self.option else self.text


@dataclass(frozen=True)
class TableOf:
    """A small table, its cells as text."""

    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    caption: str = ""


@dataclass(frozen=True)
class Findings:
    """Everything that is said, in the order in which it is said."""

    title: str
    warnings: list[Note]  #: What changes the meaning of the answer, before it
    headline: str
    verdict: str
    figures: list[tuple[str, str]]  #: The same in numbers: value, what it is
    believe: list[str]
    doubt: list[str]
    contrasts: TableOf
    notes: list[Note]
    hardest: TableOf | None
    groups: TableOf | None
    facts: list[tuple[str, str]]
    reading: list[str]  #: How the file was read and what was done to the columns
    columns: TableOf
    checked: str  #: The arithmetic, in a line
    command: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)  #: For programs: plain numbers

    def to_json(self) -> str:
        """Return all of it for a program."""
        return json.dumps(_plain(asdict(self)), indent=2, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def findings_of(answer: Answer, command: str = "", title: str = "") -> Findings:
    """Return what is to be said of an answer."""
    warnings, notes = _about_the_data(answer)
    warnings += _about_simpler_models(answer)
    notes += _advice(answer)
    return Findings(
        title=title or f"{quoted(answer.task.target)} in {safe(answer.task.table.name)}",
        warnings=warnings,
        headline=_headline(answer),
        verdict=_verdict(answer),
        figures=_figures(answer),
        believe=_believe(answer),
        doubt=_doubt(answer),
        contrasts=_contrasts(answer),
        notes=notes,
        hardest=_hardest(answer),
        groups=_groups(answer),
        facts=_facts(answer),
        reading=_reading(answer),
        columns=_columns(answer),
        checked=_checked(answer),
        command=safe(command, 500),
        numbers=_numbers(answer),
    )


# --- the headline ---------------------------------------------------------------------------------


def _between(answer: Answer) -> str:
    if answer.interval is None:
        return ""
    low, high = (answer.measure.shown(v) for v in (answer.interval.low, answer.interval.high))
    return f"{100 * answer.interval.level:g} % interval {low} to {high}"


def _auc(answer: Answer) -> float | None:
    """Return the AUC of two classes."""
    if not answer.task.classify:
        return None
    classes = np.unique(answer.task.y)
    if len(classes) != 2:
        return None
    from sklearn.metrics import roc_auc_score

    truth = answer.truth == classes[1]
    if truth.all() or not truth.any():
        return None
    return float(roc_auc_score(truth, answer.fit.held.values[0, :, 0], sample_weight=_w(answer)))


def _w(answer: Answer) -> NDArray[Any] | None:
    weights = answer.task.weights
    return None if weights is None else np.asarray(weights[answer.fit.held.rows])


def _balanced(answer: Answer) -> float:
    truth, predictions = answer.truth, answer.predictions
    return float(np.mean([np.mean(predictions[truth == c] == c) for c in np.unique(truth)]))


def _largest(answer: Answer) -> tuple[str, float]:
    classes, counts = np.unique(answer.task.y, return_counts=True)
    at = int(counts.argmax())
    return str(classes[at]), float(counts[at] / counts.sum())


def _unseen(answer: Answer) -> str:
    name = quoted(answer.task.group or "group")
    return {
        "rows": "rows that it has not seen",
        "groups": f"rows of a {name} that it has not seen",
        "time": "rows that come later than all it has seen",
    }[answer.holding.kind]


def _headline(answer: Answer) -> str:
    measure, target = answer.measure, quoted(answer.task.target)
    value, between = measure.shown(answer.fit.value), _between(answer)
    unseen = _unseen(answer)
    if measure.scoring is not None:
        inside = f" ({between})" if between else ""
        return f"On {unseen}, predictions of {target} have {_a(measure.name)} of {value}{inside}."
    if not answer.task.classify:
        inside = f"; {between}" if between else ""
        return f"On {unseen}, predictions of {target} are off by {value} (RMSE{inside})."
    inside = f" ({between})" if between else ""
    probabilities = f"its probabilities have a log loss of {value}{inside}"
    auc = _auc(answer)
    if auc is not None:
        first, second = map(quoted, np.unique(answer.task.y))
        says = f"tells {first} from {second} in {percent(auc)} of pairs (AUC {auc:.3f})"
    else:
        says = (
            f"names the right {target} in {percent(_balanced(answer))} of the rows, counting each "
            "class alike (balanced accuracy)"
        )
    return f"On {unseen}, the model {says}; {probabilities}."


def _a(name: str) -> str:
    return f"an {name}" if name[:1] in "AEIORaeio" and name[:2] not in ("Re", "re") else f"a {name}"


def _is_better(answer: Answer) -> bool | None:
    """Return whether the model is better than no columns; None where the interval has both."""
    if answer.baseline is None:
        return None
    high = answer.measure.higher_is_better
    better = answer.fit.value > answer.baseline if high else answer.fit.value < answer.baseline
    if not better:
        return False
    if answer.interval is not None:
        worst = answer.interval.low if high else answer.interval.high
        if worst < answer.baseline if high else worst > answer.baseline:
            return None
    return True


def _verdict(answer: Answer) -> str:
    measure, baseline, target = answer.measure, answer.baseline, quoted(answer.task.target)
    if baseline is None:
        return "There is no value of this score for a model without columns to compare with."
    better, shown = _is_better(answer), measure.shown(baseline)
    if measure.scoring is not None:
        naive = f"Without any column it is {shown}"
    elif answer.task.classify:
        name, share = _largest(answer)
        most = f"{percent(share)} of the rows are {quoted(name)}"
        naive = f"{most}; knowing only how frequent the classes are gives a log loss of {shown}"
    else:
        naive = f"Always predicting the mean is off by {shown}"
    if better is False:
        return (
            f"{naive}: the model is no better. These columns, with this model, do not predict "
            f"{target}."
        )
    if better is None:
        return f"{naive}: the interval leaves open whether the model is any better."
    if measure.scoring is None and not answer.task.classify:
        share = 1 - (answer.fit.value / baseline) ** 2
        barely = ", which is little" if share < 0.1 else ""
        return f"{naive}: {percent(share)} of the variance is explained{barely}."
    if measure.scoring is None:
        share = 1 - answer.fit.value / baseline
        barely = ", which is little" if share < 0.05 else ""
        return f"{naive}: the model takes {percent(share)} off it{barely}."
    return f"{naive}."


def _figures(answer: Answer) -> list[tuple[str, str]]:
    """Return what stands beside the headline, without a number that stands in it."""
    task, found = answer.task, []
    if answer.measure.scoring is None and not task.classify:
        error = np.abs(answer.truth - answer.predictions)
        found.append((number(float(np.median(error))), "half of the predictions are off by less"))
        found.append((number(float(np.quantile(error, 0.9))), "nine of ten are off by less"))
    elif task.classify:
        right = float(np.average(answer.truth == answer.predictions, weights=_w(answer)))
        name, share = _largest(answer)
        found.append(
            (
                percent(right),
                f"right when the likeliest class is named; always {quoted(name)}: {percent(share)}",
            )
        )
        if _auc(answer) is not None or answer.measure.scoring is not None:
            found.append(
                (
                    percent(_balanced(answer)),
                    "balanced accuracy: the mean over the classes of what is right",
                )
            )
    if answer.measure.scoring is not None and not task.classify:
        rmse = float(np.sqrt(np.mean((answer.truth - answer.predictions) ** 2)))
        if "squared" not in answer.measure.scoring:
            found.append((number(rmse), "RMSE"))
    found.append((f"{task.table.n_rows:,}", f"rows, {count(len(task.features), 'column')} used"))
    return found


# --- what to believe ------------------------------------------------------------------------------


def _believe(answer: Answer) -> list[str]:
    better, believed = _is_better(answer), []
    if better is False:
        return [
            f"That {quoted(answer.task.target)} cannot be predicted from these columns this way."
        ]
    of = {
        "rows": "new rows drawn as those of the file were",
        "groups": f"new rows of a new {quoted(answer.task.group or 'group')}",
        "time": "the time that follows, as long as things stay as they were",
    }[answer.holding.kind]
    grave = {c.kind: c for c in answer.contrasts if c.suspicion and c.worse > _DIFFERENT}
    if "group" in grave and answer.holding.kind == "rows":
        one = grave["group"].suspicion
        assert one is not None
        of = f"new rows of a {quoted(one.column)} that is in the file"
    elif "time" in grave:
        of = "rows in between those of the file, not for the time that follows"
    if "leak" in grave:
        one = grave["leak"].suspicion
        assert one is not None
        of += f", if {quoted(one.column)} is known when they are predicted"
    within = ", within its interval," if answer.interval else ""
    known = "" if answer.interval else "; how exactly is not known"
    if "copies" in grave:
        believed.append(
            "The figure with copies held out together; the other one looks the answers up."
        )
    elif better is None:
        believed.append(
            "That these columns say little, if anything: the interval holds the error without them."
        )
    else:
        believed.append(f"The {answer.measure.name}{within} for {of}{known}.")
    single = next((c for c in answer.contrasts if c.kind == "single"), None)
    if single is not None and single.worse >= -_DIFFERENT:
        believed.append(
            f"That groups matter little here: holding out single rows gives "
            f"{answer.measure.shown(single.value)}."
        )
    if answer.optimism is not None:
        share = answer.optimism / answer.fit.value if answer.fit.value else 0.0
        believed.append(
            "That penalty and width were chosen on the same rows makes no difference here."
            if share < 0.003
            else "That penalty and width were chosen on the same rows hardly matters: "
            f"it makes the {answer.measure.name} look better by {percent(share)}."
            if share < 0.03
            else f"An {answer.measure.name} larger by {number(answer.optimism, 2)}: choosing "
            "penalty and width on the same rows flatters it by that much."
        )
    return believed


def _doubt(answer: Answer) -> list[str]:
    doubts = []
    single = next((c for c in answer.contrasts if c.kind == "single"), None)
    name = quoted(answer.task.group or "group")
    if single is not None:
        shown = answer.measure.shown(single.value)
        if single.worse < -_DIFFERENT:
            doubts.append(
                f"{shown}, which holding out single rows would claim: other rows of the same "
                f"{name} stay in the training data. It holds only for a {name} that is in the file."
            )
    if answer.holding.kind == "groups" and answer.holding.groups is not None:
        n = len(np.unique(answer.holding.groups))
        if n < 20 and answer.interval is not None:
            doubts.append(f"The exact ends of the interval: it rests on only {n} values of {name}.")
    if len(answer.truth) < 30:
        doubts.append(
            f"The digits of any figure: it rests on only {count(len(answer.truth), 'row')}."
        )
    doubts.append("Predictions for rows unlike any in the file: no held-out row was like that.")
    doubts.append("That a column causes anything: only prediction was tested.")
    return doubts


# --- warnings and notes ---------------------------------------------------------------------------


def _about_the_data(answer: Answer) -> tuple[list[Note], list[Note]]:
    """Return what changes the meaning of the answer, and what does not."""
    grave, quiet = [], []
    here, measure = answer.measure.shown(answer.fit.value), answer.measure
    for contrast in answer.contrasts:
        one = contrast.suspicion
        if one is None:
            continue
        there = measure.shown(contrast.value)
        beside = (
            ""
            if contrast.beside == answer.fit.error
            else f" ({_as_shown(answer, contrast.beside)} with as many basis rows)"
        )
        change = abs(contrast.worse) if contrast.kind == "code" else contrast.worse
        different = change > _DIFFERENT
        text = {
            "copies": "With copies held out together",
            "group": f"For a new {quoted(one.column)}",
            "time": "Predicting later rows from earlier ones,",
            "leak": "Without it",
            "code": "Read as missing,",
        }[contrast.kind]
        text = f"{text} the {measure.name} is {there}"
        if different:
            grave.append(Note(f"{one.text} {text}, not {here}{beside}.", one.option))
        else:
            same = "about the same" if abs(contrast.worse) < 0.02 else f"not {here}{beside}"
            quiet.append(Note(f"{one.text} {text}, {same}.", one.option))
    for one in answer.suspicions:
        asked = answer.holding.kind == "rows" and one.kind in ("group", "time", "copies")
        serious = asked or one.kind in ("code", "leak")
        (grave if serious else quiet).append(Note(one.text, one.option))
    for text in answer.task.table.warnings:
        of_target = text.startswith(quoted(answer.task.target))
        (grave if of_target else quiet).append(Note(text))
    return grave, quiet


def _as_shown(answer: Answer, error: float) -> str:
    return answer.measure.shown(-error if answer.measure.higher_is_better else error)


def _about_simpler_models(answer: Answer) -> list[Note]:
    last = next((c for c in answer.contrasts if c.kind == "last"), None)
    if last is None or last.error > 1.02 * last.beside:
        return []
    return [
        Note(
            f"Repeating the last value is off by {answer.measure.shown(last.value)}, no worse than "
            "the model does in the same steps: to predict what follows, there is no reason to use "
            "the model."
        )
    ]


def _advice(answer: Answer) -> list[Note]:
    """Return what another run may change, about this run."""
    advice, model, fit = [], answer.fit.model, answer.fit
    linear = next((c for c in answer.contrasts if c.kind == "linear"), None)
    if linear is not None and linear.error <= 1.01 * fit.error:
        advice.append(
            Note("A linear model does as well, and is easier to explain.", "--kernel linear")
        )
    if fit.rungs and len(fit.rungs) > 1:
        steps = ", ".join(f"{_as_shown(answer, error)} with {n:,}" for n, error, _ in fit.rungs)
        (_, before, _), (_, after, _) = fit.rungs[-2:]
        gain = (before - after) / (abs(before) or 1.0)
        if answer.clock.next_rung and gain > 0.005:
            advice.append(
                Note(
                    f"The {answer.measure.name} was {steps} basis rows: more time would make it "
                    "better still.",
                    f"--seconds {5 * answer.clock.budget:g}",
                )
            )
    gammas = [p["gamma"] for p in model.cv_results_["params"] if "gamma" in p]
    advice += _edge("gamma", gammas, model.best_params_.get("gamma"), answer.settings.gamma)
    alphas = np.unique(model.cv_results_["alpha"])
    advice += _edge("alphas", alphas, float(np.ravel(model.alpha_)[0]), answer.settings.alphas)
    skipped = list(dict.fromkeys(answer.clock.skipped))
    if answer.clock.next_rung and len(fit.rungs) < 2:
        skipped.insert(0, f"a model with {answer.clock.next_rung:,} basis rows")
    if skipped:
        more = f"--seconds {5 * answer.clock.budget:g}"
        advice.append(Note(f"Left out for time: {'; '.join(skipped)}.", more))
    if answer.clock.refused:
        advice.append(
            Note(f"Could not be had here: {'; '.join(dict.fromkeys(answer.clock.refused))}.")
        )
    return advice


def _edge(option: str, tried: Any, best: float | None, asked: Any) -> list[Note]:
    """Return a range that goes on where the best of those that were asked for is the last."""
    if asked is None or best is None or len(np.unique(tried)) < 2:
        return []
    word = {"gamma": "width (gamma)", "alphas": "penalty"}[option]
    low, high = float(np.min(tried)), float(np.max(tried))
    if np.isclose(best, low):
        return [
            Note(
                f"The best {word} is the smallest tried, {low:.3g}.",
                f"--{option} {low / 1e3:.1e}:{low:.1e}:10",
            )
        ]
    if np.isclose(best, high):
        return [
            Note(
                f"The best {word} is the largest tried, {high:.3g}.",
                f"--{option} {high:.1e}:{high * 1e3:.1e}:10",
            )
        ]
    return []


# --- tables ---------------------------------------------------------------------------------------


def _contrasts(answer: Answer) -> TableOf:
    measure = answer.measure
    rows = [(safe(c.label), measure.shown(c.value)) for c in _sorted(answer.contrasts)]
    return TableOf(
        "Compared",
        ("", measure.name),
        rows,
        f"Held out: {answer.holding.words}, unless the line says otherwise. Each line has a width "
        "and a penalty of its own.",
    )


def _sorted(contrasts: Sequence[Contrast]) -> list[Contrast]:
    order = ("this", "group", "copies", "time", "single", "leak", "code", "linear", "last", "none")
    return sorted(contrasts, key=lambda c: order.index(c.kind))


def decimals(scale: float) -> int:
    """Return how many decimals numbers of that size are given."""
    return 0 if not scale > 0 else int(min(8, max(0, 1 - math.floor(math.log10(scale)))))


def _hardest(answer: Answer) -> TableOf | None:
    rows, lines = answer.fit.held.rows, answer.task.table.lines
    truth, predicted = answer.truth, answer.predictions
    if answer.task.classify:
        P, classes = answer.probabilities
        given = P[np.arange(len(rows)), np.searchsorted(classes, truth)]
        worst = np.argsort(given, kind="stable")[:8]
        cells: list[tuple[str, ...]] = [
            (
                f"{lines[rows[i]]:,}",
                safe(truth[i], 30),
                safe(predicted[i], 30),
                percent(float(given[i])),
            )
            for i in worst
        ]
        header: tuple[str, ...] = ("line", "is", "predicted", "probability of what it is")
    else:
        error = predicted - truth
        worst = np.argsort(-np.abs(error), kind="stable")[:8]
        d = decimals(float(np.abs(error).mean()))
        cells = [
            (
                f"{lines[rows[i]]:,}",
                f"{truth[i]:,.{d}f}",
                f"{predicted[i]:,.{d}f}",
                f"{error[i]:+,.{d}f}",
            )
            for i in worst
        ]
        header = ("line", "is", "predicted", "error")
    if answer.task.groups is not None:
        name = safe(answer.task.group, 30)
        header = (header[0], name, *header[1:])
        cells = [
            (c[0], safe(answer.task.groups[rows[i]], 30), *c[1:])
            for c, i in zip(cells, worst, strict=True)
        ]
    return TableOf(
        "The rows that are furthest off",
        header,
        cells,
        "Look at these lines of the file: wrong entries are often among them.",
    )


def group_errors(answer: Answer) -> tuple[list[str], NDArray[Any], NDArray[Any]] | None:
    """Return the groups, the error of each (RMSE, or share of wrong rows) and their sizes."""
    if answer.task.groups is None:
        return None
    rows = answer.fit.held.rows
    labels, code, sizes = np.unique(
        answer.task.groups[rows], return_inverse=True, return_counts=True
    )
    if answer.task.classify:
        loss = (answer.truth != answer.predictions).astype(float)
        return [str(n) for n in labels], np.bincount(code, loss) / sizes, sizes
    loss = (answer.truth - answer.predictions) ** 2
    return [str(n) for n in labels], np.sqrt(np.bincount(code, loss) / sizes), sizes


def _groups(answer: Answer) -> TableOf | None:
    found = group_errors(answer)
    if found is None:
        return None
    names, errors, sizes = found
    worst = np.argsort(-errors, kind="stable")[:8]
    d = decimals(float(errors.mean()))
    shown = percent if answer.task.classify else lambda v: f"{v:,.{d}f}"
    word = "wrong rows" if answer.task.classify else "RMSE"
    return TableOf(
        f"The hardest of {len(names):,}",
        (safe(answer.task.group, 30), word, "rows"),
        [(safe(names[i], 40), shown(float(errors[i])), f"{sizes[i]:,}") for i in worst],
    )


def _columns(answer: Answer) -> TableOf:
    task, frame = answer.task, answer.task.table.frame
    kinds = {"number": "number", "text": "text", "date": "date", "empty": "empty"}
    roles = {task.target: "target", task.group: "group", task.time: "time"}
    rows = []
    for name in list(frame.columns)[:200]:
        values = frame[name]
        known = values.dropna()
        if task.table.kinds[name] == "number" and len(known):
            held = f"{number(known.min())} to {number(known.max())}"
        elif task.table.kinds[name] == "date" and len(known):
            held = f"{known.min():%Y-%m-%d} to {known.max():%Y-%m-%d}"
        else:
            held = f"{count(known.nunique(), 'value')}" + (
                f", such as {quoted(known.iloc[0])}" if len(known) else ""
            )
        role = roles.get(name) or ("used" if name in task.features else "not used")
        why = task.left_out.get(name, "")
        missing = int(values.isna().sum())
        rows.append(
            (
                safe(name, 40),
                kinds[task.table.kinds[name]],
                held,
                f"{missing:,}" if missing else "",
                f"{role}: {why}" if why else role,
            )
        )
    return TableOf("Columns", ("column", "read as", "holds", "missing", "part"), rows)


def _facts(answer: Answer) -> list[tuple[str, str]]:
    model, task = answer.fit.model, answer.task
    basis, penalty = answer.fit.basis, float(np.ravel(model.alpha_)[0])
    gamma = model.best_params_.get("gamma")
    width = f", width γ = {gamma:.3g}" if gamma is not None else ""
    tried = len({p.get("gamma") for p in model.cv_results_["params"]})
    alphas = np.unique(model.cv_results_["alpha"])
    kernel = {"rbf": "Gaussian", "laplacian": "Laplacian", "linear": "linear"}.get(
        answer.settings.kernel, answer.settings.kernel
    )
    rows = "all rows" if basis >= len(task.y) else f"{basis:,} basis rows of {len(task.y):,}"
    found = [
        (
            "Predicted",
            f"{quoted(task.target)}, "
            + (
                f"{count(len(np.unique(task.y)), 'class', 'classes')}"
                if task.classify
                else "a number"
            ),
        ),
        ("Held out", answer.holding.words),
        (
            "Model",
            f"kernel least squares: {kernel} kernel{width}, penalty λ = {penalty:.3g}, {rows}",
        ),
        (
            "Compared",
            f"{len(alphas)} penalties" + (f" for each of {tried} widths" if tried > 1 else ""),
        ),
        ("Took", seconds(answer.clock.spent)),
    ]
    if answer.interval is not None:
        found.insert(2, ("Interval", f"counts {answer.interval.units} as independent"))
    return found


def _reading(answer: Answer) -> list[str]:
    task = answer.task
    remarks = [*task.table.notes, *task.notes]
    if task.why_classes:
        remarks.append(
            f"{task.why_classes} (--classify no takes it for a number.)"
            if task.table.kinds[task.target] == "number"
            else task.why_classes
        )
    left = {n: w for n, w in task.left_out.items() if w != "left out as asked"}
    for name, why in list(left.items())[:6]:
        remarks.append(f"{quoted(name)} {why}: not used.")
    if len(left) > 6:
        remarks.append(f"{len(left) - 6} more columns are not used: {listed(list(left)[6:])}.")
    return remarks


def _checked(answer: Answer) -> str:
    found = answer.verified
    if found is None:
        return ""
    error = float(found.chosen_relative_error)
    n = len(found.experiments)
    return (
        f"Arithmetic: {count(n, 'model')} refitted without their rows differ from the fast "
        f"predictions by at most {max(error, 1e-16):.0e} standard deviations of "
        f"{quoted(answer.task.target)}."
    )


def _numbers(answer: Answer) -> dict[str, Any]:
    found: dict[str, Any] = {
        "score": answer.measure.name,
        "value": answer.fit.value,
        "without_columns": answer.baseline,
        "better_than_no_columns": _is_better(answer),
        "held_out": answer.holding.short,
        "rows": len(answer.task.y),
        "basis_rows": answer.fit.basis,
        "alpha": float(np.ravel(answer.fit.model.alpha_)[0]),
        "gamma": answer.fit.model.best_params_.get("gamma"),
        "seconds": answer.clock.spent,
        "compared": {safe(c.label): c.value for c in answer.contrasts},
        "columns": {
            safe(name): error - answer.importance_base for name, error in answer.importance
        },
    }
    if answer.interval is not None:
        found["interval"] = asdict(answer.interval)
    if answer.task.classify:
        found["auc"] = _auc(answer)
        found["balanced_accuracy"] = _balanced(answer)
        found["largest_class"] = _largest(answer)[1]
    return found


# --- the terminal ---------------------------------------------------------------------------------


def terminal(findings: Findings, width: int = 88, colour: bool = False) -> str:
    """Return the findings for a terminal: what changes their meaning, the answer, the rest."""
    bold = (lambda text: f"\x1b[1m{text}\x1b[0m") if colour else (lambda text: text)
    yellow = (lambda text: f"\x1b[33m{text}\x1b[0m") if colour else (lambda text: text)
    lines: list[str] = []

    def say(text: str, first: str = "", rest: str = "", look: Any = str) -> None:
        made = textwrap.wrap(
            text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
        )
        lines.extend(look(line) for line in made)

    say(findings.title)
    if findings.warnings:
        lines.append("")
        for note in findings.warnings:
            say(str(note), "! ", "  ", yellow)
    lines.append("")
    say(findings.headline, look=bold)
    say(findings.verdict)
    lines.append("")
    wide = max(len(value) for value, _ in findings.figures)
    for value, what in findings.figures:
        say(what, f"  {value:>{wide}}  ", " " * (wide + 4))
    lines += ["", "Believe"]
    for text in findings.believe:
        say(text, "  + ", "    ")
    lines.append("Do not believe")
    for text in findings.doubt:
        say(text, "  - ", "    ")
    lines += ["", f"Compared ({findings.contrasts.header[1]})"]
    wide = max(len(label) for label, _ in findings.contrasts.rows)
    lines += [f"  {label:<{wide}}  {value}" for label, value in findings.contrasts.rows]
    if findings.notes:
        lines += ["", "Notes"]
        for note in findings.notes:
            say(str(note), "  · ", "    ")
    lines += ["", "How"]
    wide = max(len(name) for name, _ in findings.facts)
    for name, text in findings.facts:
        say(text, f"  {name:<{wide}}  ", " " * (wide + 4))
    for text in findings.reading:
        say(text, "  · ", "    ")
    if findings.checked:
        say(findings.checked, "  · ", "    ")
    return "\n".join(lines)
