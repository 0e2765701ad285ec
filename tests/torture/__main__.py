"""Draw problems, print what each family costs, keep the worst."""

from __future__ import annotations

import argparse
import sys
import time

from torture.families import FAMILIES, problem
from torture.measure import FACTOR, Measured, measure
from torture.ways import WAYS


def measured(name: str, seed: int, ways: bool) -> list[Measured]:
    """Return the errors of the paths and, if asked, of the other ways that the problem has."""
    drawn = problem(name, seed)
    others = [way(drawn) for way in WAYS.values()] if ways else []
    return [measure(drawn), *(found for found in others if found is not None)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("--problems", type=int, default=200, help="problems in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--family", action="append", choices=sorted(FAMILIES))
    parser.add_argument(
        "--ways", action="store_true", help="also the cluster, reselected basis rows and tuning"
    )
    asked = parser.parse_args()
    names = asked.family or sorted(FAMILIES)
    worst: dict[tuple[str, str], tuple[float, int]] = {}
    failures = 0
    start = time.monotonic()
    for number in range(asked.problems):
        name, seed = names[number % len(names)], asked.seed + number // len(names)
        try:
            parts = measured(name, seed, asked.ways)
        except Exception as error:
            print(f"{name} seed {seed}: {type(error).__name__}: {error}")
            failures += 1
            continue
        ratios = {path: found.excess(path) for found in parts for path in found.paths}
        for path, ratio in ratios.items():
            failures += ratio > FACTOR
            worst[name, path] = max(worst.get((name, path), (0.0, 0)), (ratio, seed))
    paths = list(dict.fromkeys(path for _, path in worst))
    print(f"{'family':<24}" + "".join(f"{path:>20}" for path in paths))
    for name in names:
        cells = [worst.get((name, path), (0.0, 0)) for path in paths]
        print(
            f"{name:<24}" + "".join(f"{ratio:>12.2g} (s{seed})".rjust(20) for ratio, seed in cells)
        )
    print(f"{asked.problems} problems from seed {asked.seed}, {failures} past {FACTOR:g} ×, "
          f"{time.monotonic() - start:.0f} s")  # fmt: skip
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
