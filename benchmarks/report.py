"""Tables and pictures from a record: ratios to one plain fit, memory, deviation from retraining."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.problems import PROBLEMS
from benchmarks.rivals import RIVALS, YARDSTICK

OURS = ("holdfast", "holdfast-remove", "holdfast-default", "holdfast-streamed")

Run = Mapping[str, Any]
Records = Sequence[Mapping[str, Any]]


def save(run: Run, path: Path) -> None:
    """Write a run as JSON; what is not a number becomes null."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(_plain(run), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def load(path: Path) -> dict[str, Any]:
    """Read a run."""
    run: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return run


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def by_problem(run: Run) -> dict[str, Records]:
    """Return the records of each problem, in the order of the run."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for record in run["records"]:
        found.setdefault(record["problem"], []).append(record)
    return {name: tuple(records) for name, records in found.items()}


def seconds(records: Records, rival: str) -> float:
    """Return the seconds of a rival's fastest round, nan where it has none."""
    for record in records:
        if record["rival"] == rival and record["status"] == "ok" and record["seconds"]:
            return float(min(record["seconds"]))
    return math.nan


def fraction(value: float, unit: float) -> str:
    """Return a ratio to two or three digits."""
    ratio = value / unit if unit else math.nan
    if not math.isfinite(ratio):
        return "–"
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:,.0f}"


def rows(records: Records) -> list[tuple[str, ...]]:
    """Return the lines of one problem's table, fastest first, refusals last."""
    unit, ours = seconds(records, YARDSTICK), seconds(records, "holdfast")

    def key(record: Mapping[str, Any]) -> tuple[bool, float]:
        fastest = seconds(records, record["rival"])
        return not math.isfinite(fastest), fastest if math.isfinite(fastest) else 0.0

    lines: list[tuple[str, ...]] = []
    for record in sorted(records, key=key):
        fastest = seconds(records, record["rival"])
        if not math.isfinite(fastest):
            if record["status"] == "failed" or "needs the kernel" in record["why"]:
                lines.append((record["label"], record["why"], "", "", "", ""))
            continue
        deviation, peak = record["deviation"], record["peak_bytes"]
        shown = "–" if deviation is None or math.isnan(deviation) else f"{deviation:.0e}"
        if record["deviation_of"] not in ("", "predictions", "nothing"):
            shown += " *"
        memory = "–" if peak is None or math.isnan(peak) else f"{peak / 1e6:,.0f} MB"
        lines.append(
            (
                record["label"],
                f"{fastest:.3g} s",
                fraction(fastest, unit),
                fraction(fastest, ours),
                memory,
                shown,
            )
        )
    return lines


HEADER = ("", "time", "× one plain fit", "× holdfast", "memory", "deviation")


def text_table(lines: Sequence[Sequence[str]]) -> str:
    """Return lines in columns for a terminal; the first line is the header."""
    widths = [max(len(line[c]) for line in lines) for c in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if c == 0 else cell.rjust(width)
            for c, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def markdown_table(lines: Sequence[Sequence[str]]) -> str:
    """Return the same as a Markdown table."""
    marks = ["---", *["---:"] * (len(lines[0]) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], marks, *lines[1:]])


def target_lines(run: Run) -> list[tuple[str, ...]]:
    """Return the jobs that have a target: what is wanted, what was measured, the best rival."""
    lines = []
    for name, records in by_problem(run).items():
        problem, unit = PROBLEMS[name], seconds(records, YARDSTICK)
        others = [
            (seconds(records, record["rival"]), record["label"])
            for record in records
            if record["rival"] not in OURS
            and not RIVALS[record["rival"]].single
            and record["status"] == "ok"
        ]
        best = min((pair for pair in others if math.isfinite(pair[0])), default=None)
        cells = [fraction(seconds(records, rival), unit) for rival in OURS]
        rival = "–" if best is None else f"{fraction(best[0], unit)} ({best[1]})"
        lines.append((str(problem), problem.target or "–", *cells, rival))
    return lines


TARGET_HEADER = (
    "job, as a ratio to one plain fit",
    "target",
    "common model",
    "basis rows removed",
    "defaults",
    "streamed",
    "best of the others",
)

NOTE = (
    "The fastest of interleaved rounds. Memory is the peak of resident memory above the data. "
    "Deviation is the largest relative difference from models that were really retrained, on a "
    "sample of experiments and penalties, of predictions or, with *, of mean squared errors."
)


def machine_line(run: Run) -> str:
    """Return one sentence about where and with what the run was made."""
    facts, found = run["machine"], run["versions"]
    packages = ", ".join(f"{name} {number}" for name, number in found.items())
    return (
        f"{run['date']}, {facts['processor']}, {facts['cores']} cores, {facts['threads']} BLAS "
        f"threads ({', '.join(facts['blas'])}), {facts['memory_gb']:.0f} GB, load at the start "
        f"{facts['load']}; {packages}."
    )


def to_text(run: Run) -> str:
    """Return the whole report for a terminal."""
    parts = [machine_line(run)]
    for name, records in by_problem(run).items():
        parts.append(f"\n{PROBLEMS[name]}\n" + text_table([HEADER, *rows(records)]))
    parts.append("\n" + text_table([TARGET_HEADER, *target_lines(run)]))
    return "\n".join([*parts, "", NOTE])


def plot(run: Run, stem: Path) -> list[Path]:
    """Draw the ratios of every problem as bars, and return the PNG and the SVG written."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plt.rcParams["svg.hashsalt"] = "holdfast"  # the same picture is the same file
    problems = by_problem(run)
    figure, axes = plt.subplots(
        len(problems), 1, figsize=(8, 2.6 * len(problems)), squeeze=False, layout="constrained"
    )
    for ax, (name, records) in zip(axes[:, 0], problems.items(), strict=True):
        unit = seconds(records, YARDSTICK)
        bars = sorted(
            (seconds(records, record["rival"]) / unit, record["label"], record["rival"] in OURS)
            for record in records
            if record["rival"] != YARDSTICK and math.isfinite(seconds(records, record["rival"]))
        )
        colours = ["#1b6ca8" if mine else "#b0b0b0" for _, _, mine in bars]
        drawn = ax.barh([label for _, label, _ in bars], [v for v, _, _ in bars], color=colours)
        ax.bar_label(drawn, [fraction(value, 1.0) for value, _, _ in bars], padding=3)
        if PROBLEMS[name].limit is not None:
            limit, red = PROBLEMS[name].limit, "#c0392b"
            ax.axvline(limit, color=red, linestyle="--", zorder=0)
            across = ax.get_xaxis_transform()  # the height as a share of the axes
            ax.text(limit, 1.0, "target", color=red, ha="center", va="bottom", transform=across)
        ax.set(xscale="log", xlabel="× one plain fit")
        ax.set_title(str(PROBLEMS[name]), loc="right", pad=16)
        # One plain fit is where bars begin, so that lengths compare; plain numbers on the axis.
        ratios = [1.0, *(value for value, _, _ in bars)]
        ax.set_xlim(min(ratios), 2.0 * max(ratios))
        ax.xaxis.set_major_formatter(lambda value, place: f"{value:g}")
        ax.xaxis.set_minor_formatter(lambda value, place: "")
        ax.invert_yaxis()
        ax.spines[["top", "right"]].set_visible(False)
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_suffix(ending) for ending in (".png", ".svg")]
    for path in paths:
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(path, dpi=120, metadata=metadata)
    plt.close(figure)
    return paths
