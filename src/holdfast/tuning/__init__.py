"""Continuous choice of the penalty and the kernel's widths by the exact held-out error.

>>> from holdfast.tuning import tune, criterion_surface

| module | what it holds |
|---|---|
| `criterion` | the exact held-out error at (log alpha, log gamma) and its gradient |
| `dense`, `sparse` | the hold-out algebra and its adjoint, for the two kinds of models |
| `widths` | kernels of Σ_j gamma_j (x_j − z_j)², their slopes, sums over features |
| `problem` | rows and experiments, prepared once for all points |
| `minimise`, `space` | L-BFGS and Nelder–Mead; bounds and starting points |
| `flatness`, `result` | how flat the optimum is, which features matter; what comes back |
| `surface` | the error over a grid of (gamma, alpha), and its picture |

The gradient covers leave-one-out, k-fold, groups and any other experiments, dense models and
sparse ones with held-out basis rows removed or kept, bias, weights and many targets.
"""

from holdfast.tuning.criterion import Criterion, Evaluation
from holdfast.tuning.flatness import Flatness, Relevance
from holdfast.tuning.minimise import Trial, tune
from holdfast.tuning.result import Trials, TuneResult
from holdfast.tuning.surface import Surface, criterion_surface

__all__ = [
    "Criterion",
    "Evaluation",
    "Flatness",
    "Relevance",
    "Surface",
    "Trial",
    "Trials",
    "TuneResult",
    "criterion_surface",
    "tune",
]
