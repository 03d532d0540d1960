"""The steps against the package's own code, in closed loop: what comes out of a frame goes into the next."""

import numpy as np
import pytest
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models.pocket import flow_and_mimi, transformer
from kokoro_nb.models.pocket.flow_and_mimi import ConditioningStep, OtherConditioningStep
from kokoro_nb.models.pocket.pocket_architecture import load_pocket, small_config
from kokoro_nb.models.pocket.transformer import flow_lm_state
from tests.models.pocket.conftest import of_peak, say_in_steps, say_package, worst

FRAMES = 50


@pytest.fixture(scope="module")
def expected(pocket, voice):
    return say_package(pocket, voice, FRAMES)


def _shared_heads():
    """Return a configuration with what the smallest models have: few key heads, a narrow condition, a table of rank."""
    config = small_config()
    config["flow_lm"]["transformer"] |= {"num_kv_heads": 1, "attn_dim": 24, "dim_feedforward": 40}
    config["flow_lm"]["lookup_table"]["rank"] = 12
    config["flow_lm"]["z_dim"] = 20
    return config


def _assert_the_same(found, expected):
    assert found.language["position"] == expected.language["position"]
    assert found.decoder["position"] == expected.decoder["position"]
    read = int(expected.read["position"][0])
    assert of_peak(found.read["cache"][:, :, :read], expected.read["cache"][:, :, :read]) < 1e-6
    assert [name for name, error in worst(found, expected).items() if not error < 1e-5] == []


def test_fifty_frames_are_the_package_s(pocket, voice, expected):
    _assert_the_same(say_in_steps(pocket, voice, FRAMES), expected)
    assert expected.latents.std() > 0.5  # and they are no constant
    assert abs(expected.latents[-1] - expected.latents[-2]).max() > 0.1


def test_a_configuration_with_shared_heads_is_the_package_s_too():
    model = load_pocket(_shared_heads())
    voice = torch.randn(1, 5, model.flow_lm.dim, generator=torch.Generator().manual_seed(7))
    _assert_the_same(say_in_steps(model, voice, 10), say_package(model, voice, 10))


def test_one_by_one_the_frames_are_the_package_s_too(pocket, voice):
    _assert_the_same(say_in_steps(pocket, voice, 10, one_by_one=True), say_package(pocket, voice, 10))


def test_a_latent_of_nan_is_not_taken_for_the_first(pocket):
    latent = torch.full((1, 1, pocket.flow_lm.ldim), float("nan"))
    condition, *_ = flow_and_mimi.FlowLmStep(pocket)(latent, **transformer.flow_lm_state(pocket, 5))
    assert torch.isnan(condition).all()


def test_a_flow_without_two_times_is_refused():
    config = small_config()
    config["flow_lm"]["flow"]["type"] = "drifting"
    with pytest.raises(InputError, match="type 'drifting' takes 0 times, the step is for two"):
        flow_and_mimi.FlowStep(load_pocket(config))


def test_the_scale_of_the_latents_is_the_model_s_and_stays_apart_from_it(pocket):
    step = flow_and_mimi.MimiStep(pocket)
    assert torch.equal(step.scale, pocket.flow_lm.emb_std)
    assert step.scale is not pocket.flow_lm.emb_std
    names = {name for name, _ in step.named_parameters()}
    assert names == {
        name for name, _ in pocket.mimi.named_parameters() if not name.startswith(("encoder", "downsample"))
    }


@pytest.mark.parametrize("start", [0, 7])
def test_it_writes_what_ours_writes(pocket, voice, start):
    cache, position = flow_lm_state(pocket, 20).values()
    cache[:, :, :start] = torch.randn(cache[:, :, :start].shape, generator=torch.Generator().manual_seed(1))
    given = (voice[:, :1], cache, position + start)
    found, expected = OtherConditioningStep(pocket)(*given), ConditioningStep(pocket)(*given)
    assert torch.equal(found[1], expected[1])
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=1e-5)
    later, _ = OtherConditioningStep(pocket)(voice[:, :1], cache, position + start + 1)  # the control
    assert (later - expected[0]).abs().max() > 1e-2


def test_nan_in_the_cache_spoils_it_like_ours(pocket, voice):
    cache, position = flow_lm_state(pocket, 20).values()
    spoilt = torch.full_like(cache, float("nan"))
    for step in (OtherConditioningStep(pocket), ConditioningStep(pocket)):
        written = step(voice[:, :1], spoilt, position)[0][:, :, 0]
        assert torch.isfinite(written[0]).all()
        assert np.isnan(written[1:].numpy()).all()


def test_shared_heads_are_refused():
    config = small_config()
    config["flow_lm"]["transformer"] |= {"num_kv_heads": 1}
    with pytest.raises(InputError, match="share keys and values"):
        OtherConditioningStep(load_pocket(config))
