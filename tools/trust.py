"""Write the figures of docs/trust.md: ``python tools/trust.py``, in half a minute.

Tests are counted by collecting them, nothing is run; the rest is read from the pages and files that
other commands wrote. ``--print`` leaves the page alone.
"""

import argparse
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "trust.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


def collected() -> Counter[str]:
    """Return the number of tests of each module, by its path below ``tests``."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    named = re.findall(r"^tests/([^:\n]+\.py)::", done.stdout, re.MULTILINE)
    return Counter(named)


def numbers(page: str, pattern: str) -> list[str]:
    """Return the groups of the first match of a pattern in a page of the documentation."""
    match = re.search(pattern, (ROOT / "docs" / page).read_text("utf-8"))
    if match is None:
        raise SystemExit(f"docs/{page} has nothing like {pattern!r}")
    return list(match.groups())


def figures() -> list[tuple[str, str, str]]:
    """Return what, how many, and the command that says so or does it."""
    tests = collected()

    def of(part: str) -> str:
        return f"{sum(count for name, count in tests.items() if name.startswith(part)):,}"

    def run(part: str) -> str:
        return f"`make test PYTEST_ARGS=tests/{part}`"

    (calls,) = numbers("bad_calls.md", r"make (\d+) calls")
    (refused,) = numbers("bad_calls.md", r"(\d+) are refused")
    (accepted,) = numbers("bad_calls.md", r"(\d+) look bad")
    problems, past = numbers(
        "accuracy.md", r"([\d,]+) hard problems \([^)]*\)[^:]*: (\w+) (?:is|are) past"
    )
    golden = len(list((ROOT / "tests" / "files" / "golden").glob("*.holdfast")))
    matrix, oracle = "exact/test_exact_matrix.py", "exact/test_oracle.py"
    return [
        ("tests in all", f"{tests.total():,}", "`make test`"),
        ("tests of path, kernel, split, weights, targets, bias and policy in combination, compared "
         "with models really retrained", of(matrix), run(matrix)),
        ("tests of answers (intervals, influence, pairs, …) against twins that retrain",
         of("exact/test_answers"), run("exact")),
        ("tests against 50-digit arithmetic, condition numbers to 10¹⁴", of(oracle), run(oracle)),
        ("hard problems against exact arithmetic, every path", problems,
         "`make torture PROBLEMS=20250 SEED=10000 JOBS=2`"),
        ("… of which some path was past what is promised, without a warning", past, "the same"),
        ("tests of properties that hold for any data, of operations in any order, of long runs",
         of("laws"), run("laws")),
        ("tests that a function computes the formula that [the page](formulas.md) has beside it",
         of("interface/test_formulas.py"), run("interface/test_formulas.py")),
        ("tests of the naive twins themselves", of("reference"), run("reference")),
        (f"bad calls: {refused} refused with a sentence, {accepted} accepted with a reason", calls,
         "`make test PYTEST_ARGS=tests/interface/test_bad_calls.py`"),
        ("kinds of file that are damaged and forged, 100,000 files on demand",
         of("files/test_fuzz.py"), "`make fuzz`"),
        ("model files of version 0.1.0 that load and give the numbers they gave", str(golden),
         run("files/test_golden.py")),
    ]  # fmt: skip


def main() -> None:
    """Write the table, or print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--print", action="store_true", help="print the table, write nothing")
    lines = [("what", "figure", "command"), ("---", "---:", "---"), *figures()]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    if parser.parse_args().print:
        print(table)
        return
    before, rest = PAGE.read_text("utf-8").split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}", "utf-8")


if __name__ == "__main__":
    main()
