import math
import subprocess
import sys
import time
from types import SimpleNamespace

import psutil
import pytest

from kokoro_nb.benchmarks import interleaved
from kokoro_nb.benchmarks.interleaved import PAUSE, in_turn, ratio, spread, watched
from tests.refusals import refused


class Watch:
    """A clock that runs only while a call does, and notes who called."""

    def __init__(self):
        self.now, self.called, self.slept = 0.0, [], []

    def call(self, name, *seconds):
        waiting = list(seconds)

        def run():
            self.called.append(name)
            self.now += waiting.pop(0) if len(waiting) > 1 else waiting[0]

        return run

    def timed(self, calls, rounds, **more):
        own = SimpleNamespace(perf_counter=lambda: self.now, sleep=self.slept.append)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(interleaved, "time", own)
            return in_turn(calls, rounds, **more)


def test_programs_take_turns_after_one_call_each():
    watch = Watch()
    times = watch.timed({"eager": watch.call("eager", 9, 1, 2, 3), "other": watch.call("other", 5)}, 3)
    assert watch.called == ["eager", "other"] * 4
    assert times == {"eager": (1, 2, 3), "other": (5, 5, 5)}
    assert watch.slept == [PAUSE] * 6


def test_a_slow_program_takes_part_as_long_as_it_may():
    watch = Watch()
    calls = {"eager": watch.call("eager", 1), "slow": watch.call("slow", 4), "slower": watch.call("slower", 40)}
    assert [len(each) for each in watch.timed(calls, 5, limit=10).values()] == [5, 2, 1]


def test_a_machine_that_slows_down_for_a_while_moves_times_and_not_ratios():
    slowed = [1.0, 1.0, 7.0, 7.0, 7.0]
    found = ratio([2 * each for each in slowed], slowed)
    assert (found.median, found.low, found.high) == (2, 2, 2)
    assert spread(slowed).high == 7 * spread(slowed).low


def test_the_bounds_of_a_ratio_are_those_of_its_median():
    found = ratio([1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 1.2], [1.0] * 7)
    assert found.median == 1.0
    assert 0.9 <= found.low < 1 < found.high <= 1.2
    assert ratio([3.0, 3.1, 2.9, 3.0, 3.2], [1.0] * 5).low > 1
    found = ratio([3.0], [2.0, 4.0])
    assert (found.median, found.rounds) == (1.5, 1)
    assert math.isnan(found.low), "one round has no bounds"


@pytest.mark.parametrize(("calls", "rounds"), [({}, 3), ({"eager": print}, 0)])
def test_nothing_to_time_is_one_sentence(calls, rounds):
    refused("cannot be timed", in_turn, calls, rounds)


def test_the_work_of_other_processes_is_seen():
    endless = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        made, elsewhere = watched(lambda: time.sleep(1) or "made")
    finally:
        endless.kill()
        endless.wait()
    assert made == "made"
    assert elsewhere > 0.3 / psutil.cpu_count()
    _, elsewhere = watched(lambda: [sum(range(10**6)) for _ in range(20)])
    assert elsewhere <= 1 - 0.3 / psutil.cpu_count(), "own work is not that of others"
