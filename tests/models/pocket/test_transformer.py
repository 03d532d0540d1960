import copy

import pytest
import torch
from pocket_tts.modules.stateful_module import init_states

from kokoro_nb.errors import InputError
from kokoro_nb.models.pocket import transformer
from kokoro_nb.models.pocket.pocket_architecture import load_pocket, small_config

WRITES = ["one_hot", "scatter"]


def _random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("tokens", [1, 3])
@pytest.mark.parametrize("write", WRITES)
def test_a_write_goes_where_slicing_puts_it(write, tokens):
    cache, new = _random(10, 2, 4), _random(tokens, 2, 4, seed=1)
    expected = cache.clone()
    expected[6 : 6 + tokens] = new
    assert torch.equal(transformer.written(cache, new, torch.tensor([6]), tokens, write), expected)


def test_only_the_first_tokens_are_written_where_fewer_are_asked_for():
    cache, new = _random(10, 2, 4), _random(3, 2, 4, seed=1)
    found = transformer.written(cache, new, torch.tensor([6]), torch.tensor([2]), "one_hot")
    assert torch.equal(found[6:8], new[:2])
    assert torch.equal(found[8:], cache[8:])
    rows = transformer.written(cache, new, torch.tensor([6]), torch.tensor([2]), "scatter")
    assert torch.equal(rows[6:9], new)  # the docstring says so


def test_what_does_not_fit_is_left_out_or_refused():
    cache, new = _random(10, 2, 4), _random(3, 2, 4, seed=1)
    found = transformer.written(cache, new, torch.tensor([8]), 3, "one_hot")
    assert torch.equal(found, torch.cat([cache[:8], new[:2]]))
    with pytest.raises(RuntimeError, match="out of bounds"):
        transformer.written(cache, new, torch.tensor([8]), 3, "scatter")


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

    padded = copy.deepcopy(package)
    padded["transformer.layers.1.self_attn"]["pad"] += 1
    with pytest.raises(InputError, match="give the state of one"):
        transformer.flow_lm_state(pocket, 20, padded)


def test_a_decoder_of_another_build_is_refused():
    config = small_config()
    config["mimi"]["seanet"] |= {"n_residual_layers": 2}
    with pytest.raises(InputError, match="the step knows decoders with 9, padded with zeros"):
        transformer.mimi_state(load_pocket(config), 32)
