"""What a fitted model can be asked: one method for each answer of `holdfast.answers`.

Each passes the fitted model, a value, to the function that computes the answer. Parameters that are
set after `fit` take effect at the next `fit`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from holdfast._typing import FloatArray
from holdfast.answers.fitted import Fitted
from holdfast.answers.held_out import HeldOutPredictions, held_out
from holdfast.answers.influence import Influence, influence
from holdfast.answers.intervals import predict_interval
from holdfast.answers.model import Model
from holdfast.answers.problem import Problem
from holdfast.answers.without import HeldOutCoefficients, coef_without, predict_without
from holdfast.data.numbers import whole_number
from holdfast.exceptions import NotSupportedError
from holdfast.holdout.plan import Plan
from holdfast.holdout.verify import Verification, verify
from holdfast.progress import shows_progress


class Questions(ABC):
    """What a fitted model says about rows that it, or a model like it, never saw."""

    #: What questions are put to; None before `fit`.
    _fitted: Fitted | None = None

    def _asked(self) -> Fitted:
        """Return the fitted model as a value."""
        check_is_fitted(self)
        assert self._fitted is not None  # set by every fit
        return self._fitted

    @property
    def _problem(self) -> Problem:
        """What the model was fitted to."""
        check_is_fitted(self)
        assert self._fitted is not None
        return self._fitted.problem

    @abstractmethod
    def _new_rows(self, X: Any) -> Any:
        """Return new rows, checked."""

    def _fitted_model(self) -> Model:
        """Return the chosen kernel on all rows."""
        return self._asked().model

    @property
    def alphas_(self) -> FloatArray:
        """The penalties compared with the chosen kernel, shape (a,)."""
        return self._problem.alphas

    def explain(self) -> Plan:
        """Return the plan of `fit`: the path taken; cost and memory of each, and why.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from holdfast import KernelRidgeCV
        >>> X, y = load_diabetes(return_X_y=True)
        >>> KernelRidgeCV(gamma=10.0).fit(X, y).explain().path
        'spectral'
        """
        plan = self._asked().plan
        assert plan is not None  # every fit has one
        return plan

    @shows_progress
    def verify(self, n_experiments: int = 5, random_state: Any = 0) -> Verification:
        """Return how far the fast predictions lie from models that are really retrained.

        Parameters
        ----------
        n_experiments : int
            How many experiments of `fit` to retrain, drawn at random.
        random_state : int, RandomState or None
            Seed of the draw.

        Returns
        -------
        Verification
            ``verified``, ``max_relative_error``; it prints what was found in a sentence.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from holdfast import KernelRidgeCV
        >>> X, y = load_diabetes(return_X_y=True)
        >>> KernelRidgeCV(gamma=10.0).fit(X, y).verify(3).verified
        True
        """
        fitted = self._asked()
        model, problem = fitted.model, fitted.problem
        if problem.reselects:
            raise NotSupportedError(
                'held_out_basis="reselect" retrains every experiment already: there is no fast '
                "prediction to verify.",
                argument="held_out_basis",
            )
        count = whole_number("n_experiments", n_experiments)
        tasks = model.tasks(problem.experiments)
        path = model.plan(tasks, problem.alphas.size).path
        chosen = np.flatnonzero(np.isin(problem.alphas, fitted.alpha))
        return verify(model.smoother, tasks, problem.alphas, path, count, random_state, chosen)

    def _leverages(self, alpha: float | None = None) -> FloatArray:
        """Return S_ii of every training row: the derivative of its fitted value by its own target.

        Between 0 and 1; 0 for rows of weight zero. Their sum is the model's effective number of
        parameters, the intercept included. By default at the model's penalty (the first, if it
        has one per target).
        """
        fitted = self._asked()
        return fitted.model.smoother.leverages(float(fitted.penalties(alpha)[0]))

    # -- held-out models ---------------------------------------------------------------------------

    @shows_progress
    def held_out(
        self,
        cv: Any = None,
        groups: ArrayLike | None = None,
        alphas: ArrayLike | None = None,
    ) -> HeldOutPredictions:
        """Return exact held-out predictions of the training rows for any way of holding out.

        Parameters
        ----------
        cv : optional
            As in the constructor; None: the experiments of `fit`.
        groups : array-like of shape (m,), optional
            For splitters and scores that use groups; None: the groups of `fit`.
        alphas : array-like, optional
            Penalties; None: the grid of `fit`.

        Notes
        -----
        The held-out predictions of `fit` are kept if they are small (16 MB), and returned for its
        experiments and penalties. Otherwise its factors give the answer and nothing is retrained,
        with two exceptions: ``held_out_basis="reselect"``, which means retraining, and experiments
        whose rounding errors would pass the promise of 1e-8.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from sklearn.model_selection import KFold
        >>> from holdfast import KernelRidgeCV
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = KernelRidgeCV(gamma=10.0, alphas=[0.1, 1.0, 10.0], scoring="r2").fit(X, y)
        >>> found = model.held_out(cv=KFold(10, shuffle=True, random_state=0))
        >>> found.score().round(2)  # one for each penalty
        array([0.48, 0.51, 0.45])
        """
        return held_out(self._asked(), cv, groups, alphas)

    def predict_without(
        self, rows: ArrayLike, X: Any = None, alpha: float | ArrayLike | None = None
    ) -> FloatArray:
        """Return predictions by the model that never saw `rows`.

        Parameters
        ----------
        rows : array-like of int
            Training rows to hold out; `held_out_basis` says what happens to basis rows among them.
        X : rows, optional
            Rows to predict, in any form that `predict` takes: rows that were held out, rows that
            were trained on, new ones. None: the held-out rows themselves.
        alpha : float or ndarray of shape (v,), optional
            Penalty, or one per target; default: the chosen ``alpha_``.

        Returns
        -------
        ndarray of shape (k,) or (k, v)
            One row per predicted row; decision values for a classifier. Lazy for a Dask X.

        Notes
        -----
        f₋H(x) = v(x)·β₋H with β₋H = M(z − V_Hᵀr_H): Cawley and Talbot (2004, A.4),
        Pahikkala et al. (2006, f_L).

        Examples
        --------
        >>> import numpy as np
        >>> from holdfast import KernelRidgeCV
        >>> X = np.linspace(0, 6, 40)[:, None]
        >>> model = KernelRidgeCV(gamma=1.0, alphas=[1e-3]).fit(X, np.sin(X[:, 0]))
        >>> model.predict_without([3, 4], X=[[0.5], [3.0]]).shape
        (2,)
        """
        fitted = self._asked()
        new = None if X is None else self._new_rows(X)
        return predict_without(fitted, rows, new, alpha)

    def coef_without(
        self, rows: ArrayLike, alpha: float | ArrayLike | None = None
    ) -> HeldOutCoefficients:
        """Return the coefficients of the model that never saw `rows`.

        Parameters
        ----------
        rows : array-like of int
        alpha : float or ndarray of shape (v,), optional
            Penalty, or one per target; default: the chosen ``alpha_``.

        Returns
        -------
        HeldOutCoefficients
            ``dual_coef``, ``intercept`` and, for a linear kernel, ``coef``. Coefficients of basis
            rows that left the basis are zero, as are those of held-out rows of a dense model.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from holdfast import KernelRidgeCV
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = KernelRidgeCV("linear", alphas=[1.0]).fit(X, y)
        >>> model.coef_without([0, 1, 2]).coef.shape == model.coef_.shape
        True
        """
        return coef_without(self._asked(), rows, alpha)

    # -- new rows ----------------------------------------------------------------------------------

    def predict_interval(
        self, X: Any, level: float | Sequence[float] = 0.9, method: str = "plus"
    ) -> FloatArray:
        """Return lower and upper bounds for the target of each new row.

        Parameters
        ----------
        X : rows
            As in `predict`.
        level : float or sequence of float
            How often the bounds should hold.
        method : {"plus", "gaussian"}
            "plus": jackknife+ or CV+ by the experiments of `fit`, which must test each row once;
            it holds at least 1 − 2(1 − level) of the time, whatever the distribution. "gaussian":
            by the `return_std` of `predict`.

        Returns
        -------
        ndarray of shape (k, 2), (k, 2, levels), (k, 2, v) or (k, 2, levels, v)
            Lower and upper bounds; infinite where there are too few rows for the level.

        Notes
        -----
        Barber, Candès, Ramdas & Tibshirani 2021. Where the experiments hold out whole groups (the
        `groups` of `fit`), the bounds are for a row of a *new* group: Lee, Barber & Willett 2023.
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
        fitted = self._asked()
        fitted.refuse_classes("predict_interval")
        return predict_interval(fitted, self._new_rows(X), level, method)

    @property
    def noise_variance_(self) -> float | FloatArray:
        """σ̂² at ``alpha_`` that makes the held-out targets of `fit` most likely, per target.

        σ̂² = Σ_H r_Hᵀ(I − S_HH)r_H / Σ|H| over the experiments of `fit`, in units of √w y.
        """
        found = np.square(self._asked().noise)
        return float(found[0]) if self._problem.flat else found

    # -- rows that matter --------------------------------------------------------

    def influence(self, groups: ArrayLike | None = None) -> Influence:
        """Return how much each row, or each group, moves the model.

        Parameters
        ----------
        groups : array-like of shape (m,), optional
            "Which subject moves the model most?"; None: row by row.

        Returns
        -------
        Influence
            ``leverage``, ``residual``, ``cook``, ``to_frame()``; groups in sorted order.

        Notes
        -----
        At ``alpha_``, or at each target's own penalty if there are several. Cook's distance of H is
        Σ_j w_j (f − f₋H)(x_j)² / (tr S · s²), s² = Σ w e²/(m − tr S); see `holdfast.answers`.
        ``leverage`` is of shape (n, v) where the penalties of the targets differ.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_diabetes
        >>> from holdfast import KernelRidgeCV
        >>> X, y = load_diabetes(return_X_y=True)
        >>> y[7] += 1000.0  # a slip of the pen
        >>> model = KernelRidgeCV(gamma=10.0, alphas=[1.0]).fit(X, y)
        >>> int(np.argmax(model.influence().cook))
        7
        """
        return influence(self._asked(), groups)
