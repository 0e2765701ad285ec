"""Ranking by pairwise least squares within queries (RankRLS), with exact leave-query-out.

The loss of all pairs of a query, Σ_{i<j} ((y_i − y_j) − (f_i − f_j))², is n_q Σ_i (e_i − ē)² with
e = y − f. So rows, targets and kernel are centred within their query and multiplied by √n_q, and
what is left is kernel ridge regression without a bias: f̃ = PKPᵀc, ỹ = Py, f(x) = k(x, ·)Pᵀc. P is
block diagonal, one block for each query, so that leaving out a query is leaving out its rows.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.model_selection import GroupKFold
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.answers.certainty import ScoreInterval
from holdfast.answers.influence import Influence
from holdfast.answers.nested import NestedPredictions
from holdfast.answers.permutation import PermutationTest
from holdfast.data.frames import make_frame
from holdfast.data.labels import check_labels
from holdfast.data.memory import memory_bytes
from holdfast.estimators.base import KernelParameters
from holdfast.estimators.inputs import (
    check_rows,
    check_targets,
    refusals,
    takes_objects,
    unchanged_on_error,
)
from holdfast.estimators.regression import KernelRidgeCV
from holdfast.exceptions import HoldOutError, InvalidInputError, NotSupportedError
from holdfast.experiments import Experiments, as_experiments, leave_group_out
from holdfast.holdout.verify import Verification
from holdfast.kernels import Kernel
from holdfast.kernels.grid import kernel_grid
from holdfast.kernels.matrix import KernelRows
from holdfast.scores.ranking import RANKING
from holdfast.smoother.make import require_room
from holdfast.smoother.rows import row_blocks

__all__ = ["KernelRankerCV"]

#: Scores of the order within queries, and minus the squared error of differences.
SCORES = (*RANKING, "pairwise")


@dataclass(eq=False, repr=False)
class KernelRankerCV(KernelParameters, BaseEstimator):  # type: ignore[misc]  # sklearn is untyped
    """Rank the rows of each query by pairwise least squares, with exact leave-query-out.

    Parameters
    ----------
    kernel : str, kernel object or callable, default="rbf"
        One kernel, as `KernelRidgeCV` takes it. The model is dense: m × m numbers.
    gamma, degree, coef0, kernel_params
        As in `KernelRidgeCV`, one value each.
    alphas : array-like or None, default=None
        Penalties to compare, increasing; None: a grid that follows the data.
    cv : None, int, splitter or iterable, default=None
        None: each query is held out once. A number of folds of whole queries; or a splitter or
        iterable whose experiments hold out whole queries.
    scoring : {"concordance", "kendall_tau", "ndcg", "pairwise"}, default="concordance"
        The score of the order within each query, averaged over queries with two different targets;
        or minus the mean squared error of centred targets, weighted as the loss.
    memory_limit : float, str or None, default=None
        Bytes (or text such as "4GB") that matrices may take; None: half of the available memory.

    Attributes
    ----------
    alpha_ : float
        The chosen penalty.
    alphas_ : ndarray of shape (a,)
    best_score_ : float
        Its held-out score.
    scores_ : ndarray of shape (a,)
        Held-out scores of all penalties.
    dual_coef_ : ndarray of shape (m,)
        Coefficients of the rows; those of each query add up to zero.
    queries_ : ndarray
        The queries, sorted.
    kernel_ : kernel object

    Notes
    -----
    The model minimises Σ_q Σ_{i<j∈q} ((y_i − y_j) − (f_i − f_j))² + λ‖f‖² (Pahikkala et al.). It
    has no bias, because a bias does not change differences, and only differences of its values
    within a query have a meaning. `held_out` therefore returns values minus their mean over the
    query.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import KernelRankerCV
    >>> rng = np.random.default_rng(0)
    >>> query = np.repeat(np.arange(20), 6)
    >>> X = rng.normal(size=(120, 2))
    >>> y = np.sin(X[:, 0]) + 5.0 * rng.normal(size=20)[query]  # queries differ in their level
    >>> model = KernelRankerCV(gamma=0.5).fit(X, y, query)
    >>> bool(model.best_score_ > 0.9)
    True
    """

    _: KW_ONLY
    alphas: ArrayLike | None = None
    cv: Any = None
    scoring: str = "concordance"
    memory_limit: float | str | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel_params": [dict, None],
        "scoring": [StrOptions(set(SCORES))],
    }

    # -- fit ---------------------------------------------------------------------------------------

    def fit(self, X: Any, y: ArrayLike, queries: ArrayLike) -> Self:
        """Choose the penalty by exact cross-validation over queries and fit on all rows.

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (m, d), or m objects
        y : array-like of shape (m,)
            What the rows of a query are ordered by.
        queries : array-like of shape (m,)
            The query of each row: rows are compared within it.

        Returns
        -------
        self
        """
        with unchanged_on_error(self):
            with refusals():
                self._validate_params()
            kernel, rows = self._rows(X)
            m = int(rows.shape[0])
            Y, flat = check_targets(y, m, np.ones(m), bias=False)
            if not flat:
                raise InvalidInputError(
                    f"y must be one-dimensional, one number for each row; got shape {Y.shape}. Fit "
                    "one ranker for each target.",
                    argument="y",
                )
            labels = check_labels("queries", queries, m)
            names, code = np.unique(labels, return_inverse=True)
            _require_order(Y[:, 0], code)
            require_room(m, memory_bytes(self.memory_limit))
            self.kernel_, self.queries_ = kernel, names
            self._X, self._y, self._code = rows, Y[:, 0], code
            self._fit(as_whole_queries(self.cv, m, rows, Y[:, 0], code))
        return self

    def _rows(self, X: Any) -> tuple[Kernel, Any]:
        """Return the one kernel, and checked rows."""
        arguments = self._arguments()
        first = kernel_grid(**arguments, n_features=1)
        if len(first) > 1 or not isinstance(first[0].kernel, Kernel):
            raise NotSupportedError(
                "KernelRankerCV takes one kernel of rows; got a list, or a kernel matrix. Fit one "
                "ranker for each kernel and compare best_score_.",
                argument="kernel",
            )
        rows = check_rows(self, X, objects=takes_objects(first[0].kernel), reset=True)
        n_features = rows.shape[1] if rows.ndim == 2 else None
        made = kernel_grid(**arguments, n_features=n_features)[0].kernel
        assert isinstance(made, Kernel)
        return made, rows

    def _fit(self, experiments: Experiments) -> None:
        """Fit kernel ridge regression to centred rows, and choose the penalty."""
        data = KernelRows(self.kernel_, self._X)
        every = slice(0, len(data))
        K = self._centred(self._centred(data.block(every, every)).T)
        K = 0.5 * (K + K.T)
        y = self._centred(self._y[:, None])[:, 0]
        shared: dict[str, Any] = {
            "cv": experiments,
            "fit_intercept": False,
            "memory_limit": self.memory_limit,
        }
        named = None if self.scoring in ("pairwise", "ndcg") else self.scoring
        model = KernelRidgeCV("precomputed", alphas=self.alphas, scoring=named, **shared)
        model.fit(K, y, groups=self._code)
        self.alphas_, self.scores_ = model.alphas_, model.cv_results_["pooled_test_score"]
        self.alpha_, self.best_score_ = model.alpha_, model.best_score_
        if self.scoring == "ndcg":  # gains are the targets as they are, not centred
            values = model.held_out().matrix()[:, :, 0]
            self.scores_ = np.array([self._scored("ndcg", f) for f in values])
            best = self.alphas_.size - 1 - int(self.scores_[::-1].argmax())
            self.alpha_, self.best_score_ = float(self.alphas_[best]), float(self.scores_[best])
            model = KernelRidgeCV("precomputed", alphas=[self.alpha_], **shared)
            model.fit(K, y, groups=self._code)
        self._model = model
        self.dual_coef_ = self._lifted(model.dual_coef_)

    @property
    def _root(self) -> FloatArray:
        """√n_q of each row."""
        return np.asarray(np.sqrt(np.bincount(self._code)[self._code]))

    def _centred(self, values: FloatArray) -> FloatArray:
        """Return P values: less their mean over the query, times √n_q."""
        order = np.argsort(self._code, kind="stable")
        starts = np.searchsorted(self._code[order], np.arange(self.queries_.size))
        means = np.add.reduceat(values[order], starts, axis=0)
        means /= np.bincount(self._code)[:, None]
        return np.asarray((values - means[self._code]) * self._root[:, None])

    def _lifted(self, coefficients: FloatArray) -> FloatArray:
        """Return Pᵀ c; P is symmetric."""
        return self._centred(coefficients[:, None])[:, 0]

    def _scored(self, name: str, f: FloatArray) -> float:
        """Return a score of held-out values of all rows, centred or not."""
        return float(RANKING[name](self._y, f, self._code))

    # -- predictions -------------------------------------------------------------------------------

    def predict(self, X: Any) -> FloatArray:
        """Return values whose differences rank new rows, shape (k,).

        Parameters
        ----------
        X : rows
        """
        check_is_fitted(self)
        return self._expanded(X, self.dual_coef_)

    def _expanded(self, X: Any, coefficients: FloatArray) -> FloatArray:
        new = check_rows(self, X, objects=takes_objects(self.kernel_), reset=False)
        data, m = KernelRows(self.kernel_, self._X), self.dual_coef_.size
        values = np.empty(new.shape[0])
        for block in row_blocks(new.shape[0], m):
            values[block] = data.predict_block(new[block], np.arange(m)) @ coefficients
        return values

    def score(self, X: Any, y: ArrayLike, queries: ArrayLike) -> float:
        """Return the score of the order of new rows within their queries.

        Parameters
        ----------
        X, y, queries
            As in `fit`; ``scoring="pairwise"`` is scored by the concordance.
        """
        f = self.predict(X)
        Y, _ = check_targets(y, f.size, np.ones(f.size), bias=False)
        code = np.unique(check_labels("queries", queries, f.size), return_inverse=True)[1]
        _require_order(Y[:, 0], code)
        name = "concordance" if self.scoring == "pairwise" else self.scoring
        return float(RANKING[name](Y[:, 0], f, code))

    def predict_without(self, queries: ArrayLike, X: Any) -> FloatArray:
        """Return predictions by the model that never saw some queries.

        Parameters
        ----------
        queries : one query, or array-like of them
        X : rows
            To predict, in any form that `predict` takes.
        """
        check_is_fitted(self)
        wanted = np.atleast_1d(np.asarray(queries))
        unknown = np.setdiff1d(wanted, self.queries_)
        if unknown.size:
            raise HoldOutError(
                f"queries must name queries of fit; got {unknown[0]!r}, which is not one.",
                argument="queries",
            )
        rows = np.flatnonzero(np.isin(self.queries_[self._code], wanted))
        return self._expanded(X, self._lifted(self._model.coef_without(rows).dual_coef))

    # -- held-out questions ------------------------------------------------------------------------

    def held_out(self, alphas: ArrayLike | None = None) -> FloatArray:
        """Return held-out values of all rows, minus their mean over the query, shape (a, m).

        Parameters
        ----------
        alphas : array-like, optional
            Penalties; None: the chosen one alone, shape (1, m).

        Notes
        -----
        NaN for rows that no experiment of `cv` tests; of those tested more than once, the mean.
        """
        check_is_fitted(self)
        grid = np.atleast_1d(np.asarray(self.alpha_ if alphas is None else alphas, dtype=float))
        found = self._model.held_out(alphas=grid)
        total, count = np.zeros((grid.size, self._code.size)), np.zeros(self._code.size)
        for experiment, values in zip(found.experiments, found.predictions, strict=True):
            total[:, experiment.test] += values[:, :, 0]
            count[experiment.test] += 1.0
        with np.errstate(invalid="ignore"):
            return np.asarray(total / (count * self._root))

    def query_scores(self, library: str | None = None) -> Any:
        """Return a table of held-out scores: query, rows, concordance, kendall_tau, ndcg.

        At the chosen penalty. NaN for queries without two different targets, or that were not
        tested; of ndcg, where a target is negative.

        Parameters
        ----------
        library : {"pandas", "polars"} or None
            Whose frame; None: pandas.
        """
        f, names = self.held_out()[0], ("concordance", "kendall_tau", "ndcg")
        table = np.full((len(names), self.queries_.size), np.nan)
        for q in range(self.queries_.size):
            rows = np.flatnonzero(self._code == q)
            y = self._y[rows]
            if not np.isfinite(f[rows]).all() or (y == y[0]).all():
                continue
            for i, name in enumerate(names):
                if name != "ndcg" or y.min() >= 0:
                    table[i, q] = RANKING[name](y, f[rows], np.zeros(rows.size, dtype=np.int64))
        columns: dict[str, AnyArray] = {"query": self.queries_, "rows": np.bincount(self._code)}
        columns |= dict(zip(names, table, strict=True))
        return make_frame(columns, library)

    def nested(self, cv: Any = None) -> NestedPredictions:
        """Return held-out predictions by models whose penalty was chosen without the queries.

        Parameters
        ----------
        cv : None, int, splitter or iterable
            The outer experiments, of whole queries, as in the constructor.

        Returns
        -------
        NestedPredictions
            Predictions minus their mean over the query, times √n_q, as in the loss; ``score()`` is
            on the scale of `best_score_`.
        """
        self._refuse_ndcg("nested")
        outer = as_whole_queries(cv, self._code.size, self._X, self._y, self._code)
        return self._model.nested(outer, groups=self._code)

    def permutation_test(
        self, n_permutations: int = 1000, random_state: Any = None
    ) -> PermutationTest:
        """Return how often targets that change places within their query score as well.

        Parameters
        ----------
        n_permutations : int, default 1000
        random_state : int, RandomState or None
        """
        self._refuse_ndcg("permutation_test")
        return self._model.permutation_test(n_permutations, self._code, random_state)

    def score_interval(self, level: float = 0.9) -> ScoreInterval:
        """Return the score with an interval for new queries; queries are the observations.

        Parameters
        ----------
        level : float, default 0.9
        """
        self._refuse_ndcg("score_interval")
        return self._model.score_interval(level, "asymptotic", groups=self._code)

    def influence(self) -> Influence:
        """Return what each query, in the order of `queries_`, does to the model."""
        check_is_fitted(self)
        return self._model.influence(self._code)

    def verify(self, n_experiments: int = 5, random_state: Any = 0) -> Verification:
        """Return how far the fast predictions lie from models that are really retrained.

        Parameters
        ----------
        n_experiments : int
        random_state : int, numpy generator or None
        """
        check_is_fitted(self)
        return self._model.verify(n_experiments, random_state)

    def predict_interval(self, *args: Any, **kwargs: Any) -> FloatArray:
        """Raise: a value that ranks rows has no unit of its own."""
        raise NotSupportedError(
            "predict_interval is for targets that are predicted; a ranker predicts an order, and "
            "only differences of its values within a query mean anything. Use score_interval."
        )

    def save(self, path: Any) -> None:
        """Raise: model files hold the other estimators."""
        raise NotSupportedError(
            "save is for KernelRidgeCV, KernelRidgeClassifierCV and KernelMixtureCV. Use joblib "
            "for a ranker."
        )

    def _refuse_ndcg(self, what: str) -> None:
        check_is_fitted(self)
        if self.scoring == "ndcg":
            raise NotSupportedError(
                f'{what} repeats the choice by the order alone, and scoring="ndcg" looks at the '
                'targets themselves. Fit with scoring="concordance" or "kendall_tau".',
                argument="scoring",
            )


def as_whole_queries(cv: Any, m: int, X: Any, y: FloatArray, code: IntArray) -> Experiments:
    """Return experiments that hold out whole queries."""
    if cv is None:
        return leave_group_out(code)
    cv = GroupKFold(cv) if isinstance(cv, int) and not isinstance(cv, bool) else cv
    experiments = as_experiments(cv, m, X=X, y=y, groups=code, classifier=False)
    sizes = np.bincount(code)
    for j in range(len(experiments)):
        held, test = experiments.held_out[j], experiments.test[j]
        counts = np.bincount(code[held], minlength=sizes.size)
        if ((counts > 0) & (counts < sizes)).any() or not np.array_equal(
            np.sort(held), np.sort(test)
        ):
            raise HoldOutError(
                f"cv must hold out and test whole queries; experiment {j} takes a part of one. "
                "Pass cv=None, a number of folds, or a splitter by groups such as GroupKFold.",
                argument="cv",
            )
    return experiments


def _require_order(y: FloatArray, code: IntArray) -> None:
    """Refuse targets without two different ones in some query."""
    order = np.lexsort((y, code))
    same = code[order][1:] == code[order][:-1]
    if not (same & (y[order][1:] != y[order][:-1])).any():
        raise InvalidInputError(
            "no query has two rows with different targets, so there is no order to learn. Check "
            "queries: each names the query of a row, and several rows share one.",
            argument="queries",
        )
