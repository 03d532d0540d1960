"""Each patch changes what the catalogue allows, undoes itself, and computes what it stands for."""

import pytest
import torch
from kokoro.custom_stft import CustomSTFT
from kokoro.istftnet import AdaINResBlock1, TorchSTFT
from torch import nn

from kokoro_nb.errors import InputError
from kokoro_nb.models import noise, rewrites
from kokoro_nb.models.padding import of_frames, within
from kokoro_nb.models.patches import EXPORT_PATCHES, PATCHES, active, patched
from kokoro_nb.models.rewrites import PlaneBlock, TwoPassInstanceNorm1d, on_planes

FRAMES = 12
EVERY = tuple(PATCHES)
SETS = [(name,) for name in EVERY] + [EXPORT_PATCHES, tuple(n for n in EVERY if n != "explicit_noise")]
METHODS = {row[:2]: getattr(*row[:2]) for patch in PATCHES.values() for row in patch.rewrites}


def _audio(model, case):
    """Decode the first frames of `case` on its noise, whichever way the model asks for it."""
    inputs, drawn = case.decoder_inputs(FRAMES), case.noise(FRAMES)
    with torch.no_grad(), noise.replayed(drawn), noise.explicit(drawn):
        return model.decoder(*(inputs[name] for name in ("asr", "f0", "n", "s"))).reshape(-1)


def _assert_as_the_package_made_it(model, keys):
    assert active() == ()
    assert all(getattr(owner, name) is method for (owner, name), method in METHODS.items())
    assert type(model.decoder.encode.norm1.norm) is nn.InstanceNorm1d
    assert list(model.state_dict()) == keys
    assert isinstance(model.decoder.generator.stft, TorchSTFT)


@pytest.fixture
def reference(narrow, narrow_case):
    """Return the audio before the patch."""
    return _audio(narrow.model, narrow_case)


@pytest.mark.parametrize("names", SETS, ids="+".join)
def test_undone_is_bit_exact(narrow, narrow_case, reference, names):
    keys = list(narrow.model.state_dict())
    with patched(narrow.model, names):
        assert active() == tuple(sorted(name for name in names if PATCHES[name].rewrites))
        _audio(narrow.model, narrow_case)
    _assert_as_the_package_made_it(narrow.model, keys)
    assert torch.equal(_audio(narrow.model, narrow_case), reference)
    with pytest.raises(ZeroDivisionError), patched(narrow.model, names):
        raise ZeroDivisionError
    _assert_as_the_package_made_it(narrow.model, keys)


@pytest.mark.parametrize("inner", ["custom_stft", "divided_snake"])
def test_nested_patches_undo_themselves_alone(narrow, narrow_case, reference, inner):
    keys = list(narrow.model.state_dict())
    outer = tuple(name for name in EXPORT_PATCHES if name != "explicit_noise")
    with patched(narrow.model, outer):
        within, on = _audio(narrow.model, narrow_case), active()
        with patched(narrow.model, (inner,)):
            _audio(narrow.model, narrow_case)
        assert active() == on
        assert torch.equal(_audio(narrow.model, narrow_case), within)
    _assert_as_the_package_made_it(narrow.model, keys)
    assert torch.equal(_audio(narrow.model, narrow_case), reference)


@pytest.mark.parametrize("name", EVERY)
def test_the_effect_is_what_the_catalogue_allows(narrow, narrow_case, name):
    with patched(narrow.model, PATCHES[name].requires):
        before = _audio(narrow.model, narrow_case)
        with patched(narrow.model, (name,)):
            change = float((_audio(narrow.model, narrow_case) - before).abs().max() / before.abs().max())
    tolerance = PATCHES[name].tolerance
    assert change <= tolerance
    if tolerance == float("inf"):  # changes the model on purpose; otherwise the patch would be for nothing
        assert change > 0


def test_a_module_in_which_nothing_would_change_is_refused(narrow):
    with pytest.raises(InputError, match=r"^A Linear holds nothing that .* would change; give a Kokoro"):
        patched(nn.Linear(2, 2), EXPORT_PATCHES).__enter__()
    assert active() == ()
    with patched(nn.Sequential(nn.InstanceNorm1d(2)), EXPORT_PATCHES) as model:
        assert type(model[0]) is TwoPassInstanceNorm1d
        assert not PATCHES["two_pass_norm"].finds(model)  # nothing more to change
    with patched(nn.Linear(2, 2), ()):  # none is asked for
        assert active() == ()
    with patched(narrow.model):  # those of an export
        assert active() == tuple(sorted(name for name in EXPORT_PATCHES if PATCHES[name].rewrites))


def test_the_inverse_weights_are_copied_in_order(narrow):
    with patched(narrow.model, ("custom_stft",)):
        stft = narrow.model.decoder.generator.stft
        strided = stft.weight_backward_real
        assert not strided.is_contiguous()  # the control: without the patch they are views
        with patched(narrow.model, ("contiguous_istft",)):
            assert stft.weight_backward_real.is_contiguous()
            assert stft.weight_backward_imag.is_contiguous()
            assert torch.equal(stft.weight_backward_real, strided)
        assert stft.weight_backward_real is strided


def _decoded(model, case):
    inputs = case.decoder_inputs(FRAMES)
    with torch.no_grad(), noise.replayed(case.noise(FRAMES)):
        return model.decoder(*(inputs[name] for name in ("asr", "f0", "n", "s")))


@pytest.mark.parametrize("stft_kind", ["TorchSTFT", "CustomSTFT"])
def test_with_no_switch_on_the_decoder_is_the_package_s_bit_for_bit(narrow, narrow_case, monkeypatch, stft_kind):
    with patched(narrow.model, ("custom_stft",) if stft_kind == "CustomSTFT" else ()):
        expected = _decoded(narrow.model, narrow_case)
        assert not rewrites.ON
        for owner, method, function in (row for patch in PATCHES.values() for row in patch.rewrites):
            monkeypatch.setattr(owner, method, function)
        assert torch.equal(_decoded(narrow.model, narrow_case), expected)


def test_where_phase_sets_what_boolean_assignment_sets():
    stft = CustomSTFT(20, 5, 20)
    # A constant negative signal: real part below 0, imaginary part 0 at bin 0, where atan2(-0, -1) would be -pi.
    signal = torch.cat([-torch.ones(1, 200), torch.randn(1, 200, generator=torch.Generator().manual_seed(0))], dim=1)
    expected = stft.transform(signal)
    with patched(stft, ("where_phase",)):
        found = stft.transform(signal)
    assert (found[1][0, 0, 4:30] == torch.pi).all()
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


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
        with on_planes(block):
            assert type(block) is PlaneBlock
            found = block(x, s)
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
        with on_planes(block):
            with within(block, valid):
                inside = block(x, s)[..., :16]
            leaking = block(clean, s)[..., :16]
    scale = float(alone.abs().max())
    assert torch.allclose(inside, alone, rtol=0, atol=1e-10 * scale)
    assert not torch.allclose(leaking, alone, rtol=0, atol=1e-3 * scale), "the control: without lengths it leaks"
