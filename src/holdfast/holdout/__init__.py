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

**Four ways to the same numbers**, registered in `PATHS`:

| path | what is factorised | the choice when |
|---|---|---|
| `spectral` | all rows, once for every α | held-out sets are small, penalties many |
| `single` | all rows, once for each α | one or two penalties |
| `fold_gram` | the training rows of each experiment, once for every α | held-out sets are large |
| `retrain` | the same from scratch: the naive twin | others lose accuracy, or as a check |

`identity` alone knows r_H = (I − S_HH)⁻¹e_H and solves it, directly or by conjugate gradients
(`conjugate`); `folds` solves the equations of folds. Both say how accurate they are, by the rule of
`accuracy`. `predict` is the one door: whatever the path, what it returns keeps the promise or
carries its error. `models` gives the same models as coefficients, `spread` their Gaussian view;
`plan` and `costs` say which path is cheapest, and `verify` retrains some experiments when asked.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from holdfast._typing import FloatArray
from holdfast.experiments import Tasks
from holdfast.holdout import folds
from holdfast.holdout.accuracy import CALLING, LOST, affordable
from holdfast.holdout.identity import held_out
from holdfast.linalg import pieces_alone
from holdfast.progress import Counter
from holdfast.smoother import Smoother

__all__ = ["PATHS", "Predicted", "judged", "predict"]


class Predicted(NamedTuple):
    """Held-out predictions, and how accurate they are.

    Attributes
    ----------
    values : ndarray of shape (alphas, test rows, targets)
    error : ndarray of shape (alphas, tasks)
        What the algebra adds at most, over the yardstick of the targets; at most `PROMISE`, unless
        training again would have cost too much.
    """

    values: FloatArray
    error: FloatArray


PathFunction = Callable[[Smoother, Tasks, FloatArray, slice], tuple[FloatArray, FloatArray]]


def _spectral(
    smoother: Smoother, tasks: Tasks, alphas: FloatArray, columns: slice
) -> tuple[FloatArray, FloatArray]:
    """Use one factor for every penalty, then |H| × |H| systems (Pahikkala et al. 2012)."""
    factor = smoother.factor(float(alphas.min())).select(columns)
    return smoother.run(held_out, factor, tasks, alphas)


def _single(
    smoother: Smoother, tasks: Tasks, alphas: FloatArray, columns: slice
) -> tuple[FloatArray, FloatArray]:
    """Use one factor for each penalty: Cawley and Talbot 2004; for dense models An et al. 2007.

    A Cholesky factorisation costs a fraction of an eigendecomposition, but serves one penalty only.
    """
    parts = []
    for alpha in alphas.tolist():
        factor = smoother.single(alpha).select(columns)
        parts.append(smoother.run(held_out, factor, tasks, np.array([alpha])))
    values, error = zip(*parts, strict=True)
    return np.concatenate(values), np.concatenate(error)


def _fold_gram(
    smoother: Smoother, tasks: Tasks, alphas: FloatArray, columns: slice
) -> tuple[FloatArray, FloatArray]:
    """Solve the normal equations of each experiment's own training rows.

    Per experiment: |H| p² for its Gram matrix, unless the first pass over the rows has it already;
    4/3 p³ for the reduction, 2 p² v per α. For a dense model m − |H| takes the place of p. Columns
    that nearly determine one another, or are in units far apart, cost accuracy at small penalties:
    there the equations are set up again in coordinates that are nearly orthogonal over all rows.
    """
    order = np.argsort(alphas, kind="stable")
    values, error = smoother.by_fold(folds.solve, tasks, alphas[order], columns)
    lost = ~(error <= LOST)
    which, sets = np.flatnonzero(lost.any(axis=1)), np.flatnonzero(lost.any(axis=0))
    rotated = smoother.rotated() if which.size else None
    if rotated is not None:
        part, rows = tasks.select(sets), tasks.test.where(sets).values
        again = rotated.by_fold(folds.solve, part, alphas[order][which], columns)
        values[np.ix_(which, rows)], error[np.ix_(which, sets)] = again
    if (np.diff(order) == 1).all():
        return values, error
    back = np.argsort(order, kind="stable")
    return values[back], error[back]


def _retrain(
    smoother: Smoother, tasks: Tasks, alphas: FloatArray, columns: slice
) -> tuple[FloatArray, FloatArray]:
    """Train from scratch on what each experiment leaves: no identity, no shared factor."""
    done = Counter(len(tasks), "experiments trained again")
    parts = []
    for j in range(len(tasks)):
        rows = tasks.held[j], tasks.removed[j], tasks.test[j]
        parts.append(smoother.retrain(*rows, alphas, columns))
        done.add(1)
    return np.concatenate(parts, axis=1), np.zeros((alphas.size, len(tasks)))


#: Every way to held-out predictions, by name. Registering one is testing it: the exact matrix, the
#: oracle and the property tests run over this table.
PATHS: MappingProxyType[str, PathFunction] = MappingProxyType(
    {
        "spectral": _spectral,
        "fold_gram": _fold_gram,
        "single": _single,
        "retrain": _retrain,
    }
)


def predict(
    smoother: Smoother,
    tasks: Tasks,
    alphas: FloatArray,
    path: str,
    columns: slice = slice(None),
) -> FloatArray:
    """Return held-out predictions (alphas, test rows, targets): the values of `judged`."""
    return judged(smoother, tasks, alphas, path, columns).values


def judged(
    smoother: Smoother,
    tasks: Tasks,
    alphas: FloatArray,
    path: str,
    columns: slice = slice(None),
) -> Predicted:
    """Return held-out predictions with their errors: the one door to them.

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
    Sets whose error passes the promise are trained again, at the penalties where it does, if that
    is affordable.
    """
    smoother.unpenalised.require_determined(tasks.held)
    if smoother.learned and path in ("spectral", "single"):
        path = "fold_gram"  # the identity is for features that stay what they are
    with pieces_alone(smoother.order):
        found = Predicted(*PATHS[path](smoother, tasks, alphas, columns))
        repairs = {"spectral": smoother.repairs, "retrain": ()}
        for repair in repairs.get(path, ("retrain",)):
            _train_again(found, repair, smoother, tasks, alphas, columns)
        values = smoother.restore(found.values, tasks.test.values, columns)
    return found._replace(values=values)


def _train_again(
    found: Predicted,
    path: str,
    smoother: Smoother,
    tasks: Tasks,
    alphas: FloatArray,
    columns: slice,
) -> None:
    """Replace predictions whose error passes the promise by those of another path, in place."""
    lost = ~(found.error <= LOST)  # (alphas, tasks)
    which, sets = np.flatnonzero(lost.any(axis=1)), np.flatnonzero(lost.any(axis=0))
    if not which.size:
        return
    sizes, count = np.unique(tasks.held.sizes[sets], return_counts=True)
    each = [smoother.training_work(int(h)) + CALLING for h in sizes]
    alone = float(count @ np.array(each)) * which.size
    work = alone if path == "retrain" else smoother.single_work() * which.size
    if not affordable(smoother, work) or (path != "retrain" and alone <= work):
        return
    part = tasks.select(sets)
    values, error = PATHS[path](smoother, part, alphas[which], columns)
    again = lost[np.ix_(which, sets)]
    rows = tasks.test.where(sets).values
    old = found.values[np.ix_(which, rows)]
    mask = again[:, part.test.owners][..., None]
    found.values[np.ix_(which, rows)] = np.where(mask, values, old)
    before = found.error[np.ix_(which, sets)]
    found.error[np.ix_(which, sets)] = np.where(again, error, before)
