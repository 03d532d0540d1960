import copy

import pytest
import torch
from torch import nn

from kokoro_nb.listening.spectrum import log_spectral_distance
from kokoro_nb.models import stages
from kokoro_nb.models.bfloat16 import Bfloat16Conv1d, Bfloat16ConvTranspose1d, install
from kokoro_nb.models.case import capture
from kokoro_nb.models.kokoro import load_model
from kokoro_nb.models.padding.layers import within
from kokoro_nb.models.padding.lengths import of_frames
from kokoro_nb.models.patches import BFLOAT16, EXPORT_PATCHES, patched

ROUNDING = 2.0**-8  # of one number, relative
PLAIN = (nn.Conv1d, nn.ConvTranspose1d)


class Decoder(nn.Module):
    """Holds what a test gives it in place of the decoder's own parts."""

    def __init__(self, *parts):
        super().__init__()
        self.parts, self.generator = nn.Sequential(*parts), nn.Module()
        self.generator.conv_post = nn.Conv1d(1, 1, 1)

    def forward(self, x):
        return self.parts(x)


@pytest.fixture
def in_bfloat16(monkeypatch):
    """Return a function that has the convolutions of a module in bfloat16."""
    monkeypatch.setattr("kokoro_nb.models.bfloat16.Decoder", Decoder)

    def changed(*parts):
        holder = Decoder(*parts).eval()
        install(holder)
        return holder

    return changed


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv1d(6, 10, 7, dilation=3, padding=9),
        nn.Conv1d(6, 10, 12, stride=6, padding=3, bias=False),
        nn.ConvTranspose1d(6, 4, 12, stride=6, padding=3),
        nn.ConvTranspose1d(6, 6, 3, stride=2, padding=1, output_padding=1, groups=6),
    ],
)
def test_it_is_the_convolution_of_rounded_numbers(in_bfloat16, layer):
    x = torch.randn(2, 6, 40, generator=torch.Generator().manual_seed(0))
    exact = copy.deepcopy(layer).double()
    exact.weight.data = layer.weight.data.bfloat16().double()
    with torch.no_grad():
        expected = exact(x.bfloat16().double())
        found = in_bfloat16(copy.deepcopy(layer))(x)
        bias = 0.0 if layer.bias is None else layer.bias[:, None]
        limit = ROUNDING * (expected - bias).abs() + 1e-5  # one rounding more, of the product
        assert found.dtype == torch.float32
        assert ((found - expected).abs() <= limit).all()
        assert not torch.equal(found, layer(x)), "nothing was rounded"


def test_the_bias_is_not_rounded(in_bfloat16):
    layer = nn.Conv1d(1, 1, 1)
    layer.weight.data.zero_()
    layer.bias.data.fill_(1 + 2.0**-20)
    with torch.no_grad():
        assert in_bfloat16(layer)(torch.ones(1, 1, 3)).eq(1 + 2.0**-20).all()


def test_all_that_is_not_the_decoder_stays(narrow):
    model = narrow.model
    classes = {name: type(module) for name, module in model.named_modules()}
    with patched(model, (BFLOAT16,)):
        changed = {name for name, module in model.named_modules() if type(module) is not classes[name]}
        kinds = {type(module) for name, module in model.named_modules() if name in changed}
    convolutions = {name for name, kind in classes.items() if name.startswith("decoder.") and kind in PLAIN}
    assert changed == convolutions - {"decoder.generator.conv_post"}
    assert "decoder.generator.noise_convs.0" in changed
    assert kinds == {Bfloat16Conv1d, Bfloat16ConvTranspose1d}
    assert {name: type(module) for name, module in model.named_modules()} == classes


def test_the_voice_keeps_its_spectrum():
    mini = load_model("mini")
    case = capture(mini, "Hello world.", g2p="espeak")
    stage = stages.FromHarStage(mini.model.decoder)
    with patched(mini.model, EXPORT_PATCHES), torch.no_grad():
        inputs = stages.from_har_inputs(mini.model.decoder, case.decoder_inputs())
        plain = stage(**inputs).numpy()[0]
        with patched(mini.model, (BFLOAT16,)):
            distance = log_spectral_distance(plain, stage(**inputs).numpy()[0])
            mini.model.decoder.generator.conv_post.__class__ = Bfloat16Conv1d
            with_the_last = log_spectral_distance(plain, stage(**inputs).numpy()[0])
            mini.model.decoder.generator.conv_post.__class__ = nn.Conv1d
    assert 0.05 < distance < 0.5
    assert with_the_last > 2 * distance


@pytest.mark.parametrize("layer", [nn.Conv1d(4, 4, 3, padding=1), nn.ConvTranspose1d(4, 4, 3, padding=1)])
def test_padding_is_cut_off_before_it_too(in_bfloat16, layer):
    changed, x = in_bfloat16(layer), torch.randn(1, 4, 12, generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), within(changed, of_frames(12, torch.tensor([8]))):
        clean, dirty = changed(x * (torch.arange(12) < 8)), changed(x)
    assert torch.equal(clean[..., :8], dirty[..., :8])
    with torch.no_grad():
        assert not torch.equal(changed(x)[..., :8], dirty[..., :8])


def test_an_output_size_is_refused(in_bfloat16):
    layer = in_bfloat16(nn.ConvTranspose1d(4, 4, 3)).parts[0]
    with pytest.raises(NotImplementedError, match="takes no output size"):
        layer(torch.ones(1, 4, 3), output_size=[5])


def test_an_export_has_it(narrow, narrow_case):
    from kokoro_nb.backends.exported import export_program

    stage = stages.FromHarStage(narrow.model.decoder)
    with patched(narrow.model, EXPORT_PATCHES):
        inputs = stages.from_har_inputs(narrow.model.decoder, narrow_case.decoder_inputs(12))
        plain = stage(**inputs)
        with patched(narrow.model, (BFLOAT16,)), torch.no_grad():
            rounded, made = stage(**inputs), export_program(stage, inputs)
    aten = torch.ops.aten
    kinds = {
        target: [node.meta["val"].dtype for node in made.program.graph.nodes if node.target == target]
        for target in (aten.conv1d.default, aten.conv_transpose1d.default)
    }
    assert kinds[aten.conv1d.default].count(torch.float32) == 1, "the last one is left"
    assert kinds[aten.conv_transpose1d.default].count(torch.float32) == 3, "those of the STFT's inverse are left"
    assert torch.bfloat16 in kinds[aten.conv_transpose1d.default]
    with torch.no_grad():
        found = made.program.module()(*inputs.values())
    assert torch.allclose(found, rounded, atol=1e-5)
    assert not torch.allclose(plain, rounded, atol=1e-5)
