"""The cross-validation curve in a notebook, beside scikit-learn's picture of an estimator."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from holdfast.displays.curve_data import CVCurve, cv_curve
from holdfast.displays.score_scale import number

if TYPE_CHECKING:
    from holdfast.estimators.base import CrossValidatedKernelRidge

__all__ = ["curve_html"]

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 420, 170, 62, 12, 12, 36


def curve_html(model: CrossValidatedKernelRidge) -> str:
    """Return a small picture of the curve of a fitted model, as HTML that needs nothing else.

    Notes
    -----
    It is drawn by hand because a notebook shows it for every estimator that is printed: no
    plotting library is imported, and the picture is a few hundred bytes. Colours follow the
    notebook's text colour, so that it can be read on a dark ground.
    """
    curve = cv_curve(model)
    best, label = curve.best, curve.scale.label
    told = (
        f"Held-out {label} {number(curve.values[best])} at λ = {number(curve.alphas[best], 2)}, "
        f"{model.n_splits_:,} experiments, {len(curve.alphas)} penalties"
    )
    edge = f"; the best is the {curve.edge} of the grid" if curve.edge else ""
    return (
        f'<figure style="margin:0.5em 0"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'role="img" aria-label="{escape(told)}" style="max-width:100%;font:11px sans-serif">'
        f"{_picture(curve)}</svg>"
        f'<figcaption style="font-size:0.85em">{escape(told + edge)}</figcaption></figure>'
    )


def _picture(curve: CVCurve) -> str:
    x = _scaled(np.log10(curve.alphas), _LEFT, _WIDTH - _RIGHT)
    se = np.where(np.isfinite(curve.se), curve.se, 0.0)
    known = np.isfinite(curve.values)
    low, high = (curve.values - se)[known].min(), (curve.values + se)[known].max()
    span = high - low or 1.0

    def y(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(_TOP + (high - values) / span * (_HEIGHT - _TOP - _BOTTOM))

    def points(xs: NDArray[np.float64], ys: NDArray[np.float64]) -> str:
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(xs, ys, strict=True))

    x, values, se = x[known], curve.values[known], se[known]
    band = points(np.r_[x, x[::-1]], y(np.r_[values + se, (values - se)[::-1]]))
    at = int(np.flatnonzero(known).searchsorted(curve.best))
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    texts = [
        (_LEFT - 6, _TOP + 4, "end", number(float(high))),
        (_LEFT - 6, _HEIGHT - _BOTTOM + 4, "end", number(float(low))),
        (_LEFT, _HEIGHT - _BOTTOM + 16, "middle", number(float(curve.alphas[0]), 2)),
        (_WIDTH - _RIGHT, _HEIGHT - _BOTTOM + 16, "end", number(float(curve.alphas[-1]), 2)),
        (middle, _HEIGHT - 6, "middle", f"{curve.scale.label} over the penalty λ"),
    ]
    labels = "".join(
        f'<text x="{a:.0f}" y="{b:.0f}" text-anchor="{anchor}" fill="currentColor">'
        f"{escape(t)}</text>"
        for a, b, anchor, t in texts
    )
    frame = f"M{_LEFT},{_TOP}V{_HEIGHT - _BOTTOM}H{_WIDTH - _RIGHT}"
    return (
        f'<path d="{frame}" fill="none" stroke="currentColor" stroke-opacity="0.4"/>'
        f'<polygon points="{band}" fill="#4c8dd6" fill-opacity="0.25"/>'
        f'<polyline points="{points(x, y(values))}" fill="none" stroke="#4c8dd6" stroke-width="2"/>'
        f'<circle cx="{x[at]:.1f}" cy="{float(y(values[at])):.1f}" r="4" fill="none" '
        f'stroke="currentColor" stroke-width="2"/>{labels}'
    )


def _scaled(values: NDArray[np.float64], low: float, high: float) -> NDArray[np.float64]:
    span = values[-1] - values[0]
    if span <= 0:
        return np.full(values.shape, (low + high) / 2)
    return np.asarray(low + (values - values[0]) / span * (high - low))
