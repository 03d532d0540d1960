"""What befalls the processes: each cause has its own state in the report, and the next run goes on from there."""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.run_outcome import NONE, Limits
from kokoro_nb.reporting.runs import read_run
from kokoro_nb.storage import in_use

AGAIN = "the same command runs it again"
SLEEP = "pathlib.Path(out_dir, 'pid').write_text(str(os.getpid())); time.sleep(99)"
SMALL_FILES = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"


# what a cell does -> the state that is reported, words of the sentence, and the run's limits
INSIDE = {
    "raise ValueError('no')": ("stopped", "fix what it names", NONE),
    "os.kill(os.getpid(), signal.SIGKILL)": (
        "killed",
        f"The kernel was killed from outside by SIGKILL; {AGAIN}.",
        NONE,
    ),
    "time.sleep(99)": (
        "timed out",
        f"It was stopped after 2 s, its limit of time; allow it more, and {AGAIN}.",
        Limits(seconds=2),
    ),
    "taken = [bytearray(b'x' * 20_000_000) for _ in range(30)]; time.sleep(99)": (
        "out of memory",
        "It was stopped above 0.3 GB, its limit of memory",
        Limits(memory=0.3),
    ),
    SMALL_FILES + "pathlib.Path(out_dir, 'big').write_bytes(bytes(1_000_000))": (
        "disk full",
        "There was no room left to write; make room or choose another --out",
        NONE,
    ),
}


@pytest.mark.parametrize("source", INSIDE, ids=[row[0] for row in INSIDE.values()])
def test_a_fault_in_a_cell(workshop, source):
    (expected, words, limits), shop = INSIDE[source], workshop("first")
    shop.plan(source)
    outcome = shop.run(limits=limits)["02_hit"]
    state, sentence = shop.report()
    assert read_run(shop.hit) == outcome.run, "the record on disk is the one returned"
    assert (state, sentence) == (expected, outcome.run.reason)
    assert words in sentence
    if expected == "stopped":  # what is done again does not depend on why it ended
        shop.resume()


def _memory_group():
    """Return where a memory group of this process's own can be made, and the names of its limits: version 1 or 2."""
    own = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines())
    if "memory" in own:
        return Path("/sys/fs/cgroup/memory") / own["memory"].strip("/"), "memory.limit_in_bytes"
    return Path("/sys/fs/cgroup") / own.get("", "").strip("/"), "memory.max"


@pytest.fixture
def starved():
    """Return the command that puts a cell into a memory group of 300 MB, and skips where there is none to be had."""
    try:
        parent, limit = _memory_group()
        group = parent / "kokoro_nb_test"
        assert (parent / "cgroup.procs").exists()
        group.mkdir()
        (group / limit).write_text("300000000")
    except (OSError, AssertionError) as error:
        with suppress(OSError, UnboundLocalError):
            group.rmdir()
        pytest.skip(f"no memory group can be made here: {error}")
    yield f"pathlib.Path({str(group / 'cgroup.procs')!r}).write_text(str(os.getpid()))\n"
    deadline = time.monotonic() + 20
    while group.exists() and time.monotonic() < deadline:
        with suppress(OSError):
            group.rmdir()
        time.sleep(0.1)


def test_the_system_kills_what_takes_too_much(workshop, starved):
    shop = workshop("first")
    shop.plan(starved + "taken = [bytearray(b'x' * 20_000_000) for _ in range(50)]")
    assert shop.run()["02_hit"].run.status == "out of memory"
    assert shop.report()[0] == "out of memory"


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
    with pytest.raises(InputError, match="Another run is using"):
        shop.run()
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
