import pytest
import torch
from kokoro.custom_stft import CustomSTFT
from kokoro.istftnet import AdaINResBlock1, TorchSTFT
from torch import nn

from kokoro_nb.errors import InputError
from kokoro_nb.models import noise
from kokoro_nb.models.kokoro import load_model
from kokoro_nb.models.other_layers import TwoPassInstanceNorm1d
from kokoro_nb.models.patches import (
    EXPORT_PATCHES,
    FAST_PATCHES,
    PATCHES,
    active,
    class_patches,
    patched,
)

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


def _change(model, case, name):
    """Return the change that `name` makes to the audio, as a share of the peak, beside the patches that it requires."""
    with patched(model, PATCHES[name].requires):
        before = _audio(model, case)
        with patched(model, (name,)):
            within = _audio(model, case)
    return float((within - before).abs().max() / before.abs().max())


@pytest.fixture
def reference(narrow, narrow_case):
    """Return the audio before the patch."""
    return _audio(narrow.model, narrow_case)


def test_the_catalogue_says_why(narrow):
    for name, patch in PATCHES.items():
        assert patch.name == name
        assert patch.reason.endswith(".")
        assert bool(patch.rewrites) != bool(patch.install)
        assert set(patch.requires) < set(PATCHES)
        assert patch.finds(narrow.model.decoder)
        assert not patch.finds(nn.Linear(2, 2))
    assert set(PATCHES) - set(EXPORT_PATCHES) == {"signal_noise", *FAST_PATCHES}


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


@pytest.mark.parametrize("inner", ["custom_stft", "fold_weight_norm", "signal_noise", "divided_snake"])
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
    change, tolerance = _change(narrow.model, narrow_case, name), PATCHES[name].tolerance
    assert change <= tolerance
    if tolerance == float("inf"):  # changes the model on purpose; otherwise the patch would be for nothing
        assert change > 0


def test_without_what_it_requires_a_patch_changes_nothing(narrow, narrow_case, reference):
    for name in (name for name in EVERY if PATCHES[name].requires):
        with patched(narrow.model, (name,)):
            assert torch.equal(_audio(narrow.model, narrow_case), reference), name


def test_explicit_noise_reads_the_noise_that_is_given(narrow, narrow_case, reference):
    inputs = [narrow_case.decoder_inputs(FRAMES)[name] for name in ("asr", "f0", "n", "s")]
    with torch.no_grad(), patched(narrow.model, ("explicit_noise",)):
        with noise.explicit(narrow_case.noise(FRAMES)):
            assert torch.equal(narrow.model.decoder(*inputs).reshape(-1), reference)
        with noise.explicit(noise.draw(FRAMES, seed=9)):
            assert not torch.equal(narrow.model.decoder(*inputs).reshape(-1), reference)


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


def test_class_patches_have_exactly_these_on():
    with class_patches(("divided_snake", "floor_phase")):
        with class_patches(("constant_scale",)):
            assert active() == ("constant_scale",)
            assert AdaINResBlock1.forward is METHODS[AdaINResBlock1, "forward"]
        assert active() == ("divided_snake", "floor_phase")
        with class_patches(()):
            assert all(getattr(owner, name) is method for (owner, name), method in METHODS.items())
    assert active() == ()


def test_unfolding_leaves_other_hooks_alone(narrow):
    convolution, calls = narrow.model.decoder.encode.conv1, []
    gone = convolution.register_forward_pre_hook(lambda *_: calls.append("gone"))
    with patched(narrow.model, ("fold_weight_norm",)):
        gone.remove()
        kept = convolution.register_forward_pre_hook(lambda *_: calls.append("kept"))
    convolution(torch.zeros(1, convolution.in_channels, 4))
    kept.remove()
    assert calls == ["kept"]
    assert len(convolution._forward_pre_hooks) == 1  # weight_norm's own


def test_two_weights_of_one_module_are_unfolded_in_turn():
    lstm = nn.LSTM(3, 4)
    for name in ("weight_ih_l0", "weight_hh_l0"):
        nn.utils.weight_norm(lstm, name)
    keys = list(lstm.state_dict())
    with patched(lstm, ("fold_weight_norm",)):
        assert "weight_ih_l0" in lstm.state_dict()
    assert list(lstm.state_dict()) == keys
    assert len(lstm._forward_pre_hooks) == 2


def test_custom_stft_follows_the_model_to_float64():

    model = load_model("narrow").model
    model.double()
    with patched(model, ("custom_stft",)):
        assert isinstance(model.decoder.generator.stft, CustomSTFT)
        assert model.decoder.generator.stft.weight_forward_real.dtype == torch.float64
        assert not model.decoder.generator.stft.training


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
