"""Where the rows are: the few things that a smoother of features asks of all or many of them.

`Source` does them here, block by block, on rows that are kept or made again; `holdfast.cluster` has
the same on chunks of rows that live elsewhere. Everything else is algebra on p × p matrices and
does not know where the rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.data.indices import as_slice
from holdfast.experiments import Ragged, Tasks
from holdfast.linalg import Graded, run_pieces, stacked_qr
from holdfast.smoother.factorise import normal_products, reduced
from holdfast.smoother.features import Features
from holdfast.smoother.moments import Moments, moments, sample_level
from holdfast.smoother.rows import FeatureRows, RowBlocks, StreamedRows, fitted, gram_and_rhs
from holdfast.smoother.scale import RowScale, Targets, Unpenalised

if TYPE_CHECKING:
    from holdfast.smoother.factor import FeatureFactor

__all__ = ["HeldSums", "Identity", "Source"]

#: WᵀW and WᵀYs of some rows.
HeldSums = tuple[FloatArray, FloatArray]
#: From a factor, tasks and penalties to arrays over the test rows (a, k, …) and the tasks (a, J).
Identity = Callable[["FeatureFactor", Tasks, FloatArray], tuple[FloatArray, FloatArray]]
#: Folds with at least this many features gain by running side by side; smaller ones spend their
#: time waiting for the interpreter.
SIDE_BY_SIDE_FROM = 128


class Source:
    """Rows in this process.

    Parameters
    ----------
    features : Features
    scale : RowScale
    unpenalised : Unpenalised
    targets : Targets
    """

    #: Whether rows may be kept in memory.
    keeps: bool = True

    def __init__(
        self, features: Features, scale: RowScale, unpenalised: Unpenalised, targets: Targets
    ) -> None:
        self.features, self.scale = features, scale
        self.unpenalised, self.targets = unpenalised, targets

    def portable(self) -> Features:
        """Return the features for new rows, without the rows of the data."""
        return self.features.portable()

    def level(self) -> FloatArray:
        """Return a first estimate of B (s, p), from a sample of rows."""
        return sample_level(self.features, self.scale, self.unpenalised)

    def moments(
        self, B: FloatArray, W: FloatArray | None, sets: Ragged | None
    ) -> tuple[Moments, Sequence[Moments], FloatArray]:
        """Return the sums of all rows, those of some sets, and the squared length of each row.

        Rows are stored in `W` if that is given.
        """
        index = [] if sets is None else [as_slice(sets[j]) for j in range(len(sets))]
        return moments(
            self.features, B, self.scale, self.unpenalised, self.targets.Ys, W=W, sets=index
        )

    def triangle(self, W: FeatureRows, p: int, ridge: float) -> Graded:
        """Return the triangular factor of the trained rows, with √ridge rows below them."""
        trained = self.scale.trained
        blocks = (rows[trained[part], :p] for part, rows in RowBlocks(W, once=True))
        return stacked_qr(blocks, p, ridge)

    def normal(self, W: FeatureRows, p: int, x: FloatArray) -> FloatArray:
        """Return WᵀWx (p, k) over the trained rows, the unpenalised columns left out."""
        whole = np.zeros((W.shape[1], x.shape[1]))
        whole[:p] = x
        return normal_products(W, whole, self.scale.trained)[:p]

    def reduced(
        self, W: StreamedRows, train: IntArray, Ys: FloatArray
    ) -> tuple[FloatArray, IntArray]:
        """Return the triangle of some rows and their targets Ys (k, v), and the column order."""
        return reduced(RowBlocks(W, train, once=True), Ys)

    def fitted(self, W: FeatureRows, rows: IntArray, theta: FloatArray) -> FloatArray:
        """Return f (a, k, v) of some rows for models θ (a, p + s, v)."""
        return fitted(RowBlocks(W, rows, once=True), self.scale.root[rows], theta)

    def products(self, W: FeatureRows, sets: Ragged, Ys: FloatArray) -> list[FloatArray]:
        """Return WᵀYs of each of some sets."""
        found = [np.zeros((W.shape[1], Ys.shape[1])) for _ in range(len(sets))]
        for j, total in enumerate(found):
            for part, rows in RowBlocks(W, sets[j], once=True):
                total += rows.T @ Ys[sets[j][part]]
        return found

    def sums(self, W: FeatureRows, sets: Ragged, Ys: FloatArray) -> list[HeldSums]:
        """Return WᵀW and WᵀYs of each of some sets."""
        found: list[HeldSums] = [(Ys, Ys)] * len(sets)

        def work(j: int) -> None:
            found[j] = gram_and_rhs(RowBlocks(W, sets[j], once=True), Ys[sets[j]])

        run_pieces(work, range(len(sets)), self._side_by_side(W))
        return found

    def folds(
        self,
        W: FeatureRows,
        tasks: Tasks,
        Ys: FloatArray,
        known: Callable[[int], HeldSums | None],
        models: Callable[[int, HeldSums], FloatArray],
        put: Callable[[int, IntArray | slice, FloatArray], None],
    ) -> None:
        """Hand the predictions of each task's own models over, for its test rows.

        Parameters
        ----------
        W : ndarray or StreamedRows
        tasks : Tasks
        Ys : ndarray of shape (m, v)
        known : callable
            The sums over a task's held-out rows, if they are there already.
        models : callable
            From a task and those sums to its models (p + s, c).
        put : callable
            Takes a task, some of its test rows by their places, and predictions (k, c).
        """

        def work(j: int) -> None:
            held, test = tasks.held[j], tasks.test[j]
            sums, rows = known(j), None
            if sums is None:
                rows = RowBlocks(W, held)
                sums = gram_and_rhs(rows, Ys[held])
            if rows is None or not np.array_equal(held, test):
                rows = RowBlocks(W, test, once=True)
            found, root = models(j, sums), self.scale.root[test, None]
            put(j, slice(None), np.concatenate([W_T @ found for _, W_T in rows]) / root)

        run_pieces(work, range(len(tasks)), self._side_by_side(W))

    def _side_by_side(self, W: FeatureRows) -> int | None:
        # Half of a tridiagonal reduction is matrix-vector products, which BLAS threads hardly speed
        # up. Experiments side by side do, unless their rows come from a user's function.
        together = isinstance(W, np.ndarray) or W.features.parallel
        return None if together and W.shape[1] >= SIDE_BY_SIDE_FROM else 1

    def run(
        self, work: Identity, factor: FeatureFactor, tasks: Tasks, alphas: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``work(factor, tasks, alphas)``, computed where the rows are."""
        return work(factor, tasks, alphas)
