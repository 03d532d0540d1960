"""A replay by another process, on the versions that are installed here, and where it is, on the old ones."""

import sys

import pytest
from torch import nn

from kokoro_nb.backends import backend
from kokoro_nb.errors import InputError
from kokoro_nb.models.case import capture
from kokoro_nb.models.kokoro import load_model
from kokoro_nb.studies.executorch_0_7.arena import norm_memory
from kokoro_nb.studies.executorch_0_7.old_environment import absent, old_python
from kokoro_nb.studies.executorch_0_7.replay_plan import NORM, PIECES, SYMPTOM
from kokoro_nb.studies.executorch_0_7.replay_run import replay
from kokoro_nb.studies.executorch_0_7.replay_trials import norm_alone

ABSENT = absent()
portable = backend("executorch-portable")
needs_executorch = pytest.mark.skipif(portable.available() is not None, reason=str(portable.available()))


@needs_executorch
def test_todays_norm_does_not_remember(tmp_path):
    found, audio = replay(sys.executable, "narrow", 0, {}, [NORM], search=False, folder=tmp_path)
    (outcome,) = found.outcomes
    assert not found.recorded
    assert "narrow" in found.weights
    assert outcome.verdict == "right"
    assert not outcome.history.depends
    assert [call.number for call in outcome.calls] == [0, 1, 2] * 4
    assert (outcome.norms, outcome.used_before) == (1, 0)
    assert audio is None
    near = [row["from the suspect"] for row in found.predicted]
    assert near[0] < 1e-5  # float32 against float32: on cleared memory both compute the same
    assert min(near[1:]) > 1e-2  # the suspect is not what today's kernel does
    assert max(row["from eager"] for row in found.predicted) < 1e-5


@needs_executorch
def test_statistics_in_memory_that_was_used_before_are_counted(tmp_path):
    _, inputs = norm_alone()
    chain = nn.Sequential(*(nn.Sequential(nn.InstanceNorm1d(8), nn.Conv1d(8, 8, 3)) for _ in range(4))).eval()
    made = portable.export(chain, inputs, tmp_path)
    found = norm_memory(made.path)
    assert found.norms == 4
    assert 1 <= found.used_before <= 3  # never the first: nothing ran before it


@pytest.mark.parametrize("python", ["nowhere/python", "."])
def test_an_interpreter_that_is_none_is_refused(python):
    with pytest.raises(InputError, match="There is no interpreter"):
        replay(python, "narrow", 0, {}, [NORM])


def test_a_process_that_fails_says_so(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho it broke >&2\nexit 3\n", encoding="utf-8")
    python.chmod(0o755)
    with pytest.raises(RuntimeError, match="ended with 3: it broke"):
        replay(python, "narrow", 0, {}, [NORM])


@pytest.mark.slow
@pytest.mark.skipif(ABSENT is not None, reason=str(ABSENT))
def test_the_old_norm_remembers_as_the_suspect_does(tmp_path):
    inputs = capture(load_model("narrow", 0), "Hello.", seed=0).decoder_inputs(8)
    adaptive, block = PIECES[-1], SYMPTOM
    found, _ = replay(old_python(), "narrow", 0, inputs, [NORM, adaptive, block], search=False, folder=tmp_path)
    assert found.versions["executorch"] == "0.7.0"
    assert [one.verdict for one in found.outcomes] == ["depends on history", "depends on history", "not finite"]
    assert all(one.eager_finite == 1 for one in found.outcomes)
    assert (found.outcome(adaptive).used_before, found.outcome(block).used_before) == (0, 2)
    assert found.outcome(NORM).call("NaN in every float", 2).finite == 0
    assert max(row["from the suspect"] for row in found.predicted) < 1e-5  # 1.4e-6: float32 against float32
    assert min(row["from eager"] for row in found.predicted[1:]) > 1e-2
