"""The one door through which matplotlib enters, and the look that all figures share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

# One colour per role; readable in print and by colour-blind readers (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

#: The three ways of paper 000 §6.2 to treat basis rows in ten-fold cross-validation.
APPROACHES = (
    "1: a few basis rows change in each round",
    "2: the basis stays, its rows are never tested",
    "3: a new basis in each round",
)


def axes(
    columns: int = 1, rows: int = 1, *, width: float = 5.0, height: float = 3.6, **options: Any
) -> tuple[Any, Any]:
    """Return a figure and its axes as a (rows, columns) array."""
    from matplotlib.figure import Figure  # imported when something is drawn

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def curves(
    ax: Any,
    x: Sequence[float],
    lines: dict[str, Sequence[float]],
    *,
    xlabel: str,
    ylabel: str,
    title: str = "",
    log: bool = False,
    legend: bool = True,
    bands: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """Draw one curve per entry of `lines`, each with its own colour and marker.

    `bands` has standard errors of some curves: two of them on either side are shaded.

    Curves that lie on each other stay visible: the first are wide with large markers, those drawn
    over them thinner and smaller, and all markers are hollow.
    """
    shares = np.arange(len(lines))[::-1] / max(3, len(lines) - 1)
    for (label, y), colour, marker, share in zip(
        lines.items(), COLOURS, MARKERS, shares, strict=False
    ):
        size = {"markersize": 3.5 + 4.0 * share, "linewidth": 1.2 + 1.6 * share}
        ax.plot(x, y, label=label, color=colour, marker=marker, markerfacecolor="none", **size)
        if bands and label in bands:
            middle, half = np.asarray(y), 2.0 * np.asarray(bands[label])
            ax.fill_between(x, middle - half, middle + half, color=colour, alpha=0.15, linewidth=0)
    ax.set(xlabel=xlabel, ylabel=ylabel, title=title)
    if xlabel.startswith("log₂"):
        ax.locator_params(axis="x", integer=True)  # the grids are whole powers of two
    if log:
        ax.set_yscale("log")
    ax.grid(visible=True, alpha=0.3)
    if legend:
        ax.legend(frameon=False, fontsize="small")


def mean_and_variance(
    panels: Any, numbers: Mapping[str, Any], x: Any, title: str = "", log: bool = False
) -> None:
    """Draw mean and variance (`log`: its logarithm) of the MSEs of all approaches."""
    for panel, name in zip(panels, ("mean", "variance"), strict=False):
        errors = numbers.get("standard_error", {}).get(name, ())
        curves(
            panel,
            x,
            dict(zip(APPROACHES, numbers[name], strict=True)),
            xlabel="log₂ λ",
            ylabel=f"{name} of the MSEs",
            title=title,
            log=log and name == "variance",
            legend=False,
            bands=dict(zip(APPROACHES, errors, strict=False)),
        )


def shared_legend(figure: Any, ax: Any) -> None:
    """Put one legend under all panels, which show the same curves."""
    handles, labels = ax[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)


def heat_map(figure: Any, ax: Any, values: Any, *, title: str, xlabel: str, ylabel: str) -> None:
    """Draw a matrix as an image with a colour bar."""
    image = ax.imshow(np.asarray(values), aspect="auto", cmap="magma", interpolation="nearest")
    ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
    ax.locator_params(integer=True)  # rows are counted
    figure.colorbar(image, ax=ax)


def save(figure: Any, path: Path) -> None:
    """Write the figure as SVG; the same numbers give the same bytes."""
    import matplotlib

    # Without a fixed salt and with a date, every SVG would differ.
    with matplotlib.rc_context({"svg.hashsalt": "holdfast"}):
        figure.savefig(path, metadata={"Date": None})
