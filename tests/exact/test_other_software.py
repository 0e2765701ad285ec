"""Numbers that other software printed for the same models: kriging and a partially linear one.

They were printed once, with the commands below; nothing of it is needed to run these tests.
"""

from __future__ import annotations

import numpy as np
import pytest

from holdfast import KernelRidgeCV
from holdfast.basis import Points
from holdfast.kernels import RBF, OnColumns

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")

EXACT = 1e-10

# The data, in R; below in Python.
#
#   i <- 1:24
#   d <- data.frame(x1 = round(5 * (sin(i * 1.7) + 1), 3), x2 = round(5 * (cos(i * 2.3) + 1), 3),
#                   z = (i * 7) %% 5 - 2)
#   d$y <- round(2 + 0.5 * d$x1 - 0.3 * d$x2 + 1.5 * d$z + sin(d$x1) + cos(d$x2)
#                + 0.3 * sin(11 * i), 3)
#   new <- data.frame(x1 = c(1, 4.5, 9), x2 = c(2, 7, 5.5), z = c(0, -1, 2))
NUMBER = np.arange(1, 25)
X = np.c_[
    np.round(5 * (np.sin(NUMBER * 1.7) + 1), 3),
    np.round(5 * (np.cos(NUMBER * 2.3) + 1), 3),
    NUMBER * 7 % 5,
]
X[:, 2] -= 2
Y = 2 + 0.5 * X[:, 0] - 0.3 * X[:, 1] + 1.5 * X[:, 2] + np.sin(X[:, 0]) + np.cos(X[:, 1])
Y = np.round(Y + 0.3 * np.sin(11 * NUMBER), 3)
NEW = np.array([[1, 2, 0], [4.5, 7, -1], [9, 5.5, 2]])

# R 4.2.2 with DiceKriging 1.6.0: universal kriging with a nugget.
#
#   model <- km(~ x1 + x2, d[, 1:2], d$y, covtype = "gauss", coef.var = 2,
#               coef.cov = c(1.5, 1.5), nugget = 0.4)
#   model@trend.coef
#   predict(model, new[, 1:2], type = "UK")[c("mean", "sd")]
#   leaveOneOut.km(model, type = "UK", trend.reestim = TRUE)
# fmt: off
DICE_KRIGING = {
    "trend": np.array([
        3.68385586638, 0.368022970643, -0.434008416029,
    ]),
    "mean": np.array([
        0.340330121321, 3.08846692707, 3.66187114528,
    ]),
    "std": np.array([
        0.928327188668, 1.18349785506, 1.4746812175,
    ]),
    "loo": np.array([
        7.74382774188, 1.67421191022, 0.551099029392, 4.43886814871, 4.5054953233, 4.22410945923,
        3.40076529932, 4.81213353231, 2.07637622899, 0.460405685622, 2.56732655127, 5.8769913522,
        4.78277367692, -1.81852399333, 8.6348786895, 1.78418800225, 2.80881318452, 5.42554437639,
        1.27801314736, 6.03029217475, -0.560017321279, -0.459293654513, 9.57736975531,
        0.516621208492,
    ]),
    "loo_std": np.array([
        0.971510249565, 1.15613292683, 1.00491838224, 0.997997240734, 1.08429091472, 1.1025100826,
        1.0458921551, 0.892935898635, 1.15774327955, 1.02604401564, 1.08239768734, 0.787935108668,
        0.943172182677, 0.976055031565, 1.05030070811, 0.941930366524, 1.08403306705,
        0.961280380971, 0.986127752964, 1.12599380442, 1.07040111564, 1.05961747395,
        0.94471136515, 1.19058829034,
    ]),
}

# R 4.2.2 with mgcv 1.8-41: a partially linear model, its smooth part a Gaussian process on knots.
#
#   k <- d[c(1, 3, 4, 7, 8, 12, 15, 18, 20, 23), ]
#   fit <- function(d) gam(y ~ z + s(x1, x2, bs = "gp", k = 13, m = c(2, 3, 2)), data = d, sp = 0.2,
#     knots = list(x1 = k$x1, x2 = k$x2), control = gam.control(scalePenalty = FALSE))
#   g <- fit(d)
#   coef(g)[["z"]]; predict(g, new); sqrt(g$Vp[2, 2] / g$sig2)
#   sapply(1:24, function(i) predict(fit(d[-i, ]), d[i, ]))
MGCV = {
    "z": np.array([
        1.4922412627,
    ]),
    "mean": np.array([
        2.03230891519, 0.315424135945, 7.40775415489,
    ]),
    "z_std": np.array([
        0.166335624141,
    ]),
    "loo": np.array([
        6.63311279793, 6.04468181976, -1.97086940076, 8.68559160207, 0.794979666558,
        0.533334992211, 7.65923700224, 2.20304036297, 5.80394103279, -1.35834127062,
        0.243121395639, 9.68611494175, 1.35733977452, 1.43471906146, 4.45652156227, 4.11341233506,
        4.01854755868, 1.90690458969, 4.31858837086, 1.42781489668, 1.56727708878, 3.06626715543,
        5.42259539915, 3.93533636013,
    ]),
}
# fmt: on


def test_universal_kriging_of_dice_kriging():
    process = RBF(gamma=1 / (2 * 1.5**2))
    model = KernelRidgeCV(process, trend="linear", alphas=[0.4 / 2]).fit(X[:, :2], Y)
    nugget = np.sqrt(0.4 / model.noise_variance_)  # R was given the noise, we estimate it
    mean, std = model.predict(NEW[:, :2], return_std=True)
    found, expected = model.held_out(), DICE_KRIGING
    trend = np.append(model.intercept_, model.trend_coef_)
    assert np.allclose(trend, expected["trend"], rtol=0, atol=EXACT)
    assert np.allclose(mean, expected["mean"], rtol=0, atol=EXACT)
    assert np.allclose(std * nugget, expected["std"], rtol=0, atol=EXACT)
    assert np.allclose(found.matrix().ravel(), expected["loo"], rtol=0, atol=EXACT)
    assert np.allclose(found.std.ravel() * nugget, expected["loo_std"], rtol=0, atol=EXACT)


@pytest.mark.parametrize("policy", ["keep", "points"])
def test_a_partially_linear_model_of_mgcv(policy):
    knots = np.array([1, 3, 4, 7, 8, 12, 15, 18, 20, 23]) - 1
    process = OnColumns(RBF(gamma=1 / 3**2), [0, 1])
    options = {"trend": "linear", "alphas": [0.2], "jitter": 0.0}
    basis = {"basis": knots, "held_out_basis": "keep"}  # knots stay where they are
    if policy == "points":
        basis = {"basis": Points(X[knots])}
    model, expected = KernelRidgeCV(process, **options, **basis).fit(X, Y), MGCV
    assert np.allclose(model.trend_coef_[2], expected["z"], rtol=0, atol=EXACT)
    assert np.allclose(model.predict(NEW), expected["mean"], rtol=0, atol=EXACT)
    assert np.allclose(model.held_out().matrix().ravel(), expected["loo"], rtol=0, atol=EXACT)
