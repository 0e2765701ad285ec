"""Which path a plan takes, and what it says: memory first, then time."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.experiments import Ragged, Tasks
from holdfast.holdout import plan as planning
from holdfast.holdout.costs import COSTS
from holdfast.holdout.plan import Cost, Plan, make_plan
from holdfast.smoother.base import Sizes


def sizes(form="features", **given):
    known = {"m": 1000, "p": 50, "v": 1, "basis": 50 if form == "features" else None}
    return Sizes(form, **known | given)


#: Room for fewer rows than these: they are streamed.
STREAMED = {"m": 10**6, "memory": 1e8}


def tasks(size=20, count=10):
    rows = Ragged.from_arrays([np.arange(j * size, (j + 1) * size) for j in range(count)])
    return Tasks(rows, Ragged.empty(count), rows, np.arange(count))


class Told:
    """Costs that say what they are told."""

    def __init__(self, seconds, memory):
        self.told = dict(zip(planning.PLANNED, zip(seconds, memory, strict=True), strict=True))

    def __call__(self, *sizes):
        return self

    def seconds(self, path):
        return self.told[path][0]

    def bytes(self, path):
        return self.told[path][1]


@pytest.mark.parametrize(
    ("seconds", "gigabytes", "room", "taken"),
    [
        ((1.0, 2.0, 3.0), (1, 1, 1), 8, "spectral"),
        ((2.0, 1.0, 3.0), (1, 1, 1), 1, "fold_gram"),
        ((1.0, 2.0, 3.0), (9, 1, 1), 8, "fold_gram"),
        ((1.0, 2.0, 3.0), (9, 9, 1), 8, "single"),
        # None fits: the cheapest of those that need at most twice the least.
        ((1.0, 2.0, 3.0), (9, 4, 2), 1, "fold_gram"),
        ((1.0, 2.0, 3.0), (9, 5, 2), 1, "single"),
    ],
)
def test_the_cheapest_that_fits(monkeypatch, seconds, gigabytes, room, taken):
    told = Told(seconds, [1e9 * size for size in gigabytes])
    monkeypatch.setitem(planning.COSTS, "features", told)
    found = make_plan(tasks(), sizes(memory=1e9 * room), 5, "auto")
    assert found.path == taken
    assert "cheapest that fits" in str(found)
    assert make_plan(tasks(), sizes(), 5, "single").path == "single"


def test_small_problems_are_never_short_of_memory(monkeypatch):
    monkeypatch.setitem(planning.COSTS, "features", Told((1.0, 2.0, 3.0), (2**26, 1, 1)))
    assert make_plan(tasks(), sizes(memory=0), 5, "auto").path == "spectral"
    monkeypatch.setitem(planning.COSTS, "features", Told((1.0, 2.0, 3.0), (2**26 + 1, 1, 1)))
    assert make_plan(tasks(), sizes(memory=0), 5, "auto").path == "fold_gram"


def test_a_plan_in_words():
    costs = Cost("spectral", 2.0, 1500.0), Cost("fold_gram", 0.004, 5e9), Cost("single", 1.0, 12.0)
    shown = str(Plan("fold_gram", "auto", costs, {"rows": 7}))
    for part in ("2 s", "4 ms", "1 s", "1.5 kB", "5 GB", "12 B", "500.00", "1.00", "← taken"):
        assert part in shown
    assert repr(Plan("fold_gram", "auto", costs, {"rows": 7})) == shown
    html = Plan("fold_gram", "fold_gram", costs, {"rows": "<7>"})._repr_html_()
    assert "&lt;7&gt;" in html
    assert "was asked for" in html


@pytest.mark.parametrize("form", ["features", "kernel"])
@pytest.mark.parametrize("path", planning.PLANNED)
def test_more_of_anything_takes_no_less(form, path):
    """Rows held out and tested, penalties, targets, features and rows all cost something."""

    def cost(h=20.0, e=2.0, t=20.0, a=8, count=10, **given):
        sets = (np.full(count, x) for x in (h, e, t))
        job = COSTS[form](sizes(form, p=given.pop("p", 50), **given), *sets, a)
        return job.seconds(path), job.bytes(path)

    def with_rows(m):
        return cost(m=m, p=m) if form == "kernel" else cost(m=m)

    seconds, memory = cost()
    assert seconds > 0
    assert memory > 8 * 50**2
    for more in (cost(t=40.0), cost(a=16), cost(v=4), cost(count=40), cost(h=22.0, t=22.0)):
        if form == "features" or path != "fold_gram":  # smaller kernel matrices are left there
            assert more[0] >= seconds
            assert more[1] >= memory
    assert with_rows(4000)[0] >= with_rows(2000)[0]
    assert with_rows(4000)[1] > with_rows(2000)[1]
    if form == "features":
        assert cost(p=100)[0] > seconds
        assert cost(p=100)[1] > memory
        assert cost(**STREAMED)[1] < cost(m=10**6)[1]


def test_facts():
    found = make_plan(tasks(20, 10), sizes(**STREAMED), 5, "auto").facts
    assert found["held out in each"] == "20 to 20 rows"
    assert found["test rows in all"] == 200
    assert found["model"] == "50 basis rows"
    assert found["feature rows"] == "streamed in blocks"
    assert make_plan(tasks(), sizes(basis=None), 5, "auto").facts["model"] == "50 features"
    assert make_plan(tasks(), sizes("kernel"), 5, "auto").facts["model"] == "dense"


@pytest.mark.parametrize(
    ("n_bytes", "words"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1e6, "1 MB"), (1e9, "1 GB"), (5e12, "5e+03 GB")],
)
def test_sizes_in_words(n_bytes, words):
    assert planning._size(n_bytes) == words


def test_times_in_words():
    assert [planning._time(s) for s in (1.0, 0.5, 12.34)] == ["1 s", "500 ms", "12.3 s"]


def test_a_path_that_just_fits(monkeypatch):
    told = Told((2.0, 1.0, 3.0), (1e9, 2e9, 1e9))
    monkeypatch.setitem(planning.COSTS, "features", told)
    assert make_plan(tasks(), sizes(memory=2e9), 5, "auto").path == "fold_gram"
    assert make_plan(tasks(), sizes(memory=2e9 - 1), 5, "auto").path == "spectral"
    least = planning.LEAST_BYTES
    told = Told((2.0, 1.0, 3.0), (least + 1, 2 * least + 2, 5 * least))
    monkeypatch.setitem(planning.COSTS, "features", told)
    assert make_plan(tasks(), sizes(memory=least), 5, "auto").path == "fold_gram"
    told = Told((2.0, 1.0, 3.0), (least, 2 * least, 5 * least))
    monkeypatch.setitem(planning.COSTS, "features", told)
    assert make_plan(tasks(), sizes(memory=1.0), 5, "auto").path == "spectral"
    assert make_plan(tasks(), sizes(memory=1.0), 5, "single").path == "single"
