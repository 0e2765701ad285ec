r"""The model that never saw some rows, from the model that saw all of them: the theory in a page.

**One smoother.** A penalised least-squares model is ŷ = S(α) y. Take the features W of all rows,
weighted, centred, and in coordinates where the penalty is α times the identity. With the
eigenvectors T of WᵀW = T Λ Tᵀ and V = W T,

    S(α) = V D Vᵀ,   D = 1/(Λ + α)        and the unpenalised columns Q add QQᵀ

**One identity.** Leave the rows H out and train again. The errors of the new model f₋H on them are

    r_H = y_H − f₋H(X_H) = (I − S_HH)⁻¹ (y_H − ŷ_H)

*Proof.* Replace y_H by the new model's own predictions. Then f₋H fits the held-out rows without
error and is optimal on the others, so it is also the model of all rows with these targets (paper
004, Lemma 1): ŷ_H − S_HH r_H = f₋H(X_H) = y_H − r_H. Solve for r_H. ∎

It follows that f₋H is the model of all rows with the targets y − r on H, so that for *any* row

    f₋H(x) = v(x)ᵀ β₋H,        β₋H = D (z − V_Hᵀ r_H),   z = Vᵀy

**Removed basis rows.** A sparse model on B∖E is the same problem under the constraint N_E β = 0.
With O an orthonormal basis of the rows N_E, M_E = D − D O (OᵀDO)⁻¹ OᵀD takes the place of D.

**A worked example.** One feature, no bias, α = 1, x = (1, 2), y = (1, 1): S = xxᵀ/6, ŷ = (½, 1).
Hold the second row out: r = (1 − 4/6)⁻¹ (1 − 1) = 0, so f₋₂(2) = 1; and indeed the model of the
first row alone is θ = x₁y₁/(x₁² + 1) = ½, which predicts 2θ = 1.

**Four ways to the same numbers**, one file each, registered in `PATHS`:

| path | what is factorised | the choice when |
|---|---|---|
| `spectral` | all rows, once for every α | held-out sets are small, penalties many |
| `single` | all rows, once for each α | one or two penalties |
| `fold_gram` | the training rows of each experiment, once for every α | held-out sets are large |
| `retrain` | the same from scratch: the naive twin | little is left, or a check is wanted |

`identity` alone knows r_H = (I − S_HH)⁻¹e_H and solves it, directly, by conjugate gradients
(`conjugate`), or, for sets that share most of their rows, on parts of one S (`overlapping`).
Answers that ask for all pairs of folds, or for inner folds of outer ones, have it solved for all of
them together: on features by `unions` (without basis rows by `projections`), on a kernel matrix
block by block (`elimination`). `digits` says where a path would lose digits, `plan` and `costs` say
which path is cheapest; `check` trains one experiment of every fit again, and `verify` a few when
asked.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import numpy as np

from holdfast._typing import BoolArray, FloatArray
from holdfast.experiments import Tasks
from holdfast.holdout import fold_gram, retrain, single, spectral
from holdfast.holdout.digits import (
    TOLD_BOUND,
    TOO_LITTLE,
    affordable,
    basis_shrinks,
    few_left,
    taken,
    warn_of_digits,
    warn_of_rounding,
    warn_of_unlike_rows,
)
from holdfast.holdout.identity import held_out_predictions
from holdfast.linalg import pieces_alone
from holdfast.smoother import Smoother

__all__ = ["PATHS", "predict"]

PathFunction = Callable[[Smoother, Tasks, FloatArray, slice], FloatArray]

#: Every way to held-out predictions, by name. Registering one is testing it: the exact matrix, the
#: oracle and the laws run over this table.
PATHS: MappingProxyType[str, PathFunction] = MappingProxyType(
    {
        "spectral": spectral.predict,
        "fold_gram": fold_gram.predict,
        "single": single.predict,
        "retrain": retrain.predict,
    }
)


def predict(
    smoother: Smoother,
    tasks: Tasks,
    alphas: FloatArray,
    path: str,
    columns: slice = slice(None),
) -> FloatArray:
    """Return held-out predictions (alphas, test rows, targets).

    Parameters
    ----------
    smoother : Smoother
        Of all rows.
    tasks : Tasks
        What is held out, removed and tested.
    alphas : ndarray of shape (a,)
    path : str
        A name in `PATHS`.
    columns : slice
        Which targets.

    Notes
    -----
    This is the only place that weighs digits: tasks that remove much of the basis are trained from
    scratch, and tasks that leave little of the data are trained on the rows they leave, whatever
    the path.
    """
    for j in range(0 if smoother.unpenalised.constant else len(tasks)):
        smoother.unpenalised.require_determined(tasks.held[j])
    warn_of_rounding(smoother, alphas)
    warn_of_unlike_rows(alphas, smoother.unlike_rows(alphas), TOLD_BOUND)
    # The lock: rows must not be rotated while others read them.
    with smoother.lock, pieces_alone(smoother.order):
        hard = smoother.promise(alphas) > TOO_LITTLE
        if path != "retrain" and hard.any():
            if affordable(smoother, tasks, int(hard.sum())):
                return _with_hard_penalties(smoother, tasks, alphas, path, columns, hard)
            warn_of_unlike_rows(alphas[hard], smoother.promise(alphas[hard]))
        ways = _ways(smoother, tasks, path)
        values = np.empty((alphas.size, tasks.test.values.size, smoother.count(columns)))
        for way, chosen in ways.items():
            if len(ways) == 1:
                values = PATHS[way](smoother, tasks, alphas, columns)
                break
            part, where = tasks.select(np.flatnonzero(chosen)), chosen[tasks.test.owners]
            values[:, where] = PATHS[way](smoother, part, alphas, columns)
        if np.isnan(values).any():
            _fill_in(values, smoother, tasks, alphas, columns)
    return smoother.restore(values, tasks.test.values, columns)


def _with_hard_penalties(
    smoother: Smoother,
    tasks: Tasks,
    alphas: FloatArray,
    path: str,
    columns: slice,
    hard: BoolArray,
) -> FloatArray:
    """Return predictions, trained from scratch at penalties where no factor has enough digits."""
    values = np.empty((alphas.size, tasks.test.values.size, smoother.count(columns)))
    values[hard] = predict(smoother, tasks, alphas[hard], "retrain", columns)
    if not hard.all():
        values[~hard] = predict(smoother, tasks, alphas[~hard], path, columns)
    return values


def _fill_in(
    values: FloatArray, smoother: Smoother, tasks: Tasks, alphas: FloatArray, columns: slice
) -> None:
    """Replace predictions that lost their digits (NaN) by those of a path that keeps them.

    For features first the spectral path, whose factor is made for the smallest penalty, for a
    kernel matrix the inverse at each penalty; then training from scratch, if that is affordable;
    otherwise the digits that are left, with a warning.
    """
    for path in smoother.repairs:
        lost = np.asarray(np.isnan(values).any(axis=2))  # (alphas, test rows)
        if not lost.any():
            return
        again = np.bincount(tasks.test.owners, weights=lost.any(axis=0), minlength=len(tasks)) > 0
        which = np.flatnonzero(lost.any(axis=1))
        part, where = tasks.select(np.flatnonzero(again)), np.flatnonzero(again[tasks.test.owners])
        if path == "retrain" and not affordable(smoother, part, which.size):
            better = _digits_left(smoother, part, alphas[which], columns)
            warn_of_digits(alphas[which], len(part))
        else:
            better = PATHS[path](smoother, part, alphas[which], columns)
        old = values[np.ix_(which, where)]
        values[np.ix_(which, where)] = np.where(np.isnan(old), better, old)


def _digits_left(
    smoother: Smoother, tasks: Tasks, alphas: FloatArray, columns: slice
) -> FloatArray:
    """Return predictions by the first path that makes up for lost digits, as good as they are."""
    if smoother.repairs[0] == "spectral":
        factor = smoother.factor(least=float(alphas.min())).select(columns).relaxed()
        return smoother.run(held_out_predictions, factor, tasks, alphas)
    factors = (smoother.factor(alpha).select(columns).relaxed() for alpha in alphas.tolist())
    parts = zip(factors, alphas[:, None], strict=True)
    return np.concatenate(
        [smoother.run(held_out_predictions, factor, tasks, alone) for factor, alone in parts]
    )


def _ways(smoother: Smoother, tasks: Tasks, path: str) -> dict[str, BoolArray]:
    """Return which tasks take which path, as masks."""
    everything = np.ones(len(tasks), dtype=bool)
    if path == "retrain":
        return {path: everything}
    again = basis_shrinks(tasks, smoother.n_basis)
    if path == "fold_gram" and not smoother.additive:
        path = "spectral"
    serves = smoother.spectrum_serves
    path = taken(path, serves)
    if path == "fold_gram":
        if not again.all():
            smoother.announce(tasks.select(np.flatnonzero(~again)))
        masks = {"retrain": again, "fold_gram": ~again}
    else:
        few = few_left(smoother, tasks) & ~again
        masks = {"retrain": again, "fold_gram": ~everything, path: ~(again | few)}
        # Before the path itself, whose factor may leave coordinates that cannot be summed.
        summed = smoother.additive and serves
        masks["fold_gram" if summed else "retrain"] |= few
    return {way: mask for way, mask in masks.items() if mask.any()}
