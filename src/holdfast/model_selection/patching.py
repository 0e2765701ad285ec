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

#: scikit-learn's own, as they were when this module was imported, and what takes their place.
DROP_INS: list[tuple[Any, Any]] = [
    (getattr(original, new.__name__), new)
    for new in (
        cross_val_predict,
        cross_val_score,
        cross_validate,
        validation_curve,
        permutation_test_score,
        GridSearchCV,
    )
]


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
    drop_ins = {id(old): new for old, new in DROP_INS}
    places = [
        (vars(module), name, value)
        for module in list(sys.modules.values())
        if _changes(module)
        for name, value in list(vars(module).items())
        if id(value) in drop_ins
    ]
    try:
        for names, name, old in places:
            names[name] = drop_ins[id(old)]
        yield
    finally:
        for names, name, old in places:
            names[name] = old


def _changes(module: Any) -> bool:
    """Whether names of a module are replaced: neither ours, nor those inside scikit-learn."""
    name = getattr(module, "__name__", None)
    if not isinstance(name, str) or not hasattr(module, "__dict__"):
        return False
    return module is original or name.split(".")[0] not in ("holdfast", "sklearn")
