"""scikit-learn's functions of model selection without the refits: the same numbers, exactly.

`Ridge`, `RidgeClassifier`, `LinearRegression`, `KernelRidge` and `GaussianProcessRegressor` with
fixed hyper-parameters are linear smoothers, also behind transformers that learn nothing, and a
`StandardScaler` before a linear model. Their held-out predictions follow from one fit
(`holdfast.core`). Everything else is left to scikit-learn, with a warning that names what has no
closed form. Every other name of `sklearn.model_selection` is here too, and is scikit-learn's own:
changing an import never breaks code.

| module | what it holds |
|---|---|
| `description` | the one parser: from an estimator to the smoother that it describes |
| `problem` | a description on rows and targets, and the one way to held-out predictions |
| `least_squares` | these of models without a penalty |
| `question` | what the user asked, and the splits, which are made once |
| `stand_in` | what scikit-learn's own functions are run with, so that scoring is theirs |
| `job` | from a question to answers, or to a refit with a word |
| `functions`, `permutation`, `search` | the functions, `GridSearchCV`, and what chooses inside |
| `adopted` | `holdfast.from_sklearn`: a fitted model of holdfast with the same predictions |

>>> from sklearn.datasets import load_diabetes
>>> from sklearn.linear_model import Ridge
>>> from sklearn.model_selection import LeaveOneOut
>>> from holdfast.model_selection import cross_val_score
>>> X, y = load_diabetes(return_X_y=True)
>>> scores = cross_val_score(Ridge(), X, y, cv=LeaveOneOut(), scoring="neg_mean_squared_error")
>>> round(float(scores.mean()))
-3328
"""

from typing import Any

from sklearn import model_selection as _theirs

from holdfast.model_selection.functions import cross_val_predict, cross_val_score, cross_validate
from holdfast.model_selection.permutation import permutation_test_score
from holdfast.model_selection.search import GridSearchCV

__all__ = [
    "GridSearchCV",
    "cross_val_predict",
    "cross_val_score",
    "cross_validate",
    "permutation_test_score",
]


def __getattr__(name: str) -> Any:
    """Return scikit-learn's own, whatever has no other here: splitters, searches, helpers."""
    if name.startswith("_") or not hasattr(_theirs, name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_theirs, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_theirs.__all__})
