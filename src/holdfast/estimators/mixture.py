"""Several kernels: k = Σ w_b k_b over bands of columns or kinds of kernels, with the weights found.

Weights are drawn from the simplex, its corners and its centre among them. Each draw is one kernel:
one factorisation serves all experiments, penalties and targets.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.answers.fitted import Fitted
from holdfast.answers.model import make_model
from holdfast.answers.problem import Problem
from holdfast.data.dask import local
from holdfast.data.numbers import whole_number
from holdfast.data.seeds import seed_of
from holdfast.estimators.bands import (
    Bands,
    checked_weights,
    chosen_for_targets,
    drawn_weights,
    same_problem,
    total_eigenvalues,
)
from holdfast.estimators.base import CrossValidatedKernelRidge
from holdfast.estimators.inputs import unchanged_on_error
from holdfast.estimators.regression import KernelRidgeCV
from holdfast.exceptions import GridEdgeWarning, InvalidInputError, NotSupportedError
from holdfast.holdout.plan import Plan
from holdfast.kernels import Kernel, Precomputed
from holdfast.kernels.grid import Candidate, kernel_grid
from holdfast.linalg import pieces_alone
from holdfast.scores.choice import warn_at_edge
from holdfast.scores.penalties import Penalties, default_penalties
from holdfast.smoother.base import Fit

__all__ = ["KernelMixtureCV"]


class _NoSingleModelError(NotSupportedError, AttributeError):
    """Each target has weights of its own; properties such as ``coef_`` do not exist then."""


@dataclass(eq=False, repr=False)
class KernelMixtureCV(KernelRidgeCV):
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
    >>> model.permutation_test(19, random_state=0)  # weights and penalty chosen each time
    <permutation test: p = 0.05 from 19 permutations>
    """

    kernels: Any
    _: KW_ONLY
    n_draws: int = 100
    concentration: float | Sequence[float] = (0.1, 1.0)
    draws: ArrayLike | None = None
    normalise: bool = True
    weights_per_target: bool = False
    # The kernel of the parent has no parameters here: it is made of `kernels`.
    kernel: Any = field(default=None, init=False)
    gamma: Any = field(default=None, init=False)
    degree: Any = field(default=3, init=False)
    coef0: Any = field(default=1.0, init=False)
    kernel_params: dict[str, Any] | None = field(default=None, init=False)
    standardize: bool = field(default=False, init=False)

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

    def _candidates(self, X: Any = None, weights: FloatArray | None = None) -> list[Candidate]:
        """Return the sums to compare on these rows; without rows, sums of their kind."""
        n_features = 1 if X is None else X.shape[1] if X.ndim == 2 else None
        named = self._named_kernels(n_features)
        if X is None or weights is None:
            one = Bands.of(named)
            return [one.candidate(np.full(len(named), 1.0 / len(named)))]
        bands = Bands.of(named, X, weights, centred=self.fit_intercept, scaled=self.normalise)
        return [bands.candidate(draw) for draw in self._drawn(len(named))]

    def _drawn(self, count: int) -> FloatArray:
        """Return the weights to compare, shape (n, kernels)."""
        if self.draws is not None:
            return checked_weights(self.draws, count)
        n_draws = whole_number("n_draws", self.n_draws)
        return drawn_weights(count, n_draws, self.concentration, seed_of(self.random_state))

    def _penalties(self, problem: Problem, candidates: list[Candidate]) -> list[Penalties]:
        """Return the penalties to compare with each sum: their sizes add up, band by band."""
        if problem.alphas.size:
            return [Penalties(problem.alphas)] * len(candidates)
        totals = total_eigenvalues(problem, [candidate.kernel for candidate in candidates])
        return default_penalties(totals, np.full(totals.size, np.inf))

    # -- fit ---------------------------------------------------------------------------------------

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
            problem, candidates = self._prepare(X, y, sample_weight, groups)
            with pieces_alone(problem.weights.size):
                self._fit_targets(problem, candidates)
        return self

    def _fit_targets(self, problem: Problem, candidates: list[Candidate]) -> None:
        """Choose weights for each target, and fit one model for each set of weights chosen."""
        alphas = self._penalties(problem, candidates)[0].alphas
        found = chosen_for_targets(problem, candidates, alphas, self._goal())
        warn_at_edge(found.alpha if self.alpha_per_target else found.alpha[:1], alphas)
        options = {"scoring": self.scoring, "pooled": self.pooled, "alpha_per_target": True}
        self.models_: list[tuple[IntArray, KernelRidgeCV]] = []
        v = problem.Y.shape[1]
        self.alpha_, self.best_score_ = np.empty(v), np.empty(v)
        for number in np.unique(found.draw).tolist():
            columns = np.flatnonzero(found.draw == number)
            grid = np.unique(alphas[found.alpha[columns]])
            part = KernelRidgeCV(
                candidates[number].kernel, alphas=grid, **options, **same_problem(problem)
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", GridEdgeWarning)  # it was looked for above
                part.fit(problem.X, problem.Y[:, columns], problem.weights, problem.groups)
            self.models_.append((columns, part))
            self.alpha_[columns], self.best_score_[columns] = part.alpha_, part.best_score_
        # Of all targets together nothing is asked but what they are and what was chosen.
        first = candidates[int(found.draw[0])].kernel
        self._fitted = Fitted(
            make_model(replace(problem, alphas=alphas), first, None, None),
            self._goal(),
            self.alpha_,
            self.best_score_,
            params={"weights": [candidates[i].params["weights"] for i in found.draw]},
            parameters=self.get_params(deep=False),
            fit=Fit(np.empty((0, v)), None, np.empty((0, v))),  # each of `models_` has its own
        )
        self.n_splits_ = len(problem.experiments)

    # -- results -----------------------------------------------------------------------------------

    @property
    def kernel_weights_(self) -> FloatArray:
        """The chosen weights, which add up to one: (kernels,), or (v, kernels) for each target."""
        check_is_fitted(self)
        assert self._fitted is not None
        return np.array(self._fitted.params["weights"])

    @property
    def kernel_names_(self) -> AnyArray:
        """The names of the kernels: the keys of a dict, or k1, k2, …."""
        check_is_fitted(self)
        return np.array(list(self._named_kernels(self._n_features)), dtype=object)

    @property
    def _n_features(self) -> int | None:
        X = self._problem.X
        return int(X.shape[1]) if X.ndim == 2 else None

    def _asked(self) -> Fitted:
        if hasattr(self, "models_"):
            raise _NoSingleModelError(
                "weights_per_target=True has one model for each set of weights, but this method "
                "asks a single model. Ask one of models_, each with the targets that it is for: "
                "columns, model = estimator.models_[0]. Or fit with weights_per_target=False.",
                argument="weights_per_target",
            )
        return super()._asked()

    def explain(self) -> Plan:
        """Return the plan of `fit`: the path taken; cost and memory of each, and why."""
        self._asked()
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
        return found[..., 0] if self._problem.flat else found

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
        return found[..., 0] if self._problem.flat else found
