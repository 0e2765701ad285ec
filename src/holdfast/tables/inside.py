"""What the preparation costs: experiments with the preparation learned inside the training rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from holdfast._typing import FloatArray
from holdfast.answers.held_out import held_out
from holdfast.answers.model import make_model
from holdfast.progress import report
from holdfast.tables.preparation import TablePreparation

if TYPE_CHECKING:
    from holdfast.estimators.base import CrossValidatedKernelRidge

__all__ = ["InsideOut", "prepare_inside"]


@dataclass(frozen=True)
class InsideOut:
    """Held-out predictions with the preparation learned on all rows, and on training rows only."""

    experiments: int  #: How many were done again
    rows: int  #: How many test rows they have
    outside: float  #: Their root mean squared error (share of wrong classes), learned on all rows
    inside: float  #: The same, learned on training rows only
    largest: float  #: Largest change of a prediction, in standard deviations of the target
    seed: int  #: Of the draw

    def words(self, label: str = "RMSE") -> str:
        """Return the finding as a sentence."""
        return (
            "The preparation of columns (scales, levels, values to fill in) was learned from all "
            "rows. Learned inside the training rows instead "
            f"({self.experiments:,} experiments, {self.rows:,} test rows): "
            f"{label} {self.inside:.4g} instead of {self.outside:.4g}; the largest change of a "
            f"prediction is {self.largest:.2g} standard deviations of the target."
        )


def prepare_inside(
    model: CrossValidatedKernelRidge,
    preparation: TablePreparation,
    frame: Any,
    n_experiments: int = 5,
    random_state: int = 0,
) -> InsideOut:
    """Return what changes when the preparation is learned inside the training rows.

    Parameters
    ----------
    model : fitted estimator
        Fitted on ``preparation.transform(frame)``.
    preparation : fitted TablePreparation
    frame : Table, DataFrame, pyarrow.Table or mapping of columns
        The rows that the model was fitted on, before they were prepared.
    n_experiments : int
        How many experiments to do again, drawn at random.
    random_state : int
        Seed of the draw.

    Notes
    -----
    For each experiment a preparation is learned on the training rows, all rows are prepared with
    it, and the same kernel, penalty and basis rows answer that one experiment on them: exactly the
    predictions of a model trained on the training rows alone.
    """
    fitted = model._asked()
    problem, kernel, basis = fitted.problem, fitted.model.kernel, fitted.model.basis
    table = preparation.table_of(frame).columns(preparation.columns_)
    drawn = np.random.default_rng(random_state).permutation(len(problem.experiments))
    drawn = np.sort(drawn[:n_experiments])
    alphas = np.atleast_1d(model.alpha_)[:1]
    gaps: list[float] = []
    wrong: list[FloatArray] = []
    for done, j in enumerate(drawn):
        experiment = problem.experiments[int(j)]
        training = np.setdiff1d(np.arange(table.n_rows), experiment.held_out)
        learned = clone(preparation).set_params(keep=True)  # the same columns every time
        # Levels that only held-out rows have are unseen there, as they would be.
        X = learned.fit(table.rows(training)).learned_.matrix(table)
        other = replace(fitted, model=make_model(replace(problem, X=X), kernel, None, basis))
        found = [held_out(of, [experiment], alphas=alphas) for of in (fitted, other)]
        gaps.append(np.abs(found[1].values - found[0].values).max())
        rows = found[0].rows
        if fitted.goal.classes is None:
            values = np.array([part.values[0, :, 0] for part in found])
            wrong.append((values - np.asarray(problem.Y)[rows, 0]) ** 2)
        else:
            labels = np.array([part.labels()[0] for part in found])
            wrong.append((labels != np.asarray(problem.labels)[rows]).astype(float))
        report(done + 1, len(drawn), "preparing inside the training rows")
    errors = np.hstack(wrong)
    mean = errors.mean(axis=1)
    out, into = mean if fitted.goal.classes is not None else np.sqrt(mean)
    spread = float(np.std(np.asarray(problem.Y))) or 1.0
    largest = float(max(gaps)) / spread
    return InsideOut(len(drawn), errors.shape[1], float(out), float(into), largest, random_state)
