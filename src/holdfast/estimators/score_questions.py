"""What is asked about the score: an honest choice, and chance."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from holdfast.answers.certainty import Method, ScoreInterval, score_interval
from holdfast.answers.nested import NestedPredictions, nested
from holdfast.answers.permutation import PermutationTest, permutation_test
from holdfast.estimators.questions import Questions
from holdfast.progress import shows_progress


class ScoreQuestions(Questions):
    """How sure a score is."""

    @shows_progress
    def nested(self, cv: Any, groups: ArrayLike | None = None) -> NestedPredictions:
        """Return held-out predictions by models whose penalty was chosen without the rows.

        For every outer experiment the penalty, and the kernel if there is a grid of them, is chosen
        on the remaining rows by the model's own `cv`, which splits them again (as scikit-learn's
        ``GridSearchCV`` inside ``cross_val_score``; explicit lists of experiments lose the outer
        rows). Then the outer rows are predicted.

        Parameters
        ----------
        cv : None, int, splitter or iterable
            The outer experiments, as in the constructor.
        groups : array-like of shape (m,), optional
            For splitters of either loop that use groups; None: the groups of `fit`.

        Returns
        -------
        NestedPredictions
            ``.predictions``, ``.alphas``, ``.kernels``, ``.score()``, ``.optimism``,
            ``.to_frame()``.

        Notes
        -----
        ``gamma="search"`` compares nine widths, a factor of 2 apart, about the median distance of
        the rows that an outer experiment leaves: as fine as the search of `fit`, which may also go
        beyond them. Basis rows are those of the fit; `held_out_basis` says what happens to them in
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
        return nested(self._asked(), cv, groups)

    @shows_progress
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
            Labels of groups that change places as a whole: for rows that depend on each other
            within a group. If the targets are the same within every group, any two groups may
            change places; otherwise only groups of the same size.

        Returns
        -------
        PermutationTest
            ``.p_value``, ``.score`` (`best_score_`), ``.null_scores``, ``.plot()``.

        Notes
        -----
        p = (1 + #{null ≥ score}) / (1 + n), a valid p-value for every n. Rows of weight zero take
        no part. Splits that look at the targets (stratified folds) and basis rows that were chosen
        by them are not made again for permuted targets.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from holdfast import KernelRidgeCV
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = KernelRidgeCV(gamma=10.0, alphas=[0.01, 0.1, 1.0, 10.0], cv=5).fit(X, y)
        >>> model.permutation_test(99, random_state=0).p_value
        0.01
        """
        return permutation_test(self._asked(), n_permutations, within, random_state, groups)

    @shows_progress
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
        method : {"auto", "nested", "asymptotic"}, default "auto"
            "nested": Bates, Hastie and Tibshirani (2024), from `n_partitions` random partitions
            into `n_splits` folds; corrected for the bias of smaller training sets. "asymptotic":
            Bayle et al. (2020), the experiments of `fit` with the plain standard error over rows,
            groups, or blocks of rows that are held out together (time, neighbourhoods, purged
            folds); over experiments with ``pooled=False``. "auto": "nested" where random partitions
            hold out as `cv` does (rows or groups are exchangeable) and the score is a mean over
            rows, else "asymptotic".
        n_splits, n_partitions : int
            Folds of a random partition, and how many partitions.
        random_state : int, RandomState or None
            Seed of the partitions.
        groups : array-like of shape (m,), optional
            Groups that are held out whole and count as the independent units; None: the groups of
            `fit`, if its experiments hold out whole groups.

        Returns
        -------
        ScoreInterval
            ``.score``, ``.low``, ``.high``, ``.standard_error`` on the scale of the score, and the
            ``.method`` that was used. "nested" is for means over rows (squared and absolute error,
            R², accuracy, AUC, log loss, …); "asymptotic" takes any scorer.

        Notes
        -----
        The penalty stays `alpha_`; how much choosing it flattered the score is the optimism of
        `nested`. The nested standard error is kept between the plain one and √K times that. R² is
        taken relative to the variance of the tested targets, as `best_score_` is. Scores that are
        not means over rows are jackknifed: at most 20 parts of the units are left out in turn.

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
        return score_interval(
            self._asked(), level, method, n_splits, n_partitions, random_state, groups
        )
