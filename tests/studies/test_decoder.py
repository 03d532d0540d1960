"""The decoder as the studies look into it."""

from types import SimpleNamespace

import pytest
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models.patches import EXPORT_PATCHES
from kokoro_nb.studies.decoder import decoder_program, with_constant_channels


def test_another_set_of_patches_is_another_program(shallow, shallow_case):
    fewer = tuple(name for name in EXPORT_PATCHES if name != "two_pass_norm")
    made = (decoder_program(shallow.model, shallow_case, 4, patches=patches) for patches in (EXPORT_PATCHES, fewer))
    kinds = [{operator.op for operator in one.program.specification.operators} for one in made]
    assert ["aten.instance_norm.default" in each for each in kinds] == [False, True]


def test_a_part_is_exported_by_its_name_and_another_name_is_one_sentence(shallow, shallow_case):
    part = decoder_program(shallow.model, shallow_case, 4, "encode").program.specification.operators
    assert 0 < len(part) < len(decoder_program(shallow.model, shallow_case, 4).program.specification.operators)
    with pytest.raises(InputError, match="The decoder has no part 'ear'; use one of whole, from har, source"):
        decoder_program(shallow.model, shallow_case, 4, "ear")


def test_constant_channels_vary_next_to_nothing_in_a_copy():
    convolution = torch.nn.Conv1d(4, 6, 3)
    model = SimpleNamespace(decoder=SimpleNamespace(generator=SimpleNamespace(noise_convs=[convolution])))
    x = torch.linspace(-1, 1, 80).sin().reshape(1, 4, 20)
    found = with_constant_channels(model, 3).decoder.generator.noise_convs[0](x)
    assert found[0, :3].std(-1).max() < 1e-4 < convolution(x)[0, :3].std(-1).min()
    torch.testing.assert_close(found[0, :3].mean(-1), torch.tensor([15, 27.5, 40]), rtol=0, atol=1e-4)
    with pytest.raises(InputError, match="has 6 channels, not 7"):
        with_constant_channels(model, 7)
