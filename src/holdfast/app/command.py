"""The commands cv, predict and demo: options, what is written where, and exit codes."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import holdfast
from holdfast.app.words import BadOption, Refusal, safe

if TYPE_CHECKING:
    from holdfast.app.columns import Task
    from holdfast.app.fitting import Answer, Settings

__all__ = ["answer_question", "make_parser", "missing_packages", "run"]

#: What the command needs beside the library: the packages of the extra ``app``.
PACKAGES = ("pandas", "pyarrow", "skrub", "matplotlib", "jinja2", "tqdm", "skops")
KERNELS = ("rbf", "laplacian", "polynomial", "linear")

_EPILOG = """\
examples:
  holdfast cv flats.csv --target rent
  holdfast cv visits.csv --target score --group subject --report report.html
  holdfast cv sales.parquet --target sold --time day --save model.skops
  holdfast predict model.skops new.csv --out predictions.csv

exit codes: 0 answered, 2 the command line, 3 the data, 130 interrupted"""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="holdfast",
        description="How well can a column of a table be predicted, for rows not seen before?",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"holdfast {holdfast.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    cv = commands.add_parser("cv", help="how well is a column predicted, and what to believe")
    cv.add_argument("data", help="a table: CSV, Parquet or xlsx, with a header")
    question = cv.add_argument_group("the question")
    question.add_argument("--target", metavar="COLUMN", help="what to predict")
    question.add_argument(
        "--group", metavar="COLUMN", help="rows that belong together and are held out together"
    )
    question.add_argument(
        "--time",
        metavar="COLUMN",
        help="the order of rows; later ones are predicted from earlier ones",
    )
    question.add_argument(
        "--classify",
        nargs="?",
        const="yes",
        default="auto",
        choices=("auto", "yes", "no"),
        help="whether the target is a class (auto: text and two values are)",
    )
    question.add_argument(
        "--cv", metavar="HOW", help="what is held out: loo, 10, groups, groups:5, time:5"
    )
    question.add_argument(
        "--scoring",
        metavar="NAME",
        help="the score of the answer, by scikit-learn's names (default: RMSE; log loss)",
    )
    question.add_argument("--weight", metavar="COLUMN", help="weight of each row")
    question.add_argument("--drop", metavar="A,B", help="columns that are not used")
    question.add_argument("--only", metavar="A,B", help="the only columns that are used")
    question.add_argument(
        "--na",
        metavar="MARK",
        action="append",
        default=[],
        help="a further mark of a missing value: --na=-999",
    )
    model = cv.add_argument_group("the model")
    model.add_argument("--kernel", choices=KERNELS, default="rbf", help="default: rbf")
    model.add_argument(
        "--gamma",
        metavar="G",
        help="width: a number, a list 0.1,1 or a range 0.01:10:7 (default: searched)",
    )
    model.add_argument(
        "--alphas", metavar="A", help="penalties, likewise (default: 30 that follow the data)"
    )
    model.add_argument(
        "--basis", metavar="N", type=int, help="basis rows (default: as many as the time allows)"
    )
    model.add_argument(
        "--seconds", metavar="S", type=float, default=60.0, help="time budget (default: 60)"
    )
    model.add_argument(
        "--level", metavar="L", type=float, default=0.9, help="level of intervals (default: 0.9)"
    )
    model.add_argument(
        "--seed",
        metavar="N",
        type=int,
        default=0,
        help="random seed for folds and basis rows (default: 0)",
    )
    out = cv.add_argument_group("what is written")
    out.add_argument("--report", metavar="FILE.html", help="a page with charts")
    out.add_argument(
        "--predictions", metavar="FILE.csv", help="the held-out prediction of every row"
    )
    out.add_argument("--save", metavar="FILE.skops", help="the model, for holdfast predict")
    out.add_argument("--json", action="store_true", help="print the findings as JSON")
    out.add_argument("--quiet", action="store_true", help="no progress, and no remarks on files")
    predict = commands.add_parser("predict", help="predict the rows of a file with a saved model")
    predict.add_argument("model", help="a file that holdfast cv --save wrote")
    predict.add_argument("data", help="a table with the same columns")
    predict.add_argument("--out", metavar="FILE.csv", default="-", help="default: print")
    predict.add_argument(
        "--level", metavar="L", type=float, help="add the ends of intervals of this level"
    )
    predict.add_argument("--keep", metavar="A,B", help="columns to write beside the predictions")
    predict.add_argument("--quiet", action="store_true", help="no remarks")
    demo = commands.add_parser("demo", help="a made-up study where single held-out rows mislead")
    demo.add_argument("--output", metavar="FOLDER", default="demo", help="default: demo")
    demo.add_argument("--quiet", action="store_true", help="no progress")
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    argv = list(sys.argv[1:] if argv is None else argv)
    parser = make_parser()
    try:
        options = parser.parse_args(argv)
    except SystemExit as leaving:
        return int(leaving.code or 0)
    if options.command is None:
        parser.print_help()
        return 0
    absent = missing_packages()
    if absent:
        print(
            f"holdfast {options.command} needs {', '.join(absent)}: pip install 'holdfast[app]'",
            file=sys.stderr,
        )
        return 2
    from holdfast.exceptions import HoldfastError

    commands = {"cv": run_cv, "predict": run_predict, "demo": run_demo}
    try:
        return commands[options.command](options, argv)
    except Refusal as refusal:
        print(f"holdfast: {refusal}", file=sys.stderr)
        return refusal.code
    except HoldfastError as error:
        option = error.argument if error.argument in vars(options) else None
        where = f"--{option}: " if option else ""
        print(f"holdfast: {where}{safe(error.fact or error, 1000)}", file=sys.stderr)
        return 2 if option else 3
    except MemoryError:
        print(
            "holdfast: there is not enough memory for this; fewer --basis rows need less.",
            file=sys.stderr,
        )
        return 3
    except BrokenPipeError:  # whoever read the output has enough
        sys.stderr.close()
        return 0


def missing_packages() -> list[str]:
    """Return what of the extra ``app`` is not installed."""
    from importlib.util import find_spec

    return [name for name in PACKAGES if find_spec(name) is None]


# --- cv -------------------------------------------------------------------------------------------


def run_cv(options: argparse.Namespace, argv: Sequence[str]) -> int:
    """Fit, and say how good the model is on rows it has not seen."""
    _check_numbers(options)
    for path, endings in (
        (options.report, (".html", ".htm")),
        (options.save, (".skops",)),
        (options.predictions, (".csv",)),
    ):
        _check_place(path, endings)
    settings = settings_of(options)
    with progress(options.quiet) as tell:
        task, answer = answer_question(options, settings, tell)
        from holdfast.app.findings import findings_of, terminal

        tell("writing")
        found = findings_of(answer, shlex.join(["holdfast", *argv]))
        page = None
        if options.report:
            from holdfast.app.page import page_of

            page = page_of(found, answer)
    if options.json:
        print(found.to_json())
    else:
        print(terminal(found, _width(), _wants_colour()))
    if page is not None:
        _write(options.report, page.encode())
        _remark(options, f"wrote {options.report}")
    if options.predictions:
        _write(options.predictions, held_out_table(task, answer).to_csv(index=False).encode())
        _remark(options, f"wrote {options.predictions}")
    if options.save:
        from holdfast.app.model_file import dump

        _write(options.save, dump(answer, options.na))
        _remark(options, f"wrote {options.save}")
    return 0


def answer_question(
    options: argparse.Namespace, settings: Settings, tell: Any
) -> tuple[Task, Answer]:
    """Return what the options ask, and the answer."""
    from holdfast.app.columns import make_task, suspicions
    from holdfast.app.fitting import Clock, answer_of
    from holdfast.app.reading import read_table

    clock = Clock(options.seconds, tell)
    tell(f"reading {Path(options.data).name}")
    table = read_table(options.data, options.na)
    task = make_task(
        table,
        options.target,
        group=options.group,
        time=options.time,
        weight=options.weight,
        classify=options.classify,
        drop=options.drop,
        only=options.only,
    )
    return task, answer_of(task, settings, options.cv, suspicions(task), clock)


def settings_of(options: argparse.Namespace) -> Settings:
    """Return what the options say of the model."""
    from holdfast.app.fitting import Settings

    return Settings(
        options.kernel,
        _values(options.gamma, "--gamma"),
        _values(options.alphas, "--alphas"),
        options.basis,
        options.scoring,
        options.level,
        options.seed,
    )


def _values(text: str | None, option: str) -> Any:
    """Return a number, a list of numbers, or a range in even steps of the logarithm."""
    import numpy as np

    if text is None:
        return None
    try:
        if ":" in text:
            low, high, n = text.split(":")
            values = np.geomspace(float(low), float(high), int(n))
        else:
            values = np.array([float(part) for part in text.split(",")])
    except ValueError:
        raise BadOption(
            f"{option}: {text!r} is no number, list (0.1,1) or range (0.01:10:7)."
        ) from None
    if not values.size or not (np.isfinite(values) & (values > 0)).all():
        raise BadOption(f"{option}: every value must be greater than 0; got {text!r}.")
    return float(values[0]) if values.size == 1 and option == "--gamma" else values


def _check_numbers(options: argparse.Namespace) -> None:
    if not options.seconds > 0:
        raise BadOption(f"--seconds must be greater than 0; got {options.seconds:g}.")
    if not 0 < options.level < 1:
        raise BadOption(f"--level must lie between 0 and 1; got {options.level:g}.")
    if options.basis is not None and options.basis < 1:
        raise BadOption(f"--basis must be at least 1; got {options.basis}.")
    if not 0 <= options.seed < 2**32:
        raise BadOption(f"--seed must lie between 0 and 2³² − 1; got {options.seed}.")


def _check_place(path: str | None, endings: tuple[str, ...]) -> None:
    """Refuse a file that could not be written, before the work."""
    if path is None or path == "-":
        return
    if endings and not path.lower().endswith(endings):
        raise BadOption(f"{safe(path)} must end in {' or '.join(endings)}.")
    folder = Path(path).parent
    if not folder.is_dir():
        raise BadOption(f"Cannot write {safe(path)}: there is no folder {safe(folder)}.")
    if Path(path).is_dir():
        raise BadOption(f"Cannot write {safe(path)}: it is a folder.")


def _write(path: str, content: bytes) -> None:
    """Write a file whole, or leave what was there."""
    import os

    beside = Path(f"{path}.part")
    try:
        beside.write_bytes(content)
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise BadOption(f"Cannot write {safe(path)}: {error.strerror}.") from error


def held_out_table(task: Task, answer: Answer) -> Any:
    """Return the held-out predictions as a table, and predictions of rows without a target."""
    import numpy as np
    import pandas as pd

    rows = answer.fit.held.rows
    made: dict[str, Any] = {"line": task.table.lines[rows]}
    if task.groups is not None:
        made[str(task.group)] = task.groups[rows]
    made |= {
        "held_out": np.ones(len(rows), dtype=int),
        "actual": answer.truth,
        "prediction": answer.predictions,
    }
    if task.classify:
        P, classes = answer.probabilities
        made |= {f"probability {c}": P[:, j] for j, c in enumerate(classes)}
    frame = pd.DataFrame(made)
    if task.without_target is None:
        return frame.sort_values("line")
    others = task.without_target
    X = np.asarray(task.preparation.transform(others.frame[list(task.features)]), dtype=float)
    more = {"line": others.lines, "held_out": 0, "prediction": answer.fit.model.predict(X)}
    return pd.concat([frame, pd.DataFrame(more)], ignore_index=True).sort_values("line")


# --- predict and demo -----------------------------------------------------------------------------


def run_predict(options: argparse.Namespace, argv: Sequence[str]) -> int:
    """Predict the rows of a file with a saved model."""
    from holdfast.app.model_file import load, predict

    _check_place(options.out, ())
    if options.level is not None and not 0 < options.level < 1:
        raise BadOption(f"--level must lie between 0 and 1; got {options.level:g}.")
    frame, remarks = predict(load(options.model), options.data, options.level, options.keep)
    text = frame.to_csv(index=False)
    if options.out == "-":
        sys.stdout.write(text)
    else:
        _write(options.out, text.encode())
        _remark(options, f"wrote {options.out}: {len(frame):,} predictions")
    for remark in remarks:
        _remark(options, remark)
    return 0


def run_demo(options: argparse.Namespace, argv: Sequence[str]) -> int:
    """Make up a study, ask how well new subjects are predicted, compare with the truth."""
    from holdfast.app.demo import tell_story

    folder = Path(options.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadOption(f"Cannot make the folder {safe(folder)}: {error.strerror}.") from error
    with progress(options.quiet) as tell:
        story = tell_story(folder, tell)
    print(story)
    return 0


# --- the console ----------------------------------------------------------------------------------


def _remark(options: argparse.Namespace, text: str) -> None:
    if not options.quiet:
        print(text, file=sys.stderr)


def _width() -> int:
    import shutil

    return max(40, min(96, shutil.get_terminal_size((88, 24)).columns - 1))


def _wants_colour() -> bool:
    import os

    return (
        sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )


@contextmanager
def progress(quiet: bool) -> Iterator[Any]:
    """Show what is being done: a bar on a terminal, a line for each step elsewhere."""
    if quiet:
        yield lambda text: None
        return
    started = time.monotonic()
    if not sys.stderr.isatty():

        def line(text: str) -> None:
            print(
                f"{time.monotonic() - started:5.1f} s  {safe(text, 100)}",
                file=sys.stderr,
                flush=True,
            )

        yield line
        return
    from tqdm import tqdm

    from holdfast.progress import listening

    with tqdm(
        total=None,
        leave=False,
        file=sys.stderr,
        bar_format="{elapsed} {desc} {percentage:3.0f}% {bar}",
    ) as bar:

        def step(text: str) -> None:
            bar.reset(total=1)
            bar.set_description_str(re.sub(r"\s+", " ", safe(text, 60)))

        def listen(done: int, total: int, text: str) -> None:
            if total:
                bar.total, bar.n = total, min(done, total)
                bar.update(0)

        with listening(listen):
            yield step
