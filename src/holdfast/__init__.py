"""Exact cross-validation for kernel least squares.

>>> from holdfast import KernelRidgeCV, KernelRidgeClassifierCV, HoldOut

Everything is imported on first use, so that ``import holdfast`` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.3.0"

#: Public names and the module that each comes from.
_WHERE = {
    "KernelMixtureCV": "holdfast.estimators.mixture",
    "KernelRidgeCV": "holdfast.estimators.regression",
    "KernelRidgeClassifierCV": "holdfast.estimators.classification",
    "HoldOut": "holdfast.core.experiments",
    "compare": "holdfast.answers.comparison",
    "from_sklearn": "holdfast.model_selection.adopted",
    "Experiments": "holdfast.core.experiments",
    "show_versions": "holdfast.versions",
    "trusted_types": "holdfast.estimators.state",
    "tune": "holdfast.tuning",
}
_MODULES = (
    "basis",
    "displays",
    "exceptions",
    "kernels",
    "model_selection",
    "splitters",
    "tuning",
)

__all__ = [  # resolved by __getattr__
    "Experiments",
    "HoldOut",
    "KernelMixtureCV",
    "KernelRidgeCV",
    "KernelRidgeClassifierCV",
    "__version__",
    "basis",
    "compare",
    "displays",
    "exceptions",
    "from_sklearn",
    "kernels",
    "model_selection",
    "show_versions",
    "splitters",
    "trusted_types",
    "tune",
    "tuning",
]

if TYPE_CHECKING:
    from holdfast import (
        basis,
        displays,
        exceptions,
        kernels,
        model_selection,
        splitters,
        tuning,
    )
    from holdfast.answers.comparison import compare
    from holdfast.core.experiments import Experiments, HoldOut
    from holdfast.estimators.classification import KernelRidgeClassifierCV
    from holdfast.estimators.mixture import KernelMixtureCV
    from holdfast.estimators.regression import KernelRidgeCV
    from holdfast.estimators.state import trusted_types
    from holdfast.model_selection.adopted import from_sklearn
    from holdfast.tuning import tune
    from holdfast.versions import show_versions


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    if name in _MODULES:
        return import_module(f"holdfast.{name}")
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
