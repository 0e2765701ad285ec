"""`patch`: code that imports from scikit-learn gets the drop-ins, inside a block."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sklearn.model_selection as original

from holdfast.model_selection.functions import (
    cross_val_predict,
    cross_val_score,
    cross_validate,
    validation_curve,
)
from holdfast.model_selection.permutation import permutation_test_score
from holdfast.model_selection.search import GridSearchCV

__all__ = ["patch"]

#: What takes the place of which name of `sklearn.model_selection`.
DROP_INS: dict[str, Any] = {
    "cross_val_predict": cross_val_predict,
    "cross_val_score": cross_val_score,
    "cross_validate": cross_validate,
    "validation_curve": validation_curve,
    "permutation_test_score": permutation_test_score,
    "GridSearchCV": GridSearchCV,
}


@contextmanager
def patch() -> Iterator[None]:
    """Replace the functions of `sklearn.model_selection` by those without refits, inside a block.

    For code that cannot be changed. Modules that have imported the names already
    (``from sklearn.model_selection import cross_val_score``) get the drop-ins, too, and everything
    is as before afterwards. scikit-learn's own modules are left alone, but for
    `sklearn.model_selection`, where users import from.

    Examples
    --------
    >>> from holdfast.model_selection import patch
    >>> with patch():
    ...     from sklearn.model_selection import cross_val_score
    ...     print(cross_val_score.__module__)
    holdfast.model_selection.functions
    >>> from sklearn.model_selection import cross_val_score
    >>> print(cross_val_score.__module__)
    sklearn.model_selection._validation
    """
    replaced = [(vars(module), name, old) for module, name, old in _places()]
    try:
        for names, name, old in replaced:
            names[name] = _drop_in(old)
        yield
    finally:
        for names, name, old in replaced:
            names[name] = old


def _drop_in(old: Any) -> Any:
    return next(DROP_INS[name] for name in DROP_INS if ORIGINALS[name] is old)


#: scikit-learn's own, as they were when this module was imported.
ORIGINALS: dict[str, Any] = {name: getattr(original, name) for name in DROP_INS}


def _places() -> Iterator[tuple[Any, str, Any]]:
    """Yield (module, name, what it is) wherever one of the originals has a name."""
    known = {id(value): value for value in ORIGINALS.values()}
    for module in list(sys.modules.values()):
        name = getattr(module, "__name__", "")
        if not isinstance(name, str) or name.split(".")[0] == "holdfast":
            continue
        if name.split(".")[0] == "sklearn" and module is not original:
            continue
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if id(value) in known:
                yield module, attribute, value
