import subprocess
import sys

import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.limits import Limits, enforced

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
    with enforced(Limits(seconds=0.1)) as passed:
        assert subprocess.Popen(SLEEP).wait(20) == -9
    assert [ending.status for ending in passed] == ["timed out"]
    assert before.poll() is None
    with enforced(Limits(seconds=60)) as passed:
        pass
    assert passed == []


def test_what_takes_too_much_memory_is_killed_and_what_takes_less_is_not(before):
    with enforced(Limits(memory=0.1)) as passed:
        small = subprocess.Popen(SLEEP)
        assert subprocess.Popen([sys.executable, "-c", f"import subprocess; subprocess.run({GROW!r})"]).wait(20) == -9
        assert small.wait(20) == -9, "they are counted together"
    assert [ending.status for ending in passed] == ["out of memory"]
    assert "its limit of memory" in passed[0].reason
    assert before.poll() is None
    with enforced(Limits(memory=4)) as passed:
        subprocess.run([sys.executable, "-c", "taken = b'x' * 200_000_000"], check=True)
    assert passed == []


@pytest.mark.parametrize("limits", [{"seconds": 0}, {"memory": -1.0}, {"seconds": float("nan")}])
def test_a_limit_is_above_nothing(limits):
    with pytest.raises(InputError, match="has to be above 0"):
        Limits(**limits)
