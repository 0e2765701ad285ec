"""What the shift ε of a sparse model costs in fidelity and buys in digits.

Run it as ``python benchmarks/jitter.py`` (about half an hour on one core; ``--quick`` takes the
small data sets only). It prints the table of the decision record on ``jitter``, for smooth kernels
on real and generated data, as relative changes of held-out predictions:

ε         from the model with a hundredth of the smallest shift, both in extended precision:
          what the shift does to the model;
rounding  from extended precision to the package, for the same shift and the same kernel values;
kernel    by another rounding of the kernel's values, both in extended precision: what no
          algorithm that starts from float64 kernel values can know.

Extended precision is ``numpy.longdouble``, which on x86 has 64 bits of mantissa, eleven more than
float64. The script refuses to run where it has not.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes, load_digits, make_friedman1
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from holdfast import KernelRidgeCV  # noqa: E402  # found through the path above
from holdfast.exceptions import HoldfastWarning, SingularBasisError  # noqa: E402

JITTERS = (1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12)
REFERENCE = 1e-14
ALPHAS = (1e-6, 1e-3, 1.0)
Long = NDArray[np.longdouble]


@dataclass(frozen=True)
class Study:
    """A data set, a width and a number of basis rows."""

    name: str
    X: NDArray[np.float64]
    y: NDArray[np.float64]
    gamma: float
    n: int


def studies(quick: bool) -> Iterator[Study]:
    """Yield the problems, rows at most 1,800."""
    rng = np.random.default_rng(0)
    X, y = load_diabetes(return_X_y=True)
    X, y = X / X.std(axis=0), (y - y.mean()) / y.std()
    yield Study("diabetes, γ = 0.1", X, y, 0.1, 100)
    yield Study("diabetes, γ = 0.01", X, y, 0.01, 300)
    x = rng.uniform(-5.0, 5.0, size=(600, 1))
    yield Study(
        "sinc, one column, γ = 1", x, np.sinc(x[:, 0]) + 0.1 * rng.normal(size=600), 1.0, 100
    )
    X2 = rng.uniform(-1.0, 1.0, size=(800, 2))
    y2 = np.sin(3.0 * X2[:, 0]) * X2[:, 1] + 0.1 * rng.normal(size=800)
    yield Study("surface, two columns, γ = 1", X2, y2, 1.0, 200)
    if quick:
        return
    X, y = make_friedman1(1500, noise=1.0, random_state=0)
    yield Study("Friedman 1, γ = 0.3", X, (y - y.mean()) / y.std(), 0.3, 1000)
    X, y = load_digits(return_X_y=True)
    yield Study(
        "digits (odd or even), γ = 0.005", X / 16.0, np.where(y % 2, 1.0, -1.0), 0.005, 1000
    )


def extended(
    K: NDArray[np.float64], y: NDArray[np.float64], train: Long, test: Long, shift: float
) -> Long:
    """Return predictions (alphas, test rows) of a retrained model, bias included."""
    k = K.astype(np.longdouble)
    C = _cholesky(k[: K.shape[1]] + np.longdouble(shift) * np.eye(K.shape[1], dtype=np.longdouble))
    W = _solve(C, k[np.concatenate([train, test])].T).T
    W_train, W_test = W[: len(train)], W[len(train) :]
    mean, level = W_train.mean(axis=0), y[train].astype(np.longdouble).mean()
    W_train, W_test = W_train - mean, W_test - mean
    A, b = W_train.T @ W_train, W_train.T @ (y[train] - level)
    out = []
    for alpha in ALPHAS:
        L = _cholesky(A + np.longdouble(alpha) * np.eye(len(A), dtype=np.longdouble))
        theta = _solve(L.T[::-1, ::-1], _solve(L, b[:, None])[::-1])[::-1]
        out.append((W_test @ theta)[:, 0] + level)
    return np.array(out)


def _cholesky(A: Long) -> Long:
    """Return the lower Cholesky factor; LAPACK has no extended precision."""
    L = A.copy()
    n, block = len(A), 48
    for start in range(0, n, block):
        stop = min(start + block, n)
        for j in range(start, stop):
            L[j, j] = np.sqrt(L[j, j])
            L[j + 1 :, j] /= L[j, j]
            L[j + 1 :, j + 1 : stop] -= np.outer(L[j + 1 :, j], L[j + 1 : stop, j])
        L[stop:, stop:] -= L[stop:, start:stop] @ L[stop:, start:stop].T
    return np.tril(L)


def _solve(L: Long, B: Long) -> Long:
    """Return the solution of L X = B by forward substitution, block by block."""
    X, n, block = B.astype(np.longdouble), len(L), 48
    for start in range(0, n, block):
        stop = min(start + block, n)
        for j in range(start, stop):
            X[j] /= L[j, j]
            X[j + 1 : stop] -= np.outer(L[j + 1 : stop, j], X[j])
        X[stop:] -= L[stop:, start:stop] @ X[start:stop]
    return X


def measure(study: Study) -> list[list[str]]:
    """Return one row per jitter: name, jitter, fidelity per alpha, digits per alpha."""
    m, n = len(study.X), study.n
    order = np.random.default_rng(1).permutation(m)  # basis rows first: column j is row j
    X, y, basis = study.X[order], study.y[order], np.arange(n)
    K = rbf_kernel(X, X[:n], gamma=study.gamma)
    K[:n] = 0.5 * (K[:n] + K[:n].T)
    # Held out: a tenth of the rows; the basis is kept, so that the basis block is the same for all.
    train, test = next(KFold(10, shuffle=True, random_state=0).split(X))
    ideal = extended(K, y, train, test, REFERENCE)
    size = np.abs(ideal).max(axis=1)
    other = _rounded_otherwise(K)
    rows = []
    for jitter in JITTERS:
        exact = extended(K, y, train, test, jitter)
        fidelity = np.abs(exact - ideal).max(axis=1) / size
        inherent = np.abs(extended(other, y, train, test, jitter) - exact).max(axis=1) / size
        try:
            model = KernelRidgeCV(
                "precomputed",
                alphas=list(ALPHAS),
                basis=basis,
                cv=[(train, test)],
                held_out_basis="keep",
                jitter=jitter,
            ).fit(K, y)
            got = model.held_out().values[:, :, 0]
            digits = [f"{e:.0e}" for e in np.abs(got - exact).max(axis=1) / size]
            score = f"{-model.held_out().score().max():.5f}"
        except SingularBasisError:
            digits, score = ["refused"] * len(ALPHAS), ""
        shown = [
            f"{float(f):.0e} / {d} / {float(i):.0e}"
            for f, d, i in zip(fidelity, digits, inherent, strict=True)
        ]
        rows.append([study.name, str(n), f"{jitter:.0e}", *shown, score])
    return rows


def _rounded_otherwise(K: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return K with every value moved by at most half a unit in the last place, symmetrically."""
    n, rng = K.shape[1], np.random.default_rng(2)
    moved = K * (1.0 + np.finfo(float).eps * rng.choice([-0.5, 0.5, 1.0], size=K.shape))
    moved[:n] = np.tril(moved[:n]) + np.tril(moved[:n], -1).T
    return moved


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the small data sets only")
    quick = parser.parse_args().quick
    if np.finfo(np.longdouble).eps > 1e-18:
        raise SystemExit("numpy.longdouble is no wider than float64 on this machine.")
    warnings.simplefilter("ignore", HoldfastWarning)
    at = [f"λ = {alpha:.0e}" for alpha in ALPHAS]
    print("Each cell: ε / rounding / kernel.\n")
    print("| data | n | jitter |", *(f"{a} |" for a in at), "best held-out error |")
    print("|---" * (4 + len(ALPHAS)) + "|")
    for study in studies(quick):
        for row in measure(study):
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
