"""The page: the findings and the library's own displays, in one file that asks for nothing else.

One template, escaped throughout; charts are inline SVG in the colours of the page, so that light,
dark and print need no second picture. There is no script, and the page's policy allows none.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.app.words import count, quoted, safe

if TYPE_CHECKING:
    from holdfast.app.findings import Findings
    from holdfast.app.fitting import Answer

__all__ = ["page_of"]

_MOST_POINTS = 1000
_MOST_BARS = 12
#: Colours that are replaced by those of the page.
_INK, _MUTED, _ACCENT, _SECOND, _GRID = "#010101", "#020202", "#030303", "#040404", "#050505"
_COLOURS = {
    _INK: "currentColor",
    _MUTED: "var(--muted)",
    _ACCENT: "var(--accent)",
    _SECOND: "var(--second)",
    _GRID: "var(--line)",
}
_LOOK: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "holdfast",
    "font.size": 10,
    "axes.edgecolor": _MUTED,
    "axes.labelcolor": _INK,
    "axes.titlecolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.prop_cycle": "cycler('color', ['#030303', '#040404', '#020202'])",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "xtick.color": _MUTED,
    "ytick.color": _MUTED,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "text.color": _INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}


@dataclass(frozen=True)
class Chart:
    """A picture with what it says."""

    title: str
    svg: str
    caption: str


def page_of(findings: Findings, answer: Answer) -> str:
    """Return the page of an answer, as HTML."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    import holdfast

    charts = dict(_charts(answer))
    here = files("holdfast.app")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["drawn"] = lambda chart: Markup(chart.svg)  # by matplotlib, which escapes
    template = environment.from_string(here.joinpath("page.html").read_text(encoding="utf-8"))
    text: str = template.render(
        f=findings,
        charts=charts,
        style=Markup(here.joinpath("page.css").read_text(encoding="utf-8")),
        version=holdfast.__version__,
    )
    return text.replace(" %", "\u00a0%")  # a number and its sign stay on one line


def _charts(answer: Answer) -> Iterator[tuple[str, Chart]]:
    """Yield the charts by name; at most five."""
    yield "main", _classes(answer) if answer.task.classify else _actual(answer)
    yield "compared", _compared(answer)
    if answer.importance:
        yield "columns", _columns(answer)
    if answer.task.groups is not None:
        yield "groups", _groups(answer)
    if len(np.unique(answer.fit.model.cv_results_["alpha"])) > 2:
        yield "curve", _curve(answer)


def _draw(name: str, alt: str, size: tuple[float, float], draw: Callable[[Any], None]) -> str:
    """Return a drawing as inline SVG in the colours of the page."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_LOOK), _no_pyplot():
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure.add_subplot())
        out = io.StringIO()
        figure.savefig(
            out,
            format="svg",
            metadata={"Date": None, "Creator": None, "Type": None, "Format": None},
        )
    return _inline(out.getvalue(), name, alt)


@contextmanager
def _no_pyplot() -> Iterator[None]:
    """Keep matplotlib from opening windows, whatever the backend of this machine is."""
    import matplotlib

    before = matplotlib.rcParams.get("backend")
    matplotlib.use("agg", force=False)
    try:
        yield
    finally:
        if before:
            matplotlib.rcParams["backend"] = before


def _inline(svg: str, name: str, alt: str) -> str:
    """Return an SVG document as an element: names of its own, the colours and font of the page."""
    from markupsafe import escape

    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    box = re.search(r'viewBox="([^"]+)"', svg)
    assert box is not None
    svg = re.sub(
        r"<svg[^>]*>",
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="{box[1]}" role="img" aria-label="{escape(alt)}">',
        svg,
        count=1,
    )
    svg = re.sub(r'(<[^>]*\s)id="', rf'\1id="{name}-', svg)
    svg = svg.replace('xlink:href="#', f'xlink:href="#{name}-').replace("url(#", f"url(#{name}-")
    for placeholder, colour in _COLOURS.items():
        svg = svg.replace(placeholder, colour)
    svg = re.sub(r"font: ([\d.]+)px '[^;\"]*", r"font-size: \1px", svg)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.S)
    svg = re.sub(r'(?<= )(?:d|x|y|transform)="[^"]*"', _shorter, svg)
    return re.sub(r"\n\s*", "\n", svg)


def _shorter(attribute: re.Match[str]) -> str:
    """Return coordinates with one decimal: a tenth of a point."""
    return re.sub(r"(\d+\.\d)\d+", r"\1", attribute[0])


def _label(name: Any, longest: int = 30) -> str:
    """Return a name of the data as matplotlib takes it: a dollar sign would begin a formula."""
    return safe(name, longest).replace("$", r"\$")


# --- the charts -----------------------------------------------------------------------------------


def _actual(answer: Answer) -> Chart:
    from holdfast.displays import HeldOutDisplay

    truth, predictions = answer.truth, answer.predictions
    rows = np.arange(len(truth))
    if len(rows) > _MOST_POINTS:
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:_MOST_POINTS])
    target = _label(answer.task.target, 24)

    def draw(ax: Any) -> None:
        look = {"color": _ACCENT, "s": 12, "alpha": 0.45, "linewidths": 0}
        HeldOutDisplay(y_true=truth[rows], y_pred=predictions[rows]).plot(ax, **look)
        for line in ax.lines:
            line.set_color(_INK)
        ax.set(xlabel=f"{target}, as it is in the file", ylabel="held-out prediction")

    drawn = (
        f"{len(rows):,} of {len(truth):,} rows, at random"
        if len(rows) < len(truth)
        else "Each point is a row"
    )
    return Chart(
        "Predicted and true",
        _draw("main", "Held-out predictions against the values in the file", (4.6, 3.9), draw),
        f"{drawn}, predicted by a model that had not seen it. On the line both agree.",
    )


def _classes(answer: Answer) -> Chart:
    from sklearn.metrics import ConfusionMatrixDisplay, RocCurveDisplay, confusion_matrix

    P, classes = answer.probabilities
    names = [_label(c, 24) for c in classes]
    if len(classes) == 2:
        truth = answer.truth == classes[1]

        def draw(ax: Any) -> None:
            display = RocCurveDisplay.from_predictions(truth, P[:, 1], ax=ax)
            display.line_.set_color(_ACCENT)
            ax.plot([0, 1], [0, 1], "--", color=_MUTED, linewidth=1)
            if ax.get_legend() is not None:
                ax.get_legend().remove()
            ax.set(
                xlabel=f"share of the other rows taken for “{names[1]}”",
                ylabel=f"share of “{names[1]}” found",
            )

        return Chart(
            "What is found, at what price",
            _draw("main", "ROC curve of held-out rows", (4.6, 3.9), draw),
            f"Held-out rows, from the strictest threshold for {quoted(classes[1])} to the most "
            "generous. The dashed line is guessing.",
        )
    counts = confusion_matrix(answer.truth, answer.predictions, labels=classes)
    most = np.argsort(-counts.sum(axis=1), kind="stable")[:_MOST_BARS]
    shares = counts[np.ix_(most, most)] / np.maximum(counts.sum(axis=1)[most][:, None], 1)

    def matrix(ax: Any) -> None:
        ax.grid(visible=False)
        shown = ConfusionMatrixDisplay(shares, display_labels=[names[i] for i in most])
        shown.plot(
            ax=ax, include_values=False, colorbar=False, xticks_rotation=90 if len(most) > 5 else 0
        )
        shown.im_.remove()
        for i in range(len(most)):
            for j in range(len(most)):
                ax.add_patch(_square(j, i, shares[i, j]))
                ax.text(j, i, f"{100 * shares[i, j]:.0f}", ha="center", va="center", fontsize=9)
        ax.set(xlabel="predicted", ylabel="is")

    return Chart(
        "Which classes are taken for which",
        _draw("main", "Shares of each class by predicted class, held out", (4.6, 4.2), matrix),
        "Per cent of the rows of each class, held out; each line sums to 100"
        + (f". The {len(most)} most frequent classes." if len(most) < len(classes) else "."),
    )


def _square(x: int, y: int, share: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.5, y - 0.5), 1, 1, color=_ACCENT, alpha=0.6 * float(share), linewidth=0)


def _bars(
    labels: list[str], values: list[float], shown: list[str], xlabel: str, line: float | None
) -> Callable[[Any], None]:
    """Return what draws horizontal bars by the library's display, each with its value."""
    from holdfast.displays import GroupScoresDisplay

    def draw(ax: Any) -> None:
        display = GroupScoresDisplay(
            labels=labels,
            scores=np.array(values),
            counts=np.ones(len(values), dtype=int),
            overall=line,
            score_name=xlabel,
        )
        display.plot(ax, n_groups=len(values), color=_ACCENT, height=0.62)
        # Largest first; the values follow the bars.
        order = np.argsort(-np.asarray(values), kind="stable")
        ax.bar_label(display.bars_, [f" {shown[i]}" for i in order], fontsize=9)
        ax.grid(axis="y", visible=False)
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        ax.margins(x=0.14)
        if ax.get_legend() is not None:
            ax.get_legend().remove()
        for each in ax.lines:
            each.set_color(_INK)

    return draw


def _compared(answer: Answer) -> Chart:
    contrasts = answer.contrasts
    labels = [safe(c.label, 36) for c in contrasts]
    values, shown = [c.value for c in contrasts], [answer.measure.shown(c.value) for c in contrasts]
    better = "more" if answer.measure.higher_is_better else "less"
    draw = _bars(labels, values, shown, f"held-out {answer.measure.name}", None)

    def marked(ax: Any) -> None:
        draw(ax)
        order = np.argsort(-np.asarray(values), kind="stable")
        for bar, i in zip(ax.patches, order, strict=False):
            bar.set_facecolor(_ACCENT if contrasts[i].kind == "this" else _MUTED)
            bar.set_alpha(1.0 if contrasts[i].kind == "this" else 0.45)

    return Chart(
        "Compared",
        _draw(
            "compared",
            f"Bars of the {answer.measure.name} of this model and of others",
            (5.2, 0.55 + 0.36 * len(labels)),
            marked,
        ),
        f"{better.capitalize()} is better. Each bar has a width and a penalty of its own.",
    )


def _columns(answer: Answer) -> Chart:
    some = answer.importance[:_MOST_BARS]
    gain = [max(0.0, error - answer.importance_base) for _, error in some]
    if not answer.task.classify:
        name, shown = "RMSE", [_plus(v) for v in gain]
    elif len(np.unique(answer.task.y)) == 2:
        name, shown = "share of pairs in the wrong order", [_plus(v) for v in gain]
    else:
        name, shown = "share of wrong rows", [_plus(v) for v in gain]
    more = (
        f" The first {len(some)} of {len(answer.importance)}."
        if len(answer.importance) > len(some)
        else ""
    )
    draw = _bars(
        [safe(n, 30) for n, _ in some],
        gain,
        shown,
        f"more {name} when its values are shuffled",
        None,
    )
    return Chart(
        "What the columns are worth",
        _draw(
            "columns",
            f"Bars of the columns by how much the {name} rises when they are shuffled",
            (5.2, 0.6 + 0.3 * len(some)),
            draw,
        ),
        f"How much the held-out {name} rises when the values of one column are shuffled. Columns "
        f"with the same information share their worth.{more}",
    )


def _plus(value: float) -> str:
    from holdfast.displays.words import number

    return f"+{number(value, 2)}" if value > 0 else "0"


def _groups(answer: Answer) -> Chart:
    from holdfast.app.findings import decimals, group_errors
    from holdfast.app.words import percent

    found = group_errors(answer)
    assert found is not None
    names, errors, _ = found
    word = "share of wrong rows" if answer.task.classify else "RMSE"
    d = decimals(float(errors.mean()))
    miss = answer.truth != answer.predictions
    if not answer.task.classify:
        miss = (answer.truth - answer.predictions) ** 2
    overall = float(np.mean(miss)) ** (1.0 if answer.task.classify else 0.5)
    worst = np.argsort(-errors, kind="stable")[:_MOST_BARS]
    shown = [percent(errors[i]) if answer.task.classify else f"{errors[i]:,.{d}f}" for i in worst]
    draw = _bars(
        [safe(names[i], 30) for i in worst],
        [float(errors[i]) for i in worst],
        shown,
        f"held-out {word}",
        overall,
    )
    group = quoted(answer.task.group)
    return Chart(
        f"The hardest of {count(len(names), 'group')}",
        _draw(
            "groups",
            f"Bars of the {word} of the hardest groups",
            (5.2, 0.6 + 0.3 * len(worst)),
            draw,
        ),
        f"Each value of {group} by a model that saw none of its rows. Dashed: all together."
        if answer.holding.kind == "groups"
        else f"Values of {group}; the dashed line is all together.",
    )


def _curve(answer: Answer) -> Chart:
    from holdfast.displays import CVCurveDisplay

    def draw(ax: Any) -> None:
        display = CVCurveDisplay.from_estimator(answer.fit.model, ax=ax, color=_ACCENT)
        for other in display.others_:
            other.set_color(_GRID)
        if display.best_ is not None:
            display.best_.set_color(_SECOND)
        if display.one_se_ is not None:
            display.one_se_.set_color(_SECOND)
        ax.legend()  # in these colours
        ax.grid(axis="x", visible=False)

    return Chart(
        "The penalty",
        _draw("curve", "Held-out score over the penalties", (5.2, 2.6), draw),
        "How the penalty was chosen: the held-out score of each, with its standard error, at the "
        "chosen width; grey: other widths.",
    )
