"""The smoother: the noun that carries the library.

Every model here is a penalised least-squares smoother ŷ = S(α) y. This folder builds the weighted,
centred and whitened problem once, and everyone else asks it: for factors, for the equations without
some rows, for the model itself, and for the naive twin that is trained from scratch. Whether a
model is made of features or of a kernel matrix, whether it has a bias or weights, and whether its
rows are streamed or live on a cluster, is decided here and nowhere else. Smoothers, systems and
factors are values: nothing changes after it was made.

| module | what it holds |
|---|---|
| `scale` | weights, unpenalised columns (the bias is one), targets |
| `features` | φ(x) by blocks: whitened kernel values, or the columns of X |
| `rows` | rows of W, kept or computed again, and sums over some of them |
| `moments` | the one pass over all rows |
| `source` | where the rows are, and what is asked of all of them |
| `system` | sums over the rows: models, and equations without some rows |
| `factorise` | from these to an accurate factor; training by QR |
| `factor`, `held` | the smoother where the penalty is diagonal; I − S on held-out rows |
| `feature_smoother`, `kernel_smoother` | the two forms |
| `bordered` | a dense model trained from scratch, refined |
| `outputs` | any model as one product, for rows that are not in the data |
| `base` | the interface |
| `make` | from rows, a kernel and basis rows to the smoother |
"""

from holdfast.smoother.base import Fit, Form, OtherBasis, Sizes, Smoother
from holdfast.smoother.factor import Alone, Factor
from holdfast.smoother.feature_smoother import FeatureSmoother
from holdfast.smoother.features import ColumnFeatures, Features, WhitenedFeatures, basis_epsilon
from holdfast.smoother.held import Held, HeldCoordinates, same_rows
from holdfast.smoother.kernel_smoother import KernelSmoother
from holdfast.smoother.outputs import Outputs
from holdfast.smoother.scale import Unpenalised

__all__ = [
    "Alone",
    "ColumnFeatures",
    "Factor",
    "FeatureSmoother",
    "Features",
    "Fit",
    "Form",
    "Held",
    "HeldCoordinates",
    "KernelSmoother",
    "OtherBasis",
    "Outputs",
    "Sizes",
    "Smoother",
    "Unpenalised",
    "WhitenedFeatures",
    "basis_epsilon",
    "same_rows",
]
