import math
from dataclasses import replace

import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.studies.executorch_0_7.replay_plan import NORM, SYMPTOM
from kokoro_nb.studies.executorch_0_7.replay_record import ReplayCall, ReplayOutcome, recorded

NAN = float("nan")
RIGHT = (ReplayCall("itself", 0, 1.0, 1e-6, 110.0, 0.0), ReplayCall("itself", 1, 1.0, 1e-6, 110.0, 0.0))


def _outcome(*calls, error=""):
    return ReplayOutcome(NORM, 1.0, error, tuple(calls), 1, 0)


@pytest.mark.parametrize(
    ("calls", "verdict"),
    [
        ((), "no result"),
        (RIGHT, "right"),
        ((*RIGHT, ReplayCall("zeros", 1, 1.0, 0.1, 20.0, 0.1)), "depends on history"),
        ((*RIGHT, ReplayCall("zeros", 1, 0.0, NAN, NAN, NAN)), "depends on history"),
        ((ReplayCall("itself", 0, 0.0, NAN, NAN, 0.0), ReplayCall("itself", 1, 0.0, NAN, NAN, 0.0)), "not finite"),
        ((ReplayCall("itself", 0, 0.99, NAN, NAN, 0.0),), "not finite"),
        ((ReplayCall("itself", 0, 1.0, 0.02, 30.0, 0.0),), "wrong"),
    ],
)
def test_verdicts(calls, verdict):
    assert _outcome(*calls).verdict == verdict


def test_a_nan_is_the_largest_change_whatever_follows():
    later = [ReplayCall("zeros", number, 1.0, NAN, NAN, change) for number, change in ((1, 0.1), (2, NAN), (3, 0.2))]
    changes = _outcome(*RIGHT, *later).history.changes
    assert changes["itself"] == 0
    assert math.isnan(changes["zeros"])
    assert math.isnan(_outcome(*RIGHT, later[1], later[2]).history.changes["zeros"])
    assert _outcome(later[0], later[2]).history.changes["zeros"] == 0.2


def test_a_trial_that_was_not_replayed_is_reported():
    with pytest.raises(InputError, match=r"'XNNPACK as it is' was not replayed on ExecuTorch 0\.7\.0"):
        replace(recorded(), outcomes=()).outcome(SYMPTOM)
