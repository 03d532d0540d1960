"""Seconds by kind of work: each counted once, under the innermost kind."""

import threading
import time

import pytest

from kokoro_nb import time_spent
from kokoro_nb.time_spent import seconds, timed


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """A clock that only moves when it is turned: a list of one number."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(time_spent, "_spent", {})
    monkeypatch.setattr(time_spent, "_open", [])
    monkeypatch.setattr(time_spent, "_since", 0.0)
    return now


def test_what_is_inside_counts_as_its_own_kind_alone(clock):
    with timed("compile"):
        clock[0] += 1
        with timed("run"):
            clock[0] += 2
        clock[0] += 4
    clock[0] += 8  # nothing is open
    assert seconds() == {"compile": 5, "run": 2}


def test_a_kind_inside_itself_counts_once_and_an_error_ends_it(clock):
    @timed("run")
    def failing():
        with timed("run"):
            clock[0] += 1
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    clock[0] += 1
    assert seconds() == {"run": 1}


def test_a_decorated_function_counts_each_call(clock):
    @timed("float64")
    def judged():
        clock[0] += 3

    judged()
    judged()
    assert seconds() == {"float64": 6}


def test_what_is_open_counts_up_to_now(clock):
    with timed("export"):
        clock[0] += 1
        assert seconds() == {"export": 1}


def test_other_threads_are_not_counted(clock):
    def work():
        with timed("run"):
            clock[0] += 1

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seconds() == {}
