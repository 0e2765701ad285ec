"""Nested cross-validation: what the choice of penalty and kernel does to the score.

For every outer set O the penalty, and the kernel if there are several, is chosen on the rows that
are left, split again by the model's own `cv`; then O is predicted. There are two ways to the
numbers of the inner experiments I, and the one that takes fewer operations is taken:

- **without**: the smoother of the rows that are left, as a smoother in its own right
  (`Smoother.on_remaining_rows`), in which the inner experiments, leave-one-out too, run as always.
  It uses the feature rows or the kernel matrix that already exist.
- **unions**: the model without O and I is a held-out model of all rows, tested on I. The Gram
  matrix of a union of disjoint pieces is the sum of theirs, so it is summed once for each piece.
  Also where rows are streamed, each experiment has a basis of its own, or refits are asked for.

A policy for basis rows in O applies to the whole outer experiment: with "remove" they leave the
basis of all its inner models, with "train" they are trained on by all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.answers.fitted import Estimator, Fitted
from holdfast.answers.held_out import TestedRows
from holdfast.answers.model import at_own_penalty
from holdfast.answers.training import Objective
from holdfast.core.experiments import Experiments, Ragged, Tasks, resolve
from holdfast.core.plan import PLANNED, make_plan
from holdfast.core.predict import predict
from holdfast.core.smoother import Smoother
from holdfast.data.frames import make_frame
from holdfast.exceptions import HoldOutError
from holdfast.progress import report, shows_progress
from holdfast.scores.metric import printed
from holdfast.scores.scorers import resolve_scoring
from holdfast.scores.scoring import Scores, score_experiments
from holdfast.splitters.base import Splitter
from holdfast.splitters.cv import check_groups

__all__ = ["NestedPredictions", "Way", "nested"]

Way = Literal["unions", "without"]


@dataclass(frozen=True, eq=False, repr=False)
class NestedPredictions(TestedRows):
    """Predictions of outer rows by models whose penalty was chosen without them.

    Attributes
    ----------
    experiments : Experiments
        The outer experiments.
    values : ndarray of shape (k, v)
        Predictions for the test rows of all outer experiments laid end to end; decision values
        for a classifier.
    alphas : ndarray of shape (n,) or (n, v)
        The penalty that each outer experiment chose, one per target if the model has that.
    kernels : list of dict
        The arguments of the kernel that each outer experiment chose.
    inner_scores : ndarray of shape (n,) or (n, v)
        The inner score of what was chosen: what `best_score_` would have been there.
    ways : list of str
        How the inner predictions of each outer experiment were made: "unions" or "without".
    best_score : float or ndarray of shape (v,)
        `best_score_` of the model on all rows.
    y : ndarray of shape (m, v) or (m,)
        Targets, or class labels for a classifier.
    weights : ndarray of shape (m,)
    groups : ndarray of shape (m,) or None
    objective : Objective
        How the model scores.
    frames : str or None
        The library whose frames `to_frame` returns.
    """

    experiments: Experiments
    values: FloatArray
    alphas: FloatArray
    kernels: list[dict[str, Any]]
    inner_scores: FloatArray
    ways: list[str]
    best_score: float | FloatArray
    y: AnyArray
    weights: FloatArray
    groups: AnyArray | None
    objective: Objective
    frames: str | None = None

    def __repr__(self) -> str:
        shown = printed(self.objective.scoring.name)
        score, best = (float(shown.of(np.mean(x))) for x in (self.score(), self.best_score))
        return (
            f"<nested {shown.label} {score:.4g} over {len(self.experiments)} outer experiments; "
            f"best_score_ is {shown.label} {best:.4g}>"
        )

    @property
    def classes(self) -> NDArray[Any] | None:  # type: ignore[override]  # what it is made of
        """Class labels of a classifier."""
        return self.objective.classes

    def score(self, scoring: Any = None, *, pooled: bool | None = None) -> float | FloatArray:
        """Return the score of rows whose model was chosen without them.

        Parameters
        ----------
        scoring : str, callable or None
            Any scikit-learn scorer; None: the model's own.
        pooled : bool or None
            Score all predictions together, or average the scores of the outer experiments; None:
            as the model does.

        Returns
        -------
        float or ndarray of shape (v,)
            One score per target if the model has a penalty for each.
        """
        objective, scorer = self.objective, self.objective.scoring
        if scoring is not None:
            scorer = resolve_scoring(scoring, classes=objective.classes)
        scorer.refuse_density("nested")
        scores = score_experiments(
            scorer,
            self.values[None],
            self.rows,
            self.experiments.test.ptr,
            self.y,
            self.weights,
            self.groups,
            each_target=objective.per_target,
        )
        pooled = objective.pooled if pooled is None else pooled
        total = scores.first(pooled=pooled, per_target=objective.per_target)
        return total if objective.per_target else float(total[0])

    @property
    def optimism(self) -> float | FloatArray:
        """How much better `best_score_` looks than the nested score.

        Part of it is the choice, part that outer models have fewer rows to train on (and, where
        the outer experiments are other ones than those of `fit`, a different question).
        """
        gap = np.asarray(self.best_score) - np.asarray(self.score())
        return gap if gap.ndim else float(gap)

    def to_frame(self, library: str | None = None) -> Any:
        """Return a long table: experiment, row, target, alpha, y, prediction, and the kernel.

        Parameters
        ----------
        library : {"pandas", "polars"} or None
            Whose frame; None: the library that X came in, else pandas.
        """
        (k, v), owners = self.values.shape, self.experiments.test.owners
        y = self.y if self.y.ndim == 2 else np.repeat(self.y[:, None], v, axis=1)
        alphas = self.alphas if self.alphas.ndim == 2 else np.repeat(self.alphas[:, None], v, 1)
        columns: dict[str, NDArray[Any]] = {
            "experiment": np.repeat(owners, v),
            "row": np.repeat(self.rows, v),
            "target": np.tile(np.arange(v), k),
            "alpha": alphas[owners].ravel(),
            "y": y[self.rows].ravel(),
            "prediction": self.values.ravel(),
        }
        for name in dict.fromkeys(name for params in self.kernels for name in params):
            each = [str(params.get(name)) for params in self.kernels]
            if len(set(each)) > 1:
                columns[name] = np.repeat(np.array(each)[owners], v)
        return make_frame(columns, library or self.frames)


@shows_progress
def nested(estimator: Estimator, cv: Any, groups: ArrayLike | None = None) -> NestedPredictions:
    """Return held-out predictions by models whose penalty was chosen without the rows.

    For every outer experiment the penalty, and the kernel if there is a grid of them, is chosen
    on the remaining rows by the model's own `cv`, which splits them again (as scikit-learn's
    ``GridSearchCV`` inside ``cross_val_score``; explicit lists of experiments lose the outer
    rows). Then the outer rows are predicted.

    Parameters
    ----------
    cv : None, int, splitter or iterable
        The outer experiments, as in the constructor.
    groups : array-like of shape (m,), optional
        For splitters of either loop that use groups; None: the groups of `fit`.

    Returns
    -------
    NestedPredictions
        ``.predictions``, ``.alphas``, ``.kernels``, ``.score()``, ``.optimism``,
        ``.to_frame()``.

    Notes
    -----
    ``gamma="search"`` compares nine widths, a factor of 2 apart, about the median distance of
    the rows that an outer experiment leaves: as fine as the search of `fit`, which may also go
    beyond them. Basis rows are those of the fit; `held_out_basis` says what happens to them in
    the outer and in the inner experiments. With "reselect" each chooses its own.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from holdfast import KernelRidgeCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelRidgeCV(gamma=[1.0, 10.0], alphas=[0.01, 0.1, 1.0, 10.0], cv=5).fit(X, y)
    >>> found = model.nested(cv=5)
    >>> found.alphas.shape, len(found.kernels)
    ((5,), 5)
    >>> round(float(found.score() / model.best_score_), 1)
    1.0
    """
    return nested_predictions(estimator._fitted_state(), cv, groups)


def nested_predictions(
    fitted: Fitted, cv: Any, groups: ArrayLike | None = None, way: Way | None = None
) -> NestedPredictions:
    """Return predictions of the outer rows, with everything chosen on the rows that are left."""
    fitted.objective.scoring.refuse_density("nested")
    if groups is not None:
        fitted = fitted.changed(groups=check_groups(groups, fitted.training.weights.size))
    training = fitted.training
    outer = fitted.experiments_of(cv, training.groups)
    inner = [_split_again(fitted, held) for held in _items(outer.held_out)]
    every = np.arange(len(outer))
    rounds = [(every, fitted.kernels())]
    if fitted.searched:  # widths from the rows that each outer experiment leaves
        rounds = [
            (every[j : j + 1], fitted.kernels_without(outer.held_out[j])) for j in range(len(outer))
        ]
    best: dict[int, _Chosen] = {}
    for some, kernels in rounds:
        part = Experiments(outer.held_out.items(some), outer.test.items(some))
        for params, kernel in kernels:
            tasks = kernel.model.tasks(part)
            for j, number in enumerate(some[tasks.source].tolist()):
                task, rows = tasks.select(np.array([j])), outer.held_out[number]
                run = _Outer(kernel, rows, task, inner[number], params)
                best[number] = run.chosen(way, best.get(number))
                report(number + 1, len(outer), "outer experiments")
    numbers = sorted(best)
    chosen = [best[number] for number in numbers]
    tested = Ragged.from_arrays([found.test for found in chosen])
    return NestedPredictions(
        experiments=Experiments(outer.held_out.items(np.array(numbers)), tested),
        values=np.concatenate([found.values for found in chosen]),
        alphas=np.array([found.alpha for found in chosen]),
        kernels=[found.params for found in chosen],
        inner_scores=np.array([found.score for found in chosen]),
        ways=[found.way for found in chosen],
        best_score=fitted.score,
        y=training.labels,
        weights=training.score_weights,
        groups=training.groups,
        objective=fitted.objective,
        frames=fitted.frames,
    )


def _split_again(fitted: Fitted, held: IntArray) -> Experiments:
    """Return the experiments of the model's own `cv` on the rows that an outer experiment leaves.

    A splitter splits what is left; the experiments of anything else lose the held-out rows. So do
    those of most of `holdfast.splitters` (`Splitter.among`), which know the place of every row:
    what lies near a row, in space, time or a graph, does not depend on the other rows.
    """
    training, cv = fitted.training, fitted.objective.cv
    stays = np.ones(training.weights.size, dtype=bool)
    stays[held] = False
    left = np.flatnonzero(stays)
    splits = cv is None or isinstance(cv, int | np.integer) or hasattr(cv, "split")
    if isinstance(cv, Splitter):
        cv = cv.among(left)
        splits = cv is not None
    if splits:
        classes = fitted.objective.classes
        found = training.experiments_of(cv, training.groups, classes, left)
        out, test = found.held_out, found.test
        return Experiments(Ragged(left[out.values], out.ptr), Ragged(left[test.values], test.ptr))
    experiments = training.experiments
    out = experiments.held_out.filter(stays[experiments.held_out.values])
    test = experiments.test.filter(stays[experiments.test.values])
    some = np.flatnonzero(test.sizes > 0)
    if not some.size:
        raise HoldOutError(
            "an outer experiment of nested holds out every test row of cv, so nothing is left "
            "to choose a penalty by. Hold out fewer rows, or give the model a splitter as cv.",
            argument="cv",
        )
    return Experiments(out.items(some), test.items(some))


@dataclass(frozen=True, eq=False)
class _Chosen:
    """What one outer experiment chose, and its predictions (k, v)."""

    value: float
    alpha: float | FloatArray
    score: float | FloatArray
    params: dict[str, Any]
    way: str
    test: IntArray
    values: FloatArray


@dataclass(frozen=True, eq=False)
class _Outer:
    """One outer experiment with one kernel."""

    fitted: Fitted
    held: IntArray
    task: Tasks
    inner: Experiments
    params: dict[str, Any]

    def chosen(self, way: Way | None, rival: _Chosen | None) -> _Chosen:
        """Return the better of a rival and this kernel at its best penalty."""
        fitted, model = self.fitted, self.fitted.model
        smoother: Smoother | None = None
        if way == "without" or (way is None and self._leaves()):
            smoother = model.smoother.on_remaining_rows(self.task.held[0], self.task.removed[0])
        predict: Callable[[FloatArray], FloatArray] = partial(model.held_out, self.task)
        if smoother is not None:
            taken, (scores, predict) = "without", self._inside(smoother)
        else:
            taken, scores = "unions", self._unions()
        value = fitted.value(scores)
        if rival is not None and rival.value >= value:
            return rival
        choice = fitted.objective.choose(scores, fitted.training.alphas)
        return _Chosen(
            value=value,
            alpha=choice.alpha,
            score=choice.score,
            params=self.params,
            way=taken,
            test=self.task.test[0],
            values=at_own_penalty(predict, choice.alpha, fitted.training.Y.shape[1]),
        )

    def _leaves(self) -> bool:
        """Return whether the outer rows leave the smoother, if they can.

        A spectrum of its own, about 14 p³ operations, beside the systems of all unions.
        """
        training, p = self.fitted.training, float(self.fitted.model.smoother.order)
        rows = np.minimum(self.inner.held_out.sizes + float(self.task.held[0].size), p)
        possible = training.path in ("auto", *PLANNED) and not training.reselects
        return possible and 14.0 * p**3 <= training.alphas.size * float((rows**3).sum())

    # -- the two ways ------------------------------------------------------------------------------

    def _inside(self, smoother: Smoother) -> tuple[Scores, Callable[[FloatArray], FloatArray]]:
        """Return inner scores, and a function to outer predictions, by a smoother of its own."""
        training, basis = self.fitted.training, self.fitted.model.basis
        if basis is not None:
            basis = np.delete(basis, self.task.removed[0])
        tasks = resolve(
            self.inner, weights=smoother.data.weights.values, basis=basis, policy=training.policy
        )
        path = make_plan(tasks, smoother.sizes(tasks), training.alphas.size, training.path).path
        values = predict(smoother, tasks, training.alphas, path)
        scores = self.fitted.scores(values, tasks)
        none = Ragged.empty(1)
        outside = Tasks(none, none, self.task.test, np.array([0]))
        known = smoother.sizes(outside).factorised

        def outer(alphas: FloatArray) -> FloatArray:
            # Nothing is held out here: the rows have left already.
            return predict(smoother, outside, alphas, "spectral" if known else "per_fold")

        return scores, outer

    def _unions(self) -> Scores:
        """Return inner scores by held-out models of all rows."""
        fitted, model = self.fitted, self.fitted.model
        sets = [np.union1d(self.held, rows) for rows in _items(self.inner.held_out)]
        tasks = model.tasks(Experiments(Ragged.from_arrays(sets), self.inner.test))
        return fitted.scores(model.held_out(tasks, fitted.training.alphas), tasks)


def _items(rows: Ragged) -> list[IntArray]:
    return [rows[j] for j in range(len(rows))]
