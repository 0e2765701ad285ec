"""The digits that a plan shows: known after the fit, kept by the paths, fewer at tiny penalties."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from holdfast import KernelRidgeCV, load
from holdfast.exceptions import DigitsWarning, HoldfastError
from holdfast.holdout.plan import Cost, digits_in_words

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")

PATHS = ("spectral", "fold_gram", "single")


def rows(m=90):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(m, 2))
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=m)


@pytest.mark.parametrize("basis", [None, 15])
@pytest.mark.parametrize("path", PATHS)
def test_a_path_keeps_the_digits_that_it_promises(basis, path):
    X, y = rows()
    given = {"basis": basis, "alphas": [1e-6, 1e-3, 1.0], "cv": 6, "random_state": 0}
    model = KernelRidgeCV(path=path, **given).fit(X, y)
    (cost,) = (cost for cost in model.explain().costs if cost.path == path)
    if basis is not None and path == "single":
        assert cost.digits is None  # one factor for each penalty, none that knows all
        return
    exact = KernelRidgeCV(path="retrain", **given).fit(X, y).held_out().values
    largest = max(np.abs(y).max(), np.abs(exact).max())
    errors = np.abs(model.held_out().values - exact).max(axis=(1, 2)) / largest
    assert errors.max() < 10.0**-cost.digits_at_worst
    assert errors[model.best_index_] < 10.0**-cost.digits
    assert cost.digits_at_worst > (5 if basis is None else 10)


def test_a_small_penalty_costs_a_dense_model_digits():
    X, y = rows()
    model = KernelRidgeCV().fit(X, y)
    cost = model.explain().costs[0]
    assert cost.digits > cost.digits_at_worst + 2
    assert f"{int(cost.digits)}, at worst {int(cost.digits_at_worst)}" in str(model.explain())


def test_nothing_is_said_before_it_is_known():
    X, y = rows()
    plan = KernelRidgeCV(random_state=0, basis=15).fit(X, y).explain()
    bare = replace(plan, costs=tuple(Cost(c.path, c.seconds, c.bytes) for c in plan.costs))
    assert "digits" in str(plan)
    assert "digits" not in str(bare)
    assert digits_in_words(bare.costs[0]) == "—"


def test_digits_are_saved_and_impossible_ones_are_refused(tmp_path):
    X, y = rows()
    model = KernelRidgeCV(random_state=0, basis=15).fit(X, y)
    model.save(tmp_path / "good.holdfast")
    assert load(tmp_path / "good.holdfast").explain() == model.explain()
    costs = tuple(replace(cost, digits=np.inf) for cost in model._plan.costs)
    model._plan = replace(model._plan, costs=costs)
    model.save(tmp_path / "forged.holdfast")
    with pytest.raises(HoldfastError, match="digits"):
        load(tmp_path / "forged.holdfast")


def test_far_away_rows_of_a_dense_model_are_named_and_ordinary_rows_are_not():
    X, y = rows(40)
    given = {"kernel": "poly", "degree": 3, "gamma": 0.5, "alphas": [1e-6, 1e4]}
    with pytest.warns(DigitsWarning, match="orders of magnitude larger") as caught:
        KernelRidgeCV(**given, scoring="r2").fit(np.vstack([X, [[30.0, 30.0]]]), np.append(y, 0.0))
    (told,) = {w.message.alphas for w in caught if isinstance(w.message, DigitsWarning)}
    assert told == (1e-6,)
    KernelRidgeCV(kernel="poly", degree=3, gamma=0.5).fit(X, y)
