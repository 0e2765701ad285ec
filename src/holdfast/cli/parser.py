"""The command line: what can be said, and what it means."""

from __future__ import annotations

import argparse

from holdfast.cli.certainty import INTERVAL, add_certainty_options
from holdfast.cli.specs import BASIS_NAMES
from holdfast.data.texts import as_float, as_int

__all__ = ["EXIT_CODES", "build_parser"]

#: What the exit code of a command says.
EXIT_CODES = {
    0: "all is well",
    1: "verify: predictions deviate from retraining by more than the tolerance",
    2: "the command was not understood",
    3: "the data or the options cannot be used as given",
    4: "an optional package is missing",
    5: "a model file is damaged, foreign, or of an unknown version",
    6: "a file cannot be read or written",
    130: "interrupted; no file was left half-written",
    141: "the program that read the output stopped reading",
}

KERNELS = (
    "rbf",
    "linear",
    "poly",
    "laplacian",
    "matern12",
    "matern32",
    "matern52",
    "cosine",
    "sigmoid",
)
POLICIES = ("remove", "keep", "train", "skip", "reselect")

_DESCRIPTION = """\
Exact held-out predictions of kernel least-squares models: how well will it
predict rows it has never seen?

  holdfast demo                                      see it work, in seconds
  holdfast cv data.csv --target y                    leave-one-out
  holdfast cv data.csv --target y --group subject    one subject at a time
  holdfast cv data.csv --target y --report r.html    with a report to look at
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    codes = "\n".join(f"  {code:>3}  {text}" for code, text in EXIT_CODES.items())
    parser = argparse.ArgumentParser(
        prog="holdfast",
        description=_DESCRIPTION,
        epilog=f"exit codes:\n{codes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _cv(commands)
    _explain(commands)
    _tune(commands)
    _compare(commands)
    _predict(commands)
    _verify(commands)
    _demo(commands)
    return parser


def _data_options(parser: argparse.ArgumentParser, *, explains: bool = True) -> None:
    # Where there is no such option.
    parser.set_defaults(kernel_matrix=None, id=None, band=None, calibration=None)
    group = parser.add_argument_group("data")
    group.add_argument(
        "data",
        metavar="DATA",
        help="a CSV, TSV or other text file (also gzipped), a Parquet, Feather, Arrow or .xlsx "
        "file; - reads text from the standard input",
    )
    group.add_argument("--target", metavar="COLUMN", help="what to predict")
    group.add_argument("--group", metavar="COLUMN", help="rows that belong together")
    group.add_argument("--weight", metavar="COLUMN", help="weight of each row")
    group.add_argument(
        "--time",
        metavar="COLUMN",
        help="dates or numbers that put rows in order, for --cv time:5",
    )
    group.add_argument(
        "--features", metavar="A,B,…", help="columns to use; default: all without another role"
    )
    group.add_argument("--drop", metavar="A,B,…", help="columns not to use")
    group.add_argument(
        "--categorical", metavar="A,B,…", help="columns of numbers that are names, such as codes"
    )
    group.add_argument(
        "--impute",
        action="store_true",
        help="fill missing values with the median or the most frequent level; default: refuse",
    )
    group.add_argument(
        "--no-scale",
        action="store_true",
        help="leave numbers as they are; default: mean 0, standard deviation 1",
    )
    if explains:
        group.add_argument(
            "--explain-columns",
            action="store_true",
            help="say how each column is read, and fit nothing; --target is not needed",
        )
    _csv_options(group)


def _csv_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--delimiter", metavar="C", help="of a text file; default: guessed")
    group.add_argument("--decimal", metavar="C", help="decimal mark, '.' or ','; default: guessed")
    group.add_argument(
        "--encoding", metavar="NAME", help="of a text file, such as latin-1; default: guessed"
    )
    group.add_argument(
        "--na",
        metavar="A,B,…",
        action="append",
        help="further marks of missing values; NA, n/a, NaN, null, ? and nothing are known, and - "
        "and . among numbers",
    )
    group.add_argument(
        "--dayfirst",
        action=argparse.BooleanOptionalAction,
        help="03/04/2021 is the third of April, or the fourth of March; needed where the dates of "
        "a column leave it open",
    )
    group.add_argument(
        "--no-header", action="store_true", help="the first line is data; columns are c0, c1, …"
    )


def _model_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("model")
    group.add_argument(
        "--classify", action="store_true", help="the target is a class, not a number"
    )
    group.add_argument("--kernel", choices=KERNELS, default="rbf", help="default: rbf")
    group.add_argument(
        "--gamma",
        default="auto",
        metavar="G",
        help="width of the kernel: auto (the best of several around the median distance), features "
        "(1 / their number), a number, or several to choose from: 0.01:1:5; default: auto",
    )
    group.add_argument(
        "--degree", type=as_float, default=3, metavar="D", help="of poly; default: 3"
    )
    group.add_argument(
        "--coef0", type=as_float, default=1.0, metavar="C", help="of poly and sigmoid"
    )
    group.add_argument(
        "--alphas",
        default="auto",
        metavar="A:B:N",
        help="penalties: auto (a grid that follows the data, longer if the best lies at its end), "
        "one, or several such as 1e-6:1e3:30; default: auto",
    )
    group.add_argument(
        "--basis",
        default="auto",
        metavar="N|NAME:N",
        help="rows that the model expands in: auto (all, or random rows if they are too many), "
        f"none (all), 500, 0.1, or one of {', '.join(BASIS_NAMES)} and a size, such as greedy:300; "
        "default: auto",
    )
    group.add_argument("--no-intercept", action="store_true", help="fit without a bias")
    group.add_argument(
        "--trend",
        metavar="linear|A,B,…",
        help="columns that also act linearly, without a penalty, beside the kernel: all (linear), "
        "or those named; their coefficients are in the answer",
    )
    _holding_out_options(parser)


def _more_models(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("other models")
    group.add_argument(
        "--band",
        metavar="NAME=A,B,…",
        action="append",
        help="columns with a kernel of their own; say it for each band, and the weights of their "
        "sum are found (columns of no band are one more)",
    )
    group.add_argument(
        "--calibration",
        choices=("sigmoid", "isotonic"),
        help="with --classify: make scores of classes probabilities, learned from held-out rows",
    )
    group.add_argument(
        "--kernel-matrix",
        metavar="FILE",
        help="kernel values of all rows instead of columns: K.npy, K.csv, or prefix.grm for "
        "GCTA's prefix.grm.bin and prefix.grm.id",
    )
    group.add_argument(
        "--id",
        metavar="COLUMN",
        help="with --kernel-matrix, the rows' names in the matrix; default: both in one order",
    )


def _holding_out_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("holding out")
    group.add_argument(
        "--cv",
        metavar="HOW",
        help="loo, 10 (folds), 5x10 (repeats of folds), group (one group at a time), group:5 "
        "(folds of groups), time:5 (steps in time), hblock:3 (3 rows on each side), purged:5:2:1 "
        "(folds, rows held out before, after); default: group with --group, time:5 with --time, "
        "else loo",
    )
    group.add_argument(
        "--gap",
        type=as_int,
        default=0,
        metavar="N",
        help="with --cv time:5, rows left out between training and test rows",
    )
    group.add_argument(
        "--held-out-basis",
        choices=POLICIES,
        default="remove",
        help="what happens to basis rows that are held out; default: remove",
    )
    group.add_argument(
        "--scoring",
        metavar="NAME",
        help="any scikit-learn score, or kendall_tau, concordance, ndcg (within groups); default: "
        "squared error, accuracy",
    )
    group.add_argument(
        "--rule",
        choices=("best", "1se"),
        default="best",
        help="the best penalty, or the largest within one standard error of it",
    )
    group.add_argument(
        "--seed", type=as_int, default=0, metavar="S", help="of folds and basis rows"
    )
    group.add_argument(
        "--seconds",
        type=as_float,
        default=60.0,
        metavar="S",
        help="about how long it may take: many rows take fewer basis rows, and findings that "
        "would take long are left out, with a note; default: 60",
    )
    group.add_argument(
        "--memory", metavar="SIZE", help="memory that the model may take, such as 4GB"
    )


def _cv(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "cv",
        help="how well would a model predict rows it has not seen?",
        description="Fit a model over a grid of penalties with exact held-out predictions, and "
        "say how good it is.",
    )
    _data_options(parser)
    _model_options(parser)
    _more_models(parser)
    add_certainty_options(parser)
    group = parser.add_argument_group("output")
    group.add_argument("--report", metavar="FILE", help="write a report: .html, .md or .json")
    group.add_argument("--save", metavar="FILE", help="write the model, for predict and verify")
    group.add_argument(
        "--predictions",
        metavar="FILE",
        help="write the held-out predictions, and those of rows without a target: .csv or .parquet",
    )
    group.add_argument("--title", help="heading of the report")
    group.add_argument(
        "--verify",
        type=as_int,
        metavar="N",
        dest="n_verify",
        help="retrain N experiments for real and compare; default: 5, or fewer where that would "
        "take long",
    )
    _output_options(group)


def _explain(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "explain",
        help="the plan of cv and its cost, without running it",
        description="Say how `holdfast cv` with the same options would be computed, and what that "
        "would cost.",
    )
    _data_options(parser)
    _model_options(parser)
    _more_models(parser)
    _output_options(parser.add_argument_group("output"))


def _tune(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "tune",
        help="find a width for each feature, and which features matter",
        description="Minimise the exact held-out squared error over the penalty and one width per "
        "feature, by gradients, and say what the error would be without each feature. For the "
        "kernels rbf and matern. It replaces --gamma and --alphas, which it finds.",
    )
    _data_options(parser, explains=False)
    _model_options(parser)
    group = parser.add_argument_group("output")
    group.add_argument(
        "--one-width", action="store_true", help="one width for all features instead of one each"
    )
    group.add_argument("--save", metavar="FILE", help="write the model, for predict and verify")
    _output_options(group)


def _compare(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "compare",
        help="which kernel predicts best, and is the difference more than chance?",
        description="Fit several kernels, a linear one among them, and predict with the mean (or "
        "the most frequent class) on the same experiments; give the differences from the best "
        "with intervals.",
    )
    _data_options(parser, explains=False)
    _model_options(parser)
    group = parser.add_argument_group("output")
    group.add_argument(
        "--kernels",
        default="rbf,matern32,linear",
        metavar="A,B,…",
        help="the kernels to compare; default: rbf,matern32,linear",
    )
    group.add_argument(
        "--level", type=as_float, default=0.9, metavar="P", help="of the intervals; default: 0.9"
    )
    _output_options(group)


def _predict(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "predict",
        help="predict new rows with a saved model",
        description="Predict the rows of a file with a model that `holdfast cv --save` wrote.",
    )
    parser.add_argument("model", metavar="MODEL", help="a file from `holdfast cv --save`")
    parser.add_argument("data", metavar="DATA", help="as in cv; the target is not needed")
    parser.add_argument(
        "--out",
        "--output",
        default="-",
        metavar="FILE",
        help="where to: .csv or .parquet; default: standard output",
    )
    parser.add_argument("--keep", metavar="A,B,…", help="columns of DATA to repeat in the output")
    parser.add_argument(
        "--interval",
        type=as_float,
        metavar="LEVEL",
        help=INTERVAL,
    )
    _csv_options(parser.add_argument_group("data"))
    parser.add_argument("--quiet", action="store_true", help="no progress, no remarks")


def _verify(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "verify",
        help="check a saved model's held-out predictions by retraining",
        description="Retrain some experiments of a saved model for real and compare.",
    )
    parser.add_argument("model", metavar="MODEL", help="a file from `holdfast cv --save`")
    parser.add_argument(
        "-n", "--experiments", type=as_int, default=5, metavar="N", help="how many; default: 5"
    )
    parser.add_argument("--seed", type=as_int, default=0, metavar="S", help="of the draw")
    parser.add_argument(
        "--pipeline",
        metavar="DATA",
        help="the file that the model was fitted on: learn the preparation of columns inside the "
        "training rows as well, and say what that changes",
    )
    parser.add_argument(
        "--tolerance",
        type=as_float,
        metavar="T",
        help="largest relative deviation that passes; default: 1e-8",
    )
    _csv_options(parser.add_argument_group("data of --pipeline"))
    _output_options(parser)


def _demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "demo",
        help="see in seconds why it matters what is held out",
        description="Make up a study of subjects, ask how well a new subject would be predicted, "
        "compare with the truth, and write a report.",
    )
    parser.add_argument(
        "--out", "--output", default="demo", metavar="FOLDER", help="default: ./demo"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")


def _output_options(group: argparse._ActionsContainer) -> None:
    group.add_argument("--json", action="store_true", help="print JSON, for machines")
    group.add_argument("--quiet", action="store_true", help="no progress, no remarks")
