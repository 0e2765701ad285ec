"""Penalty and kernel parameters by Nelder and Mead's simplex, on the exact held-out score.

As Cawley and Talbot (2004, §3.1) do for sparse LS-SVMs. Each trial is one fit, whose held-out score
is that of refitting every experiment, so any score and any way of holding out can be searched.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from holdfast._typing import AnyArray, FloatArray
from holdfast.data.values import seed_of, whole_number
from holdfast.estimators.base import OneKernel
from holdfast.exceptions import (
    GridEdgeWarning,
    HoldfastWarning,
    HoldOutError,
    InvalidInputError,
    KernelError,
    NotSupportedError,
    SingularBasisError,
    warn,
)
from holdfast.kernels import Kernel, Scaled, Sum
from holdfast.kernels.typical import typical_width
from holdfast.progress import listening, report, showing

__all__ = ["Tuned", "tune"]

#: Unless bounds are given: how far a penalty may lie beyond the default grid, and a parameter of
#: the kernel from where it starts; further starts are drawn from a factor of NEAR around it.
BEYOND, FAR, NEAR = 1e2, 1e4, 20.0
#: The simplex ends when its corners differ by less: in logarithms, and in shares of the score.
CLOSE, FLAT = 1e-3, 1e-6


@dataclass(frozen=True, eq=False, repr=False)
class Tuned:
    """What `tune` found.

    Attributes
    ----------
    model : KernelRidgeCV or KernelRidgeClassifierCV
        Fitted to all rows with the best parameters.
    score : float
        Its held-out score, the best of all trials.
    params : dict
        The best parameters, "alpha" among them.
    trials : dict of ndarrays
        One entry for each trial: the parameters, "score" (NaN where a model broke down) and
        "start"; ready for ``pandas.DataFrame``.
    """

    model: Any
    score: float
    params: dict[str, float]
    trials: dict[str, AnyArray]

    def __repr__(self) -> str:
        found = ", ".join(f"{name}={value:.4g}" for name, value in self.params.items())
        count = self.trials["score"].size
        return (
            f"<tuned: {found}; held-out score {self.score:.4g}, the best of {count} trials. It was "
            "chosen, so it promises a little too much: nested(cv) of a model with few parameters, "
            "or tune inside an outer cross-validation, says how much>"
        )


def tune(
    model: OneKernel,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    *,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    n_starts: int = 2,
    max_trials: int = 300,
    random_state: Any = None,
    verbose: int = 0,
) -> Tuned:
    """Return the model whose penalty and kernel parameters have the best held-out score.

    Parameters
    ----------
    model : KernelRidgeCV or KernelRidgeClassifierCV
        With one kernel. Its `scoring`, `cv`, `basis`, … hold for every trial; it is not changed.
        The search starts at the numbers of its kernel; a `gamma` that is not given starts at the
        median distance of the rows.
    X, y, sample_weight, groups
        As in `fit`.
    bounds : dict, optional
        ``{"alpha": (low, high), "gamma": (low, high)}``. Parameters of sums and products have the
        names of `Kernel.parameters`, such as "k1__gamma". Equal bounds fix a parameter.
    n_starts : int
        From how many places to search; the first is the model's, the others are drawn.
    max_trials : int
        At most this many fits from each place.
    random_state : int, RandomState or None
        Seed of the places to start from, and of a model and its `cv` that have none.
    verbose : int
        1 shows the progress, and so does that of the model.

    Returns
    -------
    Tuned
        ``.model`` (fitted), ``.score``, ``.params``, ``.trials``.

    Notes
    -----
    Nelder and Mead's simplex moves the logarithms of the penalty and of all positive numbers of the
    kernel: widths, factors, constants. A factor of the whole kernel is left out, since the penalty
    does the same. Widths of single features stay as they are. Kernels without numbers (functions,
    precomputed) have their penalty tuned.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import KernelRidgeCV, tune
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(80, 2))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=80)
    >>> result = tune(KernelRidgeCV(cv=5, scoring="r2"), X, y)
    >>> sorted(result.params), bool(result.score > 0.9)
    (['alpha', 'gamma'], True)
    """
    n_starts, max_trials = (
        whole_number("n_starts", n_starts),
        whole_number("max_trials", max_trials),
    )
    rng = np.random.default_rng(seed_of(random_state))
    with showing(verbose or getattr(model, "verbose", 0)):
        search = _Search(_fixed(model, random_state), (X, y, sample_weight, groups), bounds or {})
        for number in range(n_starts):
            report(number, n_starts, "starts")
            search.descend(search.start(rng if number else None), number, max_trials)
        return search.result()


def _fixed(model: Any, random_state: Any) -> Any:
    """Return the model with one kernel, and with seeds, so that all trials can be compared."""
    if not isinstance(model, OneKernel):
        raise InvalidInputError(
            "model must be a KernelRidgeCV or KernelRidgeClassifierCV, not fitted or fitted; got "
            f"{type(model).__name__}.",
            argument="model",
        )
    given = model.get_params(deep=False)
    lists = [name for name in ("kernel", "gamma", "degree", "coef0") if _is_list(given[name])]
    if lists or given["alpha_per_target"]:
        what = f"a list of values of {lists[0]}" if lists else "alpha_per_target=True"
        raise NotSupportedError(
            f"tune changes one penalty and one kernel; got {what}. Give one value, or fit the "
            "model itself, which compares all of them.",
            argument=lists[0] if lists else "alpha_per_target",
        )
    own = given["random_state"]
    given["random_state"] = seed_of(random_state if own is None else own)
    if isinstance(given["gamma"], str):
        given["gamma"] = None
    if hasattr(given["cv"], "random_state") and not isinstance(given["cv"].random_state, int):
        given["cv"] = copy(given["cv"])
        own = model.cv.random_state
        given["cv"].random_state = seed_of(random_state if own is None else own) % 2**32
    elif hasattr(given["cv"], "__next__"):
        given["cv"] = list(given["cv"])
    return type(model)(**given)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) or np.ndim(value) > 0


class _Search:
    """All trials of one search."""

    def __init__(self, model: Any, data: tuple[Any, ...], bounds: Mapping[str, Any]) -> None:
        self.model, self.data = model, data
        self.tried: list[tuple[FloatArray, float, int]] = []
        self.error: Exception | None = None
        with warnings.catch_warnings(), listening(None):
            warnings.simplefilter("ignore", HoldfastWarning)
            self.first = type(model)(**{**model.get_params(deep=False), "verbose": 0}).fit(*data)
        self.kernel = self.first.kernel_
        own = self.kernel.parameters if isinstance(self.kernel, Kernel) else {}
        numbers = {name: float(v) for name, v in own.items() if np.ndim(v) == 0 and v > 0}
        _check(bounds, {"alpha", *numbers})
        free = [name for name in _free(self.kernel) if name in numbers]
        self.names = ["alpha", *free, *(n for n in bounds if n not in ("alpha", *free))]
        if "gamma" in self.names and isinstance(model.kernel, str) and model.gamma is None:
            training = self.first._training
            width = typical_width(type(self.kernel), training.X, training.weights)
            numbers["gamma"] = numbers["gamma"] if width is None else width / 4.0
        alphas = self.first.alphas_
        limits = {"alpha": (alphas.min() / BEYOND, alphas.max() * BEYOND)}
        limits |= {n: (numbers[n] / FAR, numbers[n] * FAR) for n in self.names[1:]}
        self.limits = np.log([{**limits, **bounds}[name] for name in self.names])
        self.middle = np.log([float(self.first.alpha_), *(numbers[n] for n in self.names[1:])])

    def start(self, rng: np.random.Generator | None) -> FloatArray:
        """Return a place to start from: the model's, or one drawn near it."""
        point = self.middle.copy()
        if rng is not None:
            point += rng.uniform(-np.log(NEAR), np.log(NEAR), size=point.size)
        return np.clip(point, *self.limits.T)

    def descend(self, point: FloatArray, number: int, most: int) -> None:
        """Walk down from a place by the simplex, in at most so many trials."""
        free, before = np.flatnonzero(self.limits[:, 0] < self.limits[:, 1]), len(self.tried)

        def loss(part: FloatArray) -> float:
            at = point.copy()
            at[free] = part
            score = self.score(at)
            self.tried.append((at, score, number))
            report(len(self.tried) - before, most, "trials")
            return -score if np.isfinite(score) else np.inf

        if not free.size:
            loss(point[free])
            return
        # The first corners lie a factor of e apart, inwards where a bound is near.
        side = np.where(point[free] + 1.0 <= self.limits[free, 1], 1.0, -1.0)
        corners = point[free] + np.vstack([np.zeros(free.size), np.diag(side)])
        flat = FLAT * abs(float(np.mean(self.first.best_score_)))
        with np.errstate(invalid="ignore"):  # inf − inf, where models broke down
            minimize(
                loss,
                point[free],
                method="Nelder-Mead",
                bounds=self.limits[free],
                options={
                    "initial_simplex": np.clip(corners, *self.limits[free].T),
                    "maxfev": most,
                    "xatol": CLOSE,
                    "fatol": flat,
                },
            )

    def made(self, point: FloatArray) -> Any:
        """Return the model with the parameters of a point."""
        values = dict(zip(self.names, np.exp(point).tolist(), strict=True))
        changes: dict[str, Any] = {"alphas": [values.pop("alpha")]}
        if isinstance(self.model.kernel, str):
            changes |= values
        elif values:
            changes["kernel"] = self.kernel.with_params(**values)
        return type(self.model)(**{**self.model.get_params(deep=False), **changes})

    def score(self, point: FloatArray) -> float:
        """Return the held-out score at a point, NaN where there is no model."""
        with warnings.catch_warnings(), listening(None):
            warnings.simplefilter("ignore", HoldfastWarning)
            try:
                return float(
                    np.mean(self.made(point).set_params(verbose=0).fit(*self.data).best_score_)
                )
            except (HoldOutError, KernelError, SingularBasisError) as error:
                self.error = error
                return np.nan

    def result(self) -> Tuned:
        """Return the best trial, fitted, and all of them."""
        points, scores = np.array([p for p, _, _ in self.tried]), [s for _, s, _ in self.tried]
        if not np.isfinite(scores).any():
            raise self.error or InvalidInputError(
                "the held-out score is undefined for all parameters that were tried; choose "
                "another scoring.",
                argument="scoring",
            )
        best = int(np.nanargmax(scores))
        self._warn_at_bounds(points[best])
        values = np.exp(points)
        trials: dict[str, AnyArray] = {n: values[:, i] for i, n in enumerate(self.names)}
        trials |= {"score": np.array(scores), "start": np.array([n for _, _, n in self.tried])}
        params = dict(zip(self.names, values[best].tolist(), strict=True))
        return Tuned(self.made(points[best]).fit(*self.data), scores[best], params, trials)

    def _warn_at_bounds(self, point: FloatArray) -> None:
        for name, value, (low, high) in zip(self.names, point, self.limits, strict=True):
            if low < high and not low + CLOSE < value < high - CLOSE:
                warn(
                    f"the best {name}, {np.exp(value):.3g}, lies at a bound of the search; better "
                    f'values may lie beyond. Pass wider bounds={{"{name}": (low, high)}}.',
                    GridEdgeWarning,
                )


def _free(kernel: Any) -> list[str]:
    """Return the names of the positive numbers of a kernel, but for a factor of the whole."""
    if not isinstance(kernel, Kernel):
        return []
    names = list(kernel.positive_parameters)
    whole = {"factor"} if isinstance(kernel, Scaled) else set()
    if isinstance(kernel, Sum) and all(isinstance(part, Scaled) for part in kernel.kernels):
        whole = {"k1__factor"}
    return [name for name in names if name not in whole]


def _check(bounds: Mapping[str, Any], known: set[str]) -> None:
    for name, ends in bounds.items():
        if name not in known:
            raise InvalidInputError(
                f"bounds name {name!r}, which is not a positive number of the model; these are: "
                f"{', '.join(sorted(known))}.",
                argument="bounds",
            )
        if np.shape(ends) != (2,) or not 0 < ends[0] <= ends[1] < np.inf:
            raise InvalidInputError(
                f"bounds of {name!r} must be two positive numbers, low and high; got {ends!r}.",
                argument="bounds",
            )
