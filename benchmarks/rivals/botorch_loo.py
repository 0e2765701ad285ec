"""BoTorch's `loo_cv`: leave-one-out of a Gaussian process whose hyper-parameters are fixed.

It takes one penalty, the variance of the noise, so a grid is a loop over models. Besides means it
computes variances.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from benchmarks.problems import Data, Floats, Problem
from benchmarks.rivals.base import Outcome, Rival, needs_square, only_dense


def _run(problem: Problem, data: Data) -> Floats:
    # Optional packages: imported when run.
    import torch
    from botorch.cross_validation import loo_cv
    from botorch.models import SingleTaskGP
    from gpytorch.kernels import RBFKernel
    from gpytorch.means import ZeroMean

    X, y = torch.from_numpy(data.X), torch.from_numpy(data.y[:, None])
    kernel = RBFKernel()
    kernel.lengthscale = (2.0 * problem.gamma) ** -0.5
    found = np.empty((problem.n_alphas, problem.m))
    with torch.no_grad():
        for a, alpha in enumerate(problem.alphas):
            model = SingleTaskGP(
                X,
                y,
                torch.full_like(y, float(alpha)),
                covar_module=kernel.double(),
                mean_module=ZeroMean(),
                outcome_transform=None,
            )
            found[a] = loo_cv(model).posterior.mean.ravel().numpy()
    return found


def _read(problem: Problem, data: Data, result: Floats) -> Outcome:
    return Outcome(predictions=result)


def _refuses(problem: Problem) -> str | None:
    if problem.split != "loo":
        return "is leave-one-out"
    return only_dense(problem) or needs_square(problem)


RIVALS = (
    Rival(
        "botorch",
        "BoTorch loo_cv, once per λ",
        _run,
        _read,
        refuses=_refuses,
        missing=lambda: None if find_spec("botorch") else "botorch is not installed",
        package="botorch",
    ),
)
