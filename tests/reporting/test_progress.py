import io
import time

import pytest

from kokoro_nb.reporting.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def drive(stream):
    progress = Progress({"01_a": None, "02_b": None}, stream=stream)
    progress.begin("01_a", 5)
    progress.begin("02_b", 3)
    progress.cell("01_a", 4)
    progress.end("01_a", "passed in 1.0 s")
    progress.begin("03_c", 1)
    progress.end("02_b", "failed in 2.0 s: ValueError: x")
    progress.close()
    return stream.getvalue()


def test_a_terminal_gets_bars_and_without_one_there_are_plain_lines():
    assert drive(io.StringIO()).splitlines() == [
        "01_a: running, 5 cells",
        "02_b: running, 3 cells",
        "01_a: passed in 1.0 s",
        "03_c: running, 1 cells",
        "02_b: failed in 2.0 s: ValueError: x",
    ]
    shown = drive(Terminal())
    assert all(text in shown for text in ("all notebooks", "2/2 notebooks", "4/5 cells", "01_a: passed in 1.0 s"))
    assert Progress({"01_a": 60.0, "02_b": None}, 2, io.StringIO()).seconds_left() is None, "it never ran here"


def test_what_is_left_is_judged_by_the_last_runs(clock):
    stream = io.StringIO()
    progress = Progress({"01_a": 60.0, "02_b": 30.0, "03_c": 200.0}, 2, stream)
    assert progress.seconds_left() == 200  # the longest, though two run at once
    progress.begin("01_a", 5)
    progress.begin("02_b", 5)
    clock[0] += 50
    assert progress.seconds_left() == 200
    progress.begin("03_c", 5)
    clock[0] += 150
    progress.end("01_a", "passed in 50.0 s")
    assert progress.seconds_left() == 50
    progress.end("02_b", "passed in 60.0 s")
    progress.end("03_c", "passed in 300.0 s")
    assert progress.seconds_left() == 0
    assert stream.getvalue().splitlines() == [
        "01_a: running, 5 cells, about 1 min 00 s by its last run here",
        "02_b: running, 5 cells, about 30.0 s by its last run here",
        "03_c: running, 5 cells, about 3 min 20 s by its last run here",
        "01_a: passed in 50.0 s; about 50.0 s left in all",
        "02_b: passed in 60.0 s; about 50.0 s left in all",
        "03_c: passed in 300.0 s",
    ]
