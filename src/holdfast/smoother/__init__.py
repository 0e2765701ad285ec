"""The smoother: the noun that carries the library.

Every model here is a penalised least-squares smoother ŷ = S(α) y. This folder builds the weighted,
centred and whitened problem once, and everyone else asks it: for factors, for the equations without
some rows, for the model itself, and for the naive twin that is trained from scratch. Whether a
model is made of features or of a kernel matrix, whether it has a bias or weights, and whether its
rows are streamed, is decided here and nowhere else.

| module | what it holds |
|---|---|
| `scale` | weights, unpenalised columns (the bias is one), targets |
| `features` | φ(x) by blocks: whitened kernel values, or the columns of X |
| `rows`, `blocks` | rows of W, kept or computed again, and sums over some of them |
| `moments` | the one pass over all rows |
| `feature_smoother`, `kernel_smoother` | the two forms |
| `feature_form`, `kernel_form` | what follows from sums of features; digits of a kernel matrix |
| `bordered` | a dense model trained from scratch, refined |
| `measured`, `refined` | errors measured on a few models; a second opinion on one |
| `system`, `factorise` | rows with their Gram matrix; from these to factors with enough digits |
| `factor` | the smoother in coordinates where the penalty is diagonal |
| `held`, `span` | I − S on held-out rows; what removed basis rows take with them |
| `shared` | the same for sets that share most of their rows |
| `outputs` | any model as one product, for rows that are not in the data |
| `equations` | normal equations of the rows that are left |
| `base` | the interface: what a fit needs |
| `known_digits`, `as_coefficients` | its other two parts: digits, and models that answers ask for |
| `make` | from rows, a kernel and basis rows to the smoother |
"""

from holdfast.smoother.base import Fit, Form, OtherBasis, Sizes, Smoother
from holdfast.smoother.equations import Equations
from holdfast.smoother.factor import Alone, Factor
from holdfast.smoother.feature_smoother import FeatureSmoother
from holdfast.smoother.features import ColumnFeatures, Features, WhitenedFeatures, basis_epsilon
from holdfast.smoother.held import Held, HeldCoordinates, same_rows
from holdfast.smoother.kernel_smoother import KernelSmoother
from holdfast.smoother.outputs import Outputs
from holdfast.smoother.scale import Unpenalised
from holdfast.smoother.shared import shared

__all__ = [
    "Alone",
    "ColumnFeatures",
    "Equations",
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
    "shared",
]
