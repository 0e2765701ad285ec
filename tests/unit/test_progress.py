import io

import pytest

from holdfast.progress import ProgressBar, bar_line, listening, report, wants_colour


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def run(stream, seconds_per_step, steps=20, text="fitting"):
    clock = Clock()
    with ProgressBar(stream, clock=clock) as bar:
        for done in range(steps + 1):
            bar(done, steps, text)
            clock.now += seconds_per_step
    return stream.getvalue()


def test_reports_reach_the_listener_and_only_inside_the_block():
    heard = []
    report(0, 3, "nobody")
    with listening(lambda done, total, text: heard.append((done, total, text))):
        report(1, 3, "heard")
        with listening(None):
            report(2, 3, "muted")
        report(3, 3, "heard")
    report(3, 3, "nobody")
    assert heard == [(1, 3, "heard"), (3, 3, "heard")]


def test_listener_is_removed_after_an_error():
    heard = []
    with pytest.raises(RuntimeError), listening(lambda *args: heard.append(args)):
        raise RuntimeError
    report(1, 1, "later")
    assert heard == []


def test_silent_when_not_a_terminal():
    assert run(io.StringIO(), 1.0) == ""


def test_silent_for_work_under_a_second():
    assert run(Terminal(), 0.04) == ""


def test_bar_shows_rate_and_remaining_time_and_cleans_up(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    text = run(Terminal(), 1.0)
    assert "50%" in text
    assert "1/s" in text
    assert "10 s left" in text
    assert text.endswith("\r\x1b[K")


def test_no_color(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[36m" in run(Terminal(), 1.0)
    assert wants_colour(Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[36m" not in run(Terminal(), 1.0)
    assert not wants_colour(Terminal())
    assert not wants_colour(io.StringIO())


@pytest.mark.parametrize("width", [10, 30, 60, 200])
@pytest.mark.parametrize("total", [0, 100])
def test_lines_fit_the_screen(width, total):
    for done in (0, 1, 50, 100):
        assert len(bar_line("reading rows", done, total, 3.0, width)) <= width


def test_long_waits_are_told_in_hours():
    assert "2 h 46 min left" in bar_line("fit", 1, 10_001, 1.0, 80)
    assert "1 min 39 s left" in bar_line("fit", 1, 100, 1.0, 80)
