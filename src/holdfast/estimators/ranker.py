"""Ranking by pairwise least squares within queries (RankRLS), with exact leave-query-out."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.answers.certainty import ScoreInterval
from holdfast.answers.fitted import Fitted
from holdfast.answers.influence import Influence
from holdfast.answers.nested import NestedPredictions
from holdfast.answers.permutation import PermutationTest
from holdfast.basis import Points
from holdfast.basis.resolve import as_selector, resolve_basis
from holdfast.data.dask import is_dask
from holdfast.data.frames import library_of, make_frame
from holdfast.data.labels import check_labels
from holdfast.data.memory import memory_bytes
from holdfast.data.seeds import seed_of
from holdfast.estimators.automatic import automatic_basis
from holdfast.estimators.base import KernelParameters
from holdfast.estimators.inputs import (
    check_rows,
    check_targets,
    check_weights,
    own_rows,
    refusals,
    takes_objects,
    unchanged_on_error,
)
from holdfast.estimators.queries import (
    Queries,
    Ranked,
    as_whole_queries,
    require_order,
    with_basis,
)
from holdfast.exceptions import (
    HoldOutError,
    InvalidInputError,
    NotSupportedError,
    SelectionBiasWarning,
    warn,
)
from holdfast.experiments import POLICIES, Experiments
from holdfast.holdout.plan import Plan
from holdfast.holdout.verify import Verification
from holdfast.kernels import Kernel
from holdfast.kernels.grid import kernel_grid
from holdfast.scores.ranking import RANKING
from holdfast.smoother.rows import row_blocks

__all__ = ["KernelRankerCV"]

#: Scores of the order within queries, and minus the squared error of differences.
SCORES = (*RANKING, "pairwise")


@dataclass(eq=False, repr=False)
class KernelRankerCV(KernelParameters, BaseEstimator):  # type: ignore[misc]  # sklearn is untyped
    """Rank the rows of each query by pairwise least squares, with exact leave-query-out.

    Parameters
    ----------
    kernel, gamma, degree, coef0, kernel_params
        One kernel of rows, as in `KernelRidgeCV`, not a list.
    alphas : array-like or None, default=None
        Penalties to compare, increasing; None: a grid that follows the data.
    basis : None, "auto", int, float, array-like of int or selector, default=None
        Basis rows, as in `KernelRidgeCV`; None: a model of all rows, which takes m × m numbers, or
        d × d for a linear kernel of d < m columns.
    cv : None, int, splitter or iterable, default=None
        None: each query is held out once. A number of folds of whole queries; or a splitter or
        iterable whose experiments hold out whole queries.
    held_out_basis : {"remove", "keep"}, default="remove"
        Whether the basis rows of a query that is held out leave the basis with it.
    scoring : {"concordance", "kendall_tau", "ndcg", "pairwise"}, default="concordance"
        The score of the order within each query, averaged over queries with two different targets;
        or minus the mean squared error of centred targets, weighted as the loss.
    jitter, memory_limit, random_state
        As in `KernelRidgeCV`.

    Attributes
    ----------
    alpha_ : float
        The chosen penalty.
    alphas_ : ndarray of shape (a,)
    best_score_ : float
        Its held-out score.
    scores_ : ndarray of shape (a,)
        Held-out scores of all penalties.
    basis_indices_ : ndarray of int
        Basis rows; all rows if `basis` is None.
    dual_coef_ : ndarray of shape (n,)
        Coefficients of the basis rows. If these are all rows, those of each query add up to zero.
    queries_ : ndarray
        The queries, sorted.
    kernel_ : kernel object

    Notes
    -----
    The model minimises Σ_q Σ_{i<j∈q} w_i w_j ((y_i − y_j) − (f_i − f_j))² + λ‖f‖² (Pahikkala et
    al.). It has no bias, because a bias does not change differences, and only differences of its
    values within a query have a meaning. `held_out` therefore returns values minus their weighted
    mean over the query.

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

    What it says of queries that it has not seen:

    >>> model.query_scores(library="pandas").shape  # held-out scores of each query
    (20, 5)
    >>> f = model.predict_without(3, X[query == 3])  # by the model that never saw the fourth query
    >>> bool(np.allclose(f - f.mean(), model.held_out()[0][query == 3]))
    True
    >>> interval = model.score_interval(0.9)
    >>> bool(interval.low < model.best_score_ < interval.high)
    True
    >>> model.permutation_test(99, random_state=0)
    <permutation test: p = 0.01 from 99 permutations>
    >>> bool(model.nested(cv=5).score() > 0.9)  # the penalty chosen without the queries
    True
    >>> bool(model.verify().max_relative_error < 1e-8)  # some queries, really trained without
    True
    """

    _: KW_ONLY
    alphas: ArrayLike | None = None
    basis: Any = None
    cv: Any = None
    held_out_basis: str = "remove"
    scoring: str = "concordance"
    jitter: float = 1e-10
    memory_limit: float | str | None = None
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel_params": [dict, None],
        "held_out_basis": [StrOptions(set(POLICIES))],
        "scoring": [StrOptions(set(SCORES))],
        "jitter": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    # -- fit ---------------------------------------------------------------------------------------

    def fit(self, X: Any, y: ArrayLike, queries: ArrayLike, sample_weight: Any = None) -> Self:
        """Choose the penalty by exact cross-validation over queries and fit on all rows.

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (m, d), or m objects
        y : array-like of shape (m,)
            What the rows of a query are ordered by.
        queries : array-like of shape (m,)
            The query of each row: rows are compared within it.
        sample_weight : array-like of shape (m,), optional
            A pair counts as much as the product of its rows' weights; for a query that should
            count v times, give its rows √v. Rows of weight zero are predicted, never trained on.

        Returns
        -------
        self
        """
        with unchanged_on_error(self):
            ranked = self._prepare(X, y, queries, sample_weight)
            model, rows = ranked.centred()
            self._publish(replace(ranked, model=model.fit(*rows)))
        return self

    def _prepare(
        self,
        X: Any,
        y: Any,
        queries: Any,
        sample_weight: Any,
        known: tuple[Experiments, Any] | None = None,
    ) -> Ranked:
        """Return what came, checked.

        `known` are the experiments and basis rows of a model in a file; else they are chosen here.
        """
        with refusals():
            self._validate_params()
        kernel, rows = self._rows(X)
        m, memory = int(rows.shape[0]), memory_bytes(self.memory_limit)
        weights = check_weights(sample_weight, m)
        Y, flat = check_targets(y, m, weights, bias=False)
        if not flat:
            raise InvalidInputError(
                f"y must be one-dimensional, one number for each row; got shape {Y.shape}. Fit one "
                "ranker for each target.",
                argument="y",
            )
        names, code = np.unique(check_labels("queries", queries, m), return_inverse=True)
        require_order(Y[weights > 0, 0], code[weights > 0])
        cv, basis = (self.cv, self.basis) if known is None else known
        ranked = Ranked(
            parameters=self.get_params(deep=False),
            kernel=kernel,
            X=own_rows(X, rows, memory / 4.0),
            y=Y[:, 0],
            weights=weights,
            frames=library_of(X),
            names=names,
            queries=Queries.of(code, weights),
            experiments=as_whole_queries(cv, m, rows, Y[:, 0], code),
            basis=None,
        )
        return replace(ranked, basis=self._chosen_basis(ranked, basis))

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
        if is_dask(rows):
            raise NotSupportedError(
                "KernelRankerCV needs rows in memory; got a Dask collection. Pass X.compute().",
                argument="X",
            )
        n_features = rows.shape[1] if rows.ndim == 2 else None
        made = kernel_grid(**arguments, n_features=n_features)[0].kernel
        assert isinstance(made, Kernel)
        return made, rows

    def _chosen_basis(self, ranked: Ranked, basis: Any) -> IntArray | None:
        """Return the basis rows, or None for a model of all rows."""
        if isinstance(basis, str) and basis == "auto":
            basis = automatic_basis([ranked.kernel], ranked.X, memory_bytes(self.memory_limit))
        selector = as_selector(basis, ranked.y.size)
        if isinstance(selector, Points):
            raise NotSupportedError(
                "basis must be rows for a ranker, which leave with their query; got Points. Pass a "
                "number of rows or row numbers.",
                argument="basis",
            )
        if selector is not None and self.held_out_basis not in ("remove", "keep"):
            raise NotSupportedError(
                'held_out_basis must be "remove" or "keep" for a ranker; got '
                f"{self.held_out_basis!r}, by which a part of a query would be trained on, or rows "
                "chosen again. Queries are held out whole.",
                argument="held_out_basis",
            )
        if selector is not None and selector.data_dependent:
            warn(
                f"{type(selector).__name__} chose the basis rows by looking at rows that are later "
                "held out, so the held-out scores may be optimistic: use random rows, basis=100.",
                SelectionBiasWarning,
                argument="basis",
            )
        queries = ranked.queries
        return resolve_basis(
            selector,
            ranked.rows,
            queries.centred(ranked.y)[:, None],
            queries.weights,
            queries.code,
            ranked.experiments,
            np.random.default_rng(seed_of(self.random_state)),
        )

    def _publish(self, ranked: Ranked) -> None:
        """Set the fitted attributes."""
        model, basis = ranked.regression, ranked.basis
        self._ranked, self.kernel_, self.queries_ = ranked, ranked.kernel, ranked.names
        self.alphas_ = model.alphas_
        self.scores_ = model.cv_results_["pooled_test_score"]
        self.alpha_, self.best_score_ = model.alpha_, model.best_score_
        self.basis_indices_ = np.arange(ranked.y.size) if basis is None else basis
        self.dual_coef_ = ranked.of_rows(model.dual_coef_)

    def _fit_of(self) -> Ranked:
        """Return what was fitted."""
        check_is_fitted(self)
        return self._ranked

    def _asked(self) -> Fitted:
        return self._fit_of().regression._asked()

    # -- predictions -------------------------------------------------------------------------------

    def predict(self, X: Any) -> FloatArray:
        """Return values whose differences rank new rows, shape (k,).

        Parameters
        ----------
        X : rows
        """
        return self._expanded(X, self._fit_of().columns, self.dual_coef_)

    def _expanded(self, X: Any, coef: FloatArray | None, dual: FloatArray) -> FloatArray:
        """Return values of new rows, from coefficients of columns if the kernel is linear."""
        new = check_rows(self, X, objects=takes_objects(self.kernel_), reset=False)
        if coef is not None:
            return np.asarray(new @ coef)
        data, values = self._ranked.rows, np.empty(new.shape[0])
        for block in row_blocks(new.shape[0], dual.size):
            values[block] = data.predict_block(new[block], self.basis_indices_) @ dual
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
        require_order(Y[:, 0], code)
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
        ranked = self._fit_of()
        wanted = np.atleast_1d(np.asarray(queries))
        unknown = np.setdiff1d(wanted, self.queries_)
        if unknown.size:
            raise HoldOutError(
                f"queries must name queries of fit; got {unknown[0]!r}, which is not one.",
                argument="queries",
            )
        rows = np.flatnonzero(np.isin(self.queries_[ranked.groups], wanted))
        left = ranked.regression.coef_without(rows)
        return self._expanded(X, left.coef, ranked.of_rows(left.dual_coef))

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
        ranked = self._fit_of()
        grid = np.atleast_1d(np.asarray(self.alpha_ if alphas is None else alphas, dtype=float))
        found, m = ranked.regression.held_out(alphas=grid), ranked.y.size
        total, count = np.zeros((grid.size, m)), np.zeros(m)
        for experiment, values in zip(found.experiments, found.predictions, strict=True):
            total[:, experiment.test] += values[:, :, 0]
            count[experiment.test] += 1.0
        with np.errstate(invalid="ignore"):
            return np.asarray(total / count)

    def query_scores(self, library: str | None = None) -> Any:
        """Return a table of held-out scores: query, rows, concordance, kendall_tau, ndcg.

        At the chosen penalty, of rows of positive weight. NaN for queries without two different
        targets, or that were not tested; of ndcg, where a target is negative.

        Parameters
        ----------
        library : {"pandas", "polars"} or None
            Whose frame; None: the library that X came in, else pandas.
        """
        f, ranked, names = self.held_out()[0], self._fit_of(), tuple(RANKING)
        code = ranked.queries.code
        table = np.full((len(names), self.queries_.size), np.nan)
        for q in range(self.queries_.size):
            rows = np.flatnonzero((code == q) & (ranked.weights > 0))
            y = ranked.y[rows]
            if not np.isfinite(f[rows]).all() or np.unique(y).size < 2:
                continue
            for i, name in enumerate(names):
                if name != "ndcg" or y.min() >= 0:
                    table[i, q] = RANKING[name](y, f[rows], np.zeros(rows.size, dtype=np.int64))
        columns: dict[str, AnyArray] = {"query": self.queries_, "rows": np.bincount(code)}
        columns |= dict(zip(names, table, strict=True))
        return make_frame(columns, library or ranked.frames)

    def nested(self, cv: Any = None) -> NestedPredictions:
        """Return held-out predictions by models whose penalty was chosen without the queries.

        Parameters
        ----------
        cv : None, int, splitter or iterable
            The outer experiments, of whole queries, as in the constructor.

        Returns
        -------
        NestedPredictions
            Predictions minus their mean over the query; ``score()`` is on the scale of
            `best_score_`.
        """
        ranked = self._fit_of()
        m, groups = ranked.y.size, ranked.groups
        outer = as_whole_queries(cv, m, ranked.X, ranked.y, ranked.queries.code)
        return ranked.regression.nested(with_basis(outer, groups, m), groups=groups)

    def permutation_test(
        self, n_permutations: int = 1000, random_state: Any = None
    ) -> PermutationTest:
        """Return how often targets that change places within their query score as well.

        Parameters
        ----------
        n_permutations : int, default 1000
        random_state : int, RandomState or None
        """
        ranked = self._fit_of()
        code, trained = ranked.queries.code, ranked.weights > 0
        pairs = np.column_stack([code, ranked.weights])[trained]
        if np.unique(pairs, axis=0).shape[0] > np.unique(code[trained]).size:
            raise NotSupportedError(
                "permutation_test lets targets change places within their query, which is a test "
                "only if its rows have equal weights. Fit with one weight for each query.",
                argument="sample_weight",
            )
        return ranked.regression.permutation_test(n_permutations, ranked.groups, random_state)

    def score_interval(self, level: float = 0.9) -> ScoreInterval:
        """Return the score with an interval for new queries; queries are the observations.

        Parameters
        ----------
        level : float, default 0.9
        """
        ranked = self._fit_of()
        return ranked.regression.score_interval(level, "asymptotic", groups=ranked.groups)

    def influence(self) -> Influence:
        """Return what each query, in the order of `queries_`, does to the model."""
        ranked = self._fit_of()
        return ranked.regression.influence(ranked.groups)

    def verify(self, n_experiments: int = 5, random_state: Any = 0) -> Verification:
        """Return how far the fast predictions lie from models that are really retrained.

        Parameters
        ----------
        n_experiments : int
        random_state : int, numpy generator or None
        """
        return self._fit_of().regression.verify(n_experiments, random_state)

    def explain(self) -> Plan:
        """Return the plan of `fit`: the path taken; cost and memory of each, and why."""
        return self._fit_of().regression.explain()

    def predict_interval(self, *args: Any, **kwargs: Any) -> FloatArray:
        """Raise: a value that ranks rows has no unit of its own."""
        raise NotSupportedError(
            "predict_interval is for targets that are predicted; a ranker predicts an order, and "
            "only differences of its values within a query mean anything. Use score_interval."
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a file that `holdfast.load` reads, whole or not at all.

        Parameters
        ----------
        path : path
            Where to write; ".holdfast" is the usual ending. The file holds the training rows.
        """
        from holdfast.files import save

        save(self, path)

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.target_tags.required = True
        return tags
