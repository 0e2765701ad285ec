"""What follows from held-out models: one method for each module of `holdfast.answers`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from holdfast._typing import FloatArray
from holdfast.answers.full_conformal import full_bounds, rows_that_count, training_errors
from holdfast.answers.influence import Influence, influence
from holdfast.answers.intervals import Quantiles, bounds, counted_rows, group_shares
from holdfast.answers.learning import Draws, LearningCurve, check_sizes
from holdfast.answers.pairs import LeavePairOut, leave_pair_out
from holdfast.answers.question import chosen_values
from holdfast.answers.scored import refuse_density, scored
from holdfast.answers.units import codes_of, held_out_units, units_of
from holdfast.data.dask import is_dask
from holdfast.data.numbers import check_level, whole_number
from holdfast.data.seeds import seed_of
from holdfast.estimators.model import Model
from holdfast.estimators.problem import Problem
from holdfast.estimators.without import HeldOutCoefficients, WithoutRows, untested
from holdfast.exceptions import HoldfastWarning, InvalidInputError, NotSupportedError, warn
from holdfast.experiments import Ragged, Splitter, Tasks, leave_group_out, leave_one_out
from holdfast.experiments.splits import check_groups
from holdfast.holdout.spread import Spread, spread
from holdfast.scores.choice import check_alphas
from holdfast.scores.scoring import resolve_scoring
from holdfast.smoother.rows import row_blocks

__all__ = ["Answers", "local_parts"]

METHODS = ("plus", "minmax", "jackknife", "full", "gaussian")


class Answers(WithoutRows):
    """Answers of a fitted model about models that never saw some of its rows."""

    scoring: Any
    cv: Any
    _noise: tuple[Problem, FloatArray] | None = None

    @abstractmethod
    def _decision(self, X: Any, *, checked: bool = False) -> FloatArray:
        """Return model values for new rows, shape (k, v); rows may be checked already."""

    def _errors(self, model: Model, tasks: Tasks, alphas: FloatArray) -> FloatArray:
        """Return y − f₋H (a, k, v) on the test rows of all tasks."""
        values = model.held_out(tasks, alphas, model.plan(tasks, alphas.size).path)
        return np.asarray(self._problem.Y[tasks.test.values] - values)

    def _spread(self, model: Model, tasks: Tasks, alphas: FloatArray) -> Spread:
        errors = self._errors(model, tasks, alphas)
        return spread(model.held_models(tasks, alphas[:1]), alphas, errors)

    # -- the Gaussian view -------------------------------------------------------------------------

    @property
    def noise_variance_(self) -> float | FloatArray:
        """σ̂² at ``alpha_`` that makes the held-out targets of `fit` most likely, per target.

        σ̂² = Σ_H r_Hᵀ(I − S_HH)r_H / Σ|H| over the experiments of `fit`, in units of √w y.
        """
        check_is_fitted(self)
        found = np.square(self._noise_deviation())
        return float(found[0]) if self._problem.flat else found

    def _noise_deviation(self) -> FloatArray:
        """Return σ̂ (v,), which has a value where its square leaves the range of numbers."""
        if self._noise is None or self._noise[0] is not self._problem:
            model = self._fitted_model()
            alphas = self._alpha_of_each(None)
            grid, index = np.unique(alphas, return_inverse=True)
            law = self._spread(model, model.tasks(self._problem.experiments), grid)
            noise = law.noise[index, np.arange(alphas.size)]
            self._noise = (self._problem, np.sqrt(noise) * law.unit)
        return self._noise[1]

    def _std(self, rows: Any) -> FloatArray:
        """Return the standard deviation (k, v) of new observations: σ²(1 + var f(x))."""
        smoother, alphas = self._fitted_model().smoother, self._alpha_of_each(None)
        grid, index = np.unique(alphas, return_inverse=True)
        variance = np.empty((rows.shape[0], alphas.size))
        for block in row_blocks(rows.shape[0], smoother.order):
            variance[block] = smoother.variances(rows[block], grid)[:, index]
        return np.asarray(self._noise_deviation() * np.sqrt(1.0 + variance))

    def decorrelated_residuals(self, alpha: float | None = None) -> FloatArray:
        """Return ``held_out(alphas=[alpha]).decorrelated_residuals[0]``, the new place of it.

        Parameters
        ----------
        alpha : float, optional
            Default: the chosen ``alpha_`` (of the first target, if each has one).

        Returns
        -------
        ndarray of shape (m,) or (m, v)
        """
        self._refuse_classes("decorrelated_residuals")
        check_is_fitted(self)
        warn(
            "decorrelated_residuals() is now an attribute of what held_out gives back: use "
            "held_out(alphas=[alpha]).decorrelated_residuals[0].",
            FutureWarning,
        )
        return self._flat(self._decorrelated(self._alpha_of_each(alpha)[:1])[0])

    # -- intervals ---------------------------------------------------------------------------------

    def predict_interval(
        self, X: Any, level: float | Sequence[float] = 0.9, method: str = "plus"
    ) -> FloatArray:
        """Return bounds that a new row's target lies between.

        Parameters
        ----------
        X : rows
            As in `predict`.
        level : float or sequence of float
            How often the bounds should hold.
        method : {"plus", "minmax", "jackknife", "full", "gaussian"}
            "plus": jackknife+ or CV+ by the experiments of `fit`, which must test each row once;
            it holds at least 1 − 2(1 − level) of the time, whatever the distribution. "minmax":
            wider, and holds at least level of the time. "jackknife": the prediction and quantiles
            of held-out residuals; no guarantee. "full": full conformal prediction, the model
            trained with every possible target of the new row; it holds at least level of the time.
            "gaussian": by the `return_std` of `predict`.

        Returns
        -------
        ndarray of shape (k, 2), (k, 2, levels), (k, 2, v) or (k, 2, levels, v)
            Lower and upper bounds; infinite where there are too few rows for the level.

        Notes
        -----
        Barber, Candès, Ramdas & Tibshirani 2021. Where the experiments hold out whole groups (the
        `groups` of `fit`), the bounds are for a row of a *new* group: Lee, Barber & Willett 2023.
        "full" refuses whole groups and rows of different weights; basis rows are trained on and do
        not count. Where its set is not an interval, far from the data, the smallest interval around
        it is returned, with a warning.
        The penalty was chosen on the same rows, which the theory does not cover; one number chosen
        from a grid makes little difference (docs: answers).

        Examples
        --------
        >>> import numpy as np
        >>> from holdfast import KernelRidgeCV
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-3, 3, size=(200, 1))
        >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=200)
        >>> model = KernelRidgeCV(gamma=0.5).fit(X, y)
        >>> low, high = model.predict_interval([[1.0]], level=0.9)[0]
        >>> bool(low < np.sin(1.0) < high)
        True
        """
        self._refuse_classes("predict_interval")
        check_is_fitted(self)
        if method not in METHODS:
            raise InvalidInputError(
                f"method must be one of {METHODS}; got {method!r}.", argument="method"
            )
        levels = tuple(check_level(value) for value in np.atleast_1d(np.asarray(level)).tolist())
        if not levels:
            raise InvalidInputError(
                f"level must lie between 0 and 1; got {level!r}.", argument="level"
            )
        bound = self._interval(method, levels)
        found = np.concatenate([bound(part) for part in local_parts(self._new_rows(X))])
        found = found[..., 0] if self._problem.flat else found
        return found[:, :, 0] if np.ndim(level) == 0 else found

    def _interval(self, method: str, levels: tuple[float, ...]) -> Any:
        """Return the function from rows to bounds (k, 2, levels, v)."""
        if method == "gaussian":

            def normal(rows: Any) -> FloatArray:
                reach = ndtri(0.5 + 0.5 * np.array(levels))[:, None]
                f = self._decision(rows, checked=True)[:, None]
                width = self._std(rows)[:, None] * reach
                return np.stack([f - width, f + width], axis=1)

            return normal
        problem, model = self._problem, self._fitted_model()
        if method == "full":
            return self._full(levels)
        tasks, errors, models = model.left_out()
        counted = counted_rows(tasks, problem.weights, skipped=problem.policy == "skip")
        rows = tasks.test.values[counted]
        m, used = problem.weights.size, problem.weights > 0
        units = held_out_units(problem.experiments, problem.groups, m, used)
        quantiles = Quantiles(levels, rows.size, group_shares(units, rows))
        sizes, owners = np.abs(errors[counted]), tasks.test.owners[counted]

        def jackknife(rows: Any) -> FloatArray:
            centre = self._decision(rows, checked=True) if method == "jackknife" else None
            return bounds(models, rows, sizes, owners, quantiles, method, centre)  # type: ignore[arg-type]

        return jackknife

    def _full(self, levels: tuple[float, ...]) -> Any:
        """Return the function from rows to the bounds of full conformal prediction."""
        problem, model, alphas = self._problem, self._fitted_model(), self._alpha_of_each(None)
        if is_dask(problem.X):
            raise NotSupportedError(
                'method="full" needs rows in memory; got a Dask collection. Use method="plus".',
                argument="method",
            )
        if problem.standardize:
            raise NotSupportedError(
                'method="full" adds the new row to the training rows, which with standardize=True '
                'changes the units of all columns. Use method="plus".',
                argument="method",
            )
        used = problem.weights > 0
        units = held_out_units(problem.experiments, problem.groups, used.size, used)
        counted = rows_that_count(problem.weights, model.basis, units)
        errors = training_errors(model.smoother, alphas)
        quantiles = Quantiles(levels, counted.size)

        def bound(rows: Any) -> FloatArray:
            centre = self._decision(rows, checked=True)
            found, broken = full_bounds(
                model.smoother, rows, centre, errors, alphas, counted, quantiles
            )
            if broken.any():
                warn(
                    f"The targets that fit {int(broken.sum())} of {broken.size} new rows are no "
                    "interval: these rows lie far from the data. The bounds are those of the "
                    "smallest interval around them.",
                    HoldfastWarning,
                )
            return found

        return bound

    # -- influence, pairs, learning curves ---------------------------------------------------------

    def influence(self, groups: ArrayLike | None = None) -> Influence:
        """Return how much each row, or each group, moves the model.

        Parameters
        ----------
        groups : array-like of shape (m,), optional
            "Which subject moves the model most?"; None: row by row.

        Returns
        -------
        Influence
            ``leverage``, ``residual``, ``cook``, ``dffits``, ``to_frame()``, and ``change(label)``
            for the coefficients; groups in sorted order.

        Notes
        -----
        At ``alpha_``, of each target its own if there are several. Cook's distance of H is
        Σ_j w_j (f − f₋H)(x_j)² / (tr S · s²), s² = Σ w e²/(m − tr S); see `holdfast.answers`.
        ``leverage`` is of shape (n, v) where the penalties of the targets differ.
        """
        check_is_fitted(self)
        model, problem = self._fitted_model(), self._problem
        m = problem.weights.size
        labels = np.arange(m) if groups is None else check_groups(groups, m)
        experiments = leave_one_out(m) if groups is None else leave_group_out(labels)
        tasks = untested(model, experiments)
        found = influence(model.held_models(tasks, self._alpha_of_each(None)))
        shaped = {k: v if k == "leverage" else self._flat(v) for k, v in found.items()}

        names = labels if groups is None else np.unique(labels)
        change = partial(self._change_without, experiments.held_out)
        return Influence(
            names, **shaped, grouped=groups is not None, frames=self._frames, _change=change
        )

    def _change_without(self, held: Ragged, j: int) -> HeldOutCoefficients:
        """Return the coefficients on all rows minus those without one set of rows."""
        full = self._coefficients(
            self._dual_coef, self._intercept, self._linear_coef, self._trend_coef
        )
        return full - self.coef_without(held[j])

    def leave_pair_out(
        self, groups: ArrayLike | None = None, alphas: ArrayLike | None = None
    ) -> LeavePairOut:
        """Return how often two rows, both held out, are put in the right order.

        Parameters
        ----------
        groups : array-like of shape (m,), optional
            Compare only rows of one group.
        alphas : array-like, optional
            Penalties; None: the grid of `fit`.

        Returns
        -------
        LeavePairOut
            ``concordance`` per alpha: the area under the ROC curve for two classes. Pairs with
            equal targets do not count, equal predictions count ½, a pair weighs w_i w_j.

        Notes
        -----
        2p operations per pair and penalty, in blocks, no loop over pairs.
        """
        check_is_fitted(self)
        model, problem = self._fitted_model(), self._problem
        if model.reselects:
            raise NotSupportedError(
                'held_out_basis="reselect" would train a model for every pair. Use another policy.',
                argument="held_out_basis",
            )
        if problem.standardize:
            raise NotSupportedError(
                "leave_pair_out with standardize=True would train a model for every pair. Scale X "
                "once before and leave standardize out.",
                argument="standardize",
            )
        if is_dask(problem.X):
            raise NotSupportedError("leave_pair_out needs rows in memory; got a Dask collection.")
        labels = None if groups is None else check_groups(groups, problem.weights.size)
        grid = problem.alphas if alphas is None else check_alphas(alphas)
        concordance, count = leave_pair_out(
            model.smoother, grid, problem.policy, model.basis, labels
        )
        if problem.flat:
            return LeavePairOut(grid, concordance[:, 0], int(count[0]), self._frames)
        return LeavePairOut(grid, concordance, count, self._frames)

    def learning_curve(
        self,
        sizes: ArrayLike,
        n_repeats: int = 10,
        random_state: Any = None,
        *,
        groups: ArrayLike | None = None,
        scoring: Any = None,
    ) -> LearningCurve:
        """Return the held-out score against the number of training rows, or groups.

        Parameters
        ----------
        sizes : array-like
            Numbers of rows (groups) to train on, or shares of all.
        n_repeats : int
            Random draws for each size.
        random_state : int, RandomState or None
            Seed of the draws.
        groups : array-like of shape (m,), optional
            Draw whole groups; sizes count groups then. None: the groups of `fit`, if its
            experiments hold out whole groups.
        scoring : str or callable, optional
            As in `fit`; None: that of `fit`. Scores of distributions ("log_density", "crps") are
            refused.

        Returns
        -------
        LearningCurve
            ``sizes``, ``scores``, ``mean``, ``std``, ``extrapolate(sizes)``, ``to_frame()``.

        Notes
        -----
        Kernel and penalty (``alpha_``) stay what they are; each draw is an experiment that holds
        out all other rows, and is scored on them. Where experiments of `fit` hold out more than
        they test, or know the place of rows (time, neighbourhoods, purged folds), they keep their
        test rows (at most 50 of them for a draw, by chance) and each trains on rows drawn from
        those that it trains on. Basis rows that are always trained on (``held_out_basis`` "train"
        or "skip") count among the rows of a size, and are drawn first.
        """
        check_is_fitted(self)
        model, problem = self._fitted_model(), self._problem
        scorer = resolve_scoring(
            self.scoring if scoring is None else scoring, classes=self._classes
        )
        refuse_density(scorer, "learning_curve")
        drawn = self._training_sets(groups)
        chosen = check_sizes(sizes, drawn.most, drawn.unit, drawn.least)
        repeats = whole_number("n_repeats", n_repeats)
        experiments, starts = drawn.experiments_of(chosen, repeats, seed_of(random_state))
        alphas = self._alpha_of_each(None)
        tasks = model.tasks(experiments)

        def at(grid: FloatArray) -> FloatArray:
            return model.held_out(tasks, grid, model.plan(tasks, grid.size).path)

        values = chosen_values(at, alphas, alphas.size)[None]
        test = Ragged(tasks.test.values, tasks.test.ptr[np.searchsorted(tasks.source, starts)])
        scores = scored(
            scorer, values, test, problem.labels, problem.weights, problem.groups
        ).splits[0]
        return LearningCurve(
            chosen, scores.reshape(chosen.size, repeats), drawn.unit, scorer.name, self._frames
        )

    def _training_sets(self, groups: ArrayLike | None) -> Draws:
        """Return the random training sets that leave out what the experiments of `fit` do."""
        model, problem = self._fitted_model(), self._problem
        experiments, weights = problem.experiments, problem.weights
        placed = isinstance(self.cv, Splitter)
        units = units_of(experiments, problem.groups, weights, placed=placed)
        if groups is not None:
            given = check_groups(groups, weights.size)
            units = replace(units, code=codes_of(given), name="groups")
        always = np.empty(0, dtype=np.int64)
        if problem.policy in ("train", "skip") and model.basis is not None:
            always = model.basis
        return Draws(experiments, units, weights, always)


def local_parts(rows: Any) -> Iterator[Any]:
    """Yield rows that are here: chunks of a Dask array one after the other."""
    if not is_dask(rows):
        yield rows
        return
    for chunk in rows.to_delayed().ravel():
        yield np.asarray(chunk.compute())
