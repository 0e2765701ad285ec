"""Write the table of hard data of docs/accuracy.md, beside scikit-learn.

``python benchmarks/accuracy.py`` takes some minutes on one core; ``--print`` leaves the page alone.
Problems are those of ``tests/torture``; every answer is judged by the exact one of its own model.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from torture.families import FAMILIES, problem  # noqa: E402  # found through the path above
from torture.rivals import Pair, grid_search, ridge_cv  # noqa: E402

PAGE = ROOT / "docs" / "accuracy.md"
BEGIN, END = "<!-- rivals: begin -->", "<!-- rivals: end -->"
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


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def worst(pairs: Sequence[Pair | None]) -> tuple[str, str]:
    """Return the largest errors of a rival and of the package on the same questions."""
    both = [pair for pair in pairs if pair is not None]
    if not both:
        return "—", "—"
    return f"{max(p.rival for p in both):.0e}", f"{max(p.ours for p in both):.0e}"


def beside_scikit_learn(problems: int) -> str:
    """Return the table, from so many problems of each family."""
    rows = []
    for name in (*TITLES, *(FAMILIES.keys() - TITLES.keys())):
        drawn = [problem(name, seed) for seed in range(problems)]
        alone, searched = ([rival(one) for one in drawn] for rival in (ridge_cv, grid_search))
        rows.append([TITLES[name], *worst(alone), *worst(searched)])
        print(name, file=sys.stderr)
    rivals = "`RidgeCV`", "`GridSearchCV(KernelRidge)`"
    return table(["data", *(name for rival in rivals for name in (rival, "holdfast"))], rows)


def main() -> None:
    """Write the table, or print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--print", action="store_true", help="print the table, write nothing")
    parser.add_argument("--problems", type=int, default=10, help="of each family")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # underflow in targets of size 1e-170, and what rivals say
    content = beside_scikit_learn(asked.problems)
    if asked.print:
        print(content)
        return
    before, rest = PAGE.read_text("utf-8").split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{content}\n{END}{rest.split(END)[1]}", "utf-8")


if __name__ == "__main__":
    main()
