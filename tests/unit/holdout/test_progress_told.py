"""Steps of work are told as they are done: feature rows, experiments, models trained anew."""

import numpy as np
import pytest

import holdfast.smoother.rows as blocks
from holdfast import holdout
from holdfast.experiments import Ragged, Tasks, as_experiments
from holdfast.progress import listening
from holdfast.smoother import FeatureSmoother, KernelSmoother, Unpenalised
from holdfast.smoother.features import ColumnFeatures

M = 40
RNG = np.random.default_rng(71)
X = RNG.normal(size=(M, 3))
Y = RNG.normal(size=(M, 1))
ONES = np.ones(M)
SETS = [[0], [1], [2, 3], [4, 5, 6], [7]]
ROWS = Ragged.from_arrays([np.array(rows) for rows in SETS])
TASKS = Tasks(ROWS, Ragged.empty(5), ROWS, np.arange(5))


def linear():
    return FeatureSmoother(ColumnFeatures(X), ONES, Y, Unpenalised.bias(ONES, True))


def dense():
    return KernelSmoother(X @ X.T + np.eye(M), ONES, Y, Unpenalised.bias(ONES, True))


def steps(work):
    told = []
    with listening(lambda *step: told.append(step)):
        work()
    return told


def test_feature_rows(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1)
    monkeypatch.setattr(blocks, "LEAST_ROWS", 10)
    told = steps(lambda: linear().system())
    assert {total for _, total, _ in told} == {M}
    assert {text for *_, text in told} == {"feature rows"}
    done = [done for done, *_ in told]
    assert done[-1] == M
    assert done == sorted(set(done))
    assert len(done) >= 4


@pytest.mark.parametrize("path", ["spectral", "single"])
@pytest.mark.parametrize("make", [linear, dense])
def test_experiments(make, path):
    told = steps(lambda: holdout.predict(make(), TASKS, np.array([0.5]), path))
    mine = [(done, total) for done, total, text in told if text == "held-out experiments"]
    assert mine[-1] == (5, 5)
    assert all(total == 5 for _, total in mine)
    assert [done for done, _ in mine] == sorted({done for done, _ in mine})


def test_models_trained_again():
    told = steps(lambda: holdout.predict(dense(), TASKS, np.array([0.5]), "retrain"))
    assert [step[:2] for step in told] == [(k, 5) for k in range(1, 6)]
    assert {step[2] for step in told} == {"experiments trained again"}


def test_folds_are_stratified_for_a_classifier_only():
    labels = np.repeat([0, 1], [6, 6])
    plain = as_experiments(2, 12, y=labels)
    assert plain.test[0].tolist() == [0, 1, 2, 3, 4, 5]
    stratified = as_experiments(2, 12, y=labels, classifier=True)
    assert stratified.test[0].tolist() == [0, 1, 2, 6, 7, 8]
