"""What each path to the held-out predictions costs on this machine.

Costs are seconds, from counts of floating-point operations and a few rates: how fast a matrix
product runs, and how much slower than that an eigendecomposition, a tridiagonal reduction or a
Cholesky factorisation is (R_E, R_I, R_L of Tanaka and Imai 2019). The shipped rates are those of an
ordinary two-core machine: with fixed rates the same fit takes the same path every time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from holdfast._typing import BoolArray, FloatArray
from holdfast.holdout.identity import CG_ROWS, CG_SYSTEMS, STACK_DOUBLES
from holdfast.linalg import CHOLESKY_UP_TO, blas_threads
from holdfast.smoother.base import Form, Sizes
from holdfast.smoother.rows import BLOCK_BYTES, KEEP_BYTES

#: Operations, in units of n³, that the inverse takes after a Cholesky factorisation.
INVERSE = 1.2
#: Steps of conjugate gradients for ordinary held-out rows, and how often these touch a vector.
CG_STEPS, CG_TOUCHED = 12.0, 70.0
#: Fixed cost of a stack of experiments of one size, and of an experiment with its own system, in
#: units of the fixed cost of one experiment in a stack.
PER_STACK, PER_FOLD = 15.0, 7.0
#: Matrices of all rows that a dense model has at once.
DENSE_MATRICES = 4.0
#: Targets as they came, weighted, in coordinates, and the coefficients.
FORMS_OF_TARGETS = 4.0
#: How often predictions are there at once, of single rows and of sets; and how many there are at
#: most, more targets being scored in chunks.
COPIES_OF_ROWS, COPIES_OF_SETS, MOST_PREDICTIONS = 2.0, 5.0, 2**25
#: The matrices of a dense model do not fit the cache: their factorisations take longer by this.
LARGE_REDUCTION = 1.25


@dataclass(frozen=True)
class Rates:
    """Speeds of one machine.

    Attributes
    ----------
    gemm : float
        Operations a second of a large matrix product.
    eigh, reduction, cholesky : float
        Cost of these factorisations of an n × n matrix, in units of n³ operations at that speed.
    stacked : float
        How much slower the many small products of held-out sets are than one large product; half
        as much where the sets have many rows.
    touch : float
        Seconds to read or write one number of a large matrix.
    call : float
        Seconds of fixed cost for one experiment among many of the same size.
    """

    gemm: float = 9e10
    eigh: float = 10.0
    reduction: float = 2.6
    cholesky: float = 0.6
    stacked: float = 3.0
    touch: float = 1.5e-9
    call: float = 6e-5


RATES = Rates()


@dataclass(frozen=True)
class Costs(ABC):
    """Time and memory of each path for one set of tasks.

    Attributes
    ----------
    sizes : Sizes
        Of the smoother.
    h, e, t : ndarray of shape (experiments,)
        Held-out rows, removed basis rows, test rows of each experiment.
    a : int
        Penalties.
    times : int
        How often tasks like these will be asked for.
    """

    sizes: Sizes
    h: FloatArray
    e: FloatArray
    t: FloatArray
    a: int
    times: int = 1

    def seconds(self, path: str) -> float:
        """Return the estimated time of a path, beyond what all paths share."""
        return {"spectral": self._spectral, "fold_gram": self._fold_gram, "single": self._single}[
            path
        ]()

    def bytes(self, path: str) -> float:
        """Return the bytes of memory that a path needs at once."""
        kept = self.a * float(self.t.sum()) * self.sizes.v
        copies = COPIES_OF_SETS if self._sets_in_copies(path) else COPIES_OF_ROWS
        return 8.0 * (self._doubles(path) + copies * min(kept, MOST_PREDICTIONS))

    def _sets_in_copies(self, path: str) -> bool:
        """Whether several copies of the predictions of held-out sets exist at once."""
        return bool(self.h.max(initial=0.0) > 1)

    @abstractmethod
    def _doubles(self, path: str) -> float:
        """Return the same in numbers, the predictions left out."""

    @abstractmethod
    def _factor(self) -> float:
        """Return operations of the factor for every penalty."""

    @abstractmethod
    def _single(self) -> float:
        """Return seconds of one factor for each penalty."""

    @abstractmethod
    def _fold_gram(self) -> float:
        """Return seconds of solving equations for each experiment."""

    @abstractmethod
    def cg(self, a: int) -> BoolArray:
        """Return which experiments take conjugate gradients for `a` penalties at once."""

    #: How much slower the direct systems of held-out sets are than one large product.
    direct_slowdown: ClassVar[float] = RATES.stacked

    def _spectral(self) -> float:
        factor = 0.0 if self.sizes.factorised else self._factor() / RATES.gemm
        return factor + self._sets(self.a)

    def _sets(self, a: int) -> float:
        """Return the time of all |H| × |H| systems for `a` penalties at once."""
        h, e, t, p, v = self.h, self.e, self.t, float(self.sizes.p), float(self.sizes.v)
        alone = h <= 1
        rows = 6.0 * p * RATES.touch + 4.0 * p * a * (1.0 + v) / RATES.gemm
        single_rows = float(alone.sum()) * rows
        h, e, t = h[~alone], e[~alone], t[~alone]
        if not h.size:
            return single_rows
        large = 0.5 * RATES.stacked
        direct = a * (h**2 * p + h**3 / 3.0) * self.direct_slowdown
        cg = 4.0 * CG_STEPS * h * p * a * v * large
        conjugate = self.cg(a)[~alone]
        systems = np.where(conjugate, cg, direct)
        around = 4.0 * (h + t) * p * a * v + 4.0 * a * e * p * (h + e) * large
        touched = (h + t) * p + np.where(conjugate, CG_TOUCHED * h * a * v, 0.0)
        kinds = len(np.unique(h * (e.max() + 1.0) + e))
        stacks = kinds + float(((h + t) * p).sum()) / STACK_DOUBLES
        overhead = RATES.call * (min(h.size, 4000) + PER_STACK * min(h.size, stacks))
        work = float((systems + around).sum()) / RATES.gemm
        return single_rows + work + float(touched.sum()) * RATES.touch + overhead

    def _solve(self, n: FloatArray) -> FloatArray:
        """Return operations that solve equations of size n for all penalties."""
        a = self.a
        one = a * RATES.cholesky * n**3 if a <= CHOLESKY_UP_TO else RATES.reduction * n**3
        return np.asarray(one + 8.0 * a * self.sizes.v * n**2)


@dataclass(frozen=True)
class FeatureCosts(Costs):
    """Costs of a smoother of features."""

    def _factor(self) -> float:
        p = float(self.sizes.p)
        return RATES.eigh * p**3 + (3.0 if self.sizes.streamed else 2.0) * self.sizes.m * p**2

    def _single(self) -> float:
        # A Cholesky factor for every penalty, its inverse, and the rows in its coordinates. The
        # last two count 5 and 3 instead of 1 and 2: triangular matrices and fresh arrays are slow.
        p = float(self.sizes.p)
        factor = (RATES.cholesky + 5.0) * p**3 + 3.0 * self.sizes.m * p**2
        return self.a * (factor / RATES.gemm + self._sets(1))

    def cg(self, a: int) -> BoolArray:
        """Return which experiments take conjugate gradients for `a` penalties at once."""
        return np.asarray((self.h >= CG_ROWS) & (self.h * a >= CG_SYSTEMS))

    def _fold_gram(self) -> float:
        h, e, t, p, v = self.h, self.e, self.t, float(self.sizes.p), float(self.sizes.v)
        # Computing streamed rows again takes about as long as their Gram matrix; rows that are not
        # kept are computed once for the sums and once for the predictions.
        made = np.where(self.sizes.summed | (8.0 * h * p <= KEEP_BYTES), 1.0, 2.0)
        passes = (0.0 if self.sizes.summed else 1.0) + (made if self.sizes.streamed else 0.0)
        gram = passes * 1.3 * h * p**2
        work = gram + self._solve(p - e) + 4.0 * e * p**2 + 2.0 * t * p * self.a * v
        touched = h * p + 3.0 * p**2
        return float((work / RATES.gemm + touched * RATES.touch + PER_FOLD * RATES.call).sum())

    def _doubles(self, path: str) -> float:
        """Return rows, matrices and the rows of one stack of experiments."""
        h, m, p, v = self.h, float(self.sizes.m), float(self.sizes.p), self.sizes.v
        rows = BLOCK_BYTES / 8 if self.sizes.streamed else m * p
        if path == "fold_gram":  # larger folds are summed in blocks
            extra = h.size * p**2 if self.sizes.summed else min(h.max() * p, KEEP_BYTES / 8)
            return float(1.1 * rows + extra + 6 * p**2)
        # rows of one stack of experiments, twice if others are tested, and their systems
        a = self.a if path == "spectral" else 1
        stack = (h + self.t) * (p + 2 * a * v) + np.where(self.cg(a), 0.0, a * h**2)
        copy = m * p if path == "single" and not self.sizes.streamed else 0.0
        return float(1.1 * rows + copy + max(3 * STACK_DOUBLES, stack.max()) + 6 * p**2)


@dataclass(frozen=True)
class KernelCosts(Costs):
    """Costs of a smoother of a kernel matrix."""

    direct_slowdown: ClassVar[float] = 0.5 * RATES.stacked

    def _factor(self) -> float:
        return RATES.eigh * float(self.sizes.p) ** 3

    def _single(self) -> float:
        h, t, p, v = self.h, self.t, float(self.sizes.p), float(self.sizes.v)
        kept = self.times if self.a == 1 else 1
        work = (RATES.cholesky + INVERSE) * p**3 / kept
        work += float((h**3 + (4.0 * h + 2.0 * t) * p * v).sum())
        # copies of the matrix, rows of the inverse, coefficients of each held-out model
        touched = 8.0 * p**2 / kept + float((2.0 * h + 4.0 * v).sum()) * p
        stacks = min(h.size, 100)
        return self.a * (work / RATES.gemm + touched * RATES.touch + RATES.call * stacks)

    def cg(self, a: int) -> BoolArray:
        """Return False for all: I − S itself is known, and its systems are solved directly."""
        return np.zeros(self.h.size, dtype=bool)

    def _fold_gram(self) -> float:
        n, v = self.sizes.m - self.h, float(self.sizes.v)
        work = LARGE_REDUCTION * self._solve(n) + 2.0 * self.a * v * self.t * n
        touched = 2.0 * n**2
        return float((work / RATES.gemm + touched * RATES.touch + PER_FOLD * RATES.call).sum())

    def _sets_in_copies(self, path: str) -> bool:
        """Whether there are copies; with more targets than rows, predictions are made in place."""
        many = path == "spectral" and self.sizes.v > self.sizes.p
        return super()._sets_in_copies(path) and not many

    def _doubles(self, path: str) -> float:
        """Return K, what factorisations need beside it, and the targets in several forms."""
        m, h = float(self.sizes.m), self.h
        targets = FORMS_OF_TARGETS * m * self.sizes.v
        if path == "fold_gram":  # each thread has the kernel of its training rows three times
            matrices = m**2 + 3.0 * min(blas_threads(), h.size) * (m - h.min()) ** 2
            return float(matrices + targets)
        if path == "spectral":  # K, the eigenvectors, and as much again to compute them
            return float(DENSE_MATRICES * m**2 + targets)
        stack = max(2 * STACK_DOUBLES, (h + self.t).max() * m * (1 + self.sizes.v))
        return float(DENSE_MATRICES * m**2 + stack + targets)


COSTS: dict[Form, type[Costs]] = {"features": FeatureCosts, "kernel": KernelCosts}
