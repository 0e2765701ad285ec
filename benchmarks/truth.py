"""How far a rival's answer lies from models that were really retrained, on a few experiments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.problems import Data, Floats, Model, Problem, Rows
from benchmarks.rivals.base import Outcome
from benchmarks.rivals.by_hand import naive

#: Experiments that are retrained, and penalties at most.
SAMPLE, PENALTIES = 4, 5


@dataclass(frozen=True, eq=False)
class Truth:
    """Held-out predictions of some experiments by retraining.

    Attributes
    ----------
    experiments : ndarray of int
        Which ones.
    alphas : ndarray of int
        Places of the penalties that were retrained.
    held : list of ndarray
        Their rows.
    predictions : list of ndarray of shape (alphas, rows)
    """

    experiments: Rows
    alphas: Rows
    held: list[Rows]
    predictions: list[Floats]


def sample(problem: Problem, data: Data) -> Rows:
    """Return a few experiments, half of them with basis rows if there are any."""
    rng = np.random.default_rng(1)
    drawn = rng.permutation(problem.n_experiments)
    if data.basis is not None:
        with_basis = np.isin(drawn, data.labels[data.basis])
        half = SAMPLE // 2
        first = np.concatenate([drawn[with_basis][:half], drawn[~with_basis][:half]])
        drawn = np.concatenate([first, np.setdiff1d(drawn, first)])
    return np.sort(drawn[:SAMPLE]).astype(np.int64)


def retrain(problem: Problem, data: Data, model: Model) -> Truth:
    """Return what really retrained models predict for a sample of experiments."""
    chosen = sample(problem, data)
    places = np.unique(np.linspace(0, problem.n_alphas - 1, PENALTIES).astype(np.int64))
    sets = data.experiments()
    held = [sets[j] for j in chosen.tolist()]
    grid = problem.alphas[places]
    predictions = [naive(problem, data, model, rows, grid) for rows in held]
    return Truth(chosen, places, held, predictions)


def deviation(
    problem: Problem, data: Data, model: Model, outcome: Outcome, truth: Truth
) -> tuple[float, str]:
    """Return the largest relative deviation from retraining, and of what.

    Notes
    -----
    Predictions: the largest difference over the largest prediction, at each penalty. Errors: the
    relative difference of mean squared errors. A rival that keeps only its best score is compared
    at its own penalty, for which every experiment is retrained.
    """
    if outcome.predictions is not None:
        got = [outcome.predictions[np.ix_(truth.alphas, rows)] for rows in truth.held]
        A, B = np.concatenate(got, axis=1), np.concatenate(truth.predictions, axis=1)
        return float((np.abs(A - B).max(axis=1) / np.abs(B).max(axis=1)).max()), "predictions"
    if outcome.errors is not None:
        got = [outcome.errors[truth.alphas, j] for j in truth.experiments.tolist()]
        pairs = zip(truth.predictions, truth.held, strict=True)
        want = [((values - data.first[rows]) ** 2).mean(axis=1) for values, rows in pairs]
        return float(np.abs(np.array(got) / np.array(want) - 1.0).max()), "errors of experiments"
    if outcome.best is not None:
        alpha, error = outcome.best
        means = [
            ((naive(problem, data, model, rows, np.array([alpha])) - data.first[rows]) ** 2).mean()
            for rows in data.experiments()
        ]
        return abs(error / float(np.mean(means)) - 1.0), "error at its own λ"
    return float("nan"), "nothing"
