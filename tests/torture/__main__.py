"""Draw problems, say which are missed in silence as they come, and by how much in each family."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from torture.families import FAMILIES
from torture.large import LARGE
from torture.measure import BAD
from torture.runs import Judged, drawn, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("--problems", type=int, default=200, help="problems in all")
    parser.add_argument("--seed", type=int, default=0, help="the first seed of each family")
    parser.add_argument("--family", action="append", choices=sorted({**FAMILIES, **LARGE}))
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--ways", action="store_true",
        help="also streamed, with neighbours, on a cluster, and with reselected basis rows",
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
            if one.missed():
                print(one, flush=True)
    except KeyboardInterrupt:
        print("interrupted")
    print(table(found))
    missed, bad = (sum(one.missed(*at) for one in found) for at in ((), (BAD,)))
    stated = [one for one in found if one.understated > 0.0]
    worst = max((one.understated for one in stated), default=0.0)
    seeds = f"seeds {asked.seed} to {max((one.seed for one in found), default=asked.seed)}"
    print(
        f"{len(found)} of {asked.problems} problems, {seeds}: {missed} silent misses, "
        f"{bad} of them beyond {BAD:.0e}; {len(stated)} with a stated error, "
        f"at most {worst:.1f} × what is said; {time.monotonic() - start:.0f} s"
    )
    return int(bad > 0 or len(found) < len(problems))


def table(found: list[Judged]) -> str:
    """Return the largest miss of each family and path, with its seed."""
    worst: dict[tuple[str, str], tuple[float, int]] = {}
    for one in found:
        for path, miss in one.misses.items():
            key = one.family, path
            worst[key] = max(worst.get(key, (0.0, one.seed)), (miss, one.seed))
    paths = list(dict.fromkeys(path for _, path in worst))
    lines = [f"{'family':<24}" + "".join(f"{path:>18}" for path in paths)]
    for family in sorted({one.family for one in found}):
        cells = [worst.get((family, path)) for path in paths]
        texts = ["—" if cell is None else f"{cell[0]:.1e} (s{cell[1]})" for cell in cells]
        lines.append(f"{family:<24}" + "".join(f"{text:>18}" for text in texts))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
