from dataclasses import replace

import pytest

from kokoro_nb.backends.base import Failure
from kokoro_nb.studies.pockettts import port_trials
from kokoro_nb.studies.pockettts.port_trials import PortTrial, trials
from kokoro_nb.studies.pockettts.whole_model import WholeConversion

FELL = Failure("torch.export", "exported", "GuardOnDataDependentSymNode", "data-dependent")
TRACED = [WholeConversion(by, None, (10, 7), (10, 10)) for by in ("torch.jit.trace", "torch.onnx.export(dynamo=False)")]
WHOLE = (*TRACED, WholeConversion("torch.export", FELL))


@pytest.mark.slow
def test_all_eleven_are_executed_and_judged(pocket, right):
    found = trials(pocket, right, WHOLE)
    assert [one.number for one in found] == list(range(1, 12))
    # a trace succeeds, ONNX takes scatter, padding can be exact, and attention without a scrub was not what failed
    assert [one.number for one in found if not one.agrees] == [1, 2, 8, 9]
    assert all(one.today and one.mended and one.holds for one in found)
    assert "AssertionError" in found[4].today
    assert "frames 10, 10 where the package makes 10, 7" in found[0].today
    assert found[10].as_dict()["as logged"] == "yes"


@pytest.mark.slow
def test_a_trace_that_fails_would_be_as_logged(pocket, right):
    fell = replace(WHOLE[0], failure=FELL)
    found = trials(pocket, right, (fell, *WHOLE[1:]), name="executorch-vulkan")
    assert found[0].agrees
    assert not found[3].agrees or "SKIP" in found[3].today


@pytest.mark.parametrize(
    ("number", "agrees", "holds"), [(8, False, True), (8, True, False), (3, True, True), (3, False, False)]
)
def test_each_trial_has_an_outcome_that_it_must_have(number, agrees, holds):
    trial = PortTrial(number, "what was tried", "fails", "converts", agrees, "nothing")
    assert trial.holds is holds
    assert ("does not go as the log says" in trial.claim) is (number == 8)


def test_nan_corrects_nothing(pocket, right, tried, monkeypatch):
    """What could not be measured counted as a correction of the log, since no comparison with NaN is true."""
    monkeypatch.setattr(port_trials, "_apart", lambda module, call: float("nan"))
    found = port_trials._other_attention(pocket, right, tried)
    assert (found.agrees, found.holds) == (True, False)
