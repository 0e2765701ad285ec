"""Predicted against true rounding errors on real data: `python -m benchmarks.rounding [--docs]`.

Every data set of the folder named by ``HOLDFAST_DATA`` (numbers only, some hundred rows of each),
five kernels, four kinds of model: dense, on basis rows that leave with their rows, on basis rows
that stay, and folds. The truth is the same model trained without the rows in extended precision
(`numpy.longdouble`) from the same kernel values. Printed for each model: the error of the held-out
predictions over the spread of y at the chosen and at the smallest penalty, the error that
``cv_results_["rounding"]`` predicts, and their ratio. With --docs the table goes into
docs/accuracy.md.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import HoldOut, KernelRidgeCV

Floats = NDArray[np.float64]
Long = np.longdouble

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "accuracy.md"
ROWS, BASIS, SETS = 160, 40, 6
KERNELS: dict[str, dict[str, Any]] = {
    "rbf": {"kernel": "rbf"},
    "rbf, wide": {"kernel": "rbf", "gamma": 0.003},
    "laplacian": {"kernel": "laplacian"},
    "poly": {"kernel": "poly", "degree": 2},
    "linear": {"kernel": "linear"},
}
MODELS = ("dense", "remove", "keep", "folds")
#: Ratios are looked at where errors are larger than this.
VISIBLE = 1e-13


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.rounding", description=__doc__)
    parser.add_argument("--docs", action="store_true", help="write the table into the docs")
    parser.add_argument("--only", nargs="+", default=[], help="data sets")
    asked = parser.parse_args()
    folder = os.environ.get("HOLDFAST_DATA")
    if not folder:
        raise SystemExit("rounding: set HOLDFAST_DATA to the folder that holds the data sets.")
    lines = [HEADER, "| --- | --- | --- | --- | --- |"]
    ratios: list[float] = []
    for path in sorted(Path(folder).glob("*.npz")):
        if asked.only and path.stem not in asked.only:
            continue
        data = _read(path)
        if data is None:
            continue
        found = [measured(*data, kernel, model) for kernel in KERNELS.values() for model in MODELS]
        errors, told = (np.concatenate(part) for part in zip(*found, strict=True))
        seen = errors > VISIBLE
        ratio = errors[seen] / told[seen]
        ratios.extend(ratio.tolist())
        span = f"{ratio.min():.2g} to {ratio.max():.2g}" if seen.any() else "—"
        past = int((errors > 1e-8 + 10.0 * told).sum())
        lines.append(
            f"| {path.stem} | {errors.max():.0e} | {told[errors.argmax()]:.0e} | {span} | {past} |"
        )
        print(lines[-1], flush=True)
    share = np.mean((np.array(ratios) <= 3.0) & (np.array(ratios) >= 1.0 / 30.0))
    lines += [
        "",
        f"{len(ratios)} errors above {VISIBLE:g}: {share:.0%} are 1/30 to 3 times predicted.",
    ]
    print(lines[-1])
    if asked.docs:
        text = PAGE.read_text(encoding="utf-8")
        begin, end = "<!-- rounding: begin -->", "<!-- rounding: end -->"
        start, stop = text.index(begin) + len(begin), text.index(end)
        PAGE.write_text(text[:start] + "\n" + "\n".join(lines) + "\n" + text[stop:], "utf-8")


HEADER = "| data | largest error | predicted there | error / predicted | past 1e-8 + 10 × |"


def _read(path: Path) -> tuple[Floats, Floats] | None:
    """Return some rows with columns of unit spread, and targets; None if they are no numbers."""
    with np.load(path, allow_pickle=False) as arrays:
        if "X" not in arrays or "y" not in arrays:
            return None
        X, y = arrays["X"], arrays["y"]
    if X.ndim != 2 or X.dtype.kind not in "fiub" or y.dtype.kind not in "fiub" or len(X) < 60:
        return None
    y = y.astype(float) if y.ndim == 1 else y[:, 0].astype(float)
    keep = np.sort(np.random.default_rng(1).permutation(len(y))[:ROWS])
    X, y = X[keep].astype(float), y[keep]
    good = np.isfinite(X).all(axis=1) & np.isfinite(y)
    X, y = X[good], y[good]
    scale = X.std(axis=0)
    if len(y) < 60 or not y.std() > 0.0:
        return None
    return (X - X.mean(axis=0)) / np.where(scale > 0, scale, 1.0), y


def measured(X: Floats, y: Floats, kernel: dict[str, Any], model: str) -> tuple[Floats, Floats]:
    """Return errors and predicted errors, both over the spread of y, at four penalties."""
    m, rng = len(y), np.random.default_rng(0)
    order = rng.permutation(m)
    size = m // 5 if model == "folds" else 8
    sets = [
        np.sort(order[i * size : (i + 1) * size]) for i in range(5 if model == "folds" else SETS)
    ]
    basis = None if model == "dense" else np.sort(rng.permutation(m)[:BASIS])
    trace = float(len(y))
    estimator = KernelRidgeCV(
        **kernel,
        alphas=trace * np.logspace(-8, -2, 4),
        basis=basis,
        held_out_basis="keep" if model == "keep" else "remove",
        cv=[HoldOut(rows) for rows in sets],
        path="fold_gram" if model == "folds" else "auto",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = estimator.fit(X, y)
    values = fitted.held_out().values[:, :, 0]
    K = np.asarray(fitted.kernel_(X))
    exact = np.empty_like(values)
    for a, alpha in enumerate(fitted.alphas_):
        exact[a] = np.concatenate(
            [trained(K, X, y, rows, float(alpha), basis, fitted, model) for rows in sets]
        )
    yardstick = np.maximum(y.std(), np.abs(exact - y.mean()))
    return np.abs(values - exact).max(axis=1) / yardstick.max(axis=1), fitted.cv_results_[
        "rounding"
    ]


def trained(
    K: Floats, X: Floats, y: Floats, held: Any, alpha: float, basis: Any, fitted: Any, model: str
) -> Floats:
    """Return predictions of the held-out rows by the model without them, in extended precision."""
    train = np.setdiff1d(np.arange(len(y)), held)
    mean = y[train].astype(Long).mean()
    right = y[train].astype(Long) - mean
    columns = basis is None and fitted.kernel == "linear" and X.shape[1] < len(X)
    if basis is None and not columns:
        A = K[np.ix_(train, train)].astype(Long)
        centre = A.mean(axis=0)
        level = centre.mean()
        C = cholesky(A - centre - centre[:, None] + level + Long(alpha) * np.eye(len(train)))
        c = upper(C, lower(C, right))
        rows = K[np.ix_(held, train)].astype(Long) - centre
        return np.asarray(rows @ (c - c.mean()) + mean, dtype=float)
    if columns:  # a linear kernel is fitted in the columns of X
        W = X.astype(Long)
    else:
        rows = basis if model == "keep" else np.setdiff1d(basis, held)
        A = K[np.ix_(rows, rows)].astype(Long) + Long(fitted.jitter_) * np.eye(len(rows))
        W = lower(cholesky(A), K[:, rows].astype(Long).T).T
    centre = W[train].mean(axis=0)
    P = W[train] - centre
    R = cholesky(P.T @ P + Long(alpha) * np.eye(W.shape[1]))
    theta = upper(R, lower(R, P.T @ right))
    return np.asarray((W[held] - centre) @ theta + mean, dtype=float)


def cholesky(A: Any) -> Any:
    """Return the lower triangular factor, in the precision of A."""
    C = np.zeros_like(A)
    for j in range(len(A)):
        C[j, j] = np.sqrt(A[j, j] - C[j, :j] @ C[j, :j])
        C[j + 1 :, j] = (A[j + 1 :, j] - C[j + 1 :, :j] @ C[j, :j]) / C[j, j]
    return C


def lower(C: Any, B: Any) -> Any:
    """Return C⁻¹B."""
    X = np.array(B)
    for j in range(len(C)):
        X[j] = (X[j] - C[j, :j] @ X[:j]) / C[j, j]
    return X


def upper(C: Any, b: Any) -> Any:
    """Return C⁻ᵀb."""
    x = np.zeros_like(b)
    for j in range(len(b) - 1, -1, -1):
        x[j] = (b[j] - C[j + 1 :, j] @ x[j + 1 :]) / C[j, j]
    return x


if __name__ == "__main__":
    main()
