"""The held-out error over the radius, tested by its numbers and by the artists it draws."""

import numpy as np
import pytest
from sklearn.metrics import root_mean_squared_error
from sklearn.metrics.pairwise import rbf_kernel

from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.displays import RadiusDisplay
from holdfast.exceptions import HoldOutError, InvalidInputError
from holdfast.splitters import LeaveNeighbourhoodOut
from reference.retrain import retrain

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")

M = 50
RNG = np.random.default_rng(4)
PLACES = RNG.uniform(0, 10, size=(M, 2))
Y = np.sin(PLACES[:, 0]) + np.cos(PLACES[:, 1]) + 0.1 * RNG.normal(size=M)
RADII = [0.0, 1.0, 3.0]


@pytest.fixture(autouse=True)
def close_figures():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


@pytest.fixture(scope="module")
def model():
    return KernelRidgeCV(gamma=0.5).fit(PLACES, Y)


def test_values_are_errors_of_models_that_never_saw_the_neighbourhood(model):
    display = RadiusDisplay.from_estimator(model, PLACES, [3.0, 0.0, 1.0], control=True)
    K = rbf_kernel(PLACES, gamma=0.5)
    distance = np.hypot(*(PLACES[:, None] - PLACES).T)
    for i, radius in enumerate(RADII):
        held = [np.flatnonzero(row <= radius) for row in distance]
        predicted = [retrain(K, Y, h, [j], model.alpha_)[0, 0] for j, h in enumerate(held)]
        assert display.values[i] == pytest.approx(root_mean_squared_error(Y, predicted), rel=1e-9)
        assert display.held_out[i] == np.mean([len(h) for h in held])
    assert display.radii.tolist() == RADII
    assert display.baseline == pytest.approx(Y.std())
    assert display.control[0] == pytest.approx(display.values[0])  # nobody else is held out
    assert display.control[-1] < display.values[-1]


def test_control_holds_out_as_many_rows_and_tests_the_same():
    from holdfast.displays.radius import _anywhere

    experiments = LeaveNeighbourhoodOut(PLACES, 3.0).experiments(M)
    others = _anywhere(experiments, M, np.random.default_rng(0))
    for mine, theirs in zip(experiments, others, strict=True):  # HoldOut checks repeated rows
        assert len(mine.held_out) == len(theirs.held_out)
        assert mine.test.tolist() == theirs.test.tolist()


def test_artists(model):
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    display = RadiusDisplay.from_estimator(model, PLACES, RADII, control=True, ax=ax, color="red")
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert display.line_.get_color() == "red"
    assert np.array_equal(display.line_.get_ydata(), display.values)
    assert np.array_equal(display.control_.get_ydata(), display.control)
    assert display.baseline_.get_ydata()[0] == display.baseline
    assert display.band_ is not None
    assert ax.get_ylabel() == "held-out RMSE"
    assert ax.get_xlabel() == "radius"
    plain = RadiusDisplay(radii=RADII, values=[1, 2, 3]).plot(label="mine")
    assert plain.band_ is plain.control_ is plain.baseline_ is None
    assert plain.ax_.get_legend().get_texts()[0].get_text() == "mine"


def test_kilometres(model):
    globe = np.column_stack([60 + PLACES[:, 0] / 10, 20 + PLACES[:, 1] / 10])
    display = RadiusDisplay.from_estimator(model, globe, [0, 10], metric="haversine")
    assert display.ax_.get_xlabel() == "radius (km)"
    found = model.held_out(LeaveNeighbourhoodOut(globe, 10, "haversine"), alphas=model.alpha_)
    assert display.values[1] == pytest.approx((-found.score()[0]) ** 0.5)


def test_classifiers_several_targets_and_scores_by_group():
    labels = np.where(Y > 0, "up", "down")
    classifier = KernelRidgeClassifierCV(gamma=0.5, scoring="accuracy").fit(PLACES, labels)
    display = RadiusDisplay.from_estimator(classifier, PLACES, RADII)
    assert display.ax_.get_ylabel() == "held-out accuracy"
    assert display.baseline == pytest.approx(
        max(np.mean(labels == "up"), np.mean(labels == "down"))
    )

    several = KernelRidgeCV(gamma=0.5, alpha_per_target=True, basis=20, random_state=0)
    several.fit(PLACES, np.column_stack([Y, np.round(Y)]))
    values = RadiusDisplay.from_estimator(several, PLACES, [1.0]).values
    found = several.held_out(LeaveNeighbourhoodOut(PLACES, 1.0), alphas=np.unique(several.alpha_))
    own = [
        found.matrix()[np.searchsorted(found.alphas, alpha), :, t]
        for t, alpha in enumerate(several.alpha_)
    ]
    error = np.mean([np.mean((own[t] - found.y[:, t]) ** 2) for t in range(2)])
    assert values[0] == pytest.approx(error**0.5)

    groups = np.arange(M) % 5
    ranked = KernelRidgeCV(gamma=0.5, scoring="concordance", alphas=[0.1, 1.0, 10.0])
    display = RadiusDisplay.from_estimator(ranked.fit(PLACES, Y, groups=groups), PLACES, RADII)
    assert display.baseline == 0.5
    found = ranked.held_out(LeaveNeighbourhoodOut(PLACES, 3.0), alphas=ranked.alpha_)
    assert display.values[-1] == found.score("concordance")[0]


@pytest.mark.parametrize("radii", [[], [-1.0], [np.inf], "near", None])
def test_bad_radii(model, radii):
    with pytest.raises(InvalidInputError, match=r"radi.* must (be a finite|hold at least)"):
        RadiusDisplay.from_estimator(model, PLACES, radii)


def test_bad_arguments(model):
    with pytest.raises(HoldOutError, match="radius=100 holds out all 50 rows"):
        RadiusDisplay.from_estimator(model, PLACES, [1, 100])
    with pytest.raises(InvalidInputError, match="one point for each of the 50 rows"):
        RadiusDisplay.from_estimator(model, PLACES[1:], [1])
    with pytest.raises(InvalidInputError, match="estimator must be"):
        RadiusDisplay.from_estimator("model", PLACES, [1])
