from dataclasses import replace

import numpy as np
import pytest
import torch

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import export_program
from kokoro_nb.models.pocket import flow_and_mimi
from kokoro_nb.studies.pockettts import port_trials
from kokoro_nb.studies.pockettts.loops import RuntimeLoop, exported_steps, loop_on
from kokoro_nb.studies.pockettts.port_trials import PortTrial


@pytest.fixture(scope="module")
def exported(right):
    return exported_steps(right.modules)


def test_a_wrong_step_shows_by_itself_and_in_what_comes_after(right, exported):
    class Late(torch.nn.Module):
        output_names = flow_and_mimi.FlowLmStep.output_names

        def __init__(self, step):
            super().__init__()
            self.step = step

        def forward(self, latent, cache, position):
            return self.step(latent, cache, position + 1)

    step = right.modules["language"]
    made = export_program(Late(step.module), step.inputs)
    row = {each.step: each for each in loop_on("eager", right, {**exported, "language": made}).steps}
    assert row["language"].own > 1e-2
    assert row["conditioning"].chained == 0
    assert row["flow"].own == 0
    assert row["flow"].chained > 1e-2


def test_a_step_that_falls_leaves_its_error(right, exported):
    fell = Failure("torch.export", "exported", "RuntimeError", "no such thing")
    found = loop_on("onnxruntime", right, {**exported, "mimi": fell})
    assert found.latents is None
    assert found.failure.error == "RuntimeError"
    assert "no such thing" in found.as_dict()["outcome"]
    assert "no such thing" in found.steps[-1].as_dict()["by itself (of peak)"]


def test_an_absent_backend_is_skipped_with_its_reason(right, exported):
    found = loop_on("executorch-vulkan", right, exported)
    assert found.as_dict()["outcome"].startswith("SKIP: ")


def test_another_length_is_said(right, exported):
    found = loop_on("eager", right, exported)
    assert found.frames == len(right.ended.latents)
    assert replace(found, ended=None).as_dict()["latents until the stop: largest difference"] == "another length"

    assert np.isnan(RuntimeLoop("x").speed)


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
