import subprocess
import sys
import time

import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.run_outcome import NONE, Limits, outcome, watched

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
GROW = "import time; taken = b'x' * 200_000_000; time.sleep(60)"
CHILD = [sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {GROW!r}])"]


@pytest.fixture
def before():
    """A process that is not watched."""
    process = subprocess.Popen(SLEEP)
    yield process
    process.kill()
    process.wait()


def _go_on():
    return None


def test_only_what_is_watched_is_killed(before):
    kernels = []
    with watched(kernels, Limits(seconds=0.1), _go_on) as usage:
        time.sleep(0.3)  # it may begin late
        kernels.append(subprocess.Popen(SLEEP))
        assert kernels[0].wait(20) == -9
    assert usage.ended.status == "timed out"
    assert before.poll() is None
    with watched([before], Limits(seconds=60), _go_on) as usage:
        time.sleep(0.5)
    assert (usage.ended, before.poll()) == (None, None)


def test_a_kernel_and_what_it_started_are_killed_when_together_they_take_too_much_memory(before):
    with watched([small := subprocess.Popen(CHILD)], Limits(memory=0.1), _go_on) as usage:
        assert small.wait(20) == -9
    assert usage.ended.status == "out of memory"
    assert "its limit of memory" in usage.ended.reason
    assert 0.1 < usage.memory < 0.5
    assert before.poll() is None
    with watched([before], NONE, lambda: outcome("interrupted")) as usage:
        assert before.wait(20) == -9, "where the run is stopped, so are its kernels"
    assert usage.ended.status == "interrupted"
    for limits in ({"seconds": 0}, {"memory": -1.0}, {"seconds": float("nan")}):
        with pytest.raises(InputError, match="has to be above 0"):
            Limits(**limits)
