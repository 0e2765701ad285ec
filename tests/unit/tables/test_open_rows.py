"""Rows that stay on disk: mapped, converted in blocks, never loaded whole."""

import gc
import os
import subprocess
import sys

import numpy as np
import pytest

from holdfast import KernelRidgeCV
from holdfast.exceptions import InvalidInputError
from holdfast.tables import rows as module
from holdfast.tables.rows import open_rows

WHY = "pyarrow is not installed (extra holdfast[frames])"
pa = pytest.importorskip("pyarrow", reason=WHY)
feather = pytest.importorskip("pyarrow.feather", reason=WHY)
parquet = pytest.importorskip("pyarrow.parquet", reason=WHY)


@pytest.fixture
def table(monkeypatch):
    monkeypatch.setattr(module, "BLOCK_ROWS", 64)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 3))
    X[7, 2] = np.nan
    return pa.table(
        {
            "a": X[:, 0],
            "b": (X[:, 1] * 10).astype(np.int32),
            "c": pa.array(X[:, 2], from_pandas=True),
            "t": pa.array(["x"] * 1000),
        }
    )


def expected(table):
    columns = [table.column(name).to_numpy().astype(float) for name in ("b", "a", "c")]
    return np.column_stack(columns)


@pytest.mark.parametrize("kind", ["parquet", "feather", "arrow"])
def test_converted_in_blocks(table, tmp_path, kind):
    path = tmp_path / f"table.{kind}"
    if kind == "parquet":
        parquet.write_table(table, path, row_group_size=300)
    elif kind == "feather":
        feather.write_feather(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=100)
    rows = open_rows(path, ["b", "a", "c"])
    assert np.array_equal(rows, expected(table), equal_nan=True)
    assert isinstance(rows.base, np.memmap)
    assert not rows.flags.writeable
    with pytest.raises(InvalidInputError, match="'t' is of type string"):
        open_rows(path)
    with pytest.raises(InvalidInputError, match="'nothing'"):
        open_rows(path, ["a", "nothing"])


def test_where_the_rows_go(table, tmp_path):
    parquet.write_table(table, tmp_path / "table.parquet")
    kept = open_rows(tmp_path / "table.parquet", ["a"], to=tmp_path / "rows.npy")
    assert np.array_equal(open_rows(tmp_path / "rows.npy"), kept)
    rows = open_rows(tmp_path / "table.parquet", ["a"])
    place = rows.base.filename
    assert os.path.exists(place)
    del rows
    gc.collect()
    assert not os.path.exists(place)


def test_failed_conversion_leaves_nothing(table, tmp_path):
    parquet.write_table(table, tmp_path / "table.parquet")
    with pytest.raises(InvalidInputError):
        open_rows(tmp_path / "table.parquet", to=tmp_path / "rows.npy")
    assert not (tmp_path / "rows.npy").exists()


def test_refusals(tmp_path):
    np.save(tmp_path / "rows.npy", np.eye(3))
    with pytest.raises(InvalidInputError, match="columns and to"):
        open_rows(tmp_path / "rows.npy", ["a"])
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InvalidInputError, match="Parquet"):
        open_rows(tmp_path / "rows.csv")


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
def test_fit_on_mapped_rows(tmp_path):
    X = np.random.default_rng(1).normal(size=(300, 2))
    np.save(tmp_path / "rows.npy", X)
    options = {"basis": 20, "cv": 4, "random_state": 0, "alphas": [0.1, 1.0]}
    here = KernelRidgeCV(**options).fit(X, X[:, 0])
    mapped = KernelRidgeCV(**options).fit(open_rows(tmp_path / "rows.npy"), X[:, 0])
    assert np.array_equal(mapped.held_out().values, here.held_out().values)


SCRIPT = """
import sys, threading, time, warnings
import numpy as np
from holdfast import KernelRidgeCV
from holdfast.tables.rows import open_rows
warnings.simplefilter("ignore")
import holdfast.smoother.rows
holdfast.smoother.rows.BLOCK_BYTES = holdfast.smoother.rows.KEEP_BYTES = 2**19

def private():  # bytes of this process alone: pages of a mapped file do not count
    with open("/proc/self/status") as lines:
        return next(1024 * int(l.split()[1]) for l in lines if l.startswith("RssAnon"))

X = open_rows(sys.argv[1])
y = np.array(X[:, 0])
model = KernelRidgeCV("linear", basis=50, alphas=[1.0], cv=4, memory_limit=1e6, random_state=0)
model.fit(X[:1000], y[:1000])
before, peak, running = private(), 0, True
def watch():
    global peak
    while running:
        peak = max(peak, private())
        time.sleep(0.001)
thread = threading.Thread(target=watch)
thread.start()
model.fit(X, y)
running = False
thread.join()
print(peak - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's /proc")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_mapped_rows_are_never_loaded_whole(tmp_path, dtype):
    """A fit takes its blocks and a few numbers for each row, not the rows."""
    m, d = 50_000, 400
    rows = np.lib.format.open_memmap(tmp_path / "rows.npy", "w+", dtype=dtype, shape=(m, d))
    rng = np.random.default_rng(0)
    for start in range(0, m, 10_000):
        rows[start : start + 10_000] = rng.normal(size=(10_000, d))
    size = rows.nbytes
    del rows
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "rows.npy")]
    # Threads of BLAS hold buffers of their own, which are not the question.
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **one}
    )
    assert run.returncode == 0, run.stderr
    taken = int(run.stdout)
    print(f"rows {size / 1e6:.0f} MB, taken {taken / 1e6:.0f} MB")
    assert taken < 0.6 * size
