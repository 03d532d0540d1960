import math

import pytest
import torch

from kokoro_nb.models.noise import draw, explicit, given, replayed


def test_a_draw_has_the_shapes_and_moments_of_the_model_s_own():
    noise = draw(24, seed=0)
    assert noise.initial_phase.shape == (1, 9)
    assert noise.harmonic.shape == (1, 14_400, 9)  # 24 frames of 600 samples
    assert noise.branch.shape == (1, 14_400, 1)
    assert ((noise.initial_phase >= 0) & (noise.initial_phase < 1)).all()
    assert abs(noise.harmonic.mean()) < 0.01  # 129 600 values: a standard error of 0.003
    assert abs(noise.harmonic.std() - 1) < 0.01


def test_a_draw_depends_on_its_seed_alone():
    torch.manual_seed(1)
    first = draw(2, seed=3)
    torch.manual_seed(2)
    again, other = draw(2, seed=3), draw(2, seed=4)
    for site in ("initial_phase", "harmonic", "branch"):
        assert torch.equal(getattr(first, site), getattr(again, site))
        assert not torch.equal(getattr(first, site), getattr(other, site))


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
    with replayed() as mode:
        assert not torch.equal(torch.rand(1, 9), torch.rand(1, 9))
        mode.noise = draw(2, 0)
        assert torch.equal(torch.rand(1, 9), torch.rand(1, 9))


def test_explicit_noise_holds_inside_and_nests():
    outer, inner = draw(2, 0), draw(2, 1)
    with explicit(outer):
        with explicit(inner):
            assert given() is inner
        assert given() is outer
    with pytest.raises(RuntimeError, match=r"no noise was given: call inside noise\.explicit"):
        given()
