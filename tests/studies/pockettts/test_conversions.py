from dataclasses import replace

import pytest

from kokoro_nb.models.pocket import flow_and_mimi
from kokoro_nb.studies.pockettts.conversions import converted
from kokoro_nb.studies.pockettts.package_reference import last_calls


@pytest.fixture(scope="module")
def calls(right):
    return last_calls(right.calls)


def test_what_cannot_run_here_is_skipped(pocket, calls):
    found = converted("executorch-vulkan", flow_and_mimi.TextEmbedding(pocket), calls["text"])
    assert str(found).startswith("SKIP: ")


def test_every_step_is_called(right):
    assert set(last_calls(right.calls)) == set(right.modules)
    assert sum(call.step == "conditioning step" for call in right.calls) == int(right.package.read["position"][0])


def test_a_step_that_is_off_is_seen(right):
    off = replace(right, steps=replace(right.steps, latents=right.steps.latents + 1))
    assert off.apart()["latents"] > 0.1
