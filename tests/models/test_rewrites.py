import pytest
import torch
from kokoro.custom_stft import CustomSTFT
from torch import nn

from kokoro_nb.models import noise, rewrites
from kokoro_nb.models.patches import PATCHES, patched

FRAMES = 12
REWRITES = {row[:2]: row[2] for patch in PATCHES.values() for row in patch.rewrites}


@pytest.fixture
def no_switch(monkeypatch):
    """Put every rewrite with switches in the place of its original, with every switch off."""
    assert not rewrites.ON
    for (owner, method), function in REWRITES.items():
        monkeypatch.setattr(owner, method, function)


@pytest.fixture
def stft():
    """Return the package's transform without complex numbers, at Kokoro's size."""
    return CustomSTFT(20, 5, 20)


def _signal(samples=4000, seed=0):
    return torch.randn(1, samples, generator=torch.Generator().manual_seed(seed))


def _decoded(model, case):
    inputs = case.decoder_inputs(FRAMES)
    with torch.no_grad(), noise.replayed(case.noise(FRAMES)):
        return model.decoder(*(inputs[name] for name in ("asr", "f0", "n", "s")))


@pytest.mark.parametrize("stft_kind", ["TorchSTFT", "CustomSTFT"])
def test_with_no_switch_on_the_decoder_is_the_package_s_bit_for_bit(narrow, narrow_case, request, stft_kind):
    with patched(narrow.model, ("custom_stft",) if stft_kind == "CustomSTFT" else ()):
        expected = _decoded(narrow.model, narrow_case)
        request.getfixturevalue("no_switch")
        assert torch.equal(_decoded(narrow.model, narrow_case), expected)


def test_where_phase_sets_what_boolean_assignment_sets(stft):
    # A constant negative signal: real part below 0, imaginary part 0 at bin 0, where atan2(-0, -1) would be -pi.
    signal = torch.cat([-torch.ones(1, 200), _signal(200)], dim=1)
    expected = stft.transform(signal)
    with patched(stft, ("where_phase",)):
        found = stft.transform(signal)
    assert (found[1][0, 0, 4:30] == torch.pi).all()
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_sqrt_epsilon_lifts_silence_alone(stft):
    silence, loud = torch.zeros(1, 200), _signal(200)
    before = stft.transform(loud)[0]
    assert stft.transform(silence)[0].max() == pytest.approx(1e-7)  # sqrt(1e-14)
    with patched(stft, ("sqrt_epsilon",)):
        assert stft.transform(silence)[0].max() == pytest.approx(1e-7**0.5)
        after = stft.transform(loud)[0]
    high = before > 0.1
    assert high.any()
    assert (after - before)[high].abs().max() < 1e-6  # 1e-7 / (2 * 0.1) = 5e-7, and rounding


def test_signal_noise_is_computed_from_the_harmonics(narrow):
    sines = narrow.model.decoder.generator.m_source.l_sin_gen
    pitch = torch.full((1, 1200, 1), 150.0)
    with torch.no_grad(), patched(narrow.model, ("signal_noise",)):
        mixed, voiced, added = sines(pitch)
    assert (voiced == 1).all()
    clean = mixed - added
    expected = 0.003 * torch.sin(137 * clean) * torch.cos(211 * clean)  # voiced: the package's noise_std
    assert torch.allclose(added, expected, atol=1e-6)
    with torch.no_grad(), patched(narrow.model, ("signal_noise",)):
        assert torch.equal(sines(pitch)[0], mixed)


def test_a_norm_written_out_holds_where_a_one_pass_variance_fails():
    norm = nn.InstanceNorm1d(8, affine=True)
    nn.init.normal_(norm.weight, 1, 0.1)
    nn.init.normal_(norm.bias, 0, 0.1)
    x = 10 + 0.01 * torch.randn(1, 8, 3840, generator=torch.Generator().manual_seed(0))  # nearly constant channels
    wide = x.double()
    centred = wide - wide.mean(-1, keepdim=True)
    expected = centred / torch.sqrt(centred.square().mean(-1, keepdim=True) + norm.eps)
    expected = expected * norm.weight[:, None].double() + norm.bias[:, None].double()
    with torch.no_grad(), patched(norm, ("two_pass_norm",)):
        error = (norm(x) - expected).abs().max()
    assert error < 5e-3
    # The control: E[x^2] - E[x]^2 in float32, as TVM lowers it, is off by more than the norm's own output.
    variance = x.square().mean(-1, keepdim=True) - x.mean(-1, keepdim=True).square()
    one_pass = (x - x.mean(-1, keepdim=True)) * torch.rsqrt(variance + norm.eps)
    one_pass = one_pass * norm.weight[:, None] + norm.bias[:, None]
    assert not (one_pass - expected).abs().max() < 10 * error


def test_two_pass_norm_changes_the_group_norm_of_any_module():
    model = nn.Sequential(nn.GroupNorm(2, 8), nn.Tanh())
    nn.init.normal_(model[0].weight, 1, 0.1)
    nn.init.normal_(model[0].bias, 0, 0.1)
    x = torch.randn(2, 8, 5, 6, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = model(x)
        with patched(model, ("two_pass_norm",)):
            graph = torch.export.export(model, (x,), strict=False).graph
            torch.testing.assert_close(model(x), expected, rtol=0, atol=1e-6)
    assert not any("group_norm" in str(node.target) for node in graph.nodes)
