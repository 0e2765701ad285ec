"""Files by the thousand, damaged or forged: numbers or a sentence, never a crash.

A few hundred here; HOLDFAST_FUZZ=100000 (``make fuzz``) reads that many, and HOLDFAST_FUZZ_SEED
says where to begin.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.reading import KINDS

TESTS = Path(__file__).parents[1]
FILES = int(os.environ.get("HOLDFAST_FUZZ", "420"))
FIRST = int(os.environ.get("HOLDFAST_FUZZ_SEED", "0"))
#: A search for each: a hundred times as slow as the others.
SLOW = {"checkpoint": 10, "forged": 2}
#: Files that one process reads; a leak would show as memory that runs out.
BATCH = 5000


def read(kind: str, first: int, count: int) -> str:
    """Read spoilt files in another process and return what went wrong, or nothing."""
    command = [sys.executable, "-m", "fuzz", kind, str(first), str(count)]
    path = os.pathsep.join([str(TESTS), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        command, env=environment, cwd=TESTS, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return ""
    told = done.stdout.replace("\r", "\n")[-3000:] + done.stderr[-2000:]
    return f"{kind}: ended with {done.returncode}\n{told}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.timeout(24 * 3600 if FILES > 1000 else 300)
def test_files_that_are_damaged_or_forged(kind):
    if kind not in ("model", "forged", "checkpoint", "csv", "csv.gz"):
        pytest.importorskip("pyarrow")
    count = max(5, FILES // len(KINDS) // SLOW.get(kind, 1))
    starts = range(FIRST, FIRST + count, BATCH)
    found = [read(kind, start, min(BATCH, FIRST + count - start)) for start in starts]
    assert not any(found), "\n".join(found)
