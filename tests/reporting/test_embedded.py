import base64
import io

import numpy as np
import pytest
from PIL import Image

from kokoro_nb.reporting.embedded import BROKEN, FLOOR_DB, MELS, SHADES, envelope, spectrograms

SR, HOP = 24_000, 128


def shades(png):
    with Image.open(io.BytesIO(base64.b64decode(png))) as image:
        assert image.mode == "P"
        return np.asarray(image)


def drawn(**samples):
    return spectrograms({name: np.asarray(y, np.float64) for name, y in samples.items()}, next(iter(samples)), SR, HOP)


def test_one_pixel_per_band_and_frame_and_the_loudest_of_the_reference_is_the_top(voice):
    made = drawn(reference=voice)
    pixels = shades(made.images["reference"])
    assert pixels.shape == (MELS, 1 + voice.size // HOP) == (MELS, made.columns)
    assert (pixels.max(), made.top_db, made.about) == (SHADES - 1, 0.0, "the loudest of reference")
    tone = 0.1 * np.sin(2 * np.pi * 100 * np.arange(12_000) / SR)
    column = shades(drawn(tone=tone).images["tone"])[:, 40]
    assert column[-5:].max() == SHADES - 1, "low frequencies are at the bottom"
    assert column[:40].max() == 0


def test_all_versions_have_one_scale_that_reaches_up_to_the_loudest(voice):
    made = drawn(reference=voice, louder=10 * voice, quieter=voice / 100)
    # ten times the amplitude is 20 dB
    assert made.top_db == pytest.approx(20)
    step = (made.top_db - FLOOR_DB) / (SHADES - 1)
    pixels = {name: shades(png).astype(float) for name, png in made.images.items()}
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
    assert shades(drawn(reference=voice).images["reference"]).max() < SHADES


def test_a_reference_that_is_silent_or_nan_leaves_the_scale_to_the_others(voice):
    for reference in (np.zeros(voice.size), np.full(voice.size, np.nan)):
        made = drawn(reference=reference, voice=voice)
        assert made.about == "the loudest of all"
        assert shades(made.images["voice"]).max() == SHADES - 1
    made = drawn(reference=np.zeros(2000))
    assert made.about == "a power of 1"
    assert not shades(made.images["reference"]).any()


def test_an_envelope_has_the_smallest_and_the_largest_of_each_block():
    y = np.array([0.0, 0.5, -1.0, 0.25, 0.75, -0.25, 0.5])
    made = envelope(y, 3)
    assert (made.block, made.peak) == (3, 1.0)
    # 127 times -1 and 0.5; -0.25 and 0.75; 0.5 alone
    assert made.values.tolist() == [-127, 64, -32, 95, 64, 64]
    assert np.frombuffer(base64.b64decode(made.text), np.int8).tolist() == made.values.tolist()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_block_that_is_not_finite_is_marked_and_the_others_keep_their_scale(bad):
    made = envelope(np.array([0.5, -0.5, 0.25, bad, 0.1, 0.1]), 3)
    assert made.values[2:4].tolist() == [BROKEN, BROKEN]
    assert made.values[:2].tolist() == [-127, 127]
    made = [made, *(envelope(np.array(y), 2) for y in ([0.0] * 4, [bad] * 4, [0, bad], [0, 2e-7]))]
    assert [one.extent for one in made] == [
        *("at most 0.5 where it is finite", "exactly 0", "nowhere finite", "exactly 0 where it is finite"),
        "at most 2e-7",
    ]
    assert [one.silent for one in made] == [False, True, False, False, False]
