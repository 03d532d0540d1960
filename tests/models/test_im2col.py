import pytest
import torch
from torch import nn

from kokoro_nb.models.im2col import Im2colConv1d, fits, install
from kokoro_nb.models.padding.layers import within
from kokoro_nb.models.padding.lengths import of_frames
from kokoro_nb.models.patches import patched


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("width", "dilation", "padding"), [(3, 1, 1), (11, 5, 25), (7, 3, 9), (2, 1, 0), (5, 2, 1)])
def test_it_is_the_convolution(width, dilation, padding, bias):
    torch.manual_seed(0)
    conv = nn.Conv1d(6, 10, width, dilation=dilation, padding=padding, bias=bias).double()
    x = torch.randn(2, 6, 40, dtype=torch.float64)
    with torch.no_grad():
        expected = conv(x)
        assert torch.allclose(Im2colConv1d(conv)(x), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "other",
    [
        nn.Conv1d(4, 4, 3, stride=2),
        nn.Conv1d(4, 4, 3, groups=2),
        nn.Conv1d(4, 4, 1),
        nn.Conv1d(4, 4, 3, padding="same"),
        nn.Conv1d(4, 4, 3, padding=1, padding_mode="reflect"),
        nn.utils.weight_norm(nn.Conv1d(4, 4, 3)),
        nn.ConvTranspose1d(4, 4, 3),
    ],
)
def test_what_it_does_not_compute_is_left_alone(other):
    assert not fits(other)
    holder = nn.Sequential(other)
    install(holder)
    assert holder[0] is other


def test_folded_convolutions_keep_their_paths_and_come_back(narrow):
    model = narrow.model
    convolutions = {name: module for name, module in model.named_modules() if isinstance(module, nn.Conv1d)}
    with patched(model, ("fold_weight_norm", "im2col")):
        inside = {name: module for name, module in model.named_modules() if isinstance(module, nn.Conv1d)}
        assert list(inside) == list(convolutions)
        swapped = {name for name, module in inside.items() if isinstance(module, Im2colConv1d)}
        assert "decoder.generator.resblocks.0.convs1.2" in swapped
        assert "decoder.generator.noise_convs.0" not in swapped  # its stride is not 1
    assert dict(model.named_modules()) | convolutions == dict(model.named_modules())


def test_padding_is_cut_off_before_it_too():
    conv = nn.Conv1d(4, 4, 3, padding=1).eval()
    swapped, x = Im2colConv1d(conv), torch.randn(1, 4, 12, generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), within(swapped, of_frames(12, torch.tensor([8]))):
        clean, dirty = swapped(x * (torch.arange(12) < 8)), swapped(x)
    assert torch.equal(clean[..., :8], dirty[..., :8])
    with torch.no_grad():
        assert not torch.equal(swapped(x)[..., :8], dirty[..., :8])
