"""Kernels: small frozen objects that turn two sets of rows into a matrix.

A kernel is called as `k(X, Z)` and returns a fresh float64 matrix of shape (len(X), len(Z));
`k(X)` is the symmetric matrix of X with itself. Kernels add and multiply,
with each other and with numbers:

>>> from holdfast.kernels import RBF, Linear
>>> k = RBF(gamma=0.5) + 2.0 * Linear()
>>> k([[0.0], [1.0]]).round(3).tolist()
[[1.0, 0.607], [0.607, 3.0]]

A kernel knows its `parameters`, and `with_params` changes them, also those of sums and products.

| module | kernels | start from |
|---|---|---|
| `dot` | `Linear`, `Polynomial`, `Cosine`, `Tanimoto` | inner products |
| `stationary` | `RBF`, `Matern`, `Laplacian` | distances |
| `compose` | `Sum`, `Product`, `Scaled`, `Normalised`, `Constant`, `OnColumns` | other kernels |
| `adapters` | `FunctionKernel`, `SklearnKernel` | a function, a GP kernel |

`grid` turns the arguments of an estimator into kernels: `NAMED` is the one table of names.
"""

from holdfast.kernels.adapters import FunctionKernel, SklearnKernel
from holdfast.kernels.base import Kernel
from holdfast.kernels.compose import Constant, Normalised, OnColumns, Product, Scaled, Sum
from holdfast.kernels.dot import Cosine, Linear, Polynomial, Tanimoto
from holdfast.kernels.grid import Precomputed
from holdfast.kernels.stationary import RBF, Laplacian, Matern

__all__ = [
    "RBF",
    "Constant",
    "Cosine",
    "FunctionKernel",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern",
    "Normalised",
    "OnColumns",
    "Polynomial",
    "Precomputed",
    "Product",
    "Scaled",
    "SklearnKernel",
    "Sum",
    "Tanimoto",
]
