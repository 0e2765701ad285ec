"""Read many spoilt files: ``python -m fuzz KIND FIRST COUNT``, from the folder tests."""

from __future__ import annotations

import faulthandler
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from fuzz.reading import KINDS
from holdfast.exceptions import HoldfastError

#: Bytes of memory that one process may take: more is a failure, not a wait.
MEMORY = 8 * 2**30
#: Seconds that one file may take.
SECONDS = 60


def main(kind: str, first: int, count: int) -> int:
    """Return how many files ended in anything but numbers or a sentence."""
    faulthandler.enable()
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        for seed in range(first, first + count):
            # The last line of the output tells which file it was, if the process ends here.
            print(f"{kind} {seed}", end="\r", flush=True)
            faulthandler.dump_traceback_later(SECONDS, exit=True)
            outcomes[_outcome(kind, seed, Path(name))] += 1
            faulthandler.cancel_dump_traceback_later()
    told = ", ".join(f"{outcome} {number}" for outcome, number in sorted(outcomes.items()))
    print(f"{kind} {first}..{first + count - 1}: {told}", flush=True)
    return outcomes["failed"]


def _outcome(kind: str, seed: int, folder: Path) -> str:
    start = time.monotonic()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            KINDS[kind](folder, np.random.default_rng([seed, *kind.encode()]))
    except HoldfastError as error:
        if "\n" in str(error):
            print(f"\n{kind} {seed}: more than a sentence: {error}", flush=True)
            return "failed"
        return "refused"
    except Exception:
        print(f"\n{kind} {seed} after {time.monotonic() - start:.1f} s:", flush=True)
        traceback.print_exc(file=sys.stdout)
        return "failed"
    return "read"


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])), 100))
