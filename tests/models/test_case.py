import math

import pytest
import torch

from kokoro_nb.models import noise
from kokoro_nb.models.case import capture
from kokoro_nb.models.noise import draw, explicit, given, replayed
from kokoro_nb.models.patches import active, patched
from tests.refusals import refused


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
        refused(words, part, frames)


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


@pytest.mark.parametrize("speed", [0, "fast"])
def test_other_speeds_are_refused(narrow, speed):
    refused(r"The speed must be a number above 0, it is .*; 1 is normal", _capture, narrow, speed=speed)


def test_a_capture_is_of_the_unpatched_model(narrow):
    plain = _capture(narrow)
    with patched(narrow.model, ("explicit_noise", "constant_scale")):
        inside = _capture(narrow)
        assert active() == ("constant_scale", "explicit_noise")
    assert torch.equal(inside.tensors["audio"], plain.tensors["audio"])
    model = narrow.model
    parts = (model.decoder, model.text_encoder, model.predictor.text_encoder)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in parts)


def test_a_draw_has_the_shapes_and_moments_of_the_model_s_own():
    noise = draw(24, seed=0)
    assert noise.initial_phase.shape == (1, 9)
    assert noise.harmonic.shape == (1, 14_400, 9)  # 24 frames of 600 samples
    assert noise.branch.shape == (1, 14_400, 1)
    assert ((noise.initial_phase >= 0) & (noise.initial_phase < 1)).all()
    assert abs(noise.harmonic.mean()) < 0.01  # 129 600 values: a standard error of 0.003
    assert abs(noise.harmonic.std() - 1) < 0.01


def test_zero_noise_is_zero_and_tonal_noise_a_product_of_tones_of_the_time():
    assert not draw(2, 0, "zero").harmonic.any()
    tonal = draw(50, 0, "tonal").harmonic
    assert (tonal == tonal[..., :1]).all()
    for sample in (0, 1, 29_999):
        time = sample / 24_000
        assert tonal[0, sample, 0] == pytest.approx(math.sin(137 * time) * math.cos(211 * time), abs=1e-6)


def test_replayed_answers_the_model_s_own_draws():
    noise = draw(2, 0)
    with replayed(noise):
        assert torch.equal(torch.rand(1, 9), noise.initial_phase)
        assert torch.equal(torch.randn_like(torch.zeros(1, 1200, 9)), noise.harmonic)
        assert torch.equal(torch.randn_like(torch.zeros(1, 1200, 1)), noise.branch)
        assert torch.randn_like(torch.zeros(1, 1200, 9, dtype=torch.float64)).dtype == torch.float64
        torch.rand(1, 9)[:, 0] = 7  # as the model does with its zero
    assert not torch.equal(torch.randn_like(torch.zeros(1, 1200, 9)), noise.harmonic)
    assert (noise.initial_phase < 1).all(), "copies are handed out"


def test_explicit_noise_holds_inside_and_nests():
    outer, inner = draw(2, 0), draw(2, 1)
    with explicit(outer):
        with explicit(inner):
            assert given() is inner
        assert given() is outer
    with pytest.raises(RuntimeError, match=r"no noise was given: call inside noise\.explicit"):
        given()
