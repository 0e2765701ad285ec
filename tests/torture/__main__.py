"""Draw problems, say which are past the ratio as they come, and what each family costs."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from torture.families import FAMILIES
from torture.measure import FACTOR
from torture.runs import Judged, drawn, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("--problems", type=int, default=200, help="problems in all")
    parser.add_argument("--seed", type=int, default=0, help="the first seed of each family")
    parser.add_argument("--family", action="append", choices=sorted(FAMILIES))
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--ways", action="store_true",
        help="also streamed, with neighbours, on a cluster, with reselected basis rows, and tuned",
    )  # fmt: skip
    parser.add_argument(
        "--record", type=Path,
        help="file to add every finished problem to; those that it holds are not done again",
    )  # fmt: skip
    asked = parser.parse_args()
    problems = drawn(asked.problems, asked.seed, asked.family or FAMILIES)
    found: list[Judged] = []
    start = time.monotonic()
    try:
        for one in run(problems, asked.ways, asked.jobs, asked.record):
            found.append(one)
            if one.failed or one.past:
                print(one, flush=True)
    except KeyboardInterrupt:
        print("interrupted")
    print(table(found))
    past = sum(bool(one.failed or one.past) for one in found)
    told = sum(bool(one.told) for one in found)
    seeds = f"seeds {asked.seed} to {max((one.seed for one in found), default=asked.seed)}"
    print(f"{len(found)} of {asked.problems} problems, {seeds}: {past} past {FACTOR:g} × without a "
          f"warning, {told} with a warning that names a penalty; "
          f"{time.monotonic() - start:.0f} s")  # fmt: skip
    return int(past > 0 or len(found) < len(problems))


def table(found: list[Judged]) -> str:
    """Return the largest ratio of each family and path, with its seed."""
    worst: dict[tuple[str, str], tuple[float, int]] = {}
    for one in found:
        for path, ratio in one.ratios.items():
            key = one.family, path
            worst[key] = max(worst.get(key, (0.0, one.seed)), (ratio, one.seed))
    paths = list(dict.fromkeys(path for _, path in worst))
    lines = [f"{'family':<24}" + "".join(f"{path:>18}" for path in paths)]
    for family in sorted({one.family for one in found}):
        cells = [worst.get((family, path)) for path in paths]
        texts = ["—" if cell is None else f"{cell[0]:.2g} (s{cell[1]})" for cell in cells]
        lines.append(f"{family:<24}" + "".join(f"{text:>18}" for text in texts))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
