"""From a CSV file to the answer: how long, and how much of it is reading.

`python -m benchmarks.reading [--megabytes 100] [--folder DIR]` writes made-up files (rows of
numbers, a column of text and a column of dates; a wide one of 100,000 columns), then measures
`holdfast cv` on the first and reading and preparing on both, in wall-clock and processor seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

BYTES_PER_ROW = 104  # of a row of the long file


def write_long(path: Path, megabytes: float) -> int:
    """Write a file of ten columns of numbers, one of text and one of dates; return its rows."""
    rows = int(megabytes * 1e6 / BYTES_PER_ROW)
    rng = np.random.default_rng(0)
    with path.open("w", encoding="utf-8") as file:
        file.write("when,colour,y," + ",".join(f"x{j}" for j in range(9)) + "\n")
        start = np.datetime64("2015-01-01T00:00")
        for first in range(0, rows, 50_000):
            n = min(50_000, rows - first)
            X = rng.normal(size=(n, 9))
            y = X[:, 0] + np.sin(X[:, 1]) + 0.1 * rng.normal(size=n)
            when = start + np.arange(first, first + n) * np.timedelta64(5, "m")
            colour = rng.choice(["red", "green", "blue"], n)
            for i in range(n):
                numbers = ",".join(f"{v:.4f}" for v in (y[i], *X[i]))
                file.write(f"{when[i]},{colour[i]},{numbers}\n")
    return rows


def write_wide(path: Path, columns: int, rows: int = 200) -> None:
    """Write a file of many columns of numbers."""
    rng = np.random.default_rng(1)
    with path.open("w", encoding="utf-8") as file:
        file.write(",".join(["y", *(f"g{j}" for j in range(columns - 1))]) + "\n")
        for _ in range(rows):
            file.write(",".join(f"{v:.3f}" for v in rng.normal(size=columns)) + "\n")


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Return what the work returns, and its seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    seconds = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}
    return result, seconds


def read(path: Path) -> dict[str, dict[str, float]]:
    """Return the seconds of opening, reading, understanding and preparing a file."""
    import pyarrow as pa

    from holdfast.tables import TablePreparation, as_table, open_source

    stack = contextlib.ExitStack()
    with stack:
        source, opening = timed(lambda: stack.enter_context(open_source(str(path))))
        names = [name for name in source.names if name != "y"]
        arrays, reading = timed(lambda: source.arrays(names))
        table, understanding = timed(lambda: as_table(pa.table(dict(arrays))))
    preparation, learning = timed(lambda: TablePreparation().fit(table))
    _, preparing = timed(lambda: preparation.transform(table))
    return {
        "open, checksum, encoding": opening,
        "read": reading,
        "understand columns": understanding,
        "learn the preparation": learning,
        "prepare": preparing,
    }


def answer(path: Path, basis: int) -> tuple[dict[str, float], float]:
    """Return the seconds of `holdfast cv` on a file, and the held-out error it found."""
    from holdfast.cli import main

    out = io.StringIO()
    command = ["cv", str(path), "--target", "y", "--drop", "when", "--basis", str(basis)]
    command += ["--cv", "5", "--verify", "0", "--json", "--quiet"]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code, seconds = timed(lambda: main(command))
    if code:
        raise SystemExit(f"holdfast {' '.join(command)} failed with {code}")
    return seconds, json.loads(out.getvalue())["headline"]["error"]


def measure(folder: Path, megabytes: float, columns: int, basis: int) -> dict[str, Any]:
    """Return all seconds, of a long and of a wide file."""
    long, wide = folder / "long.csv", folder / "wide.csv"
    rows = write_long(long, megabytes)
    write_wide(wide, columns)
    record: dict[str, Any] = {
        "long": {"rows": rows, "megabytes": long.stat().st_size / 1e6, "steps": read(long)},
        "wide": {"columns": columns, "megabytes": wide.stat().st_size / 1e6, "steps": read(wide)},
    }
    record["answer"], record["error"] = answer(long, basis)
    return record


def describe(record: dict[str, Any]) -> str:
    """Return the record as lines of text."""
    lines = []
    for name, size in (("long", "rows"), ("wide", "columns")):
        part = record[name]
        lines.append(f"{name}: {part[size]:,} {size}, {part['megabytes']:.0f} MB")
        for step, seconds in part["steps"].items():
            lines.append(f"  {step:<26}{seconds['wall']:8.2f} s {seconds['processor']:8.2f} s CPU")
    total = record["answer"]
    lines.append(f"holdfast cv, long file: {total['wall']:.2f} s ({total['processor']:.2f} s CPU)")
    steps = record["long"]["steps"]
    parts = ("open, checksum, encoding", "read", "understand columns")
    share = sum(steps[part]["processor"] for part in parts) / total["processor"]
    lines.append(f"of which reading: {100 * share:.0f} % of the processor time")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=100, help="of the long file")
    parser.add_argument("--columns", type=int, default=100_000, help="of the wide file")
    parser.add_argument("--basis", type=int, default=200, help="basis rows of the model")
    parser.add_argument("--folder", type=Path, help="where the files go; default: a temporary one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        print(describe(measure(Path(folder), options.megabytes, options.columns, options.basis)))


if __name__ == "__main__":
    main()
