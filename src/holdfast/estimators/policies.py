"""Questions about the policy for basis rows, and about the chance in an estimate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from holdfast.answers.fitted import Fitted
from holdfast.answers.policies import Policies, Variation, policies, variation


class PolicyQuestions(ABC):
    """What the ways of holding out basis rows estimate, and how an estimate varies."""

    @abstractmethod
    def _asked(self) -> Fitted:
        """Return the fitted model as a value."""

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
