"""The tool that puts small faults into the package: which it makes, and that tests see them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.mutants.__main__ import summary, wilson
from tools.mutants.operators import modules

ROOT = Path(__file__).parents[2]

SOURCE = '''\
"""Not a text to change: 1 + 1."""
from functools import cached_property

LIMIT = 3


def clip(x, low=0, *, high=1):
    """Return x between 0 and 1."""
    if x != x:
        raise ValueError("not a number: " + str(x))
    return min(max(x, low), high)


class Pair:
    def __init__(self, a: int, b: int) -> None:
        self.a = a
        self.b = b

    @cached_property
    def difference(self) -> int:
        return self.a - self.b


def never_called(x):
    return x + LIMIT
'''

TEST = """\
import pytest

from small.sums import Pair, clip

def test_clip():
    assert [clip(x) for x in (-1, 0.5, 2)] == [0, 0.5, 1]

def test_refused():
    with pytest.raises(ValueError, match="not a number"):
        clip(float("nan"))

def test_pair():
    assert Pair(3, 1).difference == 2

def test_that_fails_anyway():
    assert clip(0.5) == 0.6
"""

RUN = """\
import json, sys
from pathlib import Path

import pytest

from tools.mutants.loop import Loop
from tools.mutants.operators import modules

found = modules(Path("small").absolute(), ["."])
def told(mutant, *outcome):
    with open("outcomes", "a") as file:
        print(json.dumps((mutant.name, outcome)), file=file)
plugin = Loop(found, [m for module in found for m in module.mutants], Path("kept"), told, jobs=2)
pytest.main(["-q", "-s", "-p", "no:cacheprovider", "test_small.py"], plugins=[plugin])
"""


@pytest.fixture
def small(tmp_path):
    """A package of one module."""
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "sums.py").write_text(SOURCE)
    return folder


def changes(small):
    return {m.name.removeprefix("sums.py:") for m in modules(small, ["."])[0].mutants}


def test_which_faults_are_made(small):
    assert changes(small) == {
        "clip: x, low=0, *, high=1 → x, low=1, *, high=1",
        "clip: x, low=0, *, high=1 → x, low=0, *, high=0",
        "clip: x != x → x == x",
        "clip: raise ValueError('not a number: ' + str(x)) → pass",
        "clip: return min(max(x, low), high) → return None",
        "clip: min(max(x, low), high) → max(max(x, low), high)",
        "clip: max(x, low) → min(x, low)",
        "Pair.__init__: self.a = a → pass",
        "Pair.__init__: self.b = b → pass",
        "Pair.difference: return self.a - self.b → return None",
        "Pair.difference: self.a - self.b → self.a + self.b",
        "never_called: return x + LIMIT → return None",
        "never_called: x + LIMIT → x - LIMIT",
    }


@pytest.mark.parametrize(
    ("code", "after"),
    [
        ("a < b", {"a <= b", "a >= b"}),
        ("a is None", {"a is not None"}),
        ("a and b", {"a or b"}),
        ("not a", {"a"}),
        ("A @ B", {"B @ A"}),
        ("f(a, b)", {"f(b, a)"}),
        ("f(a, a)", set()),
        ("clip(a, b, n)", set()),
        ("min(a, b)", {"max(a, b)"}),
        ("a[1:n]", {"a[:n]", "a[1:]", "a[0:n]"}),
        ("a[-1]", {"a[1]", "a[-0]"}),
        ("a * 0.5", {"a / 0.5", "a * 1.0"}),
        ("f(0.25)", set()),
        ("f(1.0)", {"f(0.0)"}),
        ("zip(a, b, strict=True)", {"zip(b, a, strict=True)"}),
        ("f'{a + 1} rows'", set()),
        ("isinstance(a, 1 + 1)", set()),
    ],
)
def test_faults_of_an_expression(tmp_path, code, after):
    (tmp_path / "one.py").write_text(f"def one(a, b, A, B, n, f):\n    x = {code}\n")
    found = modules(tmp_path, ["."])[0].mutants
    assert {mutant.after.removeprefix("x = ") for mutant in found} == after


def test_faults_of_what_is_returned(tmp_path):
    (tmp_path / "one.py").write_text(
        "def one(a):\n    if a:\n        return True\n    return False\n"
    )
    found = {mutant.after for mutant in modules(tmp_path, ["."])[0].mutants}
    assert found == {"if not a", "return None", "return False", "return True"}


def test_tests_see_faults_of_loaded_code(small, tmp_path):
    """Faults fall to the right test, decorated functions and defaults included; files stay."""
    (tmp_path / "test_small.py").write_text(TEST)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    command = [sys.executable, "-c", RUN]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert (small / "sums.py").read_text() == SOURCE
    outcomes = dict(map(json.loads, (tmp_path / "outcomes").read_text().splitlines()))
    assert len(outcomes) == len(changes(small))
    for name, (outcome, test, n_tests) in outcomes.items():
        if "never_called" in name:
            assert (outcome, n_tests) == ("survived", 0)
        else:
            assert outcome == "killed"
            assert "anyway" not in test  # without any fault it fails too
    assert outcomes["sums.py:Pair.difference: self.a - self.b → self.a + self.b"][1].endswith(
        "pair"
    )


def test_the_summary_counts_what_tests_saw():
    ends = {"a/b.py:g: 1": "killed", "a/b.py:g: 2": "timeout", "a/b.py:f: 1": "survived"}
    records = [{"mutant": name, "outcome": outcome} for name, outcome in ends.items()]
    told = summary([*records, {"mutant": "c", "outcome": "invalid"}])
    assert "seen: 2 of 3, 66.7 %" in told
    assert told.endswith("  survived: a/b.py:f: 1")


def test_interval_of_a_share():
    # Newcombe 1998, table I: 81 of 263 and 0 of 20.
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)
