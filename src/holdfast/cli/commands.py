"""The commands: cv, predict, verify."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shlex
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.cli.bands import scales_of
from holdfast.cli.certainty import certainty_columns, what_to_ask
from holdfast.cli.columns import check_pipeline, counts_features, raise_notes
from holdfast.cli.console import bold, collected_warnings, remark, say, showing_progress
from holdfast.cli.fitting import (
    Data,
    check_seed,
    cv_of,
    fit_model,
    make_model,
    opened,
    read_data,
)
from holdfast.cli.specs import CvSpec
from holdfast.cli.wording import said, with_options
from holdfast.exceptions import FileFormatError, InvalidInputError
from holdfast.tables import (
    Learned,
    Table,
    TablePreparation,
    check_writable,
    split_names,
    write_columns,
)

__all__ = [
    "check_folders",
    "run_cv",
    "run_predict",
    "run_verify",
    "save_model",
]


def run_cv(options: argparse.Namespace) -> int:
    """Fit, and say how good the model is on rows it has not seen."""
    if options.explain_columns:
        from holdfast.cli.planning import run_explain_columns

        return run_explain_columns(options)
    _check_outputs(options)
    what_to_ask(options)
    cv = cv_of(options)
    make_model(options, cv)  # nonsense in the options is found before a large file is read
    with showing_progress(options.quiet), collected_warnings() as messages:
        data = read_data(options)
        cv = cv_of(options, data)
        model, remarks = fit_model(options, data, cv)
        context = _context(options, data, model, cv)
        summary = _summary(options, model, context)
    # Also what was warned of on the way to the summary belongs to it.
    told = dict.fromkeys([*messages, *remarks, *summary.warnings])
    summary = dataclasses.replace(summary, warnings=tuple(told))
    if options.json:
        print(summary.to_json())
    else:
        _tell(summary, data)
    for note in summary.warnings:
        remark(f"note: {note}", options.quiet)
    _write_outputs(options, data, model, summary)
    return 0


def _context(options: argparse.Namespace, data: Data, model: Any, cv: CvSpec) -> Any:
    from holdfast.report import Context

    return Context(
        title=options.title or f"{data.roles.target} in {data.label}",
        target=str(data.roles.target),
        feature_names=tuple(map(str, data.preparation.get_feature_names_out())),
        sources=tuple(
            column for column, made in data.preparation.features_of().items() for _ in made
        ),
        scales=scales_of(data.preparation),
        group=data.roles.group or "group",
        cv=cv.words,
        preparation=data.sentences,
        columns=data.columns,
        notes=raise_notes(options, data, cv),
        inside=check_pipeline(model, data, options.n_verify),
        command=_command(options),
        data=data.label,
        checksum=data.checksum,
        shell=True,
        time=data.roles.time or ("row" if cv.by_time else None),
        moments=(
            data.table.readings[data.roles.time].values
            if data.roles.time
            else np.arange(len(data.X), dtype=float)
        ),
    )


def _summary(options: argparse.Namespace, model: Any, context: Any) -> Any:
    from holdfast.report import summarise

    return summarise(
        model,
        context,
        verify=options.n_verify,
        ask=what_to_ask(options),
    )


def _command(options: argparse.Namespace) -> str:
    return shlex.join(["holdfast", *options.argv])


def _tell(summary: Any, data: Data) -> None:
    """Print the answer: how the data were read, what was asked, what came out."""
    from holdfast.report.answer import asked_facts
    from holdfast.report.classes import probability_blocks
    from holdfast.report.made_of import made_of_blocks
    from holdfast.report.sections import answer_blocks, check_blocks, columns_table, notes_block

    say(
        data.label,
        asked_facts(summary.asked),
        *columns_table(data.columns),
        *answer_blocks(summary),
        *made_of_blocks(summary.trend, summary.bands),
        *probability_blocks(summary.probabilities),
        *check_blocks(summary),
        *notes_block(summary.notes),
    )


def _check_outputs(options: argparse.Namespace) -> None:
    """Refuse outputs that could not be written, before the work."""
    if options.n_verify is not None and options.n_verify < 0:
        raise InvalidInputError(
            f"--verify must be a number of experiments to retrain, from 0 up; got "
            f"{options.n_verify}. Say --verify 0 for none."
        )
    if options.report and not options.report.lower().endswith((".html", ".htm", ".md", ".json")):
        raise InvalidInputError(
            f"--report must end in .html, .md or .json; got {options.report!r}."
        )
    if options.predictions:
        check_writable(options.predictions)
    check_folders(options.report, options.save, options.predictions)
    if options.predictions == "-" and options.json:
        raise InvalidInputError("--json and --predictions - both want the standard output.")


def check_folders(*paths: str | None) -> None:
    """Refuse files in folders that are not there."""
    for path in paths:
        folder = Path(path or ".").parent
        if path and path != "-" and not folder.is_dir():
            raise InvalidInputError(f"Cannot write {path}: there is no folder {str(folder)!r}.")


def save_model(options: argparse.Namespace, data: Data, model: Any) -> None:
    """Write a model with how columns become features, for predict and verify."""
    from holdfast.files import save

    context = {
        "target": data.roles.target,
        "group": data.roles.group,
        "command": _command(options),
        "data": data.label,
        "checksum": data.checksum,
    }
    save(model, options.save, extras={"table": data.preparation.learned_, "context": context})
    remark(f"wrote {options.save}", options.quiet)


def _write_outputs(options: argparse.Namespace, data: Data, model: Any, summary: Any) -> None:
    if options.predictions:
        columns = held_out_columns(data, model) | certainty_columns(model, options.interval)
        if data.without_target is not None:
            columns = _with_others(columns, data, data.without_target, model, options.quiet)
        write_columns(options.predictions, columns)
        remark(f"wrote {options.predictions}", options.quiet or options.predictions == "-")
    if options.save:
        save_model(options, data, model)
    if options.report:
        from holdfast.report import write_report

        write_report(summary, options.report)
        remark(f"wrote {options.report}", options.quiet)


def held_out_columns(data: Data, model: Any) -> dict[str, NDArray[Any]]:
    """Return the held-out predictions as columns of a table."""
    from holdfast.report.rows import row_results

    results = row_results(model)
    columns: dict[str, NDArray[Any]] = {"row": data.rows[results.rows]}
    if data.groups is not None:
        columns[str(data.roles.group)] = data.groups[results.rows]
    columns["experiment"] = results.experiment
    columns["actual"] = results.y
    columns["prediction"] = results.prediction
    if results.classes is None:
        columns["residual"] = results.error
    return columns


def _with_others(
    columns: dict[str, NDArray[Any]], data: Data, others: Table, model: Any, quiet: bool
) -> dict[str, NDArray[Any]]:
    """Return the columns with predictions of the rows that have no target; experiment is -1."""
    with collected_warnings() as messages:
        try:
            predictions = np.asarray(model.predict(data.preparation.transform(others)))
        except InvalidInputError as error:
            told = with_options(error)
            remark(f"note: rows without a target are not predicted: {told}", quiet)
            return columns
    for text in messages:
        remark(f"note: {text}", quiet)
    every = np.arange(len(data.rows) + others.n_rows)
    known = {
        "row": np.setdiff1d(every, data.rows),
        "experiment": np.full(others.n_rows, -1),
        "prediction": predictions,
    }
    if data.roles.group and not others.missing([data.roles.group]):
        known[data.roles.group] = others.labels(data.roles.group, "group")
    blank = {name: "" if column.dtype.kind in "OU" else np.nan for name, column in columns.items()}
    return {
        name: np.append(column, known.get(name, np.full(others.n_rows, blank[name])))
        for name, column in columns.items()
    }


def run_predict(options: argparse.Namespace) -> int:
    """Predict the rows of a file with a saved model."""
    from holdfast.files import load_with_extras

    check_writable(options.out)
    with showing_progress(options.quiet), collected_warnings() as messages:
        model, extras = load_with_extras(options.model)
        preparation = _preparation_of(extras, options.model)
        context = extras.get("context")
        target = context.get("target") if isinstance(context, dict) else None
        with opened(options, options.data, preparation.learned_.options) as source:
            kept = split_names(options.keep, source, "keep") if options.keep else []
            scored = target if target in source.names else None
            table = preparation.read(source, [*kept, *([scored] if scored else [])])
        X = preparation.transform(table)
        filled = table.missing(preparation.columns_)
        predictions = np.asarray(model.predict(X))
        bounds = None
        if options.interval is not None:
            bounds = model.predict_interval(X, options.interval)
    if filled:
        told = ", ".join(f"{name!r} {count:,}" for name, count in list(filled.items())[:12])
        messages.append(f"Missing values were filled in as when the model was fitted ({told}).")
    if same := preparation.learned_.options.kept_in(source.options):
        remembered = " and ".join(said(name, value) for name, value in same.items())
        messages.append(f"The file was read as the training rows were, with {remembered}.")
    columns = {name: _plain_column(table, name) for name in kept}
    columns["prediction"] = predictions
    if getattr(model, "calibration_", None) is not None:
        found = model.predict_proba(X)
        columns |= {f"probability {c}": found[:, j] for j, c in enumerate(model.classes_)}
    if bounds is not None:
        columns["low"], columns["high"] = bounds[:, 0], bounds[:, 1]
    write_columns(options.out, columns)
    for text in messages:
        remark(f"note: {text}", options.quiet)
    if scored and not options.quiet:
        _tell_score(table, scored, predictions)
    if options.out != "-":
        remark(f"wrote {options.out}: {table.n_rows:,} predictions", options.quiet)
    return 0


def _preparation_of(extras: dict[str, Any], path: str) -> Any:
    learned = extras.get("table")
    if not isinstance(learned, Learned):
        raise FileFormatError(
            f"{path} was saved from Python and does not know how columns become features. Load it "
            "there with holdfast.load, or save it with holdfast cv --save."
        )
    return TablePreparation.from_learned(learned)


def _plain_column(table: Table, name: str) -> NDArray[Any]:
    column = table[name]
    return column.astype(str) if column.dtype.kind == "M" else column


def _tell_score(table: Table, target: str, predictions: NDArray[Any]) -> None:
    """Say how far off the predictions are, when the file holds the truth."""
    from holdfast.displays.score_scale import number
    from holdfast.report.answer import percent

    if table.missing([target]):
        return
    if predictions.dtype.kind == "f" and table[target].dtype.kind == "f":
        error = table.numbers(target, "target") - predictions
        remark(f"{target} is in the file: RMSE {number(float(np.sqrt(np.mean(error**2))))}")
    elif predictions.dtype.kind != "f":
        right = float(np.mean(table.labels(target, "target") == predictions.astype(str)))
        remark(f"{target} is in the file: {percent(right)} right")


def run_verify(options: argparse.Namespace) -> int:
    """Retrain experiments of a saved model and compare."""
    from holdfast.files import load_with_extras, read_archive
    from holdfast.holdout.accuracy import PROMISE

    check_seed(options.seed)
    if options.tolerance is not None and not options.tolerance >= 0:
        raise InvalidInputError(
            f"--tolerance must be a number from 0 up, such as 1e-6; got {options.tolerance:g}."
        )
    with showing_progress(options.quiet), collected_warnings() as messages:
        model, extras = load_with_extras(options.model)
        if not hasattr(model, "alpha_"):
            raise FileFormatError(f"{options.model} holds a model that was never fitted.")
        found = model.verify(options.experiments, random_state=options.seed)
        inside = _pipeline(options, model, extras) if options.pipeline else None
    for message in messages:
        remark(f"note: {message}", options.quiet)
    tolerance = PROMISE if options.tolerance is None else options.tolerance
    well = found.within(tolerance)
    checksum = read_archive(options.model).checksum
    if options.json:
        print(
            json.dumps(
                {
                    "file": os.path.basename(options.model),
                    "checksum": checksum,
                    "experiments": found.experiments.tolist(),
                    "alphas": found.alphas.tolist(),
                    "chosen_relative_error": found.chosen_relative_error,
                    "max_relative_error": found.max_relative_error,
                    "rounding": float(found.rounding[found.chosen].max()),
                    "tolerance": tolerance,
                    "verified": well,
                    "pipeline": dataclasses.asdict(inside) if inside else None,
                },
                indent=2,
            )
        )
    else:
        print(f"{os.path.basename(options.model)}: whole, sha256 {checksum}")
        print(bold(found.words(tolerance)))
        if inside:
            print(inside.words("RMSE" if model._classes is None else "share of errors"))
    return 0 if well else 1


def _pipeline(options: argparse.Namespace, model: Any, extras: dict[str, Any]) -> Any:
    """Return what changes when the preparation is learned inside the training rows."""
    from holdfast.tables.inside import prepare_inside

    preparation = _preparation_of(extras, options.model)
    if counts_features(model, preparation):
        raise InvalidInputError(
            "--pipeline is not for models with --band, or with --trend and columns of text: their "
            "features are counted, and training rows without a level have fewer. Leave it out."
        )
    context = extras.get("context")
    checksum = context.get("checksum") if isinstance(context, dict) else None
    target = context.get("target") if isinstance(context, dict) else None
    with opened(options, options.pipeline, preparation.learned_.options) as source:
        if source.checksum != checksum:
            raise InvalidInputError(
                f"--pipeline: {source.label} is not the file that the model was fitted on: its "
                f"sha256 is {source.checksum[:12]}…, that of the model's data "
                f"{str(checksum)[:12]}…"
            )
        table = preparation.read(source, [str(target)])
    table = table.rows(table.known(str(target)))
    return prepare_inside(model, preparation, table, options.experiments, options.seed)
