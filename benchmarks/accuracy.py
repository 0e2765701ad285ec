"""Write the tables of docs/accuracy.md: errors of every path against 50-digit arithmetic.

Run it as ``python benchmarks/accuracy.py`` (some minutes on one core); ``--print`` leaves the page
alone. The measuring is that of ``tests/exact/test_oracle.py``, on more problems and penalties.
``--families`` writes the tables of hard data instead, those of ``tests/torture`` beside
scikit-learn on the same data; ``--problems`` says how many of each family.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from holdfast.exceptions import HoldfastWarning  # noqa: E402  # found through the path above
from oracle_errors import ALPHAS, CONDITIONS, KINDS, MODELS, PATHS, Cell, cells  # noqa: E402
from tolerances import ORACLE_FLOOR  # noqa: E402
from torture.families import FAMILIES, problem  # noqa: E402
from torture.measure import FACTOR, Measured, measure  # noqa: E402
from torture.rivals import Pair, grid_search, ridge_cv, rlscore, time_stamp  # noqa: E402

PAGE = ROOT / "docs" / "accuracy.md"
SEEDS = range(10)
SHOWN_CONDITIONS = (1e4, 1e8, 1e10, 1e12, 1e14)
SHOWN_ALPHAS = (1e-10, 1e-6, 1e-2, 1.0, 1e6)
#: What the families of tests/torture are called on the page, in its order.
TITLES = {
    "units": "columns in units 1 … 1e12",
    "small_and_large_units": "columns in units 1e-6 … 1e12",
    "correlated_units": "correlated columns, units 1 … 1e9",
    "time_stamps": "a time stamp among the columns",
    "offsets": "columns up to 1e8 away from zero, targets too",
    "rare_columns": "columns non-zero in one or two rows",
    "leverage": "one row of leverage 1 − 10⁻ᵏ, k = 1 … 14",
    "duplicates": "duplicate rows and columns",
    "wild_weights": "weights 1e-8 … 1e8, and 0",
    "target_sizes": "targets of size 1e-170 … 1e150",
    "wide_penalties": "λ over 24 decades",
    "folds": "disjoint folds and groups, units 1 … 1e9",
    "more_columns_than_rows": "more columns than rows, units 1 … 1e3",
    "several_targets": "three targets of size 1e-8 … 1e8",
    "smooth_kernel": "sparse, a smooth kernel",
    "duplicate_basis": "sparse, near-duplicate basis rows",
    "cubic_with_outlier": "sparse, an outlier under a cubic kernel",
    "sparse_wild_weights": "sparse, weights 1e-8 … 1e8",
    "sparse_folds": "sparse, disjoint folds and groups",
    "sparse_wide_penalties": "sparse, λ over 24 decades",
    "every_row": "sparse, leave-one-out, one row far away",
    "dense_kernel": "dense, a smooth kernel",
    "dense_folds": "dense, disjoint folds and groups",
    "dense_wide_penalties": "dense, λ over 24 decades",
    "dense_duplicates": "dense, duplicate rows",
    "dense_wild_weights": "dense, weights 1e-8 … 1e8, and 0",
    "dense_outlier": "dense, an outlier under a cubic kernel",
}
NAMES = {"remove": 'sparse, `"remove"`', "keep": 'sparse, `"keep"`', "dense": "dense"}


def factor(cell: Cell, path: str) -> float:
    """Return how many times less accurate a path is than whitened retraining."""
    return max(cell.errors[path], ORACLE_FLOOR) / max(cell.errors["whitened"], ORACLE_FLOOR)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def factors(found: Sequence[Cell]) -> str:
    """Return the largest factor of each model, kind of held-out set and path."""
    rows = []
    for model in MODELS:
        for kind in KINDS:
            mine = [cell for cell in found if (cell.model, cell.kind) == (model, kind)]
            worst = [f"{max(factor(cell, path) for cell in mine):.1f}" for path in PATHS]
            rows.append([NAMES[model], kind, *worst])
    return table(["model", "held out", *(f"`{path}`" for path in PATHS)], rows)


def errors(found: Sequence[Cell], model: str) -> str:
    """Return the errors of one model without bias, a fifth held out."""
    names = ("printed", "normal", "qr", "whitened", *PATHS)
    header = [
        "condition",
        "λ",
        "as printed",
        "retraining, raw normal equations",
        "retraining, QR",
        "retraining, whitened",
        *(f"`{path}`" for path in PATHS),
    ]
    rows = [
        [f"{cell.condition:.0e}", f"{cell.alpha:.0e}", *(f"{cell.errors[n]:.0e}" for n in names)]
        for cell in found
        if (cell.model, cell.kind, cell.bias) == (model, "a fifth", False)
        and cell.condition in SHOWN_CONDITIONS
        and cell.alpha in SHOWN_ALPHAS
    ]
    return table(header, rows)


def replaced(text: str, name: str, content: str) -> str:
    """Return a page with the part between the marks of that name replaced."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = text.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n{content}\n{end}{after}"


def paths_of_families(found: dict[str, list[Measured]]) -> str:
    """Return the worst error of retraining by QR and of each path, and the ratio beside it."""
    paths = list(next(iter(found.values()))[0].paths)
    rows = []
    for name, measured in found.items():
        worst = [f"{max(one.paths[path].max() for one in measured):.0e}" for path in paths]
        ratio = max(one.excess(path) for one in measured for path in paths)
        past = sum(any(one.excess(path) > FACTOR for path in paths) for one in measured)
        qr = f"{max(one.qr.max() for one in measured):.0e}"
        rows.append([TITLES[name], qr, *worst, f"{ratio:.2g}", str(past)])
    header = ["data", "retraining, QR", *(f"`{path}`" for path in paths)]
    return table([*header, "largest ratio", f"past {FACTOR:g} ×"], rows)


def beside_rivals(found: dict[str, list[tuple[Pair | None, ...]]]) -> str:
    """Return the worst errors of each rival, and of the package on the same question."""
    rows = []
    for name, pairs in found.items():
        cells = [TITLES[name]]
        for column in zip(*pairs, strict=True):
            both = [pair for pair in column if pair is not None]
            cells += [f"{max(p.rival for p in both):.0e}" if both else "—"]
            cells += [f"{max(p.ours for p in both):.0e}" if both else "—"]
        rows.append(cells)
    rivals = "`RidgeCV`", "`GridSearchCV(KernelRidge)`", "RLScore"
    return table(["data", *(name for rival in rivals for name in (rival, "holdfast"))], rows)


def example() -> str:
    """Return the errors of the example with a time stamp."""
    rows = [[f"`{name}`", f"{error:.2g}"] for name, error in time_stamp().items()]
    return table(["estimator", "largest error of `predict(X)`"], rows)


def families(problems: int) -> dict[str, str]:
    """Return the tables of the families of hard data."""
    measured: dict[str, list[Measured]] = {}
    pairs: dict[str, list[tuple[Pair | None, ...]]] = {}
    for name in (*TITLES, *(FAMILIES.keys() - TITLES.keys())):
        drawn = [problem(name, seed) for seed in range(problems)]
        measured[name] = [measure(one) for one in drawn]
        pairs[name] = [(ridge_cv(one), grid_search(one), rlscore(one)) for one in drawn]
        print(name, file=sys.stderr)
    count = (
        f"{problems} problems of each family, {problems * len(measured)} in all, "
        f"seeds 0 to {problems - 1}."
    )
    return {
        "families": f"{count}\n\n{paths_of_families(measured)}",
        "rivals": beside_rivals(pairs),
        "stamp": example(),
    }


def conditions() -> dict[str, str]:
    """Return the tables over condition numbers and penalties."""
    found: list[Cell] = []
    for model in MODELS:
        for bias in (False, True):
            for condition in CONDITIONS:
                found += cells(condition, model, bias, SEEDS, ALPHAS)
                print(f"{model}, bias {bias}, condition {condition:.0e}", file=sys.stderr)
    return {
        "factors": factors(found),
        "remove": errors(found, "remove"),
        "keep": errors(found, "keep"),
        "dense": errors(found, "dense"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--print", action="store_true", help="print the tables, write nothing")
    parser.add_argument("--families", action="store_true", help="the tables of hard data")
    parser.add_argument("--problems", type=int, default=20, help="of each family")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", HoldfastWarning)
    warnings.simplefilter("ignore", RuntimeWarning)  # underflow in targets of size 1e-170
    parts = families(asked.problems) if asked.families else conditions()
    if asked.print:
        print("\n\n".join(parts.values()))
        return
    text = PAGE.read_text("utf-8")
    for name, content in parts.items():
        text = replaced(text, name, content)
    PAGE.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
