from dataclasses import replace

import numpy as np
import pytest

from kokoro_nb.models.pocket import flow_and_mimi
from kokoro_nb.models.pocket.transformer import STREAMS
from kokoro_nb.studies.pockettts.conversions import converted
from kokoro_nb.studies.pockettts.package_reference import last_calls


@pytest.fixture(scope="module")
def calls(right):
    return last_calls(right.calls)


def test_what_cannot_run_here_is_skipped(pocket, calls):
    found = converted("executorch-vulkan", flow_and_mimi.TextEmbedding(pocket), calls["text"])
    assert str(found).startswith("SKIP: ")


def test_the_steps_are_the_package_s_in_every_tensor(right):
    apart = right.apart()
    assert {f"Mimi: {name}" for name in ("position", "cache", *STREAMS)} <= set(apart)
    # 2.4e-6 by itself; in a process in which many others have run, rounding is another, and 1.05e-5 was seen
    assert max(apart.values()) < 2e-5
    assert apart["position"] == apart["position after reading"] == 0
    off = replace(right, steps=replace(right.steps, latents=right.steps.latents + 1))
    assert off.apart()["latents"] > 0.1  # the control


def test_it_ends_as_the_package_does_too(right):
    assert len(right.ended.latents) < len(right.package.latents) == len(right.utterance.noise)
    assert np.array_equal(right.ended.latents, right.package.latents[: len(right.ended.latents)])


def test_every_step_is_called(right):
    assert set(last_calls(right.calls)) == set(right.modules)
    assert sum(call.step == "conditioning step" for call in right.calls) == int(right.package.read["position"][0])
