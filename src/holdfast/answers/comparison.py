"""Is one model better than another: the difference of their scores, with an interval.

Models are compared on the same experiments, row by row: what two models have in common (hard rows,
noise) cancels in the difference. Rows that are tested several times, and rows of a group that is
held out whole, count as one observation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
from scipy.stats import norm, t

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.answers.certainty import quantile
from holdfast.answers.fitted import Fitted
from holdfast.answers.side_by_side import Table
from holdfast.data.frames import make_frame
from holdfast.data.numbers import check_choice, check_level, whole_number
from holdfast.data.seeds import seed_of
from holdfast.exceptions import InvalidInputError

__all__ = ["Comparison", "compare", "holm"]

CompareMethod = Literal["auto", "asymptotic", "corrected", "nested"]
METHODS: tuple[CompareMethod, ...] = ("auto", "asymptotic", "corrected", "nested")


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Differences of scores; numbers for two models, arrays over `pairs` for more.

    Attributes
    ----------
    names : list of str
    scores : ndarray of shape (n,)
        Score of each model on the same experiments.
    pairs : list of (int, int)
        Which models each difference is of: the score of the first minus that of the second.
    difference, low, high, standard_error : float or ndarray
        With an interval at `level`, for each pair by itself.
    p_value, p_holm : float or ndarray
        Two-sided; and corrected for the number of pairs (Holm 1979).
    level : float
    method : str
    scoring : str
    units : str
        What counts as independent: "rows", "groups", "blocks" or "experiments".
    unit_labels : ndarray of shape (u,)
        Row numbers, labels of groups, or numbers of blocks or experiments.
    contributions : ndarray of shape (u, n pairs)
        What each unit adds to the difference of each pair; they sum to it.
    """

    names: list[str]
    scores: FloatArray
    pairs: list[tuple[int, int]]
    difference: float | FloatArray
    low: float | FloatArray
    high: float | FloatArray
    standard_error: float | FloatArray
    p_value: float | FloatArray
    p_holm: float | FloatArray
    level: float
    method: str
    scoring: str
    units: str
    unit_labels: AnyArray
    contributions: FloatArray
    frames: str | None = None

    def __repr__(self) -> str:
        lines = [f"<{self.scoring}, {self.level:.0%} by {self.method}, {self.units}"]
        table = (self.difference, self.low, self.high, self.p_holm)
        rows = zip(self.pairs, *(np.atleast_1d(column) for column in table), strict=True)
        for (i, j), d, low, high, p in rows:
            names = f"{self.names[i]} − {self.names[j]}"
            lines.append(f"  {names}: {d:.4g} [{low:.4g}, {high:.4g}], p = {p:.3g}")
        return "\n".join(lines) + ">"

    def to_frame(self, library: str | None = None) -> Any:
        """Return the table of pairs.

        Parameters
        ----------
        library : {"pandas", "polars"} or None
            Whose frame; None: the library that X came in, else pandas.
        """
        first, second = zip(*self.pairs, strict=True)
        names = np.array(self.names, dtype=object)
        columns = {"model": names[list(first)], "against": names[list(second)]}
        for name in ("difference", "low", "high", "standard_error", "p_value", "p_holm"):
            columns[name] = np.atleast_1d(getattr(self, name))
        return make_frame(columns, library or self.frames)

    def decisive(self, pair: int = 0, library: str | None = None) -> Any:
        """Return rows, or groups, in the order of what they add to the difference of a pair.

        Parameters
        ----------
        pair : int, default 0
            Which of `pairs`.
        library : {"pandas", "polars"} or None
            Whose frame.

        Returns
        -------
        frame
            ``row`` or ``group``, ``contribution`` to the difference, ``left``: the difference
            without this unit and all above it, in the same units.
        """
        order, left = self._order(pair)
        name = self.units.removesuffix("s")
        columns = {
            name: self.unit_labels[order],
            "contribution": self.contributions[order, pair],
            "left": left,
        }
        return make_frame(columns, library or self.frames)

    def n_decisive(self, pair: int = 0) -> int:
        """Return how many rows, or groups, must be left out for the other model to be better."""
        _, left = self._order(pair)
        sign = np.sign(np.atleast_1d(self.difference)[pair])
        turned = np.flatnonzero(sign * left <= 0)
        return int(turned[0]) + 1 if turned.size else len(left)

    def _order(self, pair: int) -> tuple[IntArray, FloatArray]:
        """Return units by contribution in favour of the better model, and what is left of it."""
        parts = self.contributions[:, pair]
        sign = 1.0 if np.atleast_1d(self.difference)[pair] >= 0 else -1.0
        order = np.argsort(-sign * parts, kind="stable")
        return order, parts.sum() - np.cumsum(parts[order])


def compare(
    model_a: Any,
    model_b: Any,
    *more: Any,
    level: float = 0.9,
    method: CompareMethod = "auto",
    scoring: Any = None,
    cv: Any = None,
    groups: Any = None,
    names: Sequence[str] | None = None,
    n_splits: int = 10,
    n_partitions: int = 50,
    random_state: Any = 0,
) -> Comparison:
    """Return the differences between the scores of models on the same experiments.

    Parameters
    ----------
    model_a, model_b, *more : fitted models or predictions
        Models fitted on the same rows and targets, at the penalty that each has chosen; or
        held-out predictions of any other library on the same experiments: an array with one
        prediction per row (decision values or labels of a classifier), a list with one array per
        experiment, or what `nested` returned. At least one must be a model.
    level : float, default 0.9
        Confidence level.
    method : {"auto", "asymptotic", "corrected", "nested"}, default "auto"
        "asymptotic": the standard error of the differences over rows, groups, blocks of rows that
        are held out together (time, neighbourhoods), or experiments (``pooled=False``).
        "corrected": Nadeau and Bengio (2003) for rows that are tested repeatedly. "auto": the one
        of these two that suits the experiments. "nested": Bates et al. (2024) for the difference,
        from random partitions; for models only, whose rows or groups are exchangeable.
    scoring : str, callable or None
        What to compare by; None: as the first model does.
    cv : optional
        Experiments to compare on; None: those of the first model.
    groups : array-like of shape (m,), optional
        Groups that count as the independent units; None: those of the first model, if the
        experiments hold out whole groups.
    names : sequence of str, optional
        Names of the models.
    n_splits, n_partitions : int
        Folds of a random partition, and how many partitions, for ``method="nested"``.
    random_state : int, RandomState or None, default 0
        Seed of the partitions.

    Returns
    -------
    Comparison
        ``.difference`` (score of a minus score of b), ``.low``, ``.high``, ``.p_value``,
        ``.to_frame()``, ``.decisive()``: which rows or groups decide.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> from sklearn.model_selection import cross_val_predict
    >>> import holdfast
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = holdfast.KernelRidgeCV(gamma=10.0, cv=10).fit(X, y)
    >>> linear = cross_val_predict(LinearRegression(), X, y, cv=10)
    >>> found = holdfast.compare(model, linear, names=["kernel", "linear"])
    >>> bool(found.low < found.difference < found.high), found.method
    (True, 'asymptotic')
    """
    entries = [model_a, model_b, *more]
    known: list[Fitted | None] = [
        entry._asked() if hasattr(entry, "_asked") else None for entry in entries
    ]
    if not any(known):
        raise InvalidInputError(
            "compare needs at least one fitted model of this package, which knows the experiments; "
            "got predictions only.",
            argument="models",
        )
    level = check_level(level)
    check_choice("method", method, METHODS)
    splits, count = (
        whole_number("n_splits", n_splits, 2),
        whole_number("n_partitions", n_partitions),
    )
    seed = seed_of(random_state)
    table = Table(entries, known, scoring, cv, groups)
    called = _names(entries, known, names)
    pairs = list(combinations(range(len(entries)), 2))
    if method == "auto":
        method = "corrected" if table.repeated else "asymptotic"
    if method == "nested":
        found = [table.nested(i, j, splits, count, seed) for i, j in pairs]
    else:
        found = [getattr(table, method)(i, j) for i, j in pairs]
    freedom = found[0][2]
    difference = np.array([d for d, _, _ in found])
    se = np.array([s for _, s, _ in found])
    wide = quantile(level, freedom) * se
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(se > 0, np.abs(difference) / se, np.where(difference == 0, 0.0, np.inf))
    p = 2.0 * (norm.sf(ratio) if freedom is None else t.sf(ratio, freedom))
    labels, contributions = table.contributions(pairs)

    told = table.by.told

    def plain(x: FloatArray) -> float | FloatArray:
        return float(x[0]) if len(pairs) == 1 else x

    return Comparison(
        names=called,
        scores=told(table.scores),
        pairs=pairs,
        difference=told(plain(difference)),
        low=told(plain(difference - wide)),
        high=told(plain(difference + wide)),
        standard_error=told(plain(se)),
        p_value=plain(p),
        p_holm=plain(holm(p)),
        level=level,
        method=method,
        scoring=table.by.goal.scoring.name,
        units=table.units,
        unit_labels=labels,
        contributions=told(contributions),
        frames=table.by.frames,
    )


def holm(p: FloatArray) -> FloatArray:
    """Return p-values corrected for their number by the step-down method of Holm (1979)."""
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def _names(
    entries: Sequence[Any], known: Sequence[Fitted | None], names: Sequence[str] | None
) -> list[str]:
    if names is not None:
        if len(names) != len(entries) or len(set(names)) != len(names):
            raise InvalidInputError(
                f"names must hold {len(entries)} different names, one for each model; got "
                f"{names!r}.",
                argument="names",
            )
        return list(names)
    return [
        f"{'model' if found is not None else 'predictions'} {chr(ord('a') + i)}"
        for i, found in enumerate(known)
    ]
