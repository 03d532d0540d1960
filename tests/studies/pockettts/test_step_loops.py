from dataclasses import replace

import pytest
import torch

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import export_program
from kokoro_nb.models.pocket import flow_and_mimi
from kokoro_nb.studies.pockettts.step_loops import loop_on


@pytest.fixture(scope="module")
def exported(right):
    return {name: export_program(step.module, step.inputs) for name, step in right.modules.items()}


def test_a_wrong_step_shows_by_itself_and_in_what_comes_after(right, exported):
    class Late(torch.nn.Module):
        output_names = flow_and_mimi.FlowLmStep.output_names

        def __init__(self, step):
            super().__init__()
            self.step = step

        def forward(self, latent, cache, position):
            return self.step(latent, cache, position + 1)

    step = right.modules["language"]
    found = loop_on("eager", right, {**exported, "language": export_program(Late(step.module), step.inputs)})
    assert found.own["language"] > 1e-2
    assert found.chained["conditioning"] == 0
    assert found.own["flow"] == 0
    assert found.chained["flow"] > 1e-2


def test_a_step_that_falls_leaves_its_error(right, exported):
    fell = Failure("torch.export", "exported", "RuntimeError", "no such thing")
    found = loop_on("onnxruntime", right, {**exported, "mimi": fell})
    assert found.latents is None
    assert found.failure.error == "RuntimeError"
    assert "no such thing" in found.as_dict()["outcome"]


def test_an_absent_backend_is_skipped_with_its_reason(right, exported):
    assert loop_on("executorch-vulkan", right, exported).as_dict()["outcome"].startswith("SKIP: ")


def test_another_length_is_said(right, exported):
    found = loop_on("eager", right, exported)
    assert found.frames == len(right.ended.latents)
    assert replace(found, ended=None).as_dict()["latents until the stop: largest difference"] == "another length"


def test_every_step_is_called(right):
    assert {call.step for call in right.calls} == set(right.modules)
    assert sum(call.step == "conditioning step" for call in right.calls) == int(right.package.read["position"][0])


def test_a_step_that_is_off_is_seen(right):
    off = replace(right, steps=replace(right.steps, latents=right.steps.latents + 1))
    assert off.apart()["latents"] > 0.1
