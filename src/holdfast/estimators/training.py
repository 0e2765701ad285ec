"""One training problem after all checks: its engine, its tasks, its held-out values and scores.

An estimator turns its arguments into a `Training` once; everything that is asked later (`fit`,
`held_out`, `verify`, a search over kernels) is a function of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from holdfast._typing import FloatArray, IntArray
from holdfast.basis import Fixed, Selector, as_selector, resolve_basis
from holdfast.basis.base import whole_number
from holdfast.cluster.rows import DaskRows
from holdfast.data.dask import is_dask
from holdfast.estimators.engine import Engine
from holdfast.estimators.inputs import as_data, primal_features
from holdfast.estimators.results import Verification
from holdfast.exceptions import (
    InvalidInputError,
    KernelError,
    NotSupportedError,
    SelectionBiasWarning,
    warn,
)
from holdfast.experiments import Experiments, Policy, Tasks, resolve
from holdfast.holdout.digits import basis_shrinks
from holdfast.holdout.plan import Plan
from holdfast.kernels import FunctionKernel, Kernel, Precomputed
from holdfast.kernels.matrix import KernelData
from holdfast.progress import report
from holdfast.scores.scoring import Scores, Scoring, combine, score_experiments
from holdfast.smoother.systems import basis_jitter

#: Doubles of held-out predictions that are kept at once; wider targets are taken in chunks.
CHUNK_DOUBLES = 2**27


@dataclass(frozen=True, eq=False)
class Training:
    """What `fit` saw, after checks: enough to answer any later held-out question.

    Attributes
    ----------
    X : rows of the data
    Y : ndarray of shape (m, v)
        Targets that the algebra works on (±1 for a classifier).
    labels : ndarray of shape (m, v) or (m,)
        Targets that scores are computed with (class labels for a classifier).
    weights : ndarray of shape (m,)
    groups : ndarray or None
    experiments : Experiments
    alphas : ndarray of shape (a,)
    flat : bool
        Whether y was one-dimensional.
    seed : int
        Seed of everything random that `fit` does.
    basis : None, number, rows or selector
        As the user gave it.
    policy : str
        What happens to basis rows that are held out.
    bias : bool
    jitter : float
        ε relative to the mean diagonal of K_BB.
    path : str
    memory : float
        Bytes that feature rows may take.
    """

    X: Any
    Y: FloatArray
    labels: NDArray[Any]
    weights: FloatArray
    groups: NDArray[Any] | None
    experiments: Experiments
    alphas: FloatArray
    flat: bool
    seed: int
    basis: Any
    policy: Policy
    bias: bool
    jitter: float
    path: str
    memory: float

    @cached_property
    def offset(self) -> FloatArray:
        """Weighted mean of the targets, taken out before and put back after all algebra."""
        return np.asarray(self.weights @ self.Y / self.weights.sum()) * self.bias

    # -- the model --------------------------------------------------------------------------------

    def selector(self) -> Selector | None:
        """Return the selector of basis rows, after a word about its bias if it needs one."""
        selector = as_selector(self.basis, self.X.shape[0])
        if selector is None:
            return None
        if self.policy == "reselect":
            if isinstance(selector, Fixed) or "experiments" in selector.needs:
                raise NotSupportedError(
                    'held_out_basis="reselect" chooses basis rows anew from the training rows of '
                    f"each experiment, which {type(selector).__name__} does not allow. Pass a "
                    "number of rows or another selector."
                )
        elif selector.data_dependent:
            warn(
                f"{type(selector).__name__} chose the basis rows by looking at rows that are "
                "later held out, so the held-out scores may be optimistic: use "
                'held_out_basis="reselect" for an estimate without that bias.',
                SelectionBiasWarning,
            )
        return selector

    def choose_basis(self, selector: Selector | None, data: KernelData) -> IntArray | None:
        """Return the basis rows of the model on all rows, or None for a dense model."""
        return resolve_basis(
            selector,
            data,
            self.Y,
            self.weights,
            self.groups,
            self.experiments,
            np.random.default_rng(self.seed),
        )

    def data(self, kernel: Kernel | Precomputed) -> KernelData:
        """Return the rows with their kernel."""
        return as_data(kernel, self.X, self.basis)

    def engine(
        self, kernel: Kernel | Precomputed, data: KernelData, basis: IntArray | None
    ) -> Engine:
        """Return the engine on all rows."""
        if isinstance(kernel, Kernel) and kernel.accepts_objects:
            _require_symmetric(kernel, data)
        if is_dask(self.X):
            return self._dask_engine(data, basis)
        features = primal_features(kernel, self.X, basis is None)
        if basis is None and features is None and 16.0 * len(data) ** 2 > self.memory:
            raise InvalidInputError(
                f"a dense model of {len(data)} rows needs {16e-9 * len(data) ** 2:.3g} GB, more "
                f"than the {self.memory / 1e9:.3g} GB it may take. Pass basis=1000 (or another "
                "number of basis rows), or raise memory_limit."
            )
        return Engine(
            data,
            self.weights,
            self.Y - self.offset,
            basis=basis,
            features=features,
            bias=self.bias,
            shift=0.0 if basis is None else basis_jitter(data, basis, self.jitter),
            definite=isinstance(kernel, Precomputed) or kernel.positive_semidefinite,
            trusted=not (isinstance(kernel, Precomputed) or kernel.accepts_objects),
            memory=self.memory,
        )

    def _dask_engine(self, data: KernelData, basis: IntArray | None) -> Engine:
        from holdfast.cluster.engine import DaskEngine  # its own door: most fits need none of it

        assert isinstance(data, DaskRows)
        return DaskEngine(
            data,
            self.weights,
            self.Y - self.offset,
            basis=basis,
            bias=self.bias,
            shift=0.0 if basis is None else basis_jitter(data, basis, self.jitter),
        )

    # -- held-out values --------------------------------------------------------------------------

    def tasks(self, basis: IntArray | None, experiments: Experiments) -> Tasks:
        """Return what the experiments become under the policy."""
        policy: Policy = self.policy
        if policy == "reselect" and basis is None:
            policy = "remove"
        return resolve(experiments, weights=self.weights, basis=basis, policy=policy)

    def plan(self, engine: Engine, tasks: Tasks, n_alphas: int) -> Plan:
        """Return which path the tasks take."""
        return engine.plan(tasks, self.Y.shape[1], n_alphas, self.path)

    def held_out(
        self,
        engine: Engine,
        tasks: Tasks,
        alphas: FloatArray,
        plan: Plan,
        columns: slice = slice(None),
    ) -> FloatArray:
        """Return held-out predictions (a, k, v) of some targets, the offset put back."""
        if self.policy == "reselect" and engine.basis is not None:
            values = self._reselected(engine, tasks, alphas, columns)
        else:
            values = engine.predict(tasks, alphas, plan.path, columns)
        values += self.offset[columns]
        return values

    def _reselected(
        self, engine: Engine, tasks: Tasks, alphas: FloatArray, columns: slice
    ) -> FloatArray:
        """Return predictions of models whose basis rows come from their own training rows.

        All targets have their say in the choice, whichever columns are predicted.
        """
        data, v = engine.data, engine.Y[:1, columns].shape[1]
        predictions = np.empty((alphas.size, tasks.test.values.size, v))
        for j in range(len(tasks)):
            weights = self._without(tasks.held[j])
            train = np.flatnonzero(weights > 0)
            chosen = resolve_basis(
                clone(self.basis) if isinstance(self.basis, Selector) else self.basis,
                data.take(train),
                self.Y[train],
                weights[train],
                None if self.groups is None else self.groups[train],
                None,
                # Seeded by the rows themselves: the same hold-out gives the same basis anywhere.
                np.random.default_rng([self.seed, crc32(np.sort(tasks.held[j]).tobytes())]),
            )
            assert chosen is not None
            basis = train[chosen]
            shift = basis_jitter(data, basis, self.jitter)
            predictions[:, tasks.test.ptr[j] : tasks.test.ptr[j + 1]] = engine.retrain(
                basis, weights, tasks.test[j], alphas, shift=shift, columns=columns
            )
            report(j + 1, len(tasks), "retraining on reselected basis rows")
        return predictions

    def _without(self, held: IntArray) -> FloatArray:
        weights = self.weights.copy()
        weights[held] = 0.0
        return weights

    def scores(
        self, scoring: Scoring, engine: Engine, tasks: Tasks, plan: Plan, each_target: bool
    ) -> Scores:
        """Return the scores of all penalties; very many targets are taken in chunks."""
        v, k = self.Y.shape[1], tasks.test.values.size
        step = v
        if self.labels.ndim == 2:
            step = max(1, CHUNK_DOUBLES // (self.alphas.size * k))
        parts, sizes = [], []
        for start in range(0, v, step):
            columns = slice(start, min(start + step, v))
            predictions = self.held_out(engine, tasks, self.alphas, plan, columns)
            labels = self.labels if self.labels.ndim == 1 else self.labels[:, columns]
            parts.append(
                score_experiments(
                    scoring,
                    predictions,
                    tasks.test.values,
                    tasks.test.ptr,
                    labels,
                    self.weights,
                    each_target=each_target,
                )
            )
            sizes.append(columns.stop - columns.start)
            report(columns.stop, v, "targets")
        return parts[0] if len(parts) == 1 else combine(parts, sizes)

    def verify(self, engine: Engine, n_experiments: int, seed: Any) -> Verification:
        """Return how far the fast predictions of a few experiments lie from retraining.

        Experiments that are trained anew anyway prove nothing, and are drawn last.
        """
        if self.policy == "reselect" and engine.basis is not None:
            raise NotSupportedError(
                'held_out_basis="reselect" retrains every experiment already: there is no fast '
                "prediction to verify."
            )
        tasks = self.tasks(engine.basis, self.experiments)
        count = min(whole_number("n_experiments", n_experiments), len(tasks))
        drawn = np.random.default_rng(seed).permutation(len(tasks))
        if engine.basis is not None:
            again = basis_shrinks(tasks, engine.basis.size)
            drawn = drawn[np.argsort(again[drawn], kind="stable")]
        chosen = np.sort(drawn[:count])
        part, plan = tasks.select(chosen), self.plan(engine, tasks, self.alphas.size)
        fast = self.held_out(engine, part, self.alphas, plan)
        errors = np.empty((count, self.alphas.size))
        for j in range(count):
            basis = None if engine.basis is None else np.delete(engine.basis, part.removed[j])
            weights = self._without(part.held[j])
            slow = self.offset + engine.retrain(
                basis, weights, part.test[j], self.alphas, shift=engine.shift
            )
            gap = np.abs(fast[:, part.test.ptr[j] : part.test.ptr[j + 1]] - slow)
            size = np.abs(slow).max(axis=(1, 2))
            errors[j] = gap.max(axis=(1, 2)) / np.where(size > 0, size, 1.0)
            report(j + 1, count, "retraining to verify")
        return Verification(float(errors.max()), errors, part.source, self.alphas)


def _require_symmetric(kernel: Kernel, data: KernelData) -> None:
    """Refuse a function of the user's that gives k(x, z) ≠ k(z, x), seen on a sample of rows."""
    rows = np.unique(np.linspace(0, len(data) - 1, min(len(data), 64)).astype(np.int64))
    K = data.block(rows, rows)
    gap = np.abs(K - K.T)
    if gap.max() > 1e-8 * np.abs(K).max():
        name = kernel.name if isinstance(kernel, FunctionKernel) else repr(kernel)
        i, j = rows[np.array(np.unravel_index(np.argmax(gap), gap.shape))]
        raise KernelError(
            f"kernel must be symmetric; {name} gives values for rows {i} and {j} that differ "
            f"by {gap.max():.3g} when the rows change places. Return k(x, z) = k(z, x)."
        )
