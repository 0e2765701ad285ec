"""What a report needs to know beyond the model, what it may ask, and both with the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from holdfast.displays.curve_data import CVCurve, cv_curve
from holdfast.exceptions import HoldfastError
from holdfast.report.rows import RowResults, row_results

if TYPE_CHECKING:
    from holdfast.answers.held_out import HeldOutPredictions
    from holdfast.estimators.base import CrossValidatedKernelRidge
    from holdfast.tables.account import ColumnAccount
    from holdfast.tables.inside import InsideOut

__all__ = ["Ask", "Case", "Context", "feature_names", "make_case"]


@dataclass(frozen=True)
class Context:
    """What the model itself does not know: names, and where the data came from.

    Attributes
    ----------
    title : str
        Heading of the report.
    target : str
        Name of the target.
    feature_names : tuple of str, optional
        Names of the features; by default those the model was fitted with, else x0, x1, …
    group : str
        Name of the grouping.
    cv : str, optional
        The way of holding out, in words that follow "held out by".
    preparation : tuple of str
        What was done to the columns before, one sentence each.
    command, data, checksum : str, optional
        How to repeat it.
    warnings : tuple of str
        Warnings from the fit.
    columns : tuple of ColumnAccount
        How each column of a data file was read (`holdfast.tables.account`).
    notes : tuple of str
        What may be wrong with the data or the question (`holdfast.tables.notes`).
    inside : InsideOut, optional
        What the preparation costs (`holdfast.tables.inside`).
    time : str, optional
        Name of the column that puts rows in order of time.
    moments : ndarray of shape (m,), optional
        That column: numbers or datetime64.
    sources : tuple of str, optional
        For each feature the column that it came from, such as that of a 0/1 feature of one level;
        by default each feature is a column of its own.
    scales : tuple of float, optional
        For each feature what it was divided by, so that coefficients of a trend are told in the
        units of the column; by default 1.
    shell : bool
        Whether the reader uses the command line: the report then names its options.
    """

    title: str = "Held-out report"
    target: str = "y"
    feature_names: tuple[str, ...] | None = None
    group: str = "group"
    cv: str | None = None
    preparation: tuple[str, ...] = ()
    command: str | None = None
    data: str | None = None
    checksum: str | None = None
    warnings: tuple[str, ...] = ()
    columns: tuple[ColumnAccount, ...] = ()
    notes: tuple[str, ...] = ()
    inside: InsideOut | None = None
    time: str | None = None
    moments: NDArray[Any] | None = None
    sources: tuple[str, ...] | None = None
    scales: tuple[float, ...] | None = None
    shell: bool = False


@dataclass(frozen=True)
class Ask:
    """What to ask beyond the score itself.

    Attributes
    ----------
    level : float, optional
        Of the interval of the score, from many random partitions, however long that takes. None:
        0.9, from partitions if that takes no time, otherwise the asymptotic one.
    nested : bool
        Whether to choose the penalty again without the rows that are predicted.
    permutations : int
        How many permuted targets to try; 0 for none.
    seed : int
        Of partitions, folds and permutations.
    interval : float, optional
        Level of the intervals of single predictions; None: 0.9.
    seconds : float
        About how long everything may take; findings that would take longer are left out.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from holdfast import KernelRidgeCV
    >>> from holdfast.report import Ask, summarise
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelRidgeCV(gamma=10.0, alphas=[0.01, 0.1, 1.0, 10.0], cv=5).fit(X, y)
    >>> summary = summarise(model, verify=0, ask=Ask(permutations=99))
    >>> summary.sure.p_value
    0.01
    """

    level: float | None = None
    nested: bool = False
    permutations: int = 0
    seed: int = 0
    interval: float | None = None
    seconds: float = 60.0

    @property
    def patience(self) -> float:
        """How much longer than by default findings may take."""
        return self.seconds / 60.0


@dataclass(frozen=True, eq=False)
class Case:
    """A fitted model with all that findings look at."""

    model: CrossValidatedKernelRidge
    context: Context
    ask: Ask
    target: int  #: Which of several targets
    curve: CVCurve  #: The score over the penalties, and the scale that scores are shown in
    held: HeldOutPredictions  #: Of the model's own experiments, at the penalty in use
    results: RowResults  #: The same, row by row
    #: What findings have to say of themselves: why one is missing, or to be read with care
    notes: list[str] = field(default_factory=list)

    @property
    def groups(self) -> NDArray[Any] | None:
        """Group of each row of the data."""
        return self.model._problem.groups

    @property
    def classifies(self) -> bool:
        """Whether the targets are classes."""
        return self.model._classes is not None

    @property
    def work(self) -> float:
        """Rows × features², what a fit is made of (features of a dense model: rows)."""
        m = int(self.model._problem.weights.size)
        if self.model._problem.on_basis:
            return float(m) * len(self.model.basis_indices_) ** 2
        d = int(getattr(self.model, "n_features_in_", m))
        return float(m) * (min(m, d) if self.model.kernel == "linear" else m) ** 2

    def refused(self, what: str, error: HoldfastError) -> None:
        """Note why a finding is missing; advice in Python is not for readers of a shell."""
        self.notes.append(f"{what}: {(self.context.shell and error.fact) or error}")

    def left_out(self, what: str) -> None:
        """Note that a finding would take long, and how to get it."""
        more = "--seconds 600" if self.context.shell else "ask=Ask(seconds=600)"
        self.notes.append(
            f"Left out because it would take long: {what} ({more} gives it more time)."
        )


def make_case(
    model: CrossValidatedKernelRidge,
    context: Context | None = None,
    ask: Ask | None = None,
    target: int = 0,
) -> Case:
    """Return a case of a fitted model (see `Case`)."""
    check_is_fitted(model)
    context = context or Context()
    alpha = float(np.atleast_1d(model.alpha_)[min(target, np.size(model.alpha_) - 1)])
    held = model.held_out(alphas=[alpha])
    results = row_results(model, held, target)
    notes = list(context.warnings)
    return Case(model, context, ask or Ask(), target, cv_curve(model), held, results, notes)


def feature_names(case: Case) -> tuple[str, ...]:
    """Return the names of the features: those of the context, of the fit, or x0, x1 and so on."""
    if case.context.feature_names is not None:
        return case.context.feature_names
    known = getattr(case.model, "feature_names_in_", None)
    d = int(getattr(case.model, "n_features_in_", 0))
    return tuple(f"x{j}" for j in range(d)) if known is None else tuple(map(str, known))
