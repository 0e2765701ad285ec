"""How sure the estimate of a fitted model is: nested, intervals, permutations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import FloatArray, IntArray
from holdfast.answers.certainty import METHODS, Method, ScoreInterval, score_interval
from holdfast.answers.inner_splits import split_again
from holdfast.answers.nested import NestedPredictions, Way, nested
from holdfast.answers.permutation import PermutationTest, permutation_test
from holdfast.answers.question import Fitted, Judge, Subject, fit_units
from holdfast.answers.scored import refuse_density, unit_of
from holdfast.answers.shuffle import Shuffle
from holdfast.data.dask import is_dask
from holdfast.data.numbers import check_choice, check_level, whole_number
from holdfast.data.seeds import seed_of
from holdfast.estimators.model import Model
from holdfast.estimators.problem import Problem
from holdfast.estimators.search import models
from holdfast.experiments import as_experiments
from holdfast.experiments.splits import check_groups
from holdfast.kernels.grid import Candidate
from holdfast.kernels.typical import fine_widths
from holdfast.scores.metrics import METRICS
from holdfast.scores.penalties import kernel_parts
from holdfast.scores.scoring import resolve_scoring


class Certainty:
    """How sure the held-out score of a fitted model is; set up by `fit`."""

    alpha_: float | FloatArray
    best_score_: float | FloatArray
    best_params_: dict[str, Any]
    cv_results_: dict[str, Any]
    cv: Any
    gamma: Any
    scoring: Any
    pooled: bool
    rule: str
    alpha_per_target: bool
    _problem: Problem
    _frames: str | None

    @abstractmethod
    def _fitted_model(self) -> Model:
        """Return the model, built again from the training rows after unpickling."""

    @abstractmethod
    def _candidates(self, X: Any, weights: FloatArray) -> list[Candidate]:
        """Return the kernels to compare on these rows."""

    @abstractmethod
    def _kernels(
        self, widths_of: Callable[..., list[float] | None], X: Any, weights: FloatArray | None
    ) -> list[Candidate]:
        """Return the kernels of the parameters, with widths by this function if searched."""

    @property
    @abstractmethod
    def _classes(self) -> Any:
        """Class labels, or None for regression."""

    def _judge(self) -> Judge:
        problem, scoring = self._problem, resolve_scoring(self.scoring, classes=self._classes)
        return Judge(
            labels=problem.labels,
            weights=problem.weights,
            groups=problem.groups,
            alphas=problem.alphas,
            scoring=scoring,
            pooled=self.pooled,
            rule=self.rule,
            per_target=self.alpha_per_target,
            policy=problem.policy,
            path=problem.path,
            units=fit_units(problem.experiments, problem.groups, problem.weights, scoring, self.cv),
            frames=self._frames,
        )

    def _subjects(self, held: IntArray | None = None) -> Iterator[tuple[dict[str, Any], Subject]]:
        """Yield every kernel that `fit` compared, on all rows, with the penalties it had there.

        The chosen one is there already. With `held`, which a search of the width must not see:
        a grid of widths as fine as a search, from the other rows.
        """
        chosen, problem = self._fitted_model(), self._problem
        if held is not None:
            weights = problem.weights.copy()
            weights[held] = 0.0
            for candidate, model in models(problem, self._kernels(fine_widths, problem.X, weights)):
                yield candidate.params, replace(model(), problem=problem)
            return
        candidates = self._candidates(problem.X, problem.weights)
        if len(candidates) == 1:
            yield self.best_params_, chosen
            return
        alphas = self.cv_results_["alpha"]
        parts = [alphas[part] for part in kernel_parts(self.cv_results_)]
        # An interrupted search compared the first kernels only.
        for (candidate, model), grid in zip(models(problem, candidates), parts, strict=False):
            made = chosen if candidate.params == self.best_params_ else model()
            yield candidate.params, replace(made, problem=replace(problem, alphas=grid))

    def _in_range(self) -> tuple[Self, float, float]:
        """Return this model, or its twin for targets whose squares leave the range of numbers.

        With the unit of the twin's targets and that of its scores. The twin has the same rows,
        kernel, basis rows and penalty, and targets in that unit.
        """
        problem, scoring = self._problem, self._judge().scoring
        unit = unit_of(scoring, problem.labels)
        if unit == 1.0 or scoring.fast is None:
            return self, 1.0, 1.0
        twin = copy(self)
        twin._problem = replace(problem, Y=problem.Y / unit, labels=problem.labels / unit)
        best: float = -np.inf
        for _, subject in twin._subjects():
            judge = twin._judge().of(subject)
            tasks = subject.tasks(problem.experiments)
            path = subject.plan(tasks, judge.alphas.size).path
            scores = judge.scores(subject.held_out(tasks, judge.alphas, path), tasks)
            if judge.value(scores) > best:
                best, twin.best_score_ = judge.value(scores), judge.choose(scores).score
        with np.errstate(over="ignore", under="ignore"):
            return twin, unit, float(np.float64(unit) ** METRICS[scoring.fast].power)

    def _fitted(self) -> Fitted:
        """Return the model as the answers see it."""
        model, problem = self._fitted_model(), self._problem
        X = None if is_dask(problem.X) else problem.X
        return Fitted(model, self._judge(), self.alpha_, problem.experiments, self.cv, X)

    def nested(
        self, cv: Any, groups: ArrayLike | None = None, *, way: Way | None = None
    ) -> NestedPredictions:
        """Return held-out predictions by models whose penalty was chosen without the rows.

        For every outer experiment the penalty, and the kernel if there is a grid of them, is chosen
        on the rows that are left with the model's own `cv`, split again on them (as scikit-learn's
        ``GridSearchCV`` inside ``cross_val_score``; explicit lists of experiments lose the outer
        rows), and then the outer rows are predicted.

        Parameters
        ----------
        cv : None, int, splitter or iterable
            The outer experiments, as in the constructor.
        groups : array-like of shape (m,), optional
            For splitters of either loop that use groups; None: the groups of `fit`.
        way : {"unions", "without"}, optional
            How inner models are made; the same numbers. None: the cheapest.

        Returns
        -------
        NestedPredictions
            ``.predictions``, ``.alphas``, ``.kernels``, ``.score()``, ``.optimism``,
            ``.to_frame()``.

        Notes
        -----
        ``gamma="search"`` compares nine widths, a factor of 2 apart, about the median distance of
        the rows that an outer experiment leaves: as fine as the search of `fit`, which may go on
        beyond them. Basis rows are those of the fit; `held_out_basis` says what becomes of them in
        the outer and in the inner experiments. With "reselect" each chooses its own.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from holdfast import KernelRidgeCV
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = KernelRidgeCV(gamma=[1.0, 10.0], alphas=[0.01, 0.1, 1.0, 10.0], cv=5).fit(X, y)
        >>> found = model.nested(cv=5)
        >>> found.alphas.shape, len(found.kernels)
        ((5,), 5)
        >>> round(float(found.score() / model.best_score_), 1)
        1.0
        """
        self._fitted_model()
        problem, classifier = self._problem, self._classes is not None
        m, X = problem.weights.size, None if is_dask(problem.X) else problem.X
        refuse_density(self._judge().scoring, "nested")
        labels = problem.groups if groups is None else check_groups(groups, m)
        outer = as_experiments(cv, m, X=X, y=problem.labels, groups=labels, classifier=classifier)
        again = split_again(
            self.cv,
            problem.experiments,
            X=X,
            labels=problem.labels,
            groups=None if labels is None else np.asarray(labels),
            classifier=classifier,
        )
        own, unit, factor = self._in_range()
        judge = replace(own._judge(), groups=labels)
        every = np.arange(len(outer))
        rounds = [(every, own._subjects())]
        if isinstance(self.gamma, str):  # widths from the rows that each outer experiment leaves
            rounds = [
                (every[j : j + 1], own._subjects(outer.held_out[j])) for j in range(len(outer))
            ]
        found = nested(rounds, outer, again, judge, self.best_score_, way)
        if unit == 1.0:
            return found
        values, inner = found.values * unit, _times(found.inner_scores, factor)
        judge = replace(self._judge(), groups=labels)
        return replace(found, values=values, inner_scores=inner, judge=judge)

    def permutation_test(
        self,
        n_permutations: int = 1000,
        within: ArrayLike | None = None,
        random_state: Any = None,
        *,
        groups: ArrayLike | None = None,
    ) -> PermutationTest:
        """Return how often permuted targets score as well as the targets themselves.

        The whole search is repeated for every permutation: the penalty, and the kernel if there is
        a grid of them, is chosen again. Rows, factors and experiments are those of `fit`.

        Parameters
        ----------
        n_permutations : int, default 1000
        within : array-like of shape (m,), optional
            Labels; targets change places within a label only.
        random_state : int, RandomState or None
            Seed of the permutations.
        groups : array-like of shape (m,), optional
            Labels of groups that change places as wholes: for rows that depend on each other
            within a group. Where the targets are the same within every group, any two groups may
            change places, else those of one size.

        Returns
        -------
        PermutationTest
            ``.p_value``, ``.score`` (`best_score_`), ``.null_scores``, ``.plot()``.

        Notes
        -----
        p = (1 + #{null ≥ score}) / (1 + n), a valid p-value for every n. Rows of weight zero take
        no part. Splits that look at the targets (stratified folds) and basis rows that were chosen
        by them stay those of the targets as they are.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from holdfast import KernelRidgeCV
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = KernelRidgeCV(gamma=10.0, alphas=[0.01, 0.1, 1.0, 10.0], cv=5).fit(X, y)
        >>> model.permutation_test(99, random_state=0).p_value
        0.01
        """
        self._fitted_model()
        problem = self._problem
        m, count = problem.weights.size, whole_number("n_permutations", n_permutations)
        shuffle = Shuffle.of(
            problem.Y,
            problem.weights > 0,
            None if within is None else check_groups(within, m),
            None if groups is None else check_groups(groups, m),
            seed_of(random_state),
        )
        own, unit, factor = self._in_range()
        found = permutation_test(
            own._subjects(),
            problem.experiments,
            own._problem.Y,
            own._judge(),
            own.best_score_,
            shuffle,
            count,
        )
        if unit == 1.0:
            return found
        null = _times(found.null_scores, factor)
        return replace(found, score=self.best_score_, null_scores=null)

    def score_interval(
        self,
        level: float = 0.9,
        method: Method = "auto",
        n_splits: int = 10,
        n_partitions: int = 50,
        random_state: Any = None,
        *,
        groups: ArrayLike | None = None,
    ) -> ScoreInterval:
        """Return the score with an interval for the score on new rows.

        Parameters
        ----------
        level : float, default 0.9
            Confidence level.
        method : {"auto", "nested", "asymptotic", "corrected"}, default "auto"
            "nested": Bates, Hastie and Tibshirani (2024), from `n_partitions` random partitions
            into `n_splits` folds; corrected for the bias of smaller training sets. "asymptotic":
            Bayle et al. (2020), the experiments of `fit` with the plain standard error over rows,
            groups, or blocks of rows that are held out together (time, neighbourhoods, purged
            folds); over experiments with ``pooled=False``. "corrected": Nadeau and Bengio (2003),
            from the experiments of `fit` if they test rows repeatedly, else from the same random
            partitions. "auto": "nested" where random partitions hold out as `cv` does (rows or
            groups are exchangeable) and the score is a mean over rows, else "asymptotic".
        n_splits, n_partitions : int
            Folds of a random partition, and how many partitions.
        random_state : int, RandomState or None
            Seed of the partitions.
        groups : array-like of shape (m,), optional
            Groups that are held out as wholes and count as the independent units; None: the
            groups of `fit`, if its experiments hold out whole groups.

        Returns
        -------
        ScoreInterval
            ``.score``, ``.low``, ``.high``, ``.standard_error`` on the scale of the score, and the
            ``.method`` that was taken. "nested" is for means over rows (squared and absolute error,
            R², accuracy, AUC, log loss, …); "asymptotic" takes any scorer, "corrected" any that
            needs predictions only.

        Notes
        -----
        The penalty stays `alpha_`: what choosing it did to the score is the optimism of `nested`.
        The nested standard error is kept between the plain one and √K times that. R² is taken
        relative to the variance of the tested targets, as `best_score_` is. Scores that are not
        means over rows are jackknifed: at most 20 parts of the units are left out in turn.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from holdfast import KernelRidgeCV
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = KernelRidgeCV(gamma=10.0, scoring="r2", cv=10).fit(X, y)
        >>> found = model.score_interval(n_partitions=5, random_state=0)
        >>> bool(found.low < found.score < found.high)
        True
        """
        self._fitted_model()
        problem, m = self._problem, self._problem.weights.size
        check_choice("method", method, METHODS)
        own, unit, factor = self._in_range()
        fitted = own._fitted()
        if groups is not None:
            given, judge = check_groups(groups, m), fitted.judge
            units = fit_units(
                problem.experiments, problem.groups, judge.weights, judge.scoring, self.cv, given
            )
            fitted = replace(fitted, judge=replace(judge, units=units))
        found = score_interval(
            fitted,
            level=check_level(level),
            method=method,
            n_splits=whole_number("n_splits", n_splits, 2),
            n_partitions=whole_number("n_partitions", n_partitions),
            seed=seed_of(random_state),
        )
        if unit == 1.0:
            return found
        names = "score", "low", "high", "standard_error", "bias"
        return replace(found, **{name: _times(getattr(found, name), factor) for name in names})


def _times(values: Any, factor: float) -> Any:
    """Return scores in another unit; they may leave the range of numbers, as `best_score_` does."""
    with np.errstate(over="ignore", under="ignore"):
        return values * np.float64(factor) if np.ndim(values) else float(values * factor)
