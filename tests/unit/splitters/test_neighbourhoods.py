"""Splitters for neighbourhoods, each against a loop over all pairs of rows."""

import pickle
import tracemalloc

import numpy as np
import pytest
import sklearn
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    TimeSeriesSplit,
    cross_val_predict,
    cross_val_score,
)

import holdfast
from holdfast import KernelRidgeCV
from holdfast.core.experiments import Experiments
from holdfast.exceptions import HoldOutError, InvalidInputError
from holdfast.splitters import (
    HBlock,
    LeaveNeighbourhoodOut,
    PurgedKFold,
    TimeSteps,
)
from holdfast.splitters.cv import as_experiments
from reference.retrain import policy_experiment, retrain
from tolerances import assert_close

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")

M = 40
RNG = np.random.default_rng(11)
PLACES = RNG.uniform(0, 10, size=(M, 2))
GLOBE = np.column_stack([RNG.uniform(-90, 90, M), RNG.uniform(-180, 180, M)])
X = np.column_stack([PLACES / 3, RNG.normal(size=M)])
Y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=M)

SPLITTERS = [
    LeaveNeighbourhoodOut(PLACES, 2.0),
    LeaveNeighbourhoodOut(PLACES, 2.5, "manhattan"),
    LeaveNeighbourhoodOut(GLOBE, 4000.0, "haversine"),
    HBlock(3),
    PurgedKFold(6, 2, 3),
    TimeSteps(PLACES[:, 1].round(), 2, gap=2),
]
NAMES = [f"{type(splitter).__name__}-{i}" for i, splitter in enumerate(SPLITTERS)]


def pairs(experiments):
    return [(e.held_out.tolist(), e.test.tolist()) for e in experiments]


def around(near):
    """The twin: row i is tested, all j with near(i, j) are held out."""
    return [([j for j in range(M) if near(i, j)], [i]) for i in range(M)]


def great_circle(a, b):
    """The distance in km by the angle between two points of the sphere."""

    def point(place):
        latitude, longitude = np.radians(place)
        return np.array(
            [
                np.cos(latitude) * np.cos(longitude),
                np.cos(latitude) * np.sin(longitude),
                np.sin(latitude),
            ]
        )

    u, v = point(a), point(b)
    return 6371.0088 * np.arctan2(np.linalg.norm(np.cross(u, v)), u @ v)


# -- each against its twin -------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "chebyshev", "canberra", "cosine"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_neighbourhood_is_all_rows_within_the_radius(metric, share):
    distance = cdist(PLACES, PLACES, {"manhattan": "cityblock"}.get(metric, metric))
    radius = float(np.quantile(distance[np.triu_indices(M, 1)], share)) * 1.0001 * (share > 0)
    if (distance <= radius).all(axis=1).any():
        pytest.skip("reaches everything")
    found = LeaveNeighbourhoodOut(PLACES, radius, metric).experiments(M)
    assert pairs(found) == around(lambda i, j: i == j or distance[i, j] <= radius)


def test_neighbourhood_in_kilometres():
    found = LeaveNeighbourhoodOut(GLOBE, 4000, "haversine").experiments(M)
    assert pairs(found) == around(lambda i, j: great_circle(GLOBE[i], GLOBE[j]) <= 4000)
    assert 1 < found.held_out.sizes.mean() < M / 2


def test_neighbourhood_across_the_date_line_and_the_pole():
    places = [[0, 179.9], [0, -179.9], [89.9, 0], [89.9, 180], [45, 0]]
    found = LeaveNeighbourhoodOut(places, 30, "haversine").experiments(5)
    assert [held for held, _ in pairs(found)] == [[0, 1], [0, 1], [2, 3], [2, 3], [4]]


def test_neighbourhood_with_a_function_or_parameters_as_metric():
    def city(a, b):
        return float(np.abs(a - b).sum())

    by_name = LeaveNeighbourhoodOut(PLACES, 2.5, "manhattan").experiments(M)
    by_function = LeaveNeighbourhoodOut(PLACES, 2.5, city).experiments(M)
    by_power = LeaveNeighbourhoodOut(PLACES, 2.5, "minkowski", metric_params={"p": 1})
    assert pairs(by_function) == pairs(by_name) == pairs(by_power.experiments(M))


def test_rounding_does_not_decide_on_a_grid():
    line = np.arange(30) * 0.1  # 0.1 * 3 is 0.30000000000000004
    found = LeaveNeighbourhoodOut(line, 0.3).experiments(30)
    assert pairs(found) == pairs(HBlock(3).experiments(30))


def test_rows_at_one_place_are_held_out_together():
    found = LeaveNeighbourhoodOut([1.0, 2.0, 1.0, 3.0], 0).experiments(4)
    assert pairs(found) == [([0, 2], [0]), ([1], [1]), ([0, 2], [2]), ([3], [3])]


@pytest.mark.parametrize("h", [0, 1, 5, 19])
def test_h_block(h):
    assert pairs(HBlock(h).experiments(M)) == around(lambda i, j: abs(i - j) <= h)


@pytest.mark.parametrize(("k", "purge", "embargo"), [(2, 0, 0), (7, 2, 0), (7, 0, 3), (40, 1, 5)])
def test_purged_folds(k, purge, embargo):
    found = pairs(PurgedKFold(k, purge, embargo).experiments(M))
    folds = [test.tolist() for _, test in KFold(k).split(X)]
    twin = [
        ([i for i in range(M) if test[0] - purge <= i <= test[-1] + embargo], test)
        for test in folds
    ]
    assert found == twin


@pytest.mark.parametrize(("k", "gap"), [(2, 0), (5, 0), (4, 3)])
def test_steps_in_time(k, gap):
    """Row by row, by the time of each; sorted rows without ties are scikit-learn's splits."""
    times = PLACES[:, 0].round()
    by_time = sorted(range(M), key=lambda i: (times[i], i))
    part = M // (k + 1)
    twin = []
    for step in range(k, 0, -1):
        first = M - step * part
        now = by_time[first : first + part]
        past = [i for i in by_time[: first - gap] if times[i] < times[now[0]]]
        if past:
            twin.append((sorted(set(range(M)) - set(past)), sorted(now)))
    splitter = TimeSteps(times, k, gap)
    assert pairs(splitter.experiments(M)) == twin
    assert splitter.get_n_splits() == len(twin)
    ours = list(TimeSteps(np.arange(M), k, gap).split(X))
    for (train, test), (a, b) in zip(ours, TimeSeriesSplit(k, gap=gap).split(X), strict=True):
        np.testing.assert_array_equal(train, a)
        np.testing.assert_array_equal(test, b)


def test_times_may_be_dates():
    days = np.datetime64("2024-03-01") + RNG.permutation(M).astype("timedelta64[D]")
    twin = TimeSteps(days.astype(np.int64), 3)
    assert pairs(TimeSteps(days, 3).experiments(M)) == pairs(twin.experiments(M))
    left = np.arange(0, M, 3)
    inner, twin = TimeSteps(days, 3).among(left), TimeSteps(days[left], 3)
    assert pairs(inner.experiments(left.size)) == pairs(twin.experiments(left.size))


# -- one splitter, two interfaces ------------------------------------------------------------------


@pytest.mark.parametrize("splitter", SPLITTERS, ids=NAMES)
def test_split_says_the_same_as_experiments(splitter):
    fast = splitter.experiments(M)
    by_pairs = as_experiments(list(splitter.split(X, Y)), M)
    assert isinstance(fast, Experiments)
    assert pairs(fast) == pairs(by_pairs) == pairs(as_experiments(splitter, M))
    assert splitter.get_n_splits(X, Y) == len(fast)


@pytest.mark.parametrize("splitter", SPLITTERS, ids=NAMES)
def test_estimators_never_ask_for_training_rows(splitter, monkeypatch):
    monkeypatch.setattr(type(splitter), "split", None)
    model = KernelRidgeCV(gamma=0.5, cv=splitter, alphas=[0.1, 1.0, 10.0]).fit(X, Y)
    assert model.n_splits_ == len(splitter.experiments(M))
    assert len(KernelRidgeCV(gamma=0.5).fit(X, Y).held_out(cv=splitter).predictions)


@pytest.mark.parametrize("splitter", SPLITTERS, ids=NAMES)
def test_works_in_scikit_learn(splitter):
    scores = cross_val_score(Ridge(), X, Y, cv=splitter, scoring="neg_mean_squared_error")
    assert scores.shape == (splitter.get_n_splits(X),)
    model = KernelRidge(kernel="rbf", gamma=0.5)
    search = GridSearchCV(
        model, {"alpha": [0.1, 1.0]}, cv=splitter, scoring="neg_mean_squared_error"
    )
    search.fit(X, Y)
    ours = KernelRidgeCV(
        gamma=0.5, alphas=[0.1, 1.0], cv=splitter, fit_intercept=False, pooled=False
    ).fit(X, Y)
    theirs = search.cv_results_["mean_test_score"]
    assert np.allclose(ours.cv_results_["mean_test_score"], theirs, rtol=1e-8)
    assert search.best_params_["alpha"] == ours.alpha_


def test_works_with_metadata_routing():
    with sklearn.config_context(enable_metadata_routing=True):
        predicted = cross_val_predict(Ridge(), X, Y, cv=HBlock(2), params={})
        GridSearchCV(
            Ridge(),
            {"alpha": [0.1, 1.0]},
            cv=LeaveNeighbourhoodOut(PLACES, 1),
            scoring="neg_mean_squared_error",
        ).fit(X, Y)
    assert predicted.shape == (M,)


@pytest.mark.parametrize("splitter", SPLITTERS, ids=NAMES)
def test_clones_pickles_and_names_itself(splitter):
    for twin in (clone(splitter), pickle.loads(pickle.dumps(splitter))):
        assert pairs(twin.experiments(M)) == pairs(splitter.experiments(M))
        assert repr(twin) == repr(splitter)
    assert clone(KernelRidgeCV(cv=splitter)).cv.get_params().keys() == splitter.get_params().keys()
    assert len(repr(splitter)) < 120


def test_names():
    assert repr(HBlock(3)) == "HBlock(h=3)"
    assert repr(PurgedKFold(5, embargo=2)) == "PurgedKFold(embargo=2)"
    assert (
        repr(LeaveNeighbourhoodOut(PLACES, 2.0, "l1"))
        == "LeaveNeighbourhoodOut(coordinates=<40 × 2 ndarray>, radius=2.0, metric='l1')"
    )
    assert "LeaveNeighbourhoodOut" in repr(KernelRidgeCV(cv=SPLITTERS[0]))


@pytest.mark.parametrize("splitter", SPLITTERS, ids=NAMES)
def test_goes_through_a_pickled_model(splitter):
    model = KernelRidgeCV(gamma=0.5, cv=splitter, alphas=[0.1, 1.0, 10.0]).fit(X, Y)
    loaded = pickle.loads(pickle.dumps(model))
    assert type(loaded.cv) is type(splitter)
    assert pairs(loaded.cv.experiments(M)) == pairs(splitter.experiments(M))
    assert np.array_equal(loaded.held_out().values, model.held_out().values)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_coordinates_from_a_frame(library):
    frames = pytest.importorskip(library)
    places = frames.DataFrame({"north": PLACES[:, 0], "east": PLACES[:, 1]})
    splitter = LeaveNeighbourhoodOut(places, 2.0)
    assert pairs(clone(splitter).experiments(M)) == pairs(SPLITTERS[0].experiments(M))
    KernelRidgeCV(gamma=0.5, cv=splitter).fit(X, Y)


# -- held-out predictions are those of models that are really trained ------------------------------


@pytest.mark.parametrize("policy", ["remove", "keep", "train", "skip"])
@pytest.mark.parametrize("splitter", SPLITTERS, ids=NAMES)
def test_exact_against_retraining(splitter, policy):
    basis = np.array([1, 4, 8, 11, 15, 19, 22, 25, 31, 37])
    weights = np.random.default_rng(3).integers(1, 4, size=M).astype(float)
    alphas = [0.05, 2.0]
    model = KernelRidgeCV(
        gamma=0.4, basis=basis, cv=splitter, held_out_basis=policy, alphas=alphas, jitter=1e-8
    ).fit(X, Y, sample_weight=weights)
    K, held_out = rbf_kernel(X, gamma=0.4), model.held_out()
    expected = []
    for e in splitter.experiments(M):
        held, test, removed = policy_experiment(e.held_out, e.test, basis, policy)
        if len(test):
            expected.append(
                [
                    retrain(K, Y, held, test, alpha, basis, removed, weights, jitter=model.jitter_)
                    for alpha in alphas
                ]
            )
    assert_close(held_out.values, np.concatenate(expected, axis=1), "retraining", repr(splitter))


@pytest.mark.parametrize("splitter", SPLITTERS, ids=NAMES)
def test_exact_against_retraining_dense(splitter):
    model = KernelRidgeCV(gamma=0.4, cv=splitter, alphas=[0.05, 2.0]).fit(X, Y)
    K = rbf_kernel(X, gamma=0.4)
    expected = [
        [retrain(K, Y, e.held_out, e.test, alpha) for alpha in (0.05, 2.0)]
        for e in splitter.experiments(M)
    ]
    assert_close(model.held_out().values, np.concatenate(expected, axis=1), "retraining")


# -- bad input: what, allowed, arrived, what to do -------------------------------------------------

BAD = [
    (LeaveNeighbourhoodOut(PLACES, -1), "radius must be a finite zero or positive number.*-1"),
    (LeaveNeighbourhoodOut(PLACES, "far"), "radius must be.*'far'"),
    (LeaveNeighbourhoodOut(PLACES, np.nan), "radius must be"),
    (LeaveNeighbourhoodOut(PLACES, True), "radius must be"),
    (LeaveNeighbourhoodOut(PLACES, 100), "radius=100 holds out all 40 rows.*smaller"),
    (LeaveNeighbourhoodOut(PLACES[:9], 1), "each of the 40 rows; got 9 points. Make the splitter"),
    (LeaveNeighbourhoodOut(PLACES[None], 1), r"coordinates must be.*shape \(1, 40, 2\)"),
    (LeaveNeighbourhoodOut([["a", "b"]] * M, 1), "coordinates must be numbers.*dtype <U1"),
    (LeaveNeighbourhoodOut([[1, 2], [3]], 1), "coordinates must be numbers"),
    (LeaveNeighbourhoodOut(np.full((M, 2), np.nan), 1), "coordinates must be finite.*row 0"),
    (LeaveNeighbourhoodOut(np.arange(M).astype("M8[D]"), 1), "Convert times to numbers"),
    (LeaveNeighbourhoodOut(PLACES, 1, "euclid"), "metric must be.*'euclid'.*VALID_METRICS"),
    (LeaveNeighbourhoodOut(PLACES, 1, "precomputed"), "metric must be.*VALID_METRICS"),
    (LeaveNeighbourhoodOut(PLACES, 1, 7), "metric must be.*7"),
    (LeaveNeighbourhoodOut(PLACES, 1, "seuclidean"), "metric='seuclidean' cannot measure"),
    (LeaveNeighbourhoodOut(PLACES[:, :1], 1, "haversine"), "two columns.*got 1"),
    (LeaveNeighbourhoodOut(GLOBE[:, ::-1], 1, "haversine"), "latitudes.*order of the columns"),
    (HBlock(-1), "h must be a whole number, at least 0; got -1"),
    (HBlock(1.5), "h must be a whole number"),
    (HBlock(20), "h=20 holds out all 40 rows in experiment 19.*smaller"),
    (TimeSteps(np.arange(M), 1), "n_splits must be a whole number, at least 2; got 1"),
    (TimeSteps(np.arange(M), 40), "40 steps in time.*fewer steps"),
    (TimeSteps(np.arange(M), 3, gap=10), "a gap of 10 leave no row.*smaller gap"),
    (TimeSteps(np.arange(9)), r"times must hold one label per row.*got shape \(9,\)"),
    (TimeSteps(["May"] * M), "times must be numbers or dates.*to_datetime"),
    (TimeSteps(np.full(M, np.nan)), "times must hold.*missing, the first in row 0"),
    (TimeSteps(np.full(M, "NaT", dtype="M8[D]")), "times must hold.*missing, the first in row 0"),
    (TimeSteps(np.zeros(M)), "have the same time"),
    (PurgedKFold(1), "n_splits must be a whole number, at least 2; got 1"),
    (PurgedKFold(41), "n_splits must be at most the number of rows, 40; got 41"),
    (PurgedKFold(4, -1), "purge must be"),
    (PurgedKFold(4, 0, 0.5), "embargo must be"),
    (PurgedKFold(2, 20, 20), "purge=20, embargo=20 holds out all 40 rows in experiment 0"),
]


@pytest.mark.parametrize(("splitter", "message"), BAD, ids=lambda value: str(value)[:40])
def test_bad_parameters(splitter, message):
    with pytest.raises(InvalidInputError, match=message):
        splitter.experiments(M)
    with pytest.raises(InvalidInputError, match=message):
        KernelRidgeCV(cv=splitter).fit(X, Y)


def test_bad_number_of_rows():
    with pytest.raises(InvalidInputError, match="n_rows must be a whole number"):
        HBlock(1).experiments(1.5)
    with pytest.raises(InvalidInputError, match="X must be given"):
        HBlock(1).get_n_splits()
    assert HBlock(1).get_n_splits(None, Y) == M
    with pytest.raises(HoldOutError):
        list(HBlock(20).split(X))


def test_public_name_is_there_on_demand():
    assert holdfast.splitters.HBlock is HBlock
    assert "splitters" in dir(holdfast)


# -- size ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_hundred_thousand_points_take_the_memory_of_their_neighbourhoods():
    m = 100_000
    rng = np.random.default_rng(0)
    places = rng.uniform(size=(m, 2))
    radius = float(np.sqrt(50 / (np.pi * m)))  # about 50 neighbours
    globe = np.column_stack([60 + places[:, 0], 20 + places[:, 1]])
    for splitter in (
        LeaveNeighbourhoodOut(places, radius),
        LeaveNeighbourhoodOut(globe, 1.0, "haversine"),
        HBlock(25),
        PurgedKFold(10, 100, 100),
    ):
        tracemalloc.start()
        experiments = as_experiments(splitter, m)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        values = experiments.held_out.values.size
        assert experiments.held_out.sizes.mean() > 20
        assert np.bincount(experiments.test.values, minlength=m).min() == 1
        # All pairs would be 80 GB; this is some copies of what is kept.
        assert peak < 8 * (8 * values + 40 * m) + 2**28, splitter
