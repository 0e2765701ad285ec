"""The command compare: kernels, a linear model and the mean on the same experiments."""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
from sklearn.base import clone

from holdfast.cli.console import collected_warnings, remark, say, showing_progress
from holdfast.cli.fitting import Data, cv_of, make_model, read_data
from holdfast.cli.parser import KERNELS
from holdfast.exceptions import InvalidInputError

__all__ = ["run_compare"]

#: Kernels that have no gamma to choose.
_WITHOUT_WIDTH = ("linear", "cosine")


def run_compare(options: argparse.Namespace) -> int:
    """Say which kernel predicts best, and whether the differences mean anything."""
    from holdfast import compare

    names = _names(options.kernels)
    if not 0.0 < options.level < 1.0:
        raise InvalidInputError(
            f"--level must lie between 0 and 1, such as 0.9; got {options.level:g}."
        )
    make_model(options, cv_of(options))
    with showing_progress(options.quiet), collected_warnings() as messages:
        data = read_data(options)
        cv = cv_of(options, data)
        template = make_model(options, cv, data.preparation)
        models = [_fitted(template, name, data) for name in names]
        baseline = "most frequent class" if options.classify else "mean of the target"
        called = [*names, baseline]
        found = compare(*models, _baseline(models[0]), names=called, level=options.level)
    table = _against_best(found, models)
    if options.json:
        document = {
            "data": data.label,
            "scoring": found.scoring,
            "level": options.level,
            "method": found.method,
            "units": found.units,
            "models": table,
            "warnings": messages,
        }
        print(json.dumps(document, indent=2))
    else:
        _tell(data, cv.words, found, table)
    for note in messages:
        remark(f"note: {note}", options.quiet)
    return 0


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in KERNELS]
    if unknown or not names or len(set(names)) < len(names):
        raise InvalidInputError(
            f"--kernels must name kernels, each once and separated by commas, of "
            f"{', '.join(KERNELS)}; got {text!r}."
        )
    return names


def _fitted(template: Any, kernel: str, data: Data) -> Any:
    model = clone(template).set_params(kernel=kernel)
    if kernel in _WITHOUT_WIDTH:
        model.set_params(gamma=None)
    return model.fit(data.X, data.y, sample_weight=data.weights, groups=data.groups)


def _baseline(model: Any) -> list[Any]:
    """Return for each experiment what the training rows say without any feature."""
    problem = model._problem
    labels, found = problem.labels, []
    for held, test in zip(problem.experiments.held_out, problem.experiments.test, strict=True):
        weights = problem.weights.copy()
        weights[held] = 0.0
        if labels.ndim == 1:  # classes
            totals = [weights[labels == name].sum() for name in model.classes_]
            found.append(np.full(test.size, model.classes_[int(np.argmax(totals))]))
        else:
            found.append(np.full(test.size, float(weights @ labels[:, 0] / weights.sum())))
    return found


def _against_best(found: Any, models: list[Any]) -> list[dict[str, Any]]:
    """Return one row for each model, the best first, with its difference to the best."""
    order = np.argsort(-found.scores, kind="stable").tolist()
    best, rows = order[0], []
    columns = {name: np.atleast_1d(getattr(found, name)) for name in ("difference", "low", "high")}
    p_holm = np.atleast_1d(found.p_holm)
    for i in order:
        row: dict[str, Any] = {"model": found.names[i], "score": float(found.scores[i])}
        if i < len(models):
            chosen = models[i].best_params_
            params = {k: v for k, v in chosen.items() if k not in ("kernel", "alpha")}
            row |= {"alpha": float(np.ravel(models[i].alpha_)[0]), "params": params}
        if i != best:
            k = found.pairs.index((min(i, best), max(i, best)))
            behind = (columns["low"][k], columns["difference"][k], columns["high"][k])
            if best > i:  # the difference is that of this model less the best
                behind = (-behind[2], -behind[1], -behind[0])
            row |= dict(zip(("low", "behind", "high"), map(float, behind), strict=True))
            row["p_holm"] = float(p_holm[k])
        rows.append(row)
    return rows


def _tell(data: Data, words: str, found: Any, rows: list[dict[str, Any]]) -> None:
    from holdfast.report.blocks import Text, table

    def cells(row: dict[str, Any]) -> tuple[str, ...]:
        gamma = row.get("params", {}).get("gamma")
        shown = (row["model"], f"{row['score']:.5g}", "" if gamma is None else f"{gamma:.3g}")
        if "behind" not in row:
            return *shown, "", "the best"
        between = f"{row['behind']:.4g} (from {row['low']:.4g} to {row['high']:.4g})"
        return *shown, f"{row['p_holm']:.2g}", between

    best, *others = rows
    rivals = [row["model"] for row in others if row["low"] <= 0]
    verdict = f"{best['model']} is better than every other."
    if rivals:
        verdict = f"Not clearly different from {best['model']}: {', '.join(rivals)}."
    header = ("model", found.scoring, "gamma", "p", f"behind the best, {found.level:.0%} interval")
    say(
        f"{data.label}, held out by {words}",
        table("Models, the best first", header, [cells(row) for row in rows]),
        Text(verdict, strong=True),
        f"p is corrected for the number of pairs; independent units: {found.units}.",
    )
