"""Kernel matrices on the command line: the model of scikit-learn's rows, matched by name."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from sklearn.model_selection import LeaveOneGroupOut

from holdfast import KernelRidgeCV
from holdfast.cli import main

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
M = 48
RNG = np.random.default_rng(0)
FAMILY = np.repeat(np.arange(8), 6)
MARKERS = RNG.normal(size=(8, 60))[FAMILY] + RNG.normal(size=(M, 60))
G = MARKERS @ MARKERS.T / 60
YIELD = MARKERS @ RNG.normal(size=60) / 8 + 0.5 * RNG.normal(size=M)
ORDER = RNG.permutation(M)
FAST = ["--alphas", "1e-1:1e1:5", "--verify", "1"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A relationship matrix as GCTA writes it, the same as .npy, and a table in another order."""
    monkeypatch.chdir(tmp_path)
    G[np.tril_indices(M)].astype("<f4").tofile("cow.grm.bin")
    with open("cow.grm.id", "w") as file:
        file.writelines(f"f{FAMILY[i]}\tc{i}\n" for i in range(M))
    np.save("K.npy", G[np.ix_(ORDER, ORDER)])
    with open("yields.csv", "w") as file:
        file.write("animal,family,yield,note\n")
        for place, i in enumerate(ORDER):
            known = YIELD[i] if place > 3 else ""
            file.write(f"c{i},f{FAMILY[i]},{known},n{place}\n")


def run(capsys, *argv):
    code = main(list(argv))
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize("matrix", [["cow.grm", "--id", "animal"], ["K.npy"]], ids=["grm", "npy"])
def test_held_out_and_new_rows_are_those_of_the_matrix(capsys, matrix):
    code, out, _ = run(
        capsys, "cv", "yields.csv", "--target", "yield", "--group", "family", "--kernel-matrix",
        *matrix, "--predictions", "p.csv", "--save", "m.holdfast", *FAST,
    )  # fmt: skip
    assert code == 0
    assert "48 × 48" in out
    with open("p.csv") as file:
        rows = list(csv.DictReader(file))
    trained, others = ORDER[4:], ORDER[:4]
    K = G.astype("f4").astype(float) if matrix[0] == "cow.grm" else G
    twin = KernelRidgeCV(
        "precomputed", alphas=np.logspace(-1, 1, 5), cv=LeaveOneGroupOut(), random_state=0
    )
    twin.fit(K[np.ix_(trained, trained)], YIELD[trained], groups=FAMILY[trained].astype(str))
    held = twin.held_out(alphas=[twin.alpha_])
    expected = dict(zip(held.experiments.test.values + 4, held.values[0, :, 0], strict=True))
    expected |= dict(enumerate(twin.predict(K[np.ix_(others, trained)])))
    assert len(rows) == M
    for row in rows:
        found = float(row["prediction"])
        assert found == pytest.approx(expected[int(row["row"])], rel=1e-8, abs=1e-8)
    name = f"row of {matrix[0]}"
    with open("new.csv", "w") as file:
        places = others if matrix[0] == "cow.grm" else range(4)
        file.write(f"{name}\n" + "".join(f"{i}\n" for i in places))
    code, out, _ = run(capsys, "predict", "m.holdfast", "new.csv", "--interval", "0.8")
    assert code == 0
    again = [float(line.split(",")[0]) for line in out.splitlines()[1:]]
    np.testing.assert_allclose(again, [expected[i] for i in range(4)], rtol=1e-8)
    assert run(capsys, "verify", "m.holdfast")[0] == 0


def test_explain_and_columns(capsys):
    argv = ["yields.csv", "--target", "yield", "--kernel-matrix", "cow.grm", "--id", "animal"]
    code, out, _ = run(capsys, "explain", *argv, "--json")
    assert code == 0
    assert json.loads(out)["path"]
    code, out, _ = run(capsys, "cv", "yields.csv", "--kernel-matrix", "K.npy", "--explain-columns")
    assert code == 0
    assert "animal" in out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--kernel-matrix", "none.npy"], "none.npy"),
        (["--kernel-matrix", "yields.csv"], "yields.csv cannot be read as numbers"),
        (["--kernel-matrix", "K.npy", "--id", "animal"], "names its rows"),
        (["--kernel-matrix", "cow.grm", "--id", "note"], "48 rows are not in the kernel matrix"),
        (["--kernel-matrix", "cow.grm", "--id", "cow"], "has no column 'cow'"),
        (["--kernel-matrix", "K.npy", "--gamma", "2"], "--gamma and --kernel-matrix"),
        (["--kernel-matrix", "K.npy", "--features", "note"], "--features and --kernel-matrix"),
        (["--kernel-matrix", "K.npy", "--no-scale"], "--no-scale and --kernel-matrix"),
        (["--id", "animal"], "--kernel-matrix"),
    ],
)
def test_what_is_refused(capsys, argv, words):
    code, out, err = run(capsys, "cv", "yields.csv", "--target", "yield", *argv, *FAST)
    assert code in (3, 6)
    assert words in err
    assert not out


def test_another_number_of_rows(capsys):
    np.save("small.npy", G[:9, :9])
    argv = ["cv", "yields.csv", "--target", "yield", "--kernel-matrix", "small.npy", *FAST]
    code, _, err = run(capsys, *argv)
    assert code == 3
    assert "small.npy has 9 rows and the data 48" in err


def test_tune_and_compare_have_no_such_option(capsys):
    for command in ("tune", "compare"):
        argv = [command, "yields.csv", "--target", "yield", "--kernel-matrix", "K.npy"]
        code, _, err = run(capsys, *argv)
        assert code == 2
        assert "unrecognized arguments" in err
