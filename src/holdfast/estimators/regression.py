"""Kernel ridge regression whose penalty is chosen by exact cross-validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, overload

from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from holdfast._typing import FloatArray
from holdfast.answers.intervals import standard_deviation
from holdfast.data.dask import local
from holdfast.estimators.base import CrossValidatedKernelRidge, OneKernel
from holdfast.estimators.inputs import check_targets


class Regression(RegressorMixin, CrossValidatedKernelRidge):  # type: ignore[misc]  # sklearn is untyped
    """What estimators of numbers have in common."""

    @property
    def _classes(self) -> None:
        return None

    def _targets(
        self, y: Any, weights: FloatArray
    ) -> tuple[FloatArray, NDArray[Any], FloatArray, bool]:
        Y, flat = check_targets(y, weights.size)
        return Y, Y, weights, flat

    @overload
    def predict(self, X: Any, return_std: Literal[False] = ...) -> FloatArray: ...

    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[FloatArray, FloatArray]: ...

    def predict(
        self, X: Any, return_std: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return predictions for new rows, shape (k,) or (k, v).

        Parameters
        ----------
        X : rows
        return_std : bool
            Also return the standard deviation of a new observation of weight one, under the
            Gaussian view with ``noise_variance_``: σ²(1 + φᵀDφ) on basis rows, for a dense model
            that of Gaussian-process regression.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from holdfast import KernelRidgeCV
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = KernelRidgeCV(gamma=10.0, alphas=[1.0]).fit(X[:400], y[:400])
        >>> mean, std = model.predict(X[400:], return_std=True)
        >>> mean.shape == std.shape == (42,)
        True
        """
        values, flat = self._decision(X), self._training.flat
        values = values[:, 0] if flat else values
        if not return_std:
            return values
        std = self._deviation(X)
        return local(values), std[:, 0] if flat else std

    def _deviation(self, X: Any) -> FloatArray:
        """Return the standard deviation of new observations, shape (k, v)."""
        return standard_deviation(self._fitted_state(), self._new_rows(X))

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


@dataclass(eq=False, repr=False)
class KernelRidgeCV(OneKernel, Regression):
    """Kernel ridge regression (RLS, LS-SVM) with exact held-out predictions for every penalty.

    The parameters, in this order: the kernel (`kernel` to `standardize`), what the model is made of
    (`basis` to `jitter`), the penalty (`alphas` to `rule`), how it is scored (`cv` to `pooled`),
    and how all that is computed (`path` to `verbose`).

    Parameters
    ----------
    kernel : str, kernel object or callable, default="rbf"
        "linear", "poly", "rbf", "laplacian", "matern12", "matern32", "matern52", "cosine",
        "precomputed"; an object of `holdfast.kernels` or of scikit-learn's
        Gaussian-process kernels; or a function ``kernel(X, Z)`` that returns the matrix of two
        sets of rows, which may be arbitrary objects.
    gamma, degree, coef0, kernel_params
        As in `sklearn.kernel_ridge.KernelRidge`. A list of values (or a list of kernels as
        `kernel`) is a grid: the best kernel is chosen together with the best penalty.
        ``gamma="search"`` compares widths around the median distance of a sample of rows: five, a
        factor of 4 apart, and up to two more if the best lies at an end, on a third of the rows
        where there are 450 or more; then, on all rows, half and twice the best while the score
        improves. The width is chosen by the same held-out score, which makes that score a little
        optimistic: `nested` says how much. A `GridEdgeWarning` says when the best width lies at an
        end. None is 1 / n_features. For one width per feature pass a kernel object, such as
        ``RBF(gamma=[0.1, 2.0])``.
    standardize : bool, default=False
        For a linear kernel: divide each column by its standard deviation over the training rows of
        each experiment, like a `StandardScaler` that is fitted inside each fold; the bias takes
        care of the means. Not for other kernels, because scaling would change every kernel value in
        every experiment.
    basis : None, "auto", int, float, array-like of int or selector, default=None
        None: a dense model. "auto": a dense model of up to 5,000 rows if it fits into memory, else
        as many random rows (100 to 2,000) as fit; `explain` says which. Otherwise the training rows
        that the model uses as its basis: how many random rows (or which fraction), row numbers, or
        a selector from `holdfast.basis`.
    held_out_basis : {"remove", "keep", "train", "skip", "reselect"}, default="remove"
        What happens to basis rows that are held out: they leave the training set and the basis
        ("remove"), or only the training set ("keep"); they stay in both ("train"); they stay in
        both and are not tested ("skip"); or the basis is chosen again from the training rows of
        each experiment, by refits ("reselect").
    fit_intercept : bool, default=True
        Whether to fit a bias without penalty.
    trend : None, "linear", list of columns or callable, default=None
        Further columns without penalty beside the kernel part: all columns of X ("linear"), those
        named (by name or number), or what ``trend(X)`` returns for rows as an array. This covers
        universal kriging, partially linear models and fixed effects. An experiment that leaves a
        column undetermined raises an error that names it.
    jitter : float, default=1e-10
        ε, relative to the mean diagonal of K_BB: the penalty of a sparse model is λ aᵀ(K_BB + εI)a.
        Part of the model's definition; never increased silently.
    alphas : array-like or None, default=None
        Penalties λ to compare, in any order. An LS-SVM with parameter γ has λ = 1/(2γ). None: 30
        penalties that follow the data, from T/10⁹ to T, where T is the trace of the weighted,
        centred kernel matrix (of a sample of rows, scaled to all). If the best lies at an end, the
        grid is extended there, once, and `explain` says so. A grid of your own is never extended:
        you get a `GridEdgeWarning` instead.
    alpha_per_target : bool, default=False
        Choose one penalty for each target.
    rule : {"best", "1se"}, default="best"
        The best score, or the largest penalty within one standard error of it: over rows, or groups
        or blocks that are held out whole, which counts a row that is tested several times once (by
        leaving out parts of them, where the score is not a mean over rows); over experiments with
        ``pooled=False``.
    cv : None, int, splitter or iterable, default=None
        None: leave-one-out. A number of folds, any scikit-learn splitter, an iterable of (train,
        test) pairs (every row that is not in train is held out) or of `HoldOut` experiments.
    scoring : str, callable or None, default=None
        Any scikit-learn scorer; None: negative mean squared error. Scores use `sample_weight`.
        "pearson", "kendall_tau" and "concordance" score how predictions follow the targets within
        the groups of `fit`, averaged over groups; all rows of positive weight count equally.
        "log_density" scores normal held-out densities instead: the mean log density per row.
    pooled : bool, default=True
        Compare penalties by the score of all held-out predictions together, or by the average
        over experiments.
    path : {"auto", "spectral", "per_fold", "cholesky", "refit"}, default="auto"
        How held-out predictions are computed; all give the same numbers. "refit" really refits
        every experiment from scratch, which is slow and meant for checks.
    memory_limit : float, str or None, default=None
        Bytes (or text such as "4GB") that the m × n feature rows may take; None: half of the
        available memory. Beyond it they are recomputed, block by block, whenever they are needed.
    random_state : int, RandomState or None, default=None
        Seed for the choice of basis rows.
    verbose : int, default=0
        1 shows the progress of long work: by a bar where tqdm is installed, else by lines.

    Attributes
    ----------
    alpha_ : float or ndarray of shape (v,)
        The chosen penalty, one per target with `alpha_per_target`.
    alphas_ : ndarray of shape (a,)
        The penalties that were compared with the chosen kernel.
    best_score_ : float or ndarray of shape (v,)
        Its held-out score.
    best_index_ : int or ndarray of shape (v,)
        Its place in `cv_results_`.
    kernel_ : kernel object
        The kernel; the best one, if there was a grid.
    best_params_ : dict
        The arguments that it came from, and the penalty: ``cv_results_["params"][best_index_]``.
    basis_selector_ : selector or None
        What chose the basis rows.
    cv_results_ : dict of ndarrays
        ``alpha``, ``params``, ``param_alpha``, ``param_kernel``, ``param_gamma``, …,
        ``mean_test_score``, ``std_test_score``, ``se_test_score``, ``pooled_test_score``,
        ``rank_test_score``, ``split{i}_test_score``, ….
    n_splits_ : int
        Number of experiments.
    basis_indices_ : ndarray of int
        Basis rows; all rows for a dense model; m, m + 1, … for `basis.Points`, which are not rows.
    dual_coef_ : ndarray of shape (n,) or (n, v)
        Coefficients of the basis rows.
    intercept_ : float or ndarray of shape (v,)
    trend_coef_ : ndarray of shape (s,) or (v, s)
        Coefficients of the columns of the trend.
    coef_ : ndarray of shape (d,) or (v, d)
        For a linear kernel only: coefficients of the columns of X, as in scikit-learn's `Ridge`.
    jitter_ : float
        The absolute ε used; 0 for a dense model.
    noise_variance_ : float or ndarray of shape (v,)
        The σ̂² that makes the held-out targets of `fit` most likely, computed when asked for.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Notes
    -----
    With basis rows B, held-out rows H, policy "remove" and weights w, the held-out model minimises
    ``Σ_{i∉H} w_i (y_i − b − Σ_j a_j k(x_i,x_j))² + λ aᵀ(K + εI)a``, where j and K run over the
    basis rows B∖H that are not held out; a trend z(x)·c joins the bias b. The predictions of all
    these models come from one factorisation of the whole data.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import KernelRidgeCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(200, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> model = KernelRidgeCV(gamma=0.5, cv=10).fit(X, y)
    >>> bool(model.best_score_ > -0.02)
    True
    >>> model.held_out(cv=5).matrix().shape
    (30, 200, 1)
    """
