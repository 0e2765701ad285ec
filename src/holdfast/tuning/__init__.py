"""Continuous choice of the penalty and the kernel's widths by the exact held-out score.

>>> from holdfast.tuning import tune

| module | what it holds |
|---|---|
| `criterion` | the held-out score of a fit's problem at (log alpha, log gamma), and its gradient |
| `losses` | what is minimised: minus the scores of a fit; their slopes |
| `solved` | stacked experiments: residuals, the distribution of the tested rows, the way back |
| `adjoint` | derivatives by kernel values, for dense and sparse models |
| `minimise`, `space` | L-BFGS and Nelder–Mead; coordinates, bounds and starting points |
| `flatness`, `result` | how flat the optimum is, which features matter; what comes back |

Rows, experiments, policy and scores are those of a fit: the criterion is a function of its
`Problem`. Held-out residuals do not come from `holdout.judged`, for two reasons: the adjoint needs
the factorised systems themselves, and second moments by `holdout.spread` take a spectrum, about
nine times the price of the inverse that one penalty needs.

The gradient covers leave-one-out, k-fold, groups and any other experiments, dense models and
sparse ones with held-out basis rows removed or kept, bias, weights and many targets.
"""

from holdfast.tuning.flatness import Flatness, Relevance
from holdfast.tuning.minimise import tune
from holdfast.tuning.result import TuneResult

__all__ = ["Flatness", "Relevance", "TuneResult", "tune"]
