"""Sounds inside a page: a spectrogram of a pixel for each band and frame, and a curve of blocks."""

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.embedded import BROKEN, FLOOR_DB, MELS, SHADES, envelope, mono, spectrograms

SR, HOP = 24_000, 128


def shades(png):
    with Image.open(io.BytesIO(base64.b64decode(png))) as image:
        return np.asarray(image)


def drawn(**samples):
    return spectrograms({name: np.asarray(y, np.float64) for name, y in samples.items()}, next(iter(samples)), SR, HOP)


def test_mono_refuses_what_is_no_audio():
    assert mono(torch.ones(1, 1, 5, requires_grad=True), SR).shape == (5,), "axes of length 1 are dropped"
    for y, sr, match in (
        (np.zeros((2, 3)), SR, "one channel"),
        (np.zeros(0), SR, "one channel"),
        (np.zeros(3, np.int16), SR, "floating-point"),
        (np.zeros(3), 24000.5, "sampling rate"),
    ):
        with pytest.raises(InputError, match=match):
            mono(y, sr)


def test_all_versions_have_one_scale_that_reaches_up_to_the_loudest(voice):
    made = drawn(reference=voice, louder=10 * voice, quieter=voice / 100)
    # ten times the amplitude is 20 dB
    assert made.top_db == pytest.approx(20)
    step = (made.top_db - FLOOR_DB) / (SHADES - 1)
    pixels = {name: shades(png).astype(float) for name, png in made.images.items()}
    assert pixels["louder"].shape == (MELS, 1 + voice.size // HOP) == (MELS, made.columns)
    assert pixels["louder"][-20:].max() == SHADES - 1, "low frequencies are at the bottom"
    inside = (pixels["quieter"] > 0) & (pixels["louder"] < SHADES - 1)
    assert inside.any()
    # 60 dB from a hundredth to ten times, rounded to a shade at each end
    assert np.abs((pixels["louder"] - pixels["quieter"])[inside] * step - 60).max() <= step


def test_frames_that_touch_a_nan_are_striped_and_no_other(voice, broken):
    pixels = shades(drawn(reference=voice, broken=broken).images["broken"])
    striped = (pixels >= SHADES).all(axis=0)
    assert ((pixels >= SHADES).any(axis=0) == striped).all()
    # frame t covers 512 samples to either side of t * HOP
    centres = np.arange(pixels.shape[1]) * HOP
    np.testing.assert_array_equal(striped, (centres + 512 > 3000) & (centres - 512 < 6000))
    assert {SHADES, SHADES + 1} <= set(pixels[:, striped].ravel()), "two colours, or it would be no stripe"


@pytest.mark.parametrize("fill", [0, np.nan])
def test_a_reference_that_is_silent_or_nan_leaves_the_scale_to_the_others(voice, fill):
    made = drawn(reference=np.full(voice.size, fill), voice=voice)
    assert made.about == "the loudest of all"
    assert shades(made.images["voice"]).max() == SHADES - 1


def test_an_envelope_has_the_smallest_and_the_largest_of_each_block_and_marks_what_is_not_finite():
    made = envelope(np.array([0.0, 0.5, -1.0, 0.25, np.inf, -0.25, 0.5]), 3)
    assert (made.block, made.peak) == (3, 1.0)
    # 127 times -1 and 0.5; broken; 0.5 alone
    assert made.values.tolist() == [-127, 64, BROKEN, BROKEN, 64, 64]
    assert np.frombuffer(base64.b64decode(made.text), np.int8).tolist() == made.values.tolist()
    made = [envelope(np.array(y), 2) for y in ([0.0] * 4, [np.nan] * 4, [0, np.nan], [0, 2e-7])]
    extents = ["exactly 0", "nowhere finite", "exactly 0 where it is finite", "at most 2e-7"]
    assert [one.extent for one in made] == extents
    assert [one.silent for one in made] == [True, False, False, False]
