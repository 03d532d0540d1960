import copy

import pytest
import torch
from pocket_tts.modules.stateful_module import init_states

from kokoro_nb.errors import InputError
from kokoro_nb.models.pocket import transformer
from kokoro_nb.models.pocket.pocket_architecture import load_pocket, small_config


@pytest.fixture
def package(pocket, voice):
    """Return the package's state after the voice."""
    made = init_states(pocket.flow_lm, 1, voice.shape[1] + 3)
    pocket._run_flow_lm_and_increment_step(made, audio_conditioning=voice)
    return made


def test_the_package_s_state_is_taken_over_without_its_nan(pocket, voice, package):
    taken, read = transformer.flow_lm_state(pocket, 20, package), voice.shape[1]
    assert taken["position"].tolist() == [read]
    assert torch.isnan(package["transformer.layers.0.self_attn"]["cache"][:, :, read:]).all()
    for i in range(2):
        kept = package[f"transformer.layers.{i}.self_attn"]["cache"][:, 0, :read]
        assert torch.equal(taken["cache"][i, :, :read], kept)
    assert not taken["cache"][:, :, read:].any()


def test_a_cache_without_room_is_refused(pocket, voice, package):
    with pytest.raises(InputError, match="give a whole number above 0"):
        transformer.flow_lm_state(pocket, 0)
    with pytest.raises(InputError, match="make it larger"):
        transformer.flow_lm_state(pocket, voice.shape[1] - 1, package)


def test_states_of_several_utterances_are_refused(pocket, package):
    padded = copy.deepcopy(package)
    padded["transformer.layers.1.self_attn"]["pad"] += 1
    with pytest.raises(InputError, match="give the state of one"):
        transformer.flow_lm_state(pocket, 20, padded)


@pytest.mark.parametrize("change", [{"ratios": [6, 20]}, {"n_residual_layers": 2}, {"pad_mode": "replicate"}])
def test_a_decoder_of_another_build_is_refused(change):
    config = small_config()
    config["mimi"]["seanet"] |= change
    with pytest.raises(InputError, match="the step knows decoders with 9, padded with zeros"):
        transformer.mimi_state(load_pocket(config), 32)
