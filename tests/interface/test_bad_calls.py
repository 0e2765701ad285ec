"""Every call of the table does what the table says, and the page in the documentation shows it."""

import contextlib
import warnings
from collections import Counter

import pytest

from bad_calls import all_calls
from bad_calls.page import PAGE, render
from holdfast.exceptions import HoldfastError

CALLS = all_calls()


def test_the_table_is_large_and_names_each_call_once():
    assert len(CALLS) >= 250
    assert not [
        name for name, count in Counter((c.group, c.name) for c in CALLS).items() if count > 1
    ]


def test_what_is_accepted_is_justified():
    for call in CALLS:
        accepted = call.error in (None, 0)
        assert accepted == bool(call.why), call.name


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.group}: {call.name}"[:90])
@pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
def test_a_call(call, tmp_path):
    if isinstance(call.error, type):
        with pytest.raises(call.error) as caught:
            call.run(tmp_path)
        assert caught.type is call.error
        if not issubclass(call.error, OSError):
            assert isinstance(caught.value, HoldfastError)
        said = str(caught.value)
        assert "\n" not in said
        assert len(said) < 600
    elif call.error is None:
        expected = pytest.warns(call.warning) if call.warning else contextlib.nullcontext()
        with expected:
            call.run(tmp_path)
        return
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code, said = call.run(tmp_path)
        assert code == call.error, said
    for word in call.words:
        assert word in said, said


def test_the_page_shows_the_table():
    written = render(CALLS)
    assert PAGE.read_text("utf-8") == written, "cd tests && python -m bad_calls.page writes it"
