"""Models in files: written by skops, and opened without trusting whoever wrote them.

A file holds the fitted preparation of the columns (scikit-learn's and skrub's types), the rows
that the model was fitted to, and what was chosen: kernel, width, penalty, basis rows. The model is
refitted when the file is opened, at that one penalty, which is quick; so a file holds no type
of holdfast, and outlives its versions. `load` trusts a fixed list of types, and refuses anything
else by name: opening it could run code of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.app.words import BadData, BadOption, count, listed, quoted, safe

if TYPE_CHECKING:
    from holdfast.app.fitting import Answer

__all__ = ["TRUSTED", "dump", "load", "predict"]

_FORMAT = 1

#: Types that a file may hold, beside those that skops trusts anyway.
TRUSTED = (
    "numpy.dtype",
    "sklearn.compose._column_transformer._RemainderColsList",  # of scikit-learn 1.6
    "skrub._datetime_encoder.DatetimeEncoder",
    "skrub._string_encoder.StringEncoder",
    "skrub._to_str.ToStr",
)


def dump(answer: Answer, na: list[str]) -> bytes:
    """Return the file of a fitted model.

    Parameters
    ----------
    answer : Answer
    na : list of str
        Further marks of missing values, which count when rows are predicted too.
    """
    import skops.io

    import holdfast

    task, model, holding = answer.task, answer.fit.model, answer.holding
    gamma = model.best_params_.get("gamma", answer.settings.gamma)
    content = {
        "format": _FORMAT,
        "holdfast": holdfast.__version__,
        "target": task.target,
        "classify": task.classify,
        "group": task.group,
        "features": list(task.features),
        "kinds": {name: task.table.kinds[name] for name in task.features},
        "na": list(na),
        "preparation": task.preparation,
        "X": task.X,
        "y": task.y,
        "weights": task.weights,
        "groups": holding.groups,
        "times": holding.times,
        "cv": {"rows": "loo" if holding.folds is None else ""}.get(holding.kind, holding.kind),
        "folds": holding.folds,
        "seed": answer.settings.seed,
        "kernel": answer.settings.kernel,
        "gamma": None if gamma is None else float(gamma),
        "alpha": float(np.ravel(model.alpha_)[0]),
        "basis": None if answer.fit.basis >= len(task.y) else np.asarray(model.basis_indices_),
    }
    return bytes(skops.io.dumps(content))


def _model_of(content: dict[str, Any]) -> Any:
    """Return the fitted model of a file."""
    from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
    from holdfast.app.holding import fold_cv

    common: dict[str, Any] = {
        "gamma": content["gamma"],
        "alphas": [content["alpha"]],
        "basis": content["basis"],
        "cv": fold_cv(
            content["cv"],
            content["folds"],
            content["times"],
            content["seed"],
            classify=content["classify"],
        ),
    }
    if content["classify"]:
        model = KernelRidgeClassifierCV(content["kernel"], calibration="sigmoid", **common)
    else:
        model = KernelRidgeCV(content["kernel"], **common)
    return model.fit(
        content["X"], content["y"], sample_weight=content["weights"], groups=content["groups"]
    )


def load(path: str) -> dict[str, Any]:
    """Return what a model file holds; refuse files of other types by name."""
    import zipfile

    import skops.io

    try:
        with open(path, "rb") as opened:
            raw = opened.read()
    except OSError as error:
        raise BadOption(f"Cannot read {safe(path)}: {error.strerror}.") from error
    try:
        foreign = sorted(set(skops.io.get_untrusted_types(data=raw)) - set(TRUSTED))
        if foreign:
            raise BadData(
                f"{safe(path)} holds {listed(foreign)}, which no file of holdfast cv --save holds: "
                "it is not opened."
            )
        content = skops.io.loads(raw, trusted=list(TRUSTED))
    except (
        zipfile.BadZipFile,
        KeyError,
        ValueError,
        TypeError,
        AttributeError,
        ImportError,
    ) as error:
        raise BadData(
            f"{safe(path)} is no model file, or is damaged: {safe(error, 200)}"
        ) from error
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise BadData(f"{safe(path)} was not written by this version of holdfast cv --save.")
    return content


def predict(
    content: dict[str, Any], path: str, level: float | None = None, keep: str | None = None
) -> tuple[Any, list[str]]:
    """Return a frame of predictions for the rows of a file, and remarks on them."""
    import pandas as pd

    from holdfast.app.reading import read_table

    table = read_table(path, content["na"], content["kinds"])
    features = content["features"]
    absent = [name for name in features if name not in table.frame.columns]
    if absent:
        raise BadData(f"{safe(path)} lacks {listed(absent)}, which the model was fitted to.")
    remarks: list[str] = []
    X = np.asarray(content["preparation"].transform(table.frame[features]), dtype=float)
    if content["classify"] and level is not None:
        raise BadOption("--level is for numbers; classes have probabilities.")
    try:
        model = _model_of(content)
    except (KeyError, ValueError, TypeError) as error:
        raise BadData(f"The model file is damaged: {safe(error, 200)}") from error
    made: dict[str, Any] = {"line": table.lines}
    for name in [part.strip() for part in keep.split(",")] if keep else []:
        if name not in table.frame.columns:
            raise BadOption(f"--keep: there is no column {quoted(name)}.")
        made[name] = table.frame[name]
    predicted = model.predict(X)
    made["prediction"] = predicted
    if content["classify"]:
        P = model.predict_proba(X)
        made |= {f"probability {c}": P[:, j] for j, c in enumerate(model.classes_)}
    elif level is not None:
        bounds = model.predict_interval(X, level)
        made["low"], made["high"] = bounds[:, 0], bounds[:, 1]
    missing = int(table.frame[features].isna().sum().sum())
    if missing:
        remarks.append(
            f"{count(missing, 'missing cell was', 'missing cells were')} filled in as in the fit"
        )
    remarks += _score(table, content, predicted)
    return pd.DataFrame(made), remarks


def _score(table: Any, content: dict[str, Any], predicted: Any) -> list[str]:
    """Say how far off the predictions are, where the file holds the truth."""
    from holdfast.app.words import percent
    from holdfast.displays.words import number

    target = content["target"]
    if target not in table.frame.columns or table.frame[target].isna().all():
        return []
    known = table.frame[target].notna().to_numpy()
    truth = table.frame[target][known]
    if content["classify"]:
        labels = truth.map(lambda v: f"{v:g}" if isinstance(v, float) else str(v)).to_numpy(str)
        right = float(np.mean(labels == predicted[known].astype(str)))
        return [f"{quoted(target)} is in the file: {percent(right)} right"]
    if table.kinds[target] != "number":
        return []
    rmse = float(np.sqrt(np.mean((truth.to_numpy(float) - predicted[known]) ** 2)))
    return [f"{quoted(target)} is in the file: RMSE {number(rmse)}"]
