"""What is asked about the score: an honest choice, chance, policies for basis rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from holdfast.answers.certainty import Method, ScoreInterval, score_interval
from holdfast.answers.nested import NestedPredictions, nested
from holdfast.answers.permutation import PermutationTest, permutation_test
from holdfast.answers.policies import Policies, Variation, policies, variation
from holdfast.estimators.questions import Questions


class ScoreQuestions(Questions):
    """How sure a score is, and what it estimates."""

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
            Groups that are held out whole and count as the independent units; None: the groups of
            `fit`, if its experiments hold out whole groups.

        Returns
        -------
        ScoreInterval
            ``.score``, ``.low``, ``.high``, ``.standard_error`` on the scale of the score, and the
            ``.method`` that was used. "nested" is for means over rows (squared and absolute error,
            R², accuracy, AUC, log loss, …); "asymptotic" takes any scorer, "corrected" any that
            needs predictions only.

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

    def policies(
        self,
        names: Sequence[str] | None = None,
        *,
        cv: Any = None,
        groups: ArrayLike | None = None,
    ) -> Policies:
        """Return the held-out score under every policy for held-out basis rows, with its meaning.

        Parameters
        ----------
        names : sequence of str, optional
            Which of "remove", "keep", "train", "skip", "reselect" and "groups". Default: all that
            are possible; "reselect", which trains again, for up to 100 experiments.
        cv : optional
            As in `held_out`; None: the experiments of `fit`.
        groups : array-like of shape (m,), optional
            Groups to hold out whole; None: the groups of `fit`, if there are any.

        Returns
        -------
        Policies
            Printed, a table; ``["remove"]`` is one row of it, ``.plot()`` draws it.

        Notes
        -----
        All are at the penalty of the model. A score about the algorithm says what to expect from
        fitting like this to data like these; one about the predictor says what to expect from this
        fitted model on new rows (Pahikkala et al. 2012, (4) and (5), §6.4). All but "reselect" use
        the factors of `fit`.

        Examples
        --------
        >>> import numpy as np
        >>> from holdfast import KernelRidgeCV
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-3, 3, size=(120, 2))
        >>> y = np.sin(X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=120)
        >>> model = KernelRidgeCV(gamma=0.5, alphas=[0.1], basis=40, cv=5, random_state=0)
        >>> found = model.fit(X, y).policies()
        >>> [one.name for one in found.scores]
        ['remove', 'keep', 'train', 'skip', 'reselect']
        >>> bool(np.isclose(found["remove"].score, model.best_score_)), found["skip"].tested
        (True, 80)
        """
        return policies(self._asked(), names, cv=cv, groups=groups)

    def variation(
        self,
        *,
        n_splits: int = 10,
        draws: int | None = None,
        partitions: int = 10,
        random_state: Any = 0,
    ) -> Variation:
        """Return how the cross-validation estimate varies with the basis draw and the partition.

        Parameters
        ----------
        n_splits : int, default=10
            Folds of each partition. Rows of one group of `fit` stay together.
        draws : int, optional
            How often the basis rows are drawn, the first time as in `fit`. Default: 10, or 1 if
            there is nothing to draw.
        partitions : int, default=10
            How many random partitions of the rows.
        random_state : int, RandomState or None, default=0
            Seed of the partitions.

        Returns
        -------
        Variation
            Printed, a line; ``.scores`` has them all, ``.plot()`` draws them.

        Notes
        -----
        Pahikkala et al. (2012), §6.2, measure this for four data sets: how much of an estimate is
        the chance of its basis rows and folds. It is not the whole error of the estimate: other
        data would give another one, which is what `score_interval` is about. Each draw is one more
        fit; the partitions cost one hold-out each.

        Examples
        --------
        >>> import numpy as np
        >>> from holdfast import KernelRidgeCV
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-3, 3, size=(120, 2))
        >>> y = np.sin(X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=120)
        >>> model = KernelRidgeCV(gamma=0.5, alphas=[0.1], basis=10, random_state=0).fit(X, y)
        >>> found = model.variation(draws=4, partitions=3, n_splits=5)
        >>> found.scores.shape, found.by_draw > found.by_partition
        ((4, 3), True)
        """
        return variation(self._asked(), n_splits, draws, partitions, random_state)
