"""The three ways of paper 000 §6.2 to treat basis rows in ten-fold cross-validation.

All three estimate the error of a model with n basis rows. They differ in how much the basis
changes from fold to fold, and so in the variance of the estimate.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import HoldOut, KernelRidgeCV
from holdfast.basis import Selector
from holdfast.exceptions import HoldfastWarning
from holdfast.kernels import RBF, Kernel
from reproduce._verdicts import finite, log_variances, mean_and_error

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

N_FOLDS = 10
SHIFT = 1e-7  # the papers' diagonal shift; an RBF kernel has diagonal 1, so also relative


@contextmanager
def expected_warnings() -> Iterator[None]:
    """Silence holdfast's warnings: grid ends and biased choices are the subject of study here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HoldfastWarning)
        yield


def fitted(X: Any, y: Floats, alphas: Floats, **options: Any) -> KernelRidgeCV:
    """Return a model without bias, cross-validated by the mean squared error at each penalty."""
    model = KernelRidgeCV(
        alphas=alphas,
        fit_intercept=False,
        scoring="neg_mean_squared_error",
        pooled=True,
        **options,
    )
    with expected_warnings():
        return model.fit(X, y)


def cv_mse(X: Any, y: Floats, alphas: Floats, **options: Any) -> Floats:
    """Return the mean squared held-out error of a model without bias, for each penalty."""
    score: Floats = fitted(X, y, alphas, **options).cv_results_["pooled_test_score"]
    return -score


def chosen(
    selector: Selector, kernel: Kernel, X: Any, y: Floats, seed: int, groups: Any = None
) -> KernelRidgeCV:
    """Return a model whose ``basis_indices_`` a selector has chosen; nothing else of it matters."""
    model = KernelRidgeCV(
        kernel,
        alphas=[1.0],
        basis=selector,
        held_out_basis="keep",
        cv=[HoldOut([0])],
        fit_intercept=False,
        random_state=seed,
    )
    with expected_warnings():
        return model.fit(X, y, groups=groups)


def three_approaches(
    X: Floats,
    y: Floats,
    gamma: float,
    n: int,
    alphas: Floats,
    selector: Callable[[int], Selector],
    rng: np.random.Generator,
) -> Floats:
    """Return the ten-fold error of a model with n basis rows in three ways, (3, alphas).

    Parameters
    ----------
    X, y : arrays
        Rows and target.
    gamma : float
        Width of the RBF kernel.
    n : int
        Basis rows of each held-out model; a multiple of 9.
    alphas : array
        Penalties.
    selector : callable
        From a number of rows to a selector.
    rng : Generator
        Source of chance: folds and basis rows.
    """
    kernel = RBF(gamma)
    m = len(y)
    more = n * N_FOLDS // (N_FOLDS - 1)  # 30 for 27: a tenth is held out in each round

    def choose(size: int) -> Rows:
        return chosen(selector(size), kernel, X, y, int(rng.integers(2**31))).basis_indices_

    B1 = choose(more)
    first = cv_mse(
        X, y, alphas, kernel=kernel, basis=B1, jitter=SHIFT, cv=_folds_through(B1, m, rng)
    )
    B2 = choose(n)
    others = _deal(np.setdiff1d(np.arange(m), B2), rng)
    second = cv_mse(
        X, y, alphas, kernel=kernel, basis=B2, jitter=SHIFT, cv=[HoldOut(f) for f in others]
    )
    third = cv_mse(
        X,
        y,
        alphas,
        kernel=kernel,
        basis=selector(n),
        held_out_basis="reselect",
        jitter=SHIFT,
        cv=[HoldOut(fold) for fold in _deal(np.arange(m), rng)],
        random_state=int(rng.integers(2**31)),
    )
    return np.stack([first, second, third])


def _deal(rows: Rows, rng: np.random.Generator) -> list[Rows]:
    """Return the rows dealt at random into ten parts of nearly equal size."""
    return [np.sort(part) for part in np.array_split(rng.permutation(rows), N_FOLDS)]


def _folds_through(basis: Rows, m: int, rng: np.random.Generator) -> list[HoldOut]:
    """Return ten folds of all m rows with as many basis rows in each (approach 1)."""
    others = _deal(np.setdiff1d(np.arange(m), basis), rng)
    parts = _deal(basis, rng)
    return [HoldOut(np.concatenate(pair)) for pair in zip(parts, others, strict=True)]


def moments(errors: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance over repetitions (axis 0), the variance with 1/(r-1)."""
    return errors.mean(axis=0), errors.var(axis=0, ddof=min(1, len(errors) - 1))


def standard_errors(errors: Floats) -> dict[str, list[list[float]]]:
    """Return standard errors of mean and variance over repetitions (axis 0), of (r, 3, alphas)."""
    variance = moments(errors)[1]
    log_noise = mean_and_error(log_variances(errors)[1])[1]
    return {
        "mean": [[finite(value) for value in row] for row in mean_and_error(errors)[1]],
        "variance": [[finite(value) for value in row] for row in variance * log_noise],
    }


def log2_labels(alphas: Sequence[float] | Floats) -> list[float]:
    """Return log₂ of the penalties, the horizontal axis of most figures."""
    return [float(value) for value in np.log2(alphas)]
