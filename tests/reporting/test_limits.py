import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import psutil
import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.reporting import limits
from kokoro_nb.reporting.limits import Limits, enforced, processor_seconds

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
GROW = [sys.executable, "-c", "import time; taken = b'x' * 200_000_000; time.sleep(60)"]


@pytest.fixture
def before():
    """A process that was there before anything is watched."""
    process = subprocess.Popen(SLEEP)
    yield process
    process.kill()
    process.wait()


def test_only_what_was_started_meanwhile_is_killed(before):
    with enforced(Limits(seconds=0.1)) as usage:
        assert subprocess.Popen(SLEEP).wait(20) == -9
    assert [ending.status for ending in usage.passed] == ["timed out"]
    assert before.poll() is None
    with enforced(Limits(seconds=60)) as usage:
        pass
    assert usage.passed == []


def test_what_takes_too_much_memory_is_killed_and_what_takes_less_is_not(before):
    with enforced(Limits(memory=0.1)) as usage:
        small = subprocess.Popen(SLEEP)
        assert subprocess.Popen([sys.executable, "-c", f"import subprocess; subprocess.run({GROW!r})"]).wait(20) == -9
        assert small.wait(20) == -9, "they are counted together"
    assert [ending.status for ending in usage.passed] == ["out of memory"]
    assert "its limit of memory" in usage.passed[0].reason
    assert before.poll() is None
    with enforced(Limits(memory=4)) as usage:
        subprocess.run([sys.executable, "-c", "taken = b'x' * 200_000_000"], check=True)
    assert usage.passed == []


def test_the_memory_of_all_processes_together_is_measured_without_a_limit(before):
    with enforced(Limits()) as usage:
        first = subprocess.Popen(GROW)
        second = subprocess.Popen([sys.executable, "-c", f"import subprocess; subprocess.run({GROW!r})"])
        give_up = time.monotonic() + 20
        while usage.memory < 0.4 and time.monotonic() < give_up:
            time.sleep(0.1)
        for one in (*psutil.Process(second.pid).children(), first, second):
            one.kill()
        first.wait()
        second.wait()
    assert 0.4 < usage.memory < 0.6, "twice 0.2 GB, and the interpreters"


def test_what_forked_processes_share_counts_once(before):
    fork = "import os, time; taken = b'x' * 300_000_000; os.fork(); os.fork(); time.sleep(60)"
    with enforced(Limits()) as usage:
        first = subprocess.Popen([sys.executable, "-c", fork], start_new_session=True)
        give_up = time.monotonic() + 20
        while len(psutil.Process(first.pid).children(recursive=True)) < 3 and time.monotonic() < give_up:
            time.sleep(0.1)
        time.sleep(1.5)
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    assert 0.3 < usage.memory < 0.5, "each of the four processes holds 0.3 GB"


def test_the_memory_of_what_starts_a_process_does_not_count_as_the_process_s(monkeypatch):
    begun = SimpleNamespace(pid=2**30, looks=0)  # of no process

    def children(_this, recursive=False):
        begun.looks += recursive
        return [begun] if recursive else []

    monkeypatch.setattr(psutil.Process, "children", children)
    monkeypatch.setattr(limits, "_within", lambda *_: False)
    for name in ("_resident", "_shared_out"):  # until it runs a program of its own it shares all memory with its parent
        monkeypatch.setattr(limits, name, lambda process: 2e9 if process.looks == 1 else 3e7)
    with enforced(Limits(seconds=60)) as usage:  # nothing is killed
        while begun.looks < 3:
            time.sleep(0.01)
    assert usage.memory == pytest.approx(0.03)


def test_the_processor_time_of_what_has_ended_is_counted():
    spent = processor_seconds()
    busy = "import time; [0 for _ in iter(lambda: time.process_time() < 0.5, False)]"
    subprocess.run([sys.executable, "-c", busy], check=True)
    assert 0.5 <= round(processor_seconds() - spent, 2) < 1.5, "the system counts in hundredths"


@pytest.mark.parametrize("limits", [{"seconds": 0}, {"memory": -1.0}, {"seconds": float("nan")}])
def test_a_limit_is_above_nothing(limits):
    with pytest.raises(InputError, match="has to be above 0"):
        Limits(**limits)


def test_memory_is_looked_at_closely_when_it_has_grown_or_is_above_its_limit_or_after_a_while(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(limits.time, "monotonic", lambda: clock[0])
    cost = 0.1

    def shared_out(process):
        clock[0] += cost
        return process / 2

    monkeypatch.setattr(limits, "_shared_out", shared_out)
    closely = limits._CloseLooks(limit=3.5)
    assert closely.due(3.0), "the first time"
    assert closely.look([3_000_000_000], 3.0) == 1.5
    assert not closely.due(3.0)
    assert closely.due(3.2), "grown"
    assert closely.due(3.6), "above its limit"
    clock[0] += 48 * cost
    assert not closely.due(3.0), "2 % of the time are looks"
    clock[0] += 2 * cost
    assert closely.due(3.0)
