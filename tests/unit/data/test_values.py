"""What NumPy would take without a word, one function at a time."""

import warnings

import numpy as np
import pytest

from holdfast.data.labels import check_labels
from holdfast.data.values import LARGEST, refuse_large, refuse_masked, require_numbers
from holdfast.exceptions import HoldfastWarning, InvalidInputError


def test_what_passes_comes_back_as_it_is():
    array = np.arange(6.0).reshape(3, 2)
    assert require_numbers("X", array) is array
    assert require_numbers("X", 3.0) == 3.0
    np.testing.assert_array_equal(require_numbers("X", [[1, 2], [3, 4]]), [[1, 2], [3, 4]])
    mask = np.ma.array(array)
    assert require_numbers("X", mask) is mask


def test_float16_is_answered():
    with pytest.warns(HoldfastWarning, match="X is float16"):
        require_numbers("X", np.ones(3, np.float16))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        require_numbers("X", np.ones(3, np.float32))


def test_hidden_values_in_a_list():
    row = np.ma.array([1.0, 2.0], mask=[False, True])
    with pytest.raises(InvalidInputError, match=r"X must not hide values.* 1 of 2"):
        refuse_masked("X", [np.zeros(2), row])
    refuse_masked("X", [np.zeros(2), np.ma.array([1.0, 2.0])])


def test_the_largest_number():
    refuse_large("X", -LARGEST, LARGEST)
    with pytest.raises(InvalidInputError, match="size up to 1e\\+150"):
        refuse_large("X", -1.01 * LARGEST, 0.0)
    assert np.isfinite(1e8 * LARGEST**2 / 1e8)


def test_labels():
    for labels in ([1, 2], ["a", "b"], [True, False], np.array([0, 1], dtype="M8[D]"), [0.5, 1.5]):
        np.testing.assert_array_equal(check_labels("groups", labels, 2), labels)
    for labels in ([1.0, np.nan], [None, "a"], np.array(["NaT", "2020"], dtype="M8[D]")):
        with pytest.raises(InvalidInputError, match="1 missing"):
            check_labels("groups", labels, 2)


def test_free_memory_of_windows(monkeypatch):
    """What the system writes into the structure is what is told."""
    import ctypes
    import struct
    from types import SimpleNamespace

    from holdfast.data import memory

    def answer(status):
        size = struct.unpack_from("I", status.raw)[0]
        assert size == len(status.raw) == struct.calcsize("II7Q")
        status.raw = struct.pack("II7Q", size, 50, 16 * 2**30, 7 * 2**30, 0, 0, 0, 0, 0)
        return 1

    kernel = SimpleNamespace(GlobalMemoryStatusEx=answer)
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=kernel), raising=False)
    monkeypatch.setattr(memory, "_TOLD", ())
    monkeypatch.setattr(memory.os, "sysconf", lambda name: 2**40)
    monkeypatch.setattr(memory, "_address_space", list)
    assert memory.available_bytes() == 7 * 2**30
    kernel.GlobalMemoryStatusEx = lambda status: 0
    assert memory.available_bytes() == 2.0**80
