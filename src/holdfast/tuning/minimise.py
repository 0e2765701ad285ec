"""The search for alpha and gamma that minimise the exact held-out criterion."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from holdfast._typing import FloatArray
from holdfast.data.numbers import check_choice, whole_number
from holdfast.exceptions import (
    GridEdgeWarning,
    HoldfastError,
    HoldOutError,
    KernelError,
    NotSupportedError,
)
from holdfast.progress import Progress, listening, report
from holdfast.tuning.criterion import Criterion, Evaluation, as_estimator
from holdfast.tuning.flatness import Relevance, standard_error
from holdfast.tuning.flatness import flatness as measure_flatness
from holdfast.tuning.flatness import relevance as measure_relevance
from holdfast.tuning.result import Trials, TuneResult
from holdfast.tuning.space import Bounds, look_around, search_bounds, start_points

__all__ = ["Run", "tune"]

#: The search ends when what it descends on (`Loss.descend`) changes by less than this from step to
#: step, or no derivative of it is larger than that.
STOP = {"ftol": 1e-8, "gtol": 1e-5}
#: Evaluations along the common scale of all gammas, before they part.
TOGETHER = 20


class Trial(NamedTuple):
    """One evaluation, as a callback sees it."""

    number: int
    alpha: float
    gamma: FloatArray
    criterion: float


class _Enough(Exception):
    """The evaluations are used up, or a callback asked to stop."""


def tune(
    model: Any,
    X: Any,
    y: Any,
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    method: str = "lbfgs",
    ard: bool = False,
    bounds: Bounds | None = None,
    start: Any = None,
    n_starts: int = 2,
    max_evaluations: int = 500,
    flatness: bool = True,
    progress: Progress | None = None,
    callback: Callable[[Trial], object] | None = None,
) -> TuneResult:
    """Return the alpha and gamma of the best exact held-out score.

    Parameters
    ----------
    model : KernelRidgeCV, KernelRidgeClassifierCV, or dict of parameters
        Kernel family, basis rows, hold-out, policy, intercept and jitter; its alphas and gamma are
        replaced by the search. The kernel may be a sum, a product or a multiple of others: all
        their widths, factors and constants are searched for. Its `scoring` says what is minimised:
        None, the mean squared error; "log_density", minus the mean log density per row. It
        is not changed. Basis rows are chosen once.
    X, y, sample_weight, groups
        As in ``fit``.
    method : {"lbfgs", "nelder-mead"}
        Quasi-Newton with the exact gradient (RBF and Matern kernels, and what sums, products and
        multiples make of them), or the simplex search of
        Cawley and Talbot (2004) §3 on (log gamma, log alpha), which needs no gradient.
    ard : bool
        One gamma per feature ("lbfgs" only).
    bounds : dict, optional
        ``{"alpha": (low, high), "gamma": (low, high)}``, with one pair per feature if wanted.
        Default: alpha from 1e-7 to 1e4, gamma from 1e-6 to 1e4 over the typical squared distance.
        Parameters of parts have their names in `Kernel.parameters`, such as "k1__gamma"; "gamma"
        holds for all gammas, "factor" for all factors (default: 1e-5 to 1e5 times the given one).
    start : (alpha, gamma) or list of such pairs, optional
        Where to start; instead of gamma, a dict may give parameters by name. Default: the best of
        nine points around the median distance.
    n_starts : int
        How many of these nine points to start from.
    max_evaluations : int
        Evaluations of the criterion in all, besides those for `flatness`.
    flatness : bool
        Whether to measure at the end how flat the optimum is and which features matter; with d
        gammas that takes about 2 d gradients and 10 d values.
    progress : callable(done, total, text), optional
        A listener as in `holdfast.progress`.
    callback : callable(Trial), optional
        Called after each evaluation; a true result ends the search.

    Returns
    -------
    TuneResult
        Ctrl-C ends the search too, and returns the best found by then.

    Notes
    -----
    L-BFGS-B minimises the logarithm of the criterion, or minus the log density itself, so that the
    scale of y does not matter. With `ard` all gammas first move together, then each by itself. If
    `flatness` then shows that the criterion falls by more than 1 % without a feature, the search
    goes on from there. Trials at which the model breaks down (exact interpolation, a singular
    basis) count as bad, and the search steps back.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import KernelRidgeCV
    >>> from holdfast.tuning import tune
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(80, 2))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=80)
    >>> result = tune(KernelRidgeCV(cv=5), X, y, ard=True)
    >>> result.irrelevant.tolist()
    [False, True]
    """
    _check(method, ard, n_starts, max_evaluations)
    template = as_estimator(model)
    criterion = Criterion.of(template, X, y, sample_weight=sample_weight, groups=groups, ard=ard)
    if not (template.cv is None or isinstance(template.cv, int) or hasattr(template.cv, "split")):
        template.cv = criterion.problem.experiments  # an iterator is used up by now
    if method == "lbfgs" and not criterion.differentiable:
        raise NotSupportedError(
            'method="lbfgs" needs a kernel whose gradient is known: RBF, Matern, and sums, '
            f"products and multiples of them; got {criterion.coordinates.kernel!r}. Use "
            'method="nelder-mead", or a grid of gammas with KernelRidgeCV.',
            argument="method",
        )
    limits = search_bounds(criterion, bounds)
    given = None if start is None else start_points(criterion, start, limits)
    run = Run(criterion, limits, max_evaluations, callback)
    descend = run.descend if method == "lbfgs" else run.simplex
    measured: dict[str, Any] = {"flatness": None, "relevance": None}
    with nullcontext() if progress is None else listening(progress):
        try:
            if given is None:
                run.search(descend, look_around(criterion, limits), n_starts)
            else:
                run.search(descend, given)
            if flatness and run.best is not None:
                report(0, 0, "flatness of the optimum")
                measured["relevance"] = run.relevance()
                measured["flatness"] = measure_flatness(criterion, *run.best, limits)
        except KeyboardInterrupt:
            if run.best is None:
                raise
            run.success, run.message = False, "interrupted; this is the best until then"
    run.warn_at_bounds()
    return run.result(template=template, **measured)


def _check(method: str, ard: bool, n_starts: int, max_evaluations: int) -> None:
    check_choice("method", method, ("lbfgs", "nelder-mead"))
    if method == "nelder-mead" and ard:
        raise NotSupportedError(
            "Nelder–Mead is for two parameters and loses its way among one gamma per feature. Use "
            'method="lbfgs" with ard=True, or ard=False.',
            argument="method",
        )
    whole_number("n_starts", n_starts)
    whole_number("max_evaluations", max_evaluations)


class Run:
    """One search: keeps every trial, and the best."""

    def __init__(
        self,
        criterion: Criterion,
        limits: FloatArray,
        max_evaluations: int,
        callback: Callable[[Trial], object] | None = None,
    ) -> None:
        self.criterion, self.limits = criterion, limits
        self.max_evaluations, self.callback = max_evaluations, callback
        #: Of each trial its point, value, length of the gradient and start.
        self.tried: list[tuple[FloatArray, float, float, int]] = []
        self.start = -1
        self.best: tuple[FloatArray, Evaluation] | None = None
        self.success, self.message = False, "nothing was tried"
        self.error: HoldfastError | None = None

    def search(
        self,
        descend: Callable[[FloatArray], Any],
        points: list[FloatArray],
        n_starts: int | None = None,
    ) -> None:
        """Descend from the points, or from the best `n_starts` of them after a look at all."""
        try:
            if n_starts is not None:
                values = [self.evaluate(point, gradient=False)[0] for point in points]
                points = [points[i] for i in np.argsort(values, kind="stable")[:n_starts]]
            for point in points:
                self.start += 1
                before = None if self.best is None else self.best[1].value
                done = descend(point)
                if before is None or (self.best is not None and self.best[1].value < before):
                    self.success, self.message = bool(done.success), str(done.message)
                    if self.message.startswith("ABNORMAL"):
                        self.message = "no step lowers the criterion any more: rounding decides"
        except _Enough:
            self.success = False
            self.message = f"stopped after {len(self.tried)} evaluations, before convergence"
            if len(self.tried) < self.max_evaluations:
                self.message = "stopped by the callback"
        if self.best is None and self.error is not None:
            raise self.error

    def descend(self, point: FloatArray) -> Any:
        """Follow the gradient from a point, all gammas together and then each by itself."""
        if self.criterion.ard and point.size > 2:
            point = self._together(point)
        return self._lbfgs(self.evaluate, point, self.limits)

    def _together(self, point: FloatArray) -> FloatArray:
        """Return where the search ends when all gammas share one factor."""
        widths = self.criterion.coordinates.widths
        room = self.limits[1:][widths] - point[1:][widths, None]
        low, high = room[:, 0].max(), room[:, 1].min()

        def along(x: FloatArray) -> tuple[float, FloatArray]:
            value, slope = self.evaluate(np.append(x[0], point[1:] + x[1] * widths))
            return value, np.array([slope[0], slope[1:][widths].sum()])

        if not low < high:
            return point
        limits = np.array([self.limits[0], [low, high]])
        x = self._lbfgs(along, np.array([point[0], 0.0]), limits, TOGETHER).x
        return np.append(x[0], point[1:] + x[1] * widths)

    def _lbfgs(
        self,
        function: Callable[[FloatArray], tuple[float, FloatArray]],
        point: FloatArray,
        limits: FloatArray,
        at_most: int | None = None,
    ) -> Any:
        most = at_most or self.max_evaluations
        how = {"bounds": limits, "options": {**STOP, "maxiter": most, "maxfun": most}}
        return minimize(function, point, jac=True, method="L-BFGS-B", **how)

    def simplex(self, point: FloatArray) -> Any:
        """Walk down from a point by Nelder and Mead's simplex."""
        corners = np.vstack([point, point + np.diag(np.append(2.0, np.ones(point.size - 1)))])
        corners = np.clip(corners, self.limits[:, 0], self.limits[:, 1])
        return minimize(
            lambda x: self.evaluate(x, gradient=False)[0],
            point,
            method="Nelder-Mead",
            bounds=self.limits,
            options={"initial_simplex": corners, "xatol": 1e-3, "fatol": 1e-6},
        )

    def relevance(self) -> Relevance | None:
        """Return what each feature is worth, or None when all share one gamma.

        Where the criterion falls without a feature, the search had ended in a local minimum, and
        continues from there.
        """
        for _ in range(self.limits.shape[0]):
            assert self.best is not None
            point, best = self.best
            found = measure_relevance(self.criterion, point, best, self.limits)
            least = self.criterion.loss.percent(best.value)
            if found is None or found.rise.min() > -least:
                break
            worst = 1 + int(found.rise.argmin())
            point = point.copy()
            point[worst] = self.limits[worst, 0]
            self.search(lambda at: self._lbfgs(self.evaluate, at, self.limits), [point])
        if found is None:
            return None
        scale = self.criterion.scale
        return replace(found, rise=scale * found.rise, standard_error=scale * found.standard_error)

    def evaluate(self, point: FloatArray, gradient: bool = True) -> tuple[float, FloatArray]:
        """Return what is descended on and its gradient, and record them."""
        if len(self.tried) >= self.max_evaluations:
            raise _Enough
        point, loss = np.array(point, dtype=np.float64), self.criterion.loss
        try:
            found = self.criterion.evaluate(point, gradient)
        except (HoldOutError, KernelError) as error:
            self.error = error
            self._note(point, float("nan"), float("nan"))
            # Higher than anything seen so far, and flat: a line search steps back from there.
            worst = max((tried[1] for tried in self.tried if np.isfinite(tried[1])), default=1.0)
            return loss.descend(worst)[0] + 1.0, np.zeros(point.size)
        value, factor = loss.descend(found.value)
        slope = np.zeros(point.size) if found.gradient is None else factor * found.gradient
        if self.best is None or found.value < self.best[1].value:
            self.best = point, found
        self._note(point, found.value, float(np.linalg.norm(slope)) if gradient else float("nan"))
        return value, slope

    def _note(self, point: FloatArray, value: float, slope: float) -> None:
        self.tried.append((point, value, slope, self.start))
        report(len(self.tried), self.max_evaluations, "tuning")
        told = float(self.criterion.told(value))
        seen = Trial(len(self.tried), float(np.exp(point[0])), np.exp(point[1:]), told)
        if self.callback is not None and self.callback(seen):
            raise _Enough

    def warn_at_bounds(self) -> None:
        """Warn if the optimum may lie beyond the bounds; with ARD, gammas may well end there."""
        assert self.best is not None
        names = ("alpha",) if self.criterion.ard else ("alpha", *self.criterion.coordinates.names)
        for name, value, (low, high) in zip(names, self.best[0], self.limits, strict=False):
            if not low + 1e-6 < value < high - 1e-6:
                warnings.warn(
                    f"the best {name}, {np.exp(value):.3g}, lies at a bound of the search: the "
                    f'optimum may lie beyond. Pass wider bounds={{"{name}": (low, high)}}.',
                    GridEdgeWarning,
                    stacklevel=3,
                )

    def result(self, **measured: Any) -> TuneResult:
        """Return the outcome."""
        assert self.best is not None
        (point, best), scale = self.best, self.criterion.scale
        points, values, slopes, starts = map(np.array, zip(*self.tried, strict=True))
        return TuneResult(
            kernel=self.criterion.coordinates.kernel_at(point),
            alpha=float(np.exp(point[0])),
            criterion=float(self.criterion.told(best.value)),
            criterion_name=self.criterion.loss.words,
            standard_error=scale * standard_error(best.losses, self.criterion.share),
            trials=Trials(
                np.exp(points[:, 0]),
                np.exp(points[:, 1:]),
                self.criterion.told(values),
                slopes,
                starts,
                tuple(self.criterion.coordinates.labels),
            ),
            n_evaluations=len(self.tried),
            success=self.success,
            message=self.message,
            basis_indices=self.criterion.basis,
            **measured,
        )
