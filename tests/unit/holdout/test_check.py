"""One experiment of every fit is trained again: it warns when it should, and only then."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import LeaveOneGroupOut

from holdfast import HoldOut, KernelRidgeClassifierCV, KernelRidgeCV, holdout
from holdfast.estimators import search
from holdfast.exceptions import DigitsWarning, HoldfastWarning
from holdfast.experiments import Ragged, Tasks
from holdfast.holdout.check import check
from holdfast.report import summarise, to_html, to_markdown
from holdfast.smoother import Unpenalised, factorise
from holdfast.smoother.feature_smoother import FeatureSmoother
from holdfast.smoother.features import ColumnFeatures, KnownColumns
from holdfast.smoother.kernel_smoother import KernelSmoother
from torture.families import FAMILIES, problem
from torture.measure import estimator

M = 60
RNG = np.random.default_rng(5)
X = RNG.normal(size=(M, 3))
y = np.sin(X[:, 0]) + 0.3 * RNG.normal(size=M)
TWO = np.c_[y, X[:, 1] ** 2 + 0.1 * RNG.normal(size=M), RNG.normal(size=M)]
GROUPS = np.arange(M) // 6
ZEROS = np.where(np.arange(M) % 7 == 3, 0.0, RNG.uniform(0.2, 3.0, M))
KINDS = RNG.permutation(np.arange(M) % 3)

DENSE = {"gamma": 0.3}
SPARSE = {"gamma": 0.3, "basis": np.arange(0, M, 5)}
LINEAR = {"kernel": "linear"}
MODELS = {"dense": DENSE, "sparse": SPARSE, "linear": LINEAR}
SPLITS = {"loo": {}, "folds": {"cv": 5}, "groups": {"cv": LeaveOneGroupOut()}}
SOME = [HoldOut(rows, test=rows[1:]) for rows in (np.array([3, 9, 11]), np.array([4, 9, 20]))]


def fitted(model, rows=X, targets=y, weights=None):
    """Return the model and the warnings about digits."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(rows, targets, sample_weight=weights, groups=GROUPS)
    return model, [w for w in caught if isinstance(w.message, DigitsWarning)]


#: Families with problems of which every experiment is trained anew, or is too short to be checked.
NOTHING_FAST = ("dense_outlier", "dense_folds", "sparse_folds", "dense_wild_weights")


def case(options, targets=y, weights=None, kind=KernelRidgeCV):
    return kind(alphas=np.logspace(-3, 2, 8), **options), targets, weights


CASES = {
    **{
        f"{model}-{split}": case({**MODELS[model], **SPLITS[split]})
        for model in MODELS
        for split in SPLITS
    },
    **{f"{name}-zeros": case(MODELS[name], weights=ZEROS) for name in MODELS},
    **{f"{name}-folds-zeros": case({**MODELS[name], "cv": 5}, weights=ZEROS) for name in MODELS},
    **{f"{name}-own": case({**MODELS[name], "alpha_per_target": True}, TWO) for name in MODELS},
    **{f"{name}-no-bias": case({**MODELS[name], "fit_intercept": False}) for name in MODELS},
    **{
        f"{name}-{path}": case({**MODELS[name], "path": path})
        for name in MODELS
        for path in ("spectral", "fold_gram", "single")
        if (name, path) != ("dense", "single")
    },
    "classes": case(DENSE, KINDS, kind=KernelRidgeClassifierCV),
    "two-classes": case(SPARSE, KINDS == 1, kind=KernelRidgeClassifierCV),
    "keep": case({**SPARSE, "held_out_basis": "keep"}),
    "overlapping": case({**SPARSE, "cv": SOME}),
    "streamed": case({**SPARSE, "memory_limit": "2kB"}),
    "streamed-folds": case({**SPARSE, "memory_limit": "2kB", "cv": 5}, weights=ZEROS),
}


def experiment(model):
    """Return which experiment was trained again, and the deviation found."""
    found = re.match(r"experiment (\d+), .* deviates by (\S+)$", model.explain().facts["checked"])
    return None if found is None else (int(found[1]), float(found[2]))


def sabotage(monkeypatch, held, by):
    """Let every fast path be wrong by so much, relative, where these rows are held out."""

    def wrong(path):
        def predict(smoother, tasks, alphas, columns):
            values = path(smoother, tasks, alphas, columns)
            for j in range(len(tasks)):
                if np.array_equal(tasks.held[j], held):
                    part = slice(tasks.test.ptr[j], tasks.test.ptr[j + 1])
                    shown = smoother.restore(values.copy(), tasks.test.values, columns)
                    values[:, part] += by * np.abs(shown).max(axis=1, keepdims=True)
            return values

        return predict

    fast = {name: wrong(path) for name, path in holdout.PATHS.items() if name != "retrain"}
    monkeypatch.setattr(holdout, "PATHS", {**holdout.PATHS, **fast})


def held_rows(model, number):
    tasks = model._fitted_model().tasks(model._problem.experiments)
    return tasks.held[int(np.flatnonzero(tasks.source == number)[0])]


@pytest.mark.parametrize("name", CASES)
def test_right_predictions_are_not_warned_about_and_wrong_ones_are(name, monkeypatch):
    model, targets, weights = CASES[name]
    honest, told = fitted(clone(model), targets=targets, weights=weights)
    number, deviation = experiment(honest)
    assert not told
    assert deviation < 1e-10
    sabotage(monkeypatch, held_rows(honest, number), 1e-5)
    wrong, told = fitted(clone(model), targets=targets, weights=weights)
    assert experiment(wrong)[0] == number
    assert 3e-6 < experiment(wrong)[1] < 3e-5
    assert len(told) == 1
    assert f"experiment {number}" in str(told[0].message)
    assert float(np.min(wrong.alpha_)) in told[0].message.alphas
    quiet, told = fitted(clone(model).set_params(check=False), targets=targets, weights=weights)
    assert not told
    assert quiet.explain().facts["checked"] == "no: turned off"


@pytest.mark.parametrize("split", ["loo", "folds"])
@pytest.mark.parametrize("options", [SPARSE, LINEAR], ids=["sparse", "linear"])
def test_rows_on_a_cluster(options, split, monkeypatch):
    da = pytest.importorskip("dask.array")
    import dask

    rows = da.from_array(X, chunks=(17, -1))
    model, _, _ = case({**options, **SPLITS[split]})
    with dask.config.set(scheduler="synchronous"):
        honest, told = fitted(clone(model), rows)
        number, deviation = experiment(honest)
        assert not told
        assert deviation < 1e-10
        sabotage(monkeypatch, held_rows(honest, number), 1e-5)
        _, told = fitted(clone(model), rows)
    assert len(told) == 1


@pytest.mark.parametrize("name", ["dense-loo", "sparse-loo", "linear-loo", "sparse-zeros"])
def test_it_is_the_experiment_of_the_highest_leverage(name):
    model, targets, weights = CASES[name]
    model, _ = fitted(clone(model), targets=targets, weights=weights)
    # Predictions are linear in y: those of unit vectors are the columns of S.
    options = {"alphas": [model.alpha_], "check": False}
    columns, _ = fitted(clone(model).set_params(**options), X, np.eye(M), weights)
    leverages = np.diag(columns.predict(X)) * (1.0 if weights is None else weights > 0)
    assert experiment(model)[0] == int(np.argmax(leverages))


def test_predictions_that_are_not_kept_are_computed_again(monkeypatch):
    monkeypatch.setattr(search, "KEPT_DOUBLES", 0)
    model, _, _ = CASES["sparse-folds"]
    honest, told = fitted(clone(model))
    assert not told
    sabotage(monkeypatch, held_rows(honest, experiment(honest)[0]), 1e-5)
    assert len(fitted(clone(model))[1]) == 1


def test_digits_that_a_factor_lost_are_noticed(monkeypatch):
    """A column of seconds since 1970, by the factor that squares: wrong in the second digit."""
    rng = np.random.default_rng(0)
    rows = np.c_[rng.normal(size=(200, 3)), 1.7e9 + 1e7 * rng.normal(size=200)]
    targets = rows[:, :3] @ [1, -1, 0.5] + 0.1 * rng.normal(size=200)
    model = KernelRidgeCV(kernel="linear", alphas=[1e-6, 1e-3, 1e6], path="spectral")

    def told():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            clone(model).fit(rows, targets)
        return [entry for entry in caught if "was trained again" in str(entry.message)]

    assert not told()
    monkeypatch.setattr(factorise, "ENOUGH", np.inf)
    assert told()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("path", ["auto", "spectral", "fold_gram"])
@pytest.mark.parametrize("family", FAMILIES)
def test_hard_problems_are_no_alarm(family, path):
    """Whatever is said is what training every experiment again says as well."""
    for seed in range(3):
        drawn = problem(family, seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = estimator(drawn, path).fit(drawn.X, drawn.y, sample_weight=drawn.weights)
        if any("was trained again" in str(entry.message) for entry in caught):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", HoldfastWarning)
                assert model.verify(len(drawn.sets)).chosen_relative_error > 1e-7
        assert experiment(model) or family in NOTHING_FAST


def test_why_nothing_was_checked(tmp_path):
    for options, reason in (
        ({**DENSE, "path": "retrain"}, "trained from scratch"),
        ({"gamma": 0.3, "basis": 9, "held_out_basis": "reselect"}, "trained from scratch"),
        ({**DENSE, "path": "single"}, "verify() does it"),
        ({**DENSE, "cv": 3, "path": "fold_gram"}, "verify() does it"),
        ({**SPARSE, "cv": [HoldOut(np.arange(0, M, 5)[:6])]}, "trained anew"),
    ):
        model, _ = fitted(KernelRidgeCV(alphas=[0.1, 1.0], random_state=0, **options))
        told = model.explain().facts["checked"]
        assert told.startswith("no: ")
        assert reason in told
    model = KernelRidgeCV(gamma=0.3, alphas=[0.1, 1.0], checkpoint=tmp_path / "kept")
    assert "experiment" in fitted(clone(model))[0].explain().facts["checked"]
    assert "the checkpoint" in fitted(clone(model))[0].explain().facts["checked"]


@pytest.mark.parametrize("kept", [0, 2**21])
def test_a_row_that_is_predicted_to_be_zero_is_no_alarm(kept, monkeypatch):
    monkeypatch.setattr(search, "KEPT_DOUBLES", kept)
    model = KernelRidgeCV(gamma=0.3, alphas=[0.1])
    model.set_params(path="spectral")
    number, _ = experiment(fitted(model)[0])
    level = model.predict_without([number])
    again, told = fitted(clone(model), targets=y - level)
    assert abs(again.predict_without([number])) < 1e-13
    assert experiment(again)[0] == number
    assert experiment(again)[1] < 1e-12
    assert not told


# -- the second opinion itself ---------------------------------------------------------------------


def smoothers(columns, weights):
    """Return the smoothers of one problem, with and without a factor for every penalty."""
    unpenalised = Unpenalised.of(columns, weights)
    K = np.exp(-0.3 * np.square(X[:, None] - X[None]).sum(axis=2))
    basis = np.arange(0, M, 5)
    known = KnownColumns.of(K[:, basis], K[np.ix_(basis, basis)], 1e-8)
    makers = {
        "kernel": lambda: KernelSmoother(K, weights, TWO, unpenalised),
        "basis": lambda: FeatureSmoother(known, weights, TWO, unpenalised),
        "columns": lambda: FeatureSmoother(ColumnFeatures(X), weights, TWO, unpenalised),
    }
    for name, make in makers.items():
        for factorised in (False, True):
            smoother = make()
            if factorised:
                smoother.factor(least=0.01)
            yield name, smoother


TREND = np.c_[np.ones(M), np.linspace(-1, 1, M), np.linspace(-1, 1, M) ** 2]


@pytest.mark.parametrize("columns", [TREND[:, :0], TREND[:, :1], TREND], ids=["0", "1", "3"])
@pytest.mark.parametrize("weights", [np.ones(M), ZEROS], ids=["ones", "zeros"])
@pytest.mark.parametrize("alpha", [0.01, 10.0])
def test_it_is_the_model_trained_from_scratch(columns, weights, alpha):
    targets = np.array([0, 2])
    trained = np.flatnonzero(weights > 0)
    for name, smoother in smoothers(columns, weights):
        for size in (1, 4, 20):
            held = trained[3 : 3 + 2 * size : 2]
            test = np.append(held[:5], [3, 10])  # held out, of weight zero, and trained on
            removed = np.array([1, 2]) if name == "basis" else np.array([], dtype=int)
            slow = smoother.retrain(held, removed, test, np.array([alpha]), slice(None))[0]
            fast = smoother.refined(held, removed, test, alpha, targets, 1.0)
            np.testing.assert_allclose(fast, slow[:, targets], atol=1e-9, err_msg=name)


def test_a_solution_that_does_not_settle_is_no_opinion():
    """A spectrum of another matrix corrects in wrong directions; then nothing is believed."""
    ones = np.ones(M)
    _, smoother = list(smoothers(TREND[:, :1], ones))[1]
    V = smoother._spectrum.V
    V[:] = np.linalg.qr(np.random.default_rng(0).normal(size=V.shape))[0]
    found = smoother.refined(
        np.array([4]), np.empty(0, int), np.array([4]), 0.01, np.arange(1), 1.0
    )
    assert np.isnan(found).all()
    tasks = Tasks(
        *(Ragged.from_arrays([np.array(r, int)]) for r in ([4], [], [4])), np.zeros(1, int)
    )
    slow = holdout.predict(smoother, tasks, np.array([0.01]), "retrain")[0]
    told = check(smoother, tasks, "spectral", 8, 0.01, np.arange(3), slow)
    assert told.endswith("deviates by 0.0e+00")  # trained from scratch instead


def test_the_report_says_what_was_found():
    model, _ = fitted(clone(CASES["sparse-loo"][0]))
    told = model.explain().facts["checked"]
    summary = summarise(model)
    assert f"Checked: {told}." in to_markdown(summary)
    assert told in to_html(summary)
