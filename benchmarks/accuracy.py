"""Write the tables of docs/accuracy.md: errors of every path against 50-digit arithmetic.

Run it as ``python benchmarks/accuracy.py`` (some minutes on one core); ``--print`` leaves the page
alone. The measuring is that of ``tests/exact/test_oracle.py``, on more problems and penalties.
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

PAGE = ROOT / "docs" / "accuracy.md"
SEEDS = range(10)
SHOWN_CONDITIONS = (1e4, 1e8, 1e10, 1e12, 1e14)
SHOWN_ALPHAS = (1e-10, 1e-6, 1e-2, 1.0, 1e6)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--print", action="store_true", help="print the tables, write nothing")
    only_print = parser.parse_args().print
    warnings.simplefilter("ignore", HoldfastWarning)
    found: list[Cell] = []
    for model in MODELS:
        for bias in (False, True):
            for condition in CONDITIONS:
                found += cells(condition, model, bias, SEEDS, ALPHAS)
                print(f"{model}, bias {bias}, condition {condition:.0e}", file=sys.stderr)
    parts = {
        "factors": factors(found),
        "remove": errors(found, "remove"),
        "keep": errors(found, "keep"),
        "dense": errors(found, "dense"),
    }
    if only_print:
        print("\n\n".join(parts.values()))
        return
    text = PAGE.read_text("utf-8")
    for name, content in parts.items():
        text = replaced(text, name, content)
    PAGE.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
