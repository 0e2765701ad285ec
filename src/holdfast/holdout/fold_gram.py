"""The normal equations of each experiment's own training rows, solved for every penalty.

The choice when |H| is not small compared with p. Equations in features are those of all rows less
those of the held-out rows; a dense model takes the kernel matrix of its training rows. Either way
one tridiagonal reduction serves every penalty. Removing basis rows restricts the equations to the
orthogonal complement of the constraint rows N_E.
"""

from __future__ import annotations

from holdfast._typing import FloatArray
from holdfast.experiments import Tasks
from holdfast.holdout.digits import few_left, without_doubt, without_reach
from holdfast.linalg import Complement, solve_shifted
from holdfast.smoother import Equations, Smoother


def predict(smoother: Smoother, tasks: Tasks, alphas: FloatArray, columns: slice) -> FloatArray:
    """Return held-out predictions of all tasks, shape (alphas, test rows, targets).

    Notes
    -----
    Per experiment: |H| p² for its Gram matrix, unless the first pass over the rows has it already;
    4/3 p³ for the reduction, 2 p² v per α. For a dense model m − |H| takes the place of p.
    """
    few = few_left(smoother, tasks)
    values = smoother.by_fold(solve, tasks, alphas, columns, few)
    values = without_reach(values, smoother, tasks, alphas, few)
    return without_doubt(values, smoother, tasks, alphas, columns)


def solve(equations: Equations, alphas: FloatArray) -> FloatArray:
    """Return the models (a, p, v) that solve the equations, with N_E x = 0 imposed.

    NaN where so little of A is left that the solution would have lost its digits.
    """
    A, rhs, accuracy = equations.A, equations.rhs, equations.accuracy
    if equations.N_E.size:
        complement = Complement(equations.N_E)
        accuracy = accuracy.mixed(len(A) - complement.n_removed)
        inner = solve_shifted(complement.reduce(A), complement.project(rhs), alphas, accuracy)
        return equations.complete(complement.lift(inner))
    return equations.complete(solve_shifted(A, rhs, alphas, accuracy))
