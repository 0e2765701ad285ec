"""The command tune: a width for each feature, by the gradient of the held-out criterion."""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

from holdfast.cli.commands import check_folders, save_model
from holdfast.cli.console import collected_warnings, remark, say, showing_progress
from holdfast.cli.fitting import Data, cv_of, make_model, read_data
from holdfast.exceptions import InvalidInputError

__all__ = ["TUNED", "run_tune"]

#: Kernels whose gradients are known.
TUNED = ("rbf", "matern12", "matern32", "matern52")


def run_tune(options: argparse.Namespace) -> int:
    """Find the penalty and the widths of the best held-out score, and say what matters."""
    from holdfast.tuning import tune
    from holdfast.tuning.losses import LOSSES

    if options.kernel not in TUNED:
        raise InvalidInputError(
            f"tune takes --kernel {', '.join(TUNED)}, whose gradients are known; got --kernel "
            f"{options.kernel}. Compare other kernels with holdfast compare --kernels."
        )
    if options.scoring is not None and options.scoring not in LOSSES:
        raise InvalidInputError(
            "tune minimises the squared error, or maximises --scoring log_density or crps; got "
            f"--scoring {options.scoring}. Take one of these, or choose widths by any score with "
            "holdfast cv --gamma."
        )
    if options.held_out_basis in ("train", "reselect"):
        raise InvalidInputError(
            f"tune takes --held-out-basis remove, keep or skip; got {options.held_out_basis}. "
            "Judge the widths that it finds with holdfast cv."
        )
    check_folders(options.save)
    make_model(options, cv_of(options))
    with showing_progress(options.quiet), collected_warnings() as messages:
        data = read_data(options)
        cv = cv_of(options, data)
        model = make_model(options, cv, data.preparation)
        given: dict[str, Any] = {"sample_weight": data.weights, "groups": data.groups}
        found = tune(model, data.X, data.y, ard=not options.one_width, **given)
        fitted = found.estimator().fit(data.X, data.y, **given)
    features = _features(data, found)
    if options.json:
        print(json.dumps(_as_json(data, found, fitted, features, messages), indent=2))
    else:
        _tell(data, cv.words, found, features)
    for note in messages:
        remark(f"note: {note}", options.quiet)
    if options.save:
        save_model(options, data, fitted)
    return 0


def _features(data: Data, found: Any) -> list[dict[str, Any]]:
    """Return what is known of each feature, those that matter most first."""
    if found.relevance is None:
        return []
    names = map(str, data.preparation.get_feature_names_out())
    rows = zip(
        names,
        found.gamma.tolist(),
        found.relevance.rise.tolist(),
        found.relevance.standard_error.tolist(),
        found.relevance.verdicts,
        strict=True,
    )
    keys = ("feature", "gamma", "rise", "standard_error", "verdict")
    return sorted((dict(zip(keys, row, strict=True)) for row in rows), key=lambda r: -r["rise"])


def _as_json(
    data: Data, found: Any, fitted: Any, features: list[dict[str, Any]], messages: list[str]
) -> dict[str, Any]:
    return {
        "data": data.label,
        found.criterion_name.replace(" ", "_").lower(): found.criterion,
        "standard_error": found.standard_error,
        "alpha": float(np.ravel(fitted.alpha_)[0]),
        "gamma": found.gamma.tolist(),
        "evaluations": found.n_evaluations,
        "converged": bool(found.success),
        "features": features,
        "warnings": messages,
    }


def _tell(data: Data, words: str, found: Any, features: list[dict[str, Any]]) -> None:
    from holdfast.displays.score_scale import number
    from holdfast.report.blocks import KeyFigures, table

    def cells(row: dict[str, Any]) -> tuple[str, ...]:
        untouched = row["rise"] == 0 and row["verdict"] == "irrelevant"
        se = "" if untouched else f"{row['standard_error']:.2g}"
        return row["feature"], f"{row['gamma']:.3g}", f"{row['rise']:.3g}", se, row["verdict"]

    what = found.criterion_name
    figures = [
        (number(found.criterion), f"held-out {what}; it was minimised, so it is optimistic"),
        (number(found.standard_error, 2), "its standard error"),
        (number(found.alpha, 2), "penalty λ"),
        (str(found.n_evaluations), "evaluations"),
    ]
    if not features:
        figures.insert(3, (number(float(found.gamma[0]), 3), "gamma"))
    say(f"{data.label}, held out by {words}", KeyFigures(tuple(figures)))
    if features:
        header = ("feature", "gamma", "error rises by", "standard error", "verdict")
        say(
            table("Features, those that matter most first", header, list(map(cells, features))),
            f"The rise is in {what} when the model may not use the feature.",
        )
