"""Model files of earlier versions load, and give the numbers that they gave."""

import json
from pathlib import Path

import numpy as np
import pytest

from holdfast import load
from tolerances import assert_close

GOLDEN = Path(__file__).parent / "golden"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text("utf-8"))
NAMES = sorted(EXPECTED["models"])


def test_every_file_has_its_numbers():
    assert sorted(path.stem for path in GOLDEN.glob("*.holdfast")) == NAMES
    assert all(path.stat().st_size < 20_000 for path in GOLDEN.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_version_0_1_0(name):
    expected = EXPECTED["models"][name]
    model = load(GOLDEN / f"{name}.holdfast")
    rows = np.array(EXPECTED["new"])
    if name == "frame":
        pd = pytest.importorskip("pandas")
        rows = pd.DataFrame(rows, columns=["a", "b", "číslo"])
    predictions = model.predict(rows)
    if predictions.dtype.kind == "f":
        assert_close(predictions, np.array(expected["predict"]), "law")
    else:
        assert predictions.tolist() == expected["predict"]
    np.testing.assert_array_equal(model.alpha_, expected["alpha"])
    assert_close(model.held_out().values, np.array(expected["held_out"]), "law")
    assert model.verify(2).max_relative_error < 1e-8
    assert str(model.explain())


def test_an_old_model_can_be_saved_again(tmp_path):
    for name in NAMES:
        model = load(GOLDEN / f"{name}.holdfast")
        model.save(tmp_path / name)
        again = load(tmp_path / name)
        np.testing.assert_array_equal(again.held_out().values, model.held_out().values)
