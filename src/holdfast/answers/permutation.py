"""How well chance would have done: the same search on permuted targets.

Permuted targets are further columns of y: the rows, their factors and the experiments do not
change, and every permutation gets a penalty (and a kernel) of its own. Predictions are made for a
block of permutations at a time and reduced to scores at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.answers.fitted import Estimator, Fitted
from holdfast.core.experiments import Ragged, Tasks
from holdfast.core.models import HeldOutModels
from holdfast.core.plan import PLANNED, estimate
from holdfast.data.values import seed_of, whole_number
from holdfast.exceptions import InvalidInputError, NotSupportedError
from holdfast.progress import report, shows_progress
from holdfast.scores.choice import TIE
from holdfast.scores.metric import printed
from holdfast.scores.scoring import Scores
from holdfast.scores.units import codes_of, overlapping, steps_of
from holdfast.splitters.cv import check_groups

__all__ = ["PermutationTest", "Shuffle", "permutation_test"]

#: Doubles of held-out predictions that are there at once.
BLOCK_DOUBLES = 2**24
#: Permutations that share what depends on the penalty alone, if predictions of fewer penalties at
#: once make room for them.
TOGETHER = 32

_NOTHING_CHANGES_PLACES = (
    "permutation_test does not know which targets may change places: the experiments of this model "
    "hold out neighbourhoods, or sets that overlap. Pass groups=, labels of independent groups, "
    "which change places as a whole (np.arange(len(y)) for single rows), or within=, labels inside "
    "which single rows do."
)


@dataclass(frozen=True, eq=False, repr=False)
class PermutationTest:
    """How the score compares with those of permuted targets.

    Attributes
    ----------
    p_value : float or ndarray of shape (v,)
        (1 + how many permutations score at least as well) / (1 + how many there were).
    score : float or ndarray of shape (v,)
        `best_score_` of the model.
    null_scores : ndarray of shape (n,) or (n, v)
        The best score of each permutation, its penalty and kernel chosen again.
    scoring : str
        What the score is.
    exchanged : {"rows", "groups", "shifts in time"}
        What changes places.
    """

    p_value: float | FloatArray
    score: float | FloatArray
    null_scores: FloatArray
    scoring: str
    exchanged: str = "rows"

    def __repr__(self) -> str:
        shown, better = printed(self.scoring), (self.null_scores >= self.score).sum(axis=0)
        p, score, better = (
            np.array2string(np.asarray(x), precision=4)
            for x in (self.p_value, shown.of(self.score), better)
        )
        return (
            f"<{better} of {len(self.null_scores)} permutations ({self.exchanged}) reach "
            f"{shown.label} {score}: p = {p}>"
        )

    def plot(self, ax: Any = None, **kwargs: Any) -> Any:
        """Plot the distribution of the null scores with the score of the model; the display.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        **kwargs
            For the histogram.
        """
        from holdfast.displays import PermutationDisplay

        return PermutationDisplay.from_result(self).plot(ax, **kwargs)


@shows_progress
def permutation_test(
    estimator: Estimator,
    n_permutations: int = 1000,
    within: ArrayLike | None = None,
    random_state: Any = None,
    *,
    groups: ArrayLike | None = None,
) -> PermutationTest:
    """Return how often permuted targets score as well as the targets themselves.

    The whole search is repeated for every permutation: the penalty, and the kernel if there is
    a grid of them, is chosen again. Rows, factors and experiments are those of `fit`.

    What changes places is what the experiments of `fit` hold out together: rows; whole groups,
    where groups are held out; and where time is (`HBlock`, `PurgedKFold`, `TimeSteps`,
    ``TimeSeriesSplit``, consecutive rows whose targets are alike) the whole series moves on as on
    a ring. Where only the user knows (places on a map, sets that overlap), it is an error to
    pass neither `within` nor `groups`.

    Parameters
    ----------
    n_permutations : int, default 1000
    within : array-like of shape (m,), optional
        Labels; targets change places (or a series moves on) within a label only.
    random_state : int, RandomState or None
        Seed of the permutations.
    groups : array-like of shape (m,), optional
        Labels of groups that change places as a whole: for rows that depend on each other
        within a group; ``np.arange(m)`` for single rows. If the targets are the same within every
        group, any two groups may change places; otherwise only groups of the same size.

    Returns
    -------
    PermutationTest
        ``.p_value``, ``.score`` (`best_score_`), ``.null_scores``, ``.exchanged``, ``.plot()``.

    Notes
    -----
    p = (1 + #{null ≥ score}) / (1 + n), a valid p-value for every n. Rows of weight zero take
    no part. Splits that look at the targets (stratified folds) and basis rows that were chosen
    by them are not recomputed for permuted targets. A series of m rows has only m shifts, so p is
    seldom below 1/m, and it is exact for series whose law does not change over time.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from holdfast import KernelRidgeCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelRidgeCV(gamma=10.0, alphas=[0.01, 0.1, 1.0, 10.0], cv=5).fit(X, y)
    >>> model.permutation_test(99, random_state=0).p_value
    0.01
    """
    fitted = estimator._fitted_state()
    m, count = fitted.training.weights.size, whole_number("n_permutations", n_permutations)
    shuffle = Shuffle.of(
        fitted,
        None if within is None else check_groups(within, m),
        None if groups is None else check_groups(groups, m),
        seed_of(random_state),
    )
    best_score = np.asarray(fitted.score)
    values, null = np.full(count, -np.inf), np.empty((count, *best_score.shape))
    for _, kernel in fitted.kernels():
        asked = _Asked.of(kernel, count)
        for start in range(0, count, asked.columns):
            block = slice(start, min(start + asked.columns, count))
            orders = [shuffle.order(number) for number in range(block.start, block.stop)]
            found, scores = asked.scores(orders)
            better = found > values[block]
            values[block] = np.where(better, found, values[block])
            null[block] = np.where(better.reshape(-1, *[1] * (null.ndim - 1)), scores, null[block])
            report(block.stop, count, "permutations")
    p = (1.0 + (null >= best_score - TIE * np.abs(best_score)).sum(axis=0)) / (1.0 + count)
    name = fitted.objective.scoring.name
    return PermutationTest(p if p.ndim else float(p), fitted.score, null, name, shuffle.name)


@dataclass(frozen=True, eq=False)
class _Asked:
    """One kernel that is asked for the scores of permuted targets.

    Attributes
    ----------
    fitted : Fitted
    tasks : Tasks
    path : str
    models : HeldOutModels or None
        For scores of the distribution of held-out targets.
    columns, penalties : int
        How many permutations, and penalties, held-out predictions are there of at once.
    """

    fitted: Fitted
    tasks: Tasks
    path: str
    models: HeldOutModels | None
    columns: int
    penalties: int

    @classmethod
    def of(cls, fitted: Fitted, count: int) -> _Asked:
        """Return a kernel that will be asked for so many permutations."""
        training, objective = fitted.training, fitted.objective
        tasks = fitted.model.tasks(training.experiments)
        a, v, k = training.alphas.size, training.Y.shape[1], tasks.test.values.size
        path, models = _path(fitted, tasks, count * v), None
        if objective.scoring.density:
            models = fitted.model.held_models(tasks, training.alphas[:1])
        room, penalties = max(1, BLOCK_DOUBLES // (k * v)), a
        if path == "spectral":
            fitted.model.smoother.factor(float(training.alphas.min()))  # shared by all copies
            if objective.rule == "best" and models is None:
                penalties = max(1, min(a, room // min(count, TOGETHER)))
        blocks = -(-count // max(1, room // penalties))  # of nearly equal size
        return cls(fitted, tasks, path, models, -(-count // blocks), penalties)

    def scores(self, orders: list[IntArray]) -> tuple[FloatArray, FloatArray]:
        """Return what kernels are compared by (b,), and the best scores (b,) or (b, v)."""
        fitted, objective, training = self.fitted, self.fitted.objective, self.fitted.training
        (m, v), alphas, index = training.Y.shape, training.alphas, np.stack(orders, axis=1)
        model = fitted.model.with_targets(training.Y[index].reshape(m, -1))
        if model is None:
            raise NotSupportedError(
                "permutation_test needs the rows in memory; this model was fitted on a Dask "
                "collection. Fit it on X.compute()."
            )
        tested = self.tasks
        if objective.pooled and objective.rule == "best" and self.models is None:
            # Single experiments are not needed.
            rows = self.tasks.test.values
            tested = replace(tested, test=Ragged(rows, np.array([0, rows.size])))
        single = v == 1 and objective.classes is None
        if single:  # permutations are the targets of one call
            whole = fitted.changed(labels=training.labels[:, 0][index])
            each = [replace(whole, objective=replace(objective, per_target=True))]
        else:
            each = [fitted.changed(labels=training.labels[order]) for order in orders]
        parts: list[list[Scores]] = [[] for _ in each]
        for start in range(0, alphas.size, self.penalties):
            some = alphas[start : start + self.penalties]
            values = np.split(model.held_out(self.tasks, some, self.path), len(each), axis=2)
            for part, one, own in zip(parts, each, values, strict=True):
                part.append(one.scores(own, tested, self.models))
        compared, final = [], []
        for part, one in zip(parts, each, strict=True):
            scores = Scores.joined(part)
            best = one.objective.choose(scores, alphas, "best").score
            compared.append(best if single else np.mean(best))
            final.append(
                best if objective.rule == "best" else one.objective.choose(scores, alphas).score
            )
        if not single:
            return np.array(compared), np.array(final)
        own_score = np.ravel(final[0])
        return np.ravel(compared[0]), own_score[:, None] if objective.per_target else own_score


def _path(fitted: Fitted, tasks: Tasks, columns: int) -> str:
    """Return the cheapest path for so many targets; blocks of them bound its memory."""
    training = fitted.training
    if training.path != "auto":
        return training.path
    sizes = replace(fitted.model.smoother.sizes(tasks), v=columns)
    h, e, t = (r.sizes.astype(float) for r in (tasks.held, tasks.removed, tasks.test))
    costs = [estimate(path, sizes, h, e, t, training.alphas.size) for path in PLANNED]
    # A factor for each penalty would be made again for every block.
    return min((c for c in costs if c.path != "cholesky"), key=lambda cost: cost.seconds).path


@dataclass(frozen=True, eq=False)
class Shuffle:
    """Units that change places, each with others of its own kind, or a series that is turned.

    If X says nothing about y, such permutations do not change the distribution of the targets.

    Attributes
    ----------
    rows : ndarray of int, shape (k,)
        Rows that take part, unit by unit.
    start, size : ndarray of int, shape (u,)
        Where the rows of a unit start, and how many there are.
    kind : ndarray of int, shape (u,)
        Units of one kind change places.
    n_rows : int
        Rows of the data; those that take no part keep their targets.
    seed : int
    name : str
        What changes places.
    whole : bool
        Whether a unit hands over its rows in their order; else its first row stands for all.
    turned : bool
        Whether the units of a kind stay in their order, as on a ring, and move on together.
    """

    rows: IntArray
    start: IntArray
    size: IntArray
    kind: IntArray
    n_rows: int
    seed: int
    name: str = "rows"
    whole: bool = True
    turned: bool = False

    @classmethod
    def of(
        cls, fitted: Fitted, within: AnyArray | None, groups: AnyArray | None, seed: int
    ) -> Shuffle:
        """Return the permutations of what is exchangeable, inside the strata `within`.

        Parameters
        ----------
        fitted : Fitted
            Its experiments hold out rows, whole groups, or stretches of time.
        within, groups : ndarray of shape (m,), or None
        seed : int
        """
        training = fitted.training
        m, rows = training.weights.size, np.flatnonzero(training.weights > 0)
        stratum = np.zeros(m, dtype=np.int64) if within is None else codes_of(within)
        steps, name = None, "groups"
        if groups is None:
            cv, units = fitted.objective.cv, fitted.held_out_together()
            name = units.name
            if name == "groups":
                groups = units.code
            elif name == "blocks":
                steps = steps_of(training.experiments, cv, m)
            unknown = steps is None if name == "blocks" else overlapping(training.experiments, cv)
            if unknown and name != "groups" and within is None:
                raise NotSupportedError(_NOTHING_CHANGES_PLACES, argument="groups")
        if groups is not None:
            made = cls._of_groups(training.Y, rows, stratum, groups, m, seed)
        elif steps is not None:
            made = cls._of_steps(rows, stratum, steps, m, seed)
        else:
            made = cls(rows, np.arange(rows.size), np.ones_like(rows), stratum[rows], m, seed)
        if np.bincount(made.kind).max(initial=0) < 2:
            alike = "groups of one size" if name == "groups" else "rows"
            raise InvalidInputError(
                f"nothing can be permuted: no two {alike} with positive weight share a label of "
                "`within`. Use coarser labels, or groups=np.arange(len(y)) for single rows.",
                argument="within" if within is not None else "groups",
            )
        return made

    @classmethod
    def _of_groups(
        cls, Y: AnyArray, rows: IntArray, stratum: IntArray, groups: AnyArray, m: int, seed: int
    ) -> Shuffle:
        rows, start, size = _units(rows, np.unique(groups[rows], return_inverse=True)[1])
        first = np.repeat(rows[start], size)
        mixed = stratum[rows] != stratum[first]
        if mixed.any():
            raise InvalidInputError(
                "whole groups change places within a label of `within`, so each group must have "
                f"one such label; the group of row {int(first[mixed][0])} has several. Leave "
                "`within` out, or pass groups=np.arange(len(y)) for single rows.",
                argument="within",
            )
        constant = bool((Y[rows] == Y[first]).all())
        kinds = np.column_stack([stratum[rows[start]], np.zeros_like(size) if constant else size])
        kind = np.unique(kinds, axis=0, return_inverse=True)[1].ravel().astype(np.int64)
        return cls(rows, start, size, kind, m, seed, "groups", whole=not constant)

    @classmethod
    def _of_steps(
        cls, rows: IntArray, stratum: IntArray, steps: IntArray, m: int, seed: int
    ) -> Shuffle:
        """Return shifts in time of each stratum; rows of one time stay together if all are many."""
        code = np.lexsort((steps[rows], stratum[rows]))
        ordered = rows[code]
        times = np.column_stack([stratum[ordered], steps[ordered]])
        unit = np.concatenate([[0], np.cumsum((times[1:] != times[:-1]).any(axis=1))])
        size = np.bincount(unit)
        if (size != size[0]).any():
            unit, size = np.arange(ordered.size), np.ones_like(ordered)
        start = np.cumsum(size) - size
        kind = codes_of(stratum[ordered[start]])
        return cls(ordered, start, size, kind, m, seed, "shifts in time", turned=True)

    @cached_property
    def _by_kind(self) -> IntArray:
        return np.argsort(self.kind, kind="stable")

    def order(self, number: int) -> IntArray:
        """Return which row's target each row gets in one of the permutations, shape (m,)."""
        rng = np.random.default_rng([self.seed, number])
        taken = np.empty_like(self.kind)
        if self.turned:
            count = np.bincount(self.kind)
            by, kind = self._by_kind, self.kind[self._by_kind]
            first, shift = (np.cumsum(count) - count)[kind], rng.integers(count)[kind]
            taken[by] = by[first + (np.arange(by.size) - first + shift) % count[kind]]
        else:
            taken[self._by_kind] = np.argsort(self.kind + rng.random(self.kind.size))
        order = np.arange(self.n_rows)
        source = np.repeat(self.start[taken], self.size)
        if self.whole:
            source = source + np.arange(self.rows.size) - np.repeat(self.start, self.size)
        order[self.rows] = self.rows[source]
        return order


def _units(rows: IntArray, code: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return rows unit by unit, where each unit starts, and its size."""
    size = np.bincount(code)
    return rows[np.argsort(code, kind="stable")], np.cumsum(size) - size, size
