"""What befalls the processes: each cause has its own state in the report, and the next run goes on from there."""

import os
import signal
import sys
import time

import psutil
import pytest

from kokoro_nb.reporting.one_notebook import NONE, Limits
from kokoro_nb.reporting.runs import read_run
from kokoro_nb.storage import in_use
from tests.refusals import refused

AGAIN = "the same command runs it again"
SLEEP = "pathlib.Path(out_dir, 'pid').write_text(str(os.getpid())); time.sleep(99)"
LARGE_FILE = """import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
pathlib.Path(out_dir, 'big').write_bytes(bytes(1_000_000))"""
# what it started counts, too
HOG = "import subprocess; subprocess.run([sys.executable, '-c', 'a = [1] * 75_000_000; import time; time.sleep(60)'])"
# the state that is reported -> what a cell does, and words of the sentence
INSIDE = {
    "stopped": ("raise ValueError('no')", "fix what it names"),
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", f"The kernel was killed from outside by SIGKILL; {AGAIN}."),
    "timed out": ("time.sleep(99)", f"It was stopped after 2 s, its limit of time; allow it more, and {AGAIN}."),
    "out of memory": (HOG, "It was stopped above 0.3 GB, its limit of memory"),
    "disk full": (LARGE_FILE, "There was no room left to write; make room or choose another --out"),
}
LIMITS = {"timed out": Limits(seconds=2), "out of memory": Limits(memory=0.3)}


@pytest.mark.parametrize("expected", INSIDE)
def test_a_fault_in_a_cell(workshop, expected):
    (source, words), shop = INSIDE[expected], workshop("first")
    shop.plan(source)
    outcome = shop.run(limits=LIMITS.get(expected, NONE))["02_hit"]
    state, sentence = shop.report()
    assert read_run(shop.hit) == outcome.run, "the record on disk is the one returned"
    assert (state, sentence) == (expected, outcome.run.reason)
    assert words in sentence
    if expected == "stopped":  # what is done again does not depend on why it ended
        shop.resume()


# signal, to whom: the run alone, its process group as a terminal does it, or every process; status, state, words
SIGNALS = {
    "Ctrl-C": (signal.SIGINT, "group", 130, "interrupted", "stopped by Ctrl-C"),
    "request to end": (signal.SIGTERM, "run", 143, "terminated", "SIGTERM"),
    "everything killed": (signal.SIGKILL, "all", -9, "abandoned", "The run ended before it did"),
}


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("name", SIGNALS)
def test_a_signal_from_outside(workshop, name):
    (number, to, status, expected, words), shop = SIGNALS[name], workshop("first")
    shop.plan(SLEEP)
    run = shop.command("run")
    kernel = int(shop.wait_for("pid"))
    refused("Another run is using", shop.run)
    assert shop.report()[0] == "running"
    if to == "group":
        os.killpg(run.pid, number)
    else:
        for process in (run.pid, kernel) if to == "all" else (run.pid,):
            os.kill(process, number)
    _, said = run.communicate(timeout=60)
    assert run.returncode == status
    assert "Traceback" not in said
    _wait_until(lambda: not in_use(shop.run_dir))
    assert not _lives(kernel), "nobody is left behind"
    assert read_run(shop.hit).executed is None, "its copy may be half-written"
    state, sentence = shop.report()
    assert state == expected
    assert words in sentence
    assert AGAIN in sentence
    if to != "run":
        shop.resume()


def _lives(number):
    """Return whether a process is there, and more than an entry that nobody has asked for."""
    return psutil.pid_exists(number) and psutil.Process(number).status() != psutil.STATUS_ZOMBIE


def _wait_until(holds):
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
