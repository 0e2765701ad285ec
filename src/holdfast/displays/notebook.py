"""The cross-validation curve in a notebook, beside scikit-learn's picture of an estimator."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.displays.cv_curve import CVCurve, kernel_curves
from holdfast.displays.words import number

if TYPE_CHECKING:
    from holdfast.estimators.base import CrossValidatedKernelRidge

__all__ = ["curve_html"]

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 420, 170, 62, 408, 12, 134


def curve_html(model: CrossValidatedKernelRidge) -> str:
    """Return a small picture of the curve of a fitted model, as HTML that needs nothing else.

    Notes
    -----
    It is drawn by hand because a notebook shows it for every estimator that is printed: no
    plotting library is imported, and the picture is a few hundred bytes. Colours follow the
    notebook's text colour, so that it can be read on a dark ground.
    """
    curve = kernel_curves(model)[0]
    best, label = curve.best, curve.scale.label
    caption = (
        f"Held-out {label} {number(curve.values[best])} at λ = {number(curve.alphas[best], 2)}, "
        f"{model.n_splits_:,} experiments, {len(curve.alphas)} penalties"
    )
    edge = f"; the best is the {curve.edge} of the grid" if curve.edge else ""
    return (
        f'<figure style="margin:0.5em 0"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'role="img" aria-label="{escape(caption)}" style="max-width:100%;font:11px sans-serif">'
        f"{_picture(curve)}</svg>"
        f'<figcaption style="font-size:0.85em">{escape(caption + edge)}</figcaption></figure>'
    )


def _picture(curve: CVCurve) -> str:
    known = np.isfinite(curve.values)
    x, values = np.log10(curve.alphas[known]), curve.values[known]
    se = np.nan_to_num(curve.se[known])
    low, high = float((values - se).min()), float((values + se).max())

    ends = x[[0, -1]] if x.size > 1 else [x[0] - 1, x[0] + 1]

    def points(x_at: Any, y_at: Any) -> str:
        across = np.interp(x_at, ends, [_LEFT, _RIGHT])
        down = np.interp(y_at, [low, high], [_BOTTOM, _TOP])
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, down, strict=True))

    best = [int(np.flatnonzero(known).searchsorted(curve.best))]
    left, top = points(x[best], values[best]).split(",")
    band = points(np.r_[x, x[::-1]], np.r_[values + se, (values - se)[::-1]])
    first, last = (number(float(10**end), 2) for end in x[[0, -1]])
    texts = [
        (_LEFT - 6, _TOP + 4, "end", number(high)),
        (_LEFT - 6, _BOTTOM + 4, "end", number(low)),
        (_LEFT, _BOTTOM + 16, "middle", first),
        (_RIGHT, _BOTTOM + 16, "end", last),
        ((_LEFT + _RIGHT) / 2, _HEIGHT - 6, "middle", f"{curve.scale.label} over the penalty λ"),
    ]
    labels = "".join(
        f'<text x="{a:.0f}" y="{b:.0f}" text-anchor="{anchor}" fill="currentColor">'
        f"{escape(t)}</text>"
        for a, b, anchor, t in texts
    )
    return (
        f'<path d="M{_LEFT},{_TOP}V{_BOTTOM}H{_RIGHT}" fill="none" stroke="currentColor" '
        f'stroke-opacity="0.4"/><polygon points="{band}" fill="#4c8dd6" fill-opacity="0.25"/>'
        f'<polyline points="{points(x, values)}" fill="none" stroke="#4c8dd6" stroke-width="2"/>'
        f'<circle cx="{left}" cy="{top}" r="4" fill="none" '
        f'stroke="currentColor" stroke-width="2"/>{labels}'
    )
