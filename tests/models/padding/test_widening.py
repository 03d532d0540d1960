import pytest
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models import frame_cuts
from kokoro_nb.models.static_buffers import widened


def test_every_input_grows_at_its_own_rate(narrow, narrow_case):
    inputs = narrow_case.decoder_inputs(4) | {"har": torch.ones(1, 22, 481), "length": torch.tensor([4])}
    wide = widened(inputs, 6, fill=2.0)
    shapes = {name: tuple(tensor.shape) for name, tensor in wide.items() if name != "asr"}
    assert shapes == {
        "f0": (1, 12),
        "n": (1, 12),
        "s": (1, 128),
        "harmonic_noise": (1, 3600, 9),
        "har": (1, 22, 721),
        "length": (1,),
    }
    assert wide["asr"].shape[2] == 6
    assert torch.equal(wide["asr"][..., :4], inputs["asr"])
    assert (wide["asr"][..., 4:] == 2).all()
    assert (wide["har"][..., 481:] == 2).all()
    with torch.no_grad():
        assert frame_cuts.trunk(narrow.model.decoder, *(wide[name] for name in ("asr", "f0", "n", "s"))).shape[2] == 12


def test_what_is_already_as_long_is_left(narrow_case):
    inputs = narrow_case.decoder_inputs(4)
    assert all(torch.equal(tensor, inputs[name]) for name, tensor in widened(inputs, 4).items())


def test_too_little_room_is_refused(narrow_case):
    with pytest.raises(InputError, match="'asr' is longer than 3 frames; give more room"):
        widened(narrow_case.decoder_inputs(4), 3)


def test_an_unknown_input_is_refused():
    with pytest.raises(InputError, match="not known how the input 'latent' grows"):
        widened({"latent": torch.zeros(1)}, 3)
