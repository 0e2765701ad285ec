"""What the ways of holding out basis rows estimate, side by side; how an estimate varies."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.answers.fitted import Fitted
from holdfast.answers.held_out import HeldOutPredictions, held_out
from holdfast.answers.partitions import partitions as random_folds
from holdfast.answers.problem import Problem
from holdfast.answers.units import codes_of
from holdfast.basis import Fixed, Points
from holdfast.basis.resolve import as_selector
from holdfast.data.frames import make_frame
from holdfast.data.numbers import whole_number
from holdfast.data.seeds import seed_of
from holdfast.exceptions import InvalidInputError, NotSupportedError
from holdfast.experiments import Experiments, HoldOut, leave_group_out

__all__ = ["Policies", "PolicyScore", "Variation", "policies", "variation"]

#: What each policy estimates, and of what it speaks (Pahikkala et al. 2012, (4) and (5)).
MEANINGS = {
    "remove": (
        "algorithm",
        "Held-out rows leave the training set and the basis: the model has not seen them in any "
        "role. With basis rows drawn at random it estimates the error of the algorithm, for as "
        "many basis rows as are left.",
    ),
    "keep": (
        "predictor",
        "Held-out rows leave the training set but stay in the basis. It describes this particular "
        "basis, but new rows are never basis rows: it can be badly wrong where rows of a group "
        "are alike.",
    ),
    "train": (
        "neither",
        "Held-out basis rows are trained on and tested all the same: too optimistic. It is there "
        "to reproduce published figures.",
    ),
    "skip": (
        "predictor",
        "Basis rows are always trained on and never tested. It describes this particular basis, "
        "from the rows that are not in it; not for groups of rows that are alike.",
    ),
    "reselect": (
        "algorithm",
        "The basis is chosen again without the held-out rows, by retraining. It estimates the "
        "error of the algorithm, its choice of basis rows included.",
    ),
    "groups": (
        "algorithm",
        "Whole groups are held out, and their basis rows removed. It estimates the error for rows "
        "of new groups.",
    ),
}
#: "reselect" trains again for every experiment: more are asked for by name.
MOST_RETRAINED = 100


@dataclass(frozen=True)
class PolicyScore:
    """The held-out score under one policy.

    Attributes
    ----------
    name : str
        The policy, or ``"groups"`` for whole groups held out.
    score : float
        Held-out score at the model's penalty, greater is better.
    tested : int
        How many predictions it is of.
    speaks_of : {"predictor", "algorithm", "neither"}
        Whether it estimates the error of this fitted model on new rows, or the expected error of
        the algorithm on data like these.
    meaning : str
        The same in plain words.
    """

    name: str
    score: float
    tested: int
    speaks_of: str
    meaning: str


@dataclass(frozen=True, repr=False)
class Policies:
    """Held-out scores under every policy for held-out basis rows.

    Attributes
    ----------
    scores : tuple of PolicyScore
        One for each policy that was asked for and is possible.
    left_out : dict of str to str
        Policies that were not computed, and why.
    scoring : str
        What was scored.
    classifier : bool
        Whether the model is a classifier.
    """

    scores: tuple[PolicyScore, ...]
    left_out: dict[str, str]
    scoring: str
    classifier: bool

    def __getitem__(self, name: str) -> PolicyScore:
        """Return the score under one policy."""
        for one in self.scores:
            if one.name == name:
                return one
        known = ", ".join(one.name for one in self.scores)
        raise KeyError(f"{name!r} was not computed; there are {known}.")

    def __repr__(self) -> str:
        lines = [f"<held-out {self.scoring} by policy"]
        for one in self.scores:
            head = f"{one.name:<9} {one.score:>10.4g}  {one.tested} tested, {one.speaks_of}: "
            lines += textwrap.wrap(head + one.meaning, 98, subsequent_indent=" " * 22)
        lines += [f"{name:<9} {'–':>10}  {why}" for name, why in self.left_out.items()]
        return "\n  ".join(lines) + ">"

    def plot(self, ax: Any = None, **kwargs: Any) -> Any:
        """Return a `holdfast.displays.PoliciesDisplay`, plotted.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        **kwargs
            For the bars.
        """
        from holdfast.displays import PoliciesDisplay

        return PoliciesDisplay(self).plot(ax, **kwargs)

    def to_frame(self, library: str | None = None) -> Any:
        """Return a table: policy, score, tested, speaks_of, meaning.

        Parameters
        ----------
        library : {"pandas", "polars"} or None
        """
        rows = [dataclasses.astuple(one) for one in self.scores]
        names = ("policy", "score", "tested", "speaks_of", "meaning")
        columns = {
            name: np.array(column)
            for name, column in zip(names, zip(*rows, strict=True), strict=True)
        }
        return make_frame(columns, library)


@dataclass(frozen=True, eq=False, repr=False)
class Variation:
    """How a cross-validation estimate varies with the draw of the basis and with the partition.

    Attributes
    ----------
    scores : ndarray of shape (draws, partitions)
        Held-out score at the model's penalty for each draw of the basis rows and each partition
        into folds, greater is better.
    n_splits : int
        Folds of a partition.
    scoring : str
        What was scored.
    classifier : bool
        Whether the model is a classifier.
    """

    scores: FloatArray
    n_splits: int
    scoring: str
    classifier: bool

    @property
    def mean(self) -> float:
        """The mean score."""
        return float(self.scores.mean())

    @property
    def by_draw(self) -> float:
        """Standard deviation between draws of the basis rows; NaN with one draw."""
        return self._component(0)

    @property
    def by_partition(self) -> float:
        """Standard deviation between partitions; NaN with one partition."""
        return self._component(1)

    @property
    def total(self) -> float:
        """Standard deviation of a single estimate: one draw, one partition."""
        parts = (self.by_draw, self.by_partition, np.sqrt(self._rest()))
        return float(np.sqrt(np.nansum(np.square(parts))))

    def _rest(self) -> float:
        """Return the variance that neither draw nor partition explains alone."""
        draws, parts = self.scores.shape
        if draws == 1 or parts == 1:
            return 0.0
        rows, columns = (self.scores.mean(axis=axis, keepdims=True) for axis in (1, 0))
        rest = self.scores - rows - columns + self.scores.mean()
        return float(np.square(rest).sum() / ((draws - 1) * (parts - 1)))

    def _component(self, axis: int) -> float:
        """Return the standard deviation along one axis, minus the part due to chance.

        Notes
        -----
        Two-way random effects without repeats: the means over the other axis vary by the component
        and by the rest over their number.
        """
        count = self.scores.shape[axis]
        if count == 1:
            return float("nan")
        variance = self.scores.mean(axis=1 - axis).var(ddof=1)
        return float(np.sqrt(max(0.0, variance - self._rest() / self.scores.shape[1 - axis])))

    def __repr__(self) -> str:
        draws, parts = self.scores.shape
        spread = []
        if draws > 1:
            spread.append(f"the draw of the basis rows moves it by ± {self.by_draw:.2g}")
        if parts > 1:
            spread.append(f"the partition by ± {self.by_partition:.2g}")
        return (
            f"<held-out {self.scoring} {self.mean:.4g} ± {self.total:.2g}: "
            f"{draws} draws of the basis, {parts} partitions into {self.n_splits} folds; "
            f"{', '.join(spread) or 'nothing varied'}>"
        )

    def plot(self, ax: Any = None, **kwargs: Any) -> Any:
        """Return a `holdfast.displays.VariationDisplay`, plotted.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        **kwargs
            For the points.
        """
        from holdfast.displays import VariationDisplay

        return VariationDisplay(self).plot(ax, **kwargs)

    def to_frame(self, library: str | None = None) -> Any:
        """Return a long table: draw, partition, score.

        Parameters
        ----------
        library : {"pandas", "polars"} or None
        """
        draw, partition = np.indices(self.scores.shape)
        columns = {
            "draw": draw.ravel(),
            "partition": partition.ravel(),
            "score": self.scores.ravel(),
        }
        return make_frame(columns, library)


def policies(
    fitted: Fitted, names: Sequence[str] | None = None, *, cv: Any = None, groups: Any = None
) -> Policies:
    """Return the held-out score under every policy; see ``model.policies``."""
    problem, goal = fitted.problem, fitted.goal
    labels: Any = problem.groups if groups is None else np.asarray(groups)
    if groups is not None and labels.shape != (problem.weights.size,):
        raise InvalidInputError(
            f"groups must hold one label per row, shape ({problem.weights.size},); got shape "
            f"{labels.shape}.",
            argument="groups",
        )
    scores, left_out = [], {}
    for name in _checked(names):
        why = _impossible(problem, name, labels)
        if not why and name == "reselect" and names is None:
            n = len(problem.experiments)
            why = f"would train {n} models again; ask for it by name" * (n > MOST_RETRAINED)
        if why and names is not None:
            raise NotSupportedError(f"policies: {name!r} {why}.", argument="names")
        if why:
            left_out[name] = why
            continue
        whole = name == "groups"
        asked = fitted.changed(policy="remove" if whole else name)
        held = _at_penalty(asked, leave_group_out(labels) if whole else cv)
        scores.append(PolicyScore(name, float(held.score()[0]), held.rows.size, *MEANINGS[name]))
    return Policies(tuple(scores), left_out, goal.scoring.name, goal.classes is not None)


def variation(
    fitted: Fitted, n_splits: int, draws: int | None, partitions: int, random_state: Any
) -> Variation:
    """Return how the estimate varies; see ``model.variation``."""
    problem, goal = fitted.problem, fitted.goal
    folds, count = whole_number("n_splits", n_splits), whole_number("partitions", partitions)
    drawn, seed = _is_drawn(problem), seed_of(random_state)
    draws = (10 if drawn else 1) if draws is None else whole_number("draws", draws)
    if draws > 1 and not drawn:
        raise NotSupportedError(
            "draws is for basis rows that are drawn; these are all rows or the user's own. Pass "
            "basis=100 (or another number of rows) or a selector, and fit again.",
            argument="draws",
        )
    unit = np.arange(problem.weights.size) if problem.groups is None else codes_of(problem.groups)
    labels = None if goal.classes is None else problem.labels
    scores = np.empty((draws, count))
    for p in range(count):
        parts = random_folds(unit, labels, problem.weights, folds, [seed, p])
        held = _at_penalty(fitted, [HoldOut(part) for part in parts], draws)
        scores[:, p] = [part.score()[0] for part in _each_draw(held, draws)]
    return Variation(scores, folds, goal.scoring.name, goal.classes is not None)


def _at_penalty(fitted: Fitted, cv: Any, draws: int = 1) -> HeldOutPredictions:
    """Return held-out predictions at the penalty of each target."""
    grid, index = np.unique(fitted.alphas, return_inverse=True)
    held = held_out(fitted, cv, alphas=grid, basis_draws=draws)
    if grid.size == 1:
        return held
    values = held.values[index, :, np.arange(index.size)].T[None]  # each target at its own
    return dataclasses.replace(held, values=values, alphas=grid[:1], moments=None)


def _checked(names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the policies asked for."""
    if names is None:
        return tuple(MEANINGS)
    unknown = [name for name in names if name not in MEANINGS]
    if isinstance(names, str) or not len(names) or unknown:
        raise InvalidInputError(
            f"names must be a sequence of {', '.join(map(repr, MEANINGS))}; got {names!r}.",
            argument="names",
        )
    return tuple(names)


def _is_drawn(problem: Problem) -> bool:
    """Return whether the basis rows are drawn or chosen, not all rows nor the user's own."""
    selector = as_selector(problem.basis, problem.weights.size)
    return selector is not None and not isinstance(selector, Fixed | Points)


def _impossible(problem: Problem, name: str, groups: Any) -> str:
    """Return why a policy cannot be asked of this problem, or nothing."""
    if name == "groups":
        return "" if groups is not None else "needs groups, which fit was not given"
    selector = as_selector(problem.basis, problem.weights.size)
    if selector is None:
        return "" if name == "remove" else "needs basis rows; this model is dense"
    if name != "reselect":
        return ""
    if isinstance(selector, Fixed | Points):
        return "needs basis rows that are chosen; these are the user's own"
    asks = "experiments" in selector.needs
    return f"cannot be chosen again by {type(selector).__name__}, which needs all folds" * asks


def _each_draw(held: HeldOutPredictions, draws: int) -> Iterator[HeldOutPredictions]:
    """Yield the predictions of each draw of the basis rows."""
    if draws == 1:
        yield held
        return
    listed = held.experiments
    for part in np.split(np.arange(len(listed)), draws):
        index: IntArray = part
        start, stop = listed.test.ptr[index[0]], listed.test.ptr[index[-1] + 1]
        some = Experiments(listed.held_out.items(index), listed.test.items(index))
        yield dataclasses.replace(held, experiments=some, values=held.values[:, start:stop])
