"""The commands: cv, explain, predict, verify."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.cli.console import bold, collected_warnings, remark, showing_progress
from holdfast.cli.fitting import Data, cv_of, fit_model, make_model, read_data
from holdfast.exceptions import FileFormatError, InvalidInputError
from holdfast.progress import duration
from holdfast.tables import (
    Categories,
    Table,
    TableEncoder,
    check_columns,
    check_writable,
    open_source,
    read_columns,
    write_columns,
)
from holdfast.tables.opening import split_names

__all__ = ["run_cv", "run_explain", "run_predict", "run_verify"]


def run_cv(options: argparse.Namespace) -> int:
    """Fit, and say how good the model is on rows it has not seen."""
    _check_outputs(options)
    cv = cv_of(options)
    make_model(options, cv)  # nonsense in the options is found before a large file is read
    with showing_progress(options.quiet), collected_warnings() as messages:
        data = read_data(options)
        model, remarks = fit_model(options, data, cv)
        summary = _summary(options, data, model, cv.words, [*messages, *remarks])
    messages = [*messages, *remarks]
    if options.json:
        print(summary.to_json())
    else:
        _tell(summary, data)
    for note in dict.fromkeys([*messages, *summary.warnings]):
        remark(f"note: {note}", options.quiet)
    _write_outputs(options, data, model, summary)
    return 0


def _summary(
    options: argparse.Namespace, data: Data, model: Any, words: str, messages: list[str]
) -> Any:
    from holdfast.report import Context, summarise

    context = Context(
        title=options.title or f"{data.roles.target} in {data.label}",
        target=str(data.roles.target),
        feature_names=data.encoder.feature_names,
        group=data.roles.group or "group",
        cv=words,
        preparation=data.preparation,
        command=_command(options),
        data=data.label,
        checksum=data.checksum,
        warnings=tuple(messages),
    )
    return summarise(model, context, contrast=not options.no_contrast, verify=options.n_verify)


def _command(options: argparse.Namespace) -> str:
    return shlex.join(["holdfast", *options.argv])


def _tell(summary: Any, data: Data) -> None:
    from holdfast.report.words import count, number, percent

    asked, head = summary.asked, summary.headline
    line = f"{data.label}: {count(asked.rows, 'row')}, {count(asked.features, 'feature')}"
    if asked.group:
        line += f", {asked.n_groups:,} × {asked.group}"
    print(line)
    for sentence in asked.preparation:
        print(f"  {sentence}")
    print(f"  {asked.kernel}; basis: {asked.basis}; λ: {asked.grid}")
    print(f"  held out by {asked.cv}: {count(asked.experiments, 'experiment')}")
    print()
    se = f" ± {number(head.se, 2)}" if np.isfinite(head.se) else ""
    print(bold(f"  {head.label} {number(head.value)}{se}") + f"   at λ = {number(head.alpha, 2)}")
    print(f"  {head.error_label} without features {number(head.baseline)}")
    explained = "variance explained" if asked.task == "regression" else "fewer errors"
    print(f"  {explained} {percent(head.skill)}")
    print()
    for sentence in summary.answer:
        print(sentence)
    if summary.certificate:
        print(
            f"Checked: {count(summary.certificate.experiments, 'experiment')} retrained, largest "
            f"relative deviation {summary.certificate.max_relative_error:.1e}."
        )
    sys.stdout.flush()


def _check_outputs(options: argparse.Namespace) -> None:
    """Refuse outputs that could not be written, before the work."""
    if options.n_verify < 0:
        raise InvalidInputError(
            f"--verify must be a number of experiments to retrain, from 0 up; got "
            f"{options.n_verify}. Say --verify 0 for none."
        )
    if options.report and not options.report.lower().endswith((".html", ".htm", ".md", ".json")):
        raise InvalidInputError(
            f"--report must end in .html, .md or .json; got {options.report!r}."
        )
    if options.report and options.report.lower().endswith((".html", ".htm")):
        from holdfast.report.page import check_plotly

        check_plotly()
    if options.predictions:
        check_writable(options.predictions)
    for path in (options.report, options.save, options.predictions):
        folder = Path(path or ".").parent
        if path and path != "-" and not folder.is_dir():
            raise InvalidInputError(f"Cannot write {path}: there is no folder {str(folder)!r}.")
    if options.predictions == "-" and options.json:
        raise InvalidInputError("--json and --predictions - both want the standard output.")


def _write_outputs(options: argparse.Namespace, data: Data, model: Any, summary: Any) -> None:
    if options.predictions:
        write_columns(options.predictions, held_out_columns(data, model))
        remark(f"wrote {options.predictions}", options.quiet or options.predictions == "-")
    if options.save:
        from holdfast.files import save

        context = {
            "target": data.roles.target,
            "group": data.roles.group,
            "command": _command(options),
            "data": data.label,
            "checksum": data.checksum,
        }
        save(model, options.save, extras={"table": data.encoder, "context": context})
        remark(f"wrote {options.save}", options.quiet)
    if options.report:
        from holdfast.report import write_report

        write_report(summary, options.report)
        remark(f"wrote {options.report}", options.quiet)


def held_out_columns(data: Data, model: Any) -> dict[str, NDArray[Any]]:
    """Return the held-out predictions as columns of a table."""
    from holdfast.displays.row_data import row_results

    results = row_results(model)
    columns: dict[str, NDArray[Any]] = {"row": results.rows}
    if data.groups is not None:
        columns[str(data.roles.group)] = data.groups[results.rows]
    columns["experiment"] = results.experiment
    columns["actual"] = results.y
    columns["prediction"] = results.prediction
    if results.classes is None:
        columns["residual"] = results.error
    return columns


def run_explain(options: argparse.Namespace) -> int:
    """Say how cv would be computed and what it would cost."""
    from holdfast.cli.planning import plan_of

    cv = cv_of(options)
    model = make_model(options, cv)
    with showing_progress(options.quiet):
        data = read_data(options)
        plan, remarks = plan_of(model, data)
    taken = next(cost for cost in plan.costs if cost.path == plan.path)
    seconds = taken.seconds
    if options.json:
        costs = [{"path": c.path, "seconds": c.seconds, "bytes": c.bytes} for c in plan.costs]
        facts = {name: _json_value(value) for name, value in plan.facts.items()}
        found = {"path": plan.path, "asked": plan.asked, "costs": costs, "facts": facts}
        print(json.dumps({**found, "seconds": seconds, "remarks": remarks}, indent=2))
        return 0
    print(f"{data.label}, held out by {cv.words}\n")
    print(plan)
    told = f"about {duration(seconds)}" if seconds >= 1 else "less than a second"
    print(f"{told} of matrix arithmetic on this machine, reading not counted")
    for text in remarks:
        remark(f"note: {text}", options.quiet)
    return 0


def _json_value(value: object) -> object:
    return value if isinstance(value, int | float | str | bool | None) else str(value)


def run_predict(options: argparse.Namespace) -> int:
    """Predict the rows of a file with a saved model."""
    from holdfast.files import load_with_extras

    check_writable(options.out)
    with showing_progress(options.quiet), collected_warnings() as messages:
        model, extras = load_with_extras(options.model)
        encoder = extras.get("table")
        if not isinstance(encoder, TableEncoder):
            raise FileFormatError(
                f"{options.model} was saved from Python and does not know how columns become "
                "features. Load it there with holdfast.load, or save it with holdfast cv --save."
            )
        context = extras.get("context")
        target = context.get("target") if isinstance(context, dict) else None
        with open_source(
            options.data, delimiter=options.delimiter, header=not options.no_header
        ) as source:
            check_columns(encoder.names, source)
            kept = split_names(options.keep, source, "--keep") if options.keep else []
            scored = target if target in source.names else None
            wanted = dict.fromkeys([*encoder.names, *kept, *([scored] if scored else [])])
            table = read_columns(source, tuple(wanted), encoder.categories)
        predictions = np.asarray(model.predict(encoder.transform(table).X))
    columns = {name: _plain_column(table, name) for name in kept}
    columns["prediction"] = predictions
    write_columns(options.out, columns)
    for text in messages:
        remark(f"note: {text}", options.quiet)
    if scored and not options.quiet:
        _tell_score(table, scored, predictions)
    if options.out != "-":
        remark(f"wrote {options.out}: {table.n_rows:,} predictions", options.quiet)
    return 0


def _plain_column(table: Table, name: str) -> NDArray[Any]:
    column = table[name]
    return column.values() if isinstance(column, Categories) else column


def _tell_score(table: Table, target: str, predictions: NDArray[Any]) -> None:
    """Say how far off the predictions are, when the file holds the truth."""
    from holdfast.report.words import number, percent

    if table.missing([target]):
        return
    if predictions.dtype.kind == "f" and not isinstance(table[target], Categories):
        error = table.numbers(target, "target") - predictions
        remark(f"{target} is in the file: RMSE {number(float(np.sqrt(np.mean(error**2))))}")
    elif predictions.dtype.kind != "f":
        right = float(np.mean(table.labels(target, "target") == predictions.astype(str)))
        remark(f"{target} is in the file: {percent(right)} right")


def run_verify(options: argparse.Namespace) -> int:
    """Retrain experiments of a saved model and compare."""
    from holdfast.files import load, read_archive

    with showing_progress(options.quiet):
        model = load(options.model)
        if not hasattr(model, "alpha_"):
            raise FileFormatError(f"{options.model} holds a model that was never fitted.")
        found = model.verify(options.experiments, random_state=options.seed)
    well = bool(found.max_relative_error <= options.tolerance)
    checksum = read_archive(options.model).checksum
    if options.json:
        print(
            json.dumps(
                {
                    "file": os.path.basename(options.model),
                    "checksum": checksum,
                    "experiments": found.experiments.tolist(),
                    "alphas": found.alphas.tolist(),
                    "max_relative_error": found.max_relative_error,
                    "tolerance": options.tolerance,
                    "verified": well,
                },
                indent=2,
            )
        )
    else:
        print(f"{os.path.basename(options.model)}: whole, sha256 {checksum}")
        print(
            f"{found.experiments.size} of {model.n_splits_:,} experiments retrained at "
            f"{found.alphas.size} penalties: largest relative deviation "
            f"{found.max_relative_error:.1e}"
        )
        print(bold("verified" if well else f"NOT verified: more than {options.tolerance:g}"))
    return 0 if well else 1
