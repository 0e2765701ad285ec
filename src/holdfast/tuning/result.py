"""The result of tuning: the best, everything that was tried, and how certain it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from holdfast._typing import FloatArray, IntArray
from holdfast.data.frames import make_frame
from holdfast.kernels import Kernel
from holdfast.tuning.flatness import Flatness, Relevance

if TYPE_CHECKING:
    import pandas

__all__ = ["Trials", "TuneResult"]


@dataclass(frozen=True, eq=False)
class Trials:
    """Everything that was tried, in order.

    Attributes
    ----------
    alpha : ndarray of shape (t,)
    gamma : ndarray of shape (t, 1) or (t, d)
        Of sums, products and multiples of kernels: all parameters that were searched for.
    criterion : ndarray of shape (t,)
        NaN where the model broke down.
    gradient_norm : ndarray of shape (t,)
        Length of the gradient of log criterion, or of twice minus the log density; NaN where none
        was computed.
    start : ndarray of int, shape (t,)
        Which start the trial belongs to; −1 for the first look around.
    names : tuple of str
        What the columns of `gamma` are.
    """

    alpha: FloatArray
    gamma: FloatArray
    criterion: FloatArray
    gradient_norm: FloatArray
    start: IntArray
    names: tuple[str, ...] = ("gamma",)

    def __len__(self) -> int:
        return self.alpha.size


@dataclass(frozen=True, eq=False, repr=False)
class TuneResult:
    """The outcome of `tune`.

    Attributes
    ----------
    kernel : Kernel
        The best kernel.
    alpha : float
        The best penalty.
    criterion : float
        The exact held-out criterion there. It was minimised: for an unbiased estimate hold out
        rows that the tuning never saw.
    criterion_name : str
        What it is: "mean squared error" or "minus log density" (mean per row).
    standard_error : float
        Of the criterion, with the experiments as independent units.
    trials : Trials
        Everything that was tried.
    n_evaluations : int
        Number of trials.
    success : bool
        Whether the best start converged.
    message : str
        Why the search ended.
    flatness : Flatness or None
        How flat the optimum is; None if it was not asked for or the search was interrupted.
    relevance : Relevance or None
        What each feature is worth, with one gamma per feature.
    basis_indices : ndarray of int or None
        Basis rows of a sparse model.
    template : estimator
        One with the parameters that were not tuned.
    """

    kernel: Kernel
    alpha: float
    criterion: float
    criterion_name: str
    standard_error: float
    trials: Trials
    n_evaluations: int
    success: bool
    message: str
    flatness: Flatness | None
    relevance: Relevance | None
    basis_indices: IntArray | None
    template: Any

    def __repr__(self) -> str:
        kernel = type(self.kernel).__name__
        gamma = (
            f"gamma={self.gamma[0]:.3g}" if self.gamma.size == 1 else f"{self.gamma.size} gammas"
        )
        return (
            f"<tuned in {self.n_evaluations} evaluations: alpha={self.alpha:.3g}, {kernel} with "
            f"{gamma}, held-out {self.criterion_name} {self.criterion:.4g} ± "
            f"{self.standard_error:.2g}>"
        )

    @property
    def gamma(self) -> FloatArray:
        """The best gamma, shape (1,) or (d,); of several kernels one after the other."""
        values = self.kernel.parameters
        return np.hstack([values[name] for name in values if name.endswith("gamma")])

    @property
    def irrelevant(self) -> NDArray[np.bool_] | None:
        """Which features surely do not help, shape (d,); None with one gamma or if not measured.

        Those that are not among them need not be relevant: ``relevance.verdicts`` distinguishes the
        three cases.
        """
        return None if self.relevance is None else self.relevance.irrelevant

    def estimator(self, **params: Any) -> Any:
        """Return an estimator with the best kernel and a grid of alphas around the best one.

        Parameters
        ----------
        **params
            Other parameters of the estimator to set, such as ``alphas`` or ``scoring``.

        Notes
        -----
        It is ready to be fitted to the same rows: basis rows are the ones tuned with. The grid
        spans two decades either way, so that the best alpha is the one in the middle, or nearly.
        """
        chosen: dict[str, Any] = {
            "kernel": self.kernel,
            "gamma": None,
            "alphas": self.alpha * np.logspace(-2, 2, 21),
        }
        if self.basis_indices is not None:
            chosen["basis"] = self.basis_indices
        return clone(self.template).set_params(**{**chosen, **params})

    def to_frame(self) -> pandas.DataFrame:
        """Return everything that was tried as a pandas table, one row per trial."""
        trials = self.trials
        columns = {
            "start": trials.start,
            "alpha": trials.alpha,
            **dict(zip(trials.names, trials.gamma.T, strict=True)),
            "criterion": trials.criterion,
            "gradient_norm": trials.gradient_norm,
        }
        return cast("pandas.DataFrame", make_frame(columns, "pandas"))
