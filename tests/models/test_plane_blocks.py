import pytest
import torch
from kokoro.istftnet import AdaINResBlock1
from torch import nn

from kokoro_nb.models.other_layers import PlaneBlock, PlaneConv1d, on_planes
from kokoro_nb.models.padding import of_frames, within
from kokoro_nb.models.patches import patched


@pytest.fixture(scope="module")
def given(shallow):
    """Return a residual block, in double precision, its input and a style."""
    with patched(shallow.model, ("fold_weight_norm",)):
        found = next(module for module in shallow.model.decoder.modules() if isinstance(module, AdaINResBlock1))
        block = AdaINResBlock1(found.convs1[0].in_channels, found.convs1[0].kernel_size[0], (1, 3, 5), 128)
    generator = torch.Generator().manual_seed(0)
    for module in block.modules():
        if isinstance(module, nn.Conv1d):
            nn.utils.remove_weight_norm(module)
    for parameter in block.parameters():
        nn.init.normal_(parameter, 0.5, 0.2, generator=generator)
    x = torch.randn(1, found.convs1[0].in_channels, 24, generator=generator, dtype=torch.float64)
    return block.double().eval(), x, torch.randn(1, 128, generator=generator, dtype=torch.float64)


def test_a_block_computes_the_same_sums(given):
    block, x, s = given
    with torch.no_grad():
        expected = block(x, s)
        undo = on_planes(block)
        assert type(block) is PlaneBlock
        found = block(x, s)
        undo()
        assert type(block) is AdaINResBlock1
        assert torch.equal(block(x, s), expected)
        with patched(block, ("plane_blocks", "divided_snake")):
            divided = block(x, s)
    assert torch.allclose(found, expected, rtol=0, atol=1e-10 * float(expected.abs().max()))
    assert torch.allclose(divided, expected, rtol=0, atol=1e-10 * float(expected.abs().max()))


def test_padding_is_cut_off_in_it_too(given):
    block, x, s = given
    valid = of_frames(24, torch.tensor([16]))
    clean = x * (torch.arange(24) < 16)
    with torch.no_grad():
        alone = block(x[..., :16], s)
        undo = on_planes(block)
        with within(block, valid):
            inside = block(x, s)[..., :16]
        leaking = block(clean, s)[..., :16]
        undo()
    scale = float(alone.abs().max())
    assert torch.allclose(inside, alone, rtol=0, atol=1e-10 * scale)
    assert not torch.allclose(leaking, alone, rtol=0, atol=1e-3 * scale), "the control: without lengths it leaks"


def test_what_it_does_not_compute_is_left_alone(shallow):
    decoder = shallow.model.decoder  # its weights are computed by hooks at each call
    undo = on_planes(decoder)
    assert not any(isinstance(module, PlaneConv1d) for module in decoder.modules())
    undo()
