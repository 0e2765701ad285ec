"""gamma="search": a coarse grid of widths, extended at its ends, and finer steps about the best.

The coarse widths follow the median distance of the rows (`holdfast.kernels.typical`), a factor of 4
apart. If the best of them is the first or the last, the grid is extended there, one step at a time
and at most `MORE` steps; then the widths half and twice the best are compared as well. At most nine
widths are tried, usually seven.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from holdfast.exceptions import GridEdgeWarning, warn
from holdfast.kernels.grid import Candidate, kernel_grid
from holdfast.kernels.typical import MULTIPLES, STEP
from holdfast.scores.choice import TIE
from holdfast.scores.penalties import Penalties

__all__ = ["family", "warn_at_end", "width_search"]

#: Steps beyond the coarse widths, on either side or on both.
MORE = 2
#: Widths that differ by less are the same.
_SAME = 1.01


def family(candidate: Candidate) -> str:
    """Return what is the same for kernels that differ by their width alone."""
    return repr({name: value for name, value in candidate.params.items() if name != "gamma"})


#: Kernels with their scores.
Tried = Sequence[tuple[Candidate, float]]


def width_search(
    kernel_params: Mapping[str, Any] | None,
    X: Any,
    penalties: Callable[[list[Candidate]], list[Penalties]],
) -> Callable[[Tried], list[tuple[Candidate, Penalties]]]:
    """Return what names further kernels, none at the end, from those tried and their scores.

    `penalties` goes from kernels to the penalties to compare with each.
    """
    n_features = X.shape[1] if X.ndim == 2 else None

    def further(tried: Tried) -> list[tuple[Candidate, Penalties]]:
        found: list[Candidate] = []
        for members in _families(tried):
            params = members[0][0].params
            for gamma in _next(members):
                found += kernel_grid(
                    params["kernel"],
                    gamma=gamma,
                    degree=params.get("degree", 3),
                    coef0=params.get("coef0", 1.0),
                    kernel_params=kernel_params,
                    n_features=n_features,
                )
        return list(zip(found, penalties(found), strict=True)) if found else []

    return further


def _next(members: list[tuple[Candidate, float]]) -> list[float]:
    """Return the widths to try next for one kernel, from its own in increasing order."""
    if len(members) < 2 or _alike(members):
        return []
    widths = [candidate.params["gamma"] for candidate, _ in members]
    best = max(range(len(widths)), key=lambda i: members[i][1])
    if any(b / a < STEP / _SAME for a, b in pairwise(widths)):  # the last round
        return []
    added = len(widths) - len(MULTIPLES)
    if best == 0 and added < MORE:
        return [widths[0] / STEP]
    if best == len(widths) - 1 and added < MORE:
        return [widths[-1] * STEP]
    half = STEP**0.5
    inside = (best > 0, best < len(widths) - 1)
    factors = zip((1.0 / half, half), inside, strict=True)
    return [widths[best] * factor for factor, there in factors if there]


def warn_at_end(chosen: Candidate, tried: Tried) -> None:
    """Warn if the width of the chosen kernel is the first or last of those that were tried."""
    for members in _families(tried):
        if family(members[0][0]) != family(chosen) or len(members) < 2 or _alike(members):
            continue
        widths = [candidate.params["gamma"] for candidate, _ in members]
        gamma = chosen.params["gamma"]
        if gamma in (widths[0], widths[-1]):
            end = "smallest" if gamma == widths[0] else "largest"
            warn(
                f"the best gamma is the {end} of those that were tried ({gamma:.3g}); a better one "
                "may lie beyond.",
                GridEdgeWarning,
                argument="gamma",
                advice="Pass a list of widths as gamma, or `holdfast.tune` the kernel.",
            )


def _families(tried: Tried) -> list[list[tuple[Candidate, float]]]:
    """Return kernels with a width, those of one kind together and in the order of their widths."""
    kinds: dict[str, list[tuple[Candidate, float]]] = {}
    for candidate, score in tried:
        if candidate.params.get("gamma") is not None:
            kinds.setdefault(family(candidate), []).append((candidate, score))
    return [sorted(members, key=lambda one: one[0].params["gamma"]) for members in kinds.values()]


def _alike(members: list[tuple[Candidate, float]]) -> bool:
    """Whether no width is better than another."""
    scores = [score for _, score in members]
    return max(scores) - min(scores) <= TIE * abs(max(scores))
