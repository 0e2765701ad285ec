"""Several kernels: k = Σ w_b k_b over bands of columns or kinds of kernels, with the weights found.

Weights are drawn from the simplex, its corners and its centre among them. Each draw is one kernel:
one factorisation serves all experiments, penalties and targets.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.answers.fitted import Fitted, SearchResult
from holdfast.answers.model import Models, make_model, rows_with_kernel
from holdfast.answers.training import Objective, TrainingData
from holdfast.core.lapack import shared_threads
from holdfast.core.plan import Plan
from holdfast.core.smoother import Fit
from holdfast.data.dask import local
from holdfast.data.values import require_numbers, seed_of, whole_number
from holdfast.estimators.base import CrossValidatedKernelRidge
from holdfast.estimators.inputs import unchanged_on_error
from holdfast.estimators.regression import KernelRidgeCV, Regression
from holdfast.estimators.search import Trial, at_once, scored, search, side_by_side
from holdfast.exceptions import GridEdgeWarning, InvalidInputError, NotSupportedError
from holdfast.kernels import Kernel, Precomputed, Scaled, Sum
from holdfast.kernels.grid import Candidate, kernel_grid
from holdfast.kernels.shared import distinct_parts, factors_and_parts
from holdfast.kernels.typical import total_eigenvalue
from holdfast.progress import report, shows_progress
from holdfast.scores.choice import Penalties, default_penalties, warn_at_edge
from holdfast.scores.scoring import Scores

__all__ = ["KernelMixtureCV"]

#: Weights below this share of all are none.
NOTHING = 1e-4


class _NoSingleModelError(NotSupportedError, AttributeError):
    """Each target has weights of its own; properties such as ``coef_`` do not exist then."""


@dataclass(eq=False, repr=False)
class KernelMixtureCV(Regression):
    """Kernel ridge regression on a weighted sum of kernels, with exact held-out predictions.

    Parameters
    ----------
    kernels : list or dict of kernels
        Kernel objects, names or functions, as `KernelRidgeCV` takes them; a dict names them. Bands
        of columns are ``OnColumns(RBF(0.1), range(10))``.
    n_draws : int, default=100
        How many weights to compare: the centre and the corners of the simplex, then random ones.
    concentration : float or list of float, default=(0.1, 1.0)
        Of the Dirichlet distribution that weights are drawn from, in turn: below 1 they lie near
        corners and edges; with 1 they are uniform.
    draws : array-like of shape (n, number of kernels), optional
        The weights to compare, instead of random ones.
    normalise : bool, default=True
        Divide each kernel by its mean variance on the rows, so that weights are shares of the
        whole kernel; else weights multiply the kernels as they are.
    weights_per_target : bool, default=False
        Choose weights for each target separately. `alpha_per_target` does the same for penalties.
    alphas, basis, cv, held_out_basis, fit_intercept, trend, scoring, pooled, alpha_per_target, \
rule, jitter, path, memory_limit, random_state, verbose
        As in `KernelRidgeCV`; `random_state` is also the seed of the draws.

    Attributes
    ----------
    kernel_weights_ : ndarray of shape (kernels,) or (v, kernels)
        The chosen weights, which add up to one; of each target with `weights_per_target`.
    kernel_names_ : ndarray of shape (kernels,)
    kernel_ : kernel object
        The chosen sum.
    models_ : list of (columns, KernelRidgeCV)
        With `weights_per_target`: the targets that share weights, and their model.
    alpha_, best_score_, cv_results_, …
        As in `KernelRidgeCV`. ``cv_results_["param_weights"]`` has every draw.

    Notes
    -----
    With `weights_per_target` there are as many models as weights that some target chose. `predict`,
    `predict_interval` and `predict_without` combine them; for other questions, ask one of
    `models_`. `nested` and `permutation_test` repeat the choice among the draws.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import KernelMixtureCV
    >>> from holdfast.kernels import RBF, OnColumns
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(120, 6))
    >>> y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=120)
    >>> bands = {"sound": OnColumns(RBF(0.2), range(3)), "light": OnColumns(RBF(0.2), range(3, 6))}
    >>> model = KernelMixtureCV(bands, n_draws=20, cv=5, random_state=0).fit(X, y)
    >>> bool(model.kernel_weights_[0] > 0.9)
    True

    The questions of `KernelRidgeCV`, asked of the mixture:

    >>> model.predict_without([0, 1], X[:2]).round(1)  # with the weights that were chosen
    array([-0. ,  1.9])
    >>> low, high = model.predict_interval(X[:1])[0]
    >>> bool(low < y[0] < high)
    True
    >>> bool(model.nested(cv=5).score() > -0.1)  # weights and penalty chosen without the rows
    True
    >>> model.permutation_test(19, random_state=0).p_value  # weights and penalty chosen each time
    0.05
    """

    kernels: Any
    _: KW_ONLY
    n_draws: int = 100
    concentration: float | Sequence[float] = (0.1, 1.0)
    draws: ArrayLike | None = None
    normalise: bool = True
    weights_per_target: bool = False

    _kernel_parameter: ClassVar[str] = "kernels"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CrossValidatedKernelRidge._parameter_constraints,
        "normalise": ["boolean"],
        "weights_per_target": ["boolean"],
    }

    # -- the kernels to compare --------------------------------------------------------------------

    def _named_kernels(self, n_features: int | None) -> dict[str, Kernel]:
        """Return the kernels by name."""
        given = self.kernels
        if isinstance(given, Mapping):
            named = {str(name): kernel for name, kernel in given.items()}
        elif isinstance(given, list | tuple):
            named = {f"k{i}": kernel for i, kernel in enumerate(given, 1)}
        else:
            raise InvalidInputError(
                f"kernels must be a list or dict of kernels; got {given!r}. For one kernel take "
                "KernelRidgeCV.",
                argument="kernels",
            )
        if not named:
            raise InvalidInputError(
                "kernels must hold at least one kernel; got none.", argument="kernels"
            )
        found = {}
        for name, kernel in named.items():
            more: dict[str, Any] = {"gamma": None, "degree": 3, "coef0": 1.0, "kernel_params": None}
            made = kernel_grid([kernel], **more, n_features=n_features)[0].kernel
            if isinstance(made, Precomputed):
                raise NotSupportedError(
                    'kernels must be functions of rows; got "precomputed". Pass rows and kernels, '
                    "or add the matrices and take KernelRidgeCV.",
                    argument="kernels",
                )
            found[name] = made
        return found

    def _candidates(self, X: Any, weights: FloatArray) -> list[Candidate]:
        kernels = list(self._named_kernels(X.shape[1] if X.ndim == 2 else None).values())
        units = np.ones(len(kernels))
        if self.normalise:
            centred, rows = self.fit_intercept, [rows_with_kernel(k, X, None) for k in kernels]
            traces = [total_eigenvalue(one, weights, centred=centred) for one in rows]
            units = np.array(traces) / float(weights.sum())
        return [_candidate(kernels, units, draw) for draw in self._weights(len(kernels))]

    def _weights(self, count: int) -> FloatArray:
        """Return the weights to compare, shape (n, kernels)."""
        if self.draws is not None:
            return _checked(self.draws, count)
        n_draws = whole_number("n_draws", self.n_draws)
        return _drawn(count, n_draws, self.concentration, seed_of(self.random_state))

    def _penalties(self, training: TrainingData, candidates: list[Candidate]) -> list[Penalties]:
        """Return the penalties to compare with each sum: their sizes add up, band by band."""
        if training.alphas.size:
            return [Penalties(training.alphas)] * len(candidates)
        totals = _traces(training, [candidate.kernel for candidate in candidates])
        return default_penalties(totals)

    # -- fit ---------------------------------------------------------------------------------------

    @shows_progress
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: ArrayLike | None = None
    ) -> Self:
        """Choose weights and penalty by exact cross-validation and fit on all rows.

        Parameters
        ----------
        X, y, sample_weight, groups
            As in `KernelRidgeCV.fit`.

        Returns
        -------
        self
        """
        with unchanged_on_error(self):
            for name in set(vars(self)) - set(self.get_params(deep=False)):
                delattr(self, name)  # a fit of the other kind leaves other attributes
            if not self.weights_per_target:
                return super().fit(X, y, sample_weight, groups)
            if self.rule != "best":
                raise NotSupportedError(
                    f'weights_per_target=True takes the best weights of each target; got rule="'
                    f'{self.rule}". Fit with rule="best", or with weights_per_target=False.',
                    argument="rule",
                    remedies=("weights_per_target",),
                )
            given = self._parameters()
            training, candidates = self._prepare(given, X, y, sample_weight, groups)
            with shared_threads(training.weights.size, np.inf):
                self._fit_targets(training, candidates, given)
        return self

    def _fit_targets(
        self, training: TrainingData, candidates: list[Candidate], given: dict[str, Any]
    ) -> None:
        """Choose weights for each target, and fit one model for each set of weights chosen."""
        alphas = self._penalties(training, candidates)[0].alphas
        shared = self._objective(given)
        objective = replace(shared, per_target=True)
        draw, index = self._chosen(training, objective, candidates, alphas)
        warn_at_edge(index if self.alpha_per_target else index[:1], alphas)
        v = training.Y.shape[1]
        self.models_: list[tuple[IntArray, KernelRidgeCV]] = []
        self.alpha_, self.best_score_ = alphas[index], np.empty(v)
        for number in np.unique(draw).tolist():
            columns = np.flatnonzero(draw == number)
            grid = np.unique(self.alpha_[columns])
            part, Y = self._part(candidates[number].kernel, grid), training.Y[:, columns]
            own = replace(training, Y=Y, labels=Y, flat=False)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", GridEdgeWarning)  # it was looked for above
                found = search(own, objective, [candidates[number]], [Penalties(grid)])
                part._publish(found, part._parameters())
            self.models_.append((columns, part))
            self.alpha_[columns], self.best_score_[columns] = part.alpha_, part.best_score_
        # Of all targets together nothing is asked but what they are and what was chosen.
        weights = {"weights": [candidates[i].params["weights"] for i in draw]}
        first = Candidate(candidates[int(draw[0])].kernel, weights)
        self._fitted = Fitted(
            make_model(replace(training, alphas=alphas), first),
            shared,
            SearchResult(self.alpha_, self.best_score_),
            parameters=given,
            fit=Fit(np.empty((0, v)), None, np.empty((0, v))),  # each of `models_` has its own
        )
        self.n_splits_ = len(training.experiments)

    def _part(self, kernel: Any, alphas: FloatArray) -> KernelRidgeCV:
        """Return the estimator of some targets, without a fit."""
        shared = set(KernelRidgeCV._get_param_names()) & set(self._get_param_names())
        own = {name: getattr(self, name) for name in shared}
        part = KernelRidgeCV(**{**own, "kernel": kernel, "alphas": alphas})
        part.alpha_per_target = True
        if hasattr(self, "n_features_in_"):
            part.n_features_in_ = self.n_features_in_
        return part

    def _chosen(
        self,
        training: TrainingData,
        objective: Objective,
        candidates: Sequence[Candidate],
        alphas: FloatArray,
    ) -> tuple[IntArray, IntArray]:
        """Return the best draw (v,) and the place of its penalty (v,), its own or one for all.

        One factorisation for each draw. Beside it only the best score so far of each penalty and
        target is kept, and which draw that was.
        """
        v = training.Y.shape[1]
        best, draw = np.full((alphas.size, v), -np.inf), np.zeros((alphas.size, v), dtype=np.int64)
        models, grid = Models(training, candidates), Penalties(alphas)
        models.warn()
        done, count = 0, 1
        while done < len(candidates):
            report(done, len(candidates), "kernels")
            some = candidates[done : done + count]
            trials = [Trial.of(models, one, grid) for one in some]

            def work(trial: Trial) -> Scores:
                return scored(trial, objective, alphas)[0]

            for k, found in enumerate(side_by_side(work, trials)):
                each = found.per_target if objective.pooled else found.per_target_mean
                if each is None:  # one target
                    each = (found.pooled if objective.pooled else found.mean)[:, None]
                better = each > best
                best[better], draw[better] = each[better], done + k
            done, count = done + len(some), at_once(trials[0], objective)
        if not np.isfinite(best.max(axis=0)).all():
            raise InvalidInputError(
                "the score of some target is undefined for every penalty and every weight; choose "
                "another scoring.",
                argument="scoring",
            )
        shared = np.full(v, int(best.mean(axis=1).argmax()))
        index = best.argmax(axis=0) if self.alpha_per_target else shared
        return draw[index, np.arange(v)], index

    # -- results -----------------------------------------------------------------------------------

    @property
    def kernel_weights_(self) -> FloatArray:
        """The chosen weights, which add up to one: (kernels,), or (v, kernels) for each target."""
        check_is_fitted(self)
        assert self._fitted is not None
        return np.array(self._fitted.model.params["weights"])

    @property
    def kernel_names_(self) -> AnyArray:
        """The names of the kernels: the keys of a dict, or k1, k2, …."""
        check_is_fitted(self)
        return np.array(list(self._named_kernels(self._training.n_features)), dtype=object)

    def _fitted_state(self) -> Fitted:
        if hasattr(self, "models_"):
            raise _NoSingleModelError(
                "weights_per_target=True has one model for each set of weights, but this method "
                "asks a single model. Ask one of models_, each with the targets that it is for: "
                "columns, model = estimator.models_[0]. Or fit with weights_per_target=False.",
                argument="weights_per_target",
            )
        return super()._fitted_state()

    def explain(self) -> Plan:
        """Return the plan of `fit`: the path taken; cost and memory of each, and why."""
        self._fitted_state()
        return super().explain()

    def _shown(self, fitted: Fitted) -> dict[str, Any]:
        return {} if hasattr(self, "models_") else super()._shown(fitted)

    def _of_targets(self, answer: Callable[[KernelRidgeCV], FloatArray]) -> FloatArray:
        """Return the answers of all models, with the targets, the last axis, put in order."""
        values = np.concatenate([local(answer(model)) for _, model in self.models_], axis=-1)
        columns = np.concatenate([columns for columns, _ in self.models_])
        return np.asarray(values[..., np.argsort(columns)])

    def _decision(self, X: Any) -> FloatArray:
        if not hasattr(self, "models_"):
            return super()._decision(X)
        rows = self._new_rows(X)
        return self._of_targets(lambda model: model._decision(rows))

    def _deviation(self, X: Any) -> FloatArray:
        if not hasattr(self, "models_"):
            return super()._deviation(X)
        rows = self._new_rows(X)
        return self._of_targets(lambda model: model._deviation(rows))

    def predict_interval(
        self, X: Any, level: float | Sequence[float] = 0.9, method: str = "plus"
    ) -> FloatArray:
        """Return lower and upper bounds for the target of each new row.

        Parameters
        ----------
        X, level, method
            As in `KernelRidgeCV.predict_interval`.
        """
        if not hasattr(self, "models_"):
            return super().predict_interval(X, level, method)
        rows = self._new_rows(X)
        found = self._of_targets(lambda model: model.predict_interval(rows, level, method))
        return found[..., 0] if self._training.flat else found

    def predict_without(
        self, rows: ArrayLike, X: Any = None, alpha: float | ArrayLike | None = None
    ) -> FloatArray:
        """Return predictions by the model that never saw `rows`.

        Parameters
        ----------
        rows, X, alpha
            As in `KernelRidgeCV.predict_without`; `alpha` is for one set of weights.
        """
        if alpha is not None or not hasattr(self, "models_"):
            return super().predict_without(rows, X, alpha)
        new = None if X is None else self._new_rows(X)
        found = self._of_targets(lambda model: model.predict_without(rows, new))
        return found[..., 0] if self._training.flat else found


# -- weights -------------------------------------------------------------------------------------


def _candidate(kernels: Sequence[Kernel], units: FloatArray, weights: FloatArray) -> Candidate:
    """Return the sum with these weights, each over its unit, without kernels of weight zero."""
    parts = tuple(
        kernel if weight == unit else Scaled(kernel, float(weight / unit))
        for kernel, weight, unit in zip(kernels, weights, units, strict=True)
        if weight > 0
    )
    kernel = parts[0] if len(parts) == 1 else Sum(parts)
    return Candidate(kernel, {"kernel": kernel, "weights": tuple(weights.tolist())})


def _checked(draws: ArrayLike, count: int) -> FloatArray:
    """Return a user's weights as (n, kernels), each row adding up to one."""
    values = np.atleast_2d(np.asarray(require_numbers("draws", draws), dtype=np.float64))
    if values.ndim != 2 or values.shape[1] != count or not len(values):
        raise InvalidInputError(
            f"draws must have one column for each of the {count} kernels; got shape "
            f"{np.shape(draws)}.",
            argument="draws",
        )
    if not np.isfinite(values).all() or values.min() < 0 or not (values.sum(axis=1) > 0).all():
        raise InvalidInputError(
            "draws must be finite and not negative, and some of each row positive.",
            argument="draws",
        )
    return np.asarray(values / values.sum(axis=1, keepdims=True))


def _drawn(count: int, n_draws: int, concentration: Any, seed: int) -> FloatArray:
    """Return the centre of the simplex, its corners, and random weights: (n_draws, kernels)."""
    levels = np.atleast_1d(np.asarray(require_numbers("concentration", concentration), dtype=float))
    if levels.ndim != 1 or not levels.size or not (np.isfinite(levels) & (levels > 0)).all():
        raise InvalidInputError(
            f"concentration must be positive numbers; got {concentration!r}.",
            argument="concentration",
        )
    if count == 1:
        return np.ones((1, 1))
    fixed = np.vstack([np.full((1, count), 1.0 / count), np.eye(count)])[:n_draws]
    rng = np.random.default_rng(seed)
    drawn = [
        rng.dirichlet(np.full(count, levels[i % levels.size])) for i in range(n_draws - len(fixed))
    ]
    weights = np.vstack([fixed, *drawn]) if drawn else fixed
    weights[weights < NOTHING] = 0.0
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _traces(training: TrainingData, kernels: Sequence[Kernel | Precomputed]) -> FloatArray:
    """Return the trace of each kernel, which are sums of the same few."""
    parts = distinct_parts(kernels)
    assert parts is not None  # kernels of a mixture are functions of rows
    own = [
        total_eigenvalue(
            rows_with_kernel(part, training.X, training.basis),
            training.weights,
            centred=training.bias,
        )
        for part in parts
    ]
    return np.array(
        [
            sum(factor * own[parts.index(part)] for factor, part in factors_and_parts(kernel))
            for kernel in kernels
            if isinstance(kernel, Kernel)
        ]
    )
