from dataclasses import replace

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


def test_what_was_asked_for_is_kept(narrow, narrow_case):
    assert (narrow_case.text, narrow_case.g2p, narrow_case.voice) == ("Hello world.", "espeak", "seeded")
    assert (narrow_case.speed, narrow_case.seed, narrow_case.noise_kind) == (1.0, 0, "gaussian")
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


def test_the_decoder_s_inputs_give_the_audio(narrow, narrow_case):
    inputs = narrow_case.decoder_inputs()
    assert list(inputs) == ["asr", "f0", "n", "s", "harmonic_noise"]
    drawn = replace(narrow_case.noise(), harmonic=inputs["harmonic_noise"])
    with torch.no_grad(), noise.replayed(drawn):
        audio = narrow.model.decoder(*(inputs[name] for name in ("asr", "f0", "n", "s")))
    assert torch.equal(audio.reshape(-1), narrow_case.tensors["audio"])


def test_frames_are_cut_at_every_rate(narrow_case):
    cut = narrow_case.decoder_inputs(10, start=3)
    tensors = narrow_case.tensors
    assert torch.equal(cut["asr"], tensors["asr"][..., 3:13])
    assert torch.equal(cut["f0"], tensors["f0"][:, 6:26])
    assert torch.equal(cut["n"], tensors["n"][:, 6:26])
    assert torch.equal(cut["harmonic_noise"], tensors["harmonic_noise"][:, 1800:7800])
    assert all(tensor.is_contiguous() for tensor in cut.values())
    assert narrow_case.decoder_inputs(start=20)["asr"].shape[-1] == narrow_case.frames - 20


def test_the_noise_is_cut_to_the_first_frames(narrow_case):
    assert torch.equal(narrow_case.noise(2).harmonic, narrow_case.tensors["harmonic_noise"][:, :1200])
    assert narrow_case.noise(2).branch.shape == (1, 1200, 1)


@pytest.mark.parametrize(("beyond", "start"), [(1, 0), (0, 1), (-9999, 0), (0, -1)])
def test_frames_that_are_not_there_are_refused(narrow_case, beyond, start):
    with pytest.raises(
        InputError, match=f"the utterance has {narrow_case.frames}; choose fewer, or give a longer text"
    ):
        narrow_case.decoder_inputs(narrow_case.frames + beyond, start)


def test_noise_that_is_not_there_is_refused(narrow_case):
    with pytest.raises(InputError, match=f"Frames 0 to {narrow_case.frames + 1} do not exist"):
        narrow_case.noise(narrow_case.frames + 1)


def test_the_same_seed_gives_the_same_audio_another_seed_other_noise(narrow):
    first, again, other = (_capture(narrow, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.tensors["audio"], again.tensors["audio"])
    assert not torch.equal(first.tensors["audio"], other.tensors["audio"])
    assert torch.equal(first.tensors["f0"], other.tensors["f0"])


@pytest.mark.parametrize("kind", ["gaussian", "zero", "tonal"])
def test_every_kind_of_noise_is_the_one_that_was_drawn(narrow, kind):
    case = _capture(narrow, noise_kind=kind)
    drawn = noise.draw(case.frames, case.seed, kind)
    assert torch.equal(case.noise().harmonic, drawn.harmonic)
    assert torch.isfinite(case.tensors["audio"]).all()
    with noise.replayed(drawn):
        audio, _ = narrow.model.forward_with_tokens(case.tensors["ids"], case.tensors["ref_s"], 1.0)
    assert torch.equal(audio, case.tensors["audio"])


def test_speed_divides_the_durations(narrow):
    normal, slow = _capture(narrow), _capture(narrow, speed=0.5)
    # round(2 d) is at most 0.5 + 2 * 0.5 = 1.5 from 2 round(d), and both are whole numbers
    assert (slow.tensors["durations"] - 2 * normal.tensors["durations"]).abs().max() <= 1
    assert slow.frames > 1.5 * normal.frames


@pytest.mark.parametrize("speed", [0, -1, float("nan"), float("inf"), "fast", None])
def test_other_speeds_are_refused(narrow, speed):
    with pytest.raises(InputError, match=r"The speed must be a number above 0, it is .*; 1 is normal"):
        _capture(narrow, speed=speed)


def test_a_capture_is_of_the_unpatched_model(narrow):
    plain = _capture(narrow)
    with patched(narrow.model, ("explicit_noise", "constant_scale")):
        inside = _capture(narrow)
        assert active() == ("constant_scale", "explicit_noise")
    assert torch.equal(inside.tensors["audio"], plain.tensors["audio"])


def test_capture_leaves_no_hook(narrow, narrow_case):
    model = narrow.model
    parts = (model.decoder, model.text_encoder, model.predictor.text_encoder)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in parts)
