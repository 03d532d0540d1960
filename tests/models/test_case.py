import pytest
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models import noise
from kokoro_nb.models.case import capture
from kokoro_nb.models.patches import active, patched


def _capture(narrow, **options):
    return capture(narrow, "Hi.", g2p="espeak", **options)


def test_the_audio_is_the_model_s_own_on_the_same_noise(narrow, narrow_case):
    tensors = narrow_case.tensors
    with noise.replayed(narrow_case.noise()):
        audio, durations = narrow.model.forward_with_tokens(tensors["ids"], tensors["ref_s"], 1.0)
    assert torch.equal(audio, tensors["audio"])
    assert torch.equal(durations, tensors["durations"])
    assert (narrow_case.text, narrow_case.g2p, narrow_case.voice) == ("Hello world.", "espeak", "seeded")
    assert (narrow_case.speed, narrow_case.seed) == (1.0, 0)
    assert narrow_case.phonemes == "həlˈO wˈɜːld."
    assert narrow_case.weights == narrow.weights


def test_durations_add_up_to_the_frames(narrow_case):
    tensors = narrow_case.tensors
    assert int(tensors["durations"].sum()) == narrow_case.frames == tensors["asr"].shape[-1]
    assert tensors["audio"].shape == (600 * narrow_case.frames,)
    assert narrow_case.seconds == pytest.approx(narrow_case.frames / 40)
    # each frame of asr is the encoder's output for its token
    spread = tensors["t_en"].repeat_interleave(tensors["durations"], dim=-1)
    assert torch.allclose(spread, tensors["asr"], atol=1e-6)


def test_frames_are_cut_at_every_rate(narrow_case):
    cut, drawn = narrow_case.decoder_inputs(10), narrow_case.noise(10)
    for name, size in (("asr", 10), ("f0", 20), ("n", 20)):
        assert torch.equal(cut[name], narrow_case.tensors[name][..., :size])
    assert torch.equal(cut["harmonic_noise"], narrow_case.tensors["harmonic_noise"][:, :6000])
    assert torch.equal(drawn.harmonic, cut["harmonic_noise"])
    assert drawn.branch.shape == (1, 6000, 1)
    assert all(tensor.is_contiguous() for tensor in cut.values())
    words = f"do not exist, the utterance has {narrow_case.frames}; choose fewer, or give a longer"
    for part, frames in ((narrow_case.decoder_inputs, 10_000), (narrow_case.noise, 0)):
        with pytest.raises(InputError, match=words):
            part(frames)


def test_the_same_seed_gives_the_same_audio_another_seed_other_noise(narrow):
    first, again, other = (_capture(narrow, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.tensors["audio"], again.tensors["audio"])
    assert not torch.equal(first.tensors["audio"], other.tensors["audio"])
    assert torch.equal(first.tensors["f0"], other.tensors["f0"])


def test_speed_divides_the_durations(narrow):
    normal, slow = _capture(narrow), _capture(narrow, speed=0.5)
    # round(2 d) is at most 0.5 + 2 * 0.5 = 1.5 from 2 round(d), and both are whole numbers
    assert (slow.tensors["durations"] - 2 * normal.tensors["durations"]).abs().max() <= 1
    assert slow.frames > 1.5 * normal.frames


@pytest.mark.parametrize("speed", [0, float("nan"), float("inf"), "fast"])
def test_other_speeds_are_refused(narrow, speed):
    with pytest.raises(InputError, match=r"The speed must be a number above 0, it is .*; 1 is normal"):
        _capture(narrow, speed=speed)


def test_a_capture_is_of_the_unpatched_model(narrow):
    plain = _capture(narrow)
    with patched(narrow.model, ("explicit_noise", "constant_scale")):
        inside = _capture(narrow)
        assert active() == ("constant_scale", "explicit_noise")
    assert torch.equal(inside.tensors["audio"], plain.tensors["audio"])
    model = narrow.model
    parts = (model.decoder, model.text_encoder, model.predictor.text_encoder)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in parts)
