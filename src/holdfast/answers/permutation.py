"""How well chance would have done: the same search on permuted targets.

Permuted targets are more columns of y: the rows, their factors and the experiments stay, and every
permutation gets a penalty (and a kernel) of its own. Predictions are made for a block of
permutations at a time and reduced to scores at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.answers.question import Judge, Subject, column_blocks
from holdfast.answers.shuffle import Shuffle
from holdfast.exceptions import NotSupportedError
from holdfast.experiments import Experiments, Ragged, Tasks
from holdfast.holdout.costs import COSTS
from holdfast.holdout.models import HeldOutModels
from holdfast.holdout.plan import PLANNED
from holdfast.progress import report
from holdfast.scores.choice import TIE
from holdfast.smoother import Smoother

__all__ = ["PermutationTest", "permutation_test"]

#: Doubles of held-out predictions that are there at once.
BLOCK_DOUBLES = 2**24


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
        The best score of each permutation, its penalty and kernel chosen anew.
    scoring : str
        What the score is.
    """

    p_value: float | FloatArray
    score: float | FloatArray
    null_scores: FloatArray
    scoring: str

    def __repr__(self) -> str:
        p = np.array2string(np.asarray(self.p_value), precision=4)
        return f"<permutation test: p = {p} from {len(self.null_scores)} permutations>"

    def plot(self, ax: Any = None, **kwargs: Any) -> Any:
        """Plot the distribution of the null scores with the score of the model; the display.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        **kwargs
            For the histogram.
        """
        from holdfast.displays.permutation import PermutationDisplay

        return PermutationDisplay.from_result(self).plot(ax, **kwargs)


def permutation_test(
    subjects: Iterable[tuple[dict[str, Any], Subject]],
    experiments: Experiments,
    Y: FloatArray,
    judge: Judge,
    best_score: float | FloatArray,
    shuffle: Shuffle,
    count: int,
) -> PermutationTest:
    """Return the test of a model's score against permuted targets.

    Parameters
    ----------
    subjects : iterable of (dict, Subject)
        The kernels to choose from, one at a time.
    experiments : Experiments
        Those of the fit.
    Y : ndarray of shape (m, v)
        Targets that the algebra works on.
    judge : Judge
    best_score : float or ndarray of shape (v,)
    shuffle : Shuffle
    count : int
        How many permutations.
    """
    shape = (count, *np.shape(best_score))
    values, null = np.full(count, -np.inf), np.empty(shape)
    for _, subject in subjects:
        tasks, judge = subject.tasks(experiments), judge.of(subject)
        one = judge.alphas.size * tasks.test.values.size * Y.shape[1]
        predict = _predictor(subject, tasks, judge, count * Y.shape[1])
        models = subject.held_models(tasks, judge.alphas[:1]) if judge.scoring.density else None
        for block in column_blocks(count, BLOCK_DOUBLES // one):
            orders = [shuffle.order(number) for number in range(block.start, block.stop)]
            found, scores = _scores(predict, tasks, Y, judge, orders, models)
            better = found > values[block]
            values[block] = np.where(better, found, values[block])
            null[block] = np.where(better.reshape(-1, *[1] * (null.ndim - 1)), scores, null[block])
            report(block.stop, count, "permutations")
    threshold = np.asarray(best_score) - TIE * np.abs(best_score)
    p = (1.0 + (null >= threshold).sum(axis=0)) / (1.0 + count)
    return PermutationTest(p if p.ndim else float(p), best_score, null, judge.scoring.name)


def _predictor(
    subject: Subject, tasks: Tasks, judge: Judge, columns: int
) -> Callable[[FloatArray], FloatArray]:
    """Return a function from targets (m, c) to held-out predictions (a, k, c)."""
    smoother, alphas = subject.smoother, judge.alphas
    path = _path(smoother, tasks, judge, columns)
    if path == "spectral":
        smoother.factor(float(alphas.min()))  # copies with other targets share it

    def predict(Y: FloatArray) -> FloatArray:
        other: Any = smoother.retargeted(Y)
        if other is None:
            raise NotSupportedError(
                "permutation_test needs the rows in memory; this model was fitted on a Dask "
                "collection. Fit it on X.compute()."
            )
        asked: Any = replace(subject, smoother=other)  # type: ignore[type-var]  # a dataclass
        values: FloatArray = asked.held_out(tasks, alphas, path)
        return values

    return predict


def _path(smoother: Smoother, tasks: Tasks, judge: Judge, columns: int) -> str:
    """Return the cheapest path for so many targets; blocks of them bound its memory."""
    if judge.path != "auto":
        return judge.path
    sizes = replace(smoother.sizes(tasks), v=columns)
    h, e, t = (r.sizes.astype(float) for r in (tasks.held, tasks.removed, tasks.test))
    job = COSTS[sizes.form](sizes, h, e, t, judge.alphas.size)
    # A factor for each penalty would be made again for every block.
    return min((path for path in PLANNED if path != "single"), key=job.seconds)


def _scores(
    predict: Callable[[FloatArray], FloatArray],
    tasks: Tasks,
    Y: FloatArray,
    judge: Judge,
    orders: list[IntArray],
    models: HeldOutModels | None,
) -> tuple[FloatArray, FloatArray]:
    """Return what kernels are compared by (b,), and the best scores (b,) or (b, v)."""
    m, v = Y.shape
    index = np.stack(orders, axis=1)  # (m, b)
    values = predict(Y[index].reshape(m, -1))  # (a, k, b v)
    if judge.pooled and judge.rule == "best" and models is None:
        k = tasks.test.values.size  # nobody asks for single experiments
        tasks = replace(tasks, test=Ragged(tasks.test.values, np.array([0, k])))
    if v == 1 and judge.classes is None:  # permutations are the targets of one call
        each = replace(judge, per_target=True, labels=judge.labels[:, 0][index])
        several = each.scores(values, tasks, models)
        best = np.atleast_1d(each.choose(several, "best").score)
        final = best if judge.rule == "best" else np.atleast_1d(each.choose(several).score)
        return best, final.reshape(-1, 1) if judge.per_target else final
    found, scores = [], []
    for b, order in enumerate(orders):
        mine = replace(judge, labels=judge.labels[order])
        one = mine.scores(values[:, :, b * v : (b + 1) * v], tasks, models)
        found.append(judge.value(one))
        scores.append(judge.choose(one).score)
    return np.array(found), np.array(scores)
