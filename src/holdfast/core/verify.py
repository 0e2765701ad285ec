"""How far fast predictions lie from refits, and what double precision cannot represent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.core.accuracy import PROMISE
from holdfast.core.experiments import Tasks
from holdfast.core.factor import FeatureFactor, KernelFactor
from holdfast.core.feature_smoother import FeatureSmoother
from holdfast.core.kernel_smoother import KernelSmoother
from holdfast.core.lapack import EPS, SOME_ROWS, SOME_TARGETS, evenly_spaced
from holdfast.core.predict import predict, predict_with_error
from holdfast.core.rows import StreamedRows, row_chunks
from holdfast.core.smoother import Smoother
from holdfast.progress import report

#: Two ways to the same numbers may differ by this many times what double precision cannot
#: represent.
FLOORS = 3.0
#: Differences beyond this are no rounding errors.
WRONG = 1e-3
#: Test rows that the floor is computed for.
FLOOR_ROWS = 16


@dataclass(frozen=True, eq=False)
class Verification:
    """How far the fast predictions lie from models that were really refitted.

    Attributes
    ----------
    max_relative_error : float
        Largest of `relative_errors`.
    relative_errors : ndarray of shape (n, a)
        For each experiment and alpha, the largest difference over the standard deviation of y, or
        over the distance of the prediction from its mean if that is larger.
    experiments : ndarray of int, shape (n,)
        Which experiments were refitted.
    alphas : ndarray of shape (a,)
    chosen : ndarray of int
        Which of the penalties the model uses.
    rounding : ndarray of shape (c,)
        What double precision cannot represent of held-out predictions at the penalties that the
        model uses, in the same units.
    """

    max_relative_error: float
    relative_errors: FloatArray
    experiments: IntArray
    alphas: FloatArray
    chosen: IntArray
    rounding: FloatArray

    @property
    def chosen_relative_error(self) -> float:
        """Largest difference at the penalties that the model uses."""
        return float(self.relative_errors[:, self.chosen].max())

    @property
    def verified(self) -> bool:
        """Whether predictions at the penalties that the model uses are as exact as promised."""
        return self.within(PROMISE)

    def within(self, tolerance: float) -> bool:
        """Whether differences are at most `tolerance`, beside what double precision cannot do."""
        allowed = tolerance + FLOORS * self.rounding
        return bool((self.relative_errors[:, self.chosen] <= allowed).all())

    def __repr__(self) -> str:
        n, floor = self.experiments.size, float(self.rounding.max(initial=0.0))
        difference = (
            f"{n} experiment{'s' * (n > 1)} refitted, largest difference "
            f"{self.chosen_relative_error:.0e} standard deviations of y"
        )
        if self.verified:
            return f"<verified: {difference}.>"
        if self.chosen_relative_error > WRONG:
            return f"<WRONG: {difference}. Please report this with the data, if you can.>"
        return f"<{difference}; double precision represents them to {floor:.0e}.>"


def verify_tasks(
    smoother: Smoother,
    tasks: Tasks,
    alphas: FloatArray,
    path: str,
    count: int,
    seed: int,
    chosen: IntArray,
    *,
    stated: bool = False,
) -> Verification:
    """Return how far the predictions of some tasks, drawn at random, lie from refits.

    `stated` says that the fit stated errors beyond the promise and refitted nothing. The few tasks
    drawn here could be refitted, and would then be compared with themselves.
    """
    drawn = np.random.default_rng(seed).permutation(len(tasks))
    part = tasks.select(np.sort(drawn[: min(count, len(tasks))]))
    errors = differences(smoother, part, alphas, path, refits=not stated)
    rounding = rounding_floor(smoother, part, alphas[chosen])
    return Verification(float(errors.max()), errors, part.source, alphas, chosen, rounding)


def differences(
    smoother: Smoother, tasks: Tasks, alphas: FloatArray, path: str, *, refits: bool = True
) -> FloatArray:
    """Return for each task and alpha the largest difference from refitting, over the yardstick."""
    fast = predict_with_error(smoother, tasks, alphas, path, refits=refits).values
    targets, errors = smoother.data.targets, np.empty((len(tasks), alphas.size))
    mean = targets.Y[smoother.data.weights.trained].mean(axis=0)
    for j in range(len(tasks)):
        slow = predict(smoother, tasks.select(np.array([j])), alphas, "refit")
        known = fast[:, tasks.test.ptr[j] : tasks.test.ptr[j + 1]]
        yardstick = np.maximum(targets.std, np.abs(slow - mean))
        errors[j] = (np.abs(known - slow) / yardstick).max(axis=(1, 2))
        report(j + 1, len(tasks), "refitting to verify")
    return errors


def rounding_floor(smoother: Smoother, tasks: Tasks, alphas: FloatArray) -> FloatArray:
    """Return what double precision cannot represent of held-out predictions, at each penalty.

    In standard deviations of y, the largest of some test rows and targets.
    """
    rows = np.unique(tasks.test.values)
    rows = rows[evenly_spaced(rows.size, FLOOR_ROWS)]
    data = smoother.data
    largest = np.abs(data.unpenalised.U).max(initial=0.0)
    level = (np.abs(data.targets.level).sum(axis=0) * largest / data.targets.std).max()
    floor = np.empty(alphas.size)
    with np.errstate(all="ignore"), smoother.own_threads():
        for a, alpha in enumerate(alphas.tolist()):
            if isinstance(smoother, KernelSmoother):
                floor[a] = _dense_floor(smoother, rows, alpha)
            elif isinstance(smoother, FeatureSmoother):
                floor[a] = _basis_floor(smoother, rows, alpha)
    return np.asarray(np.maximum(EPS * floor, EPS * level))


def _dense_floor(smoother: KernelSmoother, rows: IntArray, alpha: float) -> float:
    """Return √(Σ_j k_xj² c_j² + Σ_i u_i² Σ_j k_ij² c_j²) over the std of y, each row left out.

    c are the coefficients of the model without the row and u = (K + α)⁻¹k_x.
    """
    weights, targets = smoother.data.weights, smoother.data.targets
    live, some = weights.rows, evenly_spaced(targets.count, SOME_TARGETS)
    H = np.searchsorted(live, rows[weights.trained[rows]])
    if not H.size:
        return 0.0
    factor = smoother.factors_for(np.full(targets.count, alpha))[0][2]
    assert isinstance(factor, KernelFactor)
    V, R = np.asarray(factor.V)[live], factor.R(np.array([alpha]))[0]
    G, c = (V[H] * R) @ V.T, V @ (R[:, None] * factor.z[:, some])
    U = G / G[np.arange(H.size), H, None]  # −u beside the row itself
    models = c[None] - U[..., None] * c[H][:, None]  # (h, n, v)
    models[np.arange(H.size), H], U[np.arange(H.size), H] = 0.0, 0.0
    root = weights.root[live]
    flat = np.square(models * root[:, None]).transpose(1, 0, 2).reshape(live.size, -1)
    sizes = np.empty(flat.shape)
    for part in row_chunks(live.size, live.size):
        sizes[part] = np.square(smoother.K[live[part]][:, live]) @ flat
    each = (sizes * np.square(root[:, None])).reshape(live.size, H.size, some.size)
    square = each[H, np.arange(H.size)] + np.einsum("kn,nkv->kv", np.square(U), each)
    lengths = np.sqrt(square) / (root[H, None] * targets.std[some])
    return float(lengths.max(initial=0.0))


def _basis_floor(smoother: FeatureSmoother, rows: IntArray, alpha: float) -> float:
    """Return √(Σ_j k(x,b_j)² c_j² + Σ_j u_j² (Σ_i k_ij² r_i² + α² Σ_l A_jl² c_l²)) likewise.

    The sum over rows is estimated from a sample. A model of columns has no kernel values.
    """
    data, features = smoother.data, smoother.features
    live, some = data.weights.rows, evenly_spaced(data.targets.count, SOME_TARGETS)
    sample = live[evenly_spaced(live.size, SOME_ROWS)]
    both, k = np.concatenate([sample, rows]), sample.size
    with_kernel = features.with_kernel(both)
    if with_kernel is None:
        return 0.0
    factor = smoother.factor(alpha)
    assert isinstance(factor, FeatureFactor)
    V = StreamedRows(features, factor.B, data, factor.T).of(with_kernel[1], both)
    K, K_x = data.weights.root[sample, None] * with_kernel[0][:k], with_kernel[0][k:]
    D, A, N = factor.D(np.array([alpha]))[0], features.penalty_matrix, factor.N
    beta = D[:, None] * factor.z[:, some]
    c, r = N @ beta, data.targets.Ys[sample][:, some] - V[:k] @ beta
    U = D[:, None] * (V[k:] / data.weights.root[rows, None]).T
    sums = np.square(K).T @ np.square(r) * (live.size / k)
    sums += alpha**2 * (np.square(A) @ np.square(c))
    square = np.square(K_x) @ np.square(c) + np.square(N @ U).T @ sums
    return float((np.sqrt(square) / data.targets.std[some]).max(initial=0.0))
