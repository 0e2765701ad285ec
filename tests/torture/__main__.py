"""Draw problems, print what each family costs, keep the worst."""

from __future__ import annotations

import argparse
import sys
import time

from torture.families import FAMILIES, problem
from torture.measure import FACTOR, measure


def main() -> int:
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("--problems", type=int, default=200, help="problems in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--family", action="append", choices=sorted(FAMILIES))
    asked = parser.parse_args()
    names = asked.family or sorted(FAMILIES)
    worst: dict[tuple[str, str], tuple[float, int]] = {}
    failures = 0
    start = time.monotonic()
    for number in range(asked.problems):
        name, seed = names[number % len(names)], asked.seed + number // len(names)
        try:
            found = measure(problem(name, seed))
        except Exception as error:
            print(f"{name} seed {seed}: {type(error).__name__}: {error}")
            failures += 1
            continue
        for path in found.paths:
            ratio = found.excess(path)
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
