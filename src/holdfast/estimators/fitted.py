"""A fitted estimator as `fit` left it: questions use what was fitted, whatever was set since."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from holdfast.kernels.grid import Candidate, kernel_grid
from holdfast.scores.penalties import kernel_parts

__all__ = ["compared_kernels", "of_the_fit", "snapshot", "unchanged_on_error", "without_alpha"]

P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E")


@contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Leave an estimator as it was if the block raises, so that bad input changes nothing."""
    before = estimator.__dict__.copy()
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise


def snapshot(estimator: E) -> E:
    """Return an estimator that shares all that this one has now, its factors too."""
    twin = object.__new__(type(estimator))
    twin.__dict__.update(vars(estimator))
    return twin


def of_the_fit(
    question: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[Any, P], R]:
    """Return a question of a fitted estimator that uses the parameters `fit` used.

    ``set_params`` after `fit` is for the next `fit`: neither the splitter nor the scorer nor the
    kernels of a question may differ from those of the score that it is compared with.
    """

    @wraps(question)
    def asked(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        self._fitted_model()
        twin = snapshot(self)
        twin.__dict__.update(getattr(self, "_fitted_with", {}))
        twin._compared = compared_kernels(twin)
        twin.best_params_ = without_alpha(self.best_params_)
        return question(twin, *args, **kwargs)

    return asked


def without_alpha(params: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a kernel, without the penalty that was compared with it."""
    return {name: value for name, value in params.items() if name != "alpha"}


def compared_kernels(estimator: Any) -> list[Candidate] | None:
    """Return the kernels that `fit` compared, in the order of ``cv_results_``.

    None for a file of an early version, whose only kernel is not in that table.
    """
    results, found = estimator.cv_results_, []
    X = estimator._problem.X
    for part in kernel_parts(results):
        params = without_alpha(results["params"][part.start])
        if "kernel" not in params:
            return None
        made = kernel_grid(
            params["kernel"],
            gamma=params.get("gamma"),
            degree=params.get("degree", 3),
            coef0=params.get("coef0", 1.0),
            kernel_params=estimator.kernel_params,
            n_features=X.shape[1] if X.ndim == 2 else None,
        )
        found += [Candidate(one.kernel, params) for one in made]
    return found
