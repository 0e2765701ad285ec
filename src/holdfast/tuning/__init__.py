"""Continuous choice of the penalty and the kernel's widths by the exact held-out score.

>>> from holdfast.tuning import tune, criterion_surface

| module | what it holds |
|---|---|
| `criterion` | the exact held-out criterion at (log alpha, log gamma) and its gradient |
| `goals`, `losses` | what is minimised: squared error, minus log density, CRPS; their slopes |
| `walk`, `solved` | over the experiments: residuals, the law of the tested rows, the way back |
| `dense`, `sparse` | the adjoint for the two kinds of models |
| `coordinates` | what a point stands for: log alpha and the kernel's log parameters |
| `problem` | rows and experiments, prepared once for all points |
| `minimise`, `space` | L-BFGS and Nelder–Mead; bounds and starting points |
| `flatness`, `result` | how flat the optimum is, which features matter; what comes back |
| `surface` | the criterion over a grid of (gamma, alpha), and its picture |

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
